"""Inversion of cumulative sums: in order or not, the indices are those of one search for each number."""

from __future__ import annotations

import numpy as np
import pytest

from koloss.core.random import IN_ORDER, invert

CELLS = 2**16
"""Edges that numbers and sums have in common."""


def hard_sums(N, rng):
    """Cumulative sums on the edges of cells, some of them several times, some next to each other, the last one 1."""
    edges = rng.integers(0, CELLS + 1, N) / CELLS
    beside = np.nextafter(edges, rng.integers(0, 2, N))
    sums = np.sort(
        np.where(rng.random(N) < 0.3, beside, np.where(rng.random(N) < 0.5, edges, rng.random(N)))
    )
    sums[-1] = 1.0
    sums[: N // 10] = 0.0
    return sums  # fmt: skip


def hard_numbers(sums, n, rng):
    """Uniform numbers, and among them the sums themselves, their neighbours and the edges of cells."""
    below = np.nextafter(1.0, 0.0)
    chosen = rng.choice(sums, n)
    kinds = [
        rng.random(n),
        chosen,
        np.nextafter(chosen, 0),
        np.nextafter(chosen, 2),
        rng.integers(0, CELLS, n) / CELLS,
    ]
    return np.minimum(np.choose(rng.integers(0, len(kinds), n), kinds), below)  # fmt: skip


@pytest.mark.parametrize("N", [1, 2, 1000, 50_000])
def test_indices_are_those_of_single_searches(N):
    rng = np.random.default_rng(N)
    for n in (1, IN_ORDER - 1, IN_ORDER, 20_000):
        for sums in (hard_sums(N, rng), np.append(np.sort(rng.random(N - 1)), 1.0)):
            uniform = hard_numbers(sums, n, rng)
            index = invert(sums, uniform)
            np.testing.assert_array_equal(index, np.searchsorted(sums, uniform, side="right"))
            assert index.dtype == np.int64
            assert index.max() < N


def test_the_edges_matter():
    """The control: the numbers are such that a search from the other side is wrong."""
    rng = np.random.default_rng(0)
    sums = hard_sums(1000, rng)
    uniform = hard_numbers(sums, 5000, rng)
    assert np.any(invert(sums, uniform) != np.searchsorted(sums, uniform, side="left"))
