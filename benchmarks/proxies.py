"""Proxies against scikit-learn's at the same rank on the same points, and against the memory's speed."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import copy_bandwidth, cpu_race, ratio, spread, with_threads

MANY = """if True:
    import resource, sys, time, numpy as np, koloss as kl
    name, N, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    d = 2 if name == "pivoted_cholesky" else 10
    points = kl.Points(np.random.default_rng(0).random((N, d), dtype=kind))
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    if name == "pivoted_cholesky":
        proxy = kl.pivoted_cholesky(kl.Gaussian(0.1), points, rank=64, max_bytes=2**33)
    else:
        proxy = kl.exact_features(kl.Quadratic(), points, max_bytes=2**33)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    relative = proxy.epsilon / float(proxy.point_curve[0])
    print(proxy.rank, wall, cpu, proxy.features.nbytes / 2**30, (peak() - before) / 2**30, relative)
"""
BANDWIDTH = 0.2
GAMMA = 0.5 / BANDWIDTH**2
RANK = 50


def run(full: bool = False) -> list[Table]:
    sizes = [2_000, 10_000]
    many = _many([1_000_000, *((10_000_000,) if full else ())])
    return [*(_against_peers(size) for size in sizes), _against_memory(full), many]


def _against_peers(size: int) -> Table:
    points = kl.Points(np.random.default_rng(0).random((size, 2)))
    X, kernel = points.X, kl.Gaussian(BANDWIDTH)
    laps = cpu_race(
        {
            "koloss pivoted_cholesky": lambda: kl.pivoted_cholesky(kernel, points, rank=RANK),
            "koloss kernel_pca": lambda: kl.kernel_pca(kernel, points, rank=RANK),
            "scikit-learn Nystroem": lambda: Nystroem(
                gamma=GAMMA, n_components=RANK, random_state=0
            ).fit_transform(X),
            # The quickest of its exact solvers here; the default takes longer.
            "scikit-learn KernelPCA": lambda: KernelPCA(
                RANK, kernel="rbf", gamma=GAMMA, eigen_solver="arpack", random_state=0
            ).fit_transform(X),
        },
        repeats=5,
        budget=30.0,
    )
    table = Table(
        f"Features of {size:,} points at rank {RANK}",
        ["proxy", "ms", "ratio", "largest error", "mean error", "certified"],
        "Ratio of time to pivoted_cholesky. Error: K(a, a) - |features of a|^2 over all points, computed alike for all; scikit-learn's "
        "KernelPCA centres the kernel, and is held to the centred K(a, a).",
    )
    centred = _centred_diagonal(kernel, X)
    for name, lap in laps.items():
        ours = isinstance(lap.result, kl.Proxy)
        features = lap.result.features if ours else lap.result
        diagonal = centred if name.endswith("KernelPCA") else kernel.diag(X)
        residual = diagonal - np.sum(features**2, axis=1)
        against = ratio(lap, laps["koloss pivoted_cholesky"])
        certificate = lap.result.epsilon if ours else None
        errors = float(residual.max()), float(residual.mean())
        table.add(name, 1e3 * lap.seconds, against, *errors, certificate)
    return table


def _centred_diagonal(kernel: kl.Kernel, X: np.ndarray) -> np.ndarray:
    """K(a, a) after the mean of all features is subtracted."""
    means = np.concatenate(
        [kernel(X[start : start + 1000], X).mean(axis=1) for start in range(0, len(X), 1000)]
    )
    return kernel.diag(X) - 2 * means + means.mean()


def _against_memory(full: bool) -> Table:
    table = Table(
        "pivoted_cholesky against the memory: the rows found so far are read once a rank",
        ["points", "rank", "s", "floor s", "times the floor", "memory", "epsilon"],
        "Floor: N m^2/2 numbers of 8 bytes, at the bandwidth of a copy in this run. Memory: peak beyond "
        "the points, in units of the N by m features.",
    )
    sizes = [(20_000, 100), (200_000, 100), *(((1_000_000, 100),) if full else ())]
    for size, rank in sizes:
        points = kl.Points(np.random.default_rng(0).random((size, 2)))
        build = _builder(points, rank)
        # A copy before and one after: the bandwidth of the moment.
        before = copy_bandwidth()
        lap = cpu_race({"proxy": build}, repeats=5)["proxy"]
        floor = size * rank**2 / 2 * 8 / ((before + copy_bandwidth()) / 2)
        seconds, epsilon = lap.seconds, lap.result.epsilon
        floors = spread([run / floor for run in lap.runs])
        del lap
        tracemalloc.start()
        build()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        memory = peak / (size * rank * 8)
        table.add(size, rank, seconds, floor, floors, memory, epsilon)
    return table


def _many(sizes: list[int]) -> Table:
    table = Table(
        "Proxies of many points: time and memory",
        ["proxy", "points", "in", "rank", "s", "CPU s", "GiB of features", "GiB beyond the points", "epsilon / sup K"],
        "Once, in a process of its own with the BLAS threads of the machine. Memory: the largest resident size beyond that with the points, the "
        "features included. pivoted_cholesky: Gaussian kernel of bandwidth 0.1 on the unit square; exact_features: quadratic losses in ten "
        "dimensions. Epsilon is certified by sums in float64, with room for the rounding of the features.",
    )  # fmt: skip
    for size in sizes:
        for name in ("pivoted_cholesky", "exact_features"):
            for kind in ("float64", "float32"):
                command = [sys.executable, "-c", MANY, name, str(size), kind]
                done = subprocess.run(
                    command, env=with_threads(), check=True, capture_output=True, text=True
                )
                rank, *numbers = done.stdout.split()
                table.add(name, size, kind, int(rank), *(float(word) for word in numbers))
    return table


def _builder(points: kl.Points, rank: int):
    return lambda: kl.pivoted_cholesky(kl.Gaussian(0.1), points, rank=rank)
