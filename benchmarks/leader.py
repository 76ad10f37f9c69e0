"""The regularised leader and the conditional gradient: their steps against general solvers and the textbook."""

from __future__ import annotations

import time
from statistics import median

import cvxpy as cp
import numpy as np
import osqp
from scipy import sparse

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio
from koloss.oracles.hull import BallHull, PointsHull

KERNEL = kl.Gaussian(0.2)
GAMES = {"a place that moves": (KERNEL, 1), "bumps of both signs": (kl.Gaussian(0.05), 2)}
"""Kernel and number of signs: how many points are active depends on both."""


def run(full: bool = False) -> list[Table]:
    return [_points(full), _rounds(full), _ball(full)]


def _targets(X, game, steps, horizon=1000):
    """What the leader projects in consecutive rounds, from the middle of a game."""
    kernel, signs = GAMES[game]
    rng, count = np.random.default_rng(1), horizon // 2 + steps
    places = rng.random((count, 2))
    if signs == 1:
        places = np.cumsum(0.05 * rng.normal(size=(count, 2)), axis=0) % 1
    sizes = rng.choice([1.0, -1.0][:signs], size=count) / np.sqrt(horizon)
    z = -kernel(X, places[:-steps]) @ sizes[:-steps]
    for place, size in zip(places[-steps:], sizes[-steps:], strict=True):
        z = z - size * kernel(X, place[None])[:, 0]
        yield z.copy()


def _gap(multiply, p, z):
    """Of weights made feasible exactly; `multiply` is by the Gram matrix."""
    p = np.maximum(p, 0.0)
    p = p / p.sum()
    g = 2 * (multiply(p) - z)
    return float(p @ g - g.min())


def _points(full) -> Table:
    table = Table(
        "Leader on points: one projection in the middle of a game of 1,000 rounds",
        ["losses", "points N", "active", "solver", "ms a step", "solver / koloss", "gap"],
        "koloss and OSQP start from the step before (OSQP: eps 1e-8, its factorisation kept, at most 20,000 "
        "iterations); Clarabel by cvxpy, compiled once, default tolerances, at most 300 points without --full. A Gram matrix of 10,000 points has 0.8 "
        "GB, which OSQP would have to factor: there Clarabel is given features of pivoted Cholesky instead, to a residual "
        "of 1e-9 (their number in brackets), in the first game; in the second these are too many without --full. Gaps are "
        "of weights made feasible.",
    )
    for game, (kernel, _) in GAMES.items():
        for N in (300, 1000, *((2000,) if full else ()), 10_000):
            X = np.random.default_rng(0).random((N, 2))
            targets = list(_targets(X, game, 20))
            ours, gap, active = _ours(kernel, X, targets)
            table.add(game, N, active, "koloss", ours * 1e3, 1.0, gap)
            if N > 2000:
                if game == "a place that moves" or full:
                    root = kl.pivoted_cholesky(kernel, kl.Points(X), tolerance=1e-9).features.T
                    seconds, gap = _clarabel(root, targets[:3])
                    name = f"Clarabel ({len(root)} features)"
                    table.add(game, N, None, name, seconds * 1e3, seconds / ours, gap)
                continue
            K = kernel(X, X)
            rivals = {"OSQP": lambda K=K, z=targets[:5]: _osqp(K, z)}
            if N <= 300 or full:
                rivals["Clarabel"] = lambda K=K, z=targets[:5]: _clarabel(_root(K), z)
            for name, rival in rivals.items():
                seconds, gap = rival()
                table.add(game, N, None, name, seconds * 1e3, seconds / ours, gap)
    return table


def _ours(kernel, X, targets):
    hull, seconds, worst = PointsHull(kernel, kl.Points(X)), [], 0.0
    last = hull.project(targets[0], 1e-9)
    for z in targets[1:]:
        start = time.process_time()
        last = hull.project(z, 1e-9, last)
        seconds.append(time.process_time() - start)
        worst = max(worst, last.gap)
    return median(seconds), worst, len(last.weights)


def _osqp(K, targets):
    N, solver = len(K), osqp.OSQP()
    A = sparse.vstack([np.ones((1, N)), sparse.eye(N)], format="csc")
    low, high = np.append(1.0, np.zeros(N)), np.append(1.0, np.full(N, np.inf))
    solver.setup(
        sparse.csc_matrix(np.triu(2 * K)),
        -2 * targets[0],
        A,
        low,
        high,
        verbose=False,
        eps_abs=1e-8,
        eps_rel=1e-8,
        max_iter=20_000,
    )
    solver.solve()
    seconds, worst = [], 0.0
    for z in targets[1:]:
        start = time.process_time()
        solver.update(q=-2 * z)
        found = solver.solve()
        seconds.append(time.process_time() - start)
        worst = max(worst, _gap(K.__matmul__, found.x, z))
    return median(seconds), worst


def _root(K):
    """R with R'R = K."""
    values, axes = np.linalg.eigh(K)
    keep = values > 1e-14 * values[-1]
    return np.sqrt(values[keep])[:, None] * axes[:, keep].T


