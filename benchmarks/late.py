"""Two markets whose losses come late: what is lost by waiting, and who is stopped for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import koloss as kl
from benchmarks.tables import Table

ROUNDS = 20_000


def run(full: bool = False) -> list[Table]:
    """In full 20 seeds and all delays, an hour or so on one core; otherwise a few of both, in two minutes."""
    few = ("none", "geometric 300", "fixed 3,000")
    delays = {name: due for name, due in DELAYS.items() if full or name in few}
    return [_table(market, delays, range(20 if full else 3)) for market in (PRICES, COINS)]


def _table(market: Market, delays: dict[str, Any], seeds: range) -> Table:
    table = Table(
        f"Late losses: {market.name}, {ROUNDS:,} rounds, {len(seeds)} seeds",
        ["delay", "player", "share", "± error", "worst", "stopped", "why"],
        "Share: pseudo-regret over that of uniform play; its mean, standard error and largest value. Stopped: runs of the insured "
        "learner that ended without its policy. GP-BUCB has no insurance. Players of one seed meet the same coins and the same delays.",
    )
    for delay, due in delays.items():
        for name, make in PLAYERS.items():
            players = [make(market, ROUNDS, seed) for seed in seeds]
            shares = [
                market_game(player, due, seed, ROUNDS, market)
                for player, seed in zip(players, seeds, strict=True)
            ]
            error = float(np.std(shares, ddof=1)) / len(shares) ** 0.5
            numbers = (float(np.mean(shares)), error, max(shares))
            table.add(delay, name, *numbers, *_stopped(players))
    return table


def _stopped(players):
    """How many insured learners ended without their policy, and why."""
    if not isinstance(players[0], kl.InsuredBandit):
        return None, ""
    seen = [player.diagnostics for player in players]
    why = Counter(one.alarms[-1].reason for one in seen if one.playing == "robust")
    return why.total(), ", ".join(f"{reason} {count}" for reason, count in why.most_common())


# The game.


@dataclass(frozen=True, eq=False)
class Market:
    """A coin for every action, and the losses of its two sides."""

    name: str
    points: kl.Points
    kernel: Any
    probability: np.ndarray  # of the first side
    first: np.ndarray  # its loss
    second: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """Expected losses above that of the best action."""
        means = self.probability * self.first + (1 - self.probability) * self.second
        return means - means.min()


def _prices() -> Market:
    """What is sold at a price."""
    price = np.linspace(1, 3, 30)
    sold, points = np.exp(-((price / 2) ** 2)), kl.Points(price[:, None])
    return Market("30 prices", points, kl.Gaussian(0.5), sold, 1 - price / 3, np.ones(30))


def _coins() -> Market:
    """Losses of 0 or 1, with a good and a less good valley."""
    x = np.linspace(0, 1, 30)
    mean = (
        0.5 - 0.25 * np.exp(-(((x - 0.72) / 0.15) ** 2)) - 0.18 * np.exp(-(((x - 0.2) / 0.12) ** 2))
    )
    return Market(
        "30 coins", kl.Points(x[:, None]), kl.Gaussian(0.15), mean, np.ones(30), np.zeros(30)
    )


PRICES, COINS = _prices(), _coins()


def market_game(player, delays, seed, n, market) -> float:
    """Play n rounds, and return the pseudo-regret over that of uniform play.

    `delays(n, rng)` says at the end of which round each loss is told; from n on means never. Losses of one such moment are told
    one by one, in the order of their draws. One uniform number per round decides the coins of all actions, so that players of one
    seed have the same luck, with any delays.
    """
    luck, clock = np.random.default_rng(seed).spawn(2)
    coin, due = luck.random(n), delays(n, clock)
    order, gaps = np.argsort(due, kind="stable").tolist(), market.gaps
    due, heard, regret, decisions, losses = due.tolist(), 0, 0.0, [], []
    for t in range(n):
        decision = player.ask()
        a = decision.index
        regret += gaps[a]
        decisions.append(decision)
        losses.append(
            float((market.first if coin[t] < market.probability[a] else market.second)[a])
        )
        while heard < n and due[order[heard]] <= t:
            player.tell(decisions[order[heard]], losses[order[heard]])
            heard += 1
    return float(regret / (n * gaps.mean()))


def fixed(delay: int):
    """Told at the end of round t + delay."""
    return lambda n, _: np.arange(n) + delay


def geometric(mean: float):
    return lambda n, rng: np.arange(n) + rng.geometric(1 / (mean + 1), n) - 1


def bursts(length: int):
    """Everything told together, at the end of every so many rounds."""
    return lambda n, _: (np.arange(n) // length + 1) * length - 1


def pareto(mean: float, shape: float = 1.1):
    """Delays without a variance."""
    scale = mean * (shape - 1)
    return lambda n, rng: (
        np.arange(n) + np.floor(np.minimum(scale * rng.pareto(shape, n), n)).astype(int)
    )


def partly(delays, never: float):
    """With some losses that are never told."""
    return lambda n, rng: np.where(rng.random(n) < never, n, delays(n, rng))


DELAYS = {
    "none": fixed(0),
    "fixed 10": fixed(10),
    "geometric 10": geometric(10),
    "fixed 300": fixed(300),
    "geometric 300": geometric(300),
    "fixed 3,000": fixed(3000),
    "geometric 3,000": geometric(3000),
    "bursts of 300": bursts(300),
    "bursts of 3,000": bursts(3000),
    "Pareto, mean 300": pareto(300),
    "geometric 300, a tenth never": partly(geometric(300), 0.1),
}


# The players.


@dataclass(frozen=True)
class Choice:
    index: int


class BatchUCB:
    """GP-BUCB: the smallest mean - width · deviation, the deviation as if the losses of all pending actions were known.

    The prior is that of the kernel plus a constant of variance 1, around the middle of [0, 1]; the noise has variance `ridge`.
    Desautels, Krause and Burdick (2014), with a fixed width.
    """

    def __init__(self, market, *, width=2.0, ridge=0.05):
        X = market.points.X
        self.width, self.ridge = width, ridge
        self.opened = np.asarray(market.kernel(X, X)) + 1.0  # posterior covariance of all actions
        self.pending = self.opened.copy()  # the same, with the pending actions
        self.mean = np.full(len(X), 0.5)

    def ask(self):
        deviation = np.sqrt(np.maximum(self.pending.diagonal(), 0))
        index = int(np.argmin(self.mean - self.width * deviation))
        self._observe(self.pending, index)
        return Choice(index)

    def tell(self, decision, loss):
        """The pending action was the one that is opened: only what is known without it changes."""
        error = loss - self.mean[decision.index]
        self.mean += error * self._observe(self.opened, decision.index)

    def _observe(self, covariance, index):
        """Condition on the loss of an action, a step of rank one; how much its error moves the mean."""
        column = covariance[index].copy()
        gain = column / (self.ridge + column[index])
        covariance -= column[:, None] * gain
        return gain


def _learner(kind, market, n, seed):
    return kind(market.points, market.kernel, horizon=n, loss_range=(0, 1), rng=seed)


PLAYERS = {
    "insured": partial(_learner, kl.InsuredBandit),
    "exponential weights": partial(_learner, kl.BanditExpWeights),
    "GP-BUCB": lambda market, _n, _seed: BatchUCB(market),
}
