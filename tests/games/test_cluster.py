"""Executors of others: a cluster of Dask's, one that cancels what it has not done, one whose workers differ."""

from __future__ import annotations

import functools
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import koloss as kl
from koloss.games.store import WorkerDiffers, missing, perform, perform_elsewhere, play_jobs
from koloss.games.workers import ClusterLost, do_all
from tests.support.clusters import REMOTE, needs_dask
from tests.support.players import job, square
from tests.support.runs import contents

POINTS = np.random.default_rng(0).random((5, 1))


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


def test_a_cluster_that_is_gone_keeps_what_it_has_done(tmp_path):
    """And the next call goes on there; nothing of it is done on this machine."""
    jobs, seen = [job(k) for k in range(4)], []
    with pytest.raises(ClusterLost, match="the cluster is gone, and 1 of 4 tasks with it"):
        play_jobs(jobs, tmp_path, processes=1, executor=Failing(3, cancel))
    assert missing(jobs, tmp_path) == jobs[3:]
    with ThreadPoolExecutor(1) as pool:
        play_jobs(jobs, tmp_path, processes=1, executor=pool, progress=seen.append)
    assert [p.done for p in seen] == [3, 4]


def test_a_worker_that_would_play_another_run_is_refused(tmp_path):
    with pytest.raises(WorkerDiffers, match=r"must have NumPy 0\.1, got"):
        perform_elsewhere(job(), here={"NumPy": "0.1"})
    other = job(files=("losses.csv",))
    other.__dict__["key"] = "of another file"
    with pytest.raises(
        WorkerDiffers, match=r"must have the same losses\.csv, got another for coin"
    ):
        perform_elsewhere(other, here={})
    jobs = [job(0), other]
    with ThreadPoolExecutor(1) as pool, pytest.raises(WorkerDiffers):
        play_jobs(jobs, tmp_path, processes=1, executor=pool)
    assert not (tmp_path / "runs/coin/leader/1.npz").exists()
    assert perform_elsewhere(job(), here={}).plain["ended"] == perform(job()).plain["ended"]


# With it.


@pytest.fixture(scope="module")
def client():
    """Of a cluster with two processes."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        2, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=50
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@needs_dask
@pytest.mark.slow
def test_the_same_bytes_everywhere_whoever_is_killed(tmp_path, client):
    """A process and a cluster; a worker killed by SIGKILL costs nothing but its run being played again."""

    def play(name, **how):
        (folder := tmp_path / name).mkdir()
        killed = functools.partial(job, 2, carried=str(folder / "killed"), carried_digest="k")
        jobs, seen = [job(0), job(1), killed(arguments={"trouble": "death once"}), job(3)], []
        runs = play_jobs(jobs, folder, progress=seen.append, **how)
        assert (folder / "killed").exists()
        assert [run.plain["ended"] for run in runs] == ["done"] * 4
        assert [p.done for p in seen] == [0, 1, 2, 3, 4]
        return contents(folder)

    executor = client.get_executor(pure=False)
    assert play("here", processes=1) == play("cluster", processes=1, executor=executor)


def make_learner(points, seed):
    return kl.ExpWeights(kl.Points(points), kernel=kl.Gaussian(0.5), horizon=30, rng=seed)


def make_adversary(points, seed):
    return kl.games.Random(kl.Gaussian(0.5), kl.Points(points), rng=seed)


@needs_dask
@pytest.mark.slow
def test_replicates_of_a_cluster(client):
    """The same games, and errors as results."""
    makers = [functools.partial(make, POINTS) for make in (make_learner, make_adversary)]
    executor = client.get_executor()
    there = kl.replicate(*makers, 30, 4, rng=5, executor=executor)
    here, other = (kl.replicate(*makers, 30, 4, rng=rng, jobs=1) for rng in (5, 6))
    assert not there.failures
    assert np.array_equal(there.regret, here.regret)
    assert not np.array_equal(there.regret, other.regret)
    squares = {}
    do_all(square, [3, -1], squares.__setitem__, jobs=1, executor=executor)
    assert squares[0] == 9
    assert isinstance(squares[1], ValueError)


@needs_dask
@pytest.mark.slow
def test_a_scheduler_that_is_killed(tmp_path):
    """What had come back is kept."""
    from distributed import Client

    pid = str(tmp_path / "pid")
    jobs = [job(k) for k in range(3)]
    jobs += [job(k, arguments={"trouble": "sleep"}, carried=pid) for k in (3, 4)]
    remote = subprocess.Popen([sys.executable, "-c", REMOTE], stdout=subprocess.PIPE, text=True)

    def kill(progress):
        if progress.done == 3:
            remote.kill()

    try:
        address = remote.stdout.readline().strip()
        with Client(address, set_as_default=False, timeout=600) as client:
            far = client.get_executor(pure=False)
            with pytest.raises(ClusterLost, match="the cluster is gone, and 2 of 5 tasks with it"):
                play_jobs(jobs, tmp_path / "out", processes=1, executor=far, progress=kill)
    finally:
        remote.kill()
        remote.communicate()
    assert missing(jobs, tmp_path / "out") == jobs[3:]
    with ThreadPoolExecutor(1) as pool:
        play_jobs(jobs[:3], tmp_path / "near", processes=1, executor=pool)
    assert contents(tmp_path / "out") == contents(tmp_path / "near")
