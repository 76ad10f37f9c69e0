"""What a trial is, and how one is run."""

from __future__ import annotations

import importlib
import resource
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from koloss.errors import KolossWarning

Cases = Iterator[str | None]


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    name: str
    run: Callable[[np.random.Generator], Cases]
    quick: int  # calls of `run` in the short version
    full: int  # and in the long one


@dataclass
class Row:
    """What came of a trial."""

    name: str
    tried: int = 0
    failed: int = 0
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of computing, those of its child processes among them
    examples: list[str] = field(default_factory=list)


TRIALS: dict[str, Trial] = {}
"""Trials of the subjects that were imported, by name."""


def trial(
    name: str, *, quick: int, full: int
) -> Callable[[Callable[..., Cases]], Callable[..., Cases]]:
    """Make a generator function a row of the table, called so many times in either version."""

    def enter(run: Callable[..., Cases]) -> Callable[..., Cases]:
        TRIALS[name] = Trial(name, run, quick, full)
        return run

    return enter


def play(name: str, *, seed: int, quick: bool, case: int | None = None) -> Row:
    """Run one trial, or one call of it; whatever it raises is a failure."""
    one, row, start, computed = TRIALS[name], Row(name), time.perf_counter(), _cpu()
    calls = range(one.quick if quick else one.full) if case is None else (case,)
    for k in calls:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), k])
        for outcome in _outcomes(one, rng):
            row.tried += 1
            if outcome is not None:
                row.failed += 1
                row.examples.append(f"--seed {seed} --case {k}: {outcome}")
    row.seconds, row.cpu = time.perf_counter() - start, _cpu() - computed
    return row


def _cpu() -> float:
    usage = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in usage)


def play_in(subject: str, name: str, seed: int, quick: bool, case: int | None) -> Row:
    """The same in another process, which has not imported the subject yet, and could not find a function of `__main__`."""
    importlib.import_module(f"torture.{subject}")
    return play(name, seed=seed, quick=quick, case=case)


def _outcomes(one: Trial, rng: np.random.Generator) -> Cases:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", KolossWarning)  # that a game is an odd one is no fault
        try:
            yield from one.run(rng)
        except Exception:
            yield traceback.format_exc()
