"""Processes that do tasks, and may die.

They are those of `concurrent.futures`, each with one task at a time: where one dies, its task alone is lost, and is done again
when nothing else is under way: it may have been the victim of another one's appetite for memory.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from multiprocessing.connection import wait
from typing import Any

from koloss.core.arrays import as_int
from koloss.errors import KolossError

CANNOT_START = (
    "processes end before they play: a script must start them below `if __name__ == '__main__':`, "
    "and what they are to find must be in a module"
)

TRIES = 5
"""Processes in a row that may die before they begin."""

Report = Callable[[int, Any], None]
"""Called with the number of a task and its result, or the error that it ended with."""


class WorkerDied(RuntimeError):
    """A process ended without a word while it had a task, twice."""


class ClusterLost(KolossError, RuntimeError):
    """An executor cancelled what it had not done yet, as a cluster does whose scheduler is gone."""


class CannotStart(RuntimeError):
    """Processes cannot begin, or cannot find what they are to call."""


def processes(jobs: int | None) -> int:
    """Number of processes; as many as there are processors where none is given."""
    return (os.cpu_count() or 1) if jobs is None else as_int("jobs", jobs, minimum=1)


def do_all(
    function: Callable[[Any], Any], tasks: Sequence[Any], report: Report, *, jobs: int, executor: Executor | None = None
) -> None:  # fmt: skip
    """Call a function with every task, in `jobs` other processes or by an executor; it and the tasks must be picklable.

    `report` is called here, in the order in which tasks end. Where it, or an interrupt, raises, the processes are ended at
    once. What is lost when an executor breaks is done again by processes of this machine.
    """
    lost = list(range(len(tasks)))
    if executor is not None:
        lost = _submit(executor, function, tasks, lost, report)
    elif tasks:
        with _one_thread(), Processes(min(jobs, len(tasks))) as ours:
            lost = _submit(ours, function, tasks, lost, report)
    for k in lost:
        with _one_thread(), Processes(1) as alone:
            if _submit(alone, function, tasks, [k], report):
                report(k, WorkerDied("its process ended without a word"))


def _submit(
    executor: Executor, function: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int], report: Report
) -> list[int]:  # fmt: skip
    """Let an executor do some tasks; those that were lost with a process."""
    futures: dict[Future[Any], int] = {}
    cancelled, lost = 0, dict.fromkeys(numbers)
    try:
        with suppress(BrokenExecutor):
            for k in numbers:
                futures[executor.submit(function, tasks[k])] = k
        for future in as_completed(futures):
            error = CancelledError() if future.cancelled() else future.exception()
            if isinstance(error, CannotStart):
                raise error
            cancelled += isinstance(error, CancelledError)
            if not isinstance(error, (BrokenExecutor, CancelledError)):
                del lost[futures[future]]
                report(futures[future], future.result() if error is None else error)
    finally:
        for future in futures:
            future.cancel()
    if cancelled:
        raise ClusterLost(f"the cluster is gone, and {cancelled} of {len(numbers)} tasks with it")
    return list(lost)


class Processes(ThreadPoolExecutor):
    """Processes of this machine, as an executor: each does one task at a time, and where one dies another takes its place.

    They hear no Ctrl-C, which is for the process that started them, and end with that, however it ends. A thread waits for
    each: signals are handled in the main one, so that none of them finds a process half started.
    """

    def __init__(self, count: int) -> None:
        resource_tracker.ensure_running()  # later it would let interrupts through again
        super().__init__(count, initializer=_deaf)
        self._mine, self._ended = threading.local(), False
        self._pools: list[ProcessPoolExecutor] = []
        self._pids: list[int] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Let a process call a function; it and its arguments must be picklable."""
        return super().submit(self._call, pickle.dumps((function, arguments, named)))

    def _call(self, packed: bytes) -> Any:
        pool = getattr(self._mine, "pool", None) or self._start()
        if self._ended:
            raise CancelledError
        self._mine.pool = pool
        try:
            return pool.submit(_call, packed).result()
        except BrokenExecutor:
            self._mine.pool = None
            raise

    def _start(self) -> ProcessPoolExecutor:
        for _ in range(TRIES):
            pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)
            self._pools.append(pool)
            with suppress(RuntimeError):  # broken, or a script that starts itself again
                self._pids.append(pool.submit(os.getpid).result())
                return pool
        raise CannotStart(CANNOT_START)

    def __exit__(self, *_: object) -> None:
        """End all processes at once, whatever they do."""
        self._ended = True
        for process in active_children():
            if process.pid in self._pids:
                process.kill()
        self.shutdown(cancel_futures=True)
        for pool in self._pools:
            pool.shutdown()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes that are started meanwhile have one thread for linear algebra: the runs are what is parallel."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    before = {name: os.environ[name] for name in threads if name in os.environ}
    os.environ.update(threads)
    try:
        yield
    finally:
        for name in threads:
            del os.environ[name]
        os.environ.update(before)


def _deaf() -> None:
    """Let no interrupt through to processes that this thread starts: one that is just starting would complain."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


# In the other process.


def _begin() -> None:
    """Hear no Ctrl-C, and end when the process that started this one does, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout = sys.stderr  # standard output is for results
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _call(packed: bytes) -> Any:
    try:
        function, arguments, named = pickle.loads(packed)
    except Exception as error:
        raise CannotStart(f"{CANNOT_START}: {type(error).__name__}: {error}") from None
    try:
        return function(*arguments, **named)
    except BaseException as error:
        raise _portable(error) from None


def _portable(error: BaseException) -> Exception:
    """The error, or one that says the same where another process could not make it again, or would end by it."""
    with suppress(Exception):
        pickle.loads(pickle.dumps(error))
        if isinstance(error, Exception):
            return error
    return RuntimeError(f"{type(error).__name__}: {error}")
