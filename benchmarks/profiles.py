"""Where the time goes: the functions that take most of it, by Python's own profiler."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import koloss as kl
from benchmarks.bandit import KERNEL, RANK, _game, _learner, in_batches, one_by_one
from benchmarks.tables import Table

TOP = 5
SOURCE = Path(kl.__file__).parent


def run(full: bool = False) -> list[Table]:
    points = kl.Points(np.random.default_rng(5).random((1000, 2)))
    proxy = kl.pivoted_cholesky(KERNEL, points, rank=RANK)
    losses = _game(points, 10_000 if full else 4000)
    batches, single = (_learner(points, proxy) for _ in range(2))
    insured = kl.InsuredBandit(points, KERNEL, horizon=10_000, loss_range=(0, 1), rank=28, rng=0)
    small, large = (
        np.random.default_rng(0).normal(size=size) for size in ((500, 20), (100_000, 64))
    )
    calls: dict[str, Callable[[], object]] = {
        "epochs of twice the rank": lambda: in_batches(batches, losses, 2 * (RANK + 1)),
        "single calls": lambda: one_by_one(single, losses),
        "insured, single calls": lambda: one_by_one(insured, losses[:2000]),
        "john_design, 500 × 20": lambda: [kl.john_design(small) for _ in range(20)],
        "john_design, 100,000 × 64": lambda: kl.john_design(large),
    }
    table = Table(
        "Profiles: shares of the CPU time",
        ["call", "where", "share"],
        f"cProfile, which makes Python's part look larger than it is; the {TOP} functions with most time of their own. What BLAS, LAPACK and NumPy compute "
        "counts for the function that calls them, or under their names where NumPy has one.",
    )
    for name, call in calls.items():
        shares = _shares(call)
        for where, share in shares.most_common(TOP):
            table.add(name, where, share)
        table.add(
            name, f"{len(shares) - TOP} others", 1 - sum(s for _, s in shares.most_common(TOP))
        )
    return [table]


def _shares(call: Callable[[], object]) -> Counter[str]:
    """Own time of every function that was called, of the whole."""
    profiler = cProfile.Profile(time.thread_time)
    profiler.enable()
    call()
    profiler.disable()
    spent: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        inside = Path(file).is_relative_to(SOURCE)
        place = f"{Path(file).relative_to(SOURCE).as_posix()}: " if inside else ""
        spent[place + function.strip("<>{}")] += own
    whole = sum(spent.values())
    return Counter({where: own / whole for where, own in spent.items()})
