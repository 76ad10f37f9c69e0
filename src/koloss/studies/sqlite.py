"""Studies in a file of SQLite's, by the standard library alone.

Every access goes through `SQLiteStore._turn`: one thread of one process at a time has the database, for its transactions and reads, to
open and to close it, and for the copying of its log into the file, which happens within commits. SQLite before 3.51.3 can damage a database
when two connections write and checkpoint at once, and a checkpoint that no reader stands in the way of keeps the log small.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from koloss.errors import CommitUnknown, StoreError, StudyExists, StudyNotFound
from koloss.studies.events import Event
from koloss.studies.filesystems import is_network, kind_of
from koloss.studies.log import FORMAT, Snapshot, Store, Transaction
from koloss.studies.names import check_name
from koloss.studies.sqlite_log import (
    SQLiteTransaction,
    find_study,
    make_tables,
    new_file,
    page_of_events,
    read_event,
)
from koloss.studies.stores import Durability, check_durability
from koloss.studies.turns import Turns

SOUND_VERSION = (3, 51, 3)
"""The first SQLite whose connections may write and checkpoint at once."""

NOT_COMMITTED = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR_WRITE,
)
"""Failures of a commit before all of it was written."""

LOGGER = logging.getLogger("koloss.studies")

WAL_BYTES = 1 << 26
"""Size that the log is cut back to after a transaction that made it larger."""


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
        self.durability = check_durability(durability)
        self._db: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None  # what was opened
        self._turns = Turns.at(self.path)
        self._turns.visitors.add(self)
        kind = kind_of(self.path)
        if is_network(kind):
            raise StoreError(
                f"{self.path}: a file system of type {kind} is shared by machines, which SQLite cannot bear; "
                "take a local disk, or PostgreSQL"
            )
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
                if find_study(db, name) is not None:
                    raise StudyExists(f"there is a study {name!r} in {self.url} already")
                made = db.execute("insert into koloss_studies (name, last) values (?, 0)", (name,))
                assert made.lastrowid is not None
                SQLiteTransaction(db, name, made.lastrowid, 0, self._check_parentage).append(events)

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
                found = find_study(db, name)
                if found is None:
                    raise self._not_found(name)
                transaction = SQLiteTransaction(db, name, *found, self._check_parentage)
                try:
                    yield transaction
                finally:
                    transaction.over = True
            if transaction.erased:
                self._empty_log(db)

    def events(self, name: str, after: int = 0, limit: int = 1000) -> list[Event]:
        with self._reading(name) as (db, study):
            rows = db.execute(*page_of_events(study, after, limit)).fetchall()
        return [read_event(name, row) for row in rows]

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
        with new_file(path) as copy, self._turn() as db, _failing(self.path):
            if db is None:
                raise StoreError(f"{self.path}: there is no such file yet")
            db.backup(copy)

    def close(self) -> None:
        if self._db is not None:
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
            found = None if db is None else find_study(db, name)
            if db is None or found is None:
                raise self._not_found(name)
            yield db, found[0]

    @contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        """Commit at the end, or undo everything."""
        try:
            db.execute("begin immediate")
            yield
            self._check_parentage()
            try:
                db.execute("commit")
            except sqlite3.Error as error:
                if error.sqlite_errorcode in NOT_COMMITTED:
                    raise
                # The log may be whole on the disk: a crash before the next commit would bring it back.
                raise CommitUnknown(f"{self.path}: {error}, while committing") from error
        except BaseException as error:
            if not self._turns.inherited:
                self._undo(db, broken=isinstance(error, (sqlite3.Error, CommitUnknown)))
            raise

    def _empty_log(self, db: sqlite3.Connection) -> None:
        """Copy the log, which has the pages as they were before something was erased, into the file, and cut it."""
        try:
            (busy, _, _) = db.execute("pragma wal_checkpoint(truncate)").fetchone()
        except sqlite3.Error as error:  # what was to be done is committed all the same
            busy = error
        if busy:
            LOGGER.warning("%s: what was erased is still in the log (%s)", self.path, busy)

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
                make_tables(db)

    def disconnect(self) -> None:
        """Close the connection, where there is one; for whoever has the turn."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                db.close()

    def leave_behind(self) -> sqlite3.Connection | None:
        """Forget the connection without closing it."""
        db, self._db = self._db, None
        return db

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:
            try:
                with self._turns.take(wait=False):
                    self.disconnect()
            except StoreError:  # others are busy
                if (db := self.leave_behind()) is not None:
                    self._turns.adopt(db)

    def _not_found(self, name: str) -> StudyNotFound:
        return StudyNotFound(f"there is no study {name!r} in {self.url}")


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    """Let failures of the database be those of the store."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
