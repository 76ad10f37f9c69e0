"""Turns at a file: one thread of one process at a time, and each as often as the others.

SQLite's own lock is polled, and whoever has just had it is the first to ask again. Here everybody waits in the kernel for a lock on
a file beside the database, which lasts only as long as its process: nobody has to break the lock of one that was killed.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import ClassVar, Protocol

from koloss.core.files import locked
from koloss.errors import StoreError

FORK_WAITS = 10.0
"""Seconds that a fork waits for another thread to end its turn."""


class Visitor(Protocol):
    """Who may have a connection to the file."""

    def disconnect(self) -> None:
        """Close it; called in a turn, before this process forks."""

    def leave_behind(self) -> sqlite3.Connection | None:
        """Forget it without closing it; called in the fork."""


class Turns:
    """Turns at one file, for all threads of this process.

    A connection must not be there at all while its process forks. SQLite keeps one list of locks for each process, which the child
    would inherit: it would take for its own the locks that only its parent holds, and lose what it writes when the parent closes the
    database. So connections are closed before a fork. Where one cannot be, since the thread that forks is in the middle of its
    turn, the child is refused.
    """

    _all: ClassVar[weakref.WeakValueDictionary[str, Turns]] = weakref.WeakValueDictionary()
    _remembered: ClassVar[set[Turns]] = set()  # though nobody refers to them
    _guard = threading.Lock()

    def __init__(self, path: str) -> None:
        self.path = path
        self.visitors: weakref.WeakSet[Visitor] = weakref.WeakSet()
        self.inherited = False  # whether this process has its parent's connection
        self._owner: int | None = None  # the thread whose turn it is
        self._mutex = threading.Lock()
        self._hold: AbstractContextManager[int] | None = None
        self._forking = False
        self._process = os.getpid()
        self._orphans: list[sqlite3.Connection] = []

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Turns:
        """The turns at a file, the same for all who ask."""
        key = os.path.realpath(path)
        with cls._guard:
            turns = cls._all.get(key)
            if turns is None:
                turns = cls._all[key] = cls(key)
            return turns

    @contextmanager
    def take(self, *, wait: bool = True) -> Iterator[None]:
        """Have a turn; where it is another's, wait or raise a `StoreError`."""
        if self._process != os.getpid():  # forked by a program that does not tell Python
            self._after_fork_in_child()
        if self._owner == threading.get_ident():
            raise StoreError(f"{self.path}: this thread is in a transaction of this store already")
        if not wait and self._mutex.locked():
            raise StoreError(f"{self.path}: another thread uses it")
        with self._mutex:
            if self.inherited:
                raise StoreError(
                    f"{self.path}: this process was forked in the middle of a transaction, or without a word to Python, and "
                    "cannot use the store; fork between transactions, or start processes by 'spawn'"
                )
            try:
                self._owner = threading.get_ident()
                self._lock(wait)
                self._close_orphans()
                yield
            finally:
                self._owner = None
                self._unlock()

    def adopt(self, connection: sqlite3.Connection) -> None:
        """Close a connection that nobody has any more, in the next turn."""
        self._orphans.append(connection)
        self._remembered.add(self)

    def _close_orphans(self) -> None:
        while self._orphans:
            with suppress(sqlite3.Error):
                self._orphans.pop().close()
        self._remembered.discard(self)

    def _lock(self, wait: bool) -> None:
        path = f"{self.path}.lock"
        hold = locked(path, wait=None if wait else 0)
        try:
            hold.__enter__()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        self._hold = hold

    def _unlock(self) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.__exit__(None, None, None)

    def _before_fork(self) -> None:
        if self._owner == threading.get_ident() or not self._mutex.acquire(timeout=FORK_WAITS):
            return
        self._forking = True  # nobody connects again before it is over
        try:
            self._lock(wait=True)
            self._close_orphans()
            for visitor in self.visitors:
                visitor.disconnect()
        except StoreError:
            pass  # the child will know
        finally:
            self._unlock()

    def _after_fork_in_parent(self) -> None:
        if self._forking:
            self._forking = False
            self._mutex.release()

    def _after_fork_in_child(self) -> None:
        self._mutex, self._forking, self._process = threading.Lock(), False, os.getpid()
        if self._owner != threading.get_ident():
            self._owner = None
        self._unlock()  # the parent has the lock still: it is the same one
        left = [*self._orphans, *(visitor.leave_behind() for visitor in self.visitors)]
        self._orphans.clear()
        for connection in filter(None, left):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # nobody may ever close it
            self.inherited = True
        if self.inherited:
            self._remembered.add(self)


def _before_fork() -> None:
    for turns in list(Turns._all.values()):
        turns._before_fork()


def _after_fork_in_parent() -> None:
    for turns in list(Turns._all.values()):
        turns._after_fork_in_parent()


def _after_fork_in_child() -> None:
    Turns._guard = threading.Lock()
    for turns in list(Turns._all.values()):
        turns._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
