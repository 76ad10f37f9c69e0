"""A log proves itself; one that was altered does not."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import koloss as kl
from koloss.errors import StudyNotFound
from koloss.studies import worker
from koloss.studies.store import Snapshot
from tests.support import inside
from tests.support.memory import Content, MemoryStore
from tests.support.studies import created, insured, loss_of, with_a_bit_flipped

pytestmark = pytest.mark.slow

verifying = importlib.import_module("koloss.studies.verify")  # of which the function hides the name


@pytest.fixture
def history(whole: Content) -> MemoryStore:
    """A study with all that can happen."""
    store = MemoryStore()
    store.studies["prices"] = whole.copy()
    return store


@pytest.fixture(scope="module")
def whole() -> Iterator[Content]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "SNAPSHOT_EVENTS", 12)
        patch.setattr(worker, "SNAPSHOT_BYTES", 1e9)
        yield make_history().studies["prices"]


def make_history() -> MemoryStore:
    study, store, clock = created(insured(), lease=20.0, default=0.5)
    for k in range(12):
        clock.now += 3
        made = study.ask(3 if k % 4 == 3 else None, subject=f"visit {k}" if k % 4 == 0 else None)
        if k % 3:
            losses = [loss_of(one.action) for one in (made if k % 4 == 3 else [made])]
            study.tell(made, losses, request=f"key {k}")
    study.hand_over()
    study.change("withdraw", [0], author="ana", reason="sold out")
    study.tell(study.ask(allowed=[1, 2, 4]), 0.25)
    study.re_arm()
    study.pause()
    study.resume()
    clock.now += 100
    study.ask()
    study.tell(0, 0.75)  # after its default
    return store


def place(store: MemoryStore, kind: str, nth: int = 0) -> int:
    events = [event for event in store.events("prices") if event.kind == kind]
    return events[nth].seq


def flipped(text: str) -> str:
    """The state of a learner, damaged in what it says."""
    damaged = with_a_bit_flipped(Snapshot(1, base64.b64decode(text)))
    return base64.b64encode(damaged.content).decode()


def altered(store: MemoryStore, seq: int, **data: Any) -> None:
    event = store.events("prices", seq - 1, 1)[0]
    store.damage("prices", seq, data={**event.data, **data})


def test_a_history_proves_itself(history: MemoryStore) -> None:
    report = kl.studies.verify(history, "prices")
    assert report.ok, report
    assert report.events == len(history.events("prices"))
    assert report.decisions == sum(e.kind == "asked" for e in history.events("prices"))
    assert len(report.snapshots) == 2
    assert report.differences == []
    assert json.loads(json.dumps(report.to_dict()))["ok"] is True
    assert "as recorded" in str(report)
    with pytest.raises(StudyNotFound):
        kl.studies.verify(history, "prises")


ALTERED = {
    "a value": lambda s: altered(s, place(s, "told"), value=0.9),
    "a value out of bounds": lambda s: altered(s, place(s, "told"), value=9.0),
    "a probability": lambda s: altered(s, place(s, "asked", 2), p=0.5),
    "a probability that cannot be": lambda s: altered(s, place(s, "asked", 2), p=0.0),
    "an action": lambda s: altered(
        s, place(s, "asked"), index=(s.events("prices", 1, 1)[0].data["index"] + 1) % 6
    ),
    "an action that is none": lambda s: altered(s, place(s, "asked"), index=6),
    "an epoch": lambda s: altered(s, place(s, "asked", 3), epoch=77),
    "a mask": lambda s: altered(s, place(s, "asked", -2), allowed=[1, 2, 3]),
    "a decision": lambda s: s.damage("prices", place(s, "asked", 1), decision=8),
    "whose value it is": lambda s: s.damage("prices", place(s, "told"), decision=999),
    "a kind": lambda s: s.damage("prices", place(s, "paused"), kind="stopped"),
    "a button": lambda s: s.damage("prices", place(s, "handed over"), kind="paused"),
    "a change": lambda s: altered(s, place(s, "changed"), value=[3]),
    "a default": lambda s: altered(s, place(s, "expired"), value=0.1),
    "a lease": lambda s: s.damage("prices", place(s, "expired"), decision=11),
    "a time": lambda s: s.damage("prices", place(s, "told", 2), micros=0),
    "when it was asked": lambda s: s.damage(
        "prices", place(s, "asked"), micros=s.events("prices")[0].micros
    ),
    "a number": lambda s: s.damage("prices", place(s, "told", 2), seq=3),
    "what was not used": lambda s: altered(s, place(s, "told"), used=False),
    "what was used": lambda s: altered(s, place(s, "told", -1), used=True),
    "a batch": lambda s: altered(s, place(s, "asked", 3), batch=2),
    "a missing event": lambda s: s.studies["prices"].events.pop(place(s, "told", 2) - 1),
    "the learner": lambda s: altered(s, 1, state=flipped(s.events("prices")[0].data["state"])),
    "the default that was said": lambda s: altered(
        s, 1, settings={**s.events("prices")[0].data["settings"], "lease": 1_000_000}
    ),
}


def test_a_log_that_lacks_its_end_is_seen_by_a_snapshot(history: MemoryStore) -> None:
    content = history.studies["prices"]
    newest = content.snapshots[0].seq
    del content.events[newest - 1 :]
    report = kl.studies.verify(history, "prices")
    assert report.problems == [f"snapshot {newest}: there is no such event"]


def test_snapshots_are_compared_with_the_replay(history: MemoryStore) -> None:
    content = history.studies["prices"]
    newest, older = content.snapshots
    content.snapshots[1] = with_a_bit_flipped(older)
    report = kl.studies.verify(history, "prices")
    assert [str(newest.seq), str(older.seq)] == [
        str(report.snapshots[0]),
        report.problems[0].split()[3].rstrip(":"),
    ]
    # One that is intact, and of another history.
    study, store, _ = created(insured(), lease=20.0, default=0.5)
    study.tell(study.ask(10), [0.5] * 10)
    state = inside.state_of(inside.worker(study))
    assert state is not None
    state.seq = older.seq
    content.snapshots[1] = Snapshot(older.seq, state.to_bytes())
    report = kl.studies.verify(history, "prices")
    assert report.problems == [f"snapshot after event {older.seq}: it is not what the replay says"]
    assert store is not history


@pytest.fixture(params=["here", "elsewhere"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where histories are verified: on the platform that wrote them, or on another one with the same version of Koloss."""
    if request.param == "elsewhere":
        monkeypatch.setattr(verifying, "PLATFORM", f"koloss {kl.__version__}, elsewhere")
    return str(request.param)


