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

from koloss import _arrays as arrays


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


def test_long_values_are_shortened_in_messages():
    with pytest.raises(TypeError) as caught:
        arrays.as_array("x", ["word"] * 10_000, ndim=1)
    assert len(str(caught.value)) < 200


def test_points():
    assert_array_equal(arrays.as_points("X", [[1, 2]], dimension=2), [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"`X` must have 3 columns, got 2"):
        arrays.as_points("X", [[1, 2]], dimension=3)
    with pytest.raises(ValueError, match=r"`X` must not be empty, got shape \(0, 2\)"):
        arrays.as_points("X", np.empty((0, 2)))
    with pytest.raises(ValueError, match=r"`X` must not be empty, got shape \(1, 0\)"):
        arrays.as_points("X", [[]])


def test_vectors():
    assert_array_equal(arrays.as_vector("w", [1, 2], length=2), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"`w` must have length 3, got 2"):
        arrays.as_vector("w", [1, 2], length=3)
    like = np.ones(1, dtype=np.float32)
    assert arrays.as_vector("w", [1, 2], like=like).dtype == np.float32


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30))
def test_distributions_are_normalised(weights):
    total = math.fsum(weights)
    given = [w / total for w in weights]
    result = arrays.as_distribution("p", given, length=len(given))
    assert_allclose(result, given, rtol=1e-12)
    assert math.fsum(result) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(
    "value, error, message",
    [
        ([0.5, 0.6], ValueError, "`p` must sum to 1, got a sum of 1.1"),
        ([0.0, 0.0], ValueError, "`p` must sum to 1, got a sum of 0"),
        ([1.5, -0.5], ValueError, "`p` must be non-negative, got a weight of -0.5"),
        ([1.0], ValueError, "`p` must have length 2, got 1"),
        ([math.nan, 1.0], ValueError, "`p` must be finite"),
        ([[0.5, 0.5]], ValueError, "`p` must be 1-D, got ndim=2"),
    ],
)
def test_bad_distributions(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        arrays.as_distribution("p", value, length=2)


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


@pytest.mark.parametrize(
    "value, options, error, message",
    [
        (0, {"positive": True}, ValueError, "`c` must be positive, got 0"),
        (-1e-9, {"positive": True}, ValueError, "`c` must be positive, got -1e-09"),
        (0.5, {"minimum": 1.0}, ValueError, "`c` must be at least 1, got 0.5"),
        (math.nan, {}, ValueError, "`c` must be finite, got nan"),
        (math.inf, {}, ValueError, "`c` must be finite, got inf"),
        (-(10**400), {}, ValueError, "`c` must be finite, got -inf"),
        (True, {}, TypeError, "`c` must be a number, got True"),
        (np.False_, {}, TypeError, "`c` must be a number, got np.False_"),
        ("2", {}, TypeError, "`c` must be a number, got '2'"),
        (b"2", {}, TypeError, "`c` must be a number, got b'2'"),
        (None, {}, TypeError, "`c` must be a number, got None"),
        (2j, {}, TypeError, "`c` must be a number, got 2j"),
        (np.complex64(2), {}, TypeError, "`c` must be a number, got "),
        ([2.0], {}, TypeError, "`c` must be a number, got [2.0]"),
        (np.ones(2), {}, TypeError, "`c` must be a number, got array([1., 1.])"),
    ],
)
def test_bad_floats(value, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        arrays.as_float("c", value, **options)


def test_minimum_is_included():
    assert arrays.as_float("c", 1.0, minimum=1.0) == 1.0
    assert arrays.as_int("n", 3, minimum=3) == 3


@pytest.mark.parametrize("value", [5, np.int32(5), np.uint8(5), np.array(5)])
def test_integers(value):
    number = arrays.as_int("n", value, minimum=1)
    assert type(number) is int
    assert number == 5


@pytest.mark.parametrize(
    "value, error, message",
    [
        (0, ValueError, "`n` must be at least 1, got 0"),
        (1.0, TypeError, "`n` must be an integer, got 1.0"),
        (2.5, TypeError, "`n` must be an integer, got 2.5"),
        (True, TypeError, "`n` must be an integer, got True"),
        (np.True_, TypeError, "`n` must be an integer, got np.True_"),
        ("1", TypeError, "`n` must be an integer, got '1'"),
        (None, TypeError, "`n` must be an integer, got None"),
    ],
)
def test_bad_integers(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        arrays.as_int("n", value, minimum=1)


# Words, flags and intervals.


def test_one_of_a_few_words():
    assert arrays.one_of("tuning", "paper", ("sharp", "paper")) == "paper"
    for wrong in ("x", None, 3, ["sharp"], np.array(["sharp", "paper"])):
        message = f"`tuning` must be one of 'sharp', 'paper', got {wrong!r}"
        with pytest.raises(ValueError, match=re.escape(message)):
            arrays.one_of("tuning", wrong, ("sharp", "paper"))


def test_flags():
    assert arrays.as_flag("bonus", True) is True
    assert arrays.as_flag("bonus", False) is False
    for wrong in (0, 1.0, None, "yes", np.True_):
        message = f"`bonus` must be True or False, got {wrong!r}"
        with pytest.raises(TypeError, match=re.escape(message)):
            arrays.as_flag("bonus", wrong)


def test_intervals():
    low, high = arrays.as_interval("loss_range", np.array([-1, 2]))
    assert (low, high) == (-1.0, 2.0)
    assert type(low) is type(high) is float


@pytest.mark.parametrize(
    "value, error, message",
    [
        ((1, 0), ValueError, "`r` must be (low, high) with low < high, got (1, 0)"),
        ((0.5, 0.5), ValueError, "`r` must be (low, high) with low < high, got (0.5, 0.5)"),
        ((0, 1, 2), ValueError, "`r` must have length 2, got 3"),
        ((0, math.inf), ValueError, "`r` must be finite"),
        (1.0, ValueError, "`r` must be 1-D, got ndim=0"),
        ("wide", TypeError, "`r` must be an array of numbers, got 'wide'"),
    ],
)
def test_bad_intervals(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        arrays.as_interval("r", value)


# From one library to another.


def test_namespace(xp):
    assert arrays.namespace(xp.asarray([1.0])) is xp
    assert arrays.namespace([1.0], 2.0, xp.asarray([1.0])) is xp
    numpy = array_api_compat.array_namespace(np.empty(0))
    assert arrays.namespace() is arrays.namespace([1.0]) is numpy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matching_goes_both_ways(xp, dtype):
    like = xp.asarray([0.0], dtype=getattr(xp, dtype))
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


def test_matching_does_not_copy_without_need(xp):
    value = xp.asarray([1.0, 2.0])
    assert arrays.matching(value, value) is value


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


def test_frozen_is_a_copy(xp):
    value = xp.asarray([1.0, 2.0])
    copy = arrays.frozen(value)
    assert kind(copy) is xp
    value[0] = 9.0
    assert_array_equal(arrays.to_numpy(copy), [1.0, 2.0])


def test_frozen_numpy_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        arrays.frozen(np.ones(2))[0] = 2.0


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
