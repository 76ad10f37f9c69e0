"""Four games on points of the unit disc: a dip that stays, one that jumps, one under noise, and a bump that hunts the player."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import koloss as kl
from koloss.core.random import GAMES, as_generator
from koloss.games.watching import Predictive

KERNEL, ROUNDS = kl.Gaussian(0.5), 2000

PLACES = {  # the dip goes from each to the next at an even pace
    "stationary": [(0.85, 0.0)],
    "switch": [(0.4 * math.cos(a), 0.4 * math.sin(a)) for a in np.radians((20, 110, 200, 290))],
    "abrupt": [(0.7, 0.0), (0.0, 0.7)],
}


@dataclass(frozen=True)
class Game:
    """Losses in [0, 1] on points, from a seed."""

    make: Callable[[Any], Any]
    points: Any
    kernel: kl.Kernel = KERNEL
    rounds: int = ROUNDS


def dip(name: str) -> Game:
    """A game of `PLACES`, or "predictive"."""
    points = kl.Ball(2).sample(400, np.random.default_rng(0))
    bumps = KERNEL(points)
    if name == "predictive":
        return Game(lambda _: Predictive(KERNEL, kl.Points(points), heights=bumps), points)
    nearest = [int(np.argmin(np.sum((points - place) ** 2, axis=1))) for place in PLACES[name]]
    constant, common = (0.56, 0.05) if name == "abrupt" else (0.5, 0.0)

    def make(seed: Any) -> Any:
        levels = constant + common * as_generator(seed, GAMES).choice([-1, 1], ROUNDS)
        return kl.games.Function(
            lambda t, _: levels[t] - 0.5 * bumps[nearest[t * len(nearest) // ROUNDS]],
            oblivious=True,
        )

    return Game(make, points)
