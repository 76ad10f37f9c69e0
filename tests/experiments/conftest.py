"""Toy sizes of the experiments, played in this process."""

from __future__ import annotations

import pytest

from koloss.experiments import load, shipped
from koloss.experiments.runs import plan, work
from koloss.experiments.summary import summarise


def play_here(names, out, **sizes):
    """What `run` does, without processes."""
    chosen = [load(name) for name in names]
    jobs = plan(chosen, out, **sizes)
    failures = {}
    for job in jobs:
        job.path.parent.mkdir(parents=True, exist_ok=True)
        _, error = work(job)
        if error:
            failures[job.path] = error
    return summarise(chosen, jobs, seed=sizes.get("seed", 0), failures=failures)


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    """All experiments, 30 rounds, 2 runs."""
    return play_here(shipped(), tmp_path_factory.mktemp("toy"), rounds=30, runs=2)
