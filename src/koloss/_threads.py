"""Small matrices are not worth a thread: on a busy machine BLAS threads that wait for each other take many times longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

WORTH_THREADS = 1e9
"""Multiplications of a product from which on threads may share it: a tenth of a second."""


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """As many BLAS threads as there are for products of this size, a single one for those that are small.

    The number of threads is one for the whole process: the first to ask for a single one sets it, and the last to end gives
    the others back.
    """
    if multiplications >= WORTH_THREADS:
        yield
        return
    _single.enter()
    try:
        yield
    finally:
        _single.leave()


class _Single:
    """A count of those who want a single thread."""

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0
        self.limit: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.count == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.limit.restore_original_limits()


@cache
def _controller() -> Any:
    # Imported here: it looks through all libraries of the process, which have to be loaded by then.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_single = _Single()
