"""Games that are short or small, and kernels of the insurance and of the forecast."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import insured
from koloss.learners.insured.bandwidths import CONSTANT
from tests.learners.insured.games import POINTS, kind, make, play
from tests.learners.insured.inside import stage_of
from tests.support import inside

# Extremes.


def test_two_actions_one_of_them_twice():
    learner = make(kl.Points([[0.0], [1.0], [1.0]]), horizon=500)
    p = learner.distribution
    np.testing.assert_allclose(learner.probability([[1.0]]), p[1] + p[2])
    learner, losses = make(kl.Points([[0.0], [1.0]]), horizon=500), np.array([0.2, 0.6])
    assert np.mean(losses[play(learner, lambda t: losses, 500)] == 0.2) > 0.85


def test_a_horizon_that_is_too_short_is_played_robustly():
    learner = make(horizon=5, rank=20)
    (alarm,) = learner.alarms
    assert (alarm.round, alarm.reason, alarm.successor) == (0, "short", "robust")
    assert "before the first round the policy 'ucb' was stopped" in str(alarm)
    assert learner.diagnostics.playing == "robust"
    settings = {"horizon": 5, "rank": 20, "loss_range": (0, 1)}
    robust = kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **settings).guarantee()
    assert learner.guarantee().terms == pytest.approx(dict(robust.terms))
    play(learner, kind, 5)
    # Where it ends: the budget, less 1, must exceed twice the leverage.
    for n in range(6, 12):
        learner = make(horizon=n, rank=20)
        problem = learner.engine.problem
        enough = 1.25 * insured.scale(problem, n) - 1 > 2 * problem.leverage
        assert (learner.diagnostics.playing == "ucb") == enough
    assert learner.diagnostics.playing == "ucb"


@pytest.mark.parametrize("actions", [kl.Box([0, 0], [1, 1]), kl.Ball(2)], ids=repr)
def test_compact_sets_are_played_on_a_net(actions):
    learner = make(actions, kl.Gaussian(0.7), spacing=0.25, horizon=800)
    assert len(learner.actions) == len(actions.net(0.25))
    decision = learner.ask()
    assert np.all(actions.contains(decision.action[None]))
    learner.tell(decision, 0.5)
    assert learner.guarantee().terms["net"] > 0
    play(learner, lambda t: np.full(len(learner.actions), 0.4), 20)


PRICES = kl.Points(np.linspace(1, 3, 30)[:, None])
MARKET = {"horizon": 2000, "loss_range": (0, 2), "rng": 0}


def prices(**settings):
    return kl.InsuredBandit(PRICES, kl.Gaussian(0.5), **(MARKET | settings))


def test_the_insurance_has_a_kernel_of_its_own():
    rough, smooth = prices(robust_kernel="any"), prices()
    # Any loss within the range, less its middle, is at most half of the range at each of the 30 prices.
    norm = float(np.ptp(MARKET["loss_range"])) / 2 * math.sqrt(30)
    alone = kl.InsuredBandit(PRICES, kl.White(), loss_norm=norm, **MARKET)
    assert (rough.rank, alone.rank) == (30, 30)
    assert smooth.rank < 30
    assert rough.guarantee().terms == alone.guarantee().terms
    assert rough.guarantee().total > smooth.guarantee().total
    # The policy forecasts with its own: a loss says as much of prices nearby as it did.
    for learner in (rough, smooth, alone):
        inside.forecaster(learner).update(15, -0.4)
    near = [
        inside.forecaster(learner).mean[16] - inside.forecaster(learner).mean[0]
        for learner in (rough, smooth)
    ]
    assert near[0] == pytest.approx(near[1], rel=1e-3)
    assert abs(near[0]) > 1e-3
    mean = inside.forecaster(alone).mean
    assert abs(mean[16] - mean[0]) < 1e-6  # negative control: unrelated


def test_the_forecast_has_the_prior_of_the_kernel():
    # That of its Gram matrix, scaled to 1, and a constant that may be large.
    learner = make(kl.Points(np.random.default_rng(1).random((20, 2))), kl.Polynomial(2))
    low, high = learner.actions.min(axis=0), learner.actions.max(axis=0)
    K = kl.Polynomial(2)(2 * (learner.actions - low) / (high - low) - 1)
    regression = stage_of(learner).forecaster.regression
    prior = regression.features @ regression.covariance @ regression.features.T
    np.testing.assert_allclose(prior, K / np.diag(K).max() + CONSTANT, rtol=1e-8, atol=1e-8)
