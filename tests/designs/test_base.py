"""Whitened coordinates: the covariance of the design is the identity, leverages are squared norms; leverages from Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.designs import leverage_from_gram
from koloss.errors import RankUnreachable


def covariance(features, weights):
    return features.T @ (weights[:, None] * features)


def proxy_features(X):
    return kl.pivoted_cholesky(kl.Gaussian(0.5), kl.Points(X), tolerance=1e-9).features


MAKE = {
    "normal": lambda rng: rng.normal(size=(60, 4)),
    "badly scaled": lambda rng: rng.normal(size=(60, 4)) * np.array([1e-9, 1.0, 1e4, 1e9]),
    "monomials": lambda rng: np.vander(np.linspace(0, 1, 80), 9),
    "nearly dependent": lambda rng: (
        rng.normal(size=(50, 3)) @ np.array([[1.0, 0, 1], [0, 1, 0], [0, 0, 1e-11]])
    ),
    "outlier": lambda rng: (
        rng.normal(size=(50, 3)) * np.where(np.arange(50) == 7, 1e10, 1)[:, None]
    ),
    "rank deficient": lambda rng: rng.normal(size=(60, 3)) @ rng.normal(size=(3, 7)),
    "fewer actions": lambda rng: rng.normal(size=(3, 7)),
    "proxy": lambda rng: proxy_features(rng.uniform(size=(100, 2))),
}


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("choose", [kl.john_design, kl.uniform_design, kl.barycentric_spanner])
def test_covariance_is_the_identity(make, choose, rng):
    X = make(rng)
    design = choose(X)
    white = kl.whiten(X, design)
    assert_array_equal(white.features, kl.whiten(X, design.weights).features)
    assert white.features.shape == (len(X), design.rank)
    assert white.transform.shape == (X.shape[1], design.rank)
    sigma = covariance(white.features, design.weights)
    assert_allclose(sigma, np.eye(design.rank), rtol=0, atol=1e-12)
    # Squared norms are the leverages, and so at most what the design promises.
    norms = np.sum(white.features**2, axis=1)
    assert norms.max() == pytest.approx(design.max_leverage, rel=1e-9)
    # The transform does the same to the original, up to the rounding of an ill-conditioned product.
    scaled = X / np.linalg.norm(X, axis=0)
    singular = np.linalg.svd(scaled, compute_uv=False)[: design.rank]
    room = 1e-13 * singular[0] / singular[-1] * np.sqrt(norms.max())
    assert_allclose(X @ white.transform, white.features, rtol=0, atol=room)


def test_a_proxy_stands_for_its_features(rng):
    proxy = kl.kernel_pca(kl.Gaussian(0.5), kl.Points(rng.uniform(size=(40, 2))), rank=5)
    for design in (kl.john_design, kl.uniform_design, kl.barycentric_spanner):
        assert_array_equal(design(proxy).weights, design(proxy.features).weights)
    white = kl.whiten(proxy, design(proxy)).features
    assert_array_equal(white, kl.whiten(proxy.features, design(proxy)).features)


def test_zero_columns_of_the_original_stay_out(rng):
    X = np.column_stack([rng.normal(size=(20, 2)), np.zeros(20)])
    white = kl.whiten(X, np.full(20, 0.05))
    assert white.features.shape == (20, 2)
    assert_array_equal(white.transform[2], 0)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 5), n=st.integers(6, 40))
def test_any_distribution_that_spans(seed, m, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) * 10 ** rng.uniform(-8, 8, size=m)
    weights = rng.dirichlet(np.ones(n))
    white = kl.whiten(X, weights).features
    assert_allclose(covariance(white, weights), np.eye(m), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_very_different_size(seed):
    # Σ has a condition number of 10⁸ and more, which one Cholesky factor would leave in the result.
    X, weights = np.random.default_rng(seed).normal(size=(12, 4)), 10.0 ** -np.arange(12)
    weights /= weights.sum()
    white = kl.whiten(X, weights).features
    assert_allclose(covariance(white, weights), np.eye(4), rtol=0, atol=5e-15)


@pytest.mark.parametrize("seed", range(20))
def test_a_distribution_that_does_not_span_is_refused(seed):
    # Whether the singular covariance comes out just above or below zero is chance: always an error.
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(12, 4)), np.zeros(12)
    weights[:3] = rng.dirichlet(np.ones(3))
    with pytest.raises(RankUnreachable, match="`design` must span all 4 dimensions") as info:
        kl.whiten(X, weights)
    assert info.value.rank == 4


# Leverages from Gram matrices alone (Lemma 38).


def test_factor_that_the_paper_misses(rng):
    points = kl.Points(rng.random((25, 2)))
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), points, rank=6)
    sample = proxy.features[rng.integers(25, size=30)]
    sigma = sample.T @ sample / 30
    direct = proxy.features @ np.linalg.solve(sigma, proxy.features.T)
    A = proxy.features @ sample.T
    assert_allclose(leverage_from_gram(sample @ sample.T, A, A), direct, rtol=1e-6)
    pinv = np.linalg.pinv(sample @ sample.T)
    without = A @ pinv @ pinv @ A.T  # as printed: off by exactly the number of samples
    assert_allclose(direct / without, 30, rtol=1e-5)


def test_bad_gram():
    with pytest.raises(ValueError, match="`gram` must be square"):
        leverage_from_gram(np.ones((2, 3)), np.ones((1, 2)), np.ones((1, 2)))
