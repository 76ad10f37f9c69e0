"""The refresh of the bandit learner, part by part, against its products and against the rate of GEMM and SYRK on this machine."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio, spread
from koloss.core import linalg

KERNEL, RANK = kl.Gaussian(0.3), 59
BOX = {"ridge": 0, "bonus": False, "loss_class": "rank-one", "loss_norm": 1.0}


def run(full: bool = False) -> list[Table]:
    sizes = [1000, 10_000, 100_000, *((1_000_000,) if full else ())]
    engines = {N: _engine(N) for N in sizes}
    return [_rates(engines), _parts(engines)]


def _engine(N: int):
    """Algorithm 1 as its box reads: without a penalty and without bonuses, which `ridge.py` measures."""
    points = kl.Points(np.random.default_rng(5).random((N, 2)))
    proxy = kl.pivoted_cholesky(KERNEL, points, rank=RANK)
    learner = kl.BanditExpWeights(
        points, KERNEL, horizon=10_000, proxy=proxy, rank=RANK, loss_range=(0, 1), rng=0, **BOX
    )
    return learner.engine


def _rates(engines) -> Table:
    table = Table(
        f"Refresh: the share of the measured rate of SYRK and GEMM, {RANK + 1} features",
        [
            "actions",
            "refresh, ms",
            "SYRK: GFLOP/s",
            "GEMM: GFLOP/s",
            "refresh / its products",
            "share of SYRK's rate",
            "share of GEMM's rate",
        ],
        "CPU time of one thread, in turn. The refresh: weights, law, covariance and its factor. Its products: the features with a "
        "vector, and their covariance by SYRK, which has N m(m+1) operations; GEMM has 2 N m². A share is the rate of these "
        "operations in the refresh over the rate of the product alone: 1 would mean that nothing else takes time.",
    )
    for N, engine in engines.items():
        F = engine.features
        m = F.shape[1]
        theta = np.full(m, 0.01)
        often = max(1, 200_000 // N)
        laps = cpu_race(
            {
                "refresh": partial(_times, often, lambda e=engine, t=theta: _law(e, t)),
                "products": partial(
                    _times, often, lambda F=F, t=theta: (F @ t, dsyrk(1.0, F, trans=1, lower=1))
                ),
                "syrk": partial(_times, often, lambda F=F: dsyrk(1.0, F, trans=1, lower=1)),
                "gemm": partial(_times, often, lambda F=F: dgemm(1.0, F, F, trans_a=1)),
            },
            repeats=9,
            budget=30.0,
        )
        symmetric, general = (often * N * m * k for k in (m + 1, 2 * m))
        table.add(
            N,
            1e3 * laps["refresh"].seconds / often,
            spread(symmetric / np.array(laps["syrk"].runs) / 1e9),
            spread(general / np.array(laps["gemm"].runs) / 1e9),
            ratio(laps["refresh"], laps["products"]),
            ratio(laps["syrk"], laps["refresh"]),
            ratio(laps["gemm"], laps["refresh"], symmetric / general),
        )
    return table


def _parts(engines) -> Table:
    table = Table(
        "Refresh: where the time goes",
        ["part", *(f"{N:,} actions" for N in engines)],
        "Shares of the CPU time of a refresh, in turn. The floor is all but the last row: every one of these is a pass over the "
        "features or the weights that nothing can do without. Bookkeeping is what is left.",
    )
    columns = {}
    for N, engine in engines.items():
        F = engine.features
        theta, buffer = np.full(F.shape[1], 0.01), np.empty_like(F)
        p = engine.mixture(theta, None, 1e-2, 0.1)
        sigma = dsyrk(1.0, F, trans=1, lower=1)
        calls = {
            "scores, F θ": lambda F=F, t=theta: F @ t,
            "weights, exp and sums": lambda p=p: (np.exp(p), p.max(), p.sum(), p * p, p + p),
            "cumulative sums": lambda p=p: np.cumsum(p),
            "features times √p": lambda F=F, p=p, b=buffer: np.multiply(F.T, np.sqrt(p), out=b.T),
            "covariance, SYRK": lambda b=buffer: dsyrk(1.0, b, trans=1, lower=1),
            "Cholesky factor": lambda s=sigma: linalg.cholesky(s),
            "refresh": lambda e=engine, t=theta: _law(e, t),
        }
        often = max(1, 100_000 // N)
        laps = cpu_race(
            {name: partial(_times, often, call) for name, call in calls.items()},
            repeats=9,
            budget=20.0,
        )
        shares = {name: ratio(lap, laps["refresh"]) for name, lap in laps.items()}
        del shares["refresh"]
        parts = sum(np.array(lap.runs) for name, lap in laps.items() if name != "refresh")
        shares["bookkeeping"] = spread(1 - parts / np.array(laps["refresh"].runs))
        columns[N] = shares
    for part in next(iter(columns.values())):
        table.add(part, *(shares[part] for shares in columns.values()))
    return table


def _law(engine, theta):
    return engine.law(theta, None, 1e-2, 0.1, None)


def _times(count: int, call) -> None:
    for _ in range(count):
        call()
