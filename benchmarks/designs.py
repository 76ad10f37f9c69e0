"""The G-optimal design against a convex solver, the textbook's algorithm, and one pass over the features."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import cvxpy as cp
import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dsyrk

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, exponent, ratio, with_threads

MANY = """if True:
    import resource, sys, time, numpy as np, koloss as kl
    N, m, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    F, rng = np.empty((N, m), dtype=kind), np.random.default_rng(1)
    for start in range(0, N, 100_000):
        F[start : start + 100_000] = rng.normal(size=(min(100_000, N - start), m))
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    design = kl.john_design(F)
    print(time.perf_counter() - wall, time.process_time() - cpu, F.nbytes / 2**30, (peak() - before) / 2**30, design.gap)
"""
PATIENCE = 20.0
"""Seconds after which the textbook's algorithm is stopped."""


def run(full: bool = False) -> list[Table]:
    sizes = [(1_000, 20), (10_000, 20), (100_000, 20), *(((1_000_000, 64),) if full else ())]
    ranks = [(10_000, m) for m in (10, 20, 50, 100, 200)]
    return [
        _against_solvers(500, 20),
        _in_products([(40_000, 64), (400_000, 64), *(((1_000_000, 64),) if full else ())]),
        _memory([1_000_000, 10_000_000]),
        _growth("the number of actions", sizes, by_rank=False),
        _growth("the rank", ranks, by_rank=True),
    ]


def _against_solvers(N: int, m: int) -> Table:
    features = np.random.default_rng(0).normal(size=(N, m))
    contestants: dict[str, Callable[[], np.ndarray]] = {
        "koloss, 1e-6": lambda: kl.john_design(features, tolerance=1e-6).weights,
        "koloss, 1e-4": lambda: kl.john_design(features, tolerance=1e-4).weights,
        "koloss, 1e-3": lambda: kl.john_design(features, tolerance=1e-3).weights,
        "textbook, 1e-3": lambda: textbook(features, 1e-3),
        "textbook, 1e-6": lambda: textbook(features, 1e-6),
    }
    default = log_det_program(features).solver_stats.solver_name
    for solver in sorted({"CLARABEL", "SCS", default} & set(cp.installed_solvers())):
        name = f"CVXPY with {solver}" + (" (default)" if solver == default else "")
        contestants[name] = lambda solver=solver: _weights(log_det_program(features, solver))
    if "SCS" in cp.installed_solvers():
        contestants["CVXPY with SCS, eps 1e-7"] = lambda: _weights(
            log_det_program(features, "SCS", eps=1e-7)
        )
    laps = cpu_race(contestants, repeats=7, budget=40.0)
    table = Table(
        f"Design on {N:,} actions of rank {m}",
        ["method", "ms", "over koloss, 1e-4", "gap", "support"],
        "The third column is a ratio of times. Gap: max leverage / rank - 1, computed alike for all; zero "
        "is the optimum. CVXPY maximises the log-determinant, at the solver's own accuracy unless one is named.",
    )
    base = laps["koloss, 1e-4"]
    for name, lap in laps.items():
        support = int(np.sum(lap.result > 1e-6))
        table.add(name, 1e3 * lap.seconds, ratio(lap, base), gap(features, lap.result), support)
    return table


def _growth(what: str, sizes: list[tuple[int, int]], *, by_rank: bool) -> Table:
    table = Table(
        f"john_design as {what} grows (tolerance 1e-3)",
        ["actions", "rank", "s", "textbook / koloss", "passes", "gap", "textbook gap"],
        "Passes: time in units of one product of the features with a square matrix, N m^2 "
        f"multiplications. The textbook's algorithm is stopped after {PATIENCE:.0f} s.",
    )
    laps = {}
    for N, m in sizes:
        features = np.random.default_rng(1).normal(size=(N, m))
        square = np.eye(m)
        laps[N, m] = own = cpu_race(
            {
                "koloss": lambda F=features: kl.john_design(F).weights,
                "textbook": lambda F=features: textbook(F, 1e-3),
                "pass": lambda F=features, S=square: F @ S,
            },
            repeats=5,
            budget=10.0,
        )
        table.add(
            N,
            m,
            own["koloss"].seconds,
            ratio(own["textbook"], own["koloss"]),
            ratio(own["koloss"], own["pass"]),
            gap(features, own["koloss"].result),
            gap(features, own["textbook"].result),
        )
    fitted = [(N, m) for N, m in sizes if by_rank or m == sizes[0][1]]
    fewest = min(len(laps[size]["koloss"].runs) for size in fitted)
    runs = [laps[size]["koloss"].runs[:fewest] for size in fitted]
    power = exponent([size[by_rank] for size in fitted], runs)
    table.note += f" Time grows like {'m' if by_rank else 'N'}^{power.median:.2f} ({power.low:.2f} to {power.high:.2f})."
    return table


