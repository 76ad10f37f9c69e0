"""Verbs that play: what they print where, what they write, and how they fail."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.clusters import REMOTE, needs_dask
from tests.support.command_line import own_adversary
from tests.support.runs import SPEC, numbers

WRITE = {
    "run": ["run", "own.toml"],
    "reproduce": ["reproduce", "--only", "gaussian-bandit"],
    "inspect": ["inspect", "--rank", "3"],
}
REPLAY = SPEC.replace('"Ball", dimension = 2', '"Points", X = [[0.0], [1.0]]').replace(
    '"random"', '"replay"\ntable = "losses.csv"'
)


@pytest.mark.slow
def test_run_of_a_spec(spec, cli, monkeypatch):
    """A report, figures and numbers beside the spec; nothing computed twice, nothing replaced without a word."""
    first = cli("run", "own.toml", "--jobs", "1")
    assert first.code == 0, first.err
    assert "\x1b" not in first.out + first.err
    assert "wrote own-results/report.html" in first.out
    out = spec.parent / "own-results"
    assert "</html>" in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "figures" / "own.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [(e["name"], e["rounds"], e["runs"]) for e in written["experiments"]] == [("own", 12, 2)]
    again = cli("run", "own.toml", "--jobs", "1", "--json")
    assert (again.code, again.err) == (0, "")
    assert "runs" in json.loads(again.out)["experiments"][0]
    more = cli("run", "own.toml", "--jobs", "1", "--runs", "3")
    assert "2 of 3 runs are there already" in more.err
    other = cli("run", "own.toml", "--jobs", "1", "--rounds", "10")
    said = "runs in own-results of another size, seed or version will be played again and replaced"
    assert f"2 {said}" in " ".join(other.err.split())
    assert said not in " ".join((first.err + more.err).split())
    before = (out / "report.html").read_bytes()
    with monkeypatch.context() as patch:  # the page fails, and leaves the former one
        patch.setattr("os.replace", lambda *paths: os.kill(os.getpid(), signal.SIGTERM))
        assert cli("run", "own.toml", "--jobs", "1", "--rounds", "10").code == 143
    assert (out / "report.html").read_bytes() == before
    assert not list(spec.parent.rglob("*.part"))


@pytest.mark.slow
def test_sizes_reach_the_games(spec, good):
    options = ["--rounds", "7", "--runs", "1", "--seed", "3", "--out", "here", "--json"]
    results = json.loads(good("reproduce", "--only", "posynomial", "--jobs", "1", *options))
    assert results["seed"] == 3
    (entry,) = results["experiments"]
    assert (entry["name"], entry["rounds"], entry["runs"]) == ("posynomial", 7, 1)
    assert results == json.loads((spec.parent / "here" / "results.json").read_text("utf-8"))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("rounds = 12", "rounds = none", "own.toml, line 4: invalid value"),
        ("rounds = 12", "rounds = 0", "own.toml, line 4: game.rounds: must be at least 1, got 0"),
        ("random", "rnadom", "own.toml, line 8: adversary.kind: must be one of random"),
        ("ExpWeights\"", "ExpWeights\"\nlos_norm = 1", "own.toml, line 12: learner[1].los_norm: is not a key"),
        ("ExpWeights\"", "ExpWeights\"\nlearning_rate = -1", "line 12: learner[1].learning_rate: must be pos"),
        ("Linear", "Gaussian", "own.toml, line 2: game.kernel"),
    ],
)  # fmt: skip
def test_mistakes_in_a_spec_point_at_the_line_and_leave_nothing(spec, refused, old, new, message):
    spec.write_text(SPEC.replace(old, new), encoding="utf-8")
    assert message in refused("run", "own.toml")
    assert [path.name for path in spec.parent.iterdir()] == ["own.toml"]


@pytest.mark.parametrize(
    "options, message",
    [
        (["run", "missing.toml"], "there is no file missing.toml"),
        (["run", "latin.toml"], "latin.toml, line 1: must be text in UTF-8, got the byte 0xe9"),
        (["run", "quadratic-bandits"], "SPEC must be an experiment, got 'quadratic-bandits'; did you mean quadratic-bandit?"),
        (["run"], "SPEC"),
        (["run", "own.toml", "--runs", "0"], "--runs must be at least 1, got 0"),
        (["run", "own.toml", "--rounds", str(10**400)], "--rounds must be at most 1000000000, got 2**1328 or more"),
        (["run", "own.toml", "--runs", "2000000"], "--runs must be at most 1000000, got 2000000"),
        (["run", "own.toml", "--rounds", "0"], "error: --rounds must be at least 1, got 0\n"),
        (["reproduce"], "--out"),
        (["reproduce", "--out", "x", "--only", "nothing"], "--only must be an experiment, got 'nothing'"),
        (["reproduce", "--out", "x", "--only", "posynomial", "posynomial"], "--only must have different names"),
        (["reproduce", "--out", "x", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["reproduce", "--out", "x", "--seed", "-1"], "--seed must be at least 0, got -1"),
        (["reproduce", "--out", "own.toml"], "--out"),
    ],
)  # fmt: skip
def test_bad_options(spec, refused, options, message):
    (latin := spec.parent / "latin.toml").write_bytes(b'title = "Mat\xe9rn"')
    assert message in refused(*options)
    assert {*spec.parent.iterdir()} == {spec, latin}


@pytest.mark.slow
def test_recorded_losses_may_have_a_head(spec, good):
    table = '\ufeff"left, 1",right\n0.5,1\n1,0.5\n'
    (spec.parent / "losses.csv").write_text(table, encoding="utf-8")
    spec.write_text(REPLAY, encoding="utf-8")
    assert "own" in good("run", "own.toml", "--jobs", "1")


@pytest.mark.parametrize(
    "table, message",
    [
        ("left,right\n0.5,1\n0.5,one\n", "must hold as many numbers between commas in every line, got could not convert string 'one'"),
        ("0.5,1\n# noon\n0.5\n", "must hold as many numbers between commas in every line, got the number of columns changed"),
        ("0.5,one\n0.5,1\n", "must hold as many numbers between commas in every line, got could not convert string 'one'"),
    ],
)  # fmt: skip
def test_a_bad_line_of_recorded_losses_is_named(spec, refused, table, message):
    (spec.parent / "losses.csv").write_text(table, encoding="utf-8")
    spec.write_text(REPLAY, encoding="utf-8")
    assert f"own.toml, line 9: adversary.table: {message}" in refused("run", "own.toml")


# No place to write.


@pytest.mark.parametrize("verb", WRITE)
def test_a_folder_below_a_file(spec, refused, verb):
    message = refused(*WRITE[verb], "--out", "own.toml/out")
    assert "--out must be a folder, got own.toml/out: " in message
    assert "is a file" in message or "Not a directory" in message


@pytest.mark.parametrize("verb", WRITE)
def test_a_folder_that_cannot_be_written_to(spec, refused, verb):
    shut = spec.parent / "shut"
    shut.mkdir(mode=0o500)
    if os.access(shut, os.W_OK):
        pytest.skip("root may write everywhere")
    for out in (shut, shut / "inside"):
        assert "a folder to write to, got" in refused(*WRITE[verb], "--out", str(out))


def test_a_name_that_is_too_long(spec, refused):
    assert "--out must be a folder, got" in refused("run", "own.toml", "--out", 300 * "x")


# What failed, and what nobody foresaw.


@pytest.mark.process
def test_a_run_that_failed_gives_exit_code_1_and_is_tried_again(spec, cli):
    """What made it fail is not always in its key."""
    own_adversary(spec, '    open("numbers.txt").close()\n    return kl.LinearLoss([0.5, 0.0])\n')
    first = cli("run", "own.toml", "--jobs", "1")
    assert first.code == 1
    assert "own, run 0 failed: " in first.err
    assert "FileNotFoundError" in first.err
    assert first.err.splitlines()[-1] == "error: 2 runs failed; the report says why"
    page = (spec.parent / "own-results" / "report.html").read_text(encoding="utf-8")
    assert "FileNotFoundError" in page
    (spec.parent / "numbers.txt").touch()
    again = cli("run", "own.toml", "--jobs", "1")
    assert again.code == 0, again.err


@pytest.mark.process
def test_what_nobody_foresaw_is_shown_in_full(spec, cli, monkeypatch):
    def broken(*arguments, **options):
        raise error

    module = importlib.import_module("koloss.experiments.run")  # the name is the function's, too
    monkeypatch.setattr(module, "summarise", broken)
    for error in (ValueError("shapes (3,) and (2,)"), TypeError("no"), KeyError("x")):
        answer = cli("run", "own.toml", "--jobs", "1", "--runs", "1")  # played once
        *lines, last = answer.err.splitlines()
        assert (answer.code, answer.out) == (1, "")
        assert "Traceback (most recent call last):" in lines
        assert lines[-1] == f"{type(error).__name__}: {error}"
        assert last == "error: this is a fault of koloss; please report it with the lines above"


# Code of the user's.

CODE = {
    "sys.exit(0)": "own.py, line 2: SystemExit: 0",
    "raise ValueError('no')": "own.py, line 2: ValueError: no",
    "def make(*given): return 1 / 0": "own.py, line 2: ZeroDivisionError: division by zero",
    "def make(*given): sys.exit()": "own.py, line 2: SystemExit\n",
    "def make(*given): raise StopIteration": "own.py, line 2: StopIteration\n",
    "def make(": "own.py, line 2: SyntaxError: '(' was never closed",
    "def make(*given): return 3": "`make` must give an Adversary, got int",
    "made = 3": "`make` must be a function of own.py, got 'make'",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", CODE)
def test_code_that_fails_is_told_before_anything_is_played(write, refused, tmp_path, code):
    error = refused("run", write("own.py", f"import os, sys\n{code}\n"), "--out", "out")
    assert error.startswith("error: specs/own.toml, line ")
    assert CODE[code] in error
    assert not (tmp_path / "out").exists()


# A Dask cluster plays; what is said where there is none.


def test_a_cluster_without_dask(spec, cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = "error: --cluster needs dask and distributed: pip install 'koloss[distributed]'\n"
    for verb in (["run", "own.toml"], ["reproduce", "--out", "a"]):
        assert cli(*verb, "--cluster", "tcp://127.0.0.1:1") == (1, "", line)


@needs_dask
@pytest.mark.slow
def test_a_run_on_a_cluster(spec, cli):
    """The same numbers as here; an address that is none, and one where nobody is, are told in a line."""
    answer = cli("run", "own.toml", "--cluster", "tcp://here:there")
    assert answer.code == 1
    assert answer.err.startswith("error: no cluster at tcp://here:there: ")
    remote = subprocess.Popen([sys.executable, "-c", REMOTE], stdout=subprocess.PIPE, text=True)
    try:
        address = remote.stdout.readline().strip()
        there = cli("run", "own.toml", "--out", "there", "--cluster", address)
        assert there.code == 0, there.err
        assert f"cluster {address}, dashboard " in there.err
    finally:
        remote.kill()
        remote.communicate()
    assert cli("run", "own.toml", "--out", "here", "--jobs", "1").code == 0
    assert numbers(spec.parent / "here/results.json") == numbers(spec.parent / "there/results.json")
