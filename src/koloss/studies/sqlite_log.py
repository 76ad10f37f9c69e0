"""What a store in SQLite keeps, and what one transaction does to it."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from koloss.core.files import sync_folder
from koloss.errors import StoreError
from koloss.studies.events import Event
from koloss.studies.log import FORMAT, KEPT_SNAPSHOTS, Snapshot, Transaction

SCHEMA = """
create table koloss_format (version integer not null);
create table koloss_studies (id integer primary key, name text not null unique, last integer not null);
create table koloss_events (
    study integer not null, seq integer not null, kind text not null, micros integer not null,
    decision integer, request text, data text not null, primary key (study, seq)
) without rowid;
create index koloss_events_request on koloss_events (study, request) where request is not null;
create index koloss_events_decision on koloss_events (study, decision) where decision is not null;
create table koloss_snapshots (
    study integer not null, seq integer not null, content blob not null, primary key (study, seq)
);
create table koloss_subjects (
    study integer not null, subject text not null, decision integer not null, primary key (study, subject)
) without rowid;
create index koloss_subjects_decision on koloss_subjects (study, decision);
"""

_COLUMNS = "seq, kind, micros, decision, request, data"

# Indices are named, since SQLite takes a study for a few rows and would read all of it.
BY_REQUEST = (
    f"select {_COLUMNS} from koloss_events indexed by koloss_events_request "
    "where study = ? and request = ? order by seq"
)
ABOUT = (
    f"select {_COLUMNS} from koloss_events indexed by koloss_events_decision "
    "where study = ? and decision = ? order by seq"
)
UNBIND = (
    "delete from koloss_subjects indexed by koloss_subjects_decision "
    "where study = ? and decision = ?"
)


class SQLiteTransaction(Transaction):
    """What is done within one transaction of a connection."""

    def __init__(
        self, db: sqlite3.Connection, name: str, study: int, last: int, check: Callable[[], None]
    ) -> None:
        self._db, self._name, self._study, self.last = db, name, study, last
        self._check = check  # whether the connection may be used
        self.over = False
        self.erased = False  # whether something was, and must not stay in the log either

    def events(self, after: int, limit: int = 1000) -> list[Event]:
        return self._events(*page_of_events(self._study, after, limit))

    def by_request(self, request: str) -> list[Event]:
        return self._events(BY_REQUEST, (self._study, request))

    def about(self, decision: int) -> list[Event]:
        return self._events(ABOUT, (self._study, decision))

    def append(self, events: Sequence[Event]) -> None:
        numbers = [event.seq for event in events]
        last = self.last + len(numbers)
        if numbers != list(range(self.last + 1, last + 1)):
            raise ValueError(
                f"`events` must be numbered on from {self.last + 1}, got {numbers[:5]}"
            )
        rows = [
            (self._study, e.seq, e.kind, e.micros, e.decision, e.request, e.text) for e in events
        ]
        self._live().executemany("insert into koloss_events values (?, ?, ?, ?, ?, ?, ?)", rows)
        self._run("update koloss_studies set last = ? where id = ?", last, self._study)
        self.last = last

    def save_snapshot(self, snapshot: Snapshot) -> None:
        if not 1 <= snapshot.seq <= self.last:
            raise ValueError(f"`snapshot.seq` must be from 1 to {self.last}, got {snapshot.seq}")
        self._run("pragma secure_delete = off")  # they are large, and hold nothing to be forgotten
        self._run(
            "insert or replace into koloss_snapshots values (?, ?, ?)",
            *(self._study, snapshot.seq, snapshot.content),
        )
        self._run(
            "delete from koloss_snapshots where study = ? and seq not in "
            "(select seq from koloss_snapshots where study = ? order by seq desc limit ?)",
            *(self._study, self._study, KEPT_SNAPSHOTS),
        )
        self._run("pragma secure_delete = on")

    def decision_of(self, subject: str) -> int | None:
        found = self._run(
            "select decision from koloss_subjects where study = ? and subject = ?",
            *(self._study, subject),
        ).fetchone()
        return None if found is None else int(found[0])

    def bind(self, subject: str, decision: int) -> None:
        self._run(
            "insert or replace into koloss_subjects values (?, ?, ?)",
            self._study,
            subject,
            decision,
        )

    def unbind(self, decisions: Sequence[int]) -> None:
        self._live().executemany(
            UNBIND,
            [(self._study, decision) for decision in decisions],
        )

    def forget_subject(self, subject: str) -> int:
        gone = self._run(
            "delete from koloss_subjects where study = ? and subject = ?", self._study, subject
        ).rowcount
        # Pages that were split have copies of rows in their unused part, so they are all wiped and filled again.
        kept = self._run("select study, subject, decision from koloss_subjects").fetchall()
        self._run("delete from koloss_subjects")
        self._db.executemany("insert into koloss_subjects values (?, ?, ?)", kept)
        self.erased = True
        return int(gone)

    def _live(self) -> sqlite3.Connection:
        if self.over:
            raise StoreError(f"this transaction of the study {self._name!r} is over")
        self._check()
        return self._db

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._live().execute(statement, values)

    def _events(self, statement: str, values: tuple[Any, ...]) -> list[Event]:
        return [read_event(self._name, row) for row in self._run(statement, *values).fetchall()]


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables of an empty store."""
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    db.execute("insert into koloss_format values (?)", (FORMAT,))


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A database to fill, which is called `path` when it is whole and on the disk; where anything fails, there is none."""
    target = Path(os.path.abspath(path))
    if os.path.lexists(target):
        raise FileExistsError(f"`path` must be that of a new file, got {str(path)!r}")
    part = target.with_name(f".koloss-{secrets.token_hex(8)}.part")
    try:
        try:
            with closing(sqlite3.connect(part, isolation_level=None)) as db:
                yield db
        except sqlite3.Error as error:
            raise StoreError(f"{target}: {error}") from error
        os.replace(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)


def find_study(db: sqlite3.Connection, name: str) -> tuple[int, int] | None:
    """The number of a study and that of its newest event."""
    found: tuple[int, int] | None = db.execute(
        "select id, last from koloss_studies where name = ?", (name,)
    ).fetchone()
    return found


def page_of_events(study: int, after: int, limit: int) -> tuple[str, tuple[int, int, int]]:
    """What to ask for events after one, at most so many."""
    statement = (
        f"select {_COLUMNS} from koloss_events where study = ? and seq > ? order by seq limit ?"
    )
    return statement, (study, after, max(limit, 0))


def read_event(name: str, row: tuple[Any, ...]) -> Event:
    """The event that a row of the table holds."""
    try:
        seq, kind, micros, decision, request, text = row
        return Event(seq, kind, micros, decision, request, json.loads(text))
    except ValueError as error:
        raise StoreError(f"event {row[0]} of the study {name!r} is damaged: {error}") from error