def _clarabel(root, targets):
    N = root.shape[1]
    p, z = cp.Variable(N, nonneg=True), cp.Parameter(N)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(root @ p) - 2 * z @ p), [cp.sum(p) == 1])
    z.value = targets[0]
    problem.solve(solver=cp.CLARABEL)
    seconds, worst = [], 0.0
    for target in targets[1:]:
        start = time.process_time()
        z.value = target
        problem.solve(solver=cp.CLARABEL)
        seconds.append(time.process_time() - start)
        worst = max(worst, _gap(lambda p: root.T @ (root @ p), p.value, target))
    return median(seconds), worst


def _rounds(full) -> Table:
    table = Table(
        "Conditional gradient on points: one round, ask and tell",
        ["points N", "koloss: µs", "textbook: µs", "ratio", "koloss: ns a point"],
        "The textbook keeps the N × N Gram matrix and multiplies it by the weights in every round; it does no checks, "
        "no bookkeeping and no bound. Losses are one bump a round, evaluated on the points by both.",
    )
    rng, count = np.random.default_rng(0), 40
    for N in (300, 1000, 3000, *((10_000,) if full else ()), 100_000):
        X = rng.random((N, 2))
        losses = [kl.KernelLoss(KERNEL, rng.random((1, 2)), [1.0]) for _ in range(count)]
        learner = kl.ConditionalGradient(kl.Points(X), kernel=KERNEL, horizon=10**6, rng=0)

        def ours(learner=learner, losses=losses):
            for loss in losses:
                learner.tell(learner.ask(), loss)

        contestants = {"koloss": ours}
        if N <= 10_000:
            contestants["textbook"] = _textbook(X, losses)
        laps = cpu_race(contestants, repeats=7)
        own = laps["koloss"].seconds / count
        other = laps["textbook"].seconds / count if "textbook" in laps else None
        against = ratio(laps["textbook"], laps["koloss"]) if other else None
        table.add(N, own * 1e6, other and other * 1e6, against, own / N * 1e9)
    return table


def _textbook(X, losses):
    K, eta, gamma = KERNEL(X, X), 1e-4, 1e-3
    state = {"p": np.eye(1, len(X))[0], "total": np.zeros(len(X)), "rng": np.random.default_rng(0)}

    def play():
        p, total = state["p"], state["total"]
        for loss in losses:
            np.searchsorted(np.cumsum(p), state["rng"].random())
            v = np.argmin(eta * total + 2 * (K @ p))
            total = total + loss(X)
            p = (1 - gamma) * p
            p[v] += gamma
        state["p"], state["total"] = p, total

    return play


def _ball(full) -> Table:
    table = Table(
        "Leader on the ball: one projection onto the hull of (xx', x), with its atoms and its certificate",
        ["dimension", "koloss: ms", "SDP: ms", "ratio", "koloss: gap", "SDP - koloss, value"],
        "The SDP by cvxpy and Clarabel, compiled once; it gives no atoms. The last column is what its answer is worse by.",
    )
    for d in (5, 10, 20, *((30,) if full else ())):
        rng = np.random.default_rng(d)
        targets = []
        for _ in range(5):
            A, b = rng.normal(size=(d, d)), rng.normal(size=d)
            A = A + A.T
            size = np.sqrt(np.sum(A**2) + b @ b) / 5
            targets.append((A / size, b / size))
        hull, project = BallHull(d, 1.0), _semidefinite(d)
        laps = cpu_race(
            {
                "koloss": lambda hull=hull, targets=targets: [
                    hull.project(kl.QuadraticLoss(*target)) for target in targets
                ],
                "SDP": lambda project=project, targets=targets: [project(*t) for t in targets],
            },
            repeats=5 if d < 20 else 2,
        )
        own, other = laps["koloss"].seconds / 5, laps["SDP"].seconds / 5
        worse = [
            value - _distance(found, *target)
            for value, found, target in zip(
                laps["SDP"].result, laps["koloss"].result, targets, strict=True
            )
        ]
        gap = max(found.gap for found in laps["koloss"].result)
        against = ratio(laps["SDP"], laps["koloss"])
        table.add(d, own * 1e3, other * 1e3, against, gap, max(worse, key=abs))
    return table


def _distance(found, A, b):
    x, w = found.atoms, found.weights
    return float(np.sum(((w * x.T) @ x - A) ** 2) + np.sum((w @ x - b) ** 2))


def _semidefinite(d):
    Z, A, b = cp.Variable((d + 1, d + 1), PSD=True), cp.Parameter((d, d)), cp.Parameter(d)
    off = cp.sum_squares(Z[:d, :d] - A) + cp.sum_squares(Z[:d, d] - b)
    problem = cp.Problem(cp.Minimize(off), [Z[d, d] == 1, cp.trace(Z[:d, :d]) <= 1])

    def project(matrix, vector):
        A.value, b.value = matrix, vector
        problem.solve(solver=cp.CLARABEL)
        return float(problem.value)

    return project
