"""Langevin proposals and jumps: invariance up to the boundary, separated modes, adaptation.

Statistical tests have the level of `tests.support.statistics`.
"""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.samplers.chains import Target, as_target
from koloss.samplers.langevin import Move, langevin
from tests.support.statistics import agrees, by_share, differs

DISC, SQUARE = kl.Ball(2), kl.Box([-1.0, 0.0], [1.0, 3.0])
BUMPS = kl.KernelLoss(kl.Gaussian(0.4), [[0.7, 0.2], [-0.5, -0.5], [0.0, 1.0]], [-2.0, -1.5, 1.0])
UPHILL = kl.LinearLoss([2.0, 1.0])  # most of the mass at the boundary


@pytest.fixture(params=[(BUMPS, DISC), (BUMPS, SQUARE), (UPHILL, DISC), (UPHILL, SQUARE)], ids=str)
def problem(request, rng, exact_draws):
    """A target, its action set, and exact draws."""
    loss, actions = request.param
    target = as_target(loss, 1.0, 2)
    top = target(actions.net(0.02).X).max() + 0.2
    return target, actions, exact_draws(target.log_density, actions, 10_000, rng, top)


@pytest.mark.slow
@pytest.mark.parametrize("h", [0.002, 0.1])
def test_langevin_steps_leave_the_density_invariant(problem, h, rng, fits):
    target, actions, X = problem
    move = Move(target, actions, X)
    for _ in range(20):
        move.diffuse(h, rng)
    assert np.mean(np.any(move.X != X, axis=1)) > 0.5
    assert np.all(actions.contains(move.X))
    assert agrees(fits(move.X, actions, target.log_density))
    assert np.array_equal(move.values, target(move.X))
    assert np.array_equal(move.slopes, target.slopes(move.X))


def test_jumps_leave_the_density_invariant(problem, rng, fits):
    target, actions, X = problem
    move = Move(target, actions, X)
    for _ in range(3):
        move.jump(0.7, rng)
    assert np.mean(np.any(move.X != X, axis=1)) > 0.5
    assert agrees(fits(move.X, actions, target.log_density))
    assert np.array_equal(move.values, target(move.X))


def test_negative_control_projected_proposals(problem, rng, fits):
    target, actions, X = problem
    move = Move(target, actions, X)
    # What leaves the set is put on its boundary, and Metropolis's rule applied as if it had not.
    for _ in range(20):
        Y = X + 0.1 * target.slopes(X) + np.sqrt(0.2) * rng.standard_normal(X.shape)
        outside = ~actions.contains(Y)
        move.diffuse(0.1, rng)
        X = np.where(outside[:, None], actions.project(Y), move.X)
        move = Move(target, actions, X)
    assert differs(fits(X, actions, target.log_density))


@pytest.mark.parametrize("problem", [(BUMPS, DISC), (BUMPS, SQUARE)], ids=str, indirect=True)
def test_negative_control_without_metropolis(problem, rng, fits):
    # Only with the bumps: for a linear loss the gradient is constant and the rule accepts everything inside.
    target, actions, X = problem
    for _ in range(20):
        Y = X + 0.1 * target.slopes(X) + np.sqrt(0.2) * rng.standard_normal(X.shape)
        X = np.where(actions.contains(Y)[:, None], Y, X)
    assert differs(fits(X, actions, target.log_density))


def test_negative_control_of_jumps(problem, rng, fits):
    target, actions, X = problem
    another_power = Target(lambda Y: 0.7 * target.log_density(Y))
    move = Move(another_power, actions, X)
    for _ in range(3):
        move.jump(0.7, rng)
    assert differs(fits(move.X, actions, target.log_density))


@pytest.mark.slow
def test_gaussian_bumps_of_the_paper(fits):
    # A ball of radius 10, learning rate 10, bumps of both signs: separated modes of unequal mass.
    disc = kl.Ball(2, 10.0)
    centers = disc.sample(12, np.random.default_rng(5))
    signs = np.random.default_rng(20240717).choice([-0.5, 0.5], 12)  # with modes that are apart
    loss = kl.KernelLoss(kl.Gaussian(2.0), centers, signs)
    n = 6000
    settings = {"learning_rate": 10.0, "chains": n, "steps": 1, "warmup": 150, "rng": 1}
    draws = langevin(loss, disc, n, **settings)
    assert agrees(fits(draws.points, disc, lambda X: -10.0 * loss(X)))
    # Negative control: without jumps, from one point, the other modes are missing.
    start = np.repeat(draws.points[:1], n, axis=0)
    local = langevin(loss, disc, n, jump=0.0, start=start, **settings)
    assert differs(fits(local.points, disc, lambda X: -10.0 * loss(X)))


