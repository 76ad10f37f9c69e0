"""A store in memory, against which the study itself is tested: the contract and nothing else, with faults to order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from koloss.errors import StoreError, StudyExists, StudyNotFound
from koloss.studies.store import KEPT_SNAPSHOTS, Event, Snapshot, Store, Transaction


@dataclass
class Content:
    """All that is kept of one study."""

    events: list[Event]
    snapshots: list[Snapshot] = field(default_factory=list)
    subjects: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Content:
        return Content(list(self.events), list(self.snapshots), dict(self.subjects))


class MemoryTransaction(Transaction):
    """A draft that takes the place of what is kept when it is committed."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.last = len(content.events)

    def events(self, after: int, limit: int = 1000) -> list[Event]:
        return self.content.events[after : after + limit]

    def by_request(self, request: str) -> list[Event]:
        return [event for event in self.content.events if event.request == request]

    def append(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.seq != self.last + 1:
                raise StoreError(f"event {event.seq} after {self.last}")
            assert event.text  # which is JSON
            self.content.events.append(event)
            self.last += 1

    def save_snapshot(self, snapshot: Snapshot) -> None:
        kept = [snapshot, *self.content.snapshots]
        self.content.snapshots = kept[:KEPT_SNAPSHOTS]

    def decision_of(self, subject: str) -> int | None:
        return self.content.subjects.get(subject)

    def bind(self, subject: str, decision: int) -> None:
        self.content.subjects[subject] = decision

    def unbind(self, decisions: Sequence[int]) -> None:
        gone = set(decisions)
        kept = {s: d for s, d in self.content.subjects.items() if d not in gone}
        self.content.subjects = kept

    def forget_subject(self, subject: str) -> int:
        return 0 if self.content.subjects.pop(subject, None) is None else 1


class MemoryStore(Store):
    """Studies in a dict. `before_commit` and `after_commit` may raise."""

    url = "memory://"

    def __init__(self) -> None:
        self.studies: dict[str, Content] = {}
        self.commits = 0
        self.lock = threading.RLock()
        self.before_commit: Any = lambda: None
        self.after_commit: Any = lambda: None

    def create(self, name: str, events: Sequence[Event]) -> None:
        if name in self.studies:
            raise StudyExists(f"there is a study {name!r}")
        self.studies[name] = Content(list(events))

    def names(self) -> list[str]:
        return sorted(self.studies)

    def _content(self, name: str) -> Content:
        if name not in self.studies:
            raise StudyNotFound(f"there is no study {name!r}")
        return self.studies[name]

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        with self.lock:
            draft = self._content(name).copy()
            yield MemoryTransaction(draft)
            self.before_commit()
            if draft != self.studies[name]:
                self.commits += 1
            self.studies[name] = draft
            self.after_commit()

    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        return self._content(name).events[after : after + limit]

    def snapshots(self, name: str) -> list[Snapshot]:
        return list(self._content(name).snapshots)

    def facts(self) -> dict[str, Any]:
        return {"database": "memory", "warnings": []}

    def backup(self, path: str | Path) -> None:
        raise StoreError("a store in memory has no file")

    def close(self) -> None:
        pass

    def damage(self, name: str, place: int, /, **changes: Any) -> None:
        """Alter an event behind everybody's back."""
        events = self._content(name).events
        events[place - 1] = replace(events[place - 1], **changes)