def rounded(store: MemoryStore, size: float) -> None:
    """Move all probabilities of a log."""
    events = store.studies["prices"].events
    for k, event in enumerate(events):
        if event.kind == "asked":
            p = event.data["p"] * (1 + (-1) ** k * size)
            events[k] = replace(event, data={**event.data, "p": p})


def test_what_differs_by_rounding_is_no_problem(history: MemoryStore, platform: str) -> None:
    before = history.studies["prices"].copy()
    rounded(history, 1e-9)
    report = kl.studies.verify(history, "prices")
    assert report.ok, report
    assert report.counted["differences"] == report.decisions
    assert "what was recorded counts" in str(report)
    history.studies["prices"] = before
    rounded(history, 1e-5)  # and what differs by more is one
    assert kl.studies.verify(history, "prices").counted["problems"] == report.decisions


DRAWN = ["a value", "a probability", "an action", "an epoch", "a default"]
PLACES = [*((what, "here") for what in ALTERED), *((what, "elsewhere") for what in DRAWN)]


@pytest.mark.parametrize("what, platform", PLACES, indirect=["platform"])
@pytest.mark.usefixtures("platform")
def test_a_history_that_was_altered_does_not(history: MemoryStore, what: str) -> None:
    ALTERED[what](history)
    report = kl.studies.verify(history, "prices")
    assert not report.ok
    assert report.problems
    assert "problems" in str(report)


class Threshold:
    """A policy that decides for good after ten losses: by whether they are more than a limit."""

    def __init__(self, limit: float) -> None:
        self.limit, self.total, self.count, self.row = limit, 0.0, 0, 1

    def propose(self) -> int:
        return self.row

    def hear(self, row: int, loss: float) -> None:
        self.total, self.count = self.total + loss, self.count + 1
        if self.count == 10 and self.total > self.limit:
            self.row = 4


