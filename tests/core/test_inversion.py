"""Inversion of cumulative sums: every way gives the indices that one search for each number gives."""

from __future__ import annotations

import numpy as np
import pytest

from koloss.core import random as inversion
from koloss.core.random import CELLS, FEW_SUMS, FROM_TABLE, IN_ORDER, invert


def by_search(sums, uniform):
    return np.searchsorted(sums, uniform, side="right")


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


SIZES = [1, 2, FEW_SUMS - 1, FEW_SUMS, 1000, FROM_TABLE[0], FROM_TABLE[0] + 1, 50_000]
COUNTS = [1, IN_ORDER - 1, IN_ORDER, 3000, FROM_TABLE[1], FROM_TABLE[1] + 9]


@pytest.mark.parametrize("N", SIZES)
def test_indices_are_those_of_single_searches(N):
    rng = np.random.default_rng(N)
    for n in COUNTS:
        for sums in (hard_sums(N, rng), np.append(np.sort(rng.random(N - 1)), 1.0)):
            uniform = hard_numbers(sums, n, rng)
            index = invert(sums, uniform)
            np.testing.assert_array_equal(index, by_search(sums, uniform))
            assert index.dtype == np.int64
            assert index.max() < N


def test_every_way_is_taken_and_the_edges_matter(monkeypatch):
    rng, taken = np.random.default_rng(0), []
    for name in ("_in_order", "_from_table"):
        way = getattr(inversion, name)
        monkeypatch.setattr(
            inversion, name, lambda *args, way=way, name=name: (taken.append(name), way(*args))[1]
        )
    for N, n in [(1000, IN_ORDER - 1), (1000, IN_ORDER), (1000, FROM_TABLE[1]), (10, IN_ORDER)]:
        sums = hard_sums(N, rng)
        uniform = hard_numbers(sums, n, rng)
        index = invert(sums, uniform)
        np.testing.assert_array_equal(index, by_search(sums, uniform))
        # Negative control: the numbers are such that a search from the other side is wrong.
        assert np.any(index != np.searchsorted(sums, uniform, side="left"))
    assert taken == ["_in_order", "_from_table"]
