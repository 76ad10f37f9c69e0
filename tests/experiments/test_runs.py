"""Runs: seeds and digests, the same bytes for any number of processes, and going on where an interrupt came."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.experiments import SpecError, load, parse, run
from koloss.experiments.run import job_of, jobs_of
from koloss.games.store import perform, seeds_of
from koloss.games.trace import Trace
from tests.support.runs import contents, numbers

SMALL = ["posynomial", "gaussian-bandit"]
SIZE = {"rounds": 20, "runs": 3}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """An uninterrupted run with one process."""
    out = tmp_path_factory.mktemp("complete")
    run(SMALL, out=out, jobs=1, **SIZE)
    return out


@pytest.mark.slow
def test_same_bytes_for_any_number_of_processes(complete, tmp_path):
    run(SMALL, out=tmp_path, jobs=2, **SIZE)
    assert contents(tmp_path) == contents(complete)
    assert numbers(tmp_path / "results.json") == numbers(complete / "results.json")
    run(SMALL[:1], out=tmp_path, jobs=1, seed=1, **SIZE)
    assert contents(tmp_path) != contents(complete)


@pytest.mark.slow
def test_going_on_gives_what_an_uninterrupted_run_gives(complete, tmp_path):
    """One experiment first, fewer runs, a torn file: the rest is computed, what is there is not."""
    run(SMALL[:1], out=tmp_path, jobs=1, rounds=20, runs=2)
    first = tmp_path / "runs" / "posynomial" / "conditional-gradient"
    stamps = {k: (first / f"{k}.npz").stat().st_mtime_ns for k in range(2)}
    (first / "1.npz").write_bytes((first / "1.npz").read_bytes()[:200])
    seen = []
    run(SMALL, out=tmp_path, jobs=1, progress=seen.append, **SIZE)
    assert (seen[0].done, seen[0].total) == (1, 6)
    new = {("posynomial", 1), ("posynomial", 2), *(("gaussian-bandit", k) for k in range(3))}
    assert {(p.job.game, p.job.number) for p in seen[1:]} == new
    assert (first / "0.npz").stat().st_mtime_ns == stamps[0]
    assert (first / "1.npz").stat().st_mtime_ns != stamps[1]
    assert contents(tmp_path) == contents(complete)
    assert numbers(tmp_path / "results.json") == numbers(complete / "results.json")
    seen.clear()
    run(SMALL, out=tmp_path, jobs=1, progress=seen.append, **SIZE)
    assert [p.done for p in seen] == [6]  # nothing was computed


def test_an_interrupt_loses_only_what_is_under_way(complete, tmp_path):
    def interrupt(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(SMALL, out=tmp_path, jobs=1, progress=interrupt, **SIZE)
    seen = []
    run(SMALL, out=tmp_path, jobs=1, progress=seen.append, **SIZE)
    assert seen[0].done == 2
    assert contents(tmp_path) == contents(complete)


def test_keys_know_what_a_run_depends_on():
    text = load("quadratic-full-information").source.text

    def key(text, **sizes):
        return jobs_of([parse(text, name="game")], **{"runs": 1, **sizes})[0].key

    first = key(text)
    assert key(text.replace("Every round", "In every round")) == first
    assert key(text.replace("runs = 12", "runs = 13")) == first
    assert first not in (key(text, seed=1), key(text, rounds=99))
    for old, new in (("noise = 1", "noise = 2"), ("dimension = 3", "dimension = 4"), ("loss_norm = 1", "loss_norm = 2")):  # fmt: skip
        assert key(text.replace(old, new)) != first


def test_a_run_is_the_play_of_its_parts():
    """The file of a run against `kl.play` with the parts made by hand."""
    game = load("gaussian-bandit")
    job = job_of(game, game.learners[0], number=2, rounds=50, seed=4)
    run = Trace.unpack(perform(job))
    mine, theirs = seeds_of(job)
    net, kernel = kl.Ball(2).net(0.1), kl.Gaussian(0.5)
    settings = {"horizon": 50, "proxy": "kernel_pca", "loss_range": (0, 1), "loss_norm": 1.0}
    settings |= {"ridge": 0, "bonus": False, "loss_class": "rank-one"}
    learner = kl.BanditExpWeights(net, kernel, rng=mine, **settings)
    foe = kl.games.RankOne(kernel, net, points=net.sample(50, theirs))
    trace = kl.play(learner, foe, 50, batch=learner.rank, checkpoints=100)
    np.testing.assert_array_equal(run.running, trace.running)
    np.testing.assert_array_equal(run.regret, trace.regret[trace.checkpoints - 1])
    assert run.facts["rank"] == learner.rank
    assert run.facts["promise"]["total"] == pytest.approx(trace.bound[-1])


OWN = """
[game]
kernel = {kind = "Linear"}
actions = {kind = "Points", X = [[-1.0], [1.0]]}
rounds = 20
runs = 2

