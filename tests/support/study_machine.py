"""Several study objects on one file, in any order of calls, faults and restarts: the history is that of one learner alone.

Each object has a store of its own, as it would in a process of its own. The model beside it is a learner that is asked and told in the
same order, with a few dicts; it knows nothing of events, snapshots or transactions.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

import koloss as kl
from koloss.errors import (
    AlreadyTold,
    CommitUnknown,
    KolossError,
    RequestConflict,
    StoreError,
    StudyPaused,
    UnknownDecision,
)
from koloss.learners import Decisions
from koloss.studies import worker
from koloss.studies.sqlite import SQLiteStore
from tests.support.server import roomy_memory
from tests.support.studies import Clock

STUDIES = 3
KEYS = st.sampled_from([None, None, None, *"abcdef"])
WHO = st.integers(0, STUDIES - 1)
COUNTS = st.sampled_from([None, None, 1, 3])
SUBJECTS = st.sampled_from([None, None, None, "u1", "u2"])
WAITS = st.sampled_from([0.0, 0.0, 1.0, 4.0, 9.0])
SETTINGS: list[dict[str, Any]] = [
    {},
    {"lease": 10.0},
    {"lease": 10.0, "default": 0.5},
    {"lease": 10.0, "release": "window"},
    {"lease": 10.0, "default": 0.5, "release": "window"},
]


class Crash(BaseException):
    """The end of a process."""


# That nothing is committed is what a store says before the commit alone.
FAULTS = [(place, error) for place in ("before", "after") for error in (Crash, CommitUnknown)]
FAULTS += [("before", StoreError)]


class Store(SQLiteStore):
    """A store that can be told to fail before its next commit, or after it."""

    fault: tuple[str, BaseException] | None = None

    @contextmanager
    def transaction(self, name: str) -> Any:
        fault, self.fault = self.fault, None
        with super().transaction(name) as log:
            yield log
            if fault and fault[0] == "before":
                raise fault[1]
        if fault and fault[0] == "after":
            raise fault[1]


@functools.cache
def made(make: Any) -> Any:
    """A learner, of which every game has a copy."""
    return make(rng=5)


def listed(one: Any) -> list[Any]:
    """Decisions, one or several, in all that was handed out; or what is there in their place."""
    if not isinstance(one, (kl.Decision, Decisions)):
        return [one]
    columns = (one.id, one.index, one.probability, one.epoch, one.action)
    return [np.ravel(column).tolist() for column in columns]


class Model:
    """What a study should do, said with one learner and a few dicts."""

    def __init__(self, learner: Any, said: dict[str, Any]) -> None:
        self.learner, self.paused = learner, False
        self.lease, self.default = said.get("lease"), said.get("default")
        self.window = "release" in said
        self.time = 0.0
        self.made: list[Any] = []
        self.ends: dict[int, float] = {}  # of leases that have not run out
        self.held: dict[int, float] = {}
        self.told: set[int] = set()
        self.unused = 0  # values that came after a default
        self.closed: set[int] = set()  # heard by the learner, or never to be
        self.answers: dict[str, tuple[Any, Any]] = {}
        self.subjects: dict[str, int] = {}

    def hear(self, values: dict[int, float]) -> None:
        if values:
            told = list(values.values())
            self.learner.tell(list(values), told[0] if len(told) == 1 else np.array(told))
            self.closed |= values.keys()

    def tick(self, now: float) -> None:
        """Time passes for the study when something is done to it, and never backwards."""
        self.time = max(self.time, now)
        due = sorted((end, i) for i, end in self.ends.items() if end <= self.time)
        silent = [i for _, i in due if i not in self.held]
        for _, i in due:
            del self.ends[i]
        if self.default is not None:
            if self.window:
                self.held |= dict.fromkeys(silent, self.default)
            else:
                self.hear(dict.fromkeys(silent, self.default))
        self.hear({i: self.held.pop(i) for _, i in due if i in self.held})

    def once(self, key: str | None, what: Any, act: Any) -> Any:
        """What a key was answered before, or what is done now."""
        if key in self.answers:
            before, answer = self.answers[key]
            if before != what:
                raise RequestConflict
            return answer
        answer = act()
        if key is not None:
            self.answers[key] = what, answer
        return answer

    def ask(self, key: str | None, count: int | None, subject: str | None) -> Any:
        def act() -> Any:
            if self.paused:
                raise StudyPaused
            mine = self.subjects.get(subject or "")
            if mine is not None and mine not in self.told and not self.is_over(mine):
                return self.made[mine]
            made = self.learner.ask(count)
            several = list(made) if count is not None else [made]
            self.made += several
            if self.lease is not None:
                self.ends |= {one.id: self.time + self.lease for one in several}
            if subject is not None:
                self.subjects[subject] = made.id
            return made

        return self.once(key, ("ask", count or 1, subject is not None), act)

    def is_over(self, decision: int) -> bool:
        return self.lease is not None and decision not in self.ends

    def tell(self, key: str | None, values: dict[int, float]) -> None:
        def act() -> None:
            for i in values:
                if i >= len(self.made):
                    raise UnknownDecision
                if i in self.told:
                    raise AlreadyTold
            self.told |= values.keys()
            early = {i: v for i, v in values.items() if self.window and i in self.ends}
            self.held |= early
            self.unused += len(self.closed & values.keys())
            late = {i: v for i, v in values.items() if i not in early and i not in self.closed}
            if not self.window:
                for i in values:
                    self.ends.pop(i, None)
            self.hear(late)

        return self.once(key, ("tell", values), act)

    def tells(self) -> list[tuple[str, dict[int, float]]]:
        """What was told under keys."""
        return [(key, what[1]) for key, (what, _) in self.answers.items() if what[0] == "tell"]

    def press(self, key: str | None, paused: bool) -> None:
        def act() -> None:
            self.paused = paused

        self.once(key, ("press", paused), act)


class Machine(RuleBasedStateMachine):
    """Studies against the model."""

    said: ClassVar[dict[str, Any]]  # of the study
    learner: ClassVar[Any]
    folder: ClassVar[Path]

    @initialize()
    def begin(self) -> None:
        self.path = f"{tempfile.mkdtemp(dir=self.folder)}/shop.db"
        self.clock = Clock(0.0)
        learner = type(self.learner).from_state(self.learner.state())
        self.model = Model(type(learner).from_state(learner.state()), self.said)
        first = self.store()
        kl.Study.create(first, "prices", learner=learner, clock=self.clock, **self.said)
        self.studies = [self.opened() for _ in range(STUDIES)]
        # A study gives its learner a mark of its own; all else is to be the same.
        self.model.learner.ledger.mark = self.studies[0].learner.ledger.mark

    def store(self) -> Store:
        return Store(self.path, durability="process")

    def opened(self) -> kl.Study:
        return kl.Study.open(self.store(), "prices", clock=self.clock)

    def compare(self, act: Any, expected: Any, wait: float = 0.0) -> None:
        """The study and the model answer the same, or refuse for the same reason."""
        self.clock.now += wait
        self.model.tick(self.clock.now)
        try:
            wanted = expected()
        except KolossError as error:
            wanted = type(error)
        try:
            found = act()
        except KolossError as error:
            found = type(error)
        assert listed(found) == listed(wanted)

    # Calls.

    @rule(who=WHO, key=KEYS, count=COUNTS, subject=SUBJECTS, wait=WAITS)
    def ask(
        self, who: int, key: str | None, count: int | None, subject: str | None, wait: float
    ) -> None:
        if subject is not None:
            count = None
        self.compare(
            lambda: self.studies[who].ask(count, subject=subject, request=key),
            lambda: self.model.ask(key, count, subject),
            wait,
        )

    @precondition(lambda self: self.model.made)
    @rule(who=WHO, key=KEYS, data=st.data(), most=st.integers(1, 3), wait=WAITS)
    def tell(self, who: int, key: str | None, data: Any, most: int, wait: float) -> None:
        ids = st.integers(0, len(self.model.made))  # the first that is not made among them
        told = data.draw(st.dictionaries(ids, st.floats(0, 1), min_size=1, max_size=most))
        self.tell_to(who, key, told, wait)

    @precondition(lambda self: len(self.model.told) < len(self.model.made))
    @rule(who=WHO, wait=WAITS)
    def tell_the_rest(self, who: int, wait: float) -> None:
        left = [i for i in range(len(self.model.made)) if i not in self.model.told]
        self.tell_to(who, None, {i: (i % 10) / 10 for i in left}, wait)

    @precondition(lambda self: self.model.tells())
    @rule(who=WHO, data=st.data(), wait=WAITS)
    def tell_again(self, who: int, data: Any, wait: float) -> None:
        key, told = data.draw(st.sampled_from(self.model.tells()))
        self.tell_to(who, key, told, wait)

    def tell_to(self, who: int, key: str | None, told: dict[int, float], wait: float) -> None:
        ids, values = list(told), list(told.values())
        said = (ids, values) if len(ids) > 1 else (ids[0], values[0])
        self.compare(
            lambda: self.studies[who].tell(*said, request=key),
            lambda: self.model.tell(key, told),
            wait,
        )

    @rule(who=WHO, paused=st.booleans(), key=KEYS)
    def press(self, who: int, paused: bool, key: str | None) -> None:
        study = self.studies[who]
        button = study.pause if paused else study.resume
        self.compare(lambda: button(request=key), lambda: self.model.press(key, paused))

    @precondition(lambda self: self.model.paused)
    @rule(who=WHO)
    def resume(self, who: int) -> None:
        self.press(who, False, None)

    # The world.

    @rule(seconds=st.sampled_from([-100.0, -5.0, 30.0]))
    def set_clock(self, seconds: float) -> None:
        self.clock.now = max(self.clock.now + seconds, 0.0)

    @rule(who=WHO)
    def crash(self, who: int) -> None:
        self.studies[who] = self.opened()

    @rule(who=WHO, key=KEYS, fault=st.sampled_from(FAULTS))
    def ask_and_fail(self, who: int, key: str | None, fault: tuple[str, Any]) -> None:
        """The store fails, or the process ends, before the commit or after it."""
        place, error = fault
        study, answered = self.studies[who], error is CommitUnknown and key is not None
        study.store.fault = place, error("simulated")  # type: ignore[attr-defined]
        if answered:  # with a key the study sees what became of it
            self.compare(lambda: study.ask(request=key), lambda: self.model.ask(key, None, None))
            return
        with pytest.raises(error):
            study.ask(request=key)
        if place == "after":
            self.model.tick(self.clock.now)
            with suppress(KolossError):  # which nobody hears of
                self.model.ask(key, None, None)
        if error is Crash:
            self.studies[who] = self.opened()

    @rule(who=WHO)
    def look(self, who: int) -> None:
        """What one of them knows without doing anything is what all of them have done."""
        mine, theirs = self.model.learner, self.studies[who].learner
        assert theirs.state()["digest"] == mine.state()["digest"]

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        self.compare(
            lambda: self.studies[0].tell(10**6, 0.5), lambda: self.model.tell(None, {10**6: 0.5})
        )
        mine = self.model.learner.state()["digest"]
        for study in [*self.studies, self.opened()]:
            assert study.learner.state()["digest"] == mine
            study.store.close()
        assert self.studies[0].status().unused == self.model.unused
        events = self.studies[0].store.events("prices", limit=10**6)
        asked = [event for event in events if event.kind == "asked"]
        assert [event.decision for event in asked] == [one.id for one in self.model.made]
        assert [event.data["p"] for event in asked] == [one.probability for one in self.model.made]
        report = kl.studies.verify(self.studies[0].store, "prices")
        assert report.ok, report
        self.studies[0].store.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots every five events, and no waiting."""
    monkeypatch.setattr(worker, "SNAPSHOT_EVENTS", 5)
    monkeypatch.setattr(worker, "SNAPSHOT_BYTES", 1e9)
    monkeypatch.setattr(worker, "PATIENCE", 0.0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: what a disk does is not the subject here."""
    with tempfile.TemporaryDirectory(dir=roomy_memory()) as name:
        yield Path(name)


def play(learner: Any, said: dict[str, Any], folder: Path, *, examples: int, seed: int) -> None:
    """So many games; the first that differs raises an error and is printed."""

    class Case(Machine):
        pass

    Case.learner, Case.said, Case.folder = learner, said, folder
    hypothesis.seed(seed)(Case)
    run_state_machine_as_test(
        Case,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],  # to shrink a failure takes minutes
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
