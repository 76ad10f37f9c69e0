"""The bandit learner against the textbook loop: time, regret, single calls, large batches, and the share of BLAS."""

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
from benchmarks.timing import cpu_race, ratio, spread

KERNEL = kl.Gaussian(0.3)
ROUNDS, RANK, SEEDS = 10_000, 59, 20
MANY = 100_000
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
        _many_at_once(9 if full else 5),
        _lock(make, losses),
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
            learners = [make(seed) for _ in range(3)]
            seconds[name].append(median(_clock(partial(play, learner)) for learner in learners))
    reference = np.array([one_by_one(make(seed, batch=1), losses) - best for seed in range(SEEDS)])
    table.add(
        "textbook",
        median(seconds["textbook"]),
        1.0,
        float(reference.mean()),
        _error(reference),
        1.0,
    )
    for name, play in players.items():
        regret = np.array([play(make(seed)) - best for seed in range(SEEDS)])
        table.add(
            name,
            median(seconds[name]),
            ratio(seconds["textbook"], seconds[name]),
            float(regret.mean()),
            _error(regret),
            float(regret.mean() / reference.mean()),
        )
    return table


def _clock(call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


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
            learner, clock = make(seed, batch=batch), time.process_time
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
        table.add(str(batch), spread(asks), spread(tells), median(lengths))
    return table


def _many_at_once(repeats) -> Table:
    """A batch so large that Python around the calls is nothing: what a decision costs."""
    table = Table(
        f"Bandit: a batch of {MANY:,} decisions, asked at once and told at once",
        [
            *("actions", "rank", "refresh: ns per decision", "ask, without it", "tell"),
            *("floor", "without the refresh / floor"),
        ],
        "The floor, as one would write it: `rng.random`, `searchsorted` in the cumulative sums, the rows of actions, probabilities and features, and one "
        f"product; without ids, checks and a record of who waits. A share below 1 is the searches, which are made in order. Medians of {repeats} batches in turn.",
    )
    for N in (1000, 1_000_000):
        points = kl.Points(np.random.default_rng(5).random((N, 2)))
        proxy = kl.pivoted_cholesky(KERNEL, points, rank=20)
        learner = _learner(points, proxy, horizon=10**7, design="uniform")
        laps = [_lap(learner) for _ in range(repeats + 1)]  # the first one warms up
        times = np.array(laps[1:]).T / MANY * 1e9
        _, draws, tells, floors = times
        table.add(N, proxy.rank, *map(spread, times), spread((draws + tells) / floors))
    return table


def _lap(learner) -> tuple[float, float, float, float]:
    """Seconds of a refresh, of the rest of `ask`, of `tell`, and of the same draws and estimate by hand."""
    told, rng, clock = np.random.default_rng(6).random(MANY), learner._rng, time.process_time
    start = clock()
    law = learner._exp2.new_epoch(rng, at_once=True).law
    refreshed = clock()
    batch = learner.ask(MANY)
    asked = clock()
    learner.tell(batch, told)
    heard = clock()
    _floor(law, learner.engine, told, rng)
    end = clock()
    refresh = refreshed - start
    return refresh, asked - refreshed - refresh, heard - asked, end - heard


def _floor(law, engine, told, rng):
    """Draws and an estimate, by hand."""
    index = law.cdf.searchsorted(rng.random(len(told)), side="right")
    actions, p = engine.points[index], law.p[index]
    estimate, _ = dpotrs(law.factor, told @ engine.features[index], lower=1)
    return actions, p, estimate


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
        table.add(str(batch), locked, free, ratio(*zip(*runs, strict=True)))
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
    alone = cpu_race({"algebra": algebra}, repeats=9)["algebra"]
    shares = spread(np.array(alone.runs) / seconds)
    table.add("ask(rank)", seconds, alone.seconds, shares)
    return table
