"""Snapshots: plain data, exact to the last bit, refused where they are damaged; files that are never half written."""

from __future__ import annotations

import copy
import json
import os
import pickle

import numpy as np
import pytest

import koloss as kl
from koloss.errors import SnapshotError
from koloss.learners.snapshots import FORMAT, seal, unseal
from tests.learners.cases import LEARNERS, number, play, same


@pytest.mark.slow
def test_resume_is_exact(case, tmp_path):
    halves = case.make(rng=7)
    play(case, halves, 40)
    kl.save_state(tmp_path / "state.npz", halves.state())
    again = type(halves).from_state(kl.load_state(tmp_path / "state.npz"))
    assert same(again.state(), halves.state())
    assert repr(again) == repr(halves)
    rest, expected = play(case, again, 50, start=40), play(case, halves, 50, start=40)
    assert rest == expected
    assert same(again.state(), halves.state())


@pytest.mark.slow
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_go_on_alone(case, twin):
    learner = case.make(rng=7)
    play(case, learner, 12)
    out, before = learner.ask(), learner.state()
    again = twin(learner)
    assert same(again.state(), learner.state())
    again.tell(out, case.loss(out.action, 0))
    played = play(case, again, 12, start=12)
    assert same(learner.state(), before)
    learner.tell(out, case.loss(out.action, 0))
    assert play(case, learner, 12, start=12) == played


def leaves(value):
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


@pytest.mark.slow
def test_snapshot_is_plain_data_and_a_copy(case):
    learner = case.make()
    play(case, learner, 12)
    state = learner.state()
    for leaf in leaves(state):
        assert leaf is None or isinstance(leaf, (str, int, float, bool, np.ndarray)), type(leaf)
        assert not isinstance(leaf, np.ndarray) or leaf.dtype.kind in "fiub"
    plain = json.dumps(state, default=np.ndarray.tolist)
    play(case, learner, 10, start=12)
    play(case, type(learner).from_state(state), 10, start=12)
    assert json.dumps(state, default=np.ndarray.tolist) == plain


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda s: {**s, "version": FORMAT + 1}, "newer koloss"),
        (lambda s: {**s, "version": 1}, "of format 2, got a snapshot of format 1"),
        (lambda s: {**s, "kind": "Something"}, "must be a snapshot of .*, got one of Something"),
        (lambda s: {k: v for k, v in s.items() if k != "digest"}, "damaged"),
        (lambda s: {**s, "ledger": {**s["ledger"], "made": 10**6}}, "damaged"),
        (lambda s: {**s, "ledger": {**s["ledger"], "mark": "x"}}, "damaged"),
        (lambda s: {**s, "learner": {**s["learner"], "more": 0}}, "damaged"),
        (lambda s: "text", "must be a snapshot of .*, got str"),
        (lambda s: {}, "must be a snapshot of .*, got dict"),
    ],
)
def test_bad_snapshots_are_refused(kind, damage, message):
    learner = next(case for case in LEARNERS.values() if case.kind is kind).make()
    with pytest.raises(SnapshotError, match=message):
        kind.from_state(damage(learner.state()))


def test_sealed_state_comes_back():
    state = {"numbers": np.arange(3), "rest": {"a": [1, None, 0.5]}}
    assert unseal("Thing", seal("Thing", state))["rest"] == state["rest"]
    other = seal("Thing", {**state, "numbers": np.arange(3.0)})  # other bytes, same numbers
    assert other["digest"] != seal("Thing", state)["digest"]


# Files.


def test_damaged_file_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    kl.save_state(path, LEARNERS["bandit"].make().state())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SnapshotError, match="`path` must be a snapshot"):
        kl.load_state(path)
    path.write_bytes(data[:-2000] + bytes(1000) + data[-1000:])
    with pytest.raises(SnapshotError):
        kl.BanditExpWeights.from_state(kl.load_state(path))
    with pytest.raises(FileNotFoundError):
        kl.load_state(tmp_path / "nothing.npz")


def test_saving_replaces_complete_files_only(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    learner = LEARNERS["bandit"].make()
    kl.save_state(path, learner.state())
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        kl.save_state(path, learner.state())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["state.npz"]


@pytest.mark.slow
def test_five_thousand_and_five_thousand_are_ten_thousand(tmp_path):
    def rounds(learner, count):
        played = []
        for _ in range(count):
            decision = learner.ask()
            learner.tell(decision, number(decision.action, decision.id))
            played.append(decision.index)
        return played

    through, half = (LEARNERS["bandit, anytime"].make(rng=1) for _ in range(2))
    first = rounds(half, 5000)
    kl.save_state(tmp_path / "half.npz", half.state())
    again = kl.BanditExpWeights.from_state(kl.load_state(tmp_path / "half.npz"))
    assert first + rounds(again, 5000) == rounds(through, 10_000)
