"""The contract of a store: a log of events for each study, which many processes append to, one at a time.

    with store.transaction("prices") as log:          # nobody else is in one of this study
        for event in log.events(after=mine): ...      # what others have done since
        log.append([Event(log.last + 1, "asked", ...)])
                                                      # here it is committed: once this returns, nothing of it can be lost

A store knows nothing of learners. It keeps events, the last two snapshots of a study, and which decision a subject has; whoever
reads it elsewhere gets what was committed. `koloss.testing.StoreContract` holds every store to this.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from koloss.studies.events import Event

FORMAT = 1
"""Form of what stores hold; a store of a later one is refused."""

KEPT_SNAPSHOTS = 2


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a study after an event, as bytes; only there to open it fast."""

    seq: int
    content: bytes


class Transaction(abc.ABC):
    """What one process does to a study while no other can."""

    last: int  # number of the newest event, with those appended here

    @abc.abstractmethod
    def events(self, after: int, limit: int = 1000) -> list[Event]:
        """Events with numbers above `after`, in order, at most so many."""

    @abc.abstractmethod
    def by_request(self, request: str) -> list[Event]:
        """Events that were caused under a key, in order."""

    def about(self, decision: int) -> list[Event]:
        """Events about one decision, in order; a store with an index has a faster way."""
        found: list[Event] = []
        after = 0
        while page := self.events(after):
            found += [event for event in page if event.decision == decision]
            after = page[-1].seq
        return found

    @abc.abstractmethod
    def append(self, events: Sequence[Event]) -> None:
        """Add events, numbered on from `last`."""

    @abc.abstractmethod
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and of those before it the newest alone."""

    @abc.abstractmethod
    def decision_of(self, subject: str) -> int | None:
        """The decision that a subject has."""

    @abc.abstractmethod
    def bind(self, subject: str, decision: int) -> None:
        """Give a subject a decision, in the place of any that it had."""

    @abc.abstractmethod
    def unbind(self, decisions: Sequence[int]) -> None:
        """No subject has these decisions any more."""

    @abc.abstractmethod
    def forget_subject(self, subject: str) -> int:
        """Erase what is held of a subject; how many entries there were."""


class Store(abc.ABC):
    """Where studies live. Threads may share one; a fork opens its own connection."""

    url: str  # without its secrets
    may_lose_answers: ClassVar[bool] = False  # whether a commit can succeed and its answer be lost

    @abc.abstractmethod
    def create(self, name: str, events: Sequence[Event]) -> None:
        """Begin a study with its first events; `StudyExists` where there is one of this name."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """Names of the studies, sorted."""

    @abc.abstractmethod
    def transaction(self, name: str) -> AbstractContextManager[Transaction]:
        """Lock a study and begin; commit at the end, or undo everything where the body raises.

        Raises
        ------
        StudyNotFound
            Where there is no study of this name.
        CommitUnknown
            Where the connection was lost between COMMIT and its answer: it may have happened or not.
        StoreError
            Where the database fails in another way: then nothing has been committed.
        """

    @abc.abstractmethod
    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        """Committed events with numbers above `after`, at most so many, by a read that is over when this returns."""

    @abc.abstractmethod
    def snapshots(self, name: str) -> list[Snapshot]:
        """The snapshots that are kept, newest first."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """What an operator should know: the database's version, durability, sizes, and `warnings`, a list of sentences."""

    @abc.abstractmethod
    def backup(self, path: str | Path) -> None:
        """Write a copy of everything that is committed, while others go on."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give the connection back; the store opens another when it is used again."""
