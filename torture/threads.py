"""Many threads on one learner: no call fails, no decision is made twice, no loss is lost."""

from __future__ import annotations

import sys
import threading

import numpy as np

from tests.support.cases import LEARNERS, Case
from torture.trials import Cases, trial

THREADS = 8

KINDS = {
    "BanditExpWeights": "bandit",
    "BanditExpWeights, epochs of one": "bandit, one round",
    "BanditExpWeights on a ball": "bandit, ball",
    "InsuredBandit": "insured",
    "ExpWeights": "exp weights, points",
    "ConditionalGradient": "gradient, points",
    "FollowTheRegularizedLeader": "leader, points",
}


class Crowd:
    """Threads that ask, tell and look at one learner, and what each of them saw."""

    def __init__(self, case: Case, calls: int, seed: int) -> None:
        self.case, self.learner, self.calls = case, case.make(seed), calls
        self.start = threading.Barrier(THREADS)
        self.ids: list[list[int]] = [[] for _ in range(THREADS)]
        self.told = [0] * THREADS
        self.wrong: list[str] = []

    def run(self) -> None:
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

    def work(self, k: int) -> None:
        """One of the threads."""
        learner, case, waiting = self.learner, self.case, []
        self.start.wait()
        for t in range(self.calls):
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

    def look(self, t: int) -> None:
        """Whatever can be read must be of one moment."""
        learner = self.learner
        if t % 50 == 7:
            ledger = learner.state()["ledger"]
            told = ledger["made"] - ledger["forgotten"] - len(ledger["entries"])
            if told != ledger["heard"]:
                raise AssertionError(f"a snapshot with {told} told and {ledger['heard']} heard")
        seen = learner.diagnostics
        if seen.rounds != seen.heard + seen.outstanding:
            raise AssertionError(f"{seen.rounds} rounds, {seen.heard} + {seen.outstanding} of them")
        learner.peek(np.random.default_rng(t), 2)
        learner.guarantee()
        learner.recommend()
        if self.case.finite and abs(learner.distribution.sum() - 1) > 1e-9:
            raise AssertionError(f"probabilities add up to {learner.distribution.sum()}")

    def verdicts(self) -> Cases:
        """One for each call that failed or not, and what the ledger says in the end."""
        for k in range(THREADS * self.calls):
            yield self.wrong[k] if k < len(self.wrong) else None
        ids, ledger = [i for own in self.ids for i in own], self.learner.ledger
        twice = len(ids) - len(set(ids))
        yield f"{twice} ids were given twice" if twice else None
        lost = sum(self.told) - ledger.heard
        yield f"{lost} losses were lost" if lost else None
        odd = ledger.made != len(ids) or len(ledger) != len(ids) - sum(self.told)
        yield f"{ledger.made} made and {len(ledger)} waiting of {len(ids)}" if odd else None
        again = type(self.learner).from_state(self.learner.state())
        odd = again.state()["digest"] != self.learner.state()["digest"]
        yield "its snapshot is another learner's" if odd else None


def _trial(what: str, name: str) -> None:
    @trial(f"calls from {THREADS} threads, {what}", quick=1, full=20)
    def play(rng: np.random.Generator) -> Cases:
        crowd = Crowd(LEARNERS[name], 100, int(rng.integers(2**32)))
        crowd.run()
        yield from crowd.verdicts()


for _what, _name in KINDS.items():
    _trial(_what, _name)
