"""Memory: what is needed beyond the features, in units of them, and what an import holds."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np

import koloss as kl
from benchmarks.tables import Table

RANK = 60


def run(full: bool = False) -> list[Table]:
    return [_peaks(100_000 if full else 30_000), _textbook(), _imports()]


def _peaks(N: int) -> Table:
    table = Table(
        f"Memory: peak beyond what was there, {N:,} points, {RANK} features, in units of the features",
        ["call", "peak", "kept"],
        "tracemalloc, so without the libraries; the features are N m numbers of 8 bytes.",
    )
    points = kl.Points(np.random.default_rng(0).random((N, 2)))
    kernel, unit = kl.Gaussian(0.15), N * RANK * 8
    proxy = kl.pivoted_cholesky(kernel, points, rank=RANK)
    settings = {"horizon": 10**6, "proxy": proxy, "rank": RANK, "loss_range": (0, 1), "rng": 0}
    box = {"ridge": 0, "bonus": False, "loss_class": "rank-one", "loss_norm": 1.0}
    learner = kl.BanditExpWeights(points, kernel, **settings, **box)

    def play():
        batch = learner.ask(RANK)
        learner.tell(batch, np.zeros(RANK))

    calls = {
        "pivoted_cholesky": lambda: kl.pivoted_cholesky(kernel, points, rank=RANK),
        "john_design": lambda: kl.john_design(proxy.features),
        "BanditExpWeights": lambda: kl.BanditExpWeights(points, kernel, **settings, **box),
        "an epoch of it, ask and tell": play,
    }
    for name, call in calls.items():
        call()  # what is made once and kept by the libraries
        peak, kept = _traced(call)
        table.add(name, peak / unit, kept / unit)
    return table


def _textbook() -> Table:
    """The N × N Gram matrix is what a first version of everything keeps."""
    N = 3000
    table = Table(
        f"Memory: {N:,} points, in units of the N × N Gram matrix",
        ["call", "peak", "kept"],
        "Gaussian kernel of bandwidth 0.15, settings as by default.",
    )
    points = kl.Points(np.random.default_rng(0).random((N, 2)))
    kernel, common = kl.Gaussian(0.15), {"horizon": 10_000, "rng": 0}
    calls = {
        "BanditExpWeights": lambda: kl.BanditExpWeights(
            points, kernel, loss_range=(0, 1), **common
        ),
        "InsuredBandit": lambda: kl.InsuredBandit(points, kernel, loss_range=(0, 1), **common),
        "ConditionalGradient": lambda: kl.ConditionalGradient(points, kernel=kernel, **common),
    }
    for name, call in calls.items():
        peak, kept = _traced(call)
        table.add(name, peak / (8 * N * N), kept / (8 * N * N))
    return table


def _traced(call) -> tuple[int, int]:
    """Largest number of bytes beyond those before, and those that the result holds."""
    tracemalloc.start()
    try:
        result = call()
        kept, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return peak, kept


def _imports() -> Table:
    table = Table(
        "Memory: resident after an import, in a fresh interpreter",
        ["import", "MiB", "times numpy, scipy.linalg"],
        "The largest resident set of the process, with one BLAS thread.",
    )
    base = None
    for statement in ("numpy, scipy.linalg", "koloss"):
        size = _resident(statement)
        base = base or size
        table.add(statement, size, size / base)
    return table


def _resident(statement: str) -> float:
    """MiB; from /proc where there is one, since the other figure may be that of the parent process."""
    code = f"""if True:
        import {statement}, resource, sys
        try:
            lines = open("/proc/self/status").read().splitlines()
            size = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        except OSError:
            size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**10 if sys.platform == "darwin" else 1)
        print(size / 2**10)
    """
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
