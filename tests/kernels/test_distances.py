"""Distances and what becomes of them in blocks: the same, bit for bit, as all at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl
from koloss.kernels import distances
from koloss.kernels.distances import squared_distances

KERNELS = [
    kl.Gaussian(0.5),
    kl.Matern(0.5, 0.4),
    kl.Matern(2.5, 0.5),
    kl.Matern(1.2, 0.7),
    2.0 * kl.Gaussian(0.5) + kl.Matern(1.5, 1.0),
]


def points(d, kind, dtype=np.float64):
    """Two sets of points, which nobody may change."""
    rng = np.random.default_rng(d)
    X, Y = rng.random((40, d)), rng.random((53, d))
    if kind == "close":  # some pairs of every block
        Y[:20] = X[::2] + 1e-9 * rng.random((20, d))
    elif kind == "cluster":  # all pairs: the product is of no use, which a later block finds out
        X, Y = X.copy(), 1e6 + 1e-3 * Y
        X[10:] = 1e6 + 1e-3 * X[10:]
    X, Y = X.astype(dtype), Y.astype(dtype)
    X.flags.writeable = Y.flags.writeable = False
    return X, Y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["apart", "close", "cluster"])
@pytest.mark.parametrize("d, rows", [(1, 1), (5, 3), (17, 39), (60, 3)])
def test_blocks_change_nothing(d, rows, kind, dtype, monkeypatch):
    X, Y = points(d, kind, dtype)
    lengths = tuple(np.linspace(0.3, 2, d).tolist())
    every = [*KERNELS, kl.Gaussian(lengths), kl.Matern(1.5, lengths)]

    def compute():
        found = [squared_distances(X, Y, np), squared_distances(X, Y, np, lengths)]
        found += [kernel(X, Y) for kernel in every]
        found += [k.gradient(X, Y, np.ones(53)) for k in every if k not in (KERNELS[1],)]
        return found

    assert len(distances.blocks_of(X, Y)) == 1
    whole = compute()
    monkeypatch.setattr(distances, "BLOCK", rows * 53 * X.itemsize)
    assert len(distances.blocks_of(X, Y)) == -(-40 // rows)
    for one, other in zip(whole, compute(), strict=True):
        assert_array_equal(one, other)
        assert one.dtype == other.dtype == dtype


def test_a_missing_gradient_is_found_in_any_block(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 3 * 8 * 53)
    X, Y = points(2, "apart")
    Y = np.concatenate([Y[:7], X[33:34], Y[8:]])
    with pytest.raises(ValueError, match="no gradient where the two points coincide"):
        kl.Matern(0.5, 1.0).gradient(X, Y, np.ones(53))
