"""Learners that threads share, and forks, which must not share one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from koloss.errors import KolossError, SnapshotError

P = ParamSpec("P")
R = TypeVar("R")


class Forks:
    """Forks between the process in which the program began and this one; to compare costs less than to ask for a process's id."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=Forks.add)


def locked(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that reads several things which `tell` changes: no other thread may tell meanwhile."""

    @functools.wraps(method)
    def alone(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._home != Forks.count:
            self._take_lock()
            self._lock.release()
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


class Suspicious:
    """The lock of a learner that was made from a snapshot: what fails within is put down to the snapshot, unless it names an argument."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.acquire, self.release = lock.acquire, lock.release

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._lock.release()
        if not isinstance(error, Exception) or isinstance(error, (KolossError, MemoryError)):
            return
        if isinstance(error, (TypeError, ValueError)) and "`" in str(error):  # of an argument
            return
        raise SnapshotError(
            f"the snapshot of this learner does not hold together: {error!r}"
        ) from error
