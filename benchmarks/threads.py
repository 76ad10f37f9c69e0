"""BLAS threads: two against one, alone and beside processes that compute; wall-clock time."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.tables import Table
from benchmarks.timing import ratio, spread, with_threads

CALLS = {
    "john_design, 1,000 × 20": "kl.john_design(thousand)",
    "john_design, 20,000 × 30": "kl.john_design(thousands)",
    "john_design, 400,000 × 64": "kl.john_design(many)",
    "pivoted_cholesky, 20,000 × 60": "kl.pivoted_cholesky(kl.Gaussian(.15), square, rank=60)",
    "pivoted_cholesky, 400,000 × 60": "kl.pivoted_cholesky(kl.Gaussian(.15), plane, rank=60)",
    "kernel_pca, 4,000 × 60": "kl.kernel_pca(kl.Gaussian(.3), few, rank=60)",
    "epochs of 60, 1,000 points": "play(learner)",
}
CODE = """if True:
    import sys, time, numpy as np, koloss as kl
    rng = np.random.default_rng(0)
    thousand, thousands, many = (rng.normal(size=size) for size in ((1000, 20), (20_000, 30), (400_000, 64)))
    few, square, plane = (kl.Points(rng.random((size, 2))) for size in (4000, 20_000, 400_000))
    points = kl.Points(np.random.default_rng(0).random((1000, 2)))
    learner = kl.BanditExpWeights(points, kl.Gaussian(.3), horizon=10**6, loss_range=(0, 1), rank=59, rng=0)
    def play(learner):
        for _ in range(20):
            learner.tell(learner.ask(60), np.zeros(60))
    for call in sys.argv[1:]:
        for lap in range(2):
            start = time.perf_counter()
            eval(call)
            taken = time.perf_counter() - start
        print(taken)
"""
COST = """if True:
    import timeit, scipy.linalg, koloss
    from koloss.core.threads import threads_for
    def ask():
        with threads_for(1):
            pass
    print(100 * min(timeit.repeat(ask, number=10_000, repeat=9)))
    with threads_for(1):
        print(100 * min(timeit.repeat(ask, number=10_000, repeat=9)))
"""
BUSY = "while True: pass"


def run(full: bool = False) -> list[Table]:
    repeats = 9 if full else 5
    table = Table(
        "Threads: two BLAS threads against one",
        ["call", "company", "ms with one", "two / one"],
        "Wall-clock time in fresh processes that take turns, the second of two calls. Company: how many processes were started "
        "beside it that only compute; others may have been there, see the load of the machine. "
        "The library asks BLAS for one thread where products are small, and shares large arrays of many rows among Python threads "
        "with one BLAS thread each.",
    )
    for company in (0, os.cpu_count() or 1):
        others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(company)]
        try:
            laps = [(_measure(1), _measure(2)) for _ in range(repeats)]
        finally:
            for other in others:
                other.kill()
                other.wait()
        for k, call in enumerate(CALLS):
            one, two = ([lap[n][k] for lap in laps] for n in (0, 1))
            with_one = spread(one)
            table.add(call, company, 1e3 * with_one.median, ratio(two, one))
    return [table, _cost()]


def _cost() -> Table:
    """What it costs to ask for one thread, in a process with two."""
    table = Table(
        "Threads: what it costs to ask for one",
        ["BLAS threads", "µs", "µs within another"],
        "Entering and leaving `threads_for`, the least of nine times 10,000: the number of threads of each BLAS library is read, set "
        "and set back; within another there is nothing to set.",
    )
    for threads in (1, 2):
        command = [sys.executable, "-c", COST]
        done = subprocess.run(
            command, env=with_threads(threads), check=True, capture_output=True, text=True
        )
        table.add(threads, *(float(line) for line in done.stdout.split()))
    return table


def _measure(threads: int) -> list[float]:
    """Seconds of each call in a process with so many BLAS threads."""
    environment = with_threads(threads)
    command = [sys.executable, "-c", CODE, *CALLS.values()]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [float(line) for line in done.stdout.split()]
