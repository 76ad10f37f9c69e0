"""Operations of several threads that wait together."""

from __future__ import annotations

import numpy as np

import koloss as kl
from koloss.studies.operations import Tell, asking
from tests.support import inside


def test_operations_that_look_alike_are_each_carried_out(tmp_path):
    """Whoever has the mutex need not be the first who waits; what others want may be equal, or cannot be compared."""
    X = kl.Points([[0.0], [1.0]])
    learner = kl.BanditExpWeights(X, kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), rng=0)
    with kl.Study.create(f"sqlite:///{tmp_path / 'a.db'}", "prices", learner=learner) as study:
        worker = inside.worker(study)
        asks = [asking(None, None, None, None, None) for _ in range(3)]
        for ask in asks:
            worker.enqueue(ask)
        inside.queue(worker).remove(
            asks[0]
        )  # an interrupted thread has had it; the first of three equal ones
        ids = [worker.finish(ask).answer.id for ask in reversed(asks)]
        assert sorted(ids) == [0, 1, 2]
        study.ask(3)
        tells = [
            Tell(decision=np.array(ids), value=np.array([0.5, 0.5])) for ids in ([0, 1], [2, 3])
        ]
        for tell in tells:
            worker.enqueue(tell)
        for tell in reversed(tells):
            worker.finish(tell)
        assert study.status().told == 4
