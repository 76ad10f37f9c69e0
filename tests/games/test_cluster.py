"""Executors of others: a cluster of Dask's, one that loses tasks, one that is gone, one whose workers differ."""

from __future__ import annotations

import functools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import koloss as kl
from koloss.games import cluster as module
from koloss.games.cluster import Cluster, ClusterError
from koloss.games.store import (
    ROOT,
    WorkerDiffers,
    missing,
    perform,
    perform_elsewhere,
    play_jobs,
)
from koloss.games.workers import ClusterLost, do_all
from tests.support.clusters import needs_dask
from tests.support.players import job, square

HERE = str(Path(__file__).parents[2])
POINTS = np.random.default_rng(0).random((20_000, 1))  # 160 kB


def make_learner(points, seed):
    return kl.ExpWeights(kl.Points(points[:5]), kernel=kl.Gaussian(0.5), horizon=30, rng=seed)


def make_adversary(points, seed):
    return kl.games.Random(kl.Gaussian(0.5), kl.Points(points[:5]), rng=seed)


def total(array, k):
    array[0] = k  # one's own copy
    return float(array.sum())


def is_writeable(array, k):
    return array.flags.writeable


# Without Dask.


class Failing:
    """An executor whose tasks from some number on end in a certain way."""

    def __init__(self, first, end):
        self.first, self.end = first, end

    def submit(self, function, task):
        future = Future()
        if task.number >= self.first:
            self.end(future)
        else:
            future.set_result(function(task))
        return future


def cancel(future):
    future.cancel()
    future.set_running_or_notify_cancel()


@pytest.mark.slow
def test_what_an_executor_cancels_is_done_here(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(ROOT.parent)]))
    runs = play_jobs([job(k) for k in range(2)], tmp_path, processes=1, executor=Failing(1, cancel))
    assert [run.plain["ended"] for run in runs] == ["done", "done"]


def test_a_cluster_that_is_gone_keeps_what_it_has_done(tmp_path):
    """And the next call goes on there; nothing of it is done on this machine."""
    jobs, seen = [job(k) for k in range(4)], []
    lost = Failing(3, lambda future: future.set_exception(ClusterLost("gone")))
    with pytest.raises(ClusterLost, match="gone"):
        play_jobs(jobs, tmp_path, processes=1, executor=lost)
    assert missing(jobs, tmp_path) == jobs[3:]
    with ThreadPoolExecutor(1) as pool:
        play_jobs(jobs, tmp_path, processes=1, executor=pool, progress=seen.append)
    assert [p.done for p in seen] == [3, 4]


def test_a_worker_that_would_play_another_run_is_refused(tmp_path):
    with pytest.raises(WorkerDiffers, match=r"must have NumPy 0\.1, got"):
        perform_elsewhere(job(), here={"NumPy": "0.1"})
    other = job()
    other.__dict__["key"] = "of another source"
    with pytest.raises(WorkerDiffers, match="must have the same koloss, got another for coin"):
        perform_elsewhere(other, here={})
    jobs = [job(0), other]
    with ThreadPoolExecutor(1) as pool, pytest.raises(WorkerDiffers):
        play_jobs(jobs, tmp_path, processes=1, executor=pool)
    assert not (tmp_path / "runs/coin/leader/1.npz").exists()
    assert perform_elsewhere(job(), here={}).plain["ended"] == perform(job()).plain["ended"]


def test_addresses(monkeypatch):
    with pytest.raises(ValueError, match='`address` must be "local" or that of a scheduler'):
        Cluster(" ")
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'koloss\[distributed\]'"):
        Cluster("local")


# With it.


@needs_dask
def test_nobody_at_an_address():
    with pytest.raises(ClusterError, match=r"no scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        Cluster("tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"`address` must be .* got 'tcp://here:there'"):
        Cluster("tcp://here:there")


@needs_dask
@pytest.mark.slow
def test_a_local_cluster(monkeypatch):
    """The same games, errors as results, large arrays sent once, and a worker's copy of them where it may write."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(ROOT.parent)]))
    frozen = POINTS.copy()
    frozen.flags.writeable = False
    replicate = functools.partial(
        kl.replicate,
        functools.partial(make_learner, POINTS),
        functools.partial(make_adversary, POINTS),
        30,
        4,
    )
    with Cluster("local", jobs=1) as cluster:
        sent = []
        submit = cluster._client.submit
        monkeypatch.setattr(
            cluster._client, "submit", lambda f, *a, **k: (sent.append(f), submit(f, *a, **k))[1]
        )
        there = replicate(rng=5, executor=cluster)
        assert (sent.count(module._same), sent.count(module._call)) == (1, 4)
        sums, flags, squares = {}, {}, {}
        do_all(functools.partial(total, POINTS), [0, 7], sums.__setitem__, jobs=1, executor=cluster)
        do_all(functools.partial(is_writeable, frozen), [0], flags.__setitem__, jobs=1, executor=cluster)  # fmt: skip
        do_all(square, [3, -1], squares.__setitem__, jobs=1, executor=cluster)
    here, other = replicate(rng=5, jobs=1), replicate(rng=6, jobs=1)
    assert not there.failures
    assert np.array_equal(there.regret, here.regret)
    assert not np.array_equal(there.regret, other.regret)
    rest = POINTS[1:].sum()
    assert sums == pytest.approx({0: rest, 1: rest + 7})
    assert flags == {0: False}
    assert squares[0] == 9
    assert isinstance(squares[1], ValueError)
