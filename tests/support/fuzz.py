"""How much is fuzzed: a few examples of each test in `make test`, and 150,000 in all under the profile `torture`.

A case is one example that Hypothesis plays. `HYPOTHESIS_PROFILE=torture pytest -m fuzz tests` plays `CASES` of them, each time other
ones; `KOLOSS_CASES=10000` scales the number of every test. What fails is shrunk, printed, and kept in .hypothesis to be tried first.
The profile `quick` plays the same cases every time.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

CASES = 150_000
"""Of all tests together, in full; of these 100,000 are snapshots and their files."""

MEMORY = 3 * 2**30
PATIENCE = 30
"""Bytes and seconds of computing that one case may take."""

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "koloss")
SHARE = int(os.environ.get("KOLOSS_CASES", CASES)) / CASES

everything: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("koloss", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("torture", **everything, print_blob=True)
settings.register_profile("quick", **everything, print_blob=True, derandomize=True)

played: dict[str, int] = {}
"""Cases so far, by the name of the test."""


def fuzzed(*, few: int, cases: int) -> Callable[[Any], Any]:
    """Mark a Hypothesis test `fuzz` and give it its number of examples: `few`, or its share of all cases."""

    def apply(test: Any) -> Any:
        inner = test.hypothesis.inner_test

        @functools.wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            played[test.__name__] = played.get(test.__name__, 0) + 1
            return inner(*args, **kwargs)

        test.hypothesis.inner_test = counted
        count = max(2, round(cases * SHARE)) if PROFILE in ("torture", "quick") else few
        return pytest.mark.fuzz(settings(**everything, max_examples=count)(test))

    return apply


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """A limit on the memory and the time of one case."""

    def ring(*_: Any) -> None:
        raise TooLong(f"more than {PATIENCE} s")

    before = signal.signal(signal.SIGPROF, ring)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError):  # where there is no /proc there is no limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


class TooLong(BaseException):
    """Raised by the clock; no `except Exception` of the library swallows it."""


class Drawn:
    """The choices of a NumPy generator, drawn by Hypothesis: what depends on them is shrunk."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def integers(self, low: int, high: int | None = None) -> int:
        first, end = (0, low) if high is None else (low, high)
        return self._draw(st.integers(first, end - 1))

    def random(self, size: int | None = None) -> Any:
        if size is None:
            return self.integers(100) / 100
        return np.random.default_rng(self.integers(1000)).random(size)

    def choice(self, values: Any) -> Any:
        return self._draw(st.sampled_from(list(values)))

    def permutation(self, values: Any) -> Any:
        return np.array(self._draw(st.permutations(list(values))))

    def _draw(self, strategy: Any) -> Any:
        return self._data.draw(strategy)
