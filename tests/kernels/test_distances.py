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
ROW = 8 * 53  # bytes of a row of distances below


def points(d, kind, dtype=np.float64):
    rng = np.random.default_rng(d)
    X, Y = rng.random((40, d)), rng.random((53, d))
    if kind == "close":  # some pairs of every block
        Y[:20] = X[::2] + 1e-9 * rng.random((20, d))
    elif kind == "cluster":  # all pairs: the product is of no use, which a later block finds out
        X, Y = X.copy(), 1e6 + 1e-3 * Y
        X[10:] = 1e6 + 1e-3 * X[10:]
    return X.astype(dtype), Y.astype(dtype)


@pytest.mark.parametrize("rows", [1, 3, 39])
@pytest.mark.parametrize("kind", ["apart", "close", "cluster"])
@pytest.mark.parametrize("d", [1, 5, 17, 60])
def test_blocks_change_nothing(d, kind, rows, monkeypatch):
    X, Y = points(d, kind)
    lengths = tuple(np.linspace(0.3, 2, d).tolist())
    every = [*KERNELS, kl.Gaussian(lengths), kl.Matern(1.5, lengths)]

    def compute():
        found = [squared_distances(X, Y, np), squared_distances(X, Y, np, lengths)]
        found += [kernel(X, Y) for kernel in every]
        found += [k.gradient(X, Y, np.ones(53)) for k in every if k not in (KERNELS[1],)]
        return found

    assert len(distances._blocks(X, Y)) == 1
    whole = compute()
    monkeypatch.setattr(distances, "BLOCK", rows * ROW)
    assert len(distances._blocks(X, Y)) == -(-40 // rows)
    for one, other in zip(whole, compute(), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("d", [2, 30])
def test_single_precision_in_blocks(d, monkeypatch):
    X, Y = points(d, "close", np.float32)
    whole = [kernel(X, Y) for kernel in KERNELS]
    monkeypatch.setattr(distances, "BLOCK", 2 * ROW)
    for one, kernel in zip(whole, KERNELS, strict=True):
        blocked = kernel(X, Y)
        assert blocked.dtype == np.float32
        assert_array_equal(one, blocked)


@pytest.mark.parametrize("d", [2, 30])
def test_points_stay_as_they_are(d, monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 3 * ROW)
    X, Y = points(d, "close")
    X.flags.writeable = Y.flags.writeable = False
    for kernel in KERNELS:
        kernel(X, Y)  # would raise
        kernel(X)


def test_a_missing_gradient_is_found_in_any_block(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 3 * ROW)
    X, Y = points(2, "apart")
    Y[7] = X[33]
    with pytest.raises(ValueError, match="no gradient where the two points coincide"):
        kl.Matern(0.5, 1.0).gradient(X, Y, np.ones(53))
