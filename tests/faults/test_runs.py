"""Runs of experiments that are killed at any time, files that are damaged: the same command ends the work, with the same numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import koloss as kl
from koloss import experiments, report
from tests.support.fuzz import fuzzed
from tests.support.runs import HEARING, contents, in_group, numbers, wait_for
from tests.support.strategies_snapshots import wrong_bytes

OPTIONS = ["--only", "quadratic-oracles", "--rounds", "60", "--runs", "2", "--jobs", "2"]
RUNS = 8
SMALL = ("quadratic-bandit", "quadratic-full-information", "polynomial-bandit")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    experiments.run(["quadratic-oracles"], out=out, rounds=60, runs=2, jobs=1)
    return out


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL"])
@pytest.mark.parametrize("stage", [0, 3])
def test_a_signal_at_a_random_time(undisturbed, tmp_path, name, stage):
    """Nothing is left of the processes, no file is torn, and who goes on gets the same results."""
    out, number = tmp_path / "out", signal.Signals[name]
    command = [sys.executable, "-c", HEARING + "from koloss.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "reproduce", *OPTIONS, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: process.poll() is not None or len([*out.glob("runs/**/*.npz")]) >= stage)
    time.sleep(np.random.default_rng().uniform(0, 1.0 if stage == 0 else 0.1))
    begun = out.exists()
    process.send_signal(number)
    _, err = process.communicate()
    wait_for(lambda: not in_group(process.pid), seconds=60)
    if begun:  # before that the interpreter says what it likes
        assert process.returncode in (0, -number, 128 + number), err
        assert "Traceback" not in err
    experiments.run(["quadratic-oracles"], out=out, rounds=60, runs=2, jobs=1)
    assert contents(out) == contents(undisturbed)
    assert numbers(out / "results.json") == numbers(undisturbed / "results.json")
    assert not [*out.rglob("*.part")]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("small")
    results = experiments.run(SMALL, out=out, rounds=20, runs=2, jobs=1)
    return out, contents(out), results


@pytest.mark.slow
@fuzzed(few=4, cases=60)
@given(data=st.data())
def test_the_file_of_a_run_that_is_damaged_is_played_again(small, data):
    out, before, _ = small
    path = data.draw(st.sampled_from(sorted(out.glob("runs/**/*.npz"))))
    intact = path.read_bytes()
    path.write_bytes(data.draw(wrong_bytes(intact)))
    try:
        experiments.run(SMALL, out=out, rounds=20, runs=2, jobs=1)
        assert contents(out) == before
    finally:
        path.write_bytes(intact)


@pytest.mark.parametrize("turn", range(10))
def test_results_page_and_trace_are_whole_though_a_kill_comes(small, tmp_path, turn):
    (*_, played), learner = small, kl.ExpWeights(kl.Points([[0.0], [1.0]]), kl.Linear(), horizon=10)
    bare = [experiments.Result(one.experiment) for one in played.results]  # figures take their time
    results = experiments.Results(tuple(bare), played.seed, played.seconds, played.machine)
    trace = kl.play(learner, kl.games.Replay([[0.0, 1.0]]), 10)
    file = tmp_path / "trace.npz"

    def write():
        results.write(tmp_path)
        report.write_page(results, tmp_path)
        trace.save(file)

    write()
    child = os.fork()
    if child == 0:
        while True:
            write()
    time.sleep(np.random.default_rng().uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert json.loads((tmp_path / "results.json").read_text("utf-8")) == results.to_dict()
    assert (tmp_path / "report.html").read_text("utf-8").endswith("</html>\n")
    assert len(kl.Trace.load(file)) == 10


KEEPER = """
import sys
import koloss as kl
learner = kl.BanditExpWeights(kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100)
state = learner.state()
kl.load_state(sys.argv[1])
print("ready", flush=True)
while True:
    kl.save_state(sys.argv[1], state)
"""


@pytest.mark.parametrize("turn", range(4))
def test_a_snapshot_is_whole_though_a_kill_comes(tmp_path, turn):
    """The next process can save, and leaves nothing of the killed one behind."""
    path = tmp_path / "state.npz"
    learner = kl.BanditExpWeights(kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100)
    kl.save_state(path, learner.state())
    command = [sys.executable, "-c", KEEPER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(np.random.default_rng().uniform(0.02, 0.2))
        process.kill()
    again = kl.BanditExpWeights.from_state(kl.load_state(path))
    kl.save_state(path, again.state())
    assert os.listdir(tmp_path) == ["state.npz"]
