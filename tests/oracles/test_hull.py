"""Projections onto hulls of features, by the conditions of optimality, and against semidefinite programs of another solver."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

import koloss as kl
from koloss.oracles.hull import BallHull, ConvexHull, PointsHull, rank_one_atoms

# Points.

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(25, 2))
POINTS = {
    "gaussian": (kl.Gaussian(0.5), CLOUD),
    "gaussian, wide": (kl.Gaussian(20.0), CLOUD),
    "linear, more points than dimensions": (kl.Linear(), CLOUD),
    "linear, collinear": (kl.Linear(), np.outer(np.linspace(-1, 2, 12), [1.0, 2.0])),
    "linear, duplicates": (kl.Linear(), np.vstack([CLOUD[:8], CLOUD[:8], CLOUD[:8]])),
    "gaussian, duplicates": (kl.Gaussian(0.3), np.vstack([CLOUD[:8], CLOUD[:8] + 1e-12])),
    "quadratic": (kl.Quadratic(), CLOUD),
    "polynomial, rank-deficient": (kl.Polynomial(2), RNG.normal(size=(30, 1))),
    "with the origin": (kl.Linear(), np.vstack([np.zeros((2, 2)), CLOUD[:6]])),
    "far from the origin": (kl.Linear(), 100 + CLOUD),
    "large": (kl.Quadratic(), 1e3 * CLOUD),
    "small": (kl.Quadratic(), 1e-3 * CLOUD),
    "equal": (kl.Gaussian(0.3), np.ones((4, 2))),
    "one": (kl.Gaussian(0.3), np.ones((1, 2))),
    "zero": (kl.Linear(), np.zeros((3, 2))),
}


def targets(kernel, X, seed=1):
    """Elements of the span of the features near the hull, far from it and in it, by their coefficients."""
    rng = np.random.default_rng(seed)
    yield np.zeros(len(X))
    for size in (0.3, 3.0, 30.0):
        c = rng.normal(size=len(X))
        yield size * c / math.sqrt(max(c @ kernel(X, X) @ c, 1e-300)) * _radius(kernel, X)
    yield rng.dirichlet(np.ones(len(X)))


def _radius(kernel, X):
    return math.sqrt(float(np.max(kernel.diag(X)))) or 1.0


def objective(K, c, p):
    """‖Σ p_i Φ_i - Σ c_i Φ_i‖², up to the square of z: as the program has it."""
    return float(p @ K @ p - 2 * p @ (K @ c))


def by_point(mixture, count):
    """Weights of all points."""
    weights = np.zeros(count)
    weights[mixture.index] = mixture.weights
    return weights


@pytest.mark.parametrize("name", POINTS)
def test_points_satisfy_the_optimality_conditions(name):
    """Σ p_i (g_i - min g) is the gap: no active point has a gradient above the least by more than gap / p_i."""
    kernel, X = POINTS[name]
    K, hull = kernel(X, X), PointsHull(kernel, kl.Points(X))
    for c in targets(kernel, X, seed=2):
        mixture = hull.project(K @ c, 0.0)
        assert mixture.weights.min() > 0
        assert mixture.weights.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_array_equal(mixture.atoms, X[mixture.index])
        assert len(set(mixture.index.tolist())) == len(mixture.index)
        gradient = 2 * (K[:, mixture.index] @ mixture.weights - K @ c)
        slack = mixture.weights * (gradient[mixture.index] - gradient.min())
        assert slack.sum() <= mixture.gap
        size = _radius(kernel, X) ** 2 + float(np.abs(K @ c).max())
        assert mixture.gap <= 1e-12 * size  # as small as rounding allows


def test_gap_is_an_upper_bound_where_the_search_ends_early():
    """With coarse tolerances the true excess is well above rounding, and still below what is proved."""
    kernel = kl.Gaussian(0.3)
    X = np.random.default_rng(3).random((60, 2))
    K, excesses = kernel(X, X), []
    for seed in range(20):
        c = np.random.default_rng(seed).normal(size=60)
        coarse = PointsHull(kernel, kl.Points(X)).project(K @ c, 0.3)
        fine = PointsHull(kernel, kl.Points(X)).project(K @ c, 1e-13)
        p, q = (by_point(mixture, 60) for mixture in (coarse, fine))
        excess = objective(K, c, p) - objective(K, c, q)
        assert excess <= coarse.gap <= 0.3
        assert (p - q) @ K @ (p - q) <= excess + 1e-12  # the mean is within √gap of the projection
        excesses.append(excess / coarse.gap)
    assert max(excesses) > 0.1  # a tenth of the gap would not do


def test_start_changes_the_way_but_not_the_answer():
    kernel, rng = kl.Gaussian(0.2), np.random.default_rng(4)
    X = rng.random((80, 2))
    K, hull, last, z = kernel(X, X), PointsHull(kernel, kl.Points(X)), None, np.zeros(80)
    for _ in range(30):
        z = z + 0.3 * kernel(X, rng.random((1, 2)))[:, 0] * rng.choice([-1, 1])
        last = hull.project(z, 1e-12, last)
        cold = PointsHull(kernel, kl.Points(X)).project(z, 1e-12)
        p, q = (by_point(mixture, 80) for mixture in (last, cold))
        assert (p - q) @ K @ (p - q) <= 4e-12


def test_degenerate_points_never_go_in_circles():
    """Repeated, nearly repeated and dependent points with a tolerance of zero: every search ends, at rounding."""
    worst = 0.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        N, d = rng.integers(1, 40), rng.integers(1, 4)
        X = rng.choice([0, 1, 0.5, -1, 1 / 3], size=(N, d))
        X = np.vstack([X, X + rng.choice([0, 1e-9, 1e-14])]) * 10.0 ** rng.integers(-3, 4)
        kernel = [kl.Linear(), kl.Quadratic(), kl.Gaussian(10.0 ** rng.integers(-2, 5))][seed % 3]
        hull, last, z = PointsHull(kernel, kl.Points(X)), None, np.zeros(len(X))
        for _ in range(4):
            z = z + kernel(X, X[rng.integers(len(X), size=2)]) @ rng.choice([-1, 1, 0.5], size=2)
            last = hull.project(z, 0.0, last)
            worst = max(worst, last.gap / (_radius(kernel, X) ** 2 + float(np.abs(z).max())))
    assert worst < 1e-13


# Quadratics on the ball.


def random_target(rng, d, size):
    A, b = rng.normal(size=(d, d)), rng.normal(size=d)
    A = A + A.T
    norm = math.sqrt(np.sum(A**2) + b @ b)
    return size * A / norm, size * b / norm


def moments(mixture):
    x, w = mixture.atoms, mixture.weights
    return (w * x.T) @ x, w @ x


def semidefinite_program(M0, u0, r):
    """The least ‖M - M₀‖² + |u - u₀|² with M ⪰ uu' and tr M ≤ r², in units of the radius."""
    d, size = len(u0), math.sqrt(float(np.sum(M0**2) + u0 @ u0)) + r * r + r
    Z = cp.Variable((d + 1, d + 1), PSD=True)
    off = cp.sum_squares(r * r * Z[:d, :d] - M0) + cp.sum_squares(r * Z[:d, d] - u0)
    problem = cp.Problem(cp.Minimize(off / size**2), [Z[d, d] == 1, cp.trace(Z[:d, :d]) <= 1])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9)
    return r * r * Z.value[:d, :d], r * Z.value[:d, d], problem.value * size**2


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("r", [0.2, 1.0, 3.0])
def test_ball_against_a_semidefinite_program(d, r):
    rng = np.random.default_rng(d)
    reach = math.sqrt(r**4 + r**2)
    for size in (0.2, 1.0, 8.0):
        M0, u0 = random_target(rng, d, size * reach)
        mixture = BallHull(d, r).project(kl.QuadraticLoss(M0, u0))
        M, u = moments(mixture)
        ours = float(np.sum((M - M0) ** 2) + np.sum((u - u0) ** 2))
        M1, u1, other = semidefinite_program(M0, u0, r)
        scale = (1 + size) * reach**2
        assert ours == pytest.approx(other, abs=1e-7 * scale)
        assert ours - mixture.gap <= other + 1e-8 * scale  # the gap is not below the true one
        assert mixture.gap <= 1e-11 * scale
        np.testing.assert_allclose(M, M1, atol=1e-4 * reach)
        np.testing.assert_allclose(u, u1, atol=1e-4 * reach)


