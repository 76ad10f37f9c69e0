"""Studies in a file of SQLite's, by the standard library alone.

Every access goes through `SQLiteStore._turn`: one thread of one process at a time has the database, for its transactions and reads, to
open and to close it, and for the copying of its log into the file, which happens within commits. SQLite before 3.51.3 can damage a database
when two connections write and checkpoint at once, and a checkpoint that no reader stands in the way of keeps the log small. SQLite's own
lock is polled, and whoever has just had it is the first to ask again; here everybody waits in the kernel for a lock on a file beside the
database.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, LiteralString

from koloss.core.arrays import one_of
from koloss.core.files import file_system, is_network, locked, replacing
from koloss.errors import CommitUnknown, StoreError
from koloss.studies.sql import SQLStore, SQLTransaction, events_where
from koloss.studies.store import DURABILITIES, FORMAT, Durability, Event, Snapshot

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

FORK_WAITS = 10.0
"""Seconds that a fork waits for another thread to end its turn."""

SCHEMA = Path(__file__).with_suffix(".sql").read_text("utf-8")

# Indices are named, since SQLite takes a study for a few rows and would read all of it.
BY_REQUEST = events_where("request", "indexed by koloss_events_request")
ABOUT = events_where("decision", "indexed by koloss_events_decision")
UNBIND: LiteralString = (
    "delete from koloss_subjects indexed by koloss_subjects_decision "
    "where study = ? and decision = ?"
)


class SQLiteTransaction(SQLTransaction):
    """What is done within one transaction of a connection."""

    _store: SQLiteStore
    by_request_sql = BY_REQUEST
    about_sql = ABOUT

    def _add(self, events: Sequence[Event], last: int) -> None:
        rows = [
            (self._study, e.seq, e.kind, e.micros, e.decision, e.request, e.text) for e in events
        ]
        self._run("update koloss_studies set last = ?2 where id = ?1", last)
        self._connection.executemany("insert into koloss_events values (?, ?, ?, ?, ?, ?, ?)", rows)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        self._execute(
            "pragma secure_delete = off"
        )  # they are large, and hold nothing to be forgotten
        try:
            super().save_snapshot(snapshot)
        finally:
            self._execute("pragma secure_delete = on")

    def unbind(self, decisions: Sequence[int]) -> None:
        for decision in decisions:
            self._run(UNBIND, decision)

    def forget_subject(self, subject: str) -> int:
        gone = super().forget_subject(subject)
        # Pages that were split have copies of rows in their unused part, so they are all wiped and filled again.
        kept = self._execute("select study, subject, decision from koloss_subjects").fetchall()
        self._execute("delete from koloss_subjects")
        self._connection.executemany("insert into koloss_subjects values (?, ?, ?)", kept)
        self._store.erased = True
        return gone


class SQLiteStore(SQLStore):
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
    >>> from koloss.studies import Event
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = SQLiteStore(f"{folder}/studies.db")
    ...     store.create("prices", [Event(1, "created", micros=0)])
    ...     with store.transaction("prices") as log:
    ...         log.append([Event(log.last + 1, "asked", micros=5, decision=0)])
    ...     [(event.seq, event.kind) for event in store.events("prices")]
    [(1, 'created'), (2, 'asked')]
    """

    log_type: ClassVar[type[SQLTransaction]] = SQLiteTransaction
    erased = False  # whether the transaction has, what must not stay in the log either

    def __init__(self, path: str | os.PathLike[str], *, durability: Durability = "power") -> None:
        self.path = Path(os.path.abspath(path))
        self.url = f"sqlite:///{self.path}"
        self.durability = one_of("durability", durability, DURABILITIES)
        self._db: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None  # what was opened
        place = os.path.realpath(self.path)
        self._turns = _turns.setdefault(place, Turns(place))
        self._turns.stores.add(self)
        kind = file_system(self.path)
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

    def facts(self) -> dict[str, Any]:
        with self._turn() as db, _failing(self.path):
            synchronous = None if db is None else db.execute("pragma synchronous").fetchone()[0]
            files = self.path, Path(f"{self.path}-wal")
            sizes = [file.stat().st_size if file.exists() else 0 for file in files]
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
            "file_system": file_system(self.path),
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
    def _work(
        self, statement: LiteralString, name: str, *, make: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, sqlite3.Cursor]]:
        with self._turn(make) as db, _failing(self.path):
            if db is None:
                raise self._not_found(name)
            self.erased = False
            with self._transaction(db):
                yield db, db.execute(statement, (name,))
            if self.erased:
                self._empty_log(db)

    def execute(
        self, connection: sqlite3.Connection, statement: str, *values: Any
    ) -> sqlite3.Cursor:
        self._check_parentage()
        return connection.execute(statement, values)

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._turn() as db, _failing(self.path):
            yield db and (lambda statement, *values: db.execute(statement, values).fetchall())

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
            self._check_format(str(self.path), version)
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
            with suppress(sqlite3.Error):
                db.close()

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:
            self._turns.left.append(self._db)
            with suppress(StoreError), self._turns.take(wait=False):
                pass


