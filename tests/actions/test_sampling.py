"""Uniform draws from balls and boxes: Kolmogorov-Smirnov tests with negative controls.

False-alarm level of every test here: 1e-6 for each statistic, were the seed drawn afresh.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import koloss as kl
from tests.support.statistics import agrees, by_law

SIZE = 20_000


def uniform(sample, cdf="uniform"):
    return agrees(by_law(sample, cdf))


@pytest.mark.parametrize("d", [1, 2, 3, 8])
@pytest.mark.parametrize("radius", [1.0, 0.2])
def test_ball_has_the_right_radii(d, radius, rng):
    norms = np.linalg.norm(kl.Ball(d, radius).sample(SIZE, rng), axis=1)
    assert uniform((norms / radius) ** d)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_ball_has_the_right_shadow_on_every_line(d, rng):
    # (1 + u'x) / 2 is Beta((d + 1)/2, (d + 1)/2) for every unit vector u
    X = kl.Ball(d).sample(SIZE, rng)
    for u in (np.eye(d)[0], np.ones(d) / np.sqrt(d)):
        assert uniform((1 + X @ u) / 2, stats.beta((d + 1) / 2, (d + 1) / 2).cdf)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_controls_for_the_ball_fail(d, rng):
    directions = rng.standard_normal((SIZE, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # radius uniform instead of its d-th power
    crowded = directions * rng.random((SIZE, 1))
    assert not uniform(np.linalg.norm(crowded, axis=1) ** d)
    # directions from the cube instead of the sphere: corners are favoured
    cube = rng.uniform(-1, 1, (SIZE, d))
    cube *= rng.random((SIZE, 1)) ** (1 / d) / np.linalg.norm(cube, axis=1, keepdims=True)
    u = np.ones(d) / np.sqrt(d)
    beta = stats.beta((d + 1) / 2, (d + 1) / 2).cdf
    shadows = [uniform((1 + cube @ v) / 2, beta) for v in (u, np.eye(d)[0])]
    assert not all(shadows)


def test_box_has_uniform_coordinates(rng):
    box = kl.Box([-1.0, 2.0, 0.0], [3.0, 2.5, 1e-3])
    X = (box.sample(SIZE, rng) - box.lower) / (np.array(box.upper) - box.lower)
    for i in range(3):
        assert uniform(X[:, i])
    # and independent ones: the difference of two modulo one is uniform again
    assert uniform((X[:, 0] - X[:, 1]) % 1)
    assert uniform((X[:, 1] - X[:, 2]) % 1)


def test_controls_for_the_box_fail(rng):
    box = kl.Box([-1.0, 2.0], [3.0, 2.5])
    # clipped normal draws
    X = box.project(np.array([1.0, 2.25]) + rng.standard_normal((SIZE, 2)) * [1.0, 0.125])
    X = (X - box.lower) / (np.array(box.upper) - box.lower)
    assert not uniform(X[:, 0])
    assert not uniform(X[:, 1])
    # a second coordinate that follows the first
    first, second = rng.random((2, SIZE))
    assert not uniform((first - (first + 0.2 * second) % 1) % 1)


def test_degenerate_box_stays_where_it_is(rng):
    X = kl.Box([0.1, 0.0], [0.1, 1.0]).sample(100, rng)
    assert np.all(X[:, 0] == 0.1)
    assert len(np.unique(X[:, 1])) == 100
