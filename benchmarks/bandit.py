"""The bandit learner against the textbook loop: time, regret, single calls, growth, and the share of BLAS."""

from __future__ import annotations

import copy
import time
from contextlib import nullcontext
from functools import partial
from statistics import median

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import race, slope

KERNEL = kl.Gaussian(0.3)
ROUNDS, RANK, SEEDS = 10_000, 59, 20
BOX = {"ridge": 0, "bonus": False, "loss_class": "rank-one", "loss_norm": 1.0}
"""Algorithm 1 as its box reads, which the textbook way is; `ridge.py` measures the refresh with a penalty."""


def run(full: bool = False) -> list[Table]:
    points = kl.Points(np.random.default_rng(5).random((1000, 2)))
    proxy = kl.pivoted_cholesky(KERNEL, points, rank=RANK)
    losses = _game(points, ROUNDS)
    make = partial(_learner, points, proxy)
    return [
        _against_textbook(make, losses, full),
        _single_calls(make, losses),
        _lock(make, losses),
        _growth(full),
        _blas(make, losses),
    ]


def _learner(points, proxy, seed=0, horizon=ROUNDS, **settings):
    return kl.BanditExpWeights(
        points,
        KERNEL,
        horizon=horizon,
        proxy=proxy,
        rank=proxy.rank,
        loss_range=(0, 1),
        rng=seed,
        **BOX,
        **settings,
    )


