"""The positive part of a ball: geometry against solvers and quadrature, uniform draws, and what kernels say on it.

False-alarm level of every statistical test here: 1e-6 for each statistic, were the seed drawn afresh.
"""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate
from scipy.spatial.distance import cdist

import koloss as kl
from tests.support.statistics import agrees, by_law, by_laws, differs

SIZE = 20_000
SETS = [
    kl.PositiveBall(1, 2.0, 0.5),
    kl.PositiveBall(2),
    kl.PositiveBall(2, 1.0, 0.25),
    kl.PositiveBall(2, 3.0, [0.1, 2.9]),
    kl.PositiveBall(3, 1.0, [0.5, 0.0, 0.3]),
    kl.PositiveBall(6, 1.0, 0.2),
    kl.PositiveBall(12, 5.0, np.linspace(0, 2, 12)),
]
every = pytest.mark.parametrize("actions", SETS, ids=lambda s: f"{s.dimension}-{s.lower[:3]}")


# Geometry.


@every
def test_projection_against_a_solver(actions, rng):
    d = actions.dimension
    p, q = cp.Variable(d), cp.Parameter(d)
    constraints = [p >= np.asarray(actions.lower), cp.norm(p) <= actions.radius]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(p - q)), constraints)
    X = actions.radius * rng.standard_normal((8, d)) * np.geomspace(0.3, 10, 8)[:, None]
    for x, projected in zip(X, actions.project(X), strict=True):
        q.value = x
        problem.solve(solver="CLARABEL")
        assert_allclose(projected, p.value, atol=1e-3 * actions.radius)
        # The solver's point is feasible, and so at least as far, to its own accuracy.
        apart = np.linalg.norm(x - projected), np.linalg.norm(x - p.value)
        assert apart[0] <= apart[1] + 1e-6 * actions.radius


def test_projection_of_extreme_points():
    actions = kl.PositiveBall(3, 1.0, [0.1, 0.0, 0.2])
    X = [[1e300, 0, 0], [-1e300, -1, -1], [0, 0, 0], [1e-310, 1e-310, 1e300], [5, 5e-324, 5]]
    P = actions.project(X)
    assert np.all(actions.contains(P))
    assert_allclose(P[0], [math.sqrt(1 - 0.04), 0, 0.2])
    assert_allclose(P[1:3], [[0.1, 0, 0.2]] * 2)
    assert_allclose(P[3], [0.1, 0, math.sqrt(0.99)])
    tiny = kl.PositiveBall(2, 1e-150, 1e-151)
    assert_allclose(tiny.project([[1e150, 0.0]]), [[math.sqrt(0.99) * 1e-150, 1e-151]])
    inside = [[1e-200, 2e-200]]
    assert kl.PositiveBall(2, 1e-40).project(inside).tolist() == inside


@every
def test_diameter_is_attained_and_never_exceeded(actions, rng):
    d, low = actions.dimension, np.asarray(actions.lower)
    ends = low + np.diag(np.asarray(actions.upper) - low)  # the farthest along every axis: sharp
    assert np.all(actions.contains(ends))
    edge = actions.project(1e3 * np.abs(rng.normal(size=(500, d))))
    corners = np.concatenate([ends, low[None], edge])
    assert_allclose(cdist(corners, corners).max(), actions.diameter(), rtol=1e-12)
    assert_allclose(np.linalg.norm(ends, axis=1), actions.radius, rtol=1e-12)


@pytest.mark.parametrize("d", [3, 4, 9, 30])
def test_volume_by_slices(d):
    # Cut across the first coordinate: what remains is a positive ball of one dimension less.
    lower = np.linspace(0.02, 0.25, d) * math.sqrt(3 / d)
    actions = kl.PositiveBall(d, 1.3, lower)

    def slice_(x):
        return kl.PositiveBall(d - 1, math.sqrt(1.69 - x * x), lower[1:]).volume()

    expected = integrate.quad(slice_, lower[0], actions.upper[0] * (1 - 1e-12), epsrel=1e-9)[0]
    assert_allclose(actions.volume(), expected, rtol=1e-7)


@pytest.mark.parametrize("d", [1, 2, 5, 40, 500])
def test_volume_without_lower_bounds_is_an_orthant_of_the_ball(d):
    whole = kl.Ball(d, 3.0).volume()
    assert_allclose(kl.PositiveBall(d, 3.0).volume(), math.ldexp(whole, -d), rtol=1e-11)
    # and the contour integral goes over into it
    assert_allclose(kl.PositiveBall(d, 3.0, 1e-15).volume(), math.ldexp(whole, -d), rtol=1e-9)


# Uniform draws.


def uniform(sample, cdf):
    return agrees(by_law(sample, cdf))


def tail(actions, i):
    """Distribution function of coordinate i, by volumes: what lies above t is a positive ball again."""
    t = np.linspace(actions.lower[i], actions.upper[i], 60)[:-1]
    lower = np.tile(actions.lower, (len(t), 1))
    lower[:, i] = t
    above = [kl.PositiveBall(actions.dimension, actions.radius, low).volume() for low in lower]
    return lambda x: np.interp(x, [*t, actions.upper[i]], 1 - np.array([*above, 0]) / above[0])


