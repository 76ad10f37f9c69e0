"""The promise of the account through the learner, after every ask and tell (Theorem F5.4): delays, overdrafts, batches, policies."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured.account import Account
from koloss.learners.insured.exploration import Round
from tests.learners.insured.games import Always, make
from tests.learners.insured.inside import law_of, with_overdraft
from tests.support import inside
from tests.support.copies import fresh_copy

ROUNDS = 200
LINE = kl.Points(np.linspace(0, 1, 12)[:, None])
KERNEL = kl.Gaussian(0.5)
NEVER = math.inf

pytestmark = pytest.mark.usefixtures("patient")

DELAYS = {
    "none": lambda rng, t: 0,
    "fixed": lambda rng, t: 25,
    "geometric": lambda rng, t: int(rng.geometric(1 / 25)) - 1,
    "bursts": lambda rng, t: 29 - t % 30,
    "heavy tails": lambda rng, t: int(5 * rng.pareto(0.8)),
    "a tenth never": lambda rng, t: NEVER if rng.random() < 0.1 else 5,
    "silence": lambda rng, t: 0 if t < 40 else NEVER,
}
POLICIES = {"ucb": lambda: "ucb", "thompson": lambda: "thompson", "stubborn": lambda: Always(0)}


def kind(learner):
    """The same smooth loss in every round."""
    return 0.5 - 0.4 * KERNEL(LINE.X, LINE.X[7:8])[:, 0]


def predict(learner):
    """Large where the next decision is likely to be."""
    likely = int(np.argmax(learner.distribution))
    return 0.05 + 0.9 * KERNEL(LINE.X, LINE.X[likely : likely + 1])[:, 0]


class Watcher:
    """Plays a learner and keeps the account by hand: e = y - w x + (1 - w)/2, w the largest that the theorem allows."""

    def __init__(self, learner, *, limited=True):
        self.learner, self.limited = learner, limited
        self.total, self.open, self.at_last_draw = np.zeros(len(learner.actions)), 0, 1
        self.slack, self.weights = math.inf, []

    def limits(self):
        allowance, made = inside.latest_stage(self.learner).allowance, self.learner.ledger.made
        return allowance.budget(made), allowance.debt(made)

    def check(self):
        D, C = self.limits()
        promise = D + min(C, self.at_last_draw - 1)
        self.slack = min(self.slack, promise - self.total.max() - self.open)
        account = inside.account(self.learner)
        assert account.outstanding == self.open
        near = np.abs(account.total - self.total) <= 1e-7 + 1e-9 * np.abs(self.total)
        assert near.all(), (account.total, self.total)

    def ask(self, count):
        decisions = [self.learner.ask()] if count is None else list(self.learner.ask(count))
        law = law_of(self.learner, decisions[0])
        if isinstance(law, Round) and law.counted:
            D, C = self.limits()
            self.open += len(decisions)
            self.at_last_draw = self.open
            if self.limited:
                assert self.total.max() + 1 <= D + 1e-9
                assert self.total.max() + self.open <= D + C + 1e-9
        self.check()
        return decisions

    def weight(self, law):
        D, C = self.limits()
        limit = min(max(D, self.total.max() + 1), D + C - (self.open - 1))
        room = limit - 1 - self.total
        return float(np.clip(np.min(room / law.reach()), 0, 1))

    def tell(self, decision, loss):
        law, engine = law_of(self.learner, decision), self.learner.engine
        y = (loss - engine.center) / (engine.high - engine.low)
        if isinstance(law, Round) and law.counted:
            W, p, i = law.exploration.features, law.distribution(), decision.index
            k = W @ np.linalg.solve(W.T @ (p[:, None] * W), W[i])
            w = self.weight(law)
            estimate = law.prediction + k * (y - law.prediction[i])
            self.total = self.total + y - w * estimate + (1 - w) / 2
            self.open -= 1
            self.weights.append(w)
        self.learner.tell(decision, loss)
        self.check()

    def worst(self, decision):
        """The end of the range that raises the account most."""
        law, i = law_of(self.learner, decision), decision.index
        if not isinstance(law, Round):
            return self.learner.engine.high
        steps = [
            y - law.prediction - law.estimates(i) * (y - law.prediction[i]) for y in (-0.5, 0.5)
        ]
        raised = [np.max(self.total + step) for step in steps]
        return self.learner.engine.low if raised[0] >= raised[1] else self.learner.engine.high

    def play(self, adversary, delay, count=None, rounds=ROUNDS, seed=0):
        """A game; the least slack of the promise."""
        rng, pending = np.random.default_rng(seed), []
        for t in range(rounds // (count or 1)):
            losses = None if adversary == "worst" else adversary(self.learner)
            for decision in self.ask(count):
                pending.append((t + DELAYS[delay](rng, t), decision, losses))
            for due, decision, then in pending:
                if due <= t:
                    loss = self.worst(decision) if then is None else float(then[decision.index])
                    self.tell(decision, loss)
            pending = [one for one in pending if one[0] > t]
        return self.slack


def watcher(policy, overdraft, *, horizon=ROUNDS, kind=Watcher, seed=0, **settings):
    """A budget that is small, and no early end, so that it is used up."""
    return kind(fresh_copy(made(policy, overdraft, horizon, **settings), seed))


@functools.cache
def made(policy, overdraft, horizon, **settings):
    settings = {"trigger": 0.15, "premium": 0.15} | settings
    settings |= {"horizon": horizon, "policy": POLICIES[policy]()}
    return with_overdraft(make(LINE, KERNEL, **settings), overdraft)


OVERDRAFTS = [0, 5, ROUNDS // 8]


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("adversary", [kind, predict], ids=lambda one: one.__name__)
def test_the_promise_is_kept_after_every_ask_and_tell(policy, delay, adversary):
    for overdraft, count in zip(OVERDRAFTS, (None, 7, None), strict=True):  # all pairs: below
        assert watcher(policy, overdraft).play(adversary, delay, count) >= -1e-9


@pytest.mark.slow
@pytest.mark.parametrize("delay", DELAYS)
def test_the_promise_is_kept_against_the_worst_losses(delay):
    for policy, overdraft, count in itertools.product(POLICIES, OVERDRAFTS, (None, 7)):
        assert watcher(policy, overdraft).play("worst", delay, count) >= -1e-9


@pytest.mark.parametrize("delay", ["fixed", "bursts"])
@pytest.mark.parametrize("settings", [{"horizon": None}, {"robust_kernel": "any"}], ids=str)
def test_the_promise_is_kept_in_other_games(delay, settings):
    assert watcher("ucb", 5, **settings).play("worst", delay, rounds=120) >= -1e-9


@pytest.mark.slow
def test_paths_use_what_they_may():
    # So that the tests above can fail: the promise is nearly used up, and weights of all sizes occur.
    paths = [watcher("stubborn", C, seed=s) for C, s in itertools.product((0, 5), range(2))]
    slacks = [path.play("worst", "geometric") for path in paths]
    assert min(slacks) < 1
    weights = np.concatenate([path.weights for path in paths])
    assert (weights == 1).any()
    assert ((weights > 0) & (weights < 1)).any()


class Crowded(Watcher):
    """Expects weights that ignore what else is outstanding."""

    def weight(self, law):
        D, _ = self.limits()
        room = max(D, self.total.max() + 1) - 1 - self.total
        return float(np.clip(np.min(room / law.reach()), 0, 1))


@pytest.mark.slow
def test_negative_control_a_limit_that_ignores_what_is_outstanding(monkeypatch):
    right = Account.weight
    monkeypatch.setattr(
        Account, "weight", lambda self, reach, D, C, *era: right(self, reach, D, math.inf, *era)
    )
    paths = [watcher("stubborn", 0, kind=Crowded, seed=seed) for seed in range(3)]
    assert min(path.play("worst", "geometric") for path in paths) < -1


def test_negative_control_rounds_drawn_whatever_is_outstanding(monkeypatch):
    right = Account.may_draw
    monkeypatch.setattr(
        Account, "may_draw", lambda self, D, C, count=1: right(self, D, math.inf, count)
    )
    path = watcher("stubborn", 0, horizon=300)
    path.limited = False
    assert path.play(kind, "silence", rounds=300) < -1
