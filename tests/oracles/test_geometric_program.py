"""Geometric programs: against CVXPY and closed forms, and a gap that never says too little."""

from __future__ import annotations

import math
import re

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.oracles import GeometricProgram
from koloss.oracles.geometric_program import LogSumExp

XY = kl.Posynomial([[1, 1]])


def random_set(kind, d, rng):
    if kind == "box":
        lower = rng.uniform(0.1, 0.5, d)
        return kl.Box(lower, lower * rng.uniform(1, 10, d))
    if kind == "thin":
        lower = rng.uniform(0.1, 1, d)
        radius = np.linalg.norm(lower) * (1 + 10.0 ** rng.uniform(-12, -1))
        return kl.PositiveBall(d, radius, lower)
    return kl.PositiveBall(d, rng.uniform(0.5, 3), rng.uniform(0.01, 0.4, d) / math.sqrt(d))


def by_solver(E, c, actions):
    """The same program by CVXPY, at its own accuracy."""
    E, c = E[c > 0], c[c > 0]
    x = cp.Variable(E.shape[1], pos=True)
    low = np.asarray(actions.lower)
    constraints = [x[i] >= low[i] for i in np.flatnonzero(low)]
    if isinstance(actions, kl.Box):
        constraints.append(x <= np.asarray(actions.upper))
    else:
        constraints.append(cp.sum(x**2) <= actions.radius**2)
    problem = cp.Problem(cp.Minimize(c @ cp.gmatmul(E, x)), constraints)
    return problem.solve(gp=True, solver="CLARABEL")


def value(E, c, x):
    """The posynomial, term by term."""
    powers = (math.prod(xi**p for xi, p in zip(x, row, strict=True)) for row in E)
    return math.fsum(ck * power for ck, power in zip(c, powers, strict=True))


def solve(E, actions, c):
    """The minimum, by a program of its own."""
    return GeometricProgram(kl.Posynomial(E), actions).minimize(c)


# Against CVXPY.


@pytest.mark.parametrize("kind", ["ball", "box"])
@pytest.mark.parametrize("d, m", [(1, 2), (3, 2), (4, 8), (6, 20), (10, 5)])
def test_against_a_solver(kind, d, m, rng):
    for zeros in (False, True, True):
        E, c = rng.normal(0, 1.5, (m, d)), np.exp(rng.normal(size=m))
        if zeros:
            E, c = np.round(E), c * (rng.random(m) < 0.7)
            c[0] = 1.0
        actions = random_set(kind, d, rng)
        best = solve(E, actions, c)
        expected = by_solver(E, c, actions)
        assert actions.contains(best.point[None])[0]
        assert best.value == pytest.approx(value(E, c, best.point), rel=1e-12)
        assert best.value == pytest.approx(expected, rel=1e-5)
        assert best.lower_bound <= expected * (1 + 1e-6)
        assert 0 <= best.gap <= 1e-11 * best.value
        assert best.certificate == "dual"


def test_lower_ends_of_zero_against_a_solver(rng):
    # A term 1/x_i keeps every coordinate away from zero; no lower end does.
    for d in (1, 2, 3, 5):
        E = np.concatenate([rng.normal(size=(4, d)), -np.diag(rng.uniform(0.5, 2, d))])
        c = np.exp(rng.normal(size=d + 4))
        for actions in (kl.PositiveBall(d, 1.5), kl.Box([0.0] * d, [1.2] * d)):
            best = solve(E, actions, c)
            assert best.value == pytest.approx(by_solver(E, c, actions), rel=1e-5)
            assert best.gap <= 1e-10 * best.value


# The certificate.


@pytest.mark.parametrize("kind", ["ball", "box"])
def test_the_certificate_of_any_point_holds(kind, rng):
    # Also where a point is far from the minimum: the gap says at least how far.
    slack = []
    for _ in range(20):
        E, c = rng.normal(size=(5, 3)), np.exp(rng.normal(size=5))
        actions = random_set(kind, 3, rng)
        lowest = GeometricProgram(kl.Posynomial(E), actions).minimize(c).value
        budget = None if kind == "box" else 2 * math.log(actions.radius)
        program = LogSumExp(E, np.log(c), np.log(actions.lower), np.log(actions.upper), budget)
        for x in actions.sample(20, rng):
            at, gap = program.certify(np.log(x))
            assert at == pytest.approx(value(E, c, x), rel=1e-12)
            assert at - gap <= lowest * (1 + 1e-12)
            slack.append(gap / max(at - lowest, 1e-300))
    assert np.median(slack) < 10  # and it does not say much more


# Closed forms.


def test_minimum_on_the_sphere():
    # a/x + b/y on the circle: (x, y) along (a, b)^(1/3)
    a, b = 2.0, 5.0
    best = solve([[-1, 0], [0, -1]], kl.PositiveBall(2), [a, b])
    direction = np.array([a, b]) ** (1 / 3)
    assert_allclose(best.point, direction / np.linalg.norm(direction), rtol=1e-9)


