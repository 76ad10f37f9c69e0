"""Processes that do tasks: errors, deaths, and how they end."""

from __future__ import annotations

import multiprocessing.util
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_tracker

import pytest

import koloss as kl
from koloss.games.store import FolderInUse, locked, missing, play_jobs
from koloss.games.workers import WorkerDied, do_all, processes
from tests.support.players import abort, adversary, job, square, unlucky
from tests.support.runs import HEARING, in_group, wait_for

pytestmark = pytest.mark.process


# Ends.


CODE = """
import sys
from pathlib import Path
from koloss.games.store import locked, play_jobs
from tests.support.players import job
if __name__ == "__main__":
    folder = Path(sys.argv[1])
    files = [str(folder / f"pid-{k}") for k in range(2)]
    jobs = [job(k, arguments={"trouble": "sleep"}, carried=file) for k, file in enumerate(files)]
    with locked(folder):
        play_jobs(jobs, folder, processes=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
def test_processes_end_with_their_parent(tmp_path, name):
    """However it ends; nothing is left of them, and the folder is free again."""
    script, folder = tmp_path / "script.py", tmp_path / "folder"
    script.write_text(HEARING + CODE)
    (tmp_path / "temporary").mkdir()
    variables = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, str(script), str(folder)]
    with subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env=variables, start_new_session=True
    ) as parent:
        wait_for(lambda: all((folder / f"pid-{k}").exists() for k in range(2)))
        with pytest.raises(FolderInUse, match=f"in use by process {parent.pid};"):
            locked(folder).__enter__()
        parent.send_signal(signal.Signals[name])
        assert parent.wait(timeout=6000) != 0
    wait_for(lambda: not in_group(parent.pid))
    assert not [*(tmp_path / "temporary").iterdir()]
    with locked(folder):
        pass


# Workers.


@pytest.mark.slow
def test_a_process_that_dies_takes_nobody_with_it(tmp_path):
    """One dies for good, one is killed once and plays again, the others go on."""
    jobs = [
        job(0),
        job(1, arguments={"trouble": "death"}),
        job(2, arguments={"trouble": "death once"}, carried=str(tmp_path / "happened")),
        job(3),
    ]
    seen = []
    runs = play_jobs(jobs, tmp_path, processes=2, progress=seen.append)
    assert [run.plain["ended"] for run in runs] == ["done", "died", "done", "done"]
    assert runs[1].plain["message"] == "failed: its process ended without a word"
    assert [p.done for p in seen] == list(range(5))
    assert missing(jobs, tmp_path) == [jobs[1]]  # it leaves no file, and is tried again next time


@pytest.mark.slow
def test_tasks_and_their_results():
    results = {}
    do_all(square, [3, -1, 13, 5], results.__setitem__, jobs=2)
    assert (results[0], results[3]) == (9, 25)
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], WorkerDied)


def test_an_interrupt_ends_the_processes():
    def interrupt(k, result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        do_all(square, [1, 2, 3], interrupt, jobs=1)


def test_no_process_hears_an_interrupt_from_its_first_moment(monkeypatch):
    """Also the first one, before which the tracker of resources is started and unblocks them."""

    def start(path, arguments, passed):
        if "resource_tracker" not in str(arguments):
            blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
        return real(path, arguments, passed)

    real, blocked = multiprocessing.util.spawnv_passfds, []
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", start)
    monkeypatch.setattr(
        resource_tracker._resource_tracker, "_fd", None
    )  # as before the first process
    do_all(square, [1, 2], lambda k, result: None, jobs=2)
    assert blocked == [True, True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_an_exit_is_an_error_of_its_task():
    results = {}
    do_all(sys.exit, [3], results.__setitem__, jobs=1)
    assert str(results[0]) == "SystemExit: 3"
    assert processes(None) >= 1


def not_there(task):
    return task


def test_processes_that_cannot_find_the_function(monkeypatch):
    monkeypatch.setattr(not_there, "__module__", "not_a_module")
    monkeypatch.setitem(sys.modules, "not_a_module", sys.modules[__name__])
    with pytest.raises(RuntimeError, match="end before they play"):
        do_all(not_there, [1], lambda k, result: None, jobs=1)


@pytest.mark.slow
def test_a_script_without_a_guard(tmp_path):
    script = tmp_path / "script.py"
    text = "from koloss.games.workers import do_all\nfrom tests.support.players import square\n"
    script.write_text(text + "do_all(square, [2], print, jobs=1)\n")
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 1
    assert "must start them below `if __name__ == '__main__':`" in ended.stderr


@pytest.mark.slow
def test_a_process_that_is_killed_before_it_begins(monkeypatch):
    """Another takes its place; where none ever begins, that is said."""
    aborting = [True, False]

    class Pool(ProcessPoolExecutor):
        def submit(self, function, *arguments):
            if function is os.getpid and aborting and aborting.pop(0):
                function = abort
            return super().submit(function, *arguments)

    monkeypatch.setattr("koloss.games.workers.ProcessPoolExecutor", Pool)
    results = {}
    do_all(square, [3, 4], results.__setitem__, jobs=2)
    assert results == {0: 9, 1: 16}
    aborting.extend([True] * 20)
    with pytest.raises(RuntimeError, match="end before they play"):
        do_all(square, [3, 4], results.__setitem__, jobs=1)


@pytest.mark.slow
def test_deaths_and_errors_are_failures_of_replicate():
    """One run's process dies, and another's error needs more than its message, so that unpickling it fails."""
    replicates = kl.replicate(unlucky, adversary, 5, 3, jobs=2)
    assert replicates.failures == {
        0: "RuntimeError: NetTooLarge: the net would have 3 points",
        1: "WorkerDied: its process ended without a word",
    }
    assert replicates.seeds == [2]
