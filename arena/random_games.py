"""Random games: one for each seed, whose settings say how hard it is, and in which way.

On random points of a cube the losses are landscapes of bumps, as in the kind games of the arena. The settings add what makes
games hard: noise, drift, delays, an adversary that looks at the player, and a wrong length of the kernel that players are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from arena.base import Game
from arena.games import fixed, sometimes_never
from arena.terrain import Terrain, cube, drawn, glide, hostile, pieces
from koloss.core.arrays import as_float, as_int, one_of
from koloss.core.random import GAMES, as_generator
from koloss.games.adversaries import Adversary
from koloss.games.watching import Predictive
from koloss.kernels import Gaussian, Kernel, Matern

NAME = "random"
"""What one is called if nothing is said. They are no part of `games()`: with settings of nobody's choice, one says little."""

KERNELS: dict[str, Callable[[float], Kernel]] = {
    "gaussian": Gaussian,
    "matern-5/2": partial(Matern, 2.5),
    "matern-3/2": partial(Matern, 1.5),
    "matern-1/2": partial(Matern, 0.5),
}
DRIFTS = ("none", "slow", "abrupt")
DELAYS = ("none", "fixed", "geometric")

HEIGHT = 0.3
"""Of the landscapes, Σ|c_i|: a dip of half of it, and bumps. With the most noise, losses stay in [0, 1]."""

MOST_NOISE = 0.2

LANDSCAPES = 4
"""Of a game that drifts."""


@dataclass(frozen=True, kw_only=True)
class RandomGame:
    """Settings of a random game, and what they are without."""

    seed: int = 0  # of the points and of all luck
    rounds: int = 1000
    dimension: int = 2  # of the cube
    actions: int = 60  # random points in it
    kernel: str = "gaussian"  # of the losses, and the one that players are told
    length: float = 0.2  # of the kernel, as a share of the cube's diagonal
    bumps: int = 3  # of a landscape; one alone is a dip
    noise: float = 0.05  # by which all losses of a round go up or down, by the throw of a coin
    drift: str = "none"  # slow: through four landscapes at an even pace; abrupt: four, changed in random rounds
    delay: str = "none"  # how late losses are told: all alike, or by a geometric law
    late_by: int = 20  # rounds, on average; nothing where there is no delay
    # h: losses are 1 - h of what they would be, plus h times a bump of height 1 where the player is most likely
    hostility: float = 0.0
    onset: float = 0.0  # the share of the rounds that is over when hostility begins
    stretch: float = 1.0  # length that players are told, as a multiple of the true one

    def __post_init__(self) -> None:
        as_int("seed", self.seed, minimum=0)
        as_int("rounds", self.rounds, minimum=LANDSCAPES, maximum=10**6)
        as_int("dimension", self.dimension, minimum=1, maximum=20)
        as_int("actions", self.actions, minimum=2, maximum=10_000)
        as_int("bumps", self.bumps, minimum=1, maximum=100)
        as_int("late_by", self.late_by, minimum=1, maximum=10**6)
        for name, allowed in (("kernel", tuple(KERNELS)), ("drift", DRIFTS), ("delay", DELAYS)):
            one_of(name, getattr(self, name), allowed)
        for name in ("length", "stretch"):
            _between(name, getattr(self, name), 1e-3, 1e3)
        for name, most in (("noise", MOST_NOISE), ("hostility", 1.0), ("onset", 1.0)):
            _between(name, getattr(self, name), 0.0, most)

    def game(self, name: str = NAME) -> Game:
        """The game."""
        made, length = KERNELS[self.kernel], self.length * math.sqrt(self.dimension)
        terrain = Terrain(cube(self.actions, self.dimension, seed=self.seed), made(length))
        delays = {
            "none": None,
            "fixed": partial(fixed, by=self.late_by),
            "geometric": partial(sometimes_never, mean=self.late_by, never=0.0),
        }
        return Game(
            name=name,
            family="held-out",
            weather="hostile" if self.hostility else "kind",
            summary="A random landscape on a cube, with settings that somebody chose.",
            points=terrain.points,
            kernel=made(length * self.stretch),
            rounds=self.rounds,
            make=partial(_adversary, terrain, self),
            delays=delays[self.delay],
        )


def random_game(settings: Mapping[str, Any], *, name: str = NAME) -> Game:
    """The game with some settings, and the defaults of `RandomGame` for all others.

    `arena.run` plays such games, too, each under a name of its own.
    """
    known = [field.name for field in fields(RandomGame)]
    for setting in settings:
        if setting not in known:
            rule = f"must be among {', '.join(known)} in {NAME}, got {setting!r}"
            raise ValueError(f"`settings` {rule}")
    return RandomGame(**settings).game(name)


class Pressed(Adversary):
    """1 - h of the losses of a kind adversary, and h of those of a hostile one, from a round on; before it the kind ones."""

    oblivious = False

    def __init__(self, kind: Adversary, hostile: Adversary, strength: float, start: int) -> None:
        self.kind, self.hostile, self.strength, self.start = kind, hostile, strength, start

    def choose(self, t: int, player: Any) -> Any:
        loss = self.kind(t, player)
        if t < self.start:
            return loss
        return (1 - self.strength) * loss + self.strength * self.hostile(t, player)


def _adversary(terrain: Terrain, about: RandomGame, seed: Any) -> Adversary:
    rng, n = as_generator(seed, GAMES), about.rounds
    weights = pieces(n)
    if about.drift == "slow":
        weights = glide(n, LANDSCAPES)
    elif about.drift == "abrupt":
        starts = rng.choice(np.arange(1, n), LANDSCAPES - 1, replace=False)
        weights = pieces(n, *np.sort(starts).tolist())
    kind = drawn(terrain, rng, weights=weights, size=HEIGHT, bumps=about.bumps, common=about.noise)
    if not about.hostility:
        return kind
    struck = hostile(terrain, rng, kind=Predictive)
    return Pressed(kind, struck, about.hostility, math.ceil(about.onset * n))


def _between(name: str, value: Any, low: float, high: float) -> None:
    if not low <= as_float(name, value) <= high:
        raise ValueError(f"`{name}` must be from {low:g} to {high:g}, got {value:.6g}")
