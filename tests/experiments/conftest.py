"""Toy sizes of the experiments, played in this process."""

from __future__ import annotations

import pytest

from koloss.experiments import load, shipped
from koloss.experiments.results import summarise
from koloss.experiments.run import jobs_of
from koloss.games.store import perform


@pytest.fixture(scope="session")
def toy():
    """All experiments, 30 rounds, 2 runs: what `run` does, without processes."""
    chosen = [load(name) for name in shipped()]
    jobs = jobs_of(chosen, rounds=30, runs=2)
    return summarise(chosen, jobs, [perform(job) for job in jobs], seed=0)
