"""Stages over one ledger: late losses, batches, and handing over."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.exp2 import Epoch, Exp2
from tests.learners.insured.games import POINTS, POLICIES, kind, make, play
from tests.learners.insured.inside import (
    digest,
    is_robust,
    law_of,
    resumed,
    stage_of,
    with_overdraft,
)
from tests.support import inside

# Late losses and batches.


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("policy", POLICIES)
def test_order_of_late_losses_does_not_matter_for_the_estimate(policy, rng):
    losses, totals = rng.random(12), []
    for order in (range(12), rng.permutation(12)):
        learner = make(policy=policy, rng=8)
        decisions = [learner.ask() for _ in range(12)]
        for k in order:
            learner.tell(decisions[k], float(losses[k]))
        assert learner.alarms == []
        totals.append(stage_of(learner).total)
    np.testing.assert_allclose(*totals, rtol=1e-9, atol=1e-9)


def test_losses_of_an_earlier_stage_still_count():
    learner = make()
    waiting = [learner.ask() for _ in range(5)]
    learner.hand_over()
    before = learner.diagnostics
    law = law_of(learner, waiting[0])
    learner.tell(waiting[0], 0.9)
    after, index = learner.diagnostics, waiting[0].index
    assert after.estimated_losses[index] > before.estimated_losses[index]
    estimate = law.prediction + law.estimates(index) * (0.4 - law.prediction[index])
    np.testing.assert_allclose(inside.account(learner).total, 0.4 - estimate)
    assert after.estimated_regret == pytest.approx(np.max(0.4 - estimate))
    assert (before.open, after.open) == (5, 4)


def near_the_limit(learner, room):
    """Leave so much room to the account, for every action."""
    account, allowance = inside.account(learner), inside.latest_stage(learner).allowance
    account.total = np.full(len(account.total), allowance.budget(1) - 1 - room)
    return account


@pytest.mark.usefixtures("patient")
def test_a_late_loss_that_does_not_fit_is_skipped_in_part_and_nothing_stops():
    learner = make()
    first, second, third = (learner.ask() for _ in range(3))
    learner.tell(second, 0.5)
    law, account = law_of(learner, first), near_the_limit(learner, 2.0)
    weight, before = 2.0 / law.reach().max(), account.total.copy()
    assert weight < 1
    learner.tell(first, 0.7)
    estimate = law.prediction + law.estimates(first.index) * (0.2 - law.prediction[first.index])
    np.testing.assert_allclose(account.total, before + 0.2 - weight * estimate + (1 - weight) / 2)
    assert learner.diagnostics.skipped == pytest.approx(1 - weight)
    assert f"{1 - weight:.4g} were not counted" in str(learner.diagnostics)
    near_the_limit(learner, -1.0)  # no room at all
    before = account.total.copy()
    learner.tell(third, 0.7)
    np.testing.assert_allclose(account.total, before + 0.7)  # what it is above the least loss
    assert learner.alarms == []
    assert not is_robust(learner)


@pytest.mark.usefixtures("patient")
def test_a_policy_that_waits_sits_out_and_goes_on():
    learner = with_overdraft(make(kl.Points(np.eye(2)), kl.Linear()), 0)
    near_the_limit(learner, 8.5)  # room for nine decisions
    waiting = [learner.ask() for _ in range(15)]
    own = [not isinstance(law_of(learner, d), Epoch) for d in waiting]
    assert own == [True] * 9 + [False] * 6
    assert learner.diagnostics.sat_out == 6
    assert learner.diagnostics.open == 9
    assert learner.alarms == []
    assert learner.diagnostics.playing == "ucb"
    for decision in waiting:
        learner.tell(decision, 0.0)  # the least: skipped losses cost nothing then
    assert not isinstance(law_of(learner, learner.ask()), Epoch)


# Handing over.


def test_handing_over_again_changes_nothing():
    learner = make()
    learner.hand_over()
    assert [alarm.successor for alarm in learner.alarms] == ["robust"]
    before = digest(learner)
    learner.hand_over()
    assert digest(learner) == before


@pytest.mark.parametrize("after, tuned", [(0, 1000), (400, 1000), (501, 500), (760, 250)])
def test_the_robust_learner_is_tuned_to_the_rounds_that_remain(after, tuned):
    # or up to twice as many
    said = {"ridge": 0, "loss_class": "rank-one", "loss_norm": 1.0}
    learner = make(batch=1, **said)
    play(learner, kind, after)
    learner.hand_over()
    robust, rank = stage_of(learner), learner.rank - 1
    settings = {"horizon": tuned, "loss_range": (0, 1), "rank": rank, "batch": 1}
    settings |= {"bonus": False, **said}
    alone = kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **settings)
    assert robust.horizon == 1000 - after
    assert robust.rates.learning_rate == pytest.approx(alone.rates.learning_rate, rel=1e-6)
    np.testing.assert_allclose(learner.distribution, alone.distribution, rtol=1e-5)
    assert not is_robust(make(horizon=None))


@pytest.mark.parametrize(
    "settings", [{}, {"ridge": 0}, {"batch": 1, "delay": 2}, {"horizon": None}], ids=str
)
def test_after_a_hand_over_it_is_algorithm_1_from_scratch(settings):
    learner = make(**settings)
    play(learner, kind, 600)
    learner.hand_over()
    learner = resumed(learner.state(), seed=9)
    engine, horizon, rng = learner.robust, learner.settings.horizon, np.random.default_rng(9)
    if horizon is not None:
        horizon = 400
        engine = engine.retuned(500)
    alone = Exp2(engine, horizon=horizon, batch=learner.batch)
    played = []
    for t in range(100):
        epoch, drawn = alone.draw(None, rng)
        alone.learn(epoch, drawn.keys, [kind(t)[drawn.index]])
        played.append(drawn.index)
    assert play(learner, kind, 100) == played
    np.testing.assert_array_equal(stage_of(learner).theta, alone.theta)
