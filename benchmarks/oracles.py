"""Minimising over the ball, and from many starts: against semidefinite programs, the textbook and the floor of what must be computed."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from scipy.linalg import eigh, lapack
from scipy.optimize import brentq

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio
from koloss.oracles import minimize_quadratic_ball
from koloss.oracles.multistart import multistart

KINDS = {
    "|b| = 2": {"strength": 2.0},
    "|b| = 0.1": {"strength": 0.1},
    "hard": {"strength": 0.5, "hard": True},
}


def run(full: bool = False) -> list[Table]:
    return [
        _against_programs(full),
        _dimensions(full),
        _floors(),
        _searches(),
    ]


def _quadratic(d, seed=0, strength=1.0, hard=False):
    """B with eigenvalues from -1 to 1 (semicircle law), |b| = strength; or the lowest one set apart, and b ⟂ it."""
    rng = np.random.default_rng([seed, d])
    A = rng.normal(size=(d, d)) / np.sqrt(8 * d)
    B, b = A + A.T, rng.normal(size=d)
    b *= strength / np.linalg.norm(b)
    if hard:
        values, axes = np.linalg.eigh(B)
        values[0] -= 0.2
        B = (axes * values) @ axes.T
        b = axes @ (2 * (values - values[0]) * (axes.T @ b))
    return (B + B.T) / 2, b


def _relaxation(B, b):
    d = len(b)
    Y = cp.Variable((d + 1, d + 1), PSD=True)
    objective = cp.Minimize(cp.trace(B @ Y[:d, :d]) + b @ Y[:d, d])
    return cp.Problem(objective, [Y[d, d] == 1, cp.trace(Y[:d, :d]) <= 1]).solve(cp.CLARABEL)


def _dual(B, b):
    d = len(b)
    corner = np.diag(np.append(np.zeros(d), 1.0))
    bordered = np.block([[B, b[:, None] / 2], [b[None] / 2, np.zeros((1, 1))]])
    mu, t = cp.Variable(nonneg=True), cp.Variable()
    matrix = bordered + mu * (np.eye(d + 1) - corner) + t * corner
    return cp.Problem(cp.Maximize(-t - mu), [matrix >> 0]).solve(cp.CLARABEL)


def _textbook(B, b):
    """Eigenvalues, then the multiplier by Brent's method: no hard case, no proof."""
    values, axes = eigh(B)
    h = axes.T @ b / 2
    norm = np.linalg.norm(h)
    low = max(0.0, -values[0])
    if values[0] > 0 and np.linalg.norm(h / values) <= 1:
        return axes @ (-h / values)
    mu = brentq(
        lambda mu: 1 / np.linalg.norm(h / (values + mu)) - 1,
        low + abs(h[0]) * (1 - 1e-9) + 1e-15,
        low + norm + 1e-15,
        xtol=1e-15,
        rtol=1e-15,
    )
    return axes @ (-h / (values + mu))


def _against_programs(full) -> Table:
    table = Table(
        "minimize_quadratic_ball against semidefinite programs (cvxpy, Clarabel): time a problem",
        [
            "dimension",
            "koloss: µs",
            "relaxation: ms",
            "ratio",
            "the paper's dual: ms",
            "ratio of it",
            "largest difference",
        ],
        "100 problems in a row for koloss, one for cvxpy, which builds and solves it. Difference of values, |B| = |b| = 1.",
    )
    for d in (5, 10, 20, *((40,) if full else ())):
        problems = [_quadratic(d, seed) for seed in range(100)]
        laps = cpu_race(
            {
                "koloss": lambda p=problems: [minimize_quadratic_ball(B, b).value for B, b in p],
                "relaxation": lambda p=problems: _relaxation(*p[0]),
                "dual": lambda p=problems: _dual(*p[0]),
            },
            repeats=15,
        )
        ours, relaxation, dual = (laps[k].seconds for k in ("koloss", "relaxation", "dual"))
        values = [laps["koloss"].result[0], laps["relaxation"].result, laps["dual"].result]
        ours /= len(problems)
        table.add(
            d,
            ours * 1e6,
            relaxation * 1e3,
            ratio(laps["relaxation"], laps["koloss"], len(problems)),
            dual * 1e3,
            ratio(laps["dual"], laps["koloss"], len(problems)),
            float(np.ptp(values)),
        )
    return table