@every
def test_every_coordinate_is_drawn_by_its_volume(actions, rng):
    X = actions.sample(SIZE, rng)
    for i in {0, actions.dimension - 1}:
        assert uniform(X[:, i], tail(actions, i))


@pytest.mark.parametrize("actions", [SETS[2], SETS[4], SETS[5]], ids=lambda s: str(s.dimension))
def test_the_same_as_rejection_and_controls_fail(actions, rng):
    X = actions.sample(SIZE, rng)
    ball = np.abs(kl.Ball(actions.dimension, actions.radius).sample(600_000, rng))
    Y = ball[np.all(ball >= actions.lower, axis=1)][:SIZE]
    assert len(Y) > 2000
    crowded = actions.project(ball[:SIZE])  # mass on the boundary
    turned = X[:, ::-1] if len(set(actions.lower)) > 1 else X**2  # another set, another density
    for u in (np.eye(actions.dimension)[0], np.ones(actions.dimension)):
        assert agrees(by_laws(X @ u, Y @ u))
    u = np.eye(actions.dimension)[0]
    assert differs(by_laws(X @ u, crowded @ u))
    assert differs(by_laws(X @ u, turned @ u))


def test_draws_from_a_sliver_and_in_high_dimension(rng):
    sliver = kl.PositiveBall(2, 1.0, [0.6, 0.8 * (1 - 1e-10)])
    X = sliver.sample(2000, rng)
    assert np.all(sliver.contains(X))
    assert len(np.unique(X, axis=0)) > 1900
    high = kl.PositiveBall(200, 1.0, 0.05)
    X = high.sample(200, rng)
    assert np.all(high.contains(X))
    assert len(np.unique(X[:, 0])) == 200


# Kernels on it: that their bounds are never exceeded is in the contract of kernels.


@pytest.mark.parametrize("powers", [(1, 2), (3, 0), (-1, 2), (-1, -0.5), (0.5, 1.5), (0, 0)])
@pytest.mark.parametrize("lower", [[0.1, 0.1], [0.7, 0.2], [0.05, 0.9]], ids=str)
def test_bound_of_one_monomial_is_exact(powers, lower):
    actions = kl.PositiveBall(2, 1.1, lower)
    x = np.append(np.linspace(lower[0], actions.upper[0], 100_001), lower[0])
    y = np.append(np.sqrt(1.21 - x[:-1] ** 2), lower[1])
    best = np.max(x ** (2 * powers[0]) * y ** (2 * powers[1]))
    assert_allclose(kl.Posynomial([powers]).bound(actions), best, rtol=1e-8)


def test_bound_takes_the_box_where_that_is_smaller():
    # x + 1/x: the monomials one by one are 1 + 16, the ends of the box around 17 - 15/16
    actions = kl.PositiveBall(1, 1.0, 0.25)
    assert_allclose(kl.Posynomial([[1], [-1]]).bound(actions), 16 + 1 / 16)
    many = kl.Posynomial(np.concatenate([np.eye(12), -np.eye(12)]))
    assert many.bound(kl.PositiveBall(12, 1.0, 0.1)) <= 12 * (1 - 0.11 + 100) + 1e-9


# Values and arguments.


def test_equal_values(xp):
    assert kl.PositiveBall(2, 1.0, xp.asarray([0.25, 0.0])) == kl.PositiveBall(2, 1.0, [0.25, 0.0])
    ball = kl.PositiveBall(2, 1.0, 0.25)
    assert ball == kl.PositiveBall(2, 1, [0.25, 0.25]) == kl.PositiveBall(2, lower=np.full(2, 0.25))
    assert ball != kl.PositiveBall(2)


def test_boundary_belongs_to_it():
    ball = kl.PositiveBall(2, 1.0, [0.6, 0.1])
    inside = [[0.6, 0.8], [0.6, 0.1], [math.sqrt(0.99), 0.1]]
    assert np.all(ball.contains(inside))
    assert np.all(ball.contains(np.asarray(inside, dtype=np.float32)))
    outside = [[0.6 - 1e-9, 0.2], [0.7, 0.1 - 1e-9], [0.6 + 1e-9, 0.8 + 1e-9]]
    assert not np.any(ball.contains(outside))


def test_a_single_point_to_rounding():
    third = 1 / math.sqrt(3)
    point = kl.PositiveBall(3, 1.0, third)  # |lower| may round to either side of 1
    assert point.diameter() < 1e-7
    assert np.all(point.contains(point.sample(5, 0)))
    assert_allclose(point.project([[5.0, 0.0, -1.0]]), [[third] * 3], rtol=1e-7)
    exact = kl.PositiveBall(2, 1.0, [0.6, 0.8])
    assert exact.volume() == exact.diameter() == 0.0
    assert_array_equal(exact.net(0.1).X, [[0.6, 0.8]])
    assert exact.net(0.1).covering_radius == 0.0