def _in_products(sizes: list[tuple[int, int]]) -> Table:
    table = Table(
        "john_design in units of one product F'F (tolerance 1e-3)",
        ["actions", "rank", "s", "products F'F", "MiB of features"],
        "F'F is SYRK, N m(m+1) operations: what one covariance costs at least.",
    )
    for N, m in sizes:
        features = np.random.default_rng(1).normal(size=(N, m))
        columns = np.asfortranarray(features)
        laps = cpu_race(
            {
                "koloss": lambda F=features: kl.john_design(F).max_leverage,
                "product": lambda F=columns: dsyrk(1.0, F, trans=1, lower=1),
            },
            repeats=3,
            budget=30.0,
        )
        size = features.nbytes / 2**20
        table.add(N, m, laps["koloss"].seconds, ratio(laps["koloss"], laps["product"]), size)
    return table


def _memory(sizes: list[int], m: int = 64) -> Table:
    table = Table(
        "john_design of many actions (tolerance 1e-3): time and memory",
        ["actions", "rank", "features", "s", "CPU s", "GiB of features", "GiB beyond them", "gap"],
        "Once, in a process of its own with the BLAS threads of the machine. Memory: the largest resident size beyond that with the "
        "features. The gap is a computation in float64 on all actions.",
    )
    for N in sizes:
        for kind in ("float64", "float32"):
            command = [sys.executable, "-c", MANY, str(N), str(m), kind]
            done = subprocess.run(
                command, env=with_threads(), check=True, capture_output=True, text=True
            )
            table.add(N, m, kind, *(float(word) for word in done.stdout.split()))
    return table


def log_det_program(
    features: np.ndarray, solver: str | None = None, **options: float
) -> cp.Problem:
    """D-optimal weights by a general convex solver: maximise log det of the covariance."""
    N, m = features.shape
    w = cp.Variable(N, nonneg=True, name="weights")
    # The covariance as one product; CVXPY takes longer to read the other ways to write it.
    products = np.einsum("ni,nj->ijn", features, features).reshape(m * m, N)
    covariance = cp.reshape(products @ w, (m, m), order="F")
    problem = cp.Problem(cp.Maximize(cp.log_det(covariance)), [cp.sum(w) == 1])
    problem.solve(solver=solver, **options)
    return problem


def _weights(problem: cp.Problem) -> np.ndarray:
    weights = np.maximum(problem.var_dict["weights"].value, 0)
    return weights / weights.sum()


def textbook(features: np.ndarray, tolerance: float, *, seconds: float = PATIENCE) -> np.ndarray:
    """Fedorov-Wynn: Frank-Wolfe for log det Σ(w) with exact steps, towards or (Atwood) away from one action.

    Each step changes Σ by a rank-one matrix and all leverages in O(N m). Starts, as Kumar and Yıldırım advise, on
    few actions: those that a QR factorisation with pivoting takes first.
    """
    N, m = features.shape
    w = np.zeros(N)
    w[qr(features.T, mode="r", pivoting=True)[1][:m]] = 1 / m
    inverse = np.linalg.inv(features.T @ (w[:, None] * features))
    g = np.einsum("ij,jk,ik->i", features, inverse, features, optimize=True)
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        towards = int(np.argmax(g))
        if g[towards] <= (1 + tolerance) * m:
            break
        support = np.flatnonzero(w)
        away = int(support[np.argmin(g[support])])
        j = towards if g[towards] - m >= m - g[away] else away
        # The step λ maximises log det((1 - λ)Σ + λ φφ'), where it leaves the weight non-negative.
        step = (g[j] / m - 1) / (g[j] - 1) if g[j] > 1 else -np.inf
        drop = j == away and step <= -w[j] / (1 - w[j])
        if drop:
            step = -w[j] / (1 - w[j])
        direction = inverse @ features[j]
        share = step / (1 - step + step * g[j])
        g = (g - share * (features @ direction) ** 2) / (1 - step)
        inverse = (inverse - share * np.outer(direction, direction)) / (1 - step)
        w *= 1 - step
        w[j] = 0.0 if drop else w[j] + step
    return w / w.sum()


def gap(features: np.ndarray, weights: np.ndarray) -> float:
    """max leverage / rank - 1, from the definition."""
    sigma = features.T @ (weights[:, None] * features)
    white = np.linalg.solve(np.linalg.cholesky(sigma), features.T)
    return float(np.max(np.sum(white**2, axis=0))) / features.shape[1] - 1