def _dimensions(full) -> Table:
    table = Table(
        "minimize_quadratic_ball, dense matrices: growth with the dimension",
        [
            "problem",
            "dimension",
            "koloss: ms",
            "eigh and brentq: ms",
            "gap",
        ],
        "In the hard case Brent's method has no root to find.",
    )
    sizes = [10, 50, 200, 500, 1000, *((2000,) if full else ())]
    for name, options in KINDS.items():
        for d in sizes:
            B, b = _quadratic(d, **options)
            contestants = {
                "koloss": lambda B=B, b=b: minimize_quadratic_ball(B, b),
            }
            if name != "hard":
                contestants["textbook"] = lambda B=B, b=b: _textbook(B, b)
            laps = cpu_race(contestants, repeats=9 if d < 1000 else 3, budget=6.0)
            seconds = {key: lap.seconds * 1e3 for key, lap in laps.items()}
            table.add(
                name,
                d,
                seconds["koloss"],
                seconds.get("textbook"),
                laps["koloss"].result.gap,
            )
    return table


def _floors() -> Table:
    table = Table(
        "minimize_quadratic_ball over its floor",
        ["problem", "dimension", "koloss: ms", "floor: ms", "time / floor"],
        "The floor: one eigendecomposition by LAPACK (dsyevd).",
    )
    for name, options in KINDS.items():
        for d in (5, 20, 50, 200, 500, 1000):
            B, b = _quadratic(d, **options)
            times = max(1, 4000 // d**2)
            laps = cpu_race(
                {
                    "koloss": lambda B=B, b=b, n=times: [
                        minimize_quadratic_ball(B, b) for _ in range(n)
                    ],
                    "floor": lambda B=B, n=times: [lapack.dsyevd(B.T) for _ in range(n)],
                },
                repeats=9 if d < 1000 else 5,
                budget=6.0,
            )
            ours, floor = (1e3 * laps[key].seconds / times for key in ("koloss", "floor"))
            table.add(name, d, ours, floor, ratio(laps["koloss"], laps["floor"]))
    return table


class _Recorded:
    """A loss that writes down where it is evaluated."""

    def __init__(self, loss):
        self.loss, self.dimension, self.landmarks = loss, loss.dimension, loss.landmarks
        self.calls = []

    def __call__(self, X):
        self.calls.append((self.loss, X.copy()))
        return self.loss(X)

    def gradient(self, X):
        self.calls.append((self.loss.gradient, X.copy()))
        return self.loss.gradient(X)


def _searches() -> Table:
    table = Table(
        "Searches from many starts (multistart) over their floor",
        ["loss", "dimension", "koloss: ms", "floor: ms", "time / floor", "evaluations", "calls"],
        "The floor: the losses and gradients that a search asks for, and nothing else, in as many calls. Evaluations: rows of these.",
    )
    for name, d, loss, actions in _losses():
        recorded = _Recorded(loss)
        multistart(recorded, actions, rng=0)
        calls = recorded.calls
        laps = cpu_race(
            {
                "koloss": lambda a=actions, w=loss: multistart(w, a, rng=0),
                "floor": lambda c=calls: [function(X) for function, X in c],
            },
            repeats=15,
            budget=6.0,
        )
        ours, floor = (1e3 * laps[key].seconds for key in ("koloss", "floor"))
        rows = sum(len(X) for _, X in calls)
        table.add(name, d, ours, floor, ratio(laps["koloss"], laps["floor"]), rows, len(calls))
    return table


def _losses():
    for d, centres in ((1, 10), (2, 20), (5, 100), (10, 200), (10, 2000), (20, 50)):
        rng = np.random.default_rng(d)
        X, c = rng.uniform(-1, 1, (centres, d)), rng.normal(size=centres)
        loss = kl.KernelLoss(kl.Gaussian(0.3 * d**0.5), X, c)
        yield f"Gaussian, {centres} centres", d, loss, kl.Box(-np.ones(d), np.ones(d))
    A = rng.normal(size=(8, 8))
    quadratic = kl.QuadraticLoss(A + A.T, rng.normal(size=8))
    yield "quadratic, not convex", 8, quadratic, kl.Box(-np.ones(8), np.ones(8))
