"""Processes that do tasks, and may die.

A process has one task at a time, so that where one ends without a word it is known which task it had, and the others go on.
A task that was lost is done again when nothing else is under way: it may have been the victim of another one's appetite for
memory. Processes have one thread each for linear algebra, and end with the process that started them, however that ends.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from koloss.core.arrays import as_int
from koloss.errors import KolossError

CANNOT_START = (
    "processes end before they play: a script must start them below `if __name__ == '__main__':`, "
    "and what they are to find must be in a module"
)

TRIES = 5
"""Processes in a row that may be killed before they begin."""

PR_SET_PDEATHSIG = 1
"""Of Linux: the signal that a process gets when the thread that started it ends."""

Report = Callable[[int, Any], None]
"""Called with the number of a task and its result, or the error that it ended with."""


class WorkerDied(RuntimeError):
    """A process ended without a word while it had a task, twice."""


class ClusterLost(KolossError, RuntimeError):
    """A cluster went away, and with it what it had not done yet."""


def processes(jobs: int | None) -> int:
    """Number of processes; as many as there are processors where none is given."""
    return (os.cpu_count() or 1) if jobs is None else as_int("jobs", jobs, minimum=1)


def do_all(
    function: Callable[[Any], Any], tasks: Sequence[Any], report: Report, *, jobs: int, executor: Executor | None = None
) -> None:  # fmt: skip
    """Call a function with every task, in `jobs` other processes; it and the tasks must be picklable.

    `report` is called here, in the order in which tasks end. Where it, or an interrupt, raises, the processes are ended at
    once. What is lost when an executor breaks is done by processes of our own, except where a whole cluster is gone: those who
    have one do not want its work here.
    """
    waiting = list(range(len(tasks)))
    if executor is not None:
        waiting = _submit(executor, function, tasks, report)
    with _one_thread():
        lost = _work(function, tasks, waiting, report, min(jobs, len(waiting)))
        for k in lost:
            if _work(function, tasks, [k], report, 1):
                report(k, WorkerDied("its process ended without a word"))


def _submit(
    executor: Executor, function: Callable[[Any], Any], tasks: Sequence[Any], report: Report
) -> list[int]:
    """Give all tasks to an executor; those that were lost when it broke."""
    futures: dict[Future[Any], int] = {}
    lost = dict.fromkeys(range(len(tasks)))
    gone: ClusterLost | None = None
    try:
        # What tasks have in common need not travel with each, where an executor knows of that.
        with suppress(BrokenExecutor), getattr(executor, "sharing", nullcontext)():
            for k, task in enumerate(tasks):
                futures[executor.submit(function, task)] = k
        for future in as_completed(futures):
            error = CancelledError() if future.cancelled() else future.exception()
            if isinstance(error, ClusterLost):
                gone = error  # others may have ended before
            elif not isinstance(error, (BrokenExecutor, CancelledError)):
                del lost[futures[future]]
                report(futures[future], future.result() if error is None else error)
    finally:
        for future in futures:
            future.cancel()
    if gone is not None:
        raise gone
    return list(lost)


class _Worker:
    """A process, and the number of the task that it has."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,))
        self.task: int | None = None
        self.started = False
        try:
            with _no_interrupts():
                self.process.start()
            theirs.close()  # now the pipe ends when the process does
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self.pipe.close()
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()


def _work(
    function: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int], report: Report, count: int
) -> list[int]:  # fmt: skip
    """Do some tasks in so many processes; those that were lost with a process."""
    waiting, lost, workers = deque(numbers), list[int](), list[_Worker]()
    tries = TRIES
    try:
        workers.extend(_Worker() for _ in range(count))
        while workers:
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                try:
                    readable, result = worker.pipe.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    worker.process.join(timeout=10)  # it is ending, and its code says how
                    worker.end()
                    if not worker.started:
                        tries -= 1
                        # One that was killed, with a negative code, says nothing about the others.
                        if tries == 0 or (worker.process.exitcode or 0) >= 0:
                            raise RuntimeError(CANNOT_START) from None
                    if worker.task is not None:
                        lost.append(worker.task)
                    if waiting:
                        workers.append(_Worker())
                    continue
                if not readable:
                    raise RuntimeError(f"{CANNOT_START}: {result}")
                if worker.started:
                    assert worker.task is not None
                    report(worker.task, result)
                worker.started, worker.task, tries = True, None, TRIES
                if not waiting:
                    workers.remove(worker)
                    worker.end()
                    continue
                with suppress(ConnectionError):  # it has just died, and will be noticed above
                    worker.pipe.send((function, tasks[waiting[0]]))
                    worker.task = waiting.popleft()
    finally:
        for worker in workers:
            worker.end()
    return lost


def _serve(pipe: Connection) -> None:
    """What a process does: tasks, one after the other, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the process that waits for us, not for us
    _end_with_parent()
    pipe.send((True, None))
    while True:
        try:
            function, task = pipe.recv()
        except EOFError:
            return
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))
            return
        try:
            result = function(task)
        except Exception as error:
            result = _portable(error)
        try:
            pipe.send((True, result))
        except OSError:
            return
        except Exception as error:  # what cannot be pickled is told in words
            pipe.send((True, RuntimeError(f"{type(error).__name__}: {error}; of {result!r}")))


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same where another process could not make it again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """Let this process end when the one that started it does, however that ends."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":  # even where a task lets no other thread run
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Starting a process is done whole: what this one is told meanwhile by a signal, it hears afterwards.

    Otherwise the new process would find the half of what it is to read, and complain. A Ctrl-C, which is for the process
    that started it, it never hears.
    """
    heard = list[int]()
    with ExitStack() as after:
        # Any thread may be told; handlers run in the main one.
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                if callable(handler := signal.getsignal(number)):
                    after.callback(signal.signal, number, handler)
                    signal.signal(number, lambda number, _: heard.append(number))
        if hasattr(signal, "pthread_sigmask"):
            # Starting this one, a process too, lets interrupts through again.
            resource_tracker.ensure_running()
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            after.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        yield
    for told in heard:
        signal.raise_signal(told)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes that are started meanwhile have one thread for linear algebra: the runs are what is parallel."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    before = {name: os.environ.get(name) for name in threads}
    os.environ.update(threads)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
