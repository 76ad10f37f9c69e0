"""Sweeps: the points, the runs at each, the table, and going on after all that can happen to a cluster."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from koloss import experiments
from koloss.experiments import SpecError, load_sweep, parse_sweep
from koloss.games.cluster import Cluster
from koloss.games.store import ROOT
from koloss.games.workers import ClusterLost
from tests.support.clusters import needs_dask
from tests.support.runs import SPEC

HERE = str(Path(__file__).parents[2])

SWEEP = """\
[sweep]
experiment = "own.toml"

[settings]
game.actions.dimension = [2, 3]
adversary.noise = {low = 0.25, high = 1.0, count = 2, log = true}
"""

KILLER = """\
import os, signal
from pathlib import Path
import koloss as kl

def make(kernel, actions, rng):
    inner = kl.games.Random(kernel, actions, rng=rng)
    def choose(t, player):
        mark = Path(__file__).with_name("killed")
        if t == 5 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(t, player)
    return kl.games.Function(choose, norm=1.0)
"""

REMOTE = """\
from distributed import LocalCluster
import time
if __name__ == "__main__":
    cluster = LocalCluster(1, processes=False, protocol="tcp", threads_per_worker=1, dashboard_address=None)
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With an experiment and a sweep of it; other processes find the tests' modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, str(ROOT.parent)]))
    (tmp_path / "own.toml").write_text(SPEC.replace('"random"', '"biased"'))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def go(spec="sweep.toml", out="out", **settings):
    """A sweep in threads of this process, and its table as bytes."""
    with ThreadPoolExecutor(1) as pool:
        found = experiments.sweep(spec, out=out, **{"executor": pool, **settings})
    return found, found.path.read_bytes()


def plan(settings, about='experiment = "posynomial"'):
    return parse_sweep(f"[sweep]\n{about}\n[settings]\n{settings}\n", name="a sweep")


# Points.


def test_a_grid_is_the_product():
    spec = plan('a.b = [1, "x", true]\nc = {low = 1, high = 100, log = true, count = 3}')
    points = [tuple(point.settings.values()) for point in spec.points(0)]
    assert points == list(itertools.product([1, "x", True], [1, 10, 100]))
    assert [list(point.settings) for point in spec.points(0)] == [["a.b", "c"]] * 9


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_points_that_are_drawn(method):
    """In their ranges, the same for a seed; a longer sweep begins with the shorter one; equal points come once."""
    settings = "a = {low = 2, high = 5}\nb = {low = 0.01, high = 1.0, log = true}\nc = [1, 2]"
    about = f'experiment = "posynomial"\nmethod = "{method}"\npoints = '
    points = [p.settings for p in plan(settings, about + "200").points(3)]
    assert points[:50] == [p.settings for p in plan(settings, about + "50").points(3)]
    assert points != [p.settings for p in plan(settings, about + "200").points(4)]
    assert {p["a"] for p in points} == {2, 3, 4, 5}
    b = [p["b"] for p in points]
    assert 0.01 <= min(b) < 0.02
    assert 0.5 < max(b) <= 1.0
    assert 0.4 < np.mean(np.array(b) < 0.1) < 0.6  # the middle of a logarithmic scale
    few = plan("c = [1, 2]", about + "20").points(0)
    assert [p.number for p in few] == [0, 1]


def test_sobol_points_are_a_net():
    """Of 64, each 64th of a coordinate has one, and each square of 8 times 8; random points have not."""

    def nets(method):
        about = f'experiment = "posynomial"\nmethod = "{method}"\npoints = 64'
        spec = plan("a = {low = 0.0, high = 1.0}\nb = {low = 0.0, high = 1.0}", about)
        unit = np.array([list(p.settings.values()) for p in spec.points(1)])
        alone = [len(set((64 * column).astype(int))) for column in unit.T]
        return [*alone, len({tuple(cell) for cell in (8 * unit).astype(int).tolist()})]

    assert nets("sobol") == [64, 64, 64]
    assert max(nets("random")) < 64


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("own.toml", "own.tml", "line 2: sweep.experiment: must be a .toml file or among"),
        ("own.toml", "no.toml", "sweep.experiment: must be a file that is there, got 'no.toml'"),
        ("own.toml", "../own.toml", "must be in the folder of the sweep"),
        ('"own.toml"', '"mcmc-picture"', "must be a game, got the picture"),
        ("[settings]", 'method = "gird"\n[settings]', "line 4: sweep.method: must be one of grid"),
        ("[settings]", "points = 3\n[settings]", "sweep.points: must be left out of a grid"),
        ("[2, 3]", "[]", "line 5: settings.game.actions.dimension: must have at least one value"),
        ("[2, 3]", "3", "must be a list of values, or a range such as"),
        ("[2, 3]", "[2, -3]", "line 5: settings.game.actions.dimension: "),
        ("[2, 3]", "{low = 3, high = 2, count = 2}", "must have low < high, got 3 and 2"),
        ("[2, 3]", "{low = 3, high = 4}", "must have a `count` in a grid"),
        ("low = 0.25", "low = 0.0", "line 6: settings.adversary.noise: must have low > 0"),
        ("low = 0.25", "lwo = 1, low = 0.25", "is not a key of a range; did you mean low?"),
        ("adversary.noise", "adversary.nosie", "is not a key of the biased adversary"),
        ("adversary.noise", "learner.2.loss_norm", "must name one of 1 tables and a key of it"),
        ("adversary.noise", "game.rounds.x", "must name a key of a table, got 'x' of 12"),
    ],
)
def test_mistakes_are_told_with_their_line_and_nothing_is_written(folder, old, new, problem):
    (folder / "sweep.toml").write_text(SWEEP.replace(old, new))
    with pytest.raises(SpecError) as error:
        go()
    assert problem in str(error.value)
    assert not (folder / "out").exists()


