"""A population carried from round to round, against quadrature over the same density.

False-alarm level of each statistical test: 1e-8, 1e-7 over all of the file.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import koloss as kl
from koloss.errors import SnapshotError
from koloss.samplers.particles import Particles
from tests.support.statistics import agrees, by_errors, by_mean

RUNS = 30
DISC = kl.Ball(2)


def losses(count, seed, family):
    """A game's losses: random bumps, or random quadratics."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if family == "bumps":
            yield kl.KernelLoss(kl.Gaussian(0.5), rng.uniform(-0.7, 0.7, (1, 2)), [-1.0])
        else:
            A = rng.standard_normal((2, 2))
            yield kl.QuadraticLoss((A + A.T) / 2, rng.standard_normal(2))


def population(game, seed, size=1000, **options):
    """A population of the disc after a game."""
    rng, particles = np.random.default_rng(seed), Particles(DISC, size, **options)
    for loss in game:
        particles.update(loss, rng=rng)
    return particles


def exact_moments(potential, actions):
    """Mean of (x, x²) by a fine grid of the density."""
    X = actions.net(0.01).X if isinstance(actions, kl.Box) else interior_grid(actions)
    weights = np.exp(-(potential(X) - potential(X).min()))
    return weights @ np.hstack([X, X**2]) / weights.sum()


def interior_grid(ball):
    """Cells of equal area in polar coordinates: the middle of each."""
    radius = ball.radius * np.sqrt((np.arange(400) + 0.5) / 400)
    angle = 2 * np.pi * np.arange(720) / 720
    R, A = np.meshgrid(radius, angle)
    return np.column_stack([(R * np.cos(A)).ravel(), (R * np.sin(A)).ravel()])


def unbiased(samples, exact):
    """Whether the means over independent runs agree with the exact values."""
    return agrees(by_mean(samples, exact))


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bumps", "quadratic"])
def test_moments_follow_the_density(family):
    # 15 rounds at learning rate 1: the density sharpens to a few percent of the disc. The bias of order 1/size is
    # far below what thirty runs can see.
    game = list(losses(15, 1, family))
    exact = exact_moments(sum(game), DISC)
    weighted, plain, resamplings = [], [], 0
    for seed in range(RUNS):
        particles = population(game, seed)
        X = particles.points
        weighted.append(particles.weights @ np.hstack([X, X**2]))
        plain.append(np.hstack([X, X**2]).mean(axis=0))
        resamplings += particles.resamplings
        assert np.all(DISC.contains(X))
    assert resamplings >= RUNS
    assert unbiased(weighted, exact)
    # Negative controls: the weights left out, and the density of another learning rate.
    assert not unbiased(plain, exact)
    assert not unbiased(weighted, exact_moments(0.8 * sum(game), DISC))


def test_one_huge_loss_is_taken_in_parts():
    # exp(-400 |x - c|²) from uniform at once: plain reweighting would leave a handful of particles.
    c = np.array([0.3, -0.2])
    loss = kl.QuadraticLoss(400 * np.eye(2), -800 * c)
    means = []
    for seed in range(RUNS):
        particles = population([loss], seed, size=400)
        assert particles.resamplings >= 2
        assert particles.effective_size() >= 400 / 3
        assert len(np.unique(particles.points, axis=0)) > 390  # moved, not only copied
        X = particles.points
        means.append(particles.weights @ np.hstack([X, (X - c) ** 2]))
    assert unbiased(means, np.array([*c, 1 / 800, 1 / 800]))


