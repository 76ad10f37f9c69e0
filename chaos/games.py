"""Interleavings of several study objects, compared with one learner alone: more of what the tests play."""

from __future__ import annotations

from unittest import mock

import numpy as np

from chaos.trials import Site, trial
from koloss.studies import worker
from tests.studies.test_machine import SETTINGS, made, play
from tests.support.studies import bandit, insured


@trial("interleavings and crashes, against a learner", quick=2, full=15)
def interleave(site: Site, rng: np.random.Generator, size: int) -> None:
    """So many games for each kind of study and each of two learners."""
    often = {"SNAPSHOT_EVENTS": 5, "SNAPSHOT_BYTES": 10**9, "PATIENCE": 0.0}
    for make in (bandit, insured):
        for said in SETTINGS:
            seed = int(rng.integers(1 << 30))
            try:
                with mock.patch.multiple(worker, **often):
                    play(made(make), said, site.folder, examples=size, seed=seed)
            except Exception as error:
                site.row.problems.append(f"{make.__name__}, {said}, seed {seed}: {error!r}")
            site.row.faults += size