def test_rounds_are_not_given_twice(folder):
    (folder / "sweep.toml").write_text(SWEEP + "game.rounds = [3, 4]\n")
    with pytest.raises(ValueError, match=r"`rounds` must be left out where game\.rounds is swept"):
        go(rounds=5)


# Runs.


def test_every_row_is_the_run_of_the_spec_that_it_stands_for(folder):
    """Written by hand, with the values of the row, and played alone."""
    found, _ = go()
    assert len(found.rows) == 2 * 2 * 2
    for d, noise in itertools.product((2, 3), (0.25, 1.0)):
        text = SPEC.replace("dimension = 2", f"dimension = {d}")
        text = text.replace('"random"', f'"biased"\nnoise = {noise}')
        (folder / "one.toml").write_text(text)
        with ThreadPoolExecutor(1) as pool:
            spec = experiments.parse(text, name="own", path="one.toml")
            curve = experiments.run([spec], out=f"{d}-{noise}", executor=pool).curves[0]
        rows = [
            row
            for row in found.rows
            if (row["game.actions.dimension"], row["adversary.noise"]) == (d, noise)
        ]
        assert [row["run"] for row in rows] == [0, 1]
        assert np.mean([row["regret"] for row in rows]) == pytest.approx(curve.mean[-1], rel=1e-12)
        assert np.mean([row["guarantee"] for row in rows]) == pytest.approx(curve.bound[-1])
    losses = {row["loss"] for row in found.rows}
    assert len(losses) == len(found.rows)
    means = {k: np.mean([r["regret"] for r in found.rows if r["point"] == k]) for k in range(4)}
    assert found.best()[0]["regret"] == pytest.approx(min(means.values()))


def test_a_sweep_that_has_grown_plays_what_is_new(folder):
    _, first = go()
    (folder / "sweep.toml").write_text(SWEEP.replace("[2, 3]", "[2, 3, 4]"))
    seen = []
    go(progress=seen.append)
    assert (seen[0].done, seen[0].total) == (8, 12)
    (folder / "sweep.toml").write_text(SWEEP)
    seen = []
    _, again = go(progress=seen.append)
    assert (seen[0].done, seen[0].total, len(seen)) == (8, 8, 1)
    assert again == first


def test_a_seed_is_another_table(folder):
    assert go()[1] != go(out="other", seed=1)[1]


def test_both_kinds_of_tables_say_the_same(folder, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    (folder / "sweep.toml").write_text(SWEEP + 'learner.play.batch = [1, 2]\ntitles = ["a"]\n')
    with pytest.raises(SpecError, match="titles"):
        go()
    (folder / "sweep.toml").write_text(SWEEP + "learner.play.batch = [1, 2]\n")
    found, _ = go()
    table = parquet.read_table(found.path)
    assert table.column_names == found.columns
    assert table.to_pylist() == list(found.rows)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    plain, _ = go()
    assert not found.path.exists()
    with open(plain.path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["regret"]) for row in rows] == [row["regret"] for row in found.rows]
    assert json.loads(json.dumps(plain.to_dict()))["rows"][0] == list(found.rows[0].values())


# Many workers.


@pytest.mark.slow
def test_one_and_many_processes_give_the_same_table(folder):
    assert go()[1] == go(out="two", executor=None, jobs=2)[1]


@needs_dask
@pytest.mark.slow
def test_killed_workers_change_nothing(folder):
    """A worker is killed in the middle of a run, with signal 9."""
    (folder / "own.py").write_text(KILLER)
    (folder / "own.toml").write_text(SPEC.replace('"random"', '"python"\nfile = "own.py"'))
    (folder / "sweep.toml").write_text(SWEEP.partition("adversary")[0])
    with Cluster("local", jobs=2) as cluster:
        _, killed = go(executor=cluster)
    assert (folder / "killed").exists()  # from now on nobody is
    assert killed == go(out="whole")[1]


@needs_dask
@pytest.mark.slow
def test_a_scheduler_killed_in_the_middle(folder):
    """What had come back by then is there, and the same sweep goes on without it."""
    remote = subprocess.Popen([sys.executable, "-c", REMOTE], stdout=subprocess.PIPE, text=True)
    try:
        address = remote.stdout.readline().strip()
        with Cluster(address) as cluster:
            assert go(out="far", executor=cluster)[1] == go(out="near")[1]

            def kill(progress):
                if progress.done == 3:
                    remote.kill()

            with pytest.raises(ClusterLost, match="is gone"):
                go(executor=cluster, progress=kill)
    finally:
        remote.kill()
        remote.communicate()
    there = len(list((folder / "out/runs").rglob("*.npz")))
    assert 3 <= there < 8
    seen = []
    found, table = go(progress=seen.append)
    assert seen[0].done == there
    assert table == (folder / "near" / found.path.name).read_bytes()
    assert not math.isnan(found.best()[0]["regret"])


def test_specs_are_read_from_files(folder):
    assert load_sweep("sweep.toml").name == "sweep"
    with pytest.raises(FileNotFoundError):
        load_sweep("none.toml")
