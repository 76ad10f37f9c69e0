"""One lookup for every pair of loss family and action set."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.samplers import sample
from tests.support.statistics import agrees, by_counts, by_law, by_laws, differs

DISC, SQUARE = kl.Ball(2), kl.Box([0.5, 0.5], [1.5, 2.0])
QUARTER = kl.PositiveBall(2, 1.0, [0.2, 0.05])
LOSSES = {
    "linear": kl.LinearLoss([1.0, -0.5]),
    "quadratic": kl.QuadraticLoss([[1.0, 0.2], [0.2, -1.0]], [0.3, 0.0]),
    "kernel": kl.KernelLoss(kl.Gaussian(0.5), [[0.6, 0.5], [-0.3, 0.9]], [1.0, -1.0]),
    "posynomial": kl.PosynomialLoss(kl.Posynomial([[1, -1], [0.5, 2]]), [1.0, 0.3]),
}


def on_a_grid(loss, actions, eta, count=20_000, rng=None):
    """Draws from a fine grid of the set."""
    grid = actions.net(0.016).X
    logs = -eta * loss(grid)
    weights = np.exp(logs - logs.max())
    return grid[np.random.default_rng(rng).choice(len(grid), size=count, p=weights / weights.sum())]


PAIRS = [(name, actions) for name in LOSSES for actions in (DISC, SQUARE, QUARTER)]
PAIRS.remove(("posynomial", DISC))


@pytest.mark.slow
@pytest.mark.parametrize("name, actions", PAIRS)
def test_draws_follow_the_density(name, actions):
    loss = LOSSES[name]
    x = sample(loss, actions, 3.0, 1200, rng=0)
    assert x.shape == (1200, 2)
    assert np.all(actions.contains(x))
    y = on_a_grid(loss, actions, 3.0, rng=1)
    thin = x[::4]  # chains: far enough apart to count as independent
    for u in ([1.0, 0.0], [0.0, 1.0], [0.7, -0.7]):
        # the grid's step adds up to half a step to every draw of it
        jitter = np.random.default_rng(2).uniform(-0.008, 0.008, size=y.shape)
        assert agrees(by_laws(thin @ u, (y + jitter) @ u))
    wrong = on_a_grid(-1.0 * loss, actions, 3.0, rng=1)  # negative control: rewards
    assert differs(min(by_laws(thin @ u, wrong @ u) for u in ([1.0, 0.0], [0.0, 1.0])))


def test_points_are_exact():
    points = kl.Points(np.arange(5.0)[:, None])
    loss = kl.LinearLoss([0.7])
    x = sample(loss, points, 1.0, 50_000, rng=0)[:, 0]
    weights = np.exp(-0.7 * np.arange(5))
    expected = 50_000 * weights / weights.sum()
    assert agrees(by_counts(np.bincount(x.astype(int), minlength=5), expected))


def test_no_learning_is_uniform():
    x = sample(LOSSES["quadratic"], DISC, 0.0, 5000, rng=0)
    assert agrees(by_law(np.sum(x**2, axis=1), "uniform"))


def test_a_pair_without_engine_lists_those_there_are():
    message = "no sampler for PosynomialLoss on Ball; there are: Loss on Points"
    with pytest.raises(TypeError, match=message):
        sample(LOSSES["posynomial"], DISC, 1.0, 1)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((LOSSES["linear"], kl.Ball(3), 1.0, 1), "`loss` must have the dimension"),
        ((LOSSES["linear"], kl.PositiveBall(3), 1.0, 1), "of the actions, 3, got 2"),
        ((LOSSES["linear"], DISC, -1.0, 1), "`learning_rate` must be at least 0"),
        ((LOSSES["linear"], DISC, 1.0, 0), "`size` must be at least 1"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample(*arguments)
