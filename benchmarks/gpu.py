"""A GPU: one refresh in single precision against plain PyTorch and against reading the features once, whole games, and replicates."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import koloss as kl
from benchmarks import Unavailable
from benchmarks.tables import Spread, Table
from benchmarks.timing import spread
from koloss.core import linalg

RANK = 64


def run(full: bool = False) -> list[Table]:
    try:
        import torch
    except ModuleNotFoundError:
        raise Unavailable("no torch") from None
    if not torch.cuda.is_available():
        raise Unavailable("no GPU")
    sizes = (1_000_000, 10_000_000) if full else (1_000_000,)
    tables = [_refreshes(sizes), _parts(), _games(full), _insured()]
    torch.cuda.empty_cache()
    return tables


def machine() -> str:
    """The device, in words."""
    import torch

    return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"


# One refresh.


def _refreshes(sizes: tuple[int, ...]) -> Table:
    table = Table(
        f"GPU: one refresh, {RANK} features in single precision",
        [
            "actions",
            "refresh",
            "µs of kernels",
            "over reading",
            "µs of the whole call",
            "error of Σ",
        ],
        "Reading: the sum of all features, which reads them once. Kernels: those of a refresh in a CUDA graph, by events, each after "
        "the cache was cleared. The whole call: wall clock of a law with its Cholesky factor on the host, transfers and waiting included. "
        "Error: |Σ̂ - Σ| over |Σ| in Frobenius norm, against sums in double precision. Single precision: numbers split in two for the tensor "
        "cores; 11 bits: numbers as they fit these, after `torch.set_float32_matmul_precision('high')`. Plain PyTorch: products, softmax, cumulative sums and "
        "Cholesky as one writes them, with float32 products as torch makes them at that setting.",
    )
    for N in sizes:
        table.rows += _refresh_rows(N)
    return table


def _refresh_rows(N: int) -> list[list[Any]]:
    import torch

    rng = np.random.default_rng(0)
    features = torch.asarray(rng.standard_normal((N, RANK), dtype=np.float32), device="cuda")
    fused, m = _fused(features), RANK
    theta, eta, gamma = 0.3 * rng.normal(size=m), 1.0, 0.05
    slope, offset = (
        fused.direction(-eta * theta),
        torch.full((N,), -float(np.log(N)), device="cuda"),
    )
    design = torch.full((N,), 1 / N, device="cuda")
    whole = fused.square(np.linalg.inv(np.linalg.cholesky(np.eye(m) + 0.1)).T)
    exact = _exact(features, -eta * theta)
    reading = _events(features.sum)

    def plain(bonus: bool) -> Any:
        logits = features @ slope + offset
        q = torch.softmax(logits, 0)
        p = (1 - gamma) * q + gamma * design
        sigma = (features * p[:, None]).T @ features
        factor = torch.linalg.cholesky_ex(sigma)[0]
        sums = torch.cumsum(p, 0)
        if bonus:
            white = torch.linalg.solve_triangular(factor, features.T, upper=False)
            return sums, (white * white).sum(0).sqrt()
        return sums, factor

    def ours(bonus: bool) -> Any:
        made = fused.refresh(slope, offset, design, gamma)
        return made, fused.bonus(whole, None, 0.0, 0.01, 0.0) if bonus else None

    def call(bonus: bool) -> Any:
        made = fused.refresh(fused.direction(-eta * theta), offset, design, gamma)
        factor = linalg.cholesky(np.asfortranarray(fused.sigma(made) + 0.05 * np.eye(m)))
        if bonus:
            fused.bonus(fused.square(linalg.inverse_of(factor).T), None, 0.0, 0.01, 0.0)
        torch.cuda.synchronize()

    rows: list[list[Any]] = [
        [N, "reading the features", reading, _over(reading, reading), None, None]
    ]
    for setting, name in (("highest", "single precision"), ("high", "11 bits")):
        torch.set_float32_matmul_precision(setting)
        for bonus in (False, True):
            suffix = f"{name}, with a bonus" if bonus else name
            error = _error(fused.sigma(ours(False)[0]), exact)
            kernels = _events(_graph(lambda b=bonus: ours(b)))
            rows.append([N, f"koloss, {suffix}", kernels, _over(kernels, reading), _wall(lambda b=bonus: call(b)), error])  # fmt: skip
            if N <= 1_000_000:
                kernels = _events(_graph(lambda b=bonus: plain(b)))
                waited = _wall(lambda b=bonus: (plain(b), torch.cuda.synchronize()))
                rows.append([N, f"plain PyTorch, {suffix}", kernels, _over(kernels, reading), waited, None])  # fmt: skip
    torch.set_float32_matmul_precision("highest")
    return rows


def _fused(features: Any) -> Any:
    from koloss.core.device import DeviceFeatures

    fused = DeviceFeatures(features).fused
    if fused is None:
        raise Unavailable("no Triton")
    return fused


def _exact(features: Any, slope: Any) -> Any:
    """Σ exp(logit - max) φφ' in double precision, a block of rows at a time."""
    import torch

    vector = torch.asarray(slope, device="cuda")
    logits = torch.cat([block.double() @ vector for block in features.split(2**20)])
    weights = torch.exp(logits - logits.max())
    parts = zip(features.split(2**20), weights.split(2**20), strict=True)
    return sum((f.double() * w[:, None]).T @ f.double() for f, w in parts).cpu().numpy()