def test_the_set_of_the_papers_counterexample():
    # Φ = (1/x, 1/y), x, y ≥ 1/4 on the disc: the smallest Φ_1 is at (.968, .25)
    program = GeometricProgram(kl.Posynomial([[-1, 0], [0, -1]]), kl.PositiveBall(2, 1.0, 0.25))
    assert_allclose(program.minimize([1.0, 0.0]).point, [math.sqrt(15) / 4, 0.25], rtol=1e-12)
    assert_allclose(program.minimize([1.0, 1.0]).point, [math.sqrt(0.5)] * 2, rtol=1e-9)
    with pytest.raises(ValueError, match=r"`coefficients` must be non-negative, got -0.76 at 0"):
        program.minimize([-0.760, 5.174])


def test_monotone_coordinates_are_exact():
    box = kl.Box([0.5, 0.25, 1.0], [2, 2, 4])
    best = solve([[1, 0.5, -1], [2, 0, -0.5]], box, [1.0, 1.0])
    assert_array_equal(best.point, [0.5, 0.25, 4.0])
    assert best.value == pytest.approx(0.5 * 0.5 / 4 + 0.25 / 2)
    assert best.gap < 1e-14


def test_zero_is_attained_where_no_exponent_is_negative():
    kernel = kl.Posynomial([[1, 0, 1], [0, 2, 0], [0, 0, 0]])
    for actions in (kl.PositiveBall(3), kl.Box([0, 0, 0], [1, 1, 1])):
        best = GeometricProgram(kernel, actions).minimize([1.0, 2.0, 3.0])
        assert best.value == pytest.approx(3.0, rel=1e-14)  # the constant
        assert kl.PosynomialLoss(kernel, [1.0, 2.0, 3.0])(best.point[None])[0] == 3.0
        assert actions.contains(best.point[None])[0]
    # x/y + y: x = 0 leaves y, which then is best at zero, where x/y is not defined
    with pytest.raises(ValueError, match="`actions` must keep coordinate 1 away from zero"):
        solve([[1, -1], [0, 1]], kl.PositiveBall(2), [1.0, 1.0])
    # x/y alone: x = 0 does, with any y
    best = solve([[1, -1], [0, 1]], kl.PositiveBall(2), [1.0, 0.0])
    assert best.value == 0.0
    assert best.point[0] == 0.0 < best.point[1]


@pytest.mark.parametrize(
    "table",
    [
        [[1, -1], [-1, 2]],  # x = t², y = t^1.5: tends to zero with t, and there it is not defined
        [[1, -1], [-1, 1]],  # constant along rays: the minimum is attained, but not proved to be
    ],
)
def test_infima_that_may_not_be_attained_are_refused(table):
    message = r"away from zero, where Posynomial\(.* the infimum may lie"
    with pytest.raises(ValueError, match=message):
        solve(table, kl.PositiveBall(2), [1.0, 1.0])
    best = solve(table, kl.PositiveBall(2, 1.0, 1e-3), [1.0, 1.0])
    assert best.gap <= 1e-9 * best.value


def test_nothing_to_minimise():
    for actions in (kl.PositiveBall(2), kl.Box([0.0, 1.0], [2.0, 3.0])):
        best = solve([[1, 1], [-1, 2]], actions, [0.0, 0.0])
        assert (best.value, best.gap) == (0.0, 0.0)
        assert actions.contains(best.point[None])[0]
        assert np.all(best.point > 0)  # where the kernel is defined


def test_single_points_and_flat_sides():
    kernel = kl.Posynomial([[1, -1], [-1, 1]])
    point = GeometricProgram(kernel, kl.PositiveBall(2, 1.0, [0.6, 0.8])).minimize([1.0, 1.0])
    assert_array_equal(point.point, [0.6, 0.8])
    assert point.value == pytest.approx(0.75 + 4 / 3)
    assert point.gap < 1e-9
    flat = GeometricProgram(kernel, kl.Box([2.0, 0.5], [2.0, 8.0])).minimize([1.0, 1.0])
    assert_allclose(flat.point, [2.0, 2.0], rtol=1e-7)


# The two methods, and what is hard for them.


def test_newton_alone_from_a_start_nearby(rng, monkeypatch):
    solved = 0
    for kind in ("ball", "box") * 15:
        E, c = rng.normal(size=(8, 4)), np.exp(rng.normal(size=8))
        program = GeometricProgram(kl.Posynomial(E), random_set(kind, 4, rng))
        nearby = c * np.exp(0.02 * rng.normal(size=8))
        start, fresh = program.minimize(c).point, program.minimize(nearby)
        with monkeypatch.context() as patch:
            patch.setattr(LogSumExp, "barrier", lambda _: (0.0, math.nan, math.nan))
            again = program.minimize(nearby, start=start)
        if math.isnan(again.value):  # it gave up
            continue
        solved += 1
        assert again.value == pytest.approx(fresh.value, rel=1e-10)
        assert again.gap <= 1e-9 * again.value
    assert solved >= 27