def test_a_mode_that_appears_late_is_found(monkeypatch):
    # A mode that appears late, in a place that the population has left.
    disc = kl.Ball(2, 10.0)

    def bump(x, depth):
        return kl.KernelLoss(kl.Gaussian(1.5), [[x, 0.0]], [-depth])

    def right_share():
        rng, particles = np.random.default_rng(0), Particles(disc, 2000, learning_rate=10.0)
        particles.update(bump(-5.0, 1.0), rng=rng)
        particles.update(bump(-5.0, 1.0), rng=rng)
        assert np.mean(particles.draw(2000, rng=1)[:, 0] < 0) > 0.99
        particles.update(bump(5.0, 2.1), rng=rng)
        return particles, particles.weights @ (particles.points[:, 0] > 0)

    particles, share = right_share()
    X = interior_grid(disc)
    density = np.exp(-10 * (bump(-5.0, 2.0)(X) + bump(5.0, 2.1)(X)))
    exact = density[X[:, 0] > 0].sum() / density.sum()
    assert particles.restarts == 1
    assert 0.6 < exact < 0.8
    assert share == pytest.approx(exact, abs=0.1)
    assert particles.log_normalizer == pytest.approx(np.log(density.mean()), abs=0.5)
    assert 0 < particles.jump_acceptance < 1
    # Negative control: without the scouts the mode is missed, and the weights do not tell.
    monkeypatch.setattr(Particles, "_scouts_find_more", lambda *_: False)
    blind, share = right_share()
    assert share < 0.1
    assert blind.effective_size() > 1000


def test_the_normalizer_and_no_needless_restart():
    game = list(losses(15, 1, "bumps"))
    logs, restarts = [], 0
    for seed in range(RUNS):
        particles = population(game, seed)
        logs.append([particles.log_normalizer])
        restarts += particles.restarts
    exact = np.log(np.mean(np.exp(-sum(game)(interior_grid(DISC)))))
    # The estimate of Z itself, not of its logarithm, is unbiased.
    assert unbiased(np.exp(np.array(logs) - exact), np.ones(1))
    assert not unbiased(np.exp(np.array(logs) - exact), np.full(1, 1.2))  # negative control
    assert restarts <= RUNS  # of 450 rounds: a scout's error beyond three deviations is rare


def test_a_failure_halfway_changes_nothing(monkeypatch):
    rng, particles = np.random.default_rng(0), Particles(DISC, 50)
    particles.draw(rng=rng)
    before, bits = particles.to_dict(), rng.bit_generator.state

    def fail(self, potential, rng):
        self.points = self.points + 1.0
        rng.random(7)
        raise FloatingPointError

    monkeypatch.setattr(Particles, "_resample_and_move", fail)
    with pytest.raises(FloatingPointError):
        particles.update(kl.LinearLoss([100.0, 0.0]), rng=rng)
    assert particles.to_dict() == before
    assert rng.bit_generator.state == bits


def test_draws_follow_the_weights():
    particles = Particles(DISC, 3)
    particles.log_weights = np.array([0.0, -np.inf, -np.inf])
    draws = particles.draw(10, rng=0)  # which draws the population, too
    assert np.all(draws == particles.points[0])
    assert particles.draw().shape == (1, 2)
    assert particles.effective_size() == 1.0


def test_the_first_call_draws_the_population():
    particles = Particles(DISC, 10)
    assert particles.points is None
    assert len(particles) == particles.effective_size() == 10
    particles.draw(rng=5)
    np.testing.assert_array_equal(particles.points, DISC.sample(10, 5))


def test_a_box_and_a_rate_for_each_round():
    box = kl.Box([-1.0, 0.0], [1.0, 2.0])
    one, two = Particles(box, 200), Particles(box, 200, learning_rate=3.0)
    for seed, loss in enumerate(losses(6, 3, "quadratic")):
        one.update(loss, learning_rate=3.0, rng=seed)
        two.update(loss, rng=seed)
    assert np.array_equal(one.points, two.points)
    assert one.rounds == 6
    assert np.all(box.contains(one.points))


@pytest.mark.parametrize("move", ["hit-and-run", "diffusion"])
@pytest.mark.parametrize("family", ["bumps", "quadratic"])
@pytest.mark.parametrize("actions", [DISC, kl.Box([-1.0, -1.0], [1.0, 1.0])], ids=repr)
def test_a_snapshot_continues_exactly(family, move, actions):
    particles = Particles(actions, 100, learning_rate=2.0, move=move)
    game = list(losses(12, 4, family))
    for seed, loss in enumerate(game[:6]):
        particles.update(loss, rng=seed)
    copy = Particles.from_dict(json.loads(json.dumps(particles.to_dict())))
    for seed, loss in enumerate(game[6:]):
        particles.update(loss, rng=seed)
        copy.update(loss, rng=seed)
    assert particles.resamplings > 0
    assert copy.to_dict() == particles.to_dict()
    assert np.array_equal(copy.draw(5, rng=0), particles.draw(5, rng=0))


