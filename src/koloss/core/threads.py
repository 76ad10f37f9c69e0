"""Threads that never cost more than they bring.

BLAS threads wait for each other at the end of every product. Beside other work one of them is often not running, so that the
rest wait for the scheduler: small products then take up to a hundred times as long as with one thread. Two rules follow.

1. What is small gets a single BLAS thread: `threads_for`, which costs about two microseconds.
2. What is large and falls into parts is shared by Python threads with a single BLAS thread each: `in_parallel`. NumPy lets other
   threads run while it computes, and nobody waits for anybody before the last part.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from typing import Any, TypeVar

WORTH_THREADS = 4e9
"""Multiplications of one product from which on BLAS threads may share it: a tenth of a second, a time slice of the scheduler
or more. Measured beside two busy processes on two cores, two threads took 98 times as long as one for a product of 200³, 20 times
for 400³, 1.3 times for 800³, and 0.7 times for 1,600³."""

Read = Callable[[], int]
Write = Callable[[int], Any]
Part = TypeVar("Part")
Result = TypeVar("Result")


def threads_for(multiplications: float) -> AbstractContextManager[None]:
    """As many BLAS threads as there are for single products of this size, a single one for those that are small.

    The number of threads is one for the whole process: the first to ask for a single one sets it, and the last to end gives
    the others back.
    """
    return _all if multiplications >= WORTH_THREADS else single


def in_parallel(function: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """`function` of every part, in order, by as many Python threads as BLAS would use, each with a single BLAS thread.

    What a part gives does not depend on how many threads there are, so that sums over parts do not either. A few parts are
    computed ahead of those that are taken, no more: memory is that of a few.
    """
    workers = min(len(parts), single.available())
    if workers < 2:
        with single:
            yield from map(function, parts)
        return
    with single, ThreadPoolExecutor(workers) as pool:
        rest = iter(parts)
        ahead = deque(pool.submit(function, part) for part in islice(rest, 2 * workers))
        try:
            while ahead:
                yield ahead.popleft().result()
                ahead.extend(pool.submit(function, part) for part in islice(rest, 1))
        finally:  # after an error, or where nobody wants the rest
            for future in ahead:
                future.cancel()


class _Single:
    """A count of those who want a single thread; a context manager for any number of them."""

    def __init__(self) -> None:
        self.lock, self.count, self.modules = threading.Lock(), 0, 0
        self.libraries: list[tuple[Read, Write]] = []
        self.before: list[tuple[Write, int]] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.count == 0:
                self._look()
                self.before = [(write, n) for read, write in self.libraries if (n := read()) > 1]
                for write, _ in self.before:
                    write(1)
            self.count += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                for write, threads in self.before:
                    write(threads)

    def available(self) -> int:
        """BLAS threads that there are now: one where somebody wants a single one."""
        with self.lock:
            self._look()
            return 1 if self.count else max((read() for read, _ in self.libraries), default=1)

    def _look(self) -> None:
        # Libraries come with modules: to look through all of them takes half a millisecond, to count modules nothing.
        if len(sys.modules) != self.modules:
            self.libraries = [_functions(library) for library in _found()]
            self.modules = len(sys.modules)


def _found() -> list[Any]:
    # Imported here: it is needed by those who compute only.
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _functions(library: Any) -> tuple[Read, Write]:
    """The library's own functions where it is OpenBLAS, whose number is one for all threads: any of them may write it."""
    if library.internal_api == "openblas":
        for name in getattr(library, "check_symbols", ()):
            write = getattr(library.dynlib, name.replace("_get_", "_set_"), None)
            if hasattr(library.dynlib, name) and write is not None:
                return getattr(library.dynlib, name), write
    return lambda: library.get_num_threads() or 1, library.set_num_threads


_all: AbstractContextManager[None] = nullcontext()
single = _Single()
