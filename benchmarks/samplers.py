"""Exact draws on the ball against a general sampler: draws a second, cost with the dimension, cost of a round."""

from __future__ import annotations

import time

import emcee
import numpy as np

from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio, spread
from koloss.samplers.quadratic_ball import QuadraticBall
from tests.support.densities import FAMILIES, hostile


def run(full: bool = False) -> list[Table]:
    return [_acceptance(full), _against_emcee(full), _dimensions(full), _rounds()]


def _density(d, scale, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    b = rng.normal(size=d)
    return (A + A.T) * scale / np.linalg.norm(A + A.T, 2), scale * b / np.linalg.norm(b)


def _acceptance(full) -> Table:
    instances = 10 if full else 4
    table = Table(
        f"quadratic_ball: smallest acceptance of {instances} densities, |B| = s, and |b| = s where b is free",
        ["family", *(f"s=1e{k}, d={d}" for k in (3, 6) for d in (2, 10, 50))],
        "Share of proposals accepted by the envelope that the draws ended on. Goal: 0.05.",
    )
    for family in FAMILIES:
        row = []
        for s in (1e3, 1e6):
            for d in (2, 10, 50):
                densities = [
                    hostile(family, d, s, np.random.default_rng([k, d])) for k in range(instances)
                ]
                rates = [
                    QuadraticBall().draw(B, b, 2000, rng=k).acceptance
                    for k, (B, b) in enumerate(densities)
                ]
                row.append(min(rates))
        table.add(family, *row)
    return table


def _against_emcee(full) -> Table:
    table = Table(
        "exp(x'Bx + b'x) on the ball: independent draws a second",
        [
            "dimension",
            "scale",
            "koloss: draws/s",
            "acceptance",
            "emcee: effective draws/s",
            "ratio",
        ],
        "emcee: 4 d walkers or 32, affine-invariant moves, effective draws by its own autocorrelation time.",
    )
    for d in (3, 10, *((20,) if full else ())):
        for scale in (10.0, 100.0):
            B, b = _density(d, scale)
            ours = cpu_race(
                {"koloss": lambda B=B, b=b: QuadraticBall().draw(B, b, 20_000, rng=0)}, repeats=5
            )["koloss"]
            rates = 20_000 / np.array(ours.runs)
            theirs, rate = _emcee(B, b, 4000 if full else 2000), spread(rates).median
            times = spread(rates / theirs)
            table.add(d, scale, rate, ours.result.acceptance, theirs, times)
    return table


def _emcee(B, b, steps):
    d, walkers = len(b), max(4 * len(b), 32)

    def log_density(X):
        inside = np.sum(X**2, axis=1) <= 1
        return np.where(inside, np.einsum("ij,jk,ik->i", X, B, X) + X @ b, -np.inf)

    rng = np.random.default_rng(0)
    start = (
        QuadraticBall().draw(B, b, walkers, rng=rng).points
    )  # from the density itself: no warm-up to pay
    sampler = emcee.EnsembleSampler(walkers, d, log_density, vectorize=True)
    sampler.random_state = np.random.RandomState(0).get_state()
    begin = time.process_time()
    sampler.run_mcmc(start, steps)
    seconds = time.process_time() - begin
    tau = np.max(sampler.get_autocorr_time(quiet=True, tol=0))
    return steps * walkers / tau / seconds


def _dimensions(full) -> Table:
    table = Table(
        "quadratic_ball: cost with the dimension (scale 100)",
        ["dimension", "set-up: ms", "µs a draw", "acceptance", "envelope"],
    )
    for d in (2, 5, 10, 20, 50, *((100,) if full else ())):
        B, b = _density(d, 100.0)
        laps = cpu_race(
            {
                "one": lambda B=B, b=b: QuadraticBall().draw(B, b, 1, rng=0),
                "many": lambda B=B, b=b: QuadraticBall().draw(B, b, 20_000, rng=0),
            },
            repeats=7,
        )
        setup, many = laps["one"].seconds, laps["many"]
        table.add(
            d,
            setup * 1e3,
            (many.seconds - setup) / 20_000 * 1e6,
            many.result.acceptance,
            many.result.envelope,
        )
    return table


def _rounds() -> Table:
    table = Table(
        "quadratic_ball: 1,000 rounds, one draw each, from a slowly growing density in 10 dimensions",
        ["start", "seconds", "over warm"],
    )

    def play(warm):
        rng, sampler = np.random.default_rng(0), QuadraticBall()
        B, b = np.zeros((10, 10)), np.zeros(10)
        for _ in range(1000):
            A = rng.normal(size=(10, 10))
            B, b = B + 0.05 * (A + A.T), b + 0.3 * rng.normal(size=10)
            (sampler if warm else QuadraticBall()).draw(B, b, 1, rng=rng)

    laps = cpu_race({"warm": lambda: play(True), "cold": lambda: play(False)}, repeats=3)
    for name, lap in laps.items():
        table.add(name, lap.seconds, ratio(lap, laps["warm"]))
    return table
