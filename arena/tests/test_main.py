"""`python -m arena`: what it prints where, what it writes, and how it fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import arena
import koloss as kl
from arena.__main__ import main
from koloss.games.store import locked
from tests.support.clusters import REMOTE, needs_dask
from tests.support.runs import HEARING, in_group, numbers, wait_for

BOUT = ["--games", "stationary", "compressor", "--players", "uniform", "exp3", "--rounds", "40"]
HERE = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own, from which other processes find the arena."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(Path(kl.__file__).parents[1])]))


def good(capsys, *arguments):
    """What is printed, on standard output and error."""
    capsys.readouterr()
    assert main([*arguments, "--jobs", "1"]) == 0
    return capsys.readouterr()


@pytest.mark.slow
def test_a_bout(capsys, tmp_path):
    """A page, figures and numbers; plain text in the pipe; nothing played twice."""
    size = ["--runs", "2", "--out", "out"]
    command = [sys.executable, "-m", "arena", *BOUT, *size, "--jobs", "1"]
    first = subprocess.run(command, capture_output=True, check=True, encoding="utf-8", env={**os.environ, "COLUMNS": "100"})  # fmt: skip
    assert "\x1b" not in first.stdout + first.stderr
    for word in ("2 games", "Uniform", "EXP3", "wrote out/arena.html"):
        assert word in first.stdout
    assert "8 of 8 runs done" in first.stderr
    out = tmp_path / "out"
    assert "</html>" in (out / "arena.html").read_text("utf-8")
    assert (out / "arena-summary.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "arena-summary.svg").read_text("utf-8")
    written = json.loads((out / "arena.json").read_text("utf-8"))
    pairs = [(game, player, 40, 2) for game in ("stationary", "compressor") for player in ("exp3", "uniform")]  # fmt: skip
    assert [(e["game"], e["player"], e["rounds"], len(e["runs"])) for e in written["results"]] == pairs  # fmt: skip
    again = good(capsys, *BOUT, *size, "--json")
    assert json.loads(again.out)["results"] == written["results"]
    assert again.err == ""
    assert "8 of 8 runs are there already" in good(capsys, *BOUT, *size).err


@pytest.mark.slow
def test_runs_of_another_size_are_not_replaced_without_a_word(capsys):
    names = ["--games", "compressor", "--players", "uniform"]
    said = "2 runs in arena-results of another size, seed or version will be played again and replaced"  # fmt: skip
    assert said not in good(capsys, *names, "--rounds", "10", "--runs", "2").err
    assert said not in good(capsys, *names, "--rounds", "10", "--runs", "3").err  # more of the same
    assert said in good(capsys, *names, "--rounds", "12", "--runs", "2").err


@pytest.mark.slow
def test_quick_and_a_player_that_is_not_there(capsys):
    """Failures are results: exit code 0. `--quick` is small and leaves out peers."""
    names = ["--games", "compressor", "--players", "uniform", "noregret-mwu", "--json"]
    first = json.loads(good(capsys, *names, "--runs", "1", "--rounds", "20").out)
    entries = {entry["player"]: entry for entry in first["results"]}
    assert list(entries) == ["uniform", "noregret-mwu"]
    peer = entries["noregret-mwu"]
    assert peer["finished"] or peer["runs"][0]["message"]
    quick = json.loads(good(capsys, *names, "--quick").out)["results"]
    assert [(e["player"], e["rounds"], len(e["runs"])) for e in quick] == [("uniform", 300, 2)]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--games", "stationery"], "--games must be among stationary, drift, "),
        (["--players", "gp"], "--players must be among insured, insured-thompson, "),
        (["--family", "hidden"], "argument --family: invalid choice: 'hidden'"),
        (["--family", "data", "--games", "drift"], "give --games or --family, not both"),
        (["--no-peers", "--players", "river-exp3"], "--no-peers leaves no player"),
        (["--games", "drift", "--players", "gp-ucb-contexts"], "--players must have one for these games"),
        (["--runs", "0"], "--runs must be at least 1, got 0"),
        (["--rounds", "0"], "--rounds must be at least 1, got 0"),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--limit", "0"], "--limit must be positive, got 0"),
        (["--limit", "nan"], "--limit must be finite"),
        (["--seed", "-1"], "--seed must be at least 0, got -1"),
    ],
)  # fmt: skip
def test_bad_options(capsys, tmp_path, options, message):
    try:
        code = main(options)
    except SystemExit as exit_:
        code = exit_.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert message in said.err
    assert not [*tmp_path.iterdir()]


def test_no_name_is_a_game_and_a_player():
    assert not set(arena.games()) & set(arena.players())


def test_no_place_to_write(capsys, tmp_path):
    (tmp_path / "file").touch()
    assert main([*BOUT, "--out", "file/out"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    with locked(tmp_path / "out"):
        assert main([*BOUT, "--out", "out"]) == 1
    assert "error: out is in use by process" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_its_processes(tmp_path, number):
    code = HEARING + "import sys; from arena.__main__ import main; sys.exit(main(sys.argv[1:]))"
    names = ["--games", "stationary", "--players", "insured", "insured-thompson", "--out", "out"]
    command = [sys.executable, "-c", code, *names, "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:  # fmt: skip
        wait_for(lambda: len(in_group(process.pid)) > 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "error: interrupted; the same command goes on with the runs in out"  # fmt: skip
    wait_for(lambda: not in_group(process.pid), seconds=10)
    with locked(tmp_path / "out"):
        assert not [*tmp_path.rglob("*.part")]


def test_a_cluster_without_dask(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["--cluster", "tcp://127.0.0.1:1"]) == 1
    assert "--cluster needs dask and distributed" in capsys.readouterr().err


@needs_dask
@pytest.mark.slow
def test_on_a_cluster(capsys, tmp_path):
    bout = ["--games", "stationary", "--players", "uniform", "--rounds", "20", "--runs", "1"]
    with ThreadPoolExecutor(1) as pool:
        arena.run(["stationary"], ["uniform"], out="here", rounds=20, runs=1, executor=pool)
    remote = subprocess.Popen([sys.executable, "-c", REMOTE], stdout=subprocess.PIPE, text=True)
    try:
        address = remote.stdout.readline().strip()
        good(capsys, *bout, "--out", "there", "--cluster", address)
    finally:
        remote.kill()
        remote.communicate()
    here, there = (numbers(tmp_path / place / "arena.json") for place in ("here", "there"))
    assert here == there
