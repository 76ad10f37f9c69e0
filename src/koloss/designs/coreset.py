"""Designs for many actions from a few of them, certified on all.

A coreset, the longest rows in round coordinates and some at equal distances, is solved by itself; one pass over all actions finds
their leverages. Those below Harman and Pronzato's limit can be in no optimal design: where what is left is small, it becomes the
coreset, and its design is that of all actions. Otherwise the worst offenders join. The certificate is another pass over all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss._threads import single
from koloss.designs.base import inverse_root
from koloss.designs.rows import Rows
from koloss.designs.working_set import candidates, support_limit

CORESET = 16_384
"""Actions of a first coreset, or 64 for each dimension where that is more."""

ROUGH = 1e-2
"""Gap to which coresets are solved before the last."""

MISSING = 1e-8
"""Squared length of a direction, over the largest, below which a coreset is taken not to span it."""

Indices = NDArray[Any]
Floats = NDArray[Any]


def coreset_candidates(
    rows: Rows, tolerance: float, max_rounds: int
) -> Iterator[tuple[Indices, Floats]]:
    """Designs of all rows, as the actions that carry them and their weights: the first within the tolerance ends it."""
    N, m = rows.shape
    size = min(max(CORESET, 64 * m), N)
    core, target, last = _first_coreset(rows, size), max(ROUGH, tolerance), False
    start: tuple[Indices, Floats] | None = None
    for left in reversed(range(max_rounds)):
        Z = rows.take(core)
        within = None if start is None else (np.searchsorted(core, start[0]), start[1])
        for support, w in candidates(Z, float(m), None, target, max_rounds, within):
            if left > 0 and not last:
                break
            yield core[support], w
        with single:
            root = inverse_root(Z[support].T @ (w[:, None] * Z[support]))
        start, g = (core[support], w), rows.lengths(root)
        gap = float(g.max()) / m - 1
        # With room for rounding: an action too many does no harm.
        possible = np.flatnonzero(g >= m * support_limit(gap, m) * (1 - 1e-6))
        few = len(possible) <= max(4 * size, N // 16)
        if few and not last:
            core = np.union1d(possible, start[0])
        else:
            worst = np.argpartition(-g, size - 1)[:size]
            core = np.union1d(core[g[core] >= m / 2], np.union1d(worst, start[0]))
        last = few or gap <= tolerance
        target = tolerance if last else max(tolerance / 4, min(target, gap / 10))


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
