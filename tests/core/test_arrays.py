"""The checks at the library's edge, and what carries arrays from one library to another."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import array_api_compat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from koloss.core import arrays


def kind(array):
    return array_api_compat.array_namespace(array)


# Arrays.


@pytest.mark.parametrize(
    "value", [[[1, 2], [3, 4]], ((1.0, 2.0), (3.0, 4.0)), [[1, 2.0], [3, 4]], [[Fraction(1), 2], [3, 4]]]
)  # fmt: skip
def test_lists_become_float64(value):
    array = arrays.as_array("x", value, ndim=2)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.float64
    assert_array_equal(array, [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integers_become_float64(xp, dtype):
    array = arrays.as_array("x", xp.asarray([1, 0, 1], dtype=getattr(xp, dtype)), ndim=1)
    assert kind(array) is xp
    assert array.dtype == xp.float64
    assert_array_equal(arrays.to_numpy(array), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_stay_what_they_are(xp, dtype):
    given = xp.asarray([1.0, 2.5], dtype=getattr(xp, dtype))
    array = arrays.as_array("x", given, ndim=1)
    assert array is given


def test_lists_of_numpy_numbers_keep_their_precision():
    assert arrays.as_array("x", [np.float32(1), np.float32(2)], ndim=1).dtype == np.float32


@pytest.mark.parametrize(
    "value, ndim, error, message",
    [
        ([1.0], 2, ValueError, "`x` must be 2-D, got ndim=1; for scalar points pass a column, x[:, None]"),
        ([[1.0]], 1, ValueError, "`x` must be 1-D, got ndim=2"),
        (1.0, 1, ValueError, "`x` must be 1-D, got ndim=0"),
        ([[[1.0]]], 2, ValueError, "`x` must be 2-D, got ndim=3"),
        ([math.nan], 1, ValueError, "`x` must be finite, got NaN or infinity among its entries"),
        ([-math.inf], 1, ValueError, "`x` must be finite, got NaN or infinity among its entries"),
        ([1 + 2j], 1, TypeError, "`x` must hold real numbers, got dtype complex128"),
        (np.array([1j]), 1, TypeError, "`x` must hold real numbers, got dtype complex128"),
        (np.array(["a"]), 1, TypeError, "`x` must hold real numbers, got dtype <U1"),
        (np.array([1, None]), 1, TypeError, "`x` must hold real numbers, got dtype object"),
        (["1", "2"], 1, TypeError, "`x` must be an array of numbers, got ['1', '2']"),
        ("12", 1, TypeError, "`x` must be an array of numbers, got '12'"),
        (b"12", 1, TypeError, "`x` must be an array of numbers, got b'12'"),
        (None, 1, TypeError, "`x` must be an array of numbers, got None"),
        ({"a": 1}, 1, TypeError, "`x` must be an array of numbers, got {'a': 1}"),
        ([[1, 2], [3]], 2, TypeError, "`x` must be an array of numbers, got [[1, 2], [3]]"),
        ([10**400], 1, TypeError, "`x` must be an array of numbers, got [100"),
        ([np.datetime64("2024-01-01")], 1, TypeError, "`x` must be an array of numbers, got ["),
    ],
)  # fmt: skip
def test_bad_arrays(value, ndim, error, message):
    with pytest.raises(error, match=re.escape(message)):
        arrays.as_array("x", value, ndim=ndim)


def test_bad_arrays_of_other_libraries(xp):
    with pytest.raises(ValueError, match=r"`x` must be finite"):
        arrays.as_array("x", xp.asarray([1.0, xp.nan]), ndim=1)
    with pytest.raises(TypeError, match=r"`x` must hold real numbers, got dtype"):
        arrays.as_array("x", xp.asarray([1j]), ndim=1)
    with pytest.raises(ValueError, match=r"`x` must be 2-D, got ndim=1"):
        arrays.as_array("x", xp.asarray([1.0]), ndim=2)


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30))
def test_distributions_are_normalised(weights):
    total = math.fsum(weights)
    given = [w / total for w in weights]
    result = arrays.as_distribution("p", given, length=len(given))
    assert_allclose(result, given, rtol=1e-12)
    assert math.fsum(result) == pytest.approx(1.0, abs=1e-15)


REFUSED = [
    (arrays.as_points, [[1, 2]], {"dimension": 3}, ValueError, "must have 3 columns, got 2"),
    (arrays.as_points, np.empty((0, 2)), {}, ValueError, "must not be empty, got shape (0, 2)"),
    (arrays.as_points, [[]], {}, ValueError, "must not be empty, got shape (1, 0)"),
    (arrays.as_vector, [1, 2], {"length": 3}, ValueError, "must have length 3, got 2"),
    (arrays.as_distribution, [0.5, 0.6], {"length": 2}, ValueError, "must sum to 1, got a sum of 1.1"),
    (arrays.as_distribution, [0.0, 0.0], {"length": 2}, ValueError, "must sum to 1, got a sum of 0"),
    (arrays.as_distribution, [1.5, -0.5], {"length": 2}, ValueError, "must be non-negative, got a weight of -0.5"),
    (arrays.as_float, 0, {"positive": True}, ValueError, "must be positive, got 0"),
    (arrays.as_float, -1e-9, {"positive": True}, ValueError, "must be positive, got -1e-09"),
    (arrays.as_float, 0.5, {"minimum": 1.0}, ValueError, "must be at least 1, got 0.5"),
    (arrays.as_float, math.nan, {}, ValueError, "must be finite, got nan"),
    (arrays.as_float, math.inf, {}, ValueError, "must be finite, got inf"),
    (arrays.as_float, 10**400, {}, ValueError, "must be finite, got inf"),
    (arrays.as_float, True, {}, TypeError, "must be a number, got True"),
    (arrays.as_float, np.False_, {}, TypeError, "must be a number, got np.False_"),
    (arrays.as_float, "2", {}, TypeError, "must be a number, got '2'"),
    (arrays.as_float, b"2", {}, TypeError, "must be a number, got b'2'"),
    (arrays.as_float, None, {}, TypeError, "must be a number, got None"),
    (arrays.as_float, 2j, {}, TypeError, "must be a number, got 2j"),
    (arrays.as_float, np.complex64(2), {}, TypeError, "must be a number, got "),
    (arrays.as_float, [2.0], {}, TypeError, "must be a number, got [2.0]"),
    (arrays.as_float, np.ones(2), {}, TypeError, "must be a number, got array([1., 1.])"),
    (arrays.as_int, 0, {"minimum": 1}, ValueError, "must be at least 1, got 0"),
    (arrays.as_int, 1.0, {"minimum": 1}, TypeError, "must be an integer, got 1.0"),
    (arrays.as_int, True, {"minimum": 1}, TypeError, "must be an integer, got True"),
    (arrays.as_int, np.True_, {"minimum": 1}, TypeError, "must be an integer, got np.True_"),
    (arrays.as_int, "1", {"minimum": 1}, TypeError, "must be an integer, got '1'"),
    (arrays.as_int, None, {"minimum": 1}, TypeError, "must be an integer, got None"),
    (arrays.as_interval, (1, 0), {}, ValueError, "must be (low, high) with low < high, got (1, 0)"),
    (arrays.as_interval, (0.5, 0.5), {}, ValueError, "must be (low, high) with low < high, got (0.5, 0.5)"),
    (arrays.as_interval, (0, 1, 2), {}, ValueError, "must have length 2, got 3"),
    *((arrays.as_flag, v, {}, TypeError, f"must be True or False, got {v!r}") for v in (0, 1.0, None, "yes", np.True_)),
    *((arrays.one_of, v, {"allowed": ("sharp", "paper")}, ValueError, f"must be one of 'sharp', 'paper', got {v!r}")
      for v in ("x", None, 3, ["sharp"], np.array(["sharp", "paper"]))),
]  # fmt: skip


@pytest.mark.parametrize("check, value, options, error, message", REFUSED)
def test_refused(check, value, options, error, message):
    with pytest.raises(error, match=re.escape("`x` " + message)):
        check("x", value, **options)


def test_accepted():
    assert_array_equal(arrays.as_points("X", [[1, 2]], dimension=2), [[1.0, 2.0]])
    assert_array_equal(arrays.as_vector("w", [1, 2], length=2), [1.0, 2.0])
    assert arrays.as_vector("w", [1, 2], like=np.ones(1, dtype=np.float32)).dtype == np.float32
    assert arrays.as_float("c", 1.0, minimum=1.0) == 1.0
    assert arrays.as_int("n", 3, minimum=3) == 3
    assert arrays.as_flag("bonus", True) is True
    assert arrays.as_flag("bonus", False) is False
    assert arrays.one_of("tuning", "paper", ("sharp", "paper")) == "paper"


def test_long_values_are_shortened_in_messages():
    with pytest.raises(TypeError) as caught:
        arrays.as_array("x", ["word"] * 10_000, ndim=1)
    assert len(str(caught.value)) < 200


def test_distributions_of_other_libraries(xp):
    p = arrays.as_distribution("p", xp.asarray([0.25, 0.75]), length=2)
    assert kind(p) is xp
    assert_array_equal(arrays.to_numpy(p), [0.25, 0.75])


# Numbers.


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), Fraction(2), Decimal(2)]
)
def test_floats(value):
    number = arrays.as_float("c", value)
    assert type(number) is float
    assert number == 2.0


@pytest.mark.parametrize("value", [5, np.int32(5), np.uint8(5), np.array(5)])
def test_integers(value):
    number = arrays.as_int("n", value, minimum=1)
    assert type(number) is int
    assert number == 5


# Words, flags and intervals.


def test_intervals():
    low, high = arrays.as_interval("loss_range", np.array([-1, 2]))
    assert (low, high) == (-1.0, 2.0)
    assert type(low) is type(high) is float


# From one library to another.


def test_namespace(xp):
    assert arrays.namespace(xp.asarray([1.0])) is xp
    assert arrays.namespace([1.0], 2.0, xp.asarray([1.0])) is xp
    numpy = array_api_compat.array_namespace(np.empty(0))
    assert arrays.namespace() is arrays.namespace([1.0]) is numpy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matching_goes_both_ways_and_copies_only_where_it_must(xp, dtype):
    like = xp.asarray([0.0], dtype=getattr(xp, dtype))
    assert arrays.matching(like, like) is like
    for value in (np.array([1.5, 2.5]), np.array([1.5, 2.5], dtype=np.float32)):
        there = arrays.matching(value, like)
        assert kind(there) is xp
        assert there.dtype == like.dtype
        back = arrays.matching(there, np.zeros(1))
        assert isinstance(back, np.ndarray)
        assert back.dtype == np.float64
        assert_array_equal(back, [1.5, 2.5])


def test_matching_takes_read_only_arrays_and_leaves_them_alone(xp):
    value = arrays.frozen(np.array([1.0, 2.0]))
    there = arrays.matching(value, xp.asarray([0.0], dtype=xp.float64))
    if there is not value:
        there[0] = 5.0
    assert_array_equal(value, [1.0, 2.0])


def test_matching_moves_between_devices():
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    like = strict.asarray([0.0], device=device)
    for value in (strict.asarray([1.0, 2.0]), np.array([1.0, 2.0])):
        there = arrays.matching(value, like)
        assert there.device == device
        assert_array_equal(arrays.to_numpy(there), [1.0, 2.0])


def test_to_numpy(xp):
    array = arrays.to_numpy(xp.asarray([[1.0, 2.0]]))
    assert type(array) is np.ndarray
    assert_array_equal(array, [[1.0, 2.0]])


def test_frozen_is_a_copy_nobody_can_change(xp):
    with pytest.raises(ValueError, match="read-only"):
        arrays.frozen(np.ones(2))[0] = 2.0
    value = xp.asarray([1.0, 2.0])
    copy = arrays.frozen(value)
    assert kind(copy) is xp
    value[0] = 9.0
    assert_array_equal(arrays.to_numpy(copy), [1.0, 2.0])


def test_assign(xp):
    array = arrays.assign(xp.zeros((2, 3)), (1, slice(None)), xp.ones(3))
    assert_array_equal(arrays.to_numpy(array), [[0, 0, 0], [1, 1, 1]])
    mask = xp.asarray([[True, False, False], [False, True, False]])
    array = arrays.assign(array, mask, xp.asarray([5.0, 7.0]))
    assert_array_equal(arrays.to_numpy(array), [[5, 0, 0], [1, 7, 1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_roundoff_is_the_largest_number_that_is_lost(xp, dtype):
    one = xp.asarray([1.0], dtype=getattr(xp, dtype))
    u = arrays.roundoff(one)
    assert float((one + u)[0]) == 1.0
    assert float((one + 1.01 * 2 * u)[0]) > 1.0


def test_equal(xp):
    value = xp.asarray([[1.0, 2.0]])
    assert arrays.equal(value, np.array([[1.0, 2.0]]))
    assert arrays.equal(value, xp.asarray([[1.0, 2.0]]))
    assert not arrays.equal(value, xp.asarray([[1.0, 2.5]]))
    assert not arrays.equal(value, xp.asarray([1.0, 2.0]))
    assert isinstance(arrays.equal(value, value), bool)
