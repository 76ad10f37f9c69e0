"""Bad arguments: every message names the argument, the rule and the value."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import koloss as kl

GOOD = np.ones((2, 3))

BAD_POINTS = [
    pytest.param([1.0, 2.0], ValueError, "must be 2-D, got ndim=1; for scalar points pass a column, x[:, None]", id="1-D"),
    pytest.param(3.0, ValueError, "must be 2-D, got ndim=0", id="number"),
    pytest.param(np.ones((1, 2, 3)), ValueError, "must be 2-D, got ndim=3", id="3-D"),
    pytest.param(np.empty((0, 3)), ValueError, "must not be empty, got shape (0, 3)", id="no points"),
    pytest.param(np.empty((2, 0)), ValueError, "must not be empty, got shape (2, 0)", id="no columns"),
    pytest.param([[1.0, math.nan, 0.0]], ValueError, "must be finite, got NaN or infinity", id="NaN"),
    pytest.param([[1.0, -math.inf, 0.0]], ValueError, "must be finite, got NaN or infinity", id="infinity"),
    pytest.param([[1j, 0, 0]], TypeError, "must hold real numbers, got dtype complex128", id="complex"),
    pytest.param([["a", "b", "c"]], TypeError, "must be an array of numbers, got [['a', 'b', 'c']]", id="words"),
    pytest.param([["1", "2", "3"]], TypeError, "must be an array of numbers, got [['1', '2', '3']]", id="digits"),
    pytest.param(np.array([["1"]]), TypeError, "must hold real numbers, got dtype <U1", id="array of words"),
    pytest.param(None, TypeError, "must be an array of numbers, got None", id="None"),
    pytest.param([[1, 2, 3], [4]], TypeError, "must be an array of numbers, got [[1, 2, 3], [4]]", id="ragged"),
    pytest.param([[10**400]], TypeError, "must be an array of numbers, got [[1000", id="beyond floats"),
]  # fmt: skip


@pytest.mark.parametrize("bad, error, message", BAD_POINTS)
@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Gaussian(1.0), kl.Linear() * kl.Periodic(1.0)])
def test_points(kernel, bad, error, message):
    for call in (kernel, kernel.diag, kernel.gradient):
        with pytest.raises(error, match=re.escape("`X` " + message)):
            call(bad)
    if bad is not None:
        with pytest.raises(error, match=re.escape("`Y` " + message)):
            kernel(GOOD, bad)
        with pytest.raises(error, match=re.escape("`Y` " + message)):
            kernel.gradient(GOOD, bad)
    with pytest.raises(error, match=re.escape("`X` " + message)):
        kl.Quadratic().features(bad)
    with pytest.raises(error, match=re.escape("`X` " + message)):
        kl.Points(bad)


def test_columns_must_agree():
    for call in (kl.Gaussian(1.0), kl.Gaussian(1.0).gradient):
        with pytest.raises(ValueError, match=r"`Y` must have 3 columns as `X` has, got 2"):
            call(GOOD, np.ones((4, 2)))


@pytest.mark.parametrize("kernel", [kl.Linear(), kl.Matern(1.2, 1.0)])
@pytest.mark.parametrize(
    "weights, error, message",
    [
        (np.ones(3), ValueError, "`weights` must have shape (4,) or (2, 4), got (3,)"),
        (np.ones((4, 2)), ValueError, "`weights` must have shape (4,) or (2, 4), got (4, 2)"),
        (np.ones((1, 2, 4)), ValueError, "`weights` must have shape (4,) or (2, 4), got (1, 2, 4)"),
        (1.0, ValueError, "`weights` must have shape (4,) or (2, 4), got ()"),
        ([1, 2, 3, math.nan], ValueError, "`weights` must be finite"),
        ([1, 2, 3, 1j], TypeError, "`weights` must hold real numbers"),
        ([[1, 2], [3]], TypeError, "`weights` must be an array of numbers, got [[1, 2], [3]]"),
        ("four", TypeError, "`weights` must be an array of numbers, got 'four'"),
    ],
)
def test_weights_of_gradients(kernel, weights, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kernel.gradient(GOOD, np.zeros((4, 3)), weights)


@pytest.mark.parametrize(
    "weights, error, message",
    [
        (np.ones(3), ValueError, "`weights` must have length 2, got 3"),
        (np.ones((2, 1)), ValueError, "`weights` must be 1-D, got ndim=2"),
        ([1.0, math.inf], ValueError, "`weights` must be finite"),
        (["a", "b"], TypeError, "`weights` must be an array of numbers, got ['a', 'b']"),
    ],
)
def test_weights_of_embeddings(weights, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Gaussian(1.0).embed(GOOD, weights)


@pytest.mark.parametrize(
    "points, error, message",
    [
        ([], ValueError, "`points` must not be empty, got shape (1, 0)"),
        (5.0, ValueError, "`points` must be 2-D, got ndim=0"),
        ([1.0, math.nan], ValueError, "`points` must be finite"),
        ("ab", TypeError, "`points` must be an array of numbers, got 'ab'"),
        (None, TypeError, "`points` must be an array of numbers, got None"),
    ],
)
def test_points_of_embeddings(points, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Linear().embed(points)


BAD_LENGTHS = [
    (0, ValueError, "must be positive, got 0"),
    (-0.1, ValueError, "must be positive, got -0.1"),
    (math.nan, ValueError, "must be finite, got nan"),
    (math.inf, ValueError, "must be finite, got inf"),
    (-math.inf, ValueError, "must be finite, got -inf"),
    (10**400, ValueError, "must be finite, got inf"),
    (1e-151, ValueError, "must be between 1e-150 and 1e150, got 1e-151"),
    (1e151, ValueError, "must be between 1e-150 and 1e150, got 1e+151"),
    (True, TypeError, "must be a number, got True"),
    (np.True_, TypeError, "must be a number, got np.True_"),
    ("1", TypeError, "must be a number, got '1'"),
    (b"1", TypeError, "must be a number, got b'1'"),
    (None, TypeError, "must be a number, got None"),
    (1j, TypeError, "must be a number, got 1j"),
    (np.complex128(1), TypeError, "must be a number, got np.complex128(1+0j)"),
    ([1.0], TypeError, "must be a number, got [1.0]"),
    (np.ones(2), TypeError, "must be a number, got array([1., 1.])"),
]


@pytest.mark.parametrize("value, error, message", BAD_LENGTHS, ids=lambda v: str(v)[:20])
@pytest.mark.parametrize(
    "name, make",
    [
        ("bandwidth", kl.Gaussian),
        ("lengthscale", lambda v: kl.Matern(1.5, v)),
        ("lengthscale", kl.Periodic),
        ("period", lambda v: kl.Periodic(1.0, period=v)),
    ],
    ids=["gaussian", "matern", "periodic", "period"],
)
def test_lengths(name, make, value, error, message):
    with pytest.raises(error, match=re.escape(f"`{name}` {message}")):
        make(value)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (0.0, ValueError, "`smoothness` must be positive, got 0"),
        (-1, ValueError, "`smoothness` must be positive, got -1"),
        (math.nan, ValueError, "`smoothness` must be finite, got nan"),
        (100.5, ValueError, "`smoothness` must be at most 100 (Gaussian is the limit), got 100.5"),
        (False, TypeError, "`smoothness` must be a number, got False"),
        ("5/2", TypeError, "`smoothness` must be a number, got '5/2'"),
    ],
)
def test_smoothness(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Matern(value, 1.0)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (0, ValueError, "`degree` must be at least 1, got 0"),
        (-2, ValueError, "`degree` must be at least 1, got -2"),
        (2.5, TypeError, "`degree` must be an integer, got 2.5"),
        (2.0, TypeError, "`degree` must be an integer, got 2.0"),
        (True, TypeError, "`degree` must be an integer, got True"),
        (np.True_, TypeError, "`degree` must be an integer, got np.True_"),
        ("2", TypeError, "`degree` must be an integer, got '2'"),
        (None, TypeError, "`degree` must be an integer, got None"),
    ],
)
def test_degree(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Polynomial(value)


@pytest.mark.parametrize(
    "value, error, message",
    [
        (-0.5, ValueError, "`offset` must be at least 0, got -0.5"),
        (math.nan, ValueError, "`offset` must be finite, got nan"),
        (True, TypeError, "`offset` must be a number, got True"),
    ],
)
def test_offset(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Polynomial(2, offset=value)


@pytest.mark.parametrize(
    "kernel", [kl.Linear(), kl.Gaussian(1.0), kl.Matern(0.7, 1.0), kl.Periodic(1.0)]
)
@pytest.mark.parametrize(
    "value, error, message",
    [
        (-1e-3, ValueError, "`distance` must be at least 0, got -0.001"),
        (math.nan, ValueError, "`distance` must be finite, got nan"),
        ("far", TypeError, "`distance` must be a number, got 'far'"),
    ],
)
def test_distance_of_a_modulus(kernel, value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kernel.modulus(value, kl.Ball(2))
