"""Lemma GtoS: leverages of a sample covariance from Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.designs import leverage_from_gram


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
