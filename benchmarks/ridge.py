"""The ridge against the learner before it: bounds and regret, and what the choice of a penalty and a refresh cost."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import numpy as np
from scipy.linalg.blas import dsyrk

import koloss as kl
from benchmarks.tables import Table
from benchmarks.timing import cpu_race, ratio
from koloss.core import linalg
from koloss.designs.ridge import ridge_design
from koloss.learners.bandit import candidates

KERNELS = {
    "Gaussian .5": kl.Gaussian(0.5),
    "Gaussian .2": kl.Gaussian(0.2),
    "Matérn 1.5": kl.Matern(1.5, 0.5),
    "Matérn .5": kl.Matern(0.5, 0.5),
}
CLASSES = {"hull": "rank-one", "norm": "general"}
ROUNDS, EPOCH, BLOCK = 4000, 8, 200
REGRETS = ("moving, former", "moving", "hostile, former", "hostile", "replayed, former")
FORMER = {"ridge": 0, "bonus": False}


def run(full: bool = False) -> list[Table]:
    seeds = 20 if full else 5
    return [_games(seeds), _smoothness(seeds), _set_up(), _nets(), _refresh(full)]


def _points(N=256):
    return kl.Points(np.random.default_rng(0).random((N, 2)))


def _learner(points, kernel, loss_class, seed=0, **settings):
    return kl.BanditExpWeights(
        points,
        kernel,
        horizon=ROUNDS,
        loss_range=(0, 1),
        loss_class=CLASSES[loss_class],
        loss_norm=1.0,
        rng=seed,
        **settings,
    )


# Bounds and regret.


class Losses:
    """Losses of a class on points, up to a constant: of norm 1, or ±K(·, y)."""

    def __init__(self, kernel, X, hull):
        self.K, self.hull = np.asarray(kernel(X, X)), hull
        self.root = np.linalg.cholesky(self.K + 1e-9 * np.eye(len(X)))

    def of(self, direction):
        """The loss of the class that is most like this direction of the RKHS, moved into [0, 1]."""
        if self.hull:
            gains = self.root @ direction  # ⟨Φ(y), direction⟩
            y = int(np.argmax(np.abs(gains)))
            values = np.sign(gains[y]) * self.K[:, y]
        else:
            values = self.root @ direction / max(np.linalg.norm(direction), 1e-12)
        middle, width = (values.max() + values.min()) / 2, max(np.ptp(values), 1.0)
        return 0.5 + (values - middle) / width

    def dip(self, y):
        """Smallest at the action y."""
        return self.of(-self.root[y])


def moving(losses, _, rng):
    """A fixed optimum in every second block; in the others it jumps, or is a random function of the class."""
    home, place = rng.integers(len(losses.K), size=2)
    for t in range(0, ROUNDS, EPOCH):
        block, within = divmod(t, BLOCK)
        if block % 2 == 0:
            yield losses.dip(home)
            continue
        if within < EPOCH:
            place = rng.integers(len(losses.K))
            function = losses.of(rng.normal(size=len(losses.K)))
        yield losses.dip(place) if block % 4 == 1 else function


def hostile(losses, learner, rng):
    """Lures for a while, then hides a target: the loss whose estimate there is farthest above the truth."""
    target = rng.integers(len(losses.K))
    for t in range(0, ROUNDS, EPOCH):
        if t < 0.3 * ROUNDS:
            yield losses.dip(int(np.argmin(learner.distribution)))
            continue
        exp2 = learner._exp2
        law, features = exp2.next_law(), exp2.engine.features
        response = law.p * (features @ linalg.solve(law.factor, features[target]))
        response[target] -= 1.0
        yield losses.of(losses.root.T @ response)


def regret(learner, sequence):
    """Σ p·ℓ, less that of the best action, in whole epochs; and the losses."""
    paid, told = 0.0, []
    for loss in sequence:
        paid += EPOCH * float(learner.distribution @ loss)
        batch = learner.ask(EPOCH)
        learner.tell(batch, loss[batch.index])
        told.append(loss)
    return paid - EPOCH * float(np.sum(told, axis=0).min()), told


def _games(seeds: int) -> Table:
    table = Table(
        f"The ridge against the learner before it: 256 points of the square, {ROUNDS:,} rounds, {seeds} seeds",
        ["kernel", "class", "former", "bound", "k", "λ", "d*", "e*", *REGRETS, "worst / bound"],
        "Losses in [0, 1], norm 1. Former: the bound of the former learner. Bounds are for epochs of one round, regret (mean ± standard "
        "error) of whole epochs of 8. Moving: oblivious. Hostile: sees the player's law, and hides a target in the bias of its "
        "estimates. Replayed: the former learner hears what was told to the ridge. Trivial bound: 4,000.",
    )
    points = _points()
    for name, kernel in KERNELS.items():
        for loss_class in CLASSES:
            losses = Losses(kernel, points.X, loss_class == "hull")
            make = partial(_learner, points, kernel, loss_class)
            runs = [_seed(make, losses, seed) for seed in range(seeds)]
            former, ridge = make(batch=1, **FORMER), make(batch=1)
            before, now = (sum(one.guarantee().terms.values()) for one in (former, ridge))
            used = ridge.engine.problem.ridge
            numbers = (used.free - 1, used.penalty, used.dimension, used.spread)
            worst = max(max(run[1], run[3]) for run in runs) / now
            columns = (_mean(list(column)) for column in zip(*runs, strict=True))
            table.add(name, loss_class, round(before), round(now), *numbers, *columns, worst)
    return table


def _seed(make, losses, seed):
    """Regrets in the order of the columns."""
    found = []
    for game in (moving, hostile):
        for settings in (FORMER, {}):
            learner = make(seed, **settings)
            paid, told = regret(learner, game(losses, learner, np.random.default_rng(seed)))
            found.append(paid)
    return [*found, regret(make(seed, **FORMER), told)[0]]


def _mean(runs: list[float]) -> str:
    mean = f"{np.mean(runs):.0f}"
    return f"{mean} ± {np.std(runs, ddof=1) / len(runs) ** 0.5:.0f}" if len(runs) > 1 else mean


def _smoothness(seeds: int) -> Table:
    widths, right = (0.4, 0.1), 0.4
    table = Table(
        f"Unknown smoothness: 256 points of the square, {ROUNDS:,} rounds, {seeds} seeds",
        ["kernel", "bound", "d*", *(f"losses of {width}" for width in widths), "/ right"],
        "Losses in [0, 1] of Gaussian kernels of two bandwidths, those of the first table's oblivious game; all settings but the kernel "
        "as by default. Regret in whole epochs of 8, mean ± standard error; the last column is the first regret in units of that of the "
        "right kernel. A bound is void for losses rougher than its kernel. Trivial bound: 4,000.",
    )
    points, paid = _points(), {}
    games = [Losses(kl.Gaussian(width), points.X, hull=False) for width in widths]
    kernels = {width: kl.Gaussian(width) for width in (right, right / 4, 4 * right)}
    for name, kernel in {**kernels, "auto": "auto"}.items():
        learners = [
            kl.BanditExpWeights(points, kernel, horizon=ROUNDS, loss_range=(0, 1), rng=seed)
            for seed in range(seeds)
        ]
        states = [learner.state() for learner in learners]
        for losses in games:
            for seed, state in enumerate(states):
                learner = kl.BanditExpWeights.from_state(state)
                sequence = moving(losses, learner, np.random.default_rng(seed))
                paid.setdefault((name, losses), []).append(regret(learner, sequence)[0])
        found = [paid[name, losses] for losses in games]
        ratio = np.mean(found[0]) / np.mean(paid[right, games[0]])
        problem, bound = learners[0].engine.problem, learners[0].guarantee().total
        label = name if name == "auto" else f"Gaussian {name}"
        table.add(label, round(bound), problem.dimension, *map(_mean, found), ratio)
    return table


# Time.


def _set_up() -> Table:
    table = Table(
        "What the choice of a head and a penalty costs, in units of the design",
        ["kernel", "class", "rank", "G, ms", "ridge, ms", "choice, ms", "/ G", "/ ridge"],
        "256 points. G: the G-optimal design of as many features as were chosen. Ridge: the design that is played. Choice: of "
        "(k, λ, η, γ, κ).",
    )
    points = _points()
    for name, kernel in KERNELS.items():
        for loss_class in CLASSES:
            calls = {}
            for function in ("choose_ridge", "choose_ridge_design"):
                _record(function, calls)
            try:
                _learner(points, kernel, loss_class)
            finally:
                for function in calls:
                    setattr(candidates, function, calls[function][0])
            (choose, chosen), (_, (features, columns, cap, *_)) = calls.values()
            laps = cpu_race(
                {
                    "john": lambda F=features: kl.john_design(F),
                    "ridge": lambda F=features, C=columns, cap=cap: ridge_design(F, C, cap),
                    "choice": lambda choose=choose, chosen=chosen: choose(*chosen),
                }
            )
            john, ridge, choice = (lap.seconds for lap in laps.values())
            rank = features.shape[1]
            against = (ratio(laps["choice"], laps[who]) for who in ("john", "ridge"))
            times = (1e3 * john, 1e3 * ridge, 1e3 * choice, *against)
            table.add(name, loss_class, rank, *times)
    return table


def _nets() -> Table:
    table = Table(
        "The set-up of learners on a net of the square",
        ["kernel", "rounds", "points", "features", "set-up, s", "refresh, ms"],
        "All settings but the horizon and the range as by default. Rough kernels would have thousands of features.",
    )
    square = kl.Box([0, 0], [1, 1])
    for kernel in (kl.Matern(0.5, 0.3), kl.Matern(1.5, 0.3), kl.Gaussian(0.1)):
        for rounds in (1_000, 100_000):
            start = perf_counter()
            learner = kl.BanditExpWeights(square, kernel, horizon=rounds, loss_range=(0, 1), rng=0)
            seconds = perf_counter() - start
            exp2 = learner._exp2
            lap = cpu_race({"refresh": exp2.next_law})["refresh"]
            row = (len(learner.actions), learner.rank, seconds, 1e3 * lap.seconds)
            table.add(repr(kernel), rounds, *row)
    return table


def _record(function: str, calls: dict) -> None:
    """Keep the arguments of the next call of one of the functions of the set-up."""
    call = getattr(candidates, function)
    calls[function] = (call, ())

    def recorded(*args):
        calls[function] = (call, args)
        return call(*args)

    setattr(candidates, function, recorded)


def _refresh(full: bool) -> Table:
    table = Table(
        "A refresh with a penalty and bonuses, in units of its matrix products",
        ["actions", "features", "refresh, ms", "products, ms", "ratio"],
        "Products: the features with a vector, their covariance, and with two matrices for leverages and biases, each at once.",
    )
    for N in (1_000, 10_000, 100_000, *((1_000_000,) if full else ())):
        points = kl.Points(np.random.default_rng(5).random((N, 2)))
        proxy = kl.pivoted_cholesky(kl.Gaussian(0.3), points, rank=59)
        learner = kl.BanditExpWeights(
            points, proxy.kernel, horizon=10_000, proxy=proxy, loss_range=(0, 1), ridge=1e-3, rng=0
        )
        engine, rates = learner.engine, learner.rates
        F, m = engine.features, engine.features.shape[1]
        theta, rng = np.ones(m), np.random.default_rng(0)
        credit, eta, gamma = np.zeros(N), rates.learning_rate, rates.exploration
        square, biases = np.eye(m), np.ones((m, engine.columns.shape[1]))

        def products(F=F, theta=theta, square=square, biases=biases):
            return F @ theta, dsyrk(1.0, F, trans=1, lower=1), square @ F.T, biases.T @ F.T

        laps = cpu_race(
            {
                "refresh": lambda e=engine, a=(theta, credit, eta, gamma, rng): e.law(*a),
                "products": products,
            }
        )
        refresh, bare = (lap.seconds for lap in laps.values())
        against = ratio(laps["refresh"], laps["products"])
        table.add(N, m, 1e3 * refresh, 1e3 * bare, against)
    return table
