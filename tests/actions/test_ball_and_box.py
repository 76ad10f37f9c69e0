"""Balls and boxes: boundaries, extreme sizes and constructor arguments."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("radius", [1e-150, 1e-3, 1.0, 1e5, 1e150])
def test_boundary_of_a_ball_belongs_to_it(d, radius, rng):
    ball = kl.Ball(d, radius)
    edge = rng.standard_normal((100, d))
    edge *= radius / np.linalg.norm(edge, axis=1, keepdims=True)
    assert np.all(ball.contains(edge))
    assert np.all(ball.contains(edge.astype(np.float32) if 1e-30 < radius < 1e30 else edge))
    assert not np.any(ball.contains(edge * (1 + 1e-9)))
    assert np.all(ball.contains(np.zeros((1, d))))


def test_boundary_of_a_box_belongs_to_it():
    box = kl.Box([-1.0, 0.1, 3.0], [1.0, 0.3, 3.0])
    corners = [[a, b, 3.0] for a in (-1.0, 1.0) for b in (0.1, 0.3)]
    assert np.all(box.contains(corners))
    assert np.all(box.contains(np.asarray(corners, dtype=np.float32)))
    assert_array_equal(
        box.contains([[1 + 1e-9, 0.2, 3.0], [0, 0.1 - 1e-9, 3.0], [0, 0.2, 3 + 1e-9], [0, 0.2, 3]]),
        [False, False, False, True],
    )


def test_origin_of_a_large_ball_is_projected_without_a_warning():
    assert_array_equal(kl.Ball(2, 1e10).project([[0.0, 0.0]]), [[0.0, 0.0]])


def test_volumes_in_high_dimension():
    assert kl.Ball(1000).volume() == 0.0  # below the smallest float
    assert kl.Ball(1000, 1e6).volume() == math.inf


def test_frozen_values():
    assert kl.Ball(2) == kl.Ball(2, 1.0) != kl.Ball(2, 2.0)
    assert kl.Box([0, 1], [1, 2]) == kl.Box(np.array([0.0, 1.0]), (1, 2))
    assert len({kl.Ball(2), kl.Ball(2), kl.Box([0], [1]), kl.Box([0.0], [1.0])}) == 2
    for actions in (kl.Ball(2, 0.5), kl.Box([0, -1.5], [1, 2])):
        assert eval(repr(actions), {"Ball": kl.Ball, "Box": kl.Box}) == actions
        with pytest.raises(AttributeError):
            actions.radius = actions.lower = 3.0


def test_box_from_arrays_of_other_libraries(xp):
    box = kl.Box(xp.asarray([0.0, 1.0]), xp.asarray([2.0, 3.0]))
    assert box == kl.Box([0, 1], [2, 3])
    assert isinstance(box.lower, tuple)


@pytest.mark.parametrize(
    "dimension, radius, error, message",
    [
        (0, 1.0, ValueError, "`dimension` must be at least 1, got 0"),
        (2.0, 1.0, TypeError, "`dimension` must be an integer, got 2.0"),
        (True, 1.0, TypeError, "`dimension` must be an integer, got True"),
        ("2", 1.0, TypeError, "`dimension` must be an integer, got '2'"),
        (2, 0.0, ValueError, "`radius` must be positive, got 0"),
        (2, -1, ValueError, "`radius` must be positive, got -1"),
        (2, math.nan, ValueError, "`radius` must be finite, got nan"),
        (2, math.inf, ValueError, "`radius` must be finite, got inf"),
        (2, "1", TypeError, "`radius` must be a number, got '1'"),
        (2, True, TypeError, "`radius` must be a number, got True"),
    ],
)
def test_bad_balls(dimension, radius, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Ball(dimension, radius)


@pytest.mark.parametrize(
    "lower, upper, error, message",
    [
        ([0, 2], [1, 1], ValueError, "`lower` must not exceed `upper`, got 2 > 1 at 1"),
        ([0, 0], [1], ValueError, "`upper` must have length 2, got 1"),
        ([], [], ValueError, "`lower` must not be empty, got length 0"),
        (0.0, 1.0, ValueError, "`lower` must be 1-D, got ndim=0"),
        ([[0]], [[1]], ValueError, "`lower` must be 1-D, got ndim=2"),
        ([0], [math.inf], ValueError, "`upper` must be finite, got NaN or infinity"),
        ([math.nan], [1], ValueError, "`lower` must be finite, got NaN or infinity"),
        (["a"], [1], TypeError, "`lower` must be an array of numbers, got ['a']"),
        ([0], [1j], TypeError, "`upper` must hold real numbers, got dtype complex128"),
        (None, [1], TypeError, "`lower` must be an array of numbers, got None"),
    ],
)
def test_bad_boxes(lower, upper, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Box(lower, upper)


def test_box_from_bounds(xp):
    for bounds in ([[0, 1], [-2, 2], [3, 3]], xp.asarray([[0.0, 1.0], [-2.0, 2.0], [3.0, 3.0]])):
        assert kl.Box.from_bounds(bounds) == kl.Box([0, -2, 3], [1, 2, 3])


@pytest.mark.parametrize(
    "bounds, error, message",
    [
        ([[0, 1], [1, 0]], ValueError, "`bounds` must be pairs (low, high) with low <= high, got (1, 0) at 1"),
        ([[0, 1, 2]], ValueError, "`bounds` must have 2 columns, got 3"),
        ([0, 1], ValueError, "`bounds` must be 2-D, got ndim=1"),
        ([], ValueError, "`bounds` must be 2-D, got ndim=1"),
        ([[0, math.inf]], ValueError, "`bounds` must be finite"),
        ([["a", "b"]], TypeError, "`bounds` must be an array of numbers, got [['a', 'b']]"),
    ],
)  # fmt: skip
def test_bad_bounds(bounds, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Box.from_bounds(bounds)
