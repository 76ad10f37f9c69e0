"""`--cluster`: a Dask cluster plays; what is said where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.clusters import REMOTE, needs_dask
from tests.support.runs import SPEC, numbers


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(SPEC)
    return tmp_path / "own.toml"


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
