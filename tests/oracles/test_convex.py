"""Linear and convex quadratic losses: against a solver, and gaps that never say too little."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.oracles import convex
from koloss.oracles.convex import is_convex, minimize_convex_quadratic, minimize_linear

SETS = [
    kl.Ball(1, 2.0),
    kl.Ball(4, 0.5),
    kl.Box([-1.0, 0.0, 2.0], [1.0, 0.0, 5.0]),
    kl.PositiveBall(1, 1.0, 0.5),
    kl.PositiveBall(3),
    kl.PositiveBall(5, 3.0, [0.1, 2.0, 0.0, 1.0, 0.3]),
    kl.PositiveBall(2, 1.0, [0.6, 0.8]),
]


def constraints(actions, x):
    limits = []
    if not isinstance(actions, kl.Ball):
        limits.append(x >= np.asarray(actions.lower))
    if isinstance(actions, kl.Box):
        limits.append(x <= np.asarray(actions.upper))
    else:
        limits.append(cp.norm(x) <= actions.radius)
    return limits


@pytest.mark.parametrize("actions", SETS, ids=repr)
def test_linear_against_a_solver(actions, rng):
    d = actions.dimension
    x, w = cp.Variable(d), cp.Parameter(d)
    problem = cp.Problem(cp.Minimize(w @ x), constraints(actions, x))
    vectors = [*rng.standard_normal((6, d)), np.zeros(d), np.ones(d), -np.ones(d), np.eye(d)[0]]
    for vector in vectors:
        w.value = vector
        problem.solve(solver="CLARABEL")
        best = minimize_linear(kl.LinearLoss(vector), actions)
        assert actions.contains(best.point[None])[0]
        assert best.value == pytest.approx(vector @ best.point, abs=1e-12)
        assert_allclose(best.value, problem.value, atol=1e-6)
        assert best.certificate == "dual"
        assert 0 <= best.gap < 1e-12
        # not above any draw, and so much smaller than none
        assert best.lower_bound <= (actions.sample(500, rng) @ vector).min()


def test_linear_losses_of_any_size():
    for size in (1e-200, 1e200):
        for actions in (kl.Ball(2), kl.PositiveBall(2, 1.0, 0.1)):
            point = convex.linear_minimizer(size * np.array([-3.0, -4.0]), actions)
            assert_allclose(point, [0.6, 0.8], rtol=1e-12)


MATRICES = {
    "full": lambda d, rng: rng.standard_normal((d, d)),
    "low rank": lambda d, rng: rng.standard_normal((max(d // 2, 1), d)),
    "ill": lambda d, rng: rng.standard_normal((d, d)) * np.geomspace(1, 1e-4, d)[:, None],
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("box", [True, False])
def test_quadratic_against_a_solver(kind, d, box, rng):
    x = cp.Variable(d)
    for scale in (0.1, 30.0):
        B, b = MATRICES[kind](d, rng), scale * rng.standard_normal(d)
        if box:
            actions = kl.Box(rng.uniform(-2, 0, d), rng.uniform(0, 2, d))
        else:
            actions = kl.PositiveBall(d, rng.uniform(1, 2), rng.uniform(0, 0.9, d) / np.sqrt(d))
        loss = kl.QuadraticLoss(B.T @ B, b)
        best = minimize_convex_quadratic(loss, actions)
        objective = cp.Minimize(cp.sum_squares(B @ x) + b @ x)
        expected = cp.Problem(objective, constraints(actions, x)).solve(solver="CLARABEL")
        size = 1 + abs(expected)
        assert actions.contains(best.point[None])[0]
        assert_allclose(best.value, loss(best.point[None])[0], rtol=1e-10, atol=1e-12)
        assert abs(best.value - expected) <= 1e-5 * size
        assert best.lower_bound <= expected + 1e-5 * size
        assert 0 <= best.gap <= (1e-11 if box else 1e-5) * size
        assert best.lower_bound <= loss(actions.sample(2000, rng)).min()


def test_flat_and_degenerate_ones():
    slope, bowl = kl.QuadraticLoss(np.zeros((2, 2)), [1.0, -2.0]), kl.QuadraticLoss(np.eye(2))
    flat = minimize_convex_quadratic(slope, kl.Box([0, 0], [1, 1]))
    assert flat.point.tolist() == [0.0, 1.0]
    zero = minimize_convex_quadratic(bowl, kl.Box([-1, -1], [1, 1]))
    assert zero.value == 0.0
    tilted = kl.QuadraticLoss(np.eye(2), [1.0, 1.0])
    thin = minimize_convex_quadratic(tilted, kl.Box([-1, 2], [1, 2]))
    assert_allclose(thin.point, [-0.5, 2.0], atol=1e-9)
    point = minimize_convex_quadratic(bowl, kl.Box([1, 2], [1, 2]))
    assert (point.point.tolist(), point.value) == ([1.0, 2.0], 5.0)


def test_an_eigenvalue_below_zero_is_in_the_gap():
    # ℓ = -1e-13 a² + a²-free: as good as flat, and never said to be better proved than that
    loss = kl.QuadraticLoss(np.diag([1.0, -1e-13]))
    best = minimize_convex_quadratic(loss, kl.Box([-1, -1], [1, 1]))
    assert best.lower_bound <= -1e-13


def test_what_is_not_convex_is_refused():
    saddle = kl.QuadraticLoss(np.diag([1.0, -0.5]))
    assert not is_convex(saddle)
    with pytest.raises(ValueError, match=r"`loss` must be convex, got an eigenvalue of -0\.5"):
        minimize_convex_quadratic(saddle, kl.Box([0, 0], [1, 1]))
    single = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    assert is_convex(kl.QuadraticLoss(single.T @ single))  # to the rounding of its type