def test_barrier_alone(rng, monkeypatch):
    monkeypatch.setattr(LogSumExp, "newton", lambda *_, **__: None)
    for kind in ("ball", "box") * 10:
        E, c = rng.normal(size=(8, 4)), np.exp(rng.normal(size=8))
        actions = random_set(kind, 4, rng)
        best = solve(E, actions, c)
        assert best.gap <= 1e-9 * best.value
        assert best.value <= kl.PosynomialLoss(kl.Posynomial(E), c)(actions.sample(2000, rng)).min()


@pytest.mark.parametrize("kind", ["ball", "box", "thin"])
@pytest.mark.parametrize(
    "d, m, spread, flat",
    [(2, 3, 10, 0), (5, 20, 10, 0), (10, 4, 3, 0), (40, 100, 10, 0), (4, 2, 10, 12)],
)
def test_hard_ones(kind, d, m, spread, flat, rng):
    """Coefficients of many sizes; and minima that are not unique, of two terms in four dimensions."""
    tables = [power * rng.normal(size=(m, d)) for power in (0.3, 1.5, 4) if not flat]
    tables += [np.round(rng.normal(0, 2, (m, d))) for _ in range(flat)]
    for E in tables:
        c, actions = np.exp(spread * rng.normal(size=m)), random_set(kind, d, rng)
        best = solve(E, actions, c)
        assert actions.contains(best.point[None])[0]
        assert best.gap <= 1e-9 * best.value


def test_a_start_is_only_a_help(rng):
    E, c = rng.normal(size=(6, 3)), np.exp(rng.normal(size=6))
    for actions in (random_set("ball", 3, rng), random_set("box", 3, rng)):
        program = GeometricProgram(kl.Posynomial(E), actions)
        expected = program.minimize(c)
        starts = [expected.point, actions.lower, actions.upper, [1e-9] * 3, [1e9] * 3, [0, -1, 2]]
        for start in starts:
            best = program.minimize(c, start=start)
            assert best.value == pytest.approx(expected.value, rel=1e-9)
            assert best.gap <= 1e-9 * best.value


def test_the_same_program_for_other_terms(rng):
    # What is reduced depends on which coefficients are zero: no memory of the last call may show.
    E = np.round(rng.normal(0, 1.5, (6, 3)))
    actions = kl.PositiveBall(3, 1.0, 0.1)
    program = GeometricProgram(kl.Posynomial(E), actions)
    for _ in range(20):
        c = np.exp(rng.normal(size=6)) * (rng.random(6) < 0.5)
        fresh = solve(E, actions, c)
        again = program.minimize(c)
        assert_array_equal(again.point, fresh.point)
        assert again.value == fresh.value


def test_scaling_the_loss_scales_the_minimum(rng):
    E, c = rng.normal(size=(5, 3)), np.exp(rng.normal(size=5))
    program = GeometricProgram(kl.Posynomial(E), kl.PositiveBall(3, 1.0, 0.1))
    best = program.minimize(c)
    for factor in (1e-200, 1e-3, 1e200):
        scaled = program.minimize(factor * c)
        assert scaled.value == pytest.approx(factor * best.value, rel=1e-11)
        assert_allclose(scaled.point, best.point, rtol=1e-6)


def test_coefficients_of_other_libraries(xp):
    program = GeometricProgram(kl.Posynomial([[1, 1], [-1, 0], [0, -1]]), kl.PositiveBall(2, 3.0))
    best = program.minimize(xp.asarray([1.0, 1.0, 1.0]), start=xp.asarray([0.9, 1.2]))
    assert_allclose(best.point, [1, 1], rtol=1e-6)
    assert isinstance(best.point, np.ndarray)


@pytest.mark.parametrize(
    "kernel, actions, error, message",
    [
        (kl.Linear(), kl.PositiveBall(2), TypeError, "`kernel` must be a Posynomial, got Linear"),
        (XY, kl.Ball(2), TypeError, "`actions` must be a PositiveBall or a Box, got Ball"),
        (XY, kl.PositiveBall(3), ValueError, "`actions` must have 2 coordinates, got 3"),
        (XY, kl.Box([0, -1], [1, 1]), ValueError, "`actions` must have non-.* 1, got -1"),
    ],
)
def test_bad_programs(kernel, actions, error, message):
    with pytest.raises(error, match=message):
        GeometricProgram(kernel, actions)


@pytest.mark.parametrize(
    "coefficients, start, error, message",
    [
        ([1.0, -2.0], None, ValueError, "`coefficients` must be non-negative, got -2 at 1"),
        ([1.0], None, ValueError, "`coefficients` must have length 2, got 1"),
        ([1.0, math.nan], None, ValueError, "`coefficients` must be finite"),
        (["a", 1], None, TypeError, "`coefficients` must be an array of numbers"),
        ([1.0, 2.0], [1.0], ValueError, "`start` must have length 2, got 1"),
        ([1.0, 2.0], [1.0, math.inf], ValueError, "`start` must be finite"),
    ],
)
def test_bad_calls(coefficients, start, error, message):
    program = GeometricProgram(kl.Posynomial([[1, 1], [-1, 1]]), kl.PositiveBall(2, 1.0, 0.1))
    with pytest.raises(error, match=re.escape(message)):
        program.minimize(coefficients, start=start)
