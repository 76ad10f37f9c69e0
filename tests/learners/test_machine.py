"""Any interleaving of ask, tell, forget, save and restore keeps the learner sound (Hypothesis); bad calls are fuzzed."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

import koloss as kl
from tests.support.cases import LEARNERS, WITH_CONTEXTS

INSURED = {name: case for name, case in LEARNERS.items() if case.kind is kl.InsuredBandit}
rounds = st.integers(0, 100)


class Asking(RuleBasedStateMachine):
    """A learner, and beside it a plain model of which decisions are outstanding."""

    outstanding = Bundle("outstanding")
    cases = LEARNERS | WITH_CONTEXTS

    @initialize(data=st.data(), seed=st.integers(0, 5))
    def start(self, data, seed):
        self.case = self.cases[data.draw(st.sampled_from(list(self.cases)))]
        self.learner, self.model, self.forgotten = self.case.make(seed), {}, 0

    @rule(target=outstanding)
    def ask(self):
        decision = self.learner.ask(**self.case.asked(len(self.model)))
        self.model[decision.id] = decision
        return decision

    @rule(count=st.integers(1, 6))
    def ask_many(self, count):
        for decision in self.learner.ask(count, **self.case.asked(len(self.model), count)):
            self.model[decision.id] = decision

    @rule(decision=consumes(outstanding), t=rounds)
    def tell(self, decision, t):
        if self.model.pop(decision.id, None) is not None:
            self.learner.tell(decision, self.case.loss(decision.action, t))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), t=rounds)
    def tell_some(self, data, t):
        ids = st.lists(st.sampled_from(sorted(self.model)), unique=True, min_size=1, max_size=5)
        some = [self.model.pop(i) for i in data.draw(ids)]
        losses = [self.case.loss(d.action, t + k) for k, d in enumerate(some)]
        self.learner.tell([d.id for d in some], losses)

    @rule(before=st.integers(0, 40))
    def forget(self, before):
        gone = [i for i in self.model if i < before]
        assert self.learner.forget(before=before) == len(gone)
        self.forgotten += len(gone)
        for i in gone:
            del self.model[i]

    @rule()
    def save_and_restore(self):
        self.learner = type(self.learner).from_state(self.learner.state())

    @rule()
    def look(self):
        best = self.learner.recommend(**self.case.asked(len(self.model)))
        _ = self.learner.diagnostics, best, self.learner.guarantee()

    @invariant()
    def book(self):
        if hasattr(self, "learner"):
            ledger = self.learner.ledger
            held = ledger.held
            assert [e.id for e in ledger if e.id not in held] == sorted(self.model)
            assert self.learner.diagnostics.outstanding == len(self.model)
            assert ledger.unheard == len(self.model) + len(held) + self.forgotten
            laws = {id(entry.law) for entry in ledger}
            assert len(laws) <= len(self.model) + len(held)

    @invariant()
    def sound(self):
        if not hasattr(self, "learner"):
            return
        promise = self.learner.guarantee()
        assert 0 <= promise.total <= promise.trivial
        assert promise.terms.get("unheard", 0.0) >= 0
        if self.case.finite:
            where = self.case.asked(len(self.model))
            p = self.learner.distribution_for(**where) if where else self.learner.distribution
            assert np.all(p >= 0)
            np.testing.assert_allclose(p.sum(), 1, rtol=1e-9)


class InsuredMachine(Asking):
    """A policy that is insured, and may be stopped and let back at any time."""

    cases = INSURED

    @rule()
    def hand_over(self):
        self.learner.hand_over()

    @rule()
    def pause(self):
        self.learner.pause()

    @rule()
    def re_arm(self):
        self.learner.re_arm()

    @invariant()
    def in_budget(self):
        if hasattr(self, "learner"):
            seen, unheard = self.learner.diagnostics, self.learner.guarantee().terms["unheard"]
            # Losses are within [0, 1]: each that waits may cost 1.
            promised = seen.budget + min(unheard, seen.overdraft)
            assert seen.estimated_regret + seen.open <= promised + 1e-9
            assert unheard >= min(seen.open - 1, seen.overdraft)
            assert 0 < seen.exploration <= 1


TestAnyMachine, TestInsuredMachine = Asking.TestCase, InsuredMachine.TestCase
TestAnyMachine.settings = TestInsuredMachine.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, derandomize=True
)
