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


class Machine(RuleBasedStateMachine):
    """A learner, and beside it a plain model of which decisions are outstanding."""

    outstanding, told = Bundle("outstanding"), Bundle("told")

    @initialize(options=st.sampled_from(OPTIONS), seed=st.integers(0, 5))
    def start(self, options, seed):
        self.learner = kl.BanditExpWeights(POINTS, kl.Gaussian(0.5), rng=seed, **options)
        self.model = {}

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
            self.learner.tell(decision, loss)
            del self.model[decision.id]
        return decision

    @rule(data=st.data())
    def tell_some(self, data):
        if self.model:
            ids = data.draw(
                st.lists(st.sampled_from(sorted(self.model)), unique=True, min_size=1, max_size=5)
            )
            self.learner.tell(ids, data.draw(st.lists(unit, min_size=len(ids), max_size=len(ids))))
            for i in ids:
                del self.model[i]

    @rule(decision=told)
    def tell_twice(self, decision):
        before = self.learner.state()["digest"]
        with pytest.raises(UnknownDecision):
            self.learner.tell(decision, 0.5)
        assert self.learner.state()["digest"] == before

    @rule(loss=st.sampled_from([float("nan"), float("inf"), 5.0, -5.0]))
    def tell_nonsense(self, loss):
        if self.model:
            before = self.learner.state()["digest"]
            with pytest.raises(ValueError, match="`loss` must be"):
                self.learner.tell(next(iter(self.model)), loss)
            assert self.learner.state()["digest"] == before

    @rule()
    def save_and_restore(self):
        self.learner = kl.BanditExpWeights.from_state(self.learner.state())

    @rule()
    def look(self):
        _ = self.learner.diagnostics, self.learner.recommend(), self.learner.guarantee()

    @invariant()
    def sound(self):
        if not hasattr(self, "learner"):
            return
        p = self.learner.distribution
        assert np.all(p >= 0)
        np.testing.assert_allclose(p.sum(), 1, rtol=1e-9)
        assert set(self.learner._outstanding) == set(self.model)
        assert len(self.learner._epochs) <= len(self.model) + 1
        waiting = sum(epoch.waiting for epoch in self.learner._epochs.values())
        assert waiting == len(self.model)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, derandomize=True
)