def _error(sigma: Any, exact: Any) -> float:
    # Their maxima differ by rounding, and with them all weights by one factor.
    scale = np.trace(exact) / np.trace(sigma)
    return float(np.linalg.norm(sigma * scale - exact) / np.linalg.norm(exact))


def _parts() -> Table:
    import torch

    table = Table(
        "GPU: the kernels of a refresh, 1,000,000 actions",
        ["kernel", "µs in single precision", "µs with 11 bits"],
        "By events, the cache cleared before each.",
    )
    rng = np.random.default_rng(0)
    N = 1_000_000
    features = torch.asarray(rng.standard_normal((N, RANK), dtype=np.float32), device="cuda")
    fused = _fused(features)
    slope, offset = fused.direction(0.3 * rng.normal(size=RANK)), torch.zeros(N, device="cuda")
    design = torch.full((N,), 1 / N, device="cuda")
    made = fused.refresh(slope, offset, design, 0.05)
    sums = torch.empty_like(made.cumulative)
    uniforms = rng.random(128)
    small = fused.square(np.eye(RANK))
    parts: dict[str, Callable[[], Any]] = {
        "pass over the features": lambda: fused.pass_over(slope, offset),
        "adding up": lambda: fused.add_up(made.sums),
        "probabilities and block sums": lambda: fused.spread_out(
            design, 0.05, made.sums, made.p, sums
        ),
        "leverages and bonus": lambda: fused.bonus(small, None, 0.0, 0.01, 0.0),
        "128 draws, with their features": lambda: fused.draw(made, uniforms, features=True),
    }
    for name, part in parts.items():
        cells = []
        for setting in ("highest", "high"):
            torch.set_float32_matmul_precision(setting)
            cells.append(_events(part))
        table.add(name, *cells)
    torch.set_float32_matmul_precision("highest")
    return table


def _over(one: Spread, other: Spread) -> Spread:
    return Spread(one.median / other.median, one.low / other.median, one.high / other.median)


def _events(call: Callable[[], Any]) -> Spread:
    """µs of a call on the device."""
    import triton.testing

    taken = triton.testing.do_bench(call, warmup=20, rep=120, return_mode="all")
    return spread(1e3 * np.asarray(taken))


def _graph(call: Callable[[], Any]) -> Callable[[], Any]:
    """A call as a CUDA graph, where it can be one."""
    import torch

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:  # a transfer in it, say
        torch.cuda.synchronize()
        return call
    return graph.replay


