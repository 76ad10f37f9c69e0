"""Snapshots that were forged and sealed again, files with wrong bytes: refused, or learners that play."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, note

import koloss as kl
from koloss.errors import SnapshotError
from tests.support.cases import LEARNERS, play
from tests.support.fuzz import fuzzed
from tests.support.strategies_requests import CASES, QUICK, started
from tests.support.strategies_snapshots import VALUES, changes, forged, plays, wrong_bytes

pytestmark = pytest.mark.filterwarnings("ignore::koloss.errors.KolossWarning")


@cache
def played(name):
    """A state after some rounds, with decisions that wait."""
    learner = LEARNERS[name].make(rng=np.random.default_rng(0))
    play(LEARNERS[name], learner, 12)
    return learner.state()


@cache
def written(name, folder):
    path = folder / f"{name}.npz"
    kl.save_state(path, played(name), overwrite=True)
    return path.read_bytes()


@pytest.mark.parametrize("name", LEARNERS)
@fuzzed(few=8, cases=1_500)
@given(data=st.data())
def test_a_forged_state_is_refused_or_plays(name, data):
    made = data.draw(changes(played(name)))
    with suppress(SnapshotError):
        learner = LEARNERS[name].kind.from_state(forged(played(name), made))
        plays(LEARNERS[name], learner)


@pytest.mark.parametrize("name", QUICK)
@fuzzed(few=4, cases=1_100)
@given(data=st.data())
def test_a_forged_state_with_requests_is_refused_or_plays(name, data):
    made = data.draw(changes(started(name)[2]))
    with suppress(SnapshotError):
        learner = CASES[name].kind.from_state(forged(started(name)[2], made))
        plays(CASES[name], learner)


@fuzzed(few=50, cases=4_000)
@given(
    st.sampled_from(list(LEARNERS)),
    st.integers(0, len(VALUES) - 1),
    st.sampled_from(list(LEARNERS)),
)
def test_anything_else_is_refused(name, k, other):
    """Values of all kinds, and states of other learners."""
    kind, values = LEARNERS[name].kind, [VALUES[k]]
    if LEARNERS[other].kind is not kind:
        values.append(played(other))
    for value in values:
        with pytest.raises(SnapshotError):
            kind.from_state(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@fuzzed(few=50, cases=9_000)
@given(name=st.sampled_from(list(LEARNERS)), data=st.data())
def test_a_damaged_file_is_refused_or_the_same_learner(folder, name, data):
    content = written(name, folder)
    path = folder / "damaged.npz"
    path.write_bytes(data.draw(wrong_bytes(content).map(Bytes)).content)
    note(f"of {len(content)} bytes")
    with suppress(SnapshotError):
        learner = LEARNERS[name].kind.from_state(kl.load_state(path))
        assert learner.state()["digest"] == played(name)["digest"]


class Bytes:
    """Bytes whose text is short."""

    def __init__(self, content):
        self.content = content

    def __repr__(self):
        return f"{len(self.content)} bytes"
