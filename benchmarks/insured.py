"""The insured learner in single calls: against the textbook loop, other players, and the linear algebra it cannot avoid."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
from scipy.linalg.blas import dgemv, dsymv, dsyr

import koloss as kl
from arena.base import Game
from arena.baselines import GPUCB
from benchmarks.tables import Table
from benchmarks.timing import exponent, ratio, spread
from koloss.guarantees import insured
from koloss.learners.insured.exploration import Exploration
from koloss.learners.insured.forecast import DISCOUNTS

KERNEL = kl.Gaussian(0.5)
ROUNDS, RANK = 2000, 29
FORECASTS = [(discount, 0.05) for discount in DISCOUNTS]  # and a fixed noise


def run(full: bool = False) -> list[Table]:
    return [_against_others(7 if full else 5), _growth(full), _premium()]


def _points(N):
    X = np.random.default_rng(0).uniform(-1, 1, (4 * N, 2))
    return kl.Points(X[np.sum(X**2, axis=1) <= 1][:N])


def _losses(points):
    """A fixed loss in [0, 1]."""
    K = KERNEL(points.X, points.X)
    return (0.8 - 0.5 * K[7] + 0.2 * K[123]).tolist()


def _insured(points, horizon, rank=RANK, **settings):
    return kl.InsuredBandit(
        points, KERNEL, horizon=horizon, loss_range=(0, 1), rank=rank - 1, rng=0, **settings
    )


def one_by_one(learner, losses, rounds):
    """Seconds of a loop of single calls."""
    start = time.process_time()
    for _ in range(rounds):
        decision = learner.ask()
        learner.tell(decision, losses[decision.index])
    return time.process_time() - start


class Textbook:
    """The same kind of learner as it would be written first: normal equations, widths and inverses anew every round."""

    def __init__(self, learner):
        engine, self.rng = learner.engine, np.random.default_rng(0)
        self.W, self.design, self.center = np.array(engine.features), engine.weights, engine.center
        self.F = np.array(_forecast_features(learner))
        N, m = self.F.shape
        self.gamma = engine.problem.leverage / (0.75 * insured.scale(engine.problem, ROUNDS) - 1)
        self.A = [np.eye(m) for _ in FORECASTS]
        self.b = [np.zeros(m) for _ in FORECASTS]
        self.errors, self.S, self.paid = np.zeros(len(FORECASTS)), np.zeros(N), 0.0

    def ask(self):
        covariances = [np.linalg.inv(A) for A in self.A]
        self.theta = [C @ b for C, b in zip(covariances, self.b, strict=True)]
        k = int(np.argmin(self.errors))
        self.mean = self.F @ self.theta[k]
        width = np.sqrt(np.sum((self.F @ covariances[k]) * self.F, axis=1))
        self.choice = int(np.argmin(self.mean - 0.3 * width))
        p = self.gamma * self.design
        p[self.choice] += 1 - self.gamma
        self.p, self.index = p, int(self.rng.choice(len(p), p=p / p.sum()))
        return self

    def tell(self, decision, loss):
        y, i = loss - self.center, self.index
        sigma = (self.W * self.p[:, None]).T @ self.W
        k = self.W @ np.linalg.solve(sigma, self.W[i])
        self.S += self.mean + k * (y - self.mean[i])
        self.paid += y
        self.regret = self.paid - self.S.min()
        for n, (discount, ridge) in enumerate(FORECASTS):
            self.errors[n] = 0.98 * self.errors[n] + (y - self.F[i] @ self.theta[n]) ** 2
            prior = (1 - discount) * np.eye(len(self.b[n]))
            self.A[n] = discount * (self.A[n] + np.outer(self.F[i], self.F[i]) / ridge) + prior
            self.b[n] = discount * (self.b[n] + self.F[i] * y / ridge)


def _forecast_features(learner):
    return learner._forecaster.features


def _floor(learner, rounds):
    """Seconds of the linear algebra alone: per round one product with all features and one step of each regression."""
    F = np.asfortranarray(_forecast_features(learner))
    m = F.shape[1]
    C, u, v = [np.eye(m, order="F") for _ in FORECASTS], F[0].copy(), np.zeros(len(F))
    start = time.process_time()
    for _ in range(rounds):
        for one in C:
            dsymv(1.0, one, u, lower=1)
            dsyr(-1e-9, u, lower=1, a=one, overwrite_a=1)
        v += dgemv(1.0, F, u)
    return time.process_time() - start


def _against_others(repeats) -> Table:
    table = Table(
        f"Insured: 400 points of the unit disc, {RANK} features, {ROUNDS:,} single calls",
        ["player", "µs per round", "over insured", "over exponential weights"],
        "CPU time, medians; players in turn. The aim is at most 2.2 times exponential weights. Redesigns of the exploration are included.",
    )
    points = _points(400)
    losses = _losses(points)
    game = Game("", "held-out", "kind", "", points.X, KERNEL, ROUNDS, kl.games.Adversary)
    players = {
        "insured": lambda: one_by_one(_ready(_insured(points, ROUNDS)), losses, ROUNDS),
        "insured, 20,000 rounds": lambda: (
            one_by_one(_ready(_insured(points, 20_000)), losses, 20_000) / 10
        ),
        "insured, Thompson": lambda: one_by_one(
            _ready(_insured(points, ROUNDS, policy="thompson")), losses, ROUNDS
        ),
        "textbook": lambda: one_by_one(Textbook(_insured(points, ROUNDS)), losses, ROUNDS),
        "exponential weights": lambda: one_by_one(
            kl.BanditExpWeights(
                points, KERNEL, horizon=ROUNDS, loss_range=(0, 1), rank=RANK - 1, rng=0
            ),
            losses,
            ROUNDS,
        ),
        "GP-UCB (one regression)": lambda: one_by_one(GPUCB(game), losses, ROUNDS),
        "linear algebra alone": lambda: _floor(_insured(points, ROUNDS), ROUNDS),
    }
    seconds = {name: [] for name in players}
    for _ in range(repeats):
        for name, play in players.items():
            seconds[name].append(play() / ROUNDS * 1e6)
    for name, values in seconds.items():
        against = (ratio(values, seconds[who]) for who in ("insured", "exponential weights"))
        table.add(name, median(values), *against)
    return table


def _ready(learner):
    assert learner.rank == RANK, learner.rank
    return learner


def _growth(full) -> Table:
    table = Table(
        "Insured: time per round against the size of the game",
        ["points N", "features m", "µs per round"],
        "At most N·m per round, and m² for each of three regressions.",
    )
    sizes = [(400, 29), (1600, 29), (6400, 29), (1600, 15), (1600, 45)]
    sizes += [(25_600, 29)] if full else []
    times = {}
    for N, m in sizes:
        points = _points(N)
        losses = _losses(points)
        learner = _insured(points, 20_000, rank=m)
        one_by_one(learner, losses, 500)
        times[N, m] = [one_by_one(learner, losses, 500) / 500 * 1e6 for _ in range(5)]
        table.add(N, m, spread(times[N, m]))
    many = [N for N, m in sizes if m == 29]
    power = exponent(many, [times[N, 29] for N in many])
    table.note += (
        f" Growth exponent in N: {power.median:.2f} ({power.low:.2f} to {power.high:.2f})."
    )
    return table


def _premium() -> Table:
    """What exploring costs in a round of a fixed game, once gaps have grown."""
    table = Table(
        "Insured: cost of exploration per round in a stationary game of 20,000 rounds",
        ["rounds played", "features m", "priced", "over the sum", "fixed share / priced"],
        "Losses of the actions explored above the best one. The sum is Δ/(D + Δt) over the m actions with the largest weights "
        "of the first design (theory: how little exploration is enough); a fixed share is that of the plain version there.",
    )
    points = _points(400)
    losses, n = np.array(_losses(points)), 20_000
    learner = kl.InsuredBandit(points, KERNEL, horizon=n, loss_range=(0, 1), rng=0)
    problem, m = learner.engine.problem, learner.rank
    first = Exploration(1, learner.engine.features, learner.engine.weights)
    gaps, best = losses - losses.min(), int(losses.argmin())
    budget, premium = (share * insured.scale(problem, n) for share in (1.25, 0.75))
    often = np.argsort(-first.weights)[:m]
    fixed = problem.leverage / (premium - 1) * float(first.weights @ gaps)
    for t in (2000, n):
        room = budget - 1 + gaps * t
        place = first.priced(2, room / (budget - 1))
        share = float(np.max(place.about(best)[1] / room))
        cost = share * float(place.weights @ gaps)
        table.add(t, m, cost, cost / float(np.sum(gaps[often] / room[often])), fixed / cost)
    return table