@pytest.mark.parametrize("r", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("d", [1, 2, 6, 20])
def test_ball_is_certified_at_all_scales(d, r):
    """The certificate is a trust-region dual, a computation of its own; targets from tiny to far, in any order."""
    rng, reach = np.random.default_rng(d), math.sqrt(r**4 + r**2)
    hull = BallHull(d, r)
    for size in (30.0, 1e-6, 0.0, 1.0, 0.01, 5.0):
        for M0, u0 in (
            random_target(rng, d, size * reach),
            (size * reach * np.eye(d) / math.sqrt(d), np.zeros(d)),
            (-size * reach * np.eye(d) / math.sqrt(d), np.zeros(d)),
            (np.zeros((d, d)), size * reach * np.eye(d)[0]),
        ):
            mixture = hull.project(kl.QuadraticLoss(M0, u0))
            assert mixture.gap <= 1e-8 * (1 + size) * reach**2
            assert len(mixture.weights) <= d + 1
            assert np.all(kl.Ball(d, r).contains(mixture.atoms))


def test_gap_of_the_ball_is_not_below_the_true_one():
    """Off the projection by a known amount: ‖X - z‖² - min is at most the gap, and the gap is not wildly larger."""
    rng = np.random.default_rng(0)
    for d in (1, 3):
        M0, u0 = random_target(rng, d, 3.0)
        hull = BallHull(d, 1.0)
        exact = hull.nearest(M0, u0)
        hull.nearest = lambda *_, exact=exact: (0.9 * exact[0], math.sqrt(0.9) * exact[1])
        mixture = hull.project(kl.QuadraticLoss(M0, u0))

        def distance(M, u, M0=M0, u0=u0):
            return float(np.sum((M - M0) ** 2) + np.sum((u - u0) ** 2))

        excess = distance(*moments(mixture)) - distance(*exact)
        assert 0.01 < excess <= mixture.gap < 10 * excess


def test_ball_uses_the_norm_of_the_rkhs():
    """Against points: a fine net of the disc with the quadratic kernel has almost the same projection."""
    net, kernel = kl.Ball(2).net(0.06), kl.Quadratic()
    points, ball = PointsHull(kernel, net), BallHull(2, 1.0)
    rng = np.random.default_rng(8)
    for size in (0.5, 2.0, 6.0):
        loss = kl.QuadraticLoss(*random_target(rng, 2, size))
        one, two = ball.project(loss), points.project(loss(net.X), 1e-12)
        X, Y = (kernel.embed(mixture.atoms, mixture.weights) for mixture in (one, two))
        near, far = (X - loss).norm(), (Y - loss).norm()
        assert near <= far + 1e-9
        assert far <= near + kernel.modulus(net.covering_radius, kl.Ball(2))
        # In another norm the projection is another: the weight of u would show.
        assert (X - Y).norm() < 0.12
        half = ball.project(kl.QuadraticLoss(loss.matrix, loss.vector / 2))
        assert (kernel.embed(half.atoms, half.weights) - X).norm() > 1e-3


# Atoms.


@pytest.mark.parametrize("radius", [1e-6, 0.3, 1.0, 1e3])
@pytest.mark.parametrize("d", [1, 2, 3, 10, 64])
def test_atoms_have_the_moments(d, radius):
    rng = np.random.default_rng(d)
    cases = []
    for k in (1, 2, d, 3 * d):  # of random points, so that they are in the hull
        x = kl.Ball(d).sample(k, rng)
        w = rng.dirichlet(np.ones(k))
        cases.append(((w * x.T) @ x, w @ x))
    sphere = x / np.linalg.norm(x, axis=1, keepdims=True)
    cases.append(((w * sphere.T) @ sphere, w @ sphere))  # tr M = r²
    cases += [(np.eye(d) / d, np.zeros(d)), (np.zeros((d, d)), np.zeros(d))]
    cases.append((np.diag(np.arange(d) / (d * d)), np.zeros(d)))
    for M, u in cases:
        x, w = rank_one_atoms(radius**2 * M, radius * u, radius)
        assert len(w) <= d + 1
        assert w.min() > 0
        assert w.sum() == pytest.approx(1, abs=1e-14)
        assert np.all(np.linalg.norm(x, axis=1) <= radius * (1 + 4e-16))
        np.testing.assert_allclose((w * x.T) @ x / radius**2, M, atol=2e-14)
        np.testing.assert_allclose(w @ x / radius, u, atol=2e-14)


# Linear losses.


@pytest.mark.parametrize(
    "actions", [kl.Ball(3, 2.0), kl.Box([0, -1, 0], [1, 1, 0]), kl.PositiveBall(3, 1.0, lower=0.2)]
)
def test_convex_sets_are_their_own_hull(actions):
    """The nearest point x of a convex set has (z - x)'(y - x) ≤ 0 for every other y."""
    rng = np.random.default_rng(0)
    others = actions.sample(500, rng)
    for size in (0.1, 1.0, 10.0):
        z = size * rng.normal(size=3)
        mixture = ConvexHull(actions).project(kl.LinearLoss(z))
        x = mixture.atoms[0]
        assert mixture.weights.tolist() == [1.0]
        assert actions.contains(mixture.atoms)[0]
        assert np.all((others - x) @ (z - x) <= 1e-12)
