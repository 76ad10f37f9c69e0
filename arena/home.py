"""The peers at home: the environments that other packages show themselves on, written from their documentation.

Losses are minus rewards, in the packages' own units. Where noise is added to a mean it is the same for all actions of a round:
whoever hears one loss cannot tell, and the regret is that of the means, as the packages count it. The kernel of the objectives is
not known; those who need one are told a bandwidth of a fifth of the side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from arena.base import Game
from arena.terrain import Terrain, make_game
from koloss.core.random import GAMES, as_generator
from koloss.games.adversaries import Adversary
from koloss.kernels import Gaussian, Linear

ROUNDS = 2000

NOISE = 0.1
"""Of PyXAB's examples: uniform between minus and plus this."""

LOGGED = (
    (10, 17, 22, 4, 8, 9, 7, 10),
    (9, 0, 7, 20, 50, 5, 12),
)
"""Revenues of two layouts of a website, fifteen visits, in MABWiser's first example."""

FAR = 6.0
"""Rewards of the testbed are cut beyond this: one in 50,000."""

PYXAB = "an objective of PyXAB 0.3 (MIT), normalised as there, with the noise of its examples"
MABWISER = (
    "MABWiser's first example (Apache-2.0): a logged revenue of the layout is drawn in every round"
)
RIVER = "of river 0.26 (BSD-3-Clause)"


# PyXAB's objectives: rewards of points, an array of shape (N, d).


def garland(X: Any) -> Any:
    """x(1 - x)(4 - √|sin 60x|) on [0, 1]."""
    x = X[:, 0]
    return x * (1 - x) * (4 - np.sqrt(np.abs(np.sin(60 * x))))


def double_sine(X: Any) -> Any:
    """s (u^b - u^a) - u^b on [0, 1], u = 2|x - 1/2|, s = (1 + sin(π log2 u))/2, a = -log2 0.3 and b = -log2 0.8."""
    u = 2 * np.abs(X[:, 0] - 0.5)
    log = np.log2(u, out=np.full(len(u), -np.inf), where=u > 0)
    wave = np.sin(np.pi * log, out=np.zeros(len(u)), where=u > 0)
    upper, lower = u ** -np.log2(0.3), u ** -np.log2(0.8)
    return (1 + wave) / 2 * (lower - upper) - lower


def difficult(X: Any) -> Any:
    """-y² where log y has a fractional part of at least 1/2, otherwise -√y, on [0, 1] with y = |x - 1/2|."""
    y = np.abs(X[:, 0] - 0.5)
    log = np.log(y, out=np.zeros(len(y)), where=y > 0)
    return np.where(log - np.floor(log) >= 0.5, -(y**2), -np.sqrt(y))


