"""A geometric program solved again every round: koloss against CVXPY, compiled once or built anew."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio
from koloss.oracles import GeometricProgram

ROUNDS, FEW, FEWER = 200, 20, 2
"""Rounds in one run: of koloss, of CVXPY compiled once, of CVXPY built anew."""


def run(full: bool = False) -> list[Table]:
    sizes = [(2, 3), (5, 10), (10, 30), (20, 60), *(((50, 200),) if full else ())]
    return [_rounds(sizes), _hostile(full)]


def _rounds(sizes) -> Table:
    table = Table(
        "Geometric program, cumulative coefficients of a game: ms a round",
        [
            "set",
            "d",
            "terms",
            "koloss",
            "no start",
            "compiled",
            "anew",
            "compiled/koloss",
            "anew/koloss",
            "gap",
            "above",
        ],
        "Every round adds a random non-negative vector to the coefficients; koloss starts from the last answer, or "
        "without a start. CVXPY: a disciplined geometric program with parameters, compiled once or anew every round, "
        "Clarabel at its own accuracy. Gap: the largest that koloss proved, relative to the value. Above: the largest "
        "value of CVXPY above that of koloss, relative, its point moved into the set.",
    )
    for d, m in sizes:
        for name in ("ball", "box"):
            E, C, actions = game(d, m, name)
            program = GeometricProgram(kl.Posynomial(E), actions)
            compiled = Compiled(E, actions)
            laps = cpu_race(
                {
                    "start": lambda p=program, C=C: play(p, C),
                    "fresh": lambda p=program, C=C: [p.minimize(c) for c in C],
                    "compiled": lambda p=compiled, C=C: [p.minimize(c) for c in C[:FEW]],
                    "anew": lambda E=E, a=actions, C=C: [
                        Compiled(E, a).minimize(c) for c in C[:FEWER]
                    ],
                },
                repeats=3,
                budget=30.0,
            )
            counts = {"start": ROUNDS, "fresh": ROUNDS, "compiled": FEW, "anew": FEWER}
            ms = {key: 1e3 * lap.seconds / counts[key] for key, lap in laps.items()}
            ours = laps["start"].result
            loss = kl.Posynomial(E).features
            above = max(
                float(loss(actions.project(x[None]))[0] @ c) / best.value - 1
                for x, c, best in zip(laps["compiled"].result, C, ours, strict=False)
            )
            table.add(
                name,
                d,
                m,
                ms["start"],
                ms["fresh"],
                ms["compiled"],
                ms["anew"],
                ratio(laps["compiled"], laps["start"], ROUNDS / FEW),
                ratio(laps["anew"], laps["start"], ROUNDS / FEWER),
                max(best.gap / best.value for best in ours),
                above,
            )
    return table


def _hostile(full) -> Table:
    count = 300 if full else 100
    table = Table(
        f"Geometric program: {count} hostile ones each",
        ["family", "median gap", "largest gap", "gap > 1e-9", "ms"],
        "Relative gaps that koloss proved, without a start. Ten dimensions, thirty terms, exponents of standard "
        "deviation 0.3, 1.5 or 4; coefficients from e^-30 to e^30. Thin: the radius is 1e-12 to 0.1 above the norm of "
        "the lower ends. No lower ends: zero, and a term with a negative exponent in every coordinate.",
    )
    rng = np.random.default_rng(1)
    for family in ("positive ball", "box", "thin", "no lower ends"):
        gaps, programs = [], []
        for k in range(count):
            E, c = (
                (0.3, 1.5, 4.0)[k % 3] * rng.normal(size=(30, 10)),
                np.exp(10 * rng.normal(size=30)),
            )
            lower = rng.uniform(0.01, 0.5, 10)
            if family == "box":
                actions = kl.Box(lower, lower * rng.uniform(1, 10, 10))
            elif family == "thin":
                radius = np.linalg.norm(lower) * (1 + 10.0 ** rng.uniform(-12, -1))
                actions = kl.PositiveBall(10, radius, lower)
            else:
                actions = kl.PositiveBall(10, 1.0, lower / 4 if family == "positive ball" else 0.0)
            if family == "no lower ends":
                E[:10] = -np.diag(rng.uniform(0.1, 2, 10))
            programs.append((GeometricProgram(kl.Posynomial(E), actions), c))
        lap = cpu_race({"all": lambda ps=programs: [p.minimize(c) for p, c in ps]}, repeats=1)[
            "all"
        ]
        gaps = np.array([best.gap / best.value for best in lap.result])
        table.add(
            family,
            float(np.median(gaps)),
            float(gaps.max()),
            int(np.sum(gaps > 1e-9)),
            1e3 * lap.seconds / count,
        )
    return table


def game(d, m, name):
    """Exponents of both signs, the coefficients of every round, and the set."""
    rng = np.random.default_rng([d, m])
    E = rng.normal(size=(m, d))
    C = np.cumsum(rng.exponential(size=(ROUNDS, m)), axis=0)
    lower = rng.uniform(0.1, 0.5, d) / math.sqrt(d)
    actions = kl.PositiveBall(d, 1.0, lower) if name == "ball" else kl.Box(lower, 4 * lower)
    return E, C, actions


def play(program, C):
    """All rounds, each from the answer of the one before."""
    found = [program.minimize(C[0])]
    for c in C[1:]:
        found.append(program.minimize(c, start=found[-1].point))
    return found


class Compiled:
    """The same program in CVXPY, with the coefficients as parameters."""

    def __init__(self, E, actions) -> None:
        x = cp.Variable(E.shape[1], pos=True)
        self.coefficients = cp.Parameter(len(E), pos=True)
        constraints = [x >= np.asarray(actions.lower)]
        if isinstance(actions, kl.Box):
            constraints.append(x <= np.asarray(actions.upper))
        else:
            constraints.append(cp.sum(x**2) <= actions.radius**2)
        objective = cp.Minimize(self.coefficients @ cp.gmatmul(E, x))
        self.problem, self.x = cp.Problem(objective, constraints), x

    def minimize(self, c):
        self.coefficients.value = c
        self.problem.solve(gp=True, solver="CLARABEL")
        return self.x.value
