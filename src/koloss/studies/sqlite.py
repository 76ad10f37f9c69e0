"""Studies in a file of SQLite's, by the standard library alone.

Every access goes through `SQLiteStore._turn`: one thread of one process at a time has the database, for its transactions and reads, to
open and to close it, and for the copying of its log into the file, which happens within commits. SQLite before 3.51.3 can damage a database
when two connections write and checkpoint at once, and a checkpoint that no reader stands in the way of keeps the log small.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from koloss._files import sync_folder
from koloss.errors import CommitUnknown, StoreError, StudyExists, StudyNotFound
from koloss.studies.events import Event
from koloss.studies.filesystems import is_network, kind_of
from koloss.studies.log import FORMAT, KEPT_SNAPSHOTS, Snapshot, Store, Transaction
from koloss.studies.names import check_name
from koloss.studies.stores import Durability
from koloss.studies.turns import Turns

SOUND_VERSION = (3, 51, 3)
"""The first SQLite whose connections may write and checkpoint at once."""

WAL_BYTES = 1 << 26
"""Size that the log is cut back to after a transaction that made it larger."""

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


class SQLiteStore(Store):
    """Studies in a file of SQLite's.

    Parameters
    ----------
    path : str or path
        Of the file. It is made by the first study that is created, in a folder that must exist.
    durability : {"power", "process"}
        What an acknowledged event survives: a power cut (``synchronous=FULL``), or killed processes only (``NORMAL``).

    Examples
    --------
    >>> import tempfile
    >>> from koloss.studies.events import Event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SQLiteStore(f"{folder}/studies.db")
    ...     store.create("prices", [Event(1, "created", micros=0)])
    ...     with store.transaction("prices") as log:
    ...         log.append([Event(log.last + 1, "asked", micros=5, decision=0)])
    ...     [(event.seq, event.kind) for event in store.events("prices")]
    [(1, 'created'), (2, 'asked')]
    """

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "power") -> None:
        self.path = Path(os.path.abspath(path))
        self.url = f"sqlite:///{self.path}"
        self.durability = durability
        self._db: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None  # what was opened
        self._turns = Turns.at(self.path)
        self._turns.visitors.add(self)
        with self._turn():  # what is wrong with the file is said at once
            pass

    @classmethod
    def from_url(cls, url: str, *, durability: Durability = "power") -> SQLiteStore:
        """The store at ``sqlite:///relative.db`` or ``sqlite:////absolute.db``."""
        path = url.removeprefix("sqlite:///")
        if path == url or path in ("", ":memory:") or "?" in path or "#" in path:
            raise ValueError(
                "`url` must be sqlite:/// and the path of a file, which processes can share, "
                f"without options, got {url!r}"
            )
        return cls(path, durability=durability)

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self.path)!r}, durability={self.durability!r})"

    # The contract.

    def create(self, name: str, events: Sequence[Event]) -> None:
        check_name(name)
        with self._turn(make=True) as db, _failing(self.path):
            assert db is not None
            with self._transaction(db):
                if _find(db, name) is not None:
                    raise StudyExists(f"there is a study {name!r} in {self.url} already")
                made = db.execute("insert into koloss_studies (name, last) values (?, 0)", (name,))
                assert made.lastrowid is not None
                _Transaction(self, db, name, made.lastrowid, 0).append(events)

    def names(self) -> list[str]:
        with self._turn() as db, _failing(self.path):
            found = [] if db is None else db.execute("select name from koloss_studies").fetchall()
        return sorted(name for (name,) in found)

    @contextmanager
    def transaction(self, name: str) -> Iterator[Transaction]:
        with self._turn() as db, _failing(self.path):
            if db is None:
                raise self._not_found(name)
            with self._transaction(db):
                found = _find(db, name)
                if found is None:
                    raise self._not_found(name)
                transaction = _Transaction(self, db, name, *found)
                try:
                    yield transaction
                finally:
                    transaction.over = True
            if transaction.erased:
                # The log has what the pages were before.
                db.execute("pragma wal_checkpoint(truncate)").fetchall()

    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        with self._reading(name) as (db, study):
            rows = db.execute(*_page(study, after, limit)).fetchall()
        return [_event(name, row) for row in rows]

    def snapshots(self, name: str) -> list[Snapshot]:
        with self._reading(name) as (db, study):
            rows = db.execute(
                "select seq, content from koloss_snapshots where study = ? order by seq desc",
                (study,),
            ).fetchall()
        return [Snapshot(seq, content) for seq, content in rows]

    def facts(self) -> dict[str, Any]:
        with self._turn() as db, _failing(self.path):
            synchronous = None if db is None else db.execute("pragma synchronous").fetchone()[0]
            sizes = [_size(self.path), _size(Path(f"{self.path}-wal"))]
        version = sqlite3.sqlite_version
        warnings = []
        if sqlite3.sqlite_version_info < SOUND_VERSION:
            warnings.append(
                f"SQLite {version} can damage a database that two programs write and checkpoint at once (fixed in 3.51.3). "
                "Koloss takes turns; let no other program write to this file or copy its log."
            )
        if self.durability == "process":
            warnings.append(
                "An acknowledged event survives killed processes, not a power cut: durability='process'."
            )
        return {
            "store": "sqlite",
            "sqlite_version": version,
            "format": FORMAT,
            "durability": self.durability,
            "synchronous": {None: None, 1: "NORMAL", 2: "FULL"}[synchronous],
            "file_system": kind_of(self.path),
            "bytes": sizes[0],
            "wal_bytes": sizes[1],
            "warnings": warnings,
        }

    def backup(self, path: str | Path) -> None:
        target = Path(os.path.abspath(path))
        if os.path.lexists(target):
            raise FileExistsError(f"`path` must be that of a new file, got {str(path)!r}")
        part = target.with_name(f".koloss-{secrets.token_hex(8)}.part")
        try:
            with self._turn() as db, _failing(self.path):
                if db is None:
                    raise StoreError(f"{self.path}: there is no such file yet")
                with contextlib.closing(sqlite3.connect(part)) as copy:
                    db.backup(copy)
            os.replace(part, target)
            sync_folder(target.parent)
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        with self._turns.take():
            self.disconnect()

    # One door to the database.

    @contextmanager
    def _turn(self, make: bool = False) -> Iterator[sqlite3.Connection | None]:
        """The connection, while nobody else uses the database; None where there is no file yet, and none is to be made."""
        if self._db is None and not make and self._stat() is None:
            yield None
            return
        with self._turns.take():
            yield self._connect(make)

    @contextmanager
    def _reading(self, name: str) -> Iterator[tuple[sqlite3.Connection, int]]:
        with self._turn() as db, _failing(self.path):
            found = None if db is None else _find(db, name)
            if db is None or found is None:
                raise self._not_found(name)
            yield db, found[0]

    @contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        """Commit at the end, or undo everything."""
        db.execute("begin immediate")
        try:
            yield
            self._check_parentage()
            try:
                db.execute("commit")
            except sqlite3.OperationalError as error:
                # The log is written and its sync failed: a crash before the next commit may bring it back.
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
                    raise CommitUnknown(f"{self.path}: {error} while committing") from error
                raise
        except BaseException as error:
            if not self._turns.inherited:
                self._undo(db, broken=isinstance(error, (sqlite3.Error, CommitUnknown)))
            raise

    def _undo(self, db: sqlite3.Connection, broken: bool) -> None:
        try:
            if db.in_transaction:  # some failures end it
                db.execute("rollback")
        except sqlite3.Error:
            broken = True
        if broken:
            self.disconnect()

    def _check_parentage(self) -> None:
        if self._turns.inherited:
            raise StoreError(
                f"{self.path}: this process was forked in the middle of a transaction of its parent's"
            )

    def _stat(self) -> os.stat_result | None:
        try:
            return os.stat(self.path)
        except FileNotFoundError:
            if not self.path.parent.is_dir():
                raise StoreError(
                    f"{self.path}: there is no folder {str(self.path.parent)!r}"
                ) from None
            return None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror or error}") from error

    def _connect(self, make: bool) -> sqlite3.Connection | None:
        file = self._stat()
        if self._db is not None:
            if file is not None and self._file is not None and os.path.samestat(file, self._file):
                return self._db
            self.disconnect()
            raise StoreError(f"{self.path}: the file was removed or replaced while it was in use")
        if file is None and not make:
            return None
        with _failing(self.path):
            kind = kind_of(self.path)
            if is_network(kind):
                raise StoreError(
                    f"{self.path}: a file system of type {kind} is shared by machines, where SQLite loses data; "
                    "take a local disk, or PostgreSQL"
                )
            db = sqlite3.connect(
                f"{self.path.as_uri()}?mode={'rwc' if make else 'rw'}",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare(db)
            except BaseException:
                db.close()
                raise
        self._db, self._file = db, os.stat(self.path)
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        tables = {
            name for (name,) in db.execute("select name from sqlite_master where type = 'table'")
        }
        if "koloss_format" in tables:
            (version,) = db.execute("select version from koloss_format").fetchone() or (None,)
            if not isinstance(version, int) or not 1 <= version <= FORMAT:
                raise StoreError(
                    f"{self.path}: its format is {version}, and this version of Koloss knows formats up to {FORMAT}"
                )
        elif tables:
            raise StoreError(
                f"{self.path}: the database of another program, with the table {min(tables)!r}"
            )
        (mode,) = db.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise StoreError(f"{self.path}: the file system cannot hold a write-ahead log")
        db.execute(f"pragma synchronous = {'full' if self.durability == 'power' else 'normal'}")
        db.execute("pragma busy_timeout = 30000")  # for other programs: ours take turns
        db.execute("pragma mmap_size = 0")
        db.execute("pragma secure_delete = on")  # what is forgotten is gone
        db.execute(f"pragma journal_size_limit = {WAL_BYTES}")
        if not tables:
            with self._transaction(db):
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("insert into koloss_format values (?)", (FORMAT,))

    def disconnect(self) -> None:
        """Close the connection, where there is one; for whoever has the turn."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()

    def leave_behind(self) -> bool:
        """Forget the connection of the process that this one was forked from, unused."""
        db, self._db = self._db, None
        if db is None:
            return False
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))  # even at the end nobody may close it
        return True

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:
            with contextlib.suppress(StoreError), self._turns.take(wait=False):
                self.disconnect()
            self.leave_behind()  # where others are busy: to be left open does no harm

    def _not_found(self, name: str) -> StudyNotFound:
        return StudyNotFound(f"there is no study {name!r} in {self.url}")


class _Transaction(Transaction):
    """What is done within one transaction of a connection."""

    def __init__(
        self, store: SQLiteStore, db: sqlite3.Connection, name: str, study: int, last: int
    ) -> None:
        self._store, self._db, self._name, self._study, self.last = store, db, name, study, last
        self.over = False
        self.erased = False  # whether something was, and must not stay in the log either

    def events(self, after: int, limit: int = 1000) -> list[Event]:
        return self._events(*_page(self._study, after, limit))

    def by_request(self, request: str) -> list[Event]:
        statement = (
            f"select {_COLUMNS} from koloss_events where study = ? and request = ? order by seq"
        )
        return self._events(statement, (self._study, request))

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
            "delete from koloss_snapshots where study = ?1 and seq not in "
            "(select seq from koloss_snapshots where study = ?1 order by seq desc limit ?2)",
            *(self._study, KEPT_SNAPSHOTS),
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
            "delete from koloss_subjects where study = ? and decision = ?",
            [(self._study, decision) for decision in decisions],
        )

    def forget_subject(self, subject: str) -> int:
        gone = self._run(
            "delete from koloss_subjects where study = ? and subject = ?", self._study, subject
        )
        self.erased = True
        return gone.rowcount

    def _live(self) -> sqlite3.Connection:
        if self.over or self._store._turns.inherited:
            raise StoreError(f"{self._store.path}: this transaction is over")
        return self._db

    def _run(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._live().execute(statement, values)

    def _events(self, statement: str, values: tuple[Any, ...]) -> list[Event]:
        return [_event(self._name, row) for row in self._run(statement, *values).fetchall()]


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    """Let failures of the database be those of the store."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _find(db: sqlite3.Connection, name: str) -> tuple[int, int] | None:
    """The number of a study and that of its newest event."""
    found: tuple[int, int] | None = db.execute(
        "select id, last from koloss_studies where name = ?", (name,)
    ).fetchone()
    return found


def _page(study: int, after: int, limit: int) -> tuple[str, tuple[int, int, int]]:
    statement = (
        f"select {_COLUMNS} from koloss_events where study = ? and seq > ? order by seq limit ?"
    )
    return statement, (study, after, max(limit, 0))


def _event(name: str, row: tuple[Any, ...]) -> Event:
    try:
        seq, kind, micros, decision, request, text = row
        return Event(seq, kind, micros, decision, request, json.loads(text))
    except ValueError as error:
        raise StoreError(f"event {row[0]} of the study {name!r} is damaged: {error}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
