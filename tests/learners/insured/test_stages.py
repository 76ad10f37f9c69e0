"""Stages over one ledger: late losses, batches, handing over, and snapshots at any moment."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds, PolicyError, UnknownDecision
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.insured.watched import Watched
from tests.learners.insured.games import POINTS, POLICIES, Always, goes_on, hold, kind, make, play
from tests.learners.insured.inside import digest, is_robust, law_of, resumed, stage_of, worst_loss

# Late losses and batches.


@pytest.mark.parametrize("policy", POLICIES)
def test_order_of_late_losses_does_not_matter_for_the_estimate(policy, rng):
    losses, totals = rng.random(12), []
    for order in (range(12), rng.permutation(12)):
        learner = make(policy=policy, early=False, rng=8)
        decisions = [learner.ask() for _ in range(12)]
        for k in order:
            learner.tell(decisions[k], float(losses[k]))
        assert learner.alarms == []
        totals.append(stage_of(learner).total)
    np.testing.assert_allclose(*totals, rtol=1e-9, atol=1e-9)


def test_told_at_once_is_told_one_by_one(rng):
    losses = rng.random(5)
    at_once = make(rng=2, early=False)
    batch = at_once.ask(5)
    parts = resumed(at_once.state())
    at_once.tell(batch, losses)
    for decision, loss in zip(batch, losses, strict=True):
        parts.tell(decision.id, float(loss))
    assert digest(at_once) == digest(parts)


def test_a_batch_is_drawn_from_one_law():
    learner = make(policy="thompson", width=2.0)
    play(learner, kind, 5)
    batch = learner.ask(200)
    assert len({id(law_of(learner, decision)) for decision in batch}) == 1
    assert batch.epoch.tolist() == [0] * 200


@pytest.mark.parametrize("robust", [False, True])
def test_more_actions_than_can_be_drawn_at_once(robust):
    learner = make(rng=np.random.default_rng(0))
    play(learner, kind, 5)
    if robust:
        learner.hand_over()
        play(learner, kind, 5)
    before = digest(learner)
    for count in (10**12, 10**15):
        with pytest.raises(ValueError, match="`count` must be at most 10000000, got 1000"):
            learner.ask(count)
    assert digest(learner) == before
    assert learner.ledger.made == (10 if robust else 5)


def test_one_outstanding_loss_does_not_stop_a_policy():
    # A small premium beside a large trigger: one budget, which has not been touched yet.
    learner = make(horizon=2000, trigger=1.2, premium=0.05)
    learner.ask()
    learner.ask()
    assert learner.alarms == []


def test_a_loss_that_a_policy_failed_to_hear_can_be_told_again():
    class Moody(Always):
        moods = iter([True, False, True, True])

        def hear(self, index, loss):
            if not next(self.moods):
                raise OSError("not now")
            super().hear(index, loss)

    learner = make(policy=Moody(3))
    decisions = [learner.ask() for _ in range(3)]
    learner.tell(decisions[0], 0.1)
    before = digest(learner)
    with pytest.raises(PolicyError, match="Moody raised OSError: not now"):
        learner.tell(decisions[1:], [0.2, 0.3])
    assert digest(learner) == before
    learner.tell(decisions[1:], [0.2, 0.3])
    assert [loss for _, loss in learner.settings.policy.heard] == [0.1, 0.2, 0.3]
    assert learner.diagnostics.heard == 3


def test_losses_of_an_earlier_stage_still_teach_the_forecaster():
    learner = make(policy=["ucb", "thompson"], trigger=0.5, premium=0.5)
    waiting = [learner.ask() for _ in range(5)]
    learner.hand_over()
    before = learner.diagnostics.estimated_losses.copy()
    learner.tell(waiting[0], 0.9)
    assert learner.diagnostics.estimated_losses[waiting[0].index] > before[waiting[0].index]
    assert learner.diagnostics.estimated_regret == 0  # of the new stage


def test_a_late_loss_that_does_not_fit(monkeypatch):
    learner = make()
    first, second = learner.ask(), learner.ask()
    learner.tell(second, 0.5)
    learner.ask()
    watched = stage_of(learner)
    before = watched.total.copy()
    monkeypatch.setattr(Watched, "fits", lambda self, played, budget: False)
    learner.tell(first, 0.5)
    np.testing.assert_array_equal(watched.total, before)
    (alarm,) = learner.alarms
    assert alarm.reason == "late loss"
    assert learner.diagnostics.playing == "robust"
    assert "a late loss did not fit into the budget" in str(learner.diagnostics)
    # Of the stage's three decisions one has been heard.
    assert learner.guarantee().terms["unheard"] >= 2


# Handing over.


def test_ids_go_on_across_the_hand_over():
    learner = make()
    before = [learner.ask().id for _ in range(3)]
    learner.hand_over()
    assert [*before, learner.ask().id, *learner.ask(4).id] == list(range(8))
    assert learner.diagnostics.rounds == 8
    assert learner.diagnostics.outstanding == 8


def test_losses_after_the_stage_are_counted_and_ignored():
    learner = make()
    waiting = [learner.ask() for _ in range(6)]
    learner.tell(waiting[0], 0.3)
    watched = stage_of(learner)
    learner.hand_over()
    robust = learner.ask()
    theta, total, paid = stage_of(learner).theta.copy(), watched.total.copy(), watched.paid
    losses, unheard = learner.diagnostics.estimated_losses, learner.guarantee().terms["unheard"]
    for decision in waiting[1:]:
        learner.tell(decision, 1.0)
    np.testing.assert_array_equal(stage_of(learner).theta, theta)
    np.testing.assert_array_equal(watched.total, total)
    np.testing.assert_array_equal(learner.diagnostics.estimated_losses, losses)
    assert watched.paid == paid
    seen = learner.diagnostics
    assert (seen.heard, seen.outstanding, seen.dropped) == (6, 1, 5)
    assert learner.guarantee().terms["unheard"] == unheard >= 5
    learner.tell(robust, 0.2)
    assert learner.diagnostics.outstanding == 0


def test_losses_dropped_after_a_hand_over_make_no_others_late():
    # Three losses of the robust learner's own decisions in turn, five of the policy's between them.
    learner = make(delay=2)
    old = [learner.ask() for _ in range(5)]
    learner.hand_over()
    new = [learner.ask() for _ in range(4)]
    text = "at most 2 other losses are heard before that of an action"
    learner = resumed(learner.state())
    for decision in (new[0], *old[:3], new[1], *old[3:], new[2]):
        learner.tell(decision, 0.5)
    assert hold(learner.guarantee())[text] is True
    learner = resumed(learner.state())
    learner.tell(new[3], 0.5)  # after three of its kind
    assert hold(learner.guarantee())[text] is False


@pytest.mark.parametrize("forgotten", [0, 3])
def test_unheard_losses_are_charged_after_a_hand_over(forgotten):
    learner = make(loss_range=(0, 2))
    ids = [learner.ask().id for _ in range(7)]
    learner.forget(ids[:forgotten])
    assert learner.guarantee().terms["unheard"] == pytest.approx(7 * 2)
    learner.hand_over()
    assert learner.guarantee().terms["unheard"] >= 7 * 2


def test_mixed_tells_across_the_hand_over():
    learner = make(early=False)
    old = [learner.ask() for _ in range(3)]
    learner.hand_over()
    new = [learner.ask() for _ in range(3)]
    other = resumed(learner.state())
    learner.tell([new[0], old[1], new[2], old[0]], [0.1, 0.2, 0.3, 0.4])
    for decision, loss in ((new[0], 0.1), (new[2], 0.3), (old[1], 0.2), (old[0], 0.4)):
        other.tell(decision, loss)
    np.testing.assert_allclose(stage_of(learner).theta, stage_of(other).theta)
    assert learner.diagnostics.outstanding == 2
    before = digest(learner)
    bad = [
        ([new[1], old[0]], [0.1, 0.2], UnknownDecision, "got 0, which was told already"),
        ([new[0], old[2]], [0.1, 0.2], UnknownDecision, "got 3, which was told already"),
        ([new[1], new[1]], [0.1, 0.2], UnknownDecision, "repeat"),
        ([old[2], old[2]], [0.1, 0.2], UnknownDecision, "repeat"),
        ([new[1], 99], [0.1, 0.2], UnknownDecision, "got 99, which was never made"),
        ([new[1], -1], [0.1, 0.2], UnknownDecision, "got -1, which was never made"),
        ([new[1], old[2]], [0.1, 1.2], LossOutOfBounds, "got 1.2"),
        ([old[2], new[1]], [0.1, -0.2], LossOutOfBounds, "got -0.2"),
        ([new[1], old[2]], [0.1], ValueError, "`loss` must have 2 entries"),
        ([new[1], old[2]], [0.1, float("nan")], ValueError, "`loss` must be finite"),
    ]
    for decisions, losses, error, message in bad:
        with pytest.raises(error, match=message):
            learner.tell(decisions, losses)
        assert digest(learner) == before
    learner.tell([old[2], new[1]], [0.0, 1.0])
    assert learner.diagnostics.outstanding == 0


@pytest.mark.parametrize("policies", [["ucb"], ["ucb", "thompson"]])
def test_handing_over_again_is_to_the_next_policy_or_to_nobody(policies):
    learner = make(policy=policies, trigger=0.5, premium=0.5)
    for _ in policies:
        learner.hand_over()
    assert [alarm.successor for alarm in learner.alarms] == [*policies[1:], "robust"]
    before = digest(learner)
    learner.hand_over()
    assert digest(learner) == before
    assert len(learner.alarms) == len(policies)


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
    alone = Exp2(engine, engine.rates, horizon=horizon, batch=learner.batch)
    played = []
    for t in range(100):
        epoch, drawn = alone.draw(None, rng)
        alone.learn(epoch, drawn.keys, [kind(t)[drawn.index]])
        played.append(drawn.index)
    assert play(learner, kind, 100) == played
    np.testing.assert_array_equal(stage_of(learner).theta, alone.theta)


def test_beyond_the_horizon_it_plays_on():
    learner = make(horizon=60)
    play(learner, kind, 70)
    learner.hand_over()
    play(learner, kind, 10)
    assert not learner.guarantee().valid


# Snapshots.


def game(learner, rounds, waiting=()):
    """Indices that were played in a hostile game with late losses, and the decisions that are left."""
    waiting, played = list(waiting), []
    for _ in range(rounds):
        decision = learner.ask()
        played.append(decision.index)
        waiting.append(decision)
        if len(waiting) > 2:
            first = waiting.pop(0)
            learner.tell(first, worst_loss(learner, first))
    return played, waiting


MOMENTS = {"before": (12, 0, 0), "between": (25, 1, 5), "after": (50, 2, 10), "alarm": (50, 2, 0)}
"""Rounds, how often the policy in play is told to hand over, and rounds after that."""


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*POLICIES, ["ucb", "optimistic"]], ids=str)
@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("settings", [{"horizon": 400}, {"horizon": None}], ids=str)
def test_resume_is_exact(policy, when, settings, tmp_path):
    # Without a horizon the first rounds are a warm-up; with one, the robust learner's epochs have several rounds.
    rounds, times, more = MOMENTS[when]
    learner = make(rng=3, policy=policy, early=False, premium=0.75, trigger=0.5, **settings)
    _, waiting = game(learner, rounds)
    for _ in range(times):
        learner.hand_over()
    _, waiting = game(learner, more, waiting)
    assert {"before": 0, "between": isinstance(policy, str)}.get(when, 1) == is_robust(learner)
    assert len(waiting) == 2
    kl.save_state(tmp_path / "state.npz", learner.state())
    again = resumed(kl.load_state(tmp_path / "state.npz"))
    assert digest(again) == digest(learner)
    assert game(again, 150, waiting)[0] == game(learner, 150, waiting)[0]
    assert digest(again) == digest(learner)
    assert again.alarms == learner.alarms


def test_resume_is_exact_with_rounds_of_several_explorations_outstanding():
    learner, waiting = make(early=False), []
    while len({law_of(learner, d).exploration.number for d in waiting}) < 3:
        waiting.append(learner.ask())
        play(learner, kind, 16, start=learner.ledger.made)
        assert learner.alarms == []
        assert learner.ledger.made < 1000
    again = resumed(learner.state())
    for one in (learner, again):
        one.tell(waiting, [0.5] * len(waiting))
    assert digest(again) == digest(learner)
    assert goes_on(learner)


def test_resume_is_exact_within_an_epoch():
    learner = make(batch=16)
    learner.hand_over()
    waiting = [learner.ask() for _ in range(5)]
    learner.tell(waiting.pop(2), 0.4)
    again = resumed(learner.state())
    next_ones = [[one.ask() for _ in range(4)] for one in (learner, again)]
    assert [d.epoch for d in next_ones[0]] == [waiting[0].epoch] * 4  # it is still open
    for one, new in zip((learner, again), next_ones, strict=True):
        one.tell([*waiting, *new], np.linspace(0, 1, 8))
    assert play(again, kind, 50) == play(learner, kind, 50)
    assert digest(again) == digest(learner)


def test_rounds_of_a_stage_that_is_over_keep_nothing():
    # Both stages have redesigned, and decisions of both are outstanding; the losses of the first are of no use any more.
    learner = make(policy=["ucb", "ucb"], early=False, trigger=0.5, premium=0.5)
    play(learner, kind, 120)
    first = learner.ask()
    learner.hand_over()
    play(learner, kind, 120)
    stage = stage_of(learner)
    stage.designs += 1
    stage.exploration = stage.first.priced(stage.designs, np.linspace(1, 3, len(stage.total)))
    second = learner.ask()
    assert (law_of(learner, first).number, len(law_of(learner, first).numbers)) == (0, 0)
    assert (law_of(learner, second).number, law_of(learner, second).exploration) == (
        1,
        stage.exploration,
    )
    again = resumed(learner.state())
    for one in (learner, again):
        one.tell(second, 0.3)
        one.tell(first, 0.9)
    np.testing.assert_array_equal(stage_of(again).total, stage_of(learner).total)
    assert digest(again) == digest(learner)
