"""Runs in a folder: keys that know what counts, one lock, whole files, and processes that may die."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import numpy as np
import pytest

from koloss.games.store import (
    FolderInUse,
    load,
    locked,
    missing,
    path_of,
    perform,
    play_jobs,
    save,
    seeds_of,
)
from koloss.games.trace import Trace
from tests.support.players import job


def same(one, two):
    return all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)


# Keys.


def test_keys_know_what_a_run_depends_on(tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text("1,2")
    first = job(files=(str(table),))
    assert replace(first, limit=3.0, carried="anything").key == first.key
    changes = {
        "number": 1, "rounds": 21, "seed": 4, "seeds": "numbers", "game": "other", "player": "other",
        "arguments": {"trouble": "x"}, "package": "numpy", "carried_digest": "other", "make": "tests.support.players:other",
    }  # fmt: skip
    others = {replace(first, **{name: value}).key for name, value in changes.items()}
    assert len({first.key, *others}) == 11
    table.write_text("1,3")
    assert replace(first, limit=1.0).key != first.key
    before = replace(first).key
    monkeypatch.setattr("koloss.games.store.__version__", "another")
    assert replace(first).key != before


# Seeds.


def test_seeds_depend_on_names_and_numbers_alone():
    numbers = job(3, seeds="numbers")
    mine, theirs = seeds_of(numbers)
    assert seeds_of(replace(numbers, rounds=9, limit=2.0)) == (mine, theirs)
    other, losses = seeds_of(replace(numbers, player="other"))
    assert losses == theirs  # the same for all players
    changes = {"number": 2, "seed": 1, "game": "other"}
    others = [seeds_of(replace(numbers, **{name: value})) for name, value in changes.items()]
    assert len({mine, theirs, other, *itertools.chain(*others)}) == 9
    one, two = seeds_of(job(3)), seeds_of(job(3))
    assert [g.random() for g in one] == [g.random() for g in two]
    assert {g.random() for g in seeds_of(job(2))}.isdisjoint(g.random() for g in seeds_of(job(3)))


def test_the_two_derivations_have_not_changed():
    """Numbers that were published depend on them."""
    assert seeds_of(job(1, seeds="numbers")) == (2623507251221917941, 8954508098823178124)
    assert [g.integers(1000) for g in seeds_of(job(1))] == [213, 580]


# Files.


@pytest.mark.process
def test_a_run_is_kept_and_not_played_again(tmp_path):
    jobs, seen = [job(0), job(1)], []
    first = play_jobs(jobs, tmp_path, processes=1, progress=seen.append)
    told = [(0, 2, None), (1, 2, jobs[0]), (2, 2, jobs[1])]
    assert [(p.done, p.total, p.job) for p in seen] == told
    stamp = path_of(jobs[0], tmp_path).stat().st_mtime_ns
    seen.clear()
    again = play_jobs(jobs, tmp_path, processes=1, progress=seen.append)
    assert [(p.done, p.total) for p in seen] == [(2, 2)]
    with ThreadPoolExecutor(1) as pool:
        seen.clear()
        play_jobs(jobs, tmp_path / "x", processes=1, executor=pool)
        fresh = tmp_path / "x"
        play_jobs(jobs, fresh, processes=1, executor=pool, progress=seen.append, fresh=True)
        assert [p.done for p in seen] == [0, 1, 2]
    assert path_of(jobs[0], tmp_path).stat().st_mtime_ns == stamp
    for one, two, job_ in zip(first, again, jobs, strict=True):
        assert one.plain == two.plain
        assert same(one, two)
        assert same(one, perform(job_))
        assert Trace.load(path_of(job_, tmp_path)).ended == "done"


@pytest.mark.slow
def test_damage_is_noticed(tmp_path):
    one = job()
    run = perform(one)
    path = path_of(one, tmp_path)
    assert load(one, tmp_path) is None
    save(one, run, tmp_path)
    intact = path.read_bytes()
    rng, size = np.random.default_rng(0), len(intact)
    for place in rng.choice(size, 40, replace=False):
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 4]) + intact[place + 1 :])
        kept = load(one, tmp_path)
        # Unnoticed only where the bit says nothing.
        assert kept is None or (kept.plain == run.plain and same(kept, run))
    for torn in (b"", intact[:100], b"PK\x03\x04 not a zip file"):
        path.write_bytes(torn)
        assert missing([one], tmp_path) == [one]
    np.savez(path, other=np.zeros(3))
    assert missing([one], tmp_path) == [one]
    path.write_bytes(intact[:200] + bytes([intact[200] ^ 1]) + intact[201:])
    (again,) = play_jobs([one], tmp_path, processes=1)
    assert same(again, run)
    assert load(one, tmp_path) is not None
    assert [p.name for p in path.parent.iterdir()] == ["0.npz"]


def test_numbers_that_were_changed_by_hand_are_noticed(tmp_path):
    """A whole file with a digest that does not fit."""
    one = job()
    save(one, perform(one), tmp_path)
    with np.load(path_of(one, tmp_path)) as file:
        arrays = dict(file)
    np.savez(path_of(one, tmp_path), **arrays)
    assert load(one, tmp_path) is not None
    arrays["losses"][0] += 1
    np.savez(path_of(one, tmp_path), **arrays)
    assert load(one, tmp_path) is None
    with pytest.raises(ValueError, match=r"must be intact, got .*0\.npz, whose digest"):
        Trace.load(path_of(one, tmp_path))


def test_what_the_limit_stopped_is_played_again_under_a_larger_one(tmp_path):
    one = job(limit=5.0)
    run = perform(one)
    run.plain["ended"] = "stopped"
    save(one, run, tmp_path)
    assert not missing([one, replace(one, limit=4.0)], tmp_path)
    assert missing([replace(one, limit=6.0)], tmp_path)
    run.plain["ended"] = "done"
    save(one, run, tmp_path)
    assert not missing([replace(one, limit=6.0)], tmp_path)
    assert missing([replace(one, seed=9)], tmp_path)


def test_failures_are_told_and_tried_again(tmp_path):
    jobs, seen = [job(0, arguments={"trouble": "error"}), job(1)], []
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            runs = play_jobs(jobs, tmp_path, processes=1, executor=pool, progress=seen.append)
        assert [run.plain["ended"] for run in runs] == ["failed", "done"]
        why = "failed before the first round: RuntimeError: no luck"
        assert runs[0].plain["message"] == why
        assert Trace.load(path_of(jobs[0], tmp_path)).message == why  # the file says so meanwhile
    why = "before the first round: RuntimeError: no luck"
    assert [p.error for p in seen] == ["", why, "", "", why]
    assert [p.done for p in seen] == [0, 1, 2, 1, 2]


@pytest.mark.process
def test_an_executor_that_breaks(tmp_path):
    class Broken:
        def submit(self, function, *arguments):
            future = Future()
            if arguments[0].number == 1:
                future.set_exception(BrokenProcessPool())
            else:
                future.set_result(function(*arguments))
            return future

    seen = []
    jobs = [job(k) for k in range(3)]
    runs = play_jobs(jobs, tmp_path, processes=1, executor=Broken(), progress=seen.append)
    assert [run.plain["ended"] for run in runs] == ["done"] * 3
    assert [p.done for p in seen] == [0, 1, 2, 3]


# The lock.


def test_a_folder_has_one_lock(tmp_path):
    with locked(tmp_path):
        message = f"is in use by process {os.getpid()}; wait until that ends"
        with pytest.raises(FolderInUse, match=message):
            locked(tmp_path).__enter__()
    with locked(tmp_path):
        pass


def test_what_is_half_written_is_cleared_by_the_next_to_have_the_folder(tmp_path):
    """In the places that files are written to; files of others stay, whatever their names."""
    names = (".koloss-1.part", "figures/.koloss-2.part", "runs/a/b/.koloss-3.part")
    others = ("film.part", "figures/film.part", "mine/.koloss-4.part")
    for name in names + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"half")
    with locked(tmp_path):
        pass
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.part")}
    assert left == set(others)