def himmelblau(X: Any) -> Any:
    """-((x² + y - 11)² + (x + y² - 7)²)/890 on [-5, 5]²."""
    x, y = X.T
    return -((x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2) / 890


def ackley(X: Any) -> Any:
    """Ackley's function on [-1, 1]², over the size that it would have at (1, 0) were both cosines -1."""
    near = 20 * np.exp(-0.2 * np.sqrt(np.mean(X**2, axis=1)))
    waves = np.exp(np.mean(np.cos(2 * np.pi * X), axis=1))
    size = 20 + math.e - 20 * np.exp(-0.2 * np.sqrt(0.5)) - np.exp(-1)
    return (near + waves - 20 - math.e) / size


def rastrigin(X: Any) -> Any:
    """-Σ_i (10 + x_i² - 10 cos 2πx_i)/40 on [-1, 1]²."""
    return -np.sum(10 + X**2 - 10 * np.cos(2 * np.pi * X), axis=1) / (20 * X.shape[1])


# Adversaries.


class Rewards(Adversary):
    """Minus the mean reward of every action, and noise that is the same for all."""

    def __init__(self, mean: Any, noise: Any, far: float = np.inf) -> None:
        self.mean, self.noise, self.far = mean, noise, far

    def choose(self, t: int, player: Any) -> Any:
        return -np.clip(self.mean + self.noise[t % len(self.noise)], -self.far, self.far)


class Drawn(Adversary):
    """Minus a reward of every action, drawn from those that were logged."""

    def __init__(self, logged: Any, rounds: int, rng: np.random.Generator) -> None:
        self.losses = -np.column_stack([rng.choice(rewards, rounds) for rewards in logged]).astype(float)  # fmt: skip

    def choose(self, t: int, player: Any) -> Any:
        return self.losses[t % len(self.losses)].copy()


class CandyCane(Adversary):
    """Vending machines: one gives a candy cane with a probability, which shrinks by `decay` whenever the machine is used."""

    oblivious = False

    def __init__(self, machines: int, rng: np.random.Generator, *, decay: float = 0.03) -> None:
        self.thresholds, self.decay = rng.random(machines), decay
        self.entropy = int(rng.integers(2**63))

    def choose(self, t: int, player: Any) -> Any:
        coins = np.random.default_rng([self.entropy, t]).random(len(self.thresholds))
        return (coins >= self.thresholds).astype(float)

    def saw(self, t: int, action: Any) -> None:
        self.thresholds[action] *= 1 - self.decay


def _objective(terrain: Terrain, seed: Any, *, function: Callable[[Any], Any]) -> Adversary:
    noise = as_generator(seed, GAMES).uniform(-NOISE, NOISE, ROUNDS)
    return Rewards(function(terrain.points), noise)


def _layouts(_terrain: Terrain, seed: Any) -> Adversary:
    return Drawn(LOGGED, ROUNDS, as_generator(seed, GAMES))


def _testbed(terrain: Terrain, seed: Any) -> Adversary:
    rng = as_generator(seed, GAMES)
    return Rewards(rng.standard_normal(len(terrain.points)), rng.standard_normal(1000), FAR)


def _candy_cane(terrain: Terrain, seed: Any) -> Adversary:
    return CandyCane(len(terrain.points), as_generator(seed, GAMES))


# The games.


def _middles(cells: int, low: float, high: float, dimension: int) -> Any:
    """Middles of so many cells along each side of a cube."""
    side = low + (high - low) * (np.arange(cells) + 0.5) / cells
    return np.stack(np.meshgrid(*[side] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)


@cache
def peers_games() -> tuple[Game, ...]:
    """The family."""

    def objective(
        name: str, summary: str, function: Callable[[Any], Any], low: float, high: float, losses: tuple[float, float],
        *, dimension: int = 1,
    ) -> Game:  # fmt: skip
        cells, kernel = (256 if dimension == 1 else 16), Gaussian(0.2 * (high - low))
        terrain = Terrain(_middles(cells, low, high, dimension), kernel)
        about = {"source": PYXAB, "home": "PyXAB", "loss_range": losses, "unknown": ("kernel",)}
        return make_game("peers", terrain, ROUNDS, name, summary, _objective, function=function, about=about)  # fmt: skip

    def arms(count: int, rounds: int, *about: Any, **more: Any) -> Game:
        return make_game("peers", Terrain(np.eye(count), Linear()), rounds, *about, about=more)

    return (
        objective("garland", "PyXAB's Garland on 256 cells of an interval: many narrow peaks.", garland, 0, 1, (-1.1, 0.1)),
        objective("double-sine", "PyXAB's DoubleSine on 256 cells of an interval: one spike between two envelopes.", double_sine, 0, 1, (-0.1, 1.1)),
        objective("difficult", "PyXAB's DifficultFunc on 256 cells of an interval: steps that shrink towards the best point.", difficult, 0, 1, (-0.1, 0.9)),
        objective("himmelblau", "PyXAB's Himmelblau function on 16 x 16 cells of a square: four smooth peaks.", himmelblau, -5, 5, (-0.1, 1.1), dimension=2),
        objective("ackley", "PyXAB's Ackley function on 16 x 16 cells of a square: a spike among waves.", ackley, -1, 1, (-0.1, 1.1), dimension=2),
        objective("rastrigin", "PyXAB's Rastrigin function on 16 x 16 cells of a square: waves on a slope.", rastrigin, -1, 1, (-0.1, 1.2), dimension=2),
        arms(
            2, ROUNDS, "layouts", "MABWiser's two layouts of a website: unrelated arms, logged revenues from 0 to 50.",
            _layouts, source=MABWISER, home="mabwiser", loss_range=(-50.0, 0.0),
        ),
        arms(
            10, 1000, "testbed", "river's 10-armed testbed: unrelated arms with normal means and normal rewards.",
            _testbed, source=f"KArmedTestbed {RIVER}", home="river", loss_range=(-FAR, FAR),
        ),
        arms(
            100, ROUNDS, "candy-cane", "river's CandyCane contest: a hundred machines, each a little worse after every use; regret counts the canes missed.",
            _candy_cane, source=f"CandyCaneContest {RIVER}", home="river", weather="hostile", floor=0.0,
        ),
    )  # fmt: skip
