"""Hit-and-run on the positive part of a ball: chords, the density left invariant, and the lookup.

Statistical tests have the level of `tests.support.statistics`.
"""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.samplers import sample
from koloss.samplers.chains import as_target
from koloss.samplers.hit_and_run import Move, hit_and_run
from tests.support.statistics import agrees, by_laws, differs

QUARTER = kl.PositiveBall(2, 1.0, [0.2, 0.05])
LOSSES = {
    "linear": kl.LinearLoss([1.0, -0.5]),
    "quadratic": kl.QuadraticLoss([[-2.0, 0.5], [0.5, 1.5]], [0.3, -1.0]),
    "kernel": kl.KernelLoss(kl.Gaussian(0.3), [[0.7, 0.2], [0.3, 0.9]], [-1.0, 1.0]),
    "posynomial": kl.PosynomialLoss(kl.Posynomial([[1, -1], [-0.5, 2]]), [0.3, 0.5]),
}
every = pytest.mark.parametrize("name", LOSSES)
DIRECTIONS = [[1.0, 0.0], [0.0, 1.0], [0.7, -0.7]]


def agreement(X, Y):
    """Smallest p-value of two-sample Kolmogorov-Smirnov tests over the directions."""
    return min(by_laws(X @ u, Y @ u) for u in DIRECTIONS)


@pytest.mark.slow
@every
def test_exact_draws_stay_exact(name, rng, exact_draws):
    target = as_target(LOSSES[name], 3.0, 2)
    top = target(QUARTER.net(0.01).X).max() + 0.5
    X, Y = (exact_draws(target.log_density, QUARTER, 10_000, rng, top) for _ in range(2))
    move = Move(target, QUARTER)
    for _ in range(5):
        X = move(X, rng)
    assert np.all(QUARTER.contains(X))
    assert agrees(agreement(X, Y))
    flat = Move(as_target(lambda x: np.zeros(len(x)), None, 2), QUARTER)  # negative control
    for _ in range(5):
        X = flat(X, rng)
    assert differs(agreement(X, Y))


@pytest.mark.slow
@every
def test_lookup_draws_from_the_density(name, rng, exact_draws):
    target = as_target(LOSSES[name], 3.0, 2)
    top = target(QUARTER.net(0.01).X).max() + 0.5
    Y = exact_draws(target.log_density, QUARTER, 10_000, rng, top)
    X = sample(LOSSES[name], QUARTER, 3.0, 1500, rng=0)
    assert X.shape == (1500, 2)
    thin = X[::4]  # far enough apart to count as independent
    assert agrees(agreement(thin, Y))
    flat = QUARTER.sample(10_000, rng)  # negative control: the loss is not ignored
    assert differs(agreement(thin, flat))


def test_a_single_point_stays():
    point = kl.PositiveBall(2, 1.0, [0.6, 0.8])
    for loss in LOSSES.values():
        draws = hit_and_run(loss, point, 40, chains=4, rng=0)
        assert np.all(draws.points == [0.6, 0.8])


def test_bad_input():
    with pytest.raises(ValueError, match="`start` must lie in PositiveBall"):
        hit_and_run(LOSSES["linear"], QUARTER, 1, start=[[0.0, 0.5]], chains=1)
    with pytest.raises(ValueError, match="`loss` must have the dimension of the actions, 3, got 2"):
        sample(LOSSES["linear"], kl.PositiveBall(3), 1.0, 1)


def test_a_population_follows_a_density_there():
    """Particles after 20 losses against the density on a fine net, mean by mean; and its plain data."""
    actions = kl.PositiveBall(2, lower=0.2)
    kernel = kl.Posynomial([[1, 0], [-1, 2]])
    particles = kl.samplers.Particles(actions, 4000, learning_rate=0.3)
    rng, coins, total = np.random.default_rng(1), np.random.default_rng(0), 0.0
    net = actions.net(0.01).X
    for _ in range(20):
        loss = kl.PosynomialLoss(kernel, rng.random(2))
        particles.update(loss, rng=coins)
        total = total + 0.3 * loss(net)
    p = np.exp(-(total - total.min()))
    p /= p.sum()
    mean, spread = p @ net, np.sqrt(p @ (net - p @ net) ** 2)
    assert np.all(np.abs(particles.mean() - mean) < 0.1 * spread)
    uniform = actions.sample(4000, 0).mean(axis=0)
    assert np.any(np.abs(uniform - mean) > 0.5 * spread)  # negative control
    again = kl.samplers.Particles.from_dict(particles.to_dict())
    np.testing.assert_array_equal(again.draw(5, rng=2), particles.draw(5, rng=2))