[adversary]
kind = "python"
file = "mine.py"
make = "always_up"

[[learner]]
kind = "ExpWeights"
"""
MINE = """
import koloss as kl

def always_up(kernel, actions, rng):
    return kl.games.Function(lambda t, player: kl.LinearLoss([1.0]), norm=1.0, oblivious=True)
"""


def own_game(folder, spec=OWN, code=MINE):
    (folder / "own.toml").write_text(spec, encoding="utf-8")
    (folder / "mine.py").write_text(code, encoding="utf-8")
    return load(folder / "own.toml")


@pytest.mark.slow
def test_an_adversary_of_ones_own(tmp_path):
    game = own_game(tmp_path)
    curve = run([game], out=tmp_path / "out", jobs=1).curves[0]
    assert curve.uniform[-1] == pytest.approx(20)  # the mean of -1 and 1 is 0, the best has -20
    before = jobs_of([game])[0].key
    assert jobs_of([own_game(tmp_path, code=MINE + "\n")])[0].key != before


def test_a_mistake_in_it_is_found_before_anything_is_played(tmp_path):
    game = own_game(tmp_path, OWN.replace("mine.py", "yours.py"))
    message = "line 10: adversary.file: must be a Python file"
    with pytest.raises(SpecError, match=message):
        run(["posynomial", game], out=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()  # nothing is left behind


def test_replay_of_a_table(tmp_path):
    """Two points, one always 0 and the other always 1: the regret is the number of times the second was played."""
    np.savetxt(tmp_path / "losses.csv", [[0.0, 1.0]], delimiter=",")
    spec = OWN.replace('"python"', '"replay"').replace('file = "mine.py"', 'table = "losses.csv"')
    spec = spec.replace('make = "always_up"\n', "") + "loss_range = [0.0, 1.0]\n"
    game = own_game(tmp_path, spec)
    jobs = [job_of(game, game.learners[0], k, rounds=20, seed=0) for k in range(8)]
    traces = [Trace.unpack(perform(job)) for job in jobs]
    for trace in traces:
        np.testing.assert_array_equal(trace.uniform, trace.checkpoints / 2)
        assert trace.running[-1] == int(trace.running[-1])
    assert 0 < sum(trace.running[-1] for trace in traces) < 8 * 10


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_the_others_are_kept(tmp_path):
    unlucky = "    if rng.random() < 0.5:\n        raise RuntimeError('no luck')\n    return"
    game = own_game(tmp_path, code=MINE.replace("    return", unlucky))
    results = run([game], out=tmp_path / "out", runs=8, jobs=1)
    (curve,) = results.curves
    (why,) = set(curve.failures.values())
    assert why.startswith("before the first round: ")
    assert why.endswith("adversary.file: mine.py, line 6: RuntimeError: no luck")
    assert curve.runs == 8 - len(curve.failures)
    assert 0 < curve.runs < 8
    assert list(results.to_dict()["experiments"][0]["failures"]) == [str(k) for k in curve.failures]


def test_bad_input(tmp_path):
    out = tmp_path / "out"
    for name, value in (("rounds", 0), ("runs", 0), ("jobs", 0), ("seed", -1)):
        with pytest.raises(ValueError, match=f"`{name}` must be at least"):
            run(["posynomial"], out=out, **{name: value})
    with pytest.raises(ValueError, match="different names, got 'posynomial' twice"):
        run(["posynomial", "posynomial"], out=out)
    assert not out.exists()
