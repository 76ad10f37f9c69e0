"""Studies in a file of SQLite's, by the standard library alone.

Every access goes through `SQLiteStore._turn`: one thread of one process at a time has the database, for its transactions and reads, to
open and to close it, and for the copying of its log into the file, which happens within commits. SQLite before 3.51.3 can damage a database
when two connections write and checkpoint at once, and a checkpoint that no reader stands in the way of keeps the log small.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, LiteralString

from koloss.core.arrays import one_of
from koloss.core.files import sync_folder
from koloss.errors import CommitUnknown, StoreError
from koloss.studies.sql import COLUMNS, FIND, SQLStore, SQLTransaction
from koloss.studies.store import DURABILITIES, FORMAT, Durability, Event, Snapshot
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

# Indices are named, since SQLite takes a study for a few rows and would read all of it.
BY_REQUEST: LiteralString = (
    f"select {COLUMNS} from koloss_events indexed by koloss_events_request "
    "where study = ? and request = ? order by seq"
)
ABOUT: LiteralString = (
    f"select {COLUMNS} from koloss_events indexed by koloss_events_decision "
    "where study = ? and decision = ? order by seq"
)
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

    def _rows(self, name: str | None, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._turn() as db, _failing(self.path):
            if name is not None:
                found = None if db is None else db.execute(FIND, (name,)).fetchone()
                if found is None:
                    raise self._not_found(name)
                values = (found[0], *values)
            return [] if db is None else db.execute(statement, values).fetchall()

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


# Files.


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


# Which file system a path is on: SQLite's log needs memory that all its processes share, which a network cannot give.

NETWORK = frozenset([
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "dfs", "gfs", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb", "smb2",
    "smb3", "smbfs", "vboxsf", "webdav",
])  # fmt: skip
"""Types of file systems that several machines can write to, as the mount table calls them."""

MOUNTS = Path("/proc/self/mountinfo")


def kind_of(path: str | os.PathLike[str], table: Path = MOUNTS) -> str | None:
    """The type of the file system that a path is on, by the mount table; None where there is no such table."""
    try:
        lines = table.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = Path(os.path.realpath(path))
    longest, kind = -1, None
    for line in lines:
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        # Blanks and the like are written as three octal digits.
        mount = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        if place.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), after.split(" ")[0]  # the last mounted hides others
    return kind


def is_network(kind: str | None) -> bool:
    """Whether a type of file system is shared by machines; whatever a program serves (FUSE) counts as one, blocks apart."""
    if kind is None:
        return False
    return kind in NETWORK or kind == "fuse" or kind.startswith("fuse.")
