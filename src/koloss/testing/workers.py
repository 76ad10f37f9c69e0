"""Threads and processes that use a store, for its contract."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from koloss.studies import Event, Store


class Stop(Exception):
    """Ends a transaction in the middle."""


def append(store: Store, name: str, by: int | None = None) -> None:
    """One event more, in a transaction of its own."""
    with store.transaction(name) as log:
        log.append([Event(log.last + 1, "asked", 0, by)])


def repeat(store: Store, by: int, times: int) -> None:
    """So many events by one worker, who closes the store at the end."""
    for _ in range(times):
        append(store, "a", by)
    store.close()


def check_turns(store: Store, workers: int, times: int) -> None:
    """As many events as were appended, one after another, and of each worker as many as it said."""
    events = store.events("a", after=1)
    assert [event.seq for event in events] == list(range(2, 2 + workers * times))
    assert sorted(event.decision or 0 for event in events) == sorted([*range(workers)] * times)


def together(works: Sequence[Callable[[], None]]) -> None:
    """Each in a thread of its own; the first error that one of them raises."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()


def fork(work: Callable[[], None]) -> int:
    """The id of a fork of this process that does something and exits with 0, or fails and exits with 1."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """With what a fork ends; of one that was killed, the signal with a minus."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