LOSSES = [0.2 + 0.07 * (3 * k % 7) for k in range(40)]
LIMIT = sum(LOSSES[:10])
"""What `Threshold` is told in ten rounds."""


def decided(limit: float) -> MemoryStore:
    study, store, _ = created(insured(policy=Threshold(limit)))
    for loss in LOSSES:
        study.tell(study.ask(), loss)
    return store


@pytest.mark.parametrize("early", [True, False])
def test_a_threshold_that_rounding_decides_is_followed(early: bool, platform: str) -> None:
    """The writer's sum is above the limit where the replay's is not, or the other way round: everything after it is another game."""
    low, high = LIMIT * (1 - 1e-13), LIMIT * (1 + 1e-13)
    written, here = (low, high) if early else (high, low)
    store = decided(written)
    report = kl.studies.verify(store, "prices", policy=Threshold(here))
    assert report.ok, report
    others = [line for line in report.differences if ": index is" in line]
    assert 1 <= len(others) <= 2  # the replay has gone the same way since
    # Where rounding cannot have decided, it does not excuse.
    report = kl.studies.verify(store, "prices", policy=Threshold(LIMIT * (1.1 if early else 0.9)))
    assert not report.ok
    # Nor does it excuse what was altered before or later.
    for nth in (3, 30):
        asked = place(store, "asked", nth)
        altered(store, asked, p=0.5)
        assert not kl.studies.verify(store, "prices", policy=Threshold(here)).ok


def test_of_draws_that_nobody_can_repeat_elsewhere_none_is_a_problem(platform: str) -> None:
    """On a ball draws go by eigenvectors, whose signs are up to the BLAS: only here can they be proved."""
    learner = kl.BanditExpWeights(kl.Ball(2), kl.Linear(), horizon=1000, loss_range=(-1, 1), rng=0)
    study, store, _ = created(learner)
    for k in range(20):
        study.tell(study.ask(), 0.1 * (k % 7))
    asked = place(store, "asked", 8)
    altered(store, asked, action=[0.1, 0.2])
    report = kl.studies.verify(store, "prices")
    assert report.ok == (platform == "elsewhere")
    assert f"event {asked}: action is [0.1, 0.2]" in (report.problems + report.differences)[0]
    altered(store, asked, action=[0.9, 0.9])  # which is not in the ball
    report = kl.studies.verify(store, "prices")
    assert f"event {asked}: the action [0.9, 0.9] is none of Ball" in report.problems[0]
    altered(store, asked, action=[0.1, 0.2])
    store.damage("prices", place(store, "asked", 15), decision=99)
    assert not kl.studies.verify(store, "prices").ok


def test_another_version_may_play_otherwise(
    history: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "PLATFORM", "koloss 99.0, elsewhere")
    ALTERED["an action"](history)
    report = kl.studies.verify(history, "prices")
    assert report.ok
    assert report.counted["differences"] > 0
    ALTERED["a lease"](history)  # which no version would have let end
    assert not kl.studies.verify(history, "prices").ok


def test_writers_on_several_platforms_leave_their_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    study, store, _ = created()
    study.ask()
    another = f"koloss {kl.__version__}, another"
    monkeypatch.setattr("koloss.studies.operations.PLATFORM", another)
    study.ask()
    study.ask()
    marked = [event.seq for event in store.events("prices", 1) if "platform" in event.data]
    assert marked == [3]
    report = kl.studies.verify(store, "prices")
    assert report.ok
    assert report.platforms[1:] == [another]
    altered(store, 4, p=0.123)
    assert not kl.studies.verify(store, "prices").ok


def test_a_batch_that_ends_early_is_a_problem() -> None:
    study, store, _ = created()
    study.ask(3)
    store.studies["prices"].events.pop()
    assert kl.studies.verify(store, "prices").problems == [
        "event 2: the rest of its batch is missing"
    ]


def test_problems_are_listed_up_to_a_number_and_all_counted() -> None:
    study, store, _ = created()
    study.ask(150)
    events = store.studies["prices"].events
    events[1:] = [replace(event, data={**event.data, "p": 0.01}) for event in events[1:]]
    report = kl.studies.verify(store, "prices")
    assert report.counted["problems"] == 150
    assert len(report.problems) == 100