def _wall(call: Callable[[], Any], repeats: int = 40) -> Spread:
    """µs of a call by the clock."""
    taken = []
    for lap in range(repeats + 5):
        start = time.perf_counter()
        call()
        if lap >= 5:
            taken.append(1e6 * (time.perf_counter() - start))
    return spread(taken)


# Games.


def _learner(X: Any, **settings: Any) -> kl.BanditExpWeights:
    horizon = 1_000_000
    given = {"rank": 63, "ridge": 0, "bonus": False, "rng": 0} | settings
    return kl.BanditExpWeights(
        kl.Points(X), kl.Gaussian(0.15), horizon=horizon, loss_range=(0, 1), **given
    )


def _losses(action: Any) -> Any:
    return 0.5 + 0.5 * np.sin(5 * action[..., 0]) * action[..., 1]


def _play(learner: Any, epochs: int, count: int) -> tuple[list[Any], Spread]:
    rows, taken = [], []
    for _ in range(epochs):
        start = time.perf_counter()
        decisions = learner.ask(count)
        learner.tell(decisions, _losses(decisions.action))
        taken.append(1e6 * (time.perf_counter() - start))
        rows.append(decisions.index)
    return rows, spread(taken[2:])


def _games(full: bool) -> Table:
    import torch

    table = Table(
        "GPU: epochs of 128 decisions, 64 features",
        ["actions", "features", "set-up, s", "µs per epoch", "host / device", "equal decisions"],
        "Wall clock of ask(128) and tell, all transfers included; the host is one thread of the same machine. "
        "Equal decisions: the share that are those of the game on the host in double precision, with the same seed; coordinates are "
        "numbers of single precision everywhere.",
    )
    for N in (100_000, 1_000_000) if full else (100_000,):
        X = np.random.default_rng(1).random((N, 2), dtype=np.float32).astype(float)
        kinds = {
            "host, float64": X,
            "host, float32": X.astype(np.float32),
            "device, float64": torch.asarray(X, device="cuda"),
            "device, float32": torch.asarray(X, dtype=torch.float32, device="cuda"),
        }
        base: Any = None
        for name, points in kinds.items():
            start = time.perf_counter()
            learner = _learner(points)
            ready = time.perf_counter() - start
            rows, taken = _play(learner, 12 if name.startswith("host") else 60, 128)
            base = base or (rows, taken)
            same = np.mean([np.mean(a == b) for a, b in zip(rows, base[0], strict=False)])
            table.add(N, name, ready, taken, base[1].median / taken.median, float(same))
    return table


def _insured() -> Table:
    import torch

    table = Table(
        "GPU: single rounds of the insured learner, 100,000 actions, 64 features",
        ["features", "µs per round", "host / device", "equal decisions"],
        "Wall clock of an ask and a tell. A policy looks at all actions in every round: their products with the features are made on the "
        "device, and a number for each action comes to the host. Where two actions look alike but for rounding, one game plays the one, and "
        "another the other; from there on they are different games.",
    )
    X = np.random.default_rng(1).random((100_000, 2), dtype=np.float32).astype(float)
    base: Any = None
    for name, points in (("host, float64", X), ("device, float64", torch.asarray(X, device="cuda")), ("device, float32", torch.asarray(X, dtype=torch.float32, device="cuda"))):  # fmt: skip
        learner = kl.InsuredBandit(
            kl.Points(points), kl.Gaussian(0.15), horizon=100_000, loss_range=(0, 1), rank=63, ridge=0, rng=0
        )  # fmt: skip
        rows, taken = [], []
        for _ in range(60):
            start = time.perf_counter()
            decision = learner.ask()
            learner.tell(decision, float(_losses(decision.action)))
            taken.append(1e6 * (time.perf_counter() - start))
            rows.append(decision.index)
        found = rows, spread(taken[5:])
        base = base or found
        same = float(np.mean(np.array(rows) == np.array(base[0])))
        table.add(name, found[1], base[1].median / found[1].median, same)
    return table
