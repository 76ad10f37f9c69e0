"""Fair timing: contestants in turn, medians, and what the machine itself can do."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Lap:
    """One contestant: median and all wall-clock seconds, and what its last run returned."""

    seconds: float
    runs: list[float]
    result: Any


def race(
    contestants: Mapping[str, Callable[[], Any]],
    *,
    repeats: int = 5,
    warmup: bool = True,
    budget: float = 20.0,
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
            start = time.perf_counter()
            results[name] = call()
            runs[name].append(time.perf_counter() - start)
    counted = {name: taken[int(warmup) :] or taken for name, taken in runs.items()}
    return {name: Lap(median(counted[name]), counted[name], results[name]) for name in contestants}


def copy_bandwidth(size: int = 2**25) -> float:
    """Bytes a second that NumPy moves (reads and writes) when it copies an array larger than the caches."""
    source, target = np.ones(size), np.zeros(size)
    lap = race({"copy": lambda: np.copyto(target, source)}, repeats=7)["copy"]
    return 2 * source.nbytes / lap.seconds


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Exponent p of time ∝ size^p, by least squares in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
