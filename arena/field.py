"""Games of the field: losses that come late or never, coins, units nobody has heard of, an adversary that turns twice.

They were written down without results of any learner of the library. How late a loss is does not depend on what was played or
paid, and nobody is told in advance.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from arena.base import Game
from arena.terrain import (
    Terrain,
    ambush,
    bernoulli,
    cube,
    drawn,
    in_units,
    make_game,
    pieces,
    trap,
)
from koloss.core.random import GAMES, as_generator
from koloss.kernels import Gaussian, Kernel, Matern

ROUNDS = 2000

RANGE = (-1250.0, 7300.0)
"""Of the losses in odd units."""


# How late losses are.


def fixed(_seed: Any, rounds: int, *, by: int) -> Any:
    """All by the same number of rounds."""
    return np.full(rounds, by)


def heavy_tailed(seed: Any, rounds: int, *, least: int, index: float) -> Any:
    """A law of Pareto, rounded down: later than k rounds with probability (least / k)^index."""
    delays = least * _stream(seed).random(rounds) ** (-1 / index)
    return np.minimum(delays, 10**9).astype(int)  # later than any game is long


def sometimes_never(seed: Any, rounds: int, *, mean: float, never: float) -> Any:
    """A geometric law with a mean; a share is never told."""
    rng = _stream(seed)
    delays = rng.geometric(1 / (1 + mean), rounds) - 1
    return np.where(rng.random(rounds) < never, -1, delays)


def _stream(seed: Any) -> np.random.Generator:
    """Beside that of the losses, and independent of it."""
    return as_generator(seed, GAMES).spawn(1)[0]


# The games.


@cache
def field_games() -> tuple[Game, ...]:
    """The family."""
    n = ROUNDS

    def game(name: str, points: Any, kernel: Kernel, *about: Any, **options: Any) -> Game:
        return make_game("field", Terrain(points, kernel), n, name, *about, **options)

    changing = partial(drawn, weights=pieces(n, 1000), bumps=3)
    return (
        game(
            "coins", np.linspace(0, 1, 41)[:, None], Gaussian(0.2),
            "Losses 0 or 1 on an interval, independent; their means are one random landscape.",
            bernoulli, weights=pieces(n), bumps=3,
        ),
        game(
            "late-fixed", cube(150, 2, seed=21), Gaussian(0.3),
            "One random landscape on a square, random bumps ±0.1; every loss is told 100 rounds late.",
            drawn, weights=pieces(n), bumps=3, size=0.4, stray=0.1, about={"delays": partial(fixed, by=100)},
        ),
        game(
            "late-heavy", np.linspace(0, 1, 60)[:, None], Matern(2.5, 0.2),
            "Losses 0 or 1 on an interval, told late by a heavy-tailed law: half of them by 20 rounds, one in a hundred by 1,000.",
            bernoulli, weights=pieces(n), bumps=3, about={"delays": partial(heavy_tailed, least=10, index=1.0)},
        ),
        game(
            "late-never", cube(120, 2, seed=22), Matern(2.5, 0.5),
            "One random landscape on a square, common noise ±0.1; losses are told 50 rounds late on average, a tenth never.",
            drawn, weights=pieces(n), bumps=3, size=0.4, common=0.1,
            about={"delays": partial(sometimes_never, mean=50, never=0.1)},
        ),
        game(
            "late-trap", cube(150, 2, seed=23), Gaussian(0.35),
            "One random landscape on a square for 1,200 rounds, then a bump where the player is most likely; all 20 rounds late.",
            trap, first=partial(drawn, weights=pieces(n), bumps=3), starts=(1200,), about={"delays": partial(fixed, by=20)},
        ),
        game(
            "odd-units", cube(200, 2, seed=24), Gaussian(0.3),
            "One random landscape on a square under common noise; losses between -1,250 and 7,300, which is not known.",
            in_units, first=partial(drawn, weights=pieces(n), bumps=3, size=0.4, common=0.1), loss_range=RANGE,
            about={"loss_range": RANGE, "unknown": ("range",)},
        ),
        game(
            "again", cube(200, 2, seed=25), Gaussian(0.35),
            "A random landscape on a square, from round 600 to 1,000 a bump where the player is most likely, then another "
            "landscape, and from round 1,600 such a bump again.",
            trap, first=changing, starts=(600, 1000, 1600),
        ),
        game(
            "ambush", cube(200, 2, seed=26), Gaussian(0.35),
            "One random landscape on a square; after 250 rounds in which an action was more likely than not, a bump where the "
            "player is most likely, until none is; and so again.",
            ambush, first=partial(drawn, weights=pieces(n), bumps=3), patience=250,
        ),
    )  # fmt: skip
