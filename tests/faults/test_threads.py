"""Many threads on one learner: no call fails, no decision is made twice, no loss is lost."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from tests.support.cases import LEARNERS

THREADS, CALLS = 8, 100

NAMES = [
    *("bandit", "bandit, one round", "bandit, ball", "insured", "exp weights, points"),
    *("gradient, points", "leader, points"),
]


class Crowd:
    """Threads that ask, tell and look at one learner, and what each of them saw."""

    def __init__(self, case, seed):
        self.case, self.learner = case, case.make(seed)
        self.start = threading.Barrier(THREADS)
        self.ids = [[] for _ in range(THREADS)]
        self.told = [0] * THREADS
        self.wrong = []

    def run(self):
        """All threads, which are made to take turns as often as the interpreter can."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=self.work, args=(k,)) for k in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)

    def work(self, k):
        learner, case, waiting = self.learner, self.case, []
        self.start.wait()
        for t in range(CALLS):
            try:
                if t % 3 == 0:
                    batch = list(learner.ask(2))
                    self.ids[k] += [d.id for d in batch]
                    waiting += batch
                elif waiting:
                    some = [waiting.pop() for _ in range(min(len(waiting), 1 + t % 2))]
                    learner.tell(some, [case.loss(d.action, d.id) for d in some])
                    self.told[k] += len(some)
                if t % 10 == k:
                    self.look(t)
            except Exception as error:
                self.wrong.append(f"{type(error).__name__}: {error}")

    def look(self, t):
        """Whatever can be read must be of one moment."""
        learner = self.learner
        if t % 50 == 7:
            ledger = type(learner).from_state(learner.state()).ledger
            assert ledger.made - ledger.unheard == ledger.heard
        seen = learner.diagnostics
        assert seen.rounds == seen.heard + seen.outstanding
        learner.peek(np.random.default_rng(t), 2)
        learner.guarantee()
        learner.recommend()
        if self.case.finite:
            assert abs(learner.distribution.sum() - 1) <= 1e-9


@pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_calls_from_many_threads(name, seed):
    crowd = Crowd(LEARNERS[name], seed)
    crowd.run()
    assert crowd.wrong == []
    learner, ids = crowd.learner, [i for own in crowd.ids for i in own]
    assert len(set(ids)) == len(ids) == learner.ledger.made
    assert learner.ledger.heard == sum(crowd.told)
    assert len(learner.ledger) == len(ids) - sum(crowd.told)
    again = type(learner).from_state(learner.state())
    assert again.state()["digest"] == learner.state()["digest"]
