"""`koloss bench`: in a checkout the benchmarks, elsewhere a word about where they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from koloss.cli import bench


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """A checkout around the working directory, and what would be run in it."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__main__.py").touch()
    (tmp_path / "src" / "koloss").mkdir(parents=True)
    made = []

    def run(command, *, cwd, env, check):
        made.append((command, cwd, env["PYTHONPATH"]))
        return subprocess.CompletedProcess(command, 3 if "designs" in command else 0)

    monkeypatch.setattr(bench.subprocess, "run", run)
    monkeypatch.chdir(tmp_path / "src" / "koloss")
    return made


def test_in_a_checkout(good, calls, tmp_path):
    good("bench", "imports", "memory", "--full")
    ((command, cwd, path),) = calls
    assert command == [sys.executable, "-m", "benchmarks", "imports", "memory", "--full"]
    assert cwd == tmp_path
    assert path.startswith(str(tmp_path / "src"))


def test_its_exit_code_is_that_of_the_benchmarks(cli, calls):
    assert cli("bench", "designs").code == 3
    assert len(calls) == 1


def test_elsewhere_it_says_where_they_are(refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "lib" / "koloss" / "cli" / "bench.py"))
    assert "in the repository" in refused("bench")
