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