class Turns:
    """Turns at one file, for all threads of this process.

    A connection must not be there at all while its process forks. SQLite keeps one list of locks for each process, which the child
    would inherit: it would take for its own the locks that only its parent holds, and lose what it writes when the parent closes the
    database. So connections are closed before a fork. Where one cannot be, since the thread that forks is in the middle of its
    turn, the child is refused.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.stores: weakref.WeakSet[SQLiteStore] = weakref.WeakSet()
        self.left: list[Any] = []  # connections that nobody has any more, closed in the next turn
        self.inherited = False  # whether this process has its parent's connection
        self.owner: int | None = None  # the thread whose turn it is
        self.mutex, self.process = threading.Lock(), os.getpid()

    @contextmanager
    def take(self, *, wait: bool = True) -> Iterator[None]:
        """Have a turn; where it is another's, wait or raise a `StoreError`."""
        if self.process != os.getpid():  # forked by a program that does not tell Python
            self.begin_anew()
        if self.owner == threading.get_ident():
            raise StoreError(f"{self.path}: this thread is in a transaction of this store already")
        if not wait and self.mutex.locked():
            raise StoreError(f"{self.path}: another thread uses it")
        with self.mutex:
            if self.inherited:
                raise StoreError(
                    f"{self.path}: this process was forked in the middle of a transaction, or without a word to Python, and "
                    "cannot use the store; fork between transactions, or start processes by 'spawn'"
                )
            try:
                self.owner = threading.get_ident()
                hold = self.lock(wait)
                try:
                    yield
                finally:
                    hold.__exit__(None, None, None)
            finally:
                self.owner = None

    def lock(self, wait: bool = True) -> AbstractContextManager[int]:
        """Keep other processes away, which ends with what is returned, and close what was left."""
        path = f"{self.path}.lock"
        hold = locked(path, wait=None if wait else 0)
        try:
            hold.__enter__()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        while self.left:
            with suppress(sqlite3.Error):
                self.left.pop().close()
        return hold

    def pause(self) -> bool:
        """Close all connections before a fork, until which nobody may open another; whether nobody can."""
        if self.owner == threading.get_ident() or not self.mutex.acquire(timeout=FORK_WAITS):
            return False
        if self.left or any(store._db is not None for store in self.stores):
            with suppress(StoreError):  # the child will know
                hold = self.lock()
                for store in self.stores:
                    store.disconnect()
                hold.__exit__(None, None, None)
        return True

    def begin_anew(self) -> None:
        """In a fork, which can do nothing with what it has of its parent's."""
        self.mutex, self.process = threading.Lock(), os.getpid()
        if self.owner != threading.get_ident():
            self.owner = None
        for store in self.stores:
            if store._db is not None:
                self.left.append(store._db)
                store._db = None
        while self.left:
            self.inherited = True
            ctypes.pythonapi.Py_IncRef(
                ctypes.py_object(self.left.pop())
            )  # nobody may ever close it


_turns: dict[str, Turns] = {}  # by the file
_paused: dict[int, list[Turns]] = {}  # by the thread that forks


def _before_fork() -> None:
    mine = _paused[threading.get_ident()] = []
    mine.extend(turns for turns in list(_turns.values()) if turns.pause())


def _after_fork_in_parent() -> None:
    for turns in _paused.pop(threading.get_ident(), []):
        turns.mutex.release()


def _after_fork_in_child() -> None:
    _paused.clear()
    for turns in list(_turns.values()):
        turns.begin_anew()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    """Let failures of the database be those of the store."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error


# Files.


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables of an empty store."""
    for statement in SCHEMA.split(";"):
        db.execute(statement)
    db.execute("insert into koloss_format values (?)", (FORMAT,))


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A database to fill, which is called `path` when it is whole and on the disk; where anything fails, there is none."""
    if os.path.lexists(path):
        raise FileExistsError(f"`path` must be that of a new file, got {str(path)!r}")
    try:
        with (
            replacing(path) as file,
            closing(sqlite3.connect(file.name, isolation_level=None)) as db,
        ):
            yield db
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{os.path.abspath(path)}: {error}") from error
