"""Studies on PostgreSQL, for more than one machine.

A transaction locks the study's row (`SELECT ... FOR UPDATE`) and holds it until it ends, so that READ COMMITTED suffices: a
statement sees all that was committed when it began, and whoever had the lock before has committed. The key (study, seq) is
unique: were two ever to write the same event, one would fail.

Nothing outlives a transaction on a connection: no `SET`, no prepared statement, no session lock, no LISTEN. So PgBouncer may
stand in between, in transaction mode too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, LiteralString

from koloss.errors import CommitUnknown, StoreError, StudyExists, StudyNotFound
from koloss.studies.events import Event
from koloss.studies.log import FORMAT, KEPT_SNAPSHOTS, Snapshot, Store, Transaction
from koloss.studies.names import check_name
from koloss.studies.postgres_connections import Connections
from koloss.studies.postgres_statements import (
    APPEND,
    BEGIN,
    COPIES,
    EVENTS,
    OF_DECISION,
    OF_REQUEST,
    PAGE,
    SCHEMA,
    SCHEMA_LOCK,
    SIZES,
    SNAPSHOTS,
)
from koloss.studies.sqlite_log import make_tables, new_file, read_event
from koloss.studies.stores import Durability, check_durability

logger = logging.getLogger("koloss.studies")

HARM = {
    "fsync": "a power cut can destroy the database",
    "full_page_writes": "a power cut can leave half-written pages in the database",
}
DURABLE = (*HARM, "synchronous_commit")
"""Settings of the server that decide what survives."""


class PostgresStore(Store):
    """Studies in a PostgreSQL database. The tables are made with the first study.

    Parameters
    ----------
    url : str
        ``postgresql://user:secret@host:port/database``, as libpq understands it. What is left out is taken from libpq's environment
        variables, the secret from its password file, too.
    durability : {"power", "process"}
        What an acknowledged event survives: a power cut, or killed processes only (``synchronous_commit = off``; the server may
        then lose what it acknowledged in its last moments, when it is killed).
    """

    may_lose_answers: ClassVar[bool] = True

    def __init__(self, url: str, *, durability: Durability = "power") -> None:
        self.durability = check_durability(durability)
        self._connections = Connections(url)
        self.url = self._connections.url
        self._has_tables = False
        self._busy = threading.local()
        self._settings = self._read_settings()
        self._begin: LiteralString = BEGIN
        if durability == "process":
            self._begin = BEGIN + "SET LOCAL synchronous_commit = off"
        elif self._settings["synchronous_commit"] == "off":
            self._begin = BEGIN + "SET LOCAL synchronous_commit = on"
        self._check_tables()
        for warning in self._warnings():
            logger.warning("%s: %s", self.url, warning)

    @classmethod
    def from_url(cls, url: str, *, durability: Durability = "power") -> PostgresStore:
        """The store at an address."""
        return cls(url, durability=durability)

    def __repr__(self) -> str:
        return f"PostgresStore({self.url!r}, durability={self.durability!r})"

    # The contract.

    def create(self, name: str, events: Sequence[Event]) -> None:
        check_name(name)
        if not self._check_tables():
            self._make_tables()
        add = "INSERT INTO koloss_studies (name, last) VALUES (%s, 0) ON CONFLICT DO NOTHING RETURNING id"
        with self._work(add, name) as (connection, made):
            if made is None:
                raise StudyExists(f"there is a study {name!r} in {self.url} already")
            _Log(self._connections, connection, name, made[0], 0).append(events)

    def names(self) -> list[str]:
        rows = self._read("SELECT name FROM koloss_studies") if self._check_tables() else []
        return sorted(name for (name,) in rows)

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        if not self._check_tables():
            raise self._not_found(name)
        find: LiteralString = "SELECT id, last FROM koloss_studies WHERE name = %s FOR UPDATE"
        with self._work(find, name) as (connection, found):
            if found is None:
                raise self._not_found(name)
            log = _Log(self._connections, connection, name, *found)
            try:
                yield log
            finally:
                log.over = True

    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        rows = self._read_of(name, EVENTS + PAGE, after, max(limit, 0))
        return [read_event(name, row) for row in rows]

    def snapshots(self, name: str) -> list[Snapshot]:
        return [Snapshot(*row) for row in self._read_of(name, SNAPSHOTS)]

    def facts(self) -> dict[str, Any]:
        self._settings = self._read_settings()
        sizes = 0
        if self._check_tables():
            ((sizes,),) = self._read(SIZES)
        return {
            "store": "postgresql",
            "postgresql_version": self._settings["server_version"],
            "format": FORMAT,
            "durability": self.durability,
            **{name: self._settings[name] for name in DURABLE},
            "bytes": int(sizes),
            "warnings": self._warnings(),
        }

    def backup(self, path: str | Path) -> None:
        """Write a copy of everything that is committed, while others go on: a file of SQLite's, itself a store."""
        if not self._check_tables():
            raise StoreError(f"{self.url}: there is nothing to back up")
        begin: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with new_file(path) as copy, self._connections.begun((begin, ())) as (connection, _):
            try:
                make_tables(copy)
                copy.execute("begin")
                for read, write in COPIES:
                    with connection.cursor("koloss_copy") as rows:  # read in pages
                        rows.itersize = 1000
                        copy.executemany(write, rows.execute(read))
                copy.execute("commit")
            except self._connections.psycopg.Error as error:
                raise self._connections.error(error, "reading") from None
            finally:
                self._connections.undo(connection)

    def close(self) -> None:
        self._connections.close()

    # One door to the database.

    @contextmanager
    def _work(self, first: LiteralString, *values: Any) -> Iterator[tuple[Any, Any]]:
        """A connection in a transaction, and the first row that a first statement gives; commit at the end, or undo everything."""
        if getattr(self._busy, "here", False):
            raise StoreError(f"{self.url}: this thread is in a transaction of this store already")
        self._busy.here = True
        try:
            with self._connections.begun((self._begin, ()), (first, values)) as (connection, found):
                try:
                    yield connection, found.fetchone()
                    self._commit(connection)
                except BaseException:
                    self._connections.undo(connection)
                    raise
        finally:
            self._busy.here = False

    def _commit(self, connection: Any) -> None:
        self._connections.check(connection)
        error = self._connections.psycopg.Error
        try:
            answer = connection.execute("COMMIT").statusmessage
        except error as problem:
            if self._connections.is_lost(connection, problem):
                raise CommitUnknown(
                    f"the connection to {self.url} was lost between a commit and its answer: it may have happened or not"
                ) from None
            raise self._connections.error(problem, "committing to") from None
        if answer != "COMMIT":  # a statement had failed, and whoever saw it went on
            raise StoreError(
                f"committing to {self.url} failed, and nothing was committed: {answer}"
            )

    def _read(self, statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        with self._connections.begun((statement, values)) as (_, found):
            rows: list[tuple[Any, ...]] = found.fetchall()
        return rows

    def _read_of(self, name: str, statement: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        """What a statement gives whose first value is a study."""
        find: LiteralString = "SELECT id FROM koloss_studies WHERE name = %s"
        found = self._read(find, name) if self._check_tables() else []
        if not found:
            raise self._not_found(name)
        return self._read(statement, found[0][0], *values)

    def _not_found(self, name: str) -> StudyNotFound:
        return StudyNotFound(f"there is no study {name!r} in {self.url}")

    # Tables and settings.

    def _check_tables(self) -> bool:
        """Whether there are any yet; those of a later version are refused."""
        if not self._has_tables:
            ((table,),) = self._read("SELECT to_regclass('koloss_format')::text")
            if table is not None:
                versions = [
                    version for (version,) in self._read("SELECT version FROM koloss_format")
                ]
                if len(versions) != 1 or not 1 <= versions[0] <= FORMAT:
                    raise StoreError(
                        f"{self.url}: its format is {versions}, and this version of Koloss knows formats up to {FORMAT}"
                    )
                self._has_tables = True
        return self._has_tables

    def _make_tables(self) -> None:
        """Make the tables, all or none; of several who try at once, one."""
        with self._work("SELECT pg_advisory_xact_lock(%s)", SCHEMA_LOCK) as (connection, _):
            run = self._connections.execute
            # A look whether it is there would be answered from what this session saw before it had the lock.
            run(connection, "CREATE TABLE IF NOT EXISTS koloss_format (version integer NOT NULL)")
            if run(connection, "SELECT version FROM koloss_format").fetchone() is None:
                for statement in SCHEMA:
                    run(connection, statement)
                run(connection, "INSERT INTO koloss_format VALUES (%s)", FORMAT)
        self._check_tables()

    def _read_settings(self) -> dict[str, str]:
        wanted = ["server_version", *DURABLE]
        return dict(
            self._read("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", wanted)
        )

    def _warnings(self) -> list[str]:
        off = {name for name in DURABLE if self._settings[name] == "off"}
        warnings = [
            f"`{name}` is off on this server: {harm}. Turn it on."
            for name, harm in HARM.items()
            if name in off
        ]
        if self.durability == "process":
            warnings.append(
                "An acknowledged event survives killed clients, not a power cut or a killed server: "
                "durability='process' (`synchronous_commit` is off)."
            )
        elif "synchronous_commit" in off:
            warnings.append(
                "`synchronous_commit` is off on this server or for this user: what is committed may be lost with the power. "
                "Koloss turns it on for its own transactions."
            )
        return warnings


class _Log(Transaction):
    """What is done within one transaction."""

    def __init__(
        self, connections: Connections, connection: Any, name: str, study: int, last: int
    ) -> None:
        self._connections, self._connection = connections, connection
        self._name, self._study, self.last = name, study, last
        self.over = False

    def events(self, after: int, limit: int = 1000) -> list[Event]:
        return self._events(PAGE, after, max(limit, 0))

    def by_request(self, request: str) -> list[Event]:
        return self._events(OF_REQUEST, request)

    def about(self, decision: int) -> list[Event]:
        return self._events(OF_DECISION, decision)

    def append(self, events: Sequence[Event]) -> None:
        numbers = [event.seq for event in events]
        last = self.last + len(events)
        if numbers != list(range(self.last + 1, last + 1)):
            raise ValueError(
                f"`events` must be numbered on from {self.last + 1}, got {numbers[:5]}"
            )
        rows = [(e.seq, e.kind, e.micros, e.decision, e.request, e.text) for e in events]
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            done = self._run(APPEND, self._study, *columns, last, self._study, self.last)
            if done.rowcount != 1:
                raise StoreError(f"study {self._name!r} does not end with event {self.last}")
        self.last = last

    def save_snapshot(self, snapshot: Snapshot) -> None:
        if not 1 <= snapshot.seq <= self.last:
            raise ValueError(f"`snapshot.seq` must be from 1 to {self.last}, got {snapshot.seq}")
        self._run(
            "INSERT INTO koloss_snapshots VALUES (%s, %s, %s) "
            "ON CONFLICT (study, seq) DO UPDATE SET content = excluded.content",
            self._study,
            snapshot.seq,
            snapshot.content,
        )
        self._run(
            "DELETE FROM koloss_snapshots WHERE study = %s AND seq NOT IN "
            "(SELECT seq FROM koloss_snapshots WHERE study = %s ORDER BY seq DESC LIMIT %s)",
            self._study,
            self._study,
            KEPT_SNAPSHOTS,
        )

    def decision_of(self, subject: str) -> int | None:
        wanted: LiteralString = (
            "SELECT decision FROM koloss_subjects WHERE study = %s AND subject = %s"
        )
        row = self._run(wanted, self._study, subject).fetchone()
        return None if row is None else int(row[0])

    def bind(self, subject: str, decision: int) -> None:
        self._run(
            "INSERT INTO koloss_subjects VALUES (%s, %s, %s) "
            "ON CONFLICT (study, subject) DO UPDATE SET decision = excluded.decision",
            self._study,
            subject,
            decision,
        )

    def unbind(self, decisions: Sequence[int]) -> None:
        gone: LiteralString = (
            "DELETE FROM koloss_subjects WHERE study = %s AND decision = ANY(%s::bigint[])"
        )
        self._run(gone, self._study, list(decisions))

    def forget_subject(self, subject: str) -> int:
        gone: LiteralString = "DELETE FROM koloss_subjects WHERE study = %s AND subject = %s"
        return int(self._run(gone, self._study, subject).rowcount)

    def _events(self, wanted: LiteralString, *values: Any) -> list[Event]:
        rows = self._run(EVENTS + wanted, self._study, *values).fetchall()
        return [read_event(self._name, row) for row in rows]

    def _run(self, statement: LiteralString, *values: Any) -> Any:
        if self.over:
            raise StoreError("the transaction is over")
        return self._connections.execute(self._connection, statement, *values)
