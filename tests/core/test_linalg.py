"""Direct BLAS and LAPACK calls against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from koloss.core import linalg


@pytest.fixture
def game(rng):
    """Features of 40 actions, weights, and the covariance."""
    features = np.asfortranarray(rng.normal(size=(40, 6)))
    weights = rng.dirichlet(np.ones(40))
    return features, weights, features.T @ (weights[:, None] * features)


def test_factor_of_a_covariance(game):
    features, weights, sigma = game
    buffer = np.empty_like(features)
    factor = np.tril(linalg.covariance_factor(features, weights, buffer))
    np.testing.assert_allclose(factor @ factor.T, sigma, atol=1e-12)
    lower = np.tril(linalg.cholesky(np.tril(sigma)))  # the lower triangle is enough
    np.testing.assert_allclose(lower, factor, atol=1e-12)
    ridged = np.tril(linalg.mixed_factor(features, weights, 0.3))
    np.testing.assert_allclose(ridged @ ridged.T, sigma + 0.3 * np.eye(6), atol=1e-12)


def test_solve_and_leverages(game, rng):
    features, _, sigma = game
    factor, vector = linalg.cholesky(sigma), rng.normal(size=6)
    np.testing.assert_allclose(linalg.solve(factor, vector), np.linalg.solve(sigma, vector))
    expected = np.einsum("ij,jk,ik->i", features, np.linalg.inv(sigma), features)
    np.testing.assert_allclose(linalg.leverages(factor, features), expected)
    np.testing.assert_allclose(linalg.row_leverages(factor, features), expected)


def test_singular_matrices_have_no_factor(game):
    features, _, _ = game
    few = np.r_[np.ones(3) / 3, np.zeros(37)]  # three actions cannot span six dimensions
    assert linalg.covariance_factor(features, few, np.empty_like(features)) is None
    assert linalg.cholesky(np.zeros((2, 2))) is None


def test_leverages_with_a_penalty(rng):
    N = 2 * linalg.ROWS + 7  # blocks, the last one short
    features = np.asfortranarray(rng.normal(size=(N, 6)))
    weights, lengths = rng.dirichlet(np.ones(N)), [0.0, 0.1, 0.2, 0.5, 1.0, 2.0]
    sigma = features.T @ (weights[:, None] * features)
    penalty, buffer = np.diag(lengths), np.empty_like(features)
    inverse = np.linalg.inv(sigma + penalty)
    factor = linalg.covariance_factor(features, weights, buffer, penalty)
    for found, middle in zip(
        linalg.penalised_leverages(factor, features, penalty.diagonal()),
        (sigma, penalty),
        strict=True,
    ):
        form = inverse @ middle @ inverse
        np.testing.assert_allclose(found, np.einsum("ij,jk,ik->i", features, form, features))