@pytest.mark.slow
def test_separated_modes_have_their_masses_from_any_start():
    disc = kl.Ball(2, 10.0)
    loss = kl.KernelLoss(kl.Gaussian(1.5), [[5.0, 0.0], [-5.0, 0.0]], [-1.0, -0.9])
    X = disc.net(0.02).X
    weights = np.exp(-10.0 * loss(X))
    share = weights[X[:, 0] > 0].sum() / weights.sum()
    start = np.tile([-5.0, 0.0], (3000, 1))
    draws = langevin(loss, disc, 3000, learning_rate=10.0, chains=3000, steps=1, start=start, rng=2)
    right = np.sum(draws.points[:, 0] > 0)
    assert agrees(by_share(right, 3000, share))
    assert differs(by_share(right, 3000, 0.5))
    assert share == pytest.approx(0.7, abs=0.15)  # not one half, so that the test can see something


def test_adaptation_reaches_its_acceptance():
    disc = kl.Ball(2, 10.0)
    loss = kl.KernelLoss(kl.Gaussian(2.0), [[4.0, 0.0], [-4.0, 0.0]], [-1.0, -1.0])
    draws = langevin(loss, disc, 4000, learning_rate=10.0, chains=40, rng=0)
    assert draws.acceptance == pytest.approx(0.574, abs=0.1)
    assert draws.step_size > 0
    assert 0 < draws.jump_acceptance < 1
    assert draws.effective_size.shape == draws.r_hat.shape == (2,)
    assert draws.r_hat.max() < 1.05
    fixed = langevin(loss, disc, 40, learning_rate=10.0, step_size=0.3, jump=0.0, warmup=0, rng=0)
    assert fixed.step_size == 0.3
    assert fixed.jump_acceptance is None


def test_a_log_density_with_its_gradient_and_seeds():
    first = langevin(lambda X: -4 * (X**2).sum(1), DISC, 200, gradient=lambda X: -8 * X, rng=3)
    again = langevin(lambda X: -4 * (X**2).sum(1), DISC, 200, gradient=lambda X: -8 * X, rng=3)
    pair = langevin((-4 * np.eye(2), np.zeros(2)), DISC, 200, rng=3)
    assert np.array_equal(first.points, again.points)
    assert np.allclose(first.points, pair.points)


def test_sides_of_length_zero_stay():
    thin = kl.Box([0.0, 1.0], [1.0, 1.0])
    draws = langevin(BUMPS, thin, 400, chains=20, rng=0)
    assert np.all(draws.points[:, 1] == 1.0)
    assert draws.acceptance > 0.3
    assert np.all(langevin(BUMPS, kl.Box([1, 1], [1, 1]), 8, chains=8, rng=0).points == 1.0)


def first(X):
    return X[:, 0]


@pytest.mark.parametrize(
    "target, settings, error, message",
    [
        (BUMPS, {"actions": kl.Points([[0, 0]])}, TypeError, "`actions` must be a Ball, a Box or"),
        (first, {}, ValueError, "`gradient` must be given where `target` is a log density"),
        (BUMPS, {"gradient": first}, ValueError, "`gradient` must be left out"),
        (first, {"gradient": 3}, TypeError, "`gradient` must be callable, got int"),
        (first, {"gradient": first}, ValueError, r"`gradient` must .* \(64, 2\), got \(64,\)"),
        (first, {"gradient": lambda X: X * np.nan}, ValueError, "`gradient` must be finite"),
        (BUMPS, {"jump": 2.0}, ValueError, "`jump` must be at most 1, got 2"),
        (BUMPS, {"step_size": 0.0}, ValueError, "`step_size` must be positive, got 0"),
        (BUMPS, {"warmup": 0}, ValueError, "`warmup` must .* where `step_size` is missing"),
    ],
)
def test_bad_input(target, settings, error, message):
    with pytest.raises(error, match=message):
        langevin(target, **{"actions": DISC, "size": 1} | settings)
