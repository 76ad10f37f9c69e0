"""The end of an epoch: a bound that costs little decides as the exact test does, and the exact test is made where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.bandit import most_drift
from koloss.learners.bandit.exp2 import Exp2
from tests.support import inside
from tests.support.cases import DISC, POINTS, SEGMENTS, number

GAMES = {
    "bonus": {"bonus": True},
    "bonus, few features": {"bonus": True, "rank": 4},
    "ridge": {"ridge": 0.01},
    "no bonus": {"bonus": False, "ridge": 0},
    "hindsight": {"regret": "hindsight"},
    "anytime": {"horizon": None},
    "anytime, bonus": {"horizon": None, "bonus": True, "rank": 4},
    "learned range": {"loss_range": "learn"},
    "any losses": {"loss_class": "any"},
    "any losses, hindsight": {"loss_class": "any", "regret": "hindsight"},
    "contexts": {"contexts": SEGMENTS},
    "contexts, bonus": {"contexts": SEGMENTS, "bonus": True, "rank": 6},
    "ball": {"actions": DISC},
}
ROUNDS = 150


def make(settings):
    said = {"actions": POINTS, "horizon": 300, "loss_range": (0, 1), "batch": 30} | settings
    actions = said.pop("actions")
    kernel = kl.Gaussian(0.4) if actions is POINTS else kl.Quadratic()
    return kl.BanditExpWeights(actions, kernel, rng=0, **said)


def play(learner, settings, rounds, start=0):
    """What was played, and in which epochs: loss after loss, those of every seventh round late."""
    played, late = [], []
    for t in range(start, start + rounds):
        context = {"context": "abc"[t * t % 3]} if "contexts" in settings else {}
        decision = learner.ask(**context)
        played.append((decision.action.tolist(), decision.epoch))
        told = decision, number(decision.action, t)
        late.append(told) if t % 7 == 0 else learner.tell(*told)
        if len(late) > 2:
            learner.tell(*late.pop(0))
    return played


def always_exact(exp2, epoch):
    """What `_has_drifted` stands for."""
    if getattr(exp2.engine, "manner", None) == "in turn":
        return False
    epoch.anchor_drift = exp2.drift(epoch)
    return epoch.anchor_drift > most_drift(exp2.batch)


class Counted:
    """How often the drift was asked for, and how often it was computed."""

    def __init__(self, monkeypatch):
        self.asked = self.exact = 0
        has_drifted, drift = Exp2._has_drifted, Exp2.drift

        def ask(exp2, epoch):
            self.asked += 1
            return has_drifted(exp2, epoch)

        def compute(exp2, epoch):
            self.exact += 1
            return drift(exp2, epoch)

        monkeypatch.setattr(Exp2, "_has_drifted", ask)
        monkeypatch.setattr(Exp2, "drift", compute)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_epochs_end_as_if_every_test_were_exact(name, monkeypatch):
    settings = GAMES[name]
    with monkeypatch.context() as patch:
        counted = Counted(patch)
        quick = play(make(settings), settings, ROUNDS)
    for kind in (Exp2, *Exp2.__subclasses__()):
        if "_has_drifted" in vars(kind):
            monkeypatch.setattr(kind, "_has_drifted", always_exact)
    assert quick == play(make(settings), settings, ROUNDS)
    assert counted.asked > ROUNDS / 2
    assert counted.exact < 0.9 * counted.asked


def test_some_epochs_end_early_and_few_tests_are_exact(monkeypatch):
    """Otherwise the test above would compare nothing: drifts end epochs, and bonuses do not make every test an exact one."""
    counted, epochs = Counted(monkeypatch), {}
    for name in ("bonus", "hindsight", "anytime, bonus", "contexts, bonus"):
        epochs[name] = play(make(GAMES[name]), GAMES[name], ROUNDS)[-1][1]
    assert max(epochs.values()) > ROUNDS / 30 + 1
    assert counted.exact < 0.6 * counted.asked


@pytest.mark.parametrize("name", ["bonus", "anytime, bonus", "hindsight"])
def test_a_bound_that_is_too_small_would_be_seen(name, monkeypatch):
    """Negative control: a bound that is too small lets epochs go on."""
    settings = GAMES[name]
    exact = play(make(settings), settings, ROUNDS)
    reach = type(make(settings).engine).reach
    monkeypatch.setattr(
        type(make(settings).engine),
        "reach",
        lambda engine, law, gamma, moved, mass=0.0: 0.02 * reach(engine, law, gamma, moved, mass),
    )
    assert exact != play(make(settings), settings, ROUNDS)


@pytest.mark.parametrize("name", GAMES)
def test_the_bound_holds_from_any_anchor(name):
    settings, coins = GAMES[name], np.random.default_rng(3)
    learner = make(settings)
    play(learner, settings, 40)
    exp2 = inside.exp2(learner)
    epoch, engine = exp2.epoch, exp2.engine
    m = engine.problem.rank
    if epoch.over:
        epoch = exp2.new_epoch(inside.coins(learner), at_once=False)
    largest, without = 0.0, 0
    for _ in range(200):
        anchor, moved = coins.normal(size=(2, m)) * 10.0 ** coins.uniform(-3, 1, (2, 1))
        before, added = coins.exponential(size=2) * 10.0 ** coins.uniform(-2, 2)
        first = engine.rise(epoch.law, epoch.gamma, anchor, before)
        then = engine.rise(epoch.law, epoch.gamma, anchor + moved, before + added)
        bound = first + engine.reach(epoch.law, epoch.gamma, moved, added)
        assert then <= bound + 1e-9 * (1 + abs(bound))
        without += then > first + engine.reach(epoch.law, epoch.gamma, moved)
        largest = max(largest, (then - first) / engine.reach(epoch.law, epoch.gamma, moved, added))
    assert largest > 0.05  # not a bound that holds for want of anything to bound
    # Negative control: where there are bonuses the same without them is no bound.
    assert (without > 0) == (getattr(epoch.law, "bonus", None) is not None)


# Snapshots.
