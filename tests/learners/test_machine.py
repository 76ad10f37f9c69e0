"""Any interleaving of ask, tell, save, restore and bad calls keeps the learner sound (Hypothesis)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import koloss as kl
from koloss.errors import UnknownDecision

POINTS = kl.Points(np.random.default_rng(5).random((12, 2)))
OPTIONS = [
    {"horizon": 300},
    {"horizon": 300, "batch": 1, "loss_range": (0, 1)},
    {"horizon": None, "batch": 3},
    {"horizon": 300, "bonus": True, "rank": 3},
    {"horizon": 300, "covariance": "sampled", "sample_error": 0.5, "rank": 3},
]
unit = st.floats(0, 1)


class Asking(RuleBasedStateMachine):
    """A learner, and beside it a plain model of which decisions are outstanding."""

    outstanding, told = Bundle("outstanding"), Bundle("told")

    def begin(self, learner):
        self.learner, self.model, self.forgotten = learner, {}, 0

    def loss(self, number):
        """What to tell, of a number in [0, 1]."""
        raise NotImplementedError

    @rule(target=outstanding)
    def ask(self):
        decision = self.learner.ask()
        self.model[decision.id] = decision
        return decision

    @rule(count=st.integers(1, 6))
    def ask_many(self, count):
        for decision in self.learner.ask(count):
            self.model[decision.id] = decision

    @rule(target=told, decision=consumes(outstanding), loss=unit)
    def tell(self, decision, loss):
        if decision.id in self.model:
            self.learner.tell(decision, self.loss(loss))
            del self.model[decision.id]
        return decision

    @rule(data=st.data())
    def tell_some(self, data):
        if self.model:
            ids = data.draw(
                st.lists(st.sampled_from(sorted(self.model)), unique=True, min_size=1, max_size=5)
            )
            numbers = data.draw(st.lists(unit, min_size=len(ids), max_size=len(ids)))
            self.learner.tell(ids, [self.loss(number) for number in numbers])
            for i in ids:
                del self.model[i]

    @rule(decision=told)
    def tell_twice(self, decision):
        before = self.learner.state()["digest"]
        with pytest.raises(UnknownDecision):
            self.learner.tell(decision, self.loss(0.5))
        assert self.learner.state()["digest"] == before

    @rule(before=st.integers(0, 40))
    def forget(self, before):
        gone = [i for i in self.model if i < before]
        assert self.learner.forget(before=before) == len(gone)
        self.forgotten += len(gone)
        for i in gone:
            del self.model[i]

    @rule(number=st.sampled_from([float("nan"), float("inf"), 5.0, -5.0]))
    def tell_nonsense(self, number):
        if self.model:
            before = self.learner.state()["digest"]
            with pytest.raises(ValueError, match=r"`(loss|vector)` must"):
                self.learner.tell(next(iter(self.model)), self.loss(number))
            assert self.learner.state()["digest"] == before

    @rule()
    def save_and_restore(self):
        self.learner = type(self.learner).from_state(self.learner.state())

    @rule()
    def look(self):
        _ = self.learner.diagnostics, self.learner.recommend(), self.learner.guarantee()

    @invariant()
    def book(self):
        if hasattr(self, "learner"):
            assert [entry.id for entry in self.learner.ledger] == sorted(self.model)
            assert self.learner.diagnostics.outstanding == len(self.model)
            assert self.learner.ledger.unheard == len(self.model) + self.forgotten
            assert len(self.learner.state()["ledger"]["laws"]) <= len(self.model) + 1


class BanditMachine(Asking):
    """Bandit feedback on points."""

    @initialize(options=st.sampled_from(OPTIONS), seed=st.integers(0, 5))
    def start(self, options, seed):
        self.begin(kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), rng=seed, **options))

    def loss(self, number):
        return number

    @invariant()
    def sound(self):
        if not hasattr(self, "learner"):
            return
        p = self.learner.distribution
        assert np.all(p >= 0)
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-9)


INSURED = [
    {"horizon": 300},
    {"horizon": 300, "policy": "thompson", "early": False},
    {"horizon": 300, "policy": ["ucb", "optimistic"], "trigger": 0.3, "premium": [0.5, 0.3]},
    {"horizon": None},
    {"horizon": 300, "delay": 2},
]


class InsuredMachine(Asking):
    """A policy that is insured, and may be stopped at any time."""

    @initialize(options=st.sampled_from(INSURED), seed=st.integers(0, 5))
    def start(self, options, seed):
        self.begin(
            kl.InsuredBandit(POINTS, kl.Gaussian(0.5), loss_range=(0, 1), rng=seed, **options)
        )

    def loss(self, number):
        return number

    @rule()
    def hand_over(self):
        self.learner.hand_over()

    @invariant()
    def sound(self):
        if not hasattr(self, "learner"):
            return
        seen, promise = self.learner.diagnostics, self.learner.guarantee()
        assert promise.total <= promise.trivial
        assert promise.terms["unheard"] >= seen.outstanding  # each may cost the width of the range
        if seen.estimated_regret is not None:
            assert seen.estimated_regret <= seen.budget + 1e-9
            assert 0 < seen.exploration <= 1
        p = self.learner.distribution
        assert np.all(p >= 0)
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-9)


FULL = [
    lambda seed: kl.ExpWeights(POINTS, kernel=kl.Linear(), horizon=300, rng=seed),
    lambda seed: kl.ExpWeights(kl.Ball(2), kernel=kl.Linear(), horizon=None, rng=seed),
    lambda seed: kl.ExpWeights(kl.Box([0, 0], [1, 1]), kernel=kl.Linear(), horizon=300, rng=seed),
    lambda seed: kl.ConditionalGradient(POINTS, kernel=kl.Linear(), horizon=300, rng=seed),
    lambda seed: kl.ConditionalGradient(
        kl.Ball(2), kernel=kl.Linear(), horizon=300, tuning="paper", rng=seed
    ),
    lambda seed: kl.FollowTheRegularizedLeader(POINTS, kernel=kl.Linear(), horizon=300, rng=seed),
    lambda seed: kl.FollowTheRegularizedLeader(
        kl.Ball(2), kernel=kl.Linear(), horizon=300, rng=seed
    ),
]


class FullMachine(Asking):
    """Full information, linear losses."""

    @initialize(make=st.sampled_from(FULL), seed=st.integers(0, 5))
    def start(self, make, seed):
        self.begin(make(seed))

    def loss(self, number):
        return kl.LinearLoss([number, 0.2 - number / 5])

    @invariant()
    def sound(self):
        if hasattr(self, "learner"):
            promise = self.learner.guarantee()
            assert 0 <= promise.total <= promise.trivial
            assert promise.terms.get("unheard", 0.0) >= 0


TestBanditMachine = BanditMachine.TestCase
TestInsuredMachine = InsuredMachine.TestCase
TestFullMachine = FullMachine.TestCase
TestBanditMachine.settings = TestInsuredMachine.settings = TestFullMachine.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, derandomize=True
)
