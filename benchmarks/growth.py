"""The amortised round of the bandit learner against the number of actions N and of features m, with fitted exponents."""

from __future__ import annotations

import numpy as np

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, exponent, spread

KERNEL = kl.Gaussian(0.15)
EPOCHS = 5


def run(full: bool = False) -> list[Table]:
    counts = [1000 * 4**k for k in range(5 if full else 4)]
    ranks = [30, 60, 120, 240]
    return [
        _growth("actions", [(N, 60) for N in counts]),
        _growth("features", [(4000, m) for m in ranks]),
    ]


def _growth(what: str, sizes: list[tuple[int, int]]) -> Table:
    table = Table(
        f"Growth: the amortised round as the number of {what} grows",
        ["actions N", "features m", "µs per round", "exponent"],
        "CPU time in whole epochs of m decisions, all sizes in turn. The exponent p of time ∝ size^p is that from the size before "
        "to this one; in the last row it is fitted to all sizes, once for every lap. N·m per round is the cost that is promised.",
    )
    laps = cpu_race(
        {f"{N} {m}": _play(N, m) for N, m in sizes},
        repeats=9,
        budget=60.0,
    )
    grows = [size[what == "features"] for size in sizes]
    rounds = [1e6 * np.array(laps[f"{N} {m}"].runs) / (EPOCHS * m) for N, m in sizes]
    for k, (N, m) in enumerate(sizes):
        step = exponent(grows[k - 1 : k + 1], rounds[k - 1 : k + 1]) if k else None
        table.add(N, m, spread(rounds[k]), step)
    table.add("all", "all", None, exponent(grows, rounds))
    return table


def _play(N: int, m: int):
    points = kl.Points(np.random.default_rng(0).random((N, 2)))
    learner = kl.BanditExpWeights(
        points, KERNEL, horizon=10**6, proxy="pivoted_cholesky", rank=m, loss_bound=1.0, rng=0,
        ridge=0, bonus=False, loss_class="rank-one", loss_norm=1.0,
    )  # fmt: skip
    losses = KERNEL(points.X, points.X[:1])[:, 0]

    def play():
        for _ in range(EPOCHS):
            batch = learner.ask(m)
            learner.tell(batch, losses[batch.index])

    return play
