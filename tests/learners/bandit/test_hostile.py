"""No game exceeds the bound, hostile ones and those aimed at the ridge's bias among them; Σ p·ℓ against the best action."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.learners.bandit.hostile import Losses, game
from tests.support.copies import fresh_copy

X = np.random.default_rng(11).random((20, 2))
KERNELS = {
    "gaussian": kl.Gaussian(0.4),
    "matern": kl.Matern(1.5, 0.5),
    "rough": kl.Matern(0.5, 0.4),
}
GAMES = ("hiding", "lure", "predictive", "coins")
ROUNDS = 300


def make(kernel, norm, hull, **settings):
    said = {"horizon": ROUNDS, "loss_range": (0, 1), "loss_norm": norm, "batch": 1, "rng": 3}
    said["loss_class"] = "rank-one" if hull else "general"
    return kl.BanditExpWeights(kl.Points(X), KERNELS[kernel], **said | settings)


@pytest.mark.slow
@pytest.mark.parametrize("ridge", ["auto", 0.01, 1.0])
@pytest.mark.parametrize("hull", [False, True], ids=["ball", "hull"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_no_game_exceeds_the_bound(kernel, hull, ridge):
    losses = Losses(KERNELS[kernel], X, 1.0, hull)
    made = make(kernel, 1.0, hull, ridge=ridge)
    for k, name in enumerate(GAMES):
        learner = fresh_copy(made)
        regret = game(learner, losses, name, ROUNDS, np.random.default_rng(k))
        promise = learner.guarantee()
        assert promise.valid
        assert regret <= promise.total


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_without_a_horizon_neither(name):
    losses = Losses(KERNELS["matern"], X, 1.0, False)
    learner = make("matern", 1.0, False, horizon=None)
    regret = game(learner, losses, name, ROUNDS, np.random.default_rng(0))
    assert regret <= learner.guarantee().total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hiding", "still"])
def test_losses_outside_the_class_exceed_it(name):
    # Negative control: a bandwidth wider than the set, and losses of a tenth of it.
    line = np.linspace(0, 1, 40)[:, None]
    said = {"horizon": 4000, "loss_range": (0, 1), "loss_norm": 1.0, "batch": 1, "rng": 0}
    learner = kl.BanditExpWeights(kl.Points(line), kl.Gaussian(1.6), **said)
    losses = Losses(kl.Gaussian(0.1), line, 1.0, True)
    regret = game(learner, losses, name, 4000, np.random.default_rng(0))
    assert regret > 2 * learner.guarantee().total
