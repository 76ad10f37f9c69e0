"""The robust learner sleeps while policies play, and its bound is on its own rounds (Lemma F5.3)."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.exp2 import Exp2
from tests.learners.insured.games import Always, kind, make, play
from tests.learners.insured.inside import is_robust, resumed, stage_of
from tests.support import inside
from tests.support.copies import fresh_copy

pytestmark = pytest.mark.usefixtures("patient")

ROUNDS, SEEDS = 1200, 2
LINE = kl.Points(np.linspace(0, 1, 10)[:, None])
KERNEL = kl.Gaussian(0.5)
BUMPS = KERNEL(LINE.X, LINE.X)

# Games (theory F5, "hostile games"); losses are within [0, 1].


def predict(t, learner):
    return 0.05 + 0.9 * BUMPS[int(np.argmax(learner.distribution))]


def lure(t, learner):
    return 0.95 - 0.9 * BUMPS[int(np.argmin(learner.distribution))]


def steady(t, learner):
    return 0.8 - 0.6 * BUMPS[2]


def two_faced(t, learner):
    """The best action of robust rounds is the worst of a policy's."""
    return steady(t, learner) if is_robust(learner) else 0.2 + 0.6 * BUMPS[2]


def spike(t, learner):
    """One good arm of four."""
    return 1 - np.eye(4)[2]


GAMES = {"predict": predict, "lure": lure, "steady": steady, "two-faced": two_faced}


# Who is interrupted when: whether the robust learner plays the next round, from all that has happened.


def at_random(rng, t, loss, robust):
    return rng.random() < 0.5


def in_turns(rng, t, loss, robust):
    return t // 10 % 2 == 0


def by_loss(rng, t, loss, robust):
    """Sent to sleep whenever it has done well, and woken when the policy has, or now and then."""
    return loss > 0.5 if robust else loss < 0.5 or rng.random() < 0.3


SCHEDULES = {"random": at_random, "in turns": in_turns, "by loss": by_loss}


def start_again(learner):
    """Negative control: it forgets what it knew whenever it is woken."""
    inside.robust(learner).exp2 = None
    learner.hand_over()


@functools.cache
def made(spiky):
    place = (kl.Points(np.eye(4)), kl.Linear()) if spiky else (LINE, KERNEL)
    settings = {"horizon": ROUNDS, "trigger": 50.0, "batch": 1, "ridge": 0}
    return make(*place, policy=Always(3), **settings)


def regret_of_own_rounds(game, schedule, seed, hand_over=kl.InsuredBandit.hand_over):
    """Against every action, in the rounds that the robust learner plays, and how many there are."""
    learner = fresh_copy(made(game is spike), seed)
    rng, loss, regret, rounds = np.random.default_rng(seed), 0.5, 0.0, 0
    for t in range(ROUNDS):
        robust = SCHEDULES[schedule](rng, t, loss, is_robust(learner))
        if robust != is_robust(learner):
            hand_over(learner) if robust else learner.re_arm()
        losses, decision = game(t, learner), learner.ask()
        loss = float(losses[decision.index])
        learner.tell(decision, loss)
        if robust:
            regret, rounds = regret + loss - losses, rounds + 1
    assert rounds == inside.robust(learner).exp2.made or hand_over is not kl.InsuredBandit.hand_over
    return regret, rounds, learner


def bound(learner):
    """B(n), with the error of the features."""
    robust = learner.robust
    N, m, G = len(robust.points), robust.problem.rank, robust.problem.leverage
    B = math.sqrt((G + (math.e**2 - 3) / 4 * m) * ROUNDS * math.log(N))
    return B + 3 * robust.problem.epsilon * ROUNDS * (1 + math.sqrt(G))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("game", GAMES)
def test_the_regret_of_its_own_rounds_is_within_its_bound(game, schedule):
    regrets, rounds, learner = zip(
        *(regret_of_own_rounds(GAMES[game], schedule, seed) for seed in range(SEEDS)), strict=True
    )
    mean, error = np.mean(regrets, axis=0), np.std(regrets, axis=0, ddof=1) / math.sqrt(SEEDS)
    assert min(rounds) > 100
    assert mean.max() <= bound(learner[0])
    assert error[mean.argmax()] < bound(learner[0]) / 4


@pytest.mark.slow
def test_negative_control_one_that_starts_again_exceeds_it():
    own, again = (
        regret_of_own_rounds(spike, "in turns", 0, hand_over)
        for hand_over in (kl.InsuredBandit.hand_over, start_again)
    )
    assert own[0].max() < bound(own[2]) < again[0].max()


def test_it_goes_on_where_it_was():
    # Rounds of a policy in between change nothing of what it knows.
    learners = [make(batch=1, rng=3) for _ in range(2)]
    for learner in learners:
        learner.hand_over()
    for t in range(12):
        through, interrupted = (resumed(learner.state(), seed=t) for learner in learners)
        for learner in (through, interrupted):  # with the same coins
            decision = learner.ask()
            learner.tell(decision, (decision.index * t % 7) / 7)
        interrupted.re_arm()
        play(interrupted, kind, 3)
        interrupted.hand_over()
        learners = through, interrupted
    np.testing.assert_array_equal(*(stage_of(learner).theta for learner in learners))
    np.testing.assert_array_equal(*(learner.distribution for learner in learners))
    assert stage_of(interrupted).made == 12
    assert interrupted.ledger.made == 48


def test_it_is_tuned_once():
    # To the rounds that were left when it first played.
    learner = make(batch=1)
    play(learner, kind, 300)
    learner.hand_over()
    robust = stage_of(learner)
    rates, horizon = robust.rates, robust.horizon
    for _ in range(5):
        play(learner, kind, 50)
        learner.re_arm()
        play(learner, kind, 50)
        learner.hand_over()
    assert stage_of(learner) is robust
    assert isinstance(robust, Exp2)
    assert (robust.rates, robust.horizon) == (rates, horizon) == (robust.rates, 700)


@pytest.mark.parametrize("buttons", [("hand_over",), ("pause",), ("pause", "hand_over"), ()])
def test_buttons(buttons):
    learner = make()
    play(learner, kind, 10)
    for button in buttons:
        getattr(learner, button)()
    expected = "robust" if buttons else "ucb"
    assert learner.diagnostics.playing == expected
    before = len(learner.alarms)
    learner.re_arm()  # nothing happens while a policy plays
    assert learner.diagnostics.playing == "ucb"
    assert len(learner.alarms) == before + (expected == "robust")
    play(learner, kind, 20)
    assert learner.guarantee().valid


@pytest.mark.slow
def test_one_that_was_paused_is_not_let_back_by_evidence():
    outcomes = []
    for pause in (True, False):
        learner = make(horizon=4000, rng=1)
        play(learner, kind, 200)
        learner.pause()
        inside.stage(learner).paused = pause
        play(learner, kind, 500)
        outcomes.append([alarm.reason for alarm in learner.alarms])
    assert outcomes == [["operator"], ["operator", "forecast"]]
