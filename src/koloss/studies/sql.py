"""What stores in databases share: four tables, and what one transaction does to them.

Statements are written once, with a question mark for each value.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, LiteralString

from koloss.errors import StoreError, StudyExists, StudyNotFound
from koloss.studies.store import (
    FORMAT,
    KEPT_SNAPSHOTS,
    Event,
    Snapshot,
    Store,
    Transaction,
    check_name,
)

COLUMNS: LiteralString = "seq, kind, micros, decision, request, data"
PAGE: LiteralString = (
    f"select {COLUMNS} from koloss_events where study = ? and seq > ? order by seq limit ?"
)
NAMES: LiteralString = "select name from koloss_studies"
FIND: LiteralString = "select id, last from koloss_studies where name = ?"
BEGIN_STUDY: LiteralString = (
    "insert into koloss_studies (name, last) values (?, 0) on conflict do nothing"
)
SNAPSHOTS: LiteralString = (
    "select seq, content from koloss_snapshots where study = ? order by seq desc"
)
SAVE: LiteralString = (
    "insert into koloss_snapshots (study, seq, content) values (?, ?, ?) "
    "on conflict (study, seq) do update set content = excluded.content"
)
CLEAR: LiteralString = (
    "delete from koloss_snapshots where study = ? and seq not in "
    "(select seq from koloss_snapshots where study = ? order by seq desc limit ?)"
)
DECISION: LiteralString = "select decision from koloss_subjects where study = ? and subject = ?"
BIND: LiteralString = (
    "insert into koloss_subjects (study, subject, decision) values (?, ?, ?) "
    "on conflict (study, subject) do update set decision = excluded.decision"
)
FORGET: LiteralString = "delete from koloss_subjects where study = ? and subject = ?"


def events_where(column: LiteralString, index: LiteralString = "") -> LiteralString:
    """The statement for the events of a study with one value, by an index that has to be named or not."""
    return (
        f"select {COLUMNS} from koloss_events {index} where study = ? and {column} = ? order by seq"
    )


class SQLTransaction(Transaction):
    """What is done within one transaction of a connection."""

    by_request_sql: ClassVar[LiteralString] = events_where("request")
    about_sql: ClassVar[LiteralString] = events_where("decision")

    def __init__(self, store: SQLStore, connection: Any, name: str, study: int, last: int) -> None:
        self._store, self._connection = store, connection
        self._name, self._study, self.last = name, study, last
        self.over = False

    @abc.abstractmethod
    def _add(self, events: Sequence[Event], last: int) -> None:
        """Insert events, and say which is the last one."""

    def events(self, after: int, limit: int = 1000) -> list[Event]:
        return self._events(PAGE, after, max(limit, 0))

    def by_request(self, request: str) -> list[Event]:
        return self._events(self.by_request_sql, request)

    def about(self, decision: int) -> list[Event]:
        return self._events(self.about_sql, decision)

    def append(self, events: Sequence[Event]) -> None:
        numbers = [event.seq for event in events]
        last = self.last + len(numbers)
        if numbers != list(range(self.last + 1, last + 1)):
            raise ValueError(
                f"`events` must be numbered on from {self.last + 1}, got {numbers[:5]}"
            )
        if events:
            self._add(events, last)
        self.last = last

    def save_snapshot(self, snapshot: Snapshot) -> None:
        if not 1 <= snapshot.seq <= self.last:
            raise ValueError(f"`snapshot.seq` must be from 1 to {self.last}, got {snapshot.seq}")
        self._run(SAVE, snapshot.seq, snapshot.content)
        self._run(CLEAR, self._study, KEPT_SNAPSHOTS)

    def decision_of(self, subject: str) -> int | None:
        row = self._run(DECISION, subject).fetchone()
        return None if row is None else int(row[0])

    def bind(self, subject: str, decision: int) -> None:
        self._run(BIND, subject, decision)

    def forget_subject(self, subject: str) -> int:
        return int(self._run(FORGET, subject).rowcount)

    def _run(self, statement: LiteralString, *values: Any) -> Any:
        """The cursor of a statement whose first value is the study."""
        return self._execute(statement, self._study, *values)

    def _execute(self, statement: LiteralString, *values: Any) -> Any:
        if self.over:
            raise StoreError(f"this transaction of the study {self._name!r} is over")
        return self._store.execute(self._connection, statement, *values)

    def _events(self, statement: LiteralString, *values: Any) -> list[Event]:
        return [read_event(self._name, row) for row in self._run(statement, *values).fetchall()]


class SQLStore(Store):
    """A store in a database, which says how transactions and reads are done there."""

    find_sql: ClassVar[LiteralString] = FIND
    log_type: ClassVar[type[SQLTransaction]]

    @abc.abstractmethod
    def _work(
        self, statement: LiteralString, name: str, *, make: bool = False
    ) -> AbstractContextManager[tuple[Any, Any]]:
        """A connection in a transaction, and the cursor of a first statement about a study; commit at the end, or undo everything.

        Where there are no tables, they are made, or there is no such study.
        """

    @abc.abstractmethod
    def execute(self, connection: Any, statement: LiteralString, *values: Any) -> Any:
        """The cursor of a statement on a connection that is in use."""

    @abc.abstractmethod
    def _reading(self) -> AbstractContextManager[Any]:
        """A function that gives the rows of a statement; None where there are no tables."""

    def _rows(
        self, name: str | None, statement: LiteralString, *values: Any
    ) -> list[tuple[Any, ...]]:
        """What a read gives; with a name that of a study, whose number is the first value."""
        with self._reading() as read:
            if name is not None:
                found = read and read(FIND, name)
                if not found:
                    raise self._not_found(name)
                values = (found[0][0], *values)
            rows: list[tuple[Any, ...]] = read(statement, *values) if read else []
            return rows

    def create(self, name: str, events: Sequence[Event]) -> None:
        check_name(name)
        with self._work(BEGIN_STUDY, name, make=True) as (connection, made):
            if made.rowcount != 1:
                raise StudyExists(f"there is a study {name!r} in {self.url} already")
            found = self.execute(connection, FIND, name).fetchone()
            self.log_type(self, connection, name, *found).append(events)

    def names(self) -> list[str]:
        return sorted(name for (name,) in self._rows(None, NAMES))

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        with self._work(self.find_sql, name) as (connection, found):
            row = found.fetchone()
            if row is None:
                raise self._not_found(name)
            transaction = self.log_type(self, connection, name, *row)
            try:
                yield transaction
            finally:
                transaction.over = True

    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        rows = self._rows(name, PAGE, after, max(limit, 0))
        return [read_event(name, row) for row in rows]

    def snapshots(self, name: str) -> list[Snapshot]:
        return [Snapshot(*row) for row in self._rows(name, SNAPSHOTS)]

    def _not_found(self, name: str) -> StudyNotFound:
        return StudyNotFound(f"there is no study {name!r} in {self.url}")

    def _check_format(self, place: str, version: Any) -> None:
        if not isinstance(version, int) or not 1 <= version <= FORMAT:
            rule = f"this version of Koloss knows formats up to {FORMAT}"
            raise StoreError(f"{place}: its format is {version}, and {rule}")


def read_event(name: str, row: tuple[Any, ...]) -> Event:
    """The event that a row of the table holds."""
    try:
        seq, kind, micros, decision, request, text = row
        return Event(seq, kind, micros, decision, request, json.loads(text))
    except ValueError as error:
        raise StoreError(f"event {row[0]} of the study {name!r} is damaged: {error}") from error
