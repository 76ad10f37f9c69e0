"""Millions of actions on one machine: preparing a game, its memory, epochs, and batches of 100,000 decisions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.tables import Table
from benchmarks.timing import spread

GAME = """
import json, resource, sys, time, warnings
import numpy as np
import koloss as kl

warnings.simplefilter("ignore")  # of what a refresh costs
N, kind = int(sys.argv[1]), sys.argv[2]
X = np.random.default_rng(0).random((N, 2), dtype=np.float32).astype(kind)
points, kernel = kl.Points(X), kl.Gaussian(0.15)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, start = peak(), time.perf_counter()
proxy = kl.pivoted_cholesky(kernel, kl.Points(X.astype(float)), rank=63, max_bytes=8 * 10**9)
learner = kl.BanditExpWeights(
    points, kernel, horizon=10**6, loss_range=(0, 1), proxy=proxy, rank=63, ridge=0, bonus=False, rng=0
)
del proxy
ready, prepared = time.perf_counter() - start, peak()
epochs, batches = [], []
for count, taken in ((128, epochs), (100_000, batches)):
    for _ in range(3 if N > 10**6 else 7):
        start = time.perf_counter()
        decisions = learner.ask(count)
        learner.tell(decisions, np.full(count, 0.4))
        taken.append(time.perf_counter() - start)
features = learner.engine.features
print(json.dumps({"ready": ready, "peak": (prepared - before) / features.nbytes, "bytes": features.nbytes,
                  "later": (peak() - prepared) / features.nbytes, "epochs": epochs[1:], "batches": batches[1:]}))
"""


def run(full: bool = False) -> list[Table]:
    table = Table(
        "Many actions: BanditExpWeights with 64 features, by the clock",
        ["actions", "features", "GB", "set-up, s", "peak / features", "epoch of 128, ms", "100,000 decisions, ms"],
        "Each in a fresh process with as many threads as the machine has cores. Set-up: proxy, design, whitening; the peak is memory beyond "
        "the points, over the features that are kept. An epoch: ask(128) and tell, which is one refresh. 100,000 decisions: ask(100,000) and tell, "
        "a refresh included. Features in single precision are rounded when all is prepared, which is done in double precision; sums are in "
        "double precision, too.",
    )  # fmt: skip
    for N in (100_000, 1_000_000, *((10_000_000,) if full else ())):
        for kind in ("float64", "float32"):
            found = _measured(N, kind)
            table.add(
                N, kind, found["bytes"] / 1e9, found["ready"], found["peak"],
                spread([1e3 * s for s in found["epochs"]]), spread([1e3 * s for s in found["batches"]]),
            )  # fmt: skip
    return [table]


def _measured(N: int, kind: str) -> dict[str, Any]:
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    free = {name: value for name, value in os.environ.items() if name not in threads}
    done = subprocess.run(
        [sys.executable, "-c", GAME, str(N), kind], env=free, capture_output=True, text=True, check=True
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found