def test_a_fresh_snapshot_and_damaged_ones():
    particles = Particles(DISC, 10)
    assert Particles.from_dict(particles.to_dict()).to_dict() == particles.to_dict()
    particles.draw(rng=0)
    plain = particles.to_dict()
    assert Particles.from_dict(plain).to_dict() == plain
    damages = [("kind", "Other"), ("version", 1), ("points", [[5.0, 5.0]] * 10), ("points", "?")]
    damages += [("log_weights", [0.0]), ("rounds", -1), ("move", "jump")]
    damages += [("actions", {"kind": "Points"}), ("potential", {"kind": "Nothing"})]
    for name, damage in damages:
        with pytest.raises(SnapshotError):
            Particles.from_dict({**plain, name: damage})
    with pytest.raises(SnapshotError):
        Particles.from_dict(3)


def test_bad_input_changes_nothing():
    particles = Particles(DISC, 10)
    particles.update(kl.LinearLoss([1.0, 0.0]), rng=0)
    before = particles.to_dict()
    with pytest.raises(TypeError, match="`loss` must be a Loss, got float"):
        particles.update(3.0)
    with pytest.raises(ValueError, match="`loss` must have dimension 2, got 3"):
        particles.update(kl.LinearLoss([1.0, 0.0, 0.0]))
    with pytest.raises(TypeError, match="losses of two families do not mix"):
        particles.update(kl.QuadraticLoss(np.eye(2)))
    with pytest.raises(ValueError, match="`learning_rate` must be at least 0"):
        particles.update(kl.LinearLoss([1.0, 0.0]), learning_rate=-1.0)
    assert particles.to_dict() == before
    with pytest.raises(TypeError, match="`actions` must be a Ball, a Box or"):
        Particles(kl.Points([[0.0]]), 10)
    with pytest.raises(ValueError, match="`size` must be at least 2, got 1"):
        Particles(DISC, 1)
    with pytest.raises(ValueError, match="`move` must be one of 'hit-and-run', 'diffusion', got"):
        Particles(DISC, 50, move="jump")


def valleys(rng):
    """A loss with a valley on one of two sides."""
    side = rng.choice([-1.0, 1.0])
    return kl.KernelLoss(kl.Gaussian(0.6), [[side, 0.3 * rng.normal()]], [-1.0])


def posynomial(rng):
    return kl.PosynomialLoss(kl.Posynomial([[1, 0], [-1, 2]]), rng.random(2))


@pytest.mark.parametrize(
    "actions, draw, move",
    [
        (kl.Ball(2, 2.0), valleys, "hit-and-run"),
        (kl.Ball(2, 2.0), valleys, "diffusion"),
        (kl.PositiveBall(2, lower=0.2), posynomial, "hit-and-run"),
    ],
)
def test_a_long_game_ends_in_its_density(actions, draw, move):
    """After 30 losses, means and spreads of a population of 4,000 against the density on a fine net."""
    particles = Particles(actions, 4000, learning_rate=0.5, move=move)
    rng, coins, total = np.random.default_rng(3), np.random.default_rng(0), 0.0
    net = actions.net(0.01 * actions.diameter()).X
    for _ in range(30):
        loss = draw(rng)
        particles.update(loss, rng=coins)
        total = total + 0.5 * loss(net)
    p = np.exp(-(total - total.min()))
    p /= p.sum()
    mean = p @ net
    spread = np.sqrt(p @ (net - mean) ** 2)
    error = spread / np.sqrt(particles.effective_size() / 4)
    assert agrees(by_errors((particles.mean() - mean) / error))
    cloud = np.sqrt(particles.weights @ (particles.points - mean) ** 2)
    np.testing.assert_allclose(cloud, spread, rtol=0.1)
    uniform = np.sqrt(np.mean((actions.sample(4000, 0) - mean) ** 2, axis=0))
    assert not np.allclose(uniform, spread, rtol=0.1)  # negative control
    again = Particles.from_dict(particles.to_dict())
    np.testing.assert_array_equal(again.draw(5, rng=2), particles.draw(5, rng=2))
