"""Barycentric spanners: bounded coefficients, recomputed; determinants by brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import koloss as kl


def coefficients(features, members):
    """Of every feature vector in the spanner's, by least squares."""
    return np.linalg.lstsq(features[members].T, features.T, rcond=None)[0].T


def check(features, C, rank=None):
    design = kl.barycentric_spanner(features, approximation=C)
    m = design.rank
    assert m == (features.shape[1] if rank is None else rank)
    assert len(design.support) == m
    assert_allclose(design.weights[design.support], 1 / m)
    needed = coefficients(features, design.support)
    assert_allclose(needed @ features[design.support], features, atol=1e-9)
    assert np.abs(needed).max() <= C * (1 + 1e-6)
    assert design.approximation == pytest.approx(np.abs(needed).max(), rel=1e-6)
    # |Σ c_i φ_i|² in Σ⁻¹ is m Σ c_i², at most C²m².
    g = m * np.sum(needed**2, axis=1)
    assert design.max_leverage == pytest.approx(g.max(), rel=1e-6)
    assert m * (1 - 1e-9) <= design.max_leverage <= (C * m) ** 2 * (1 + 1e-6)
    return design


@pytest.mark.parametrize("C", [1.0, 1.1, 2.0, 10.0])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda rng: rng.normal(size=(80, 5)), id="normal"),
        pytest.param(lambda rng: rng.standard_cauchy(size=(200, 3)), id="cauchy"),
        pytest.param(lambda rng: np.vander(np.linspace(-1, 1, 60), 5), id="monomials"),
        pytest.param(lambda rng: rng.integers(0, 2, size=(100, 6)).astype(float), id="binary"),
        pytest.param(lambda rng: rng.normal(size=(30, 1)), id="scalars"),
        pytest.param(lambda rng: rng.normal(size=(4, 4)), id="as many as dimensions"),
    ],
)
def test_coefficients_are_bounded(make, C, rng):
    check(make(rng), C)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 3), n=st.integers(3, 9))
def test_determinant_is_a_local_maximum(seed, m, n):
    X = np.random.default_rng(seed).normal(size=(n, m))
    design = kl.barycentric_spanner(X, approximation=1.0)
    chosen = design.support.tolist()
    volume = abs(np.linalg.det(X[chosen]))
    for old, new in itertools.product(range(m), range(n)):
        exchanged = chosen.copy()
        exchanged[old] = new
        assert abs(np.linalg.det(X[exchanged])) <= volume * (1 + 1e-8)
    # Coefficients in [-1, 1] bound every other determinant by Hadamard: m^(m/2) times this one.
    largest = max(abs(np.linalg.det(X[list(c)])) for c in itertools.combinations(range(n), m))
    assert largest <= m ** (m / 2) * volume * (1 + 1e-8)


def test_exchanges_happen():
    # The greedy start is not always good enough: here a coefficient of 1.46 remains.
    X = np.random.default_rng(24).uniform(size=(30, 6))
    loose, tight = check(X, 10.0), check(X, 1.0)
    assert tight.approximation <= 1 + 1e-8 < 1.4 < loose.approximation
    assert set(tight.support) != set(loose.support)


@pytest.mark.parametrize("rank", [1, 3])
def test_rank_deficient_features(rng, rank):
    check(rng.normal(size=(40, rank)) @ rng.normal(size=(rank, 6)), 1.5, rank=rank)


def test_duplicates_and_zeros(rng):
    X = np.vstack([np.zeros((2, 3)), np.repeat(rng.normal(size=(5, 3)), 4, axis=0)])
    assert check(X, 1.0).support.min() >= 2


def test_never_better_than_the_optimal_design(rng):
    X = rng.normal(size=(60, 4))
    optimal = kl.john_design(X, tolerance=1e-6).max_leverage
    for design in (kl.barycentric_spanner(X), kl.uniform_design(X)):
        assert design.max_leverage >= optimal * (1 - 1e-6)
