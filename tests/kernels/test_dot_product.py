"""Feature maps of the polynomial kernels, by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl


def enumerated(degree, offset, X):
    """√(multinomial · offset^rest) x^α for every α, over the exponents themselves."""
    columns = []
    for alpha in itertools.product(range(degree + 1), repeat=X.shape[1]):
        rest = degree - sum(alpha)
        if rest < 0 or (offset == 0 and rest > 0):
            continue
        ways = math.factorial(degree)
        for power in (*alpha, rest):
            ways //= math.factorial(power)
        columns.append(math.sqrt(ways * offset**rest) * np.prod(X ** np.array(alpha), axis=1))
    return np.array(columns)


@pytest.mark.parametrize("offset", [0.0, 0.7])
@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_features_are_the_monomials(d, degree, offset, rng):
    X = rng.uniform(-2, 2, (3, d))
    kernel = kl.Polynomial(degree, offset=offset)
    features, expected = kernel.features(X).T, enumerated(degree, offset, X)
    assert features.shape == expected.shape
    assert kernel.feature_dimension(d) == len(expected)

    def order(rows):
        return rows[np.lexsort(rows.round(9).T)]

    assert_allclose(order(features), order(expected), rtol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_quadratic_features_are_matrix_and_vector(d, rng):
    X = rng.uniform(-2, 2, (4, d))
    features = kl.Quadratic().features(X)
    assert features.shape == (4, kl.Quadratic().feature_dimension(d)) == (4, d * (d + 3) // 2)
    for x, phi in zip(X, features, strict=True):
        assert_allclose(phi[:d], x**2)
        assert_allclose(phi[len(phi) - d :], x)
        # the Euclidean norm is the Frobenius norm of xx' and the norm of x together
        assert_allclose(phi @ phi, np.sum(np.outer(x, x) ** 2) + x @ x)


def test_bounds_and_lipschitz_constants_by_hand():
    ball = kl.Ball(2, 3.0)
    assert kl.Linear().lipschitz(ball) == 1.0
    # k(t) = t² + t: k'(R²) + R² k''(R²) = 2R² + 1 + 2R²
    assert_allclose(kl.Quadratic().lipschitz(ball), math.sqrt(4 * 9 + 1))
    # k(t) = (t + 1)³: 3(R² + 1)² + R² 6(R² + 1)
    assert_allclose(kl.Polynomial(3).lipschitz(ball), math.sqrt(3 * 100 + 9 * 60))
    assert_allclose(kl.Polynomial(1, offset=5.0).lipschitz(ball), 1.0)

    assert_allclose(kl.Linear().bound(kl.Ball(4, 3.0)), 9.0)
    assert_allclose(kl.Quadratic().bound(kl.Box([-1, 0], [0, 2])), 25 + 5)
    assert_allclose(kl.Polynomial(2, offset=0.5).bound(kl.Points([[1, 1], [0, -3]])), 9.5**2)
