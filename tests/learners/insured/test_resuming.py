"""Snapshots in the midst of late losses, second chances and a robust learner that sleeps: to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.exp2 import Epoch
from koloss.learners.insured.exploration import Round
from tests.learners.insured.games import Always, kind, make, play
from tests.learners.insured.inside import digest, is_robust, law_of, resumed
from tests.support import inside

DELAY = 15


def late_game(learner, rounds, waiting, start, hostile=lambda t: False, count=None):
    """A game whose losses come late, some never; what was played. `waiting` goes on with decisions and their losses."""
    played = []
    for t in range(start, start + rounds):
        losses = 1 - kind(t) if hostile(t) else kind(t)
        if hostile(t) == "predict":
            losses = np.full(30, 0.1)
            losses[int(np.argmax(learner.distribution))] = 1.0
        decisions = [learner.ask()] if count is None else list(learner.ask(count))
        for decision in decisions:
            played.append(decision.index)
            if decision.id % 11:
                waiting.append((decision.id, float(losses[decision.index])))
        if t % 3 == 0:  # in bursts, not in order
            while len(waiting) > DELAY:
                learner.tell(*waiting.pop(t % len(waiting)))
    return played


def pending(**settings):
    """Losses of the policy in flight, of single rounds and of a batch."""
    learner, waiting = make(**{"rng": 4, "horizon": 2000} | settings), []
    late_game(learner, 60, waiting, 0)
    late_game(learner, 3, waiting, 60, count=7)
    assert learner.diagnostics.open > DELAY
    return learner, waiting


def skipping():
    """Little room is left: the robust learner fills in, and losses are skipped in part."""
    learner, waiting = make(rng=4, horizon=2000, delay=1), []
    play(learner, kind, 30)
    inside.account(learner).total += (
        inside.latest_stage(learner).allowance.budget(1) - inside.account(learner).used - 95
    )
    late_game(learner, 2, waiting, 31, count=60)
    assert learner.alarms == []
    inside.account(learner).total += 75
    late_game(learner, 5, waiting, 33)
    assert learner.diagnostics.skipped > 0
    assert learner.diagnostics.sat_out > 0
    return learner, waiting


def stopped():
    """A policy that was stopped by evidence, with actions put down in the shadow."""
    learner, waiting = make(rng=4, horizon=4000, batch=4), []
    play(learner, kind, 40)
    inside.take_over(learner)
    late_game(learner, 50, waiting, 40)
    assert is_robust(learner)
    assert len(inside.chances(learner).chosen) > DELAY
    assert inside.chances(learner).spread > 0
    return learner, waiting


def second_chance():
    """One that plays again, while losses of the robust learner and of its own are in flight."""
    learner, waiting = make(rng=1, horizon=4000, batch=1), []
    play(learner, kind, 200)
    inside.take_over(learner)
    start = learner.ledger.made
    while learner.alarms[-1].reason != "forecast":
        late_game(learner, 1, waiting, start)
        start += 1
        assert start < 1500
    late_game(learner, 5, waiting, start)
    laws = {type(law_of(learner, i)) for i, _ in waiting}
    assert laws == {Round, Epoch}
    return learner, waiting


def asleep():
    """The robust learner sleeps with an epoch that is still open, as no other law has been played since."""
    learner, waiting = make(rng=4, horizon=2000, batch=16), []
    play(learner, kind, 30)
    learner.hand_over()
    late_game(learner, 6, waiting, 30)
    learner.re_arm()
    assert not is_robust(learner)
    assert not inside.robust(learner).exp2.is_over()
    return learner, waiting


def interrupted():
    """The robust learner sleeps while a policy plays; its last epoch was cut short."""
    learner, waiting = asleep()
    late_game(learner, 7, waiting, 40)
    assert inside.robust(learner).exp2.is_over()
    return learner, waiting


def paused():
    learner, waiting = pending(policy="thompson")
    learner.pause()
    late_game(learner, 5, waiting, 70)
    return learner, waiting


def own():
    learner, waiting = pending(policy=Always(3))
    learner.hand_over()
    late_game(learner, 40, waiting, 70)
    learner.re_arm()
    return learner, waiting


def fewer_actions():
    """Actions that were withdrawn, with decisions for them in flight, and one that has come back."""
    learner, waiting = pending()
    learner.withdraw([1, 3, 5])
    late_game(learner, 20, waiting, 70)
    learner.hand_over()
    late_game(learner, 20, waiting, 90)
    learner.add([3])
    late_game(learner, 10, waiting, 110)
    return learner, waiting


MOMENTS = [
    fewer_actions,
    pending,
    skipping,
    stopped,
    second_chance,
    asleep,
    interrupted,
    paused,
    own,
]
FURTHER = [
    {"policy": "thompson"},
    {"horizon": None},
    {"robust_kernel": "any"},
    {"hold": 8},
    {"loss_range": "learn"},
    {"shares": {(0, 1): (0.1, 1.0), 7: (0.0, 0.2)}},
    {"goal": "maximize", "delay": 40},
]


def goes_on_exactly(learner, waiting, tmp_path, rounds=160):
    """Both copies play on, are interrupted and let back, and have the same state at the end."""
    policy = learner.settings.policy if isinstance(learner.settings.policy, Always) else None
    kl.save_state(tmp_path / "state.npz", learner.state())
    again = resumed(kl.load_state(tmp_path / "state.npz"), policy=policy)
    assert digest(again) == digest(learner)
    assert again.alarms == learner.alarms
    np.testing.assert_array_equal(again.distribution, learner.distribution)
    assert again.guarantee() == learner.guarantee()
    games = []
    for one in (learner, again):
        late, played, start = list(waiting), [], one.ledger.made
        played += late_game(one, rounds // 2, late, start)
        one.hand_over() if start % 2 else one.re_arm()
        played += late_game(one, rounds // 4, late, start, lambda t: t % 3 == 0)
        one.hand_over()
        one.re_arm()
        played += late_game(one, rounds // 4, late, start)
        games.append((played, late))
    assert games[0] == games[1]
    assert again.alarms == learner.alarms
    assert str(again.diagnostics) == str(learner.diagnostics)
    assert digest(again) == digest(learner)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment, settings",
    [*((moment, {}) for moment in MOMENTS), *((pending, settings) for settings in FURTHER)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_a_snapshot_goes_on_to_the_last_bit(moment, settings, tmp_path):
    goes_on_exactly(*moment(**settings), tmp_path)


@pytest.mark.usefixtures("patient")
def test_negative_control_a_copy_that_lost_the_account_plays_otherwise(tmp_path):
    learner, waiting = pending()
    again = resumed(learner.state())
    inside.account(again).total += 0.9 * (
        inside.latest_stage(again).allowance.budget(1) - inside.account(again).used
    )
    games = [late_game(one, 100, list(waiting), 100) for one in (learner, again)]
    assert games[0] != games[1]
