"""Kernels and losses at the ends of their ranges: errors that name the argument, or right values."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl


@pytest.mark.parametrize(
    "kernel, X",
    [
        (kl.Linear(), [[1e200]]),
        (kl.Quadratic(), [[1e80]]),
        (kl.Polynomial(1000), [[10.0]]),
        (kl.Polynomial(5, 1e100), [[1.0]]),
        (kl.Posynomial([[400.0]]), [[10.0]]),
        (1e300 * kl.Linear(), [[1e10]]),
        (kl.Quadratic() * kl.Quadratic(), [[1e50]]),
    ],
)
def test_values_beyond_floats_are_refused(kernel, X):
    for function in (kernel, kernel.diag):
        with pytest.raises(
            ValueError, match=r"`X` must be smaller in size: .* has no finite values"
        ):
            function(X)


@pytest.mark.parametrize("kernel", [kl.Gaussian(1e-150), kl.Matern(1.5, 1e-150)], ids=repr)
@pytest.mark.parametrize("d", [1, 3])
def test_far_points_have_nothing_in_common(kernel, d):
    X = np.array([[0.0] * d, [1e120] * d])
    np.testing.assert_array_equal(kernel(X), np.eye(2))


@pytest.mark.parametrize("degree", [1001, 10**6, 10**400])
def test_degrees(degree):
    with pytest.raises(ValueError, match="`degree` must be at most 1000, got"):
        kl.Polynomial(degree)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_norms_whose_squares_are_no_floats(size):
    assert kl.LinearLoss([3 * size, 4 * size]).norm() == pytest.approx(5 * size)
    matrix = np.zeros((2, 2))
    assert kl.QuadraticLoss(matrix, [3 * size, 4 * size]).norm() == pytest.approx(5 * size)
    bump = kl.KernelLoss(kl.Gaussian(1.0), [[0.0], [100.0]], [3 * size, 4 * size])
    assert bump.norm() == pytest.approx(5 * size)


def test_losses_beyond_floats_are_refused():
    steep = kl.LinearLoss([1e200])
    with pytest.raises(ValueError, match="`X` must be smaller in size: LinearLoss"):
        steep([[1e200]])
    with pytest.raises(ValueError, match="`vector` must be finite"):
        steep * 1e200
    bowl = kl.QuadraticLoss([[1e300]])
    with pytest.raises(ValueError, match="`X` must be smaller in size: QuadraticLoss"):
        bowl.gradient([[1e100]])


def test_numbers_that_python_does_not_write():
    with pytest.raises(TypeError, match="`X` must be an array of numbers, got"):
        kl.Linear()([[10**5000]])
    with pytest.raises(ValueError, match="`bandwidth` must be finite"):
        kl.Gaussian(10**5000)
    assert math.isclose(kl.Gaussian(1.0)([[0.0]])[0, 0], 1.0)
