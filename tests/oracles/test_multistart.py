"""Many starts: the global minimum in low dimension, by brute force, and an honest certificate everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl
from koloss.oracles.multistart import TREE, _valleys, multistart

LINE, SEGMENT = kl.Box([-1.0], [1.0]), kl.Ball(1)
SQUARE, DISC, QUARTER = kl.Box([0, 0], [1, 1]), kl.Ball(2), kl.PositiveBall(2, 1.0, 0.1)


def expansion(actions, kernel, count, rng):
    return kl.KernelLoss(kernel, actions.sample(count, rng), rng.standard_normal(count))


@pytest.mark.slow
@pytest.mark.parametrize("actions", [LINE, SEGMENT, SQUARE, DISC, QUARTER], ids=repr)
@pytest.mark.parametrize("bandwidth", [0.1, 0.3])
def test_global_minimum_of_random_expansions(actions, bandwidth, rng):
    # Of twelve random expansions all but one at most: the share stated is 90 per cent.
    net = actions.net(0.001 if actions.dimension == 1 else 0.02)
    hits = 0
    for seed in range(12):
        loss = expansion(actions, kl.Gaussian(bandwidth), 30, rng)
        best = multistart(loss, actions, rng=seed)
        assert actions.contains(best.point[None])[0]
        assert best.value == pytest.approx(loss(best.point[None])[0], rel=1e-12)
        assert (best.certificate, best.gap, best.lower_bound) == ("local only", math.inf, -math.inf)
        hits += best.value <= loss(net.X).min() + 1e-12
    assert hits >= 11


def test_one_start_is_not_enough(rng):
    # Negative control: the expansions of the test above do have local minima.
    net, hits = DISC.net(0.02), 0
    for _ in range(20):
        loss = expansion(DISC, kl.Gaussian(0.1), 30, rng)
        hits += multistart(loss, DISC, starts=[[0.1, 0.1]]).value <= loss(net.X).min() + 1e-3
    assert hits <= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [kl.Matern(0.5, 0.3), kl.Matern(1.5, 0.3), kl.Periodic(0.5, period=1.0), kl.Polynomial(4)],
    ids=repr,
)
@pytest.mark.parametrize("actions", [SQUARE, DISC], ids=repr)
def test_other_kernels_with_kinks_too(kernel, actions, rng):
    net = actions.net(0.02)
    for seed in range(2):
        loss = expansion(actions, kernel, 15, rng)
        best = multistart(loss, actions, rng=seed)
        assert best.value <= loss(net.X).min() + 1e-9


@pytest.mark.parametrize("actions", [DISC, SQUARE, QUARTER], ids=repr)
def test_the_end_is_stationary(actions, rng):
    for seed in range(5):
        loss = expansion(actions, kl.Gaussian(0.2), 20, rng)
        x = multistart(loss, actions, rng=seed).point[None]
        step = 0.1 * loss.gradient(x)
        assert np.abs(actions.project(x - step) - x).max() <= 1e-6


def test_nonconvex_quadratic_on_a_box_by_its_corners(rng):
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 5)).reshape(5, -1).T
    box = kl.Box([-1.0] * 5, [1.0] * 5)
    for seed in range(10):
        A = rng.standard_normal((5, 5))
        A = -(A @ A.T)  # concave: the minimum is at a corner
        loss = kl.QuadraticLoss(A, rng.standard_normal(5))
        best = multistart(loss, box, rng=seed)
        assert best.value == pytest.approx(loss(corners).min(), rel=1e-9)


def test_no_gradient_at_the_edge_is_no_obstacle():
    # the square root has none at zero, which is where the minimum is
    loss = kl.PosynomialLoss(kl.Posynomial([[0.5, 0.0], [0.0, 1.0]]), [1.0, -1.0])
    best = multistart(loss, kl.Box([0, 0], [1, 1]), rng=0)
    assert best.value == pytest.approx(-1.0, abs=1e-6)


def test_seeds_and_starts(rng):
    loss = expansion(DISC, kl.Gaussian(0.2), 20, rng)
    first, second = multistart(loss, DISC, rng=3), multistart(loss, DISC, rng=3)
    assert_array_equal(first.point, second.point)
    near = multistart(loss, DISC, starts=first.point[None] + 1e-3)
    assert near.value == pytest.approx(first.value, abs=1e-12)
    assert multistart(loss, DISC, starts=4, rng=0).value >= first.value - 1e-9
    far = multistart(loss, DISC, starts=[[30.0, 40.0], [0.0, 0.0]])  # starts outside are projected
    assert DISC.contains(far.point[None])[0]
    start = first.point[None].copy()
    multistart(loss, DISC, starts=start)
    assert_array_equal(start, first.point[None])


def test_degenerate_ones():
    point = kl.Box([0.5, 0.5], [0.5, 0.5])
    bump = kl.KernelLoss(kl.Gaussian(1.0), [[0.0, 0.0]], [-1.0])
    assert_array_equal(multistart(bump, point, rng=0).point, [0.5, 0.5])
    zero = multistart(0.0 * bump, DISC, rng=0)
    assert zero.value == 0.0
    kink = kl.KernelLoss(kl.Matern(0.5, 1.0), [[0.0, 0.0]], [-1.0])
    assert multistart(kink, DISC, starts=[[0.0, 0.0]]).value == -1.0


@pytest.mark.parametrize(
    "actions, settings, error, message",
    [
        (LINE, {}, ValueError, "`loss` must have the dimension of the actions, 1, got 2"),
        (DISC, {"starts": 0}, ValueError, "`starts` must be at least 1, got 0"),
        (DISC, {"starts": True}, TypeError, "`starts` must be an integer, got True"),
        (DISC, {"starts": [[0.0]]}, ValueError, "`starts` must have 2 columns, got 1"),
        (DISC, {"steps": 0}, ValueError, "`steps` must be at least 1, got 0"),
    ],
)
def test_bad_input(actions, settings, error, message):
    loss = kl.KernelLoss(kl.Gaussian(1.0), [[0.0, 0.0]], [-1.0])
    with pytest.raises(error, match=message):
        multistart(loss, actions, **settings)


@pytest.mark.parametrize("dimension", [1, TREE, TREE + 1, 30])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_starts_have_no_lower_neighbour(dimension, far):
    """All of them and only these, the lowest first, by the definition: nearest rows by a sort of all distances."""
    rng = np.random.default_rng(dimension)
    X, neighbours = far + rng.random((200, dimension)), 7
    values = np.sort(np.round(rng.normal(size=200), 1))  # with many ties
    expected = []
    for x, value in zip(X, values, strict=True):
        near = np.argsort(np.sum((X - x) ** 2, axis=1), kind="stable")[:neighbours]
        expected.append(not (values[near] < value).any())
    found = _valleys(X, values, neighbours, 200)
    assert 1 < len(found) < 100
    assert_array_equal(found, np.flatnonzero(expected))
    assert_array_equal(_valleys(X, values, neighbours, 5), found[:5])


def test_equal_points_and_fewer_points_than_neighbours():
    for dimension in (1, TREE + 1):
        X = np.zeros((3, dimension))
        assert_array_equal(_valleys(X, np.zeros(3), 3, 9), [0, 1, 2])  # no value is lower
        assert_array_equal(_valleys(X, np.array([0.0, 0.0, 1.0]), 3, 9), [0, 1])
