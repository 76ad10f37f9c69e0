"""Designs for many actions from a few of them, certified on all.

A coreset, the longest rows in round coordinates and some at equal distances, is solved by itself; one pass over all actions gives
their leverages, which are the certificate. Where it falls short, the next coreset has the actions of largest leverage: all that an
optimal design can have, where these are few (see `support_limit`), otherwise as many of them as fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.threads import single
from koloss.designs.base import Design, Rows, certify_rows
from koloss.designs.working_set import candidates

CORESET = 16_384
"""Actions of a first coreset, or 64 for each dimension where that is more; later ones have up to four times as many."""

ROUGH = 1e-2
"""Gap to which the first coreset is solved."""

MISSING = 1e-8
"""Squared length of a direction, over the largest, below which a coreset is taken not to span it."""

Indices = NDArray[Any]


def coreset_designs(rows: Rows, tolerance: float, max_rounds: int) -> Iterator[Design]:
    """G-optimal designs of all rows with their certificates: better ones until nobody asks for more."""
    N, m = rows.shape
    size = min(max(CORESET, 64 * m), N)
    core, target, start = _first_coreset(rows, size), max(ROUGH, tolerance), None
    for _ in range(max_rounds):
        Z = rows.take(core)
        support, w = next(candidates(Z, float(m), None, target, max_rounds, start))
        weights = np.zeros(N)
        weights[core[support]] = w
        design, g = certify_rows(rows, weights, "G-optimal design")
        yield design
        carriers, target = core[support], tolerance
        most = min(4 * size, N)
        largest = np.argpartition(-g, most - 1)[:most]
        # With room for rounding: an action too many does no harm.
        largest = largest[g[largest] >= m * support_limit(design.gap, m) * (1 - 1e-6)]
        near = core[g[core] >= m * (1 - math.sqrt(min(max(design.gap, 0.0), 1.0)))]
        core = np.union1d(np.union1d(largest, near), carriers)
        start = np.searchsorted(core, carriers), w


def support_limit(gap: float, m: int) -> float:
    """Share of m below which the leverage of an action shows that no optimal design has it, by the gap of these leverages.

    Harman and Pronzato (2007): 1 + ε/2 - √(ε(4 + ε - 4/m))/2 for a design whose largest leverage is m + ε.
    """
    epsilon = max(gap, 0.0) * m
    return 1 + epsilon / 2 - math.sqrt(epsilon * (4 + epsilon - 4 / m)) / 2


def _first_coreset(rows: Rows, size: int) -> Indices:
    """The longest rows, a quarter as many at equal distances, and what is needed to span the space."""
    N, m = rows.shape
    longest = np.argpartition(-rows.lengths(), size - 1)[:size]
    core = np.union1d(longest, np.arange(0, N, max(4 * N // size, 1)))
    for _ in range(m):  # each adds a dimension at least
        Z = rows.take(core)
        with single:
            lengths, directions = np.linalg.eigh(Z.T @ Z)
        missing = directions[:, lengths <= MISSING * lengths[-1]]
        if missing.shape[1] == 0:
            break
        farthest = np.argpartition(-rows.lengths(missing), 4 * m - 1)[: 4 * m]
        core = np.union1d(core, farthest)
    return core
