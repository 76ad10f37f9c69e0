"""The contract of a store: a log of events for each study, which many processes append to, one at a time.

    with store.transaction("prices") as log:          # nobody else is in one of this study
        for event in log.stream(after=mine): ...      # what others have done since
        log.append([Event(log.last + 1, "asked", ...)])
                                                      # here it is committed: once this returns, nothing of it can be lost

A store knows nothing of learners. It keeps events, the last two snapshots of a study, and which decision a subject has; whoever
reads it elsewhere gets what was committed. `koloss.testing.StoreContract` holds every store to this.
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from koloss.core.arrays import one_of
from koloss.errors import StudyNotFound

FORMAT = 1
"""Form of what stores hold; a store of a later one is refused."""

KEPT_SNAPSHOTS = 2

PAGE = 1000
"""Events that are read at a time."""

KINDS = (
    "created", "asked", "repeated", "told", "expired", "released", "paused", "resumed", "handed over", "re-armed", "changed"
)  # fmt: skip
"""Kinds of events."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a study. As data (`to_dict`) it is a plain dict."""

    seq: int  # its place in the log, from 1 and without gaps
    kind: str  # one of KINDS
    micros: int  # when, in microseconds since 1970; never before the event that precedes it
    decision: int | None = None  # which decision it is about
    request: str | None = None  # the key that whoever caused it gave
    data: dict[str, Any] = field(default_factory=dict)  # what is particular to its kind

    @property
    def at(self) -> datetime:
        """When it happened, in UTC."""
        return EPOCH + timedelta(microseconds=self.micros)

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, fit for JSON."""
        about = {"seq": self.seq, "kind": self.kind, "decision": self.decision}
        return {**about, "at": self.at.isoformat(), "request": self.request, **self.data}

    @property
    def text(self) -> str:
        """What is particular to it, as JSON; numbers are written so that they are read back exactly."""
        return json.dumps(self.data, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a study after an event, as bytes; only there to open it fast."""

    seq: int
    content: bytes


class Transaction(abc.ABC):
    """What one process does to a study while no other can."""

    last: int  # number of the newest event, with those appended here

    @abc.abstractmethod
    def events(self, after: int, limit: int = PAGE) -> list[Event]:
        """Events with numbers above `after`, in order, at most so many."""

    @abc.abstractmethod
    def by_request(self, request: str) -> list[Event]:
        """Events that were caused under a key, in order."""

    def stream(self, after: int = 0) -> Iterator[Event]:
        """All events with numbers above `after`, in order, read in pages."""
        return _paged(self.events, after)

    def about(self, decision: int) -> list[Event]:
        """Events about one decision, in order; a store with an index has a faster way."""
        return [event for event in self.stream() if event.decision == decision]

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
    def events(self, name: str, after: int = 0, limit: int = PAGE) -> list[Event]:
        """Committed events with numbers above `after`, at most so many, by a read that is over when this returns."""

    def stream(self, name: str, after: int = 0) -> Iterator[Event]:
        """All committed events with numbers above `after`, in order, read in pages."""
        return _paged(partial(self.events, name), after)

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


def _paged(read: Callable[[int, int], list[Event]], after: int) -> Iterator[Event]:
    page = read(after, PAGE)
    yield from page
    while len(page) == PAGE:
        page = read(page[-1].seq, PAGE)
        yield from page


# Names of studies.

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_name(name: str) -> str:
    """A name that a study may have: it fits into a path, an address and a line of a shell.

    Examples
    --------
    >>> check_name("prices-2026.eu")
    'prices-2026.eu'
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string, got {type(name).__name__}")
    if not _NAME.fullmatch(name) or name in (".", ".."):
        shown = name if len(name) <= 120 else f"{name[:120]}..."
        raise ValueError(
            "`name` must have 1 to 100 characters, each a letter from a to z, a digit or one of "
            f"'._-', and not be '.' or '..', got {shown!r}"
        )
    return name


def check_findable(name: str) -> str:
    """A name that is looked for: where no study may have it, there is none, and no store has to be asked."""
    try:
        return check_name(name)
    except ValueError:
        raise StudyNotFound(
            f"there is no study {name[:120]!r}, and none can be called so"
        ) from None


# Stores by their address.

Durability = Literal["power", "process"]
"""What an acknowledged event survives: a power cut, or killed processes only."""

DURABILITIES = ("power", "process")

_STORES = {
    "sqlite": ("koloss.studies.sqlite", "SQLiteStore"),
    "postgresql": ("koloss.studies.postgres", "PostgresStore"),
    "postgres": ("koloss.studies.postgres", "PostgresStore"),
}


def open_store(url: str | Store, *, durability: Durability = "power") -> Store:
    """The store at an address.

    Parameters
    ----------
    url : str or Store
        ``sqlite:///path/to/file.db`` (a relative path; an absolute one has a fourth slash) or
        ``postgresql://user:secret@host/database``. A store is returned as it is.
    durability : {"power", "process"}
        What an acknowledged event survives: a power cut, or only the death of processes. The latter saves a wait for the disk in
        each transaction; a power cut may then undo the newest ones, and nothing else.

    Returns
    -------
    Store
        Its address (`url`) has no secret in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"sqlite:///{folder}/studies.db")
    ...     store.names()
    []
    """
    one_of("durability", durability, DURABILITIES)
    if isinstance(url, Store):
        return url
    if not isinstance(url, str):
        raise TypeError(f"`url` must be a string or a store, got {type(url).__name__}")
    scheme, colon, _ = url.partition("://")
    if not colon or scheme not in _STORES:
        shown = "one with a secret" if "@" in url or "pass" in url.lower() else repr(url)
        raise ValueError(
            f"`url` must begin with sqlite:///, followed by a path, or with postgresql://, got {shown}"
        )
    module, name = _STORES[scheme]
    store: Store = getattr(import_module(module), name).from_url(url, durability=durability)
    return store
