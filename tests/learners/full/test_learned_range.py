"""Exponential weights that are told nothing of the size of losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds
from tests.support.clauses import remarks
from tests.support.hostile import game

N = 6
POINTS = kl.Points(np.linspace(0, 1, N)[:, None])


def make(**settings):
    settings = {"horizon": None, "loss_range": "learn", "rng": 0, **settings}
    return kl.ExpWeights(POINTS, kl.Gaussian(0.4), **settings)


def tell(learner, loss):
    learner.tell(learner.ask(), loss)


def hostile(name, rounds, rng):
    """Losses as a function of the round and the law: against the likeliest action, at sizes that grow."""
    sizes = {
        "jump": lambda t: 1000.0 if t > rounds // 2 else 1.0,
        "growth": lambda t: 1.1**t,
        "zeros": lambda t: 0.0 if t < 3 * rounds // 4 else 7.0,
        "spike": lambda t: 500.0 if t == rounds // 3 else 1.0,
    }
    offset, size = rng.normal() * 100, sizes[name]

    def loss(t, p):
        one = rng.uniform(0, 0.3, N)
        one[np.argmax(p)] += 1.0
        one[np.argmin(p)] -= 1.0
        return offset + size(t) * one

    return loss


def played(learner, loss, rounds):
    """Regret of the laws against the best action, and the largest range of a loss."""
    widths = []

    def losses(t, p):
        one = loss(t, p)
        widths.append(np.ptp(one))
        return one

    return game(learner, losses, rounds).regrets.max(), max(widths)


@pytest.mark.parametrize("horizon", [None, 120])
@pytest.mark.parametrize("name", ["jump", "growth", "zeros", "spike"])
def test_the_bound_holds_on_every_path(name, horizon):
    for seed in range(4):
        learner = make(horizon=horizon)
        regret, width = played(learner, hostile(name, 120, np.random.default_rng(seed)), 120)
        root = math.sqrt(120 * math.log(N) / (1 if horizon is None else 2))
        promise = learner.guarantee(rounds=120)
        assert promise.total == pytest.approx(min(root + 1, 120))
        assert regret <= width * (root + 1)


def test_without_the_learned_range_it_does_not():
    # The negative control: a rate that does not know of the jump.
    learner, steady = make(), kl.ExpWeights(POINTS, kl.Gaussian(0.4), horizon=None, loss_range=(-1e6, 1e6), rng=0)  # fmt: skip
    ratios, drift = [], np.linspace(0, 1, N)
    for one in (learner, steady):
        rng = np.random.default_rng(0)
        regret, width = played(one, lambda t, p, rng=rng: drift + 0.01 * rng.random(N), 120)
        ratios.append(regret / (width * (math.sqrt(120 * math.log(N)) + 1)))
    assert ratios[0] < 0.5
    assert ratios[1] > 1.5  # for a range that it was not told the bound of the other does not hold


@pytest.mark.parametrize("prior", [None, [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]])
@pytest.mark.parametrize("horizon", [None, 30])
def test_laws_by_hand(horizon, prior):
    rng, learner, first = np.random.default_rng(5), make(horizon=horizon, prior=prior), np.full(N, 1 / N)  # fmt: skip
    first = np.full(N, 1 / N) if prior is None else np.array(prior)
    E, total, width = math.log(1 / first.min()), np.zeros(N), 0.0
    for t in range(1, 31):
        eta = 2 * math.sqrt(E / t) if horizon is None else math.sqrt(8 * E / horizon)
        weights = first * np.exp(-eta / (width or 1.0) * (total - total.min()))
        np.testing.assert_allclose(learner.distribution, weights / weights.sum(), rtol=1e-9)
        loss = np.full(N, 3.0) if t < 4 else rng.normal(size=N) * t
        tell(learner, loss)
        total, width = total + loss, max(width, np.ptp(loss))
    promise = learner.guarantee(rounds=30)
    assert promise.seen == pytest.approx(width)
    assert remarks(promise)["range in a round"] == {"heard": f"{width:.6g}"}


def test_a_snapshot_goes_on():
    rng, learner = np.random.default_rng(3), make()
    for _ in range(10):
        tell(learner, rng.normal(size=N))
    again = kl.ExpWeights.from_state(learner.state())
    for _ in range(10):
        loss = 100 * rng.normal(size=N)
        assert learner.ask().index == again.ask().index
        for one in (learner, again):
            tell(one, loss)
        np.testing.assert_array_equal(learner.distribution, again.distribution)
    assert learner.guarantee(rounds=40) == again.guarantee(rounds=40)


def test_losses_beyond_floats_are_refused():
    with pytest.raises(LossOutOfBounds, match="`loss` must be at most"):
        tell(make(), np.full(N, 1e308))
