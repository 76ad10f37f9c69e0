"""Bad arguments of kernels and the ends of their ranges: every message names the argument, the rule and the value.

What the checks themselves refuse is listed in tests/core/test_arrays.py; here, that each argument goes through its check.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import koloss as kl

GOOD, FOUR = np.ones((2, 3)), np.zeros((4, 3))
BAD_POINTS = [
    ([1.0, 2.0], ValueError, "must be 2-D, got ndim=1; for scalar points pass a column, x[:, None]"),
    (np.empty((0, 3)), ValueError, "must not be empty, got shape (0, 3)"),
    ([[1.0, math.nan, 0.0]], ValueError, "must be finite, got NaN or infinity"),
    (None, TypeError, "must be an array of numbers, got None"),
]  # fmt: skip


@pytest.mark.parametrize("bad, error, message", BAD_POINTS)
@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Gaussian(1.0), kl.Linear() * kl.Periodic(1.0)])
def test_points(kernel, bad, error, message):
    for call in (kernel, kernel.diag, kernel.gradient, kl.Quadratic().features, kl.Points):
        with pytest.raises(error, match=re.escape("`X` " + message)):
            call(bad)
    for call in (kernel, kernel.gradient) if bad is not None else ():
        with pytest.raises(error, match=re.escape("`Y` " + message)):
            call(GOOD, bad)


BAD_LENGTHS = [
    (0, ValueError, "must be positive, got 0"),
    (-0.1, ValueError, "must be positive, got -0.1"),
    (math.nan, ValueError, "must be finite, got nan"),
    (1e-151, ValueError, "must be between 1e-150 and 1e150, got 1e-151"),
    (1e151, ValueError, "must be between 1e-150 and 1e150, got 1e+151"),
    (True, TypeError, "must be a number, got True"),
    ("1", TypeError, "must be a number, got '1'"),
]
LENGTHS = [
    ("bandwidth", kl.Gaussian),
    ("lengthscale", lambda v: kl.Matern(1.5, v)),
    ("lengthscale", kl.Periodic),
    ("period", lambda v: kl.Periodic(1.0, period=v)),
]


@pytest.mark.parametrize("value, error, message", BAD_LENGTHS)
@pytest.mark.parametrize("name, make", LENGTHS)
def test_lengths(name, make, value, error, message):
    with pytest.raises(error, match=re.escape(f"`{name}` {message}")):
        make(value)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: kl.Gaussian(1.0)(GOOD, np.ones((4, 2))), ValueError, "`Y` must have 3 columns as `X` has, got 2"),
        (lambda: kl.Gaussian(1.0).gradient(GOOD, np.ones((4, 2))), ValueError, "`Y` must have 3 columns as `X` has, got 2"),
        (lambda: kl.Gaussian(1.0).embed(GOOD, np.ones(3)), ValueError, "`weights` must have length 2, got 3"),
        (lambda: kl.Gaussian(1.0).embed(GOOD, [1.0, math.inf]), ValueError, "`weights` must be finite"),
        (lambda: kl.Linear().embed([]), ValueError, "`points` must not be empty, got shape (1, 0)"),
        (lambda: kl.Linear().embed(None), TypeError, "`points` must be an array of numbers, got None"),
        (lambda: kl.Matern(0.0, 1.0), ValueError, "`smoothness` must be positive, got 0"),
        (lambda: kl.Matern(100.5, 1.0), ValueError, "`smoothness` must be at most 100 (Gaussian is the limit), got 100.5"),
        (lambda: kl.Polynomial(0), ValueError, "`degree` must be at least 1, got 0"),
        (lambda: kl.Polynomial(2, offset=-0.5), ValueError, "`offset` must be at least 0, got -0.5"),
        (lambda: kl.Posynomial([1, 2]), ValueError, "`exponents` must be 2-D, got ndim=1"),
        (lambda: kl.Posynomial([[math.nan, 1]]), ValueError, "`exponents` must be finite"),
        (lambda: 0 * kl.Linear(), ValueError, "`scale` must be positive, got 0"),
        (lambda: True * kl.Linear(), TypeError, "`scale` must be a number, got True"),
        (lambda: kl.kernels.Sum(1, kl.Linear()), TypeError, "`left` must be a Kernel, got 1"),
        (lambda: kl.kernels.Scaled(2.0, None), TypeError, "`kernel` must be a Kernel, got None"),
    ],
)  # fmt: skip
def test_arguments(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Matern(1.2, 1.0)])
@pytest.mark.parametrize(
    "weights, error, message",
    [
        (np.ones(3), ValueError, "`weights` must have shape (4,) or (2, 4), got (3,)"),
        (np.ones((4, 2)), ValueError, "`weights` must have shape (4,) or (2, 4), got (4, 2)"),
        ([1, 2, 3, math.nan], ValueError, "`weights` must be finite"),
        ("four", TypeError, "`weights` must be an array of numbers, got 'four'"),
    ],
)
def test_weights_of_gradients(kernel, weights, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kernel.gradient(GOOD, FOUR, weights)


@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Gaussian(1.0), kl.Matern(0.7, 1.0), kl.Periodic(1.0)])  # fmt: skip
def test_distance_of_a_modulus(kernel):
    with pytest.raises(ValueError, match=r"`distance` must be at least 0, got -0.001"):
        kernel.modulus(-1e-3, kl.Ball(2))
    with pytest.raises(ValueError, match=r"`distance` must be finite, got nan"):
        kernel.modulus(math.nan, kl.Ball(2))
    with pytest.raises(TypeError, match=r"`distance` must be a number, got 'far'"):
        kernel.modulus("far", kl.Ball(2))


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
