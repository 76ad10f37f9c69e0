"""Gaussian and periodic kernels, and squared distances where they are hard."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special
from scipy.spatial.distance import cdist

import koloss as kl
from koloss.kernels.base import squared_distances


@pytest.mark.parametrize("lengthscale", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("period", [1.0, 2 * math.pi])
def test_periodic_is_its_fourier_series(lengthscale, period):
    # exp(-κ(1 - cos θ)) = exp(-κ) Σ_j I_j(κ) cos jθ (DLMF 10.35.2)
    kappa, x = lengthscale**-2, np.linspace(-3, 3, 31)
    j = np.arange(80)
    coefficients = special.ive(j, kappa) * np.where(j == 0, 1, 2)
    expected = np.cos(2 * np.pi * np.outer(x, j) / period) @ coefficients
    kernel = kl.Periodic(lengthscale, period=period)
    assert_allclose(kernel(x[:, None], [[0.0]])[:, 0], expected, atol=1e-13)


def test_periodic_repeats(rng):
    X, Y = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (4, 2))
    kernel = kl.Periodic(0.8, period=1.5)
    assert_allclose(kernel(X + np.array([3.0, -4.5]), Y), kernel(X, Y), atol=1e-13)
    assert_allclose(kernel.diag(X + 1.5), 1.0)
    for distance in (1e9, 1e200):
        assert kl.Periodic(0.1, period=1.0).modulus(distance, kl.Ball(1)) <= math.sqrt(2)


@pytest.mark.parametrize("bandwidth", [1e-150, 1e-20, 1e-3, 1e3, 1e20, 1e150])
def test_extreme_bandwidths(bandwidth):
    X = np.array([[0.0], [1.0], [1.0]])
    kernel = kl.Gaussian(bandwidth)
    gram = kernel(X)
    off = 0.0 if bandwidth < 1 else 1.0
    assert_allclose(gram, [[1, off, off], [off, 1, 1], [off, 1, 1]], atol=1e-6)
    assert np.all(np.isfinite(kernel.gradient(X)))
    assert kernel.modulus(1.0, kl.Ball(1)) <= math.sqrt(2)
    assert kernel.modulus(1e300, kl.Ball(1)) <= math.sqrt(2)
    # Only the ratio of distance and bandwidth counts.
    X = np.random.default_rng(0).uniform(size=(6, 2))
    scale = 2.0 ** (300 if bandwidth > 1 else -300)
    assert_array_equal(kl.Gaussian(0.25 * scale)(X * scale), kl.Gaussian(0.25)(X))


def test_small_bandwidth_in_single_precision():
    X = np.array([[0.0], [1e-10], [3e-20]], dtype=np.float32)
    gram = kl.Gaussian(1e-20)(X)
    expected = [[1, 0, math.exp(-4.5)], [0, 1, 0], [math.exp(-4.5), 0, 1]]
    assert gram.dtype == np.float32
    # 9e-40 is subnormal in single precision: a few digits are left of the squared distance
    assert_allclose(gram, expected, rtol=1e-3, atol=1e-6)
    assert np.all(np.diag(kl.Periodic(1e-20)(X)) == 1)


@pytest.mark.parametrize("d", [1, 3, 16, 17, 40])
def test_offsets_do_not_matter(d, rng):
    # Numbers with few bits: the shifted points are represented exactly.
    X = rng.integers(-64, 64, (12, d)) / 16
    Y = np.concatenate([X[:3], rng.integers(-64, 64, (6, d)) / 16])
    for kernel in (kl.Gaussian(3.0), kl.Matern(0.5, 3.0), kl.Matern(1.7, 3.0)):
        shifted, plain = kernel(X + 2.0**40, Y + 2.0**40), kernel(X, Y)
        assert_allclose(shifted, plain, rtol=1e-12)
        w = rng.standard_normal(len(Y))
        shifted = kernel.gradient(X + 1 / 32 + 2.0**40, Y + 2.0**40, w)
        assert_allclose(shifted, kernel.gradient(X + 1 / 32, Y, w), rtol=1e-9, atol=1e-12)


NEIGHBOURS = {  # points that make differences of squares cancel, from two clouds
    "spread": lambda X, Y: (X, Y),
    "coincident": lambda X, Y: (X, X[::-1].copy()),
    "close": lambda X, Y: (X[:20], X[:20] + 1e-9 * Y),
    "cluster": lambda X, Y: (
        1e6 + 1e-3 * X,
        1e6 + 1e-3 * Y,
    ),  # every pair: the product is of no use
    "two clusters": lambda X, Y: (1e-6 * X, 1e-6 * Y + np.repeat([[0.0], [100.0]], 10, axis=0)),
    "far": lambda X, Y: (1e8 + X, X[:7]),  # the first far from the second
}


@pytest.mark.parametrize("d", [1, 2, 16, 17, 64])
@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_squared_distances_are_accurate_one_by_one(kind, d, rng):
    X, Y = NEIGHBOURS[kind](rng.standard_normal((30, d)), rng.standard_normal((20, d)))
    computed = squared_distances(X, Y, np)
    assert_allclose(computed, cdist(X, Y, "sqeuclidean"), rtol=1e-11, atol=0)
    same = squared_distances(X, X, np)
    assert_array_equal(np.diag(same), 0.0)
    assert_allclose(same, cdist(X, X, "sqeuclidean"), rtol=1e-11, atol=0)


def test_high_dimension_sees_coincident_points(rng):
    X, kernel = 100 + rng.standard_normal((8, 30)), kl.Matern(0.5, 1.0)
    assert_array_equal(np.diag(kernel(X, X.copy())), 1.0)
    assert kernel.embed(X[2])(X[2:3].copy())[0] == 1.0


def test_high_dimension_gram_is_positive_semidefinite_with_duplicates(rng):
    X = 1e3 + rng.standard_normal((20, 25))
    X = np.concatenate([X, X[:10], X[:3] + 1e-7])
    for kernel in (kl.Gaussian(5.0), kl.Matern(0.5, 5.0)):
        assert np.linalg.eigvalsh(kernel(X))[0] > -1e-12
