"""Fair timing: contestants in turn, medians and quartiles, and what the machine itself can do."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.tables import Spread


@dataclass(frozen=True)
class Lap:
    """One contestant: median and all seconds, and what its last run returned."""

    seconds: float
    runs: list[float]
    result: Any


def race(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    repeats: int = 5,
    warmup: bool = True,
    budget: float = 20.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Lap]:
    """Run every contestant once, then all of them again, and so on.

    A first round is for warming up, and counts only if it is the only one: no round starts once `budget`
    seconds are spent.
    """
    runs: dict[str, list[float]] = {name: [] for name in contestants}
    results: dict[str, Any] = {}
    begin = time.perf_counter()
    for lap in range(repeats + warmup):
        if lap > 0 and time.perf_counter() - begin > budget:
            break
        for name, call in contestants.items():
            results.pop(name, None)  # memory back before the clock starts
            gc.collect()
            start = clock()
            results[name] = call()
            runs[name].append(clock() - start)
    counted = {name: taken[int(warmup) :] or taken for name, taken in runs.items()}
    return {name: Lap(median(counted[name]), counted[name], results[name]) for name in contestants}


cpu_race = partial(race, clock=time.process_time)
"""The same in CPU time, for what computes and waits for nobody: on a busy machine a wall clock measures the company."""


def ratio(one: Lap | Sequence[float], other: Lap | Sequence[float], scale: float = 1.0) -> Spread:
    """Time of one contestant over that of another, lap by lap, since those of one lap met the same machine."""
    a, b = (np.asarray(x.runs if isinstance(x, Lap) else x) for x in (one, other))
    return spread(scale * a / b)


def spread(values: Any) -> Spread:
    """Median and quartiles."""
    low, middle, high = np.percentile(np.asarray(values, dtype=float), [25, 50, 75])
    return Spread(float(middle), float(low), float(high))


def with_threads(threads: int | None = None) -> dict[str, str]:
    """The environment of a process with so many BLAS threads, by default as many as there are cores."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return os.environ | dict.fromkeys(variables, str(threads or os.cpu_count() or 1))


def copy_bandwidth(size: int = 2**25) -> float:
    """Bytes a second that NumPy moves (reads and writes) when it copies an array larger than the caches."""
    source, target = np.ones(size), np.zeros(size)
    lap = race({"copy": lambda: np.copyto(target, source)}, repeats=7)["copy"]
    return 2 * source.nbytes / lap.seconds


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Exponent p of time ∝ size^p, by least squares in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def exponent(sizes: Sequence[int], seconds: Sequence[Sequence[float]]) -> Spread:
    """The same with its spread: one fit for every lap, from the seconds of all laps of each size."""
    return spread([slope(sizes, lap) for lap in zip(*seconds, strict=True)])
