"""Balls and boxes: boundaries, extreme sizes and constructor arguments."""

from __future__ import annotations

import math

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


def test_extreme_balls():
    # The origin is projected without a warning.
    assert_array_equal(kl.Ball(2, 1e10).project([[0.0, 0.0]]), [[0.0, 0.0]])
    assert kl.Ball(1000).volume() == 0.0  # below the smallest float
    assert kl.Ball(1000, 1e6).volume() == math.inf


def test_box_from_arrays_of_other_libraries_and_from_bounds(xp):
    box = kl.Box(xp.asarray([0.0, 1.0]), xp.asarray([2.0, 3.0]))
    assert box == kl.Box([0, 1], [2, 3])
    assert isinstance(box.lower, tuple)
    for bounds in ([[0, 1], [-2, 2], [3, 3]], xp.asarray([[0.0, 1.0], [-2.0, 2.0], [3.0, 3.0]])):
        assert kl.Box.from_bounds(bounds) == kl.Box([0, -2, 3], [1, 2, 3])
