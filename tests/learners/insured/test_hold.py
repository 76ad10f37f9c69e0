"""Losses that are held back until enough further decisions were made: when they were told makes no difference."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.errors import PolicyError
from tests.learners.insured.games import Always
from tests.support import inside
from tests.support.clauses import clause_of, marks

PRICES = kl.Points(np.linspace(1, 3, 12)[:, None])
HOLD = 6


def insured(**settings):
    fixed = {"horizon": 600, "loss_range": (0, 1), "ridge": 0, "hold": HOLD, "rng": 0}
    return kl.InsuredBandit(PRICES, kl.Gaussian(0.5), **(fixed | settings))


def robust(**settings):
    fixed = {"horizon": 600, "loss_range": (0, 1), "ridge": 0, "hold": HOLD, "rng": 0}
    return kl.BanditExpWeights(PRICES, kl.Gaussian(0.5), **(fixed | settings))


def market(learner, rounds, when, seed=0, orders=None):
    """Sales at prices, each told `when(loss, rng)` rounds after its decision; what was played."""
    rng, delays = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    due, played = [], []
    for t in range(rounds):
        if orders and t in orders:
            orders[t]()
        decision = learner.ask()
        price = float(decision.action[0])
        loss = 1 - price / 3 * (rng.random() < np.exp(-((price / 2) ** 2)))
        due.append((t + when(loss, delays), decision, loss))
        played.append(decision.index)
        # Told in no particular order, in two calls.
        told = sorted((one for one in due if one[0] <= t), key=lambda one: -one[2])
        due = [one for one in due if one[0] > t]
        for part in (told[::2], told[1::2]):
            if part:
                learner.tell([one[1] for one in part], [one[2] for one in part])
    return played


WHEN = {
    "at once": lambda loss, rng: 0,
    "at the time-out": lambda loss, rng: HOLD,
    "sales at once, others at the time-out": lambda loss, rng: 0 if loss < 1 else HOLD,
    "sales at the time-out, others at once": lambda loss, rng: HOLD if loss < 1 else 0,
    "at random": lambda loss, rng: int(rng.integers(HOLD + 1)),
}


@pytest.mark.parametrize("make", [insured, robust])
def test_play_does_not_depend_on_when_losses_are_told(make):
    learner = make()
    played = market(learner, 100, WHEN["at once"])
    for name, when in WHEN.items():
        other = make()
        assert market(other, 100, when) == played, name
        np.testing.assert_array_equal(other.distribution, learner.distribution)
        assert other.ledger.heard == learner.ledger.heard == 100 - HOLD
        assert other.ledger.longest_delay == HOLD
        if make is insured:
            np.testing.assert_array_equal(
                inside.account(other).total, inside.account(learner).total
            )
            assert other.recommend().loss == learner.recommend().loss


@pytest.mark.parametrize("make", [insured, robust])
def test_negative_control_without_holding_it_does(make):
    ways = [market(make(hold=0), 100, when) for when in WHEN.values()]
    assert all(one != ways[0] for one in ways[1:])


def test_play_is_that_of_a_constant_delay():
    # Held for 6 decisions, or told 6 decisions later with that delay declared: the same learner.
    held, late = insured(), insured(hold=0, delay=HOLD)
    assert market(held, 100, WHEN["at random"]) == market(late, 100, WHEN["at the time-out"])
    np.testing.assert_array_equal(inside.account(held).total, inside.account(late).total)
    said, told = held.guarantee(), late.guarantee()
    assert said.terms == told.terms
    assert "unopened" in marks(told)
    assert "unopened" not in marks(said)


def test_play_through_a_hand_over_and_back():
    def game(when):
        learner = insured()
        orders = {30: learner.hand_over, 60: learner.re_arm}
        played = market(learner, 90, when, orders=orders)
        return (
            played,
            [alarm.round for alarm in learner.alarms],
            inside.account(learner).total.tolist(),
        )

    played = game(WHEN["at once"])
    assert played[1] == [30, 60]
    for name, when in WHEN.items():
        assert game(when) == played, name


def test_batches_of_one_call_are_used_in_the_order_of_their_decisions():
    first, second = insured(), insured()
    for learner, order in ((first, [0, 1, 2, 3]), (second, [2, 0, 3, 1])):
        for _ in range(20):
            decisions = learner.ask(4)
            losses = np.array([0.1, 0.9, 0.4, 0.6])
            learner.tell([decisions[k] for k in order], losses[order])
        assert learner.ask().index is not None
    np.testing.assert_array_equal(inside.account(first).total, inside.account(second).total)


# What is told is told.


def test_nothing_is_used_before_its_turn():
    learner = insured()
    decisions = [learner.ask() for _ in range(HOLD)]
    before, law = learner.recommend(), learner.distribution
    learner.tell(decisions, np.linspace(0, 1, HOLD))
    assert learner.ledger.heard == 0
    assert learner.recommend().loss == before.loss
    np.testing.assert_array_equal(learner.distribution, law)
    seen = learner.diagnostics
    assert (seen.outstanding, seen.held, seen.heard) == (0, HOLD, 0)
    assert f"0 losses outstanding, {HOLD} held back" in str(seen)
    for k in range(1, HOLD + 1):
        learner.ask()
        assert learner.ledger.heard == k
    assert learner.diagnostics.held == 0
    assert "held" not in str(learner.diagnostics)


def test_a_loss_that_is_never_told_keeps_no_other_waiting():
    learner = insured()
    decisions = [learner.ask() for _ in range(20)]
    learner.tell(decisions[1:], np.full(19, 0.5))
    assert learner.ledger.heard == 20 - HOLD - 1
    learner.tell(decisions[0], 0.5)  # long overdue, and used at once
    assert learner.ledger.heard == 20 - HOLD
    told = clause_of(learner.guarantee(), "told in time")
    assert (told.holds, told.numbers) == (False, {"hold": HOLD})
    assert not learner.guarantee().valid


def test_forgetting_leaves_what_was_told():
    learner = insured()
    decisions = [learner.ask() for _ in range(4)]
    learner.tell(decisions[1], 0.5)
    assert learner.forget(before=3) == 2
    assert len(learner.ledger.held) == 1
    learner.tell(decisions[3], 0.5)
    for _ in range(HOLD):
        learner.ask()
    assert learner.ledger.heard == 2


class Fussy(Always):
    """Does not hear what it is told while it is deaf."""

    deaf = False

    def hear(self, index, loss):
        if self.deaf:
            raise RuntimeError("what?")
        super().hear(index, loss)


def test_a_policy_hears_in_its_turn_and_in_order():
    policy = Fussy(3)
    learner = insured(policy=policy)
    decisions = [learner.ask() for _ in range(HOLD)]
    losses = np.linspace(0.1, 0.6, HOLD)
    learner.tell(decisions[::-1], losses[::-1])
    assert policy.heard == []
    for k in range(HOLD):
        learner.ask()
        assert [loss for _, loss in policy.heard] == losses[: k + 1].tolist()


def test_a_policy_that_fails_to_hear():
    policy = Fussy(3)
    learner = insured(policy=policy)
    decisions = [learner.ask() for _ in range(HOLD)]
    learner.tell(decisions[0], 0.2)
    policy.deaf = True
    # The loss of the first is due now; the decision has been made all the same.
    decisions.append(learner.ask())
    with pytest.raises(PolicyError):
        learner.ask()
    assert learner.ledger.made == HOLD + 1
    with pytest.raises(PolicyError):
        learner.tell(decisions[1], 0.3)
    assert list(learner.ledger.held) == [0]  # the second has not been told
    policy.deaf = False
    learner.tell(decisions[1], 0.3)
    assert [loss for _, loss in policy.heard] == [0.2]
    learner.ask()
    assert [loss for _, loss in policy.heard] == [0.2, 0.3]


# Snapshots and settings.


def test_settings():
    for make in (insured, robust):
        assert make().settings.planned_delay == HOLD
        assert make(delay=9).settings.planned_delay == 9
        assert make(hold=0).settings.planned_delay == 0
        with pytest.raises(ValueError, match="`batch` must be 1 where `hold` is positive, got 2"):
            make(batch=2)
    with pytest.raises(ValueError, match="`hold` must be 0 where `regret` is 'hindsight', got 6"):
        robust(regret="hindsight")
    assert f"hold={HOLD}" in repr(insured())
    for bad in (-1, 1.5, "all", None, True):
        with pytest.raises((TypeError, ValueError), match="`hold` must be"):
            insured(hold=bad)
        with pytest.raises((TypeError, ValueError), match="`hold` must be"):
            robust(hold=bad)
    with pytest.raises(ValueError, match="`hold` must be 0 with a `loss_range` of 'learn'"):
        insured(loss_range="learn")


def test_rewards_are_held_as_they_are_told():
    losses, rewards = insured(), insured(goal="maximize", loss_range=(-1, 0))
    for _ in range(30):
        one, other = losses.ask(), rewards.ask()
        assert one.index == other.index
        losses.tell(one, 0.25)
        rewards.tell(other, -0.25)
    assert losses.ledger.held == rewards.ledger.held


def test_on_a_ball_and_in_batches():
    def play(late, size):
        learner = kl.BanditExpWeights(
            kl.Ball(2), kl.Quadratic(), horizon=400, loss_range=(0, 4), hold=HOLD, rng=0
        )
        waiting, played = [], []
        for _ in range(12):
            decisions = learner.ask(size)
            waiting.append(decisions)
            played.append(decisions.action)
            if len(waiting) > late:  # a batch is told within the next one
                told = waiting.pop(0)
                learner.tell(told, np.sum((told.action - 0.3) ** 2, axis=1))
        return np.concatenate(played), learner

    at_once, learner = play(0, 4)
    late, other = play(1, 4)
    np.testing.assert_array_equal(at_once, late)
    assert learner.ledger.heard == other.ledger.heard > 30
    again = kl.BanditExpWeights.from_state(learner.state())
    np.testing.assert_array_equal(again.ask(3).action, learner.ask(3).action)
    # What is told when it was due already makes a difference.
    too_late, _ = play(4, 4)
    assert not np.array_equal(at_once, too_late)