def _game(points, rounds):
    """Bumps around a place that jumps every 2,000 rounds, with noise: losses of every action."""
    rng = np.random.default_rng(99)
    places = np.where((np.arange(rounds) // 2000 % 2)[:, None] == 0, [0.3, 0.3], [0.7, 0.6])
    return KERNEL(places + 0.05 * rng.normal(size=(rounds, 2)), points.X)


def textbook(learner, losses, seed=0):
    """Algorithm 1 as its box reads: one covariance and one solve per round, N weights."""
    engine, eta, gamma = learner.engine, learner.rates.learning_rate, learner.rates.exploration
    Phi, pi, center = engine.features, engine.weights, engine.center
    rng, weights, paid = np.random.default_rng(seed), np.ones(len(Phi)), 0.0
    for row in losses:
        p = (1 - gamma) * weights / weights.sum() + gamma * pi
        index = np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right")
        paid += row[index]
        sigma = (Phi * p[:, None]).T @ Phi
        estimate = np.linalg.solve(sigma, Phi[index]) * (row[index] - center)
        weights = weights * np.exp(-eta * (Phi @ estimate))
        weights /= weights.max()
    return paid


def in_batches(learner, losses, count):
    """Play in whole epochs; the losses paid."""
    paid = 0.0
    for start in range(0, len(losses), count):
        batch = learner.ask(min(count, len(losses) - start))
        values = losses[np.arange(start, start + len(batch)), batch.index]
        learner.tell(batch, values)
        paid += values.sum()
    return paid


def one_by_one(learner, losses):
    """Play single decisions; the losses paid."""
    paid = 0.0
    for row in losses:
        decision = learner.ask()
        value = float(row[decision.index])
        learner.tell(decision, value)
        paid += value
    return paid


def _against_textbook(make, losses, full) -> Table:
    table = Table(
        f"Bandit: 1,000 points of the unit square, bandwidth 0.3, rank {RANK}, {ROUNDS:,} rounds",
        [
            "player",
            "seconds",
            "textbook / player",
            "at its slower quartile",
            f"regret, mean of {SEEDS}",
            "s.e.",
            "regret / textbook",
        ],
        "The textbook's regret is that of epochs of one round, which plays the same step by step.",
    )
    plain, best = make(), losses.sum(axis=0).min()
    players = {
        "ask(rank)": lambda learner: in_batches(learner, losses, RANK + 1),
        "ask(2 rank)": lambda learner: in_batches(learner, losses, 2 * (RANK + 1)),
        "ask(3 rank)": lambda learner: in_batches(learner, losses, 3 * (RANK + 1)),
        "ask(4 rank)": lambda learner: in_batches(learner, losses, 4 * (RANK + 1)),
        "single calls": lambda learner: one_by_one(learner, losses),
    }
    repeats = 7 if full else 5
    seconds = {"textbook": [], **{name: [] for name in players}}
    for seed in range(repeats):  # in turn; learners are made before the clock starts
        seconds["textbook"].append(_clock(lambda seed=seed: textbook(plain, losses, seed)))
        for name, play in players.items():
            for _ in range(3):
                learner = make(seed)
                seconds[name].append(_clock(lambda play=play, learner=learner: play(learner)))
    slow = median(seconds["textbook"])
    reference = np.array([one_by_one(make(seed, batch=1), losses) - best for seed in range(SEEDS)])
    table.add("textbook", slow, 1.0, 1.0, float(reference.mean()), _error(reference), 1.0)
    for name, play in players.items():
        own = sorted(seconds[name])
        regret = np.array([play(make(seed)) - best for seed in range(SEEDS)])
        table.add(
            name,
            median(own),
            slow / median(own),
            slow / own[3 * len(own) // 4],
            float(regret.mean()),
            _error(regret),
            float(regret.mean() / reference.mean()),
        )
    return table


def _clock(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _error(values) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _single_calls(make, losses) -> Table:
    table = Table(
        "Bandit: single calls, amortised over the epochs they open",
        ["batch", "ask: µs", "tell: µs", "rounds an epoch"],
        "Medians of 5 games; the goal is 40 µs each.",
    )
    for batch in ("auto", 1):
        asks, tells, lengths = [], [], []
        for seed in range(5):
            learner, clock = make(seed, batch=batch), time.perf_counter
            asked = told = 0.0
            for row in losses:
                start = clock()
                decision = learner.ask()
                middle = clock()
                value = float(row[decision.index])
                before = clock()
                learner.tell(decision, value)
                asked, told = asked + middle - start, told + clock() - before
            asks.append(asked / len(losses) * 1e6)
            tells.append(told / len(losses) * 1e6)
            lengths.append(len(losses) / learner.diagnostics.epoch)
        table.add(str(batch), median(asks), median(tells), median(lengths))
    return table


def _lock(make, losses) -> Table:
    """Single calls with the lock that makes them atomic, and with one that does nothing."""
    table = Table(
        "Bandit: what the lock costs",
        ["batch", "locked: µs a round", "not locked", "ratio"],
        "Ask and tell, single calls, in turn; medians of 9 games.",
    )
    for batch in ("auto", 1):
        new = make(0, batch=batch)

        def play(locked, new=new):
            learner = copy.deepcopy(new)
            if not locked:
                learner._lock = nullcontext()
            return _clock(lambda: one_by_one(learner, losses[:1000]))

        runs = [(play(True), play(False)) for _ in range(9)]
        locked, free = (median(run) / 1000 * 1e6 for run in zip(*runs, strict=True))
        table.add(str(batch), locked, free, locked / free)
    return table


def _growth(full) -> Table:
    table = Table(
        "Bandit: time a round in whole epochs of rank decisions",
        ["points N", "rank m", "µs a round", "ns a round / (N m)"],
        "The last column does not grow where the cost is at most N·m.",
    )
    sizes = [(500 * 2 ** (k + 1), 60) for k in range(-1, 5 if full else 4)] + [
        (2000, m) for m in (15, 30, 120)
    ]
    seconds = []
    for N, m in sizes:
        points = kl.Points(np.random.default_rng(0).random((N, 2)))
        kernel = kl.Gaussian(0.15)
        learner = kl.BanditExpWeights(
            points, kernel, horizon=10**6, proxy="pivoted_cholesky", rank=m, loss_bound=1.0, rng=0, **BOX
        )  # fmt: skip
        rows = kernel(points.X, points.X[:1])[:, 0]

        def play(learner=learner, rows=rows, m=m):
            for _ in range(10):
                batch = learner.ask(m)
                learner.tell(batch, rows[batch.index])

        seconds.append(race({"play": play}, repeats=9)["play"].seconds / (10 * m))
        table.add(N, m, seconds[-1] * 1e6, seconds[-1] * 1e9 / (N * m))
    count = len(sizes) - 3
    power_n = slope([N for N, _ in sizes[:count]], seconds[:count])
    order = np.argsort([m for N, m in sizes if N == 2000])
    at_2000 = [(m, s) for (N, m), s in zip(sizes, seconds, strict=True) if N == 2000]
    at_2000 = [at_2000[k] for k in order]
    power_m = slope([m for m, _ in at_2000], [s for _, s in at_2000])
    table.note += f" Fitted: time ∝ N^{power_n:.2f} and m^{power_m:.2f}."
    return table


def _blas(make, losses) -> Table:
    """The same linear algebra without anything around it."""
    table = Table(
        "Bandit: share of the time in BLAS and LAPACK",
        ["player", "seconds", "linear algebra alone", "share"],
        "The linear algebra alone: the same products, factorisations and solves on arrays of the same size.",
    )
    learner = make()
    features = learner.engine.features
    scaled, count = features * 0.03, RANK + 1
    theta, rows = np.ones(features.shape[1]), features[:count]
    epochs = -(-ROUNDS // count)

    def algebra():
        for _ in range(epochs):
            features @ theta
            factor, _ = dpotrf(dsyrk(1.0, scaled, trans=1, lower=1), lower=1)
            dpotrs(factor, theta[:count] @ rows, lower=1)

    seconds = median(
        _clock(lambda learner=learner: in_batches(learner, losses, count))
        for learner in [make(seed) for seed in range(9)]
    )
    alone = race({"algebra": algebra}, repeats=9)["algebra"].seconds
    table.add("ask(rank)", seconds, alone, alone / seconds)
    return table
