"""Second chances: evidence in the shadow, worlds that turn again and again, worlds that become kind (Corollary F5.5)."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured.evidence import CHANCE, REST, ROOM, Chances
from tests.learners.insured.games import Always, make
from tests.learners.insured.inside import is_robust, resumed
from tests.support import inside

# Evidence.


def test_deserved_by_hand():
    chances = Chances()
    chances.stopped(40)
    for gain in (3.0, -1.0, 2.0):
        chances.compare(gain)
    assert chances.deviations == pytest.approx(4 / math.sqrt(14))
    assert not chances.deserved(1000, 100.0, 1.0)  # 1.07 deviations
    chances.compare(5.0)
    assert chances.deviations == pytest.approx(9 / math.sqrt(39))
    assert not chances.deserved(1000, 100.0, 1.0)  # 1.44
    chances.compare(3.0)
    assert chances.deviations == pytest.approx(12 / math.sqrt(48))
    assert chances.deviations > CHANCE == 1.5
    assert chances.deserved(40 + REST, 100.0, 1.0)
    assert not chances.deserved(40 + REST - 1, 100.0, 1.0)
    assert not chances.deserved(40 + REST, ROOM, 1.0)  # no more room than that
    chances.put_down([7, 8], 3)
    chances.stopped(300)
    assert (chances.gain, chances.spread, chances.chosen) == (0, 0, {})


def test_every_further_stop_doubles_the_rest():
    chances, rests = Chances(), []
    for _ in range(5):
        chances.stopped(1000)
        rests.append(chances.rest(1000))
        assert chances.rest(1000 + rests[-1]) == 0
    assert rests == [100, 200, 400, 800, 1600]
    for _ in range(100):
        chances.stopped(0)
    assert chances.rest(0) == 100 * 2**40  # and no more than that


LINE = kl.Points(np.linspace(0, 1, 10)[:, None])


@pytest.mark.parametrize("settings", [{"batch": 1}, {"batch": 4}, {"horizon": None}], ids=str)
def test_the_gain_is_without_bias_by_enumeration(settings):
    # Every action of the robust learner with its probability: what was paid less the loss of the action put down.
    learner = make(LINE, kl.Gaussian(0.5), ridge=0, **settings)
    rng = np.random.default_rng(0)
    for _ in range(30):
        learner.tell(learner.ask(), float(rng.random()))
    inside.take_over(learner)
    for _ in range(20):
        learner.tell(learner.ask(), float(rng.random()))
    state, p = learner.state(), learner.distribution
    losses = learner.engine.features @ rng.normal(size=learner.rank)
    losses = 0.5 + 0.5 * losses / np.abs(losses).max()
    best = int(inside.forecaster(learner).mean.argmin())
    mean, before = 0.0, inside.chances(learner).gain
    for index in range(10):
        again = resumed(state)
        decision = again.ask()
        assert inside.chances(again).chosen == {decision.id: best}
        other = again.ledger.enter(again.ledger.current, [index])
        inside.chances(again).put_down([other], best)
        again.tell(other, float(losses[index]))
        mean += p[index] * (inside.chances(again).gain - before)
    expected = float(p @ losses - losses[best])
    assert mean == pytest.approx(expected, rel=1e-6, abs=1e-8)


# Worlds.


PRICES = np.linspace(1, 3, 30)
BUMPS = kl.Gaussian(0.5)(PRICES[:, None], PRICES[:, None])
KIND = 0.8 - 0.6 * BUMPS[10]


def predicting(learner):
    return 0.05 + 0.9 * BUMPS[int(np.argmax(learner.distribution))]


def turn(t, learner):
    """Kind while the robust learner plays, hostile whenever the policy does."""
    return KIND if is_robust(learner) else predicting(learner)


def strike(t, learner):
    """Kind and hostile in turns of 400 rounds, kind in robust rounds."""
    return KIND if is_robust(learner) or t // 400 % 2 == 0 else predicting(learner)


def relents(t, learner):
    """Hostile for 600 rounds, and kind ever after."""
    return KIND if t >= 600 else predicting(learner)


WORLDS = {"turn": turn, "strike": strike, "relents": relents}


@functools.cache
def fresh():
    return make(kl.Points(PRICES[:, None]), kl.Gaussian(0.5), horizon=4000, batch=1).state()


def world(name, seed, rounds=4000):
    """The learner after a game, its regret against the best action, and the most that the account has used of its budget."""
    learner, paid, total, used = resumed(fresh(), seed), 0.0, 0.0, 0.0
    for t in range(rounds):
        losses, decision = WORLDS[name](t, learner), learner.ask()
        learner.tell(decision, float(losses[decision.index]))
        paid, total = paid + losses[decision.index], total + losses
        used = max(
            used,
            inside.account(learner).used / inside.latest_stage(learner).allowance.budget(t + 1),
        )
        assert inside.account(learner).outstanding == 0
    return learner, paid - np.min(total), used


def chances_of(learner):
    """How often a policy was let back on evidence."""
    return sum(alarm.reason == "forecast" for alarm in learner.alarms)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["turn", "strike"])
def test_a_world_that_turns_again_after_each_second_chance(name):
    again = 0
    for seed in range(2):
        learner, regret, used = world(name, seed)
        assert regret <= learner.guarantee().total
        assert used <= 1 + 1e-9
        stopped = [alarm for alarm in learner.alarms if alarm.successor == "robust"]
        again += chances_of(learner)
        assert len(stopped) - chances_of(learner) in (0, 1)
        # One account for the whole game, which waits while the robust learner plays.
        for stop, chance in zip(learner.alarms[::2], learner.alarms[1::2], strict=False):
            assert (stop.successor, chance.policy) == ("robust", "robust")
            assert chance.estimated_regret == stop.estimated_regret
    assert again >= (4 if name == "turn" else 1)


def stubborn_game(prepare, rounds=2000):
    """Always the worst of four arms, let back by hand whenever it has been stopped; its regret, and the learner."""
    arms, losses = kl.Points(np.eye(4)), np.array([0.0, 0.5, 0.5, 1.0])
    settings = {"horizon": rounds, "policy": Always(3), "batch": 1}
    learner, paid = make(arms, kl.Linear(), rng=0, **settings), 0.0
    for _ in range(rounds):
        if is_robust(learner):
            prepare(learner)
            learner.re_arm()
        decision = learner.ask()
        learner.tell(decision, losses[decision.index])
        paid += losses[decision.index]
    return paid, learner


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_letting_it_back_at_once_time_and_again_does_no_harm():
    regret, learner = stubborn_game(lambda learner: None)
    assert regret <= learner.guarantee().total
    assert len(learner.alarms) > 100
    assert inside.account(learner).used <= inside.latest_stage(learner).allowance.budget(2000)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_negative_control_an_account_that_is_forgotten_at_every_chance():
    def forget(learner):
        inside.account(learner).total[:] = 0.0

    regret, learner = stubborn_game(forget)
    assert regret > 1.2 * learner.guarantee().total


@pytest.mark.slow
def test_a_policy_plays_on_once_the_world_is_kind_again():
    for seed in range(2):
        learner, regret, _ = world("relents", seed)
        assert learner.alarms[0].reason == "evidence"
        assert learner.alarms[0].round < 600
        assert chances_of(learner) >= 1
        last = learner.alarms[-1]
        assert (last.policy, last.successor, last.reason) == ("robust", "ucb", "forecast")
        assert learner.diagnostics.playing == "ucb"
        assert learner.recommend().index == pytest.approx(10, abs=1)
        assert regret <= learner.guarantee().total
