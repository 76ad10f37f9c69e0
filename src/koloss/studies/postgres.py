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

from koloss.core.arrays import one_of
from koloss.errors import CommitUnknown, StoreError
from koloss.studies.postgres_connections import Connections
from koloss.studies.sql import FIND, SQLStore, SQLTransaction
from koloss.studies.sqlite import make_tables, new_file
from koloss.studies.store import DURABILITIES, FORMAT, Durability, Event

logger = logging.getLogger("koloss.studies")

HARM = {
    "fsync": "a power cut can destroy the database",
    "full_page_writes": "a power cut can leave half-written pages in the database",
}
DURABLE = (*HARM, "synchronous_commit")
"""Settings of the server that decide what survives."""


SCHEMA: Any = Path(__file__).with_suffix(".sql").read_text("utf-8")
"""Tables, but for that of the format."""

SCHEMA_LOCK = 0x6B6F6C6F7373
"""Key of the advisory lock under which the tables are made."""

BEGIN: LiteralString = """BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 3;"""
"""A machine that vanishes in the middle of a transaction holds its lock for a minute, not for two hours."""

APPEND: LiteralString = """WITH added AS (
        INSERT INTO koloss_events (study, seq, kind, micros, decision, request, data)
        SELECT ?, * FROM unnest(?::bigint[], ?::text[], ?::bigint[], ?::bigint[], ?::text[], ?::text[]))
    UPDATE koloss_studies SET last = ? WHERE id = ? AND last = ?"""

TABLES: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("koloss_studies", "id, name, last"),
    ("koloss_events", "study, seq, kind, micros, decision, request, data"),
    ("koloss_snapshots", "study, seq, content"),
    ("koloss_subjects", "study, subject, decision"),
)
"""Tables and their columns, in the order that they have in a file of SQLite's."""

SIZES: LiteralString = "SELECT sum(pg_total_relation_size(name)) FROM unnest(?::text[]) AS name"


class PostgresTransaction(SQLTransaction):
    """What is done within one transaction of a connection."""

    def _add(self, events: Sequence[Event], last: int) -> None:
        rows = [(e.seq, e.kind, e.micros, e.decision, e.request, e.text) for e in events]
        columns = [list(column) for column in zip(*rows, strict=True)]
        done = self._run(APPEND, *columns, last, self._study, self.last)
        if done.rowcount != 1:
            raise StoreError(f"study {self._name!r} does not end with event {self.last}")

    def unbind(self, decisions: Sequence[int]) -> None:
        gone: LiteralString = (
            "DELETE FROM koloss_subjects WHERE study = ? AND decision = ANY(?::bigint[])"
        )
        self._run(gone, list(decisions))


class PostgresStore(SQLStore):
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
    find_sql = FIND + " for update"
    log_type: ClassVar[type[SQLTransaction]] = PostgresTransaction

    def __init__(self, url: str, *, durability: Durability = "power") -> None:
        self.durability = one_of("durability", durability, DURABILITIES)
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

    def facts(self) -> dict[str, Any]:
        self._settings = self._read_settings()
        sizes = 0
        if self._check_tables():
            ((sizes,),) = self._read(SIZES, [table for table, _ in TABLES])
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
                for table, columns in TABLES:
                    with connection.cursor("koloss_copy") as rows:  # read in pages
                        rows.itersize = 1000
                        rows.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2")
                        values = ", ".join("?" * len(rows.description))
                        copy.executemany(f"insert into {table} values ({values})", rows)
                copy.execute("commit")
            except self._connections.psycopg.Error as error:
                raise self._connections.error(error, "reading") from None
            finally:
                self._connections.undo(connection)

    def close(self) -> None:
        self._connections.close()

    # One door to the database.

    @contextmanager
    def _work(
        self, statement: LiteralString, name: str, *, make: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        if not self._check_tables():
            if not make:
                raise self._not_found(name)
            self._make_tables()
        with self._transaction(statement, name) as begun:
            yield begun

    @contextmanager
    def _transaction(self, first: LiteralString, *values: Any) -> Iterator[tuple[Any, Any]]:
        """A connection in a transaction, and the cursor of a first statement; commit at the end, or undo everything."""
        if getattr(self._busy, "here", False):
            raise StoreError(f"{self.url}: this thread is in a transaction of this store already")
        self._busy.here = True
        try:
            with self._connections.begun((self._begin, ()), (first, values)) as (connection, found):
                try:
                    yield connection, found
                    self._commit(connection)
                except BaseException:
                    self._connections.undo(connection)
                    raise
        finally:
            self._busy.here = False

    def execute(self, connection: Any, statement: LiteralString, *values: Any) -> Any:
        return self._connections.execute(connection, statement, *values)

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

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        yield self._read if self._check_tables() else None

    # Tables and settings.

    def _check_tables(self) -> bool:
        """Whether there are any yet; those of a later version are refused."""
        if not self._has_tables:
            ((table,),) = self._read("SELECT to_regclass('koloss_format')::text")
            if table is not None:
                versions = [
                    version for (version,) in self._read("SELECT version FROM koloss_format")
                ]
                self._check_format(self.url, versions[0] if len(versions) == 1 else versions)
                self._has_tables = True
        return self._has_tables

    def _make_tables(self) -> None:
        """Make the tables, all or none; of several who try at once, one."""
        with self._transaction("SELECT pg_advisory_xact_lock(?)", SCHEMA_LOCK) as (connection, _):
            run = self._connections.execute
            # A look whether it is there would be answered from what this session saw before it had the lock.
            run(connection, "CREATE TABLE IF NOT EXISTS koloss_format (version integer NOT NULL)")
            if run(connection, "SELECT version FROM koloss_format").fetchone() is None:
                run(connection, SCHEMA)
                run(connection, "INSERT INTO koloss_format VALUES (?)", FORMAT)
        self._check_tables()

    def _read_settings(self) -> dict[str, str]:
        wanted = ["server_version", *DURABLE]
        return dict(self._read("SELECT name, setting FROM pg_settings WHERE name = ANY(?)", wanted))

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
