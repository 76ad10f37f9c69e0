"""`koloss sweep`, and `--cluster`: what they print where, and how they fail."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from koloss import experiments
from tests.experiments.test_sweep import KILLER, REMOTE, SWEEP
from tests.support.clusters import needs_dask
from tests.support.runs import SPEC, numbers


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(SPEC.replace('"random"', '"biased"'))
    (tmp_path / "many.toml").write_text(SWEEP)
    return tmp_path / "many.toml"


@pytest.mark.slow
def test_a_sweep(spec, cli):
    first = cli("sweep", "many.toml", "--jobs", "1", "--runs", "1")
    assert first.code == 0, first.err
    assert "Smallest mean regret among 4 points" in first.out
    assert "4 points, 4 runs\nwrote many-results/sweep." in first.out
    assert "4 of 4 runs done" in first.err
    again = cli("sweep", "many.toml", "--jobs", "1", "--runs", "1", "--json")
    assert (again.code, again.err) == (0, "")
    table = json.loads(again.out)
    assert [row[table["columns"].index("adversary.noise")] for row in table["rows"]] == [0.25, 1.0, 0.25, 1.0]  # fmt: skip


@pytest.mark.slow
def test_a_failed_run_is_a_row_and_gives_exit_code_1(spec, cli):
    (spec.parent / "own.py").write_text(KILLER.replace("inner(t, player)", "None"))
    (spec.parent / "killed").touch()
    (spec.parent / "own.toml").write_text(SPEC.replace('"random"', '"python"\nfile = "own.py"'))
    spec.write_text(SWEEP.partition("adversary")[0].replace("[2, 3]", "[2]"))
    answer = cli("sweep", "many.toml", "--jobs", "1", "--runs", "1", "--json")
    assert answer.code == 1
    assert answer.err.splitlines()[-1] == "error: 1 run failed; the table says why"
    table = json.loads(answer.out)
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert (row["status"], row["regret"]) == ("failed", None)
    assert "what is played in round 0 must be a Loss" in row["message"]


def test_refusals(spec, refused):
    assert refused("sweep", "none.toml") == "error: there is no file none.toml\n"
    assert "--runs must be at least 1" in refused("sweep", "many.toml", "--runs", "0")
    spec.write_text(SWEEP.replace("[2, 3]", "[2, 0]"))
    assert "many.toml, line 5: settings.game.actions.dimension:" in refused("sweep", "many.toml")
    assert sorted(path.name for path in spec.parent.iterdir()) == ["many.toml", "own.toml"]


def test_a_cluster_without_dask(spec, cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    for verb in (["sweep", "many.toml"], ["run", "own.toml"], ["reproduce", "--out", "a"]):  # fmt: skip
        answer = cli(*verb, "--cluster", "local")
        line = "error: --cluster: a cluster needs dask and distributed: pip install 'koloss[distributed]'\n"
        assert answer == (1, "", line)


@needs_dask
def test_addresses(spec, cli, refused):
    assert "--cluster must be" in refused("run", "own.toml", "--cluster", "tcp://here:there")
    answer = cli("sweep", "many.toml", "--cluster", "tcp://127.0.0.1:1")
    assert answer.code == 1
    assert answer.err.startswith("error: no scheduler answers at 'tcp://127.0.0.1:1'")


@needs_dask
@pytest.mark.slow
def test_verbs_on_a_cluster(spec, cli):
    """The same numbers as here; a scheduler that is killed gives one line and exit code 1."""
    remote = subprocess.Popen([sys.executable, "-c", REMOTE], stdout=subprocess.PIPE, text=True)
    try:
        address = remote.stdout.readline().strip()
        with ThreadPoolExecutor(1) as pool:
            experiments.run(["own.toml"], out="here", executor=pool)
        there = cli("run", "own.toml", "--out", "there", "--cluster", address)
        assert there.code == 0, there.err
        assert f"cluster {address}, dashboard " in there.err
        here, there = (numbers(spec.parent / place / "results.json") for place in ("here", "there"))
        assert here == there
        (spec.parent / "own.py").write_text(
            KILLER.replace("os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)")
        )
        (spec.parent / "own.toml").write_text(SPEC.replace('"random"', '"python"\nfile = "own.py"'))
        spec.write_text(SWEEP.partition("adversary")[0].replace("[2, 3]", "[2]"))
        # The scheduler lives in the process that this game ends.
        answer = cli("sweep", "many.toml", "--cluster", address)
        assert answer.code == 1
        gone = f"error: the scheduler of the cluster '{address}' is gone; the same command goes on with the runs in many-results"
        assert answer.err.splitlines()[-1] == gone
    finally:
        remote.kill()
        remote.communicate()


@pytest.mark.slow
def test_points_with_many_settings_are_shown_by_their_numbers(spec, cli):
    """Fourteen columns of three letters each would be read by nobody; a few settings are shown as they are."""
    few = "game.rounds = [20]\ngame.actions.dimension = [3]\n"
    many = 'adversary.kind = ["biased"]\nadversary.noise = [0.123456]\nlearner.particles = [500]\nlearner.play.batch = [1]\n'
    about = (
        '[sweep]\nexperiment = "own.toml"\nruns = 1\n[settings]\nlearner.loss_norm = [1.0, 2.0]\n'
    )
    for settings, head in ((few, "learner.loss_norm"), (few + many, "point")):
        spec.write_text(about + settings)
        answer = cli("sweep", "many.toml", "--jobs", "1")
        assert answer.code == 0, answer.err
        assert answer.out.splitlines()[1].split()[3] == head
    assert "0.123456" not in answer.out
