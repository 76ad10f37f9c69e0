"""A cap on what exploring may cost, a kernel of its own for the insurance, and a budget for several policies."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured.rounds import Round
from tests.learners.insured.inside import law_of

PRICES = kl.Points(np.linspace(1, 3, 30)[:, None])
SETTINGS = {"horizon": 2000, "loss_range": (0, 2), "rng": 0}


def spent(learner, rounds):
    """Of every round what exploring was expected to cost, in the units of the losses; of the robust learner's nothing."""
    market, costs = np.random.default_rng(1), []
    for _ in range(rounds):
        decision = learner.ask()
        played, mean = law_of(learner, decision), learner.diagnostics.estimated_losses
        cost = 0.0
        if isinstance(played, Round):
            gaps = mean - mean[played.choice]
            cost = played.rate * max(float(played.exploration.weights @ gaps), 0.0)
        costs.append(cost)
        sold = market.random() < np.exp(-((decision.action[0] / 2) ** 2))
        learner.tell(decision, 2 - 2 * decision.action[0] * sold / 3)
    return np.array(costs)


def make(**settings):
    return kl.InsuredBandit(PRICES, kl.Gaussian(0.5), **(SETTINGS | settings))


@pytest.mark.parametrize("cap", [0.01, 0.03])
def test_a_round_costs_no_more_than_it_may(cap):
    free, capped = make(), make(exploration_cost=cap)
    assert spent(free, 300).max() > cap  # negative control
    costs = spent(capped, 300)
    assert 0 < costs.max() <= cap * (1 + 1e-9)


def test_a_block_of_rounds_costs_no_more_than_it_may():
    limit, rounds = 0.5, 50
    blocks = spent(make(), 300).reshape(-1, rounds).sum(axis=1)
    assert blocks.max() > limit  # negative control
    learner = make(exploration_cost=(limit, rounds))
    blocks = spent(learner, 300).reshape(-1, rounds).sum(axis=1)
    assert 0.5 * limit < blocks.max() <= limit * (1 + 1e-9)


def test_what_is_too_dear_is_played_by_the_robust_learner_without_an_alarm():
    learner = make(exploration_cost=1e-4)
    spent(learner, 200)
    seen = learner.diagnostics
    assert (seen.playing, seen.alarms) == ("ucb", ())
    assert seen.sat_out == learner._robust.exp2.made > 100


def test_the_insurance_has_a_kernel_of_its_own():
    rough, smooth = make(robust_kernel="any"), make()
    # Any loss within the range, less its middle, is at most half of the range at each of the 30 prices.
    norm = float(np.ptp(SETTINGS["loss_range"])) / 2 * math.sqrt(30)
    alone = kl.InsuredBandit(PRICES, kl.White(), loss_norm=norm, **SETTINGS)
    assert (rough.rank, alone.rank) == (30, 30)
    assert smooth.rank < 30
    assert rough.guarantee().terms == alone.guarantee().terms
    assert rough.guarantee().total > smooth.guarantee().total
    # The policy forecasts with its own: a loss says as much of prices nearby as it did.
    for learner in (rough, smooth, alone):
        learner._forecaster.update(15, -0.4)
    near = [
        learner._forecaster.mean[16] - learner._forecaster.mean[0] for learner in (rough, smooth)
    ]
    assert near[0] == pytest.approx(near[1], rel=1e-3)
    assert abs(near[0]) > 1e-3
    mean = alone._forecaster.mean
    assert abs(mean[16] - mean[0]) < 1e-6  # negative control: unrelated


@pytest.mark.parametrize(
    "count, shares", [(1, (1,)), (2, (1 / 2, 1 / 2)), (3, (1 / 2, 1 / 4, 1 / 4))]
)
def test_several_policies_share_one_budget(count, shares):
    learner = make(policy=["ucb"] * count, trigger=0.4, premium=0.8)
    assert learner.settings.budgets == pytest.approx([1.2 * share for share in shares])
    one = make(trigger=0.4, premium=0.8)
    assert learner.guarantee().terms["budget"] == pytest.approx(one.guarantee().terms["budget"])


@pytest.mark.parametrize(
    "settings, error, match",
    [
        ({"exploration_cost": -1}, ValueError, "`exploration_cost` must be positive, got -1"),
        ({"exploration_cost": "x"}, TypeError, "`exploration_cost` must be a number, got 'x'"),
        ({"exploration_cost": (1, 2, 3)}, ValueError, "`exploration_cost` must be a cost, or a cost and"),
        ({"exploration_cost": (1, 0)}, ValueError, "`exploration_cost` must be at least 1, got 0"),
        ({"exploration_cost": float("nan")}, ValueError, "`exploration_cost` must be finite, got nan"),
        ({"exploration_cost": 1, "loss_range": "learn"}, ValueError, "`exploration_cost` must be left out"),
        ({"robust_kernel": 5}, TypeError, "`robust_kernel` must be a Kernel, .* got int"),
        ({"robust_kernel": "rough"}, ValueError, "`robust_kernel` must be one of 'any', 'auto', got 'rough'"),
        ({"overdraft": -1}, ValueError, "`overdraft` must be at least 0, got -1"),
    ],
    ids=str,
)  # fmt: skip
def test_bad_settings(settings, error, match):
    with pytest.raises(error, match=match):
        make(**settings)
