"""The games of the arena.

The reported family follows a description in words; where that is silent, the numbers were chosen so that uniform play
has about the regret that was reported. The held-out family was written down without any player's results on it. The
`peers`' own games and those with `contexts` are in files of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, get_args

import numpy as np

from arena import data
from arena.base import Family, Game
from arena.contexts import context_games
from arena.home import peers_games
from arena.terrain import (
    Echo,
    Terrain,
    Turncoat,
    ambush,
    around,
    ball,
    bernoulli,
    cube,
    drawn,
    glide,
    hostile,
    in_units,
    make_game,
    pieces,
    placed,
    seasons,
    trap,
)
from koloss.core.random import GAMES, as_generator
from koloss.games.adversaries import Adversary, Replay
from koloss.games.watching import Lure, Predictive
from koloss.kernels import Gaussian, Kernel, Matern, Periodic, Polynomial

RANGE = (-1250.0, 7300.0)
"""Of the losses in odd units."""


def games(family: Family | None = None) -> dict[str, Game]:
    """The games by name, family by family; or one family alone."""
    allowed = get_args(Family)
    if family is not None and family not in allowed:
        names = ", ".join(repr(name) for name in allowed)
        raise ValueError(f"`family` must be one of {names}, got {family!r}")
    makers = {
        "reported": _reported, "held-out": _held_out, "data": _data, "field": _field, "peers": peers_games,
        "contexts": context_games,
    }  # fmt: skip
    chosen = allowed if family is None else (family,)
    return {game.name: game for name in chosen for game in makers[name]()}


# The families of this file.


@cache
def _reported() -> tuple[Game, ...]:
    n = 2000
    game = partial(make_game, "reported", Terrain(ball(400, 2, seed=0), Gaussian(0.5)), n)
    stationary = partial(placed, weights=pieces(n), landscapes=[[(-0.5, (0.85, 0.0))]])
    noisy = [[(0.15, (0.6, 0.0)), (-0.15, (-0.6, 0.0))]]
    return (
        game("stationary", "A dip of depth 0.5 near (0.85, 0); no noise.", stationary),
        game(
            "drift", "A dip of depth 0.3 goes 60 degrees along the circle of radius 0.7; random bumps ±0.1.",
            placed, weights=glide(n, 13), landscapes=around(-0.3, 0.7, range(0, 65, 5)), stray=0.1,
        ),
        game(
            "switch", "A dip of depth 0.5 jumps three times, to the next of four places on the circle of radius 0.4.",
            placed, weights=pieces(n, 500, 1000, 1500), landscapes=around(-0.5, 0.4, (20, 110, 200, 290)),
        ),
        game(
            "noisy", "Bumps of ±0.15 at (0.6, 0) and (-0.6, 0) under common noise ±0.2 and random bumps ±0.1.",
            placed, weights=pieces(n), landscapes=noisy, common=0.2, stray=0.1,
        ),
        game(
            "abrupt", "A dip of depth 0.5 jumps once, by 90 degrees on the circle of radius 0.7; common noise ±0.05.",
            placed, weights=pieces(n, 1000), landscapes=around(-0.5, 0.7, (0, 90)), constant=0.56, common=0.05,
        ),
        game(
            "alternating", "Two bumps of height 0.3 in turn, 90 degrees apart on the circle of radius 0.6.",
            placed, weights=np.eye(2)[np.arange(n) % 2], landscapes=around(0.3, 0.6, (0, 90)),
        ),
        game("half", "As `stationary` until half time, then as `predictive`.", trap, first=stationary, starts=(1000,)),
        game(
            "predictive", "A bump of height 1 where the player is most likely (of several such actions: the first).",
            hostile, kind=Predictive,
        ),
        game(
            "lure", "A dip of depth 1 where the player is least likely (of several such actions: the first).",
            hostile, kind=Lure,
        ),
    )  # fmt: skip


@cache
def _held_out() -> tuple[Game, ...]:
    def game(name: str, n: int, points: Any, kernel: Kernel, *about: Any, **options: Any) -> Game:
        return make_game("held-out", Terrain(points, kernel), n, name, *about, **options)

    return (
        game(
            "matern-stationary", 3000, cube(300, 2, seed=1), Matern(2.5, 0.5),
            "One random landscape on a square; no noise.",
            drawn, weights=pieces(3000), bumps=3,
        ),
        game(
            "needle-2d", 5000, cube(600, 2, seed=2), Gaussian(0.12),
            "One narrow dip of depth 0.5 at a random place of a square; no noise.",
            drawn, weights=pieces(5000), bumps=1,
        ),
        game(
            "bernoulli-3d", 10_000, cube(500, 3, seed=3), Gaussian(0.5),
            "Losses 0 or 1 on a cube, independent; their means are one random landscape.",
            bernoulli, weights=pieces(10_000),
        ),
        game(
            "noisy-2d", 20_000, cube(400, 2, seed=4), Gaussian(0.25),
            "One random landscape on a square under common noise ±0.15 and random bumps ±0.15.",
            drawn, weights=pieces(20_000), size=0.2, common=0.15, stray=0.15,
        ),
        game(
            "polynomial-5d", 2000, ball(1000, 5, seed=5), Polynomial(2),
            "One random quadratic landscape on a ball in five dimensions; random bumps ±0.1.",
            drawn, weights=pieces(2000), size=0.4, stray=0.1,
        ),
        game(
            "drift-1d", 5000, np.linspace(0, 1, 60)[:, None], Gaussian(0.15),
            "A random landscape on an interval turns slowly into a second, third and fourth; random bumps ±0.1.",
            drawn, weights=glide(5000, 4), size=0.4, stray=0.1,
        ),
        game(
            "changes-2d", 4000, cube(200, 2, seed=6), Matern(2.5, 0.4),
            "A fresh random landscape on a square at rounds 700, 1000, 2300 and 3600; common noise ±0.05.",
            drawn, weights=pieces(4000, 700, 1000, 2300, 3600), size=0.4, common=0.05,
        ),
        game(
            "seasonal-1d", 3000, np.arange(72)[:, None] / 72, Periodic(0.8, period=1.0),
            "Two random landscapes on a circle come and go with a period of 250 rounds; random bumps ±0.1.",
            drawn, weights=seasons(3000, 250), size=0.4, stray=0.1,
        ),
        game(
            "predictive-3d", 5000, cube(300, 3, seed=7), Matern(2.5, 0.6),
            "A bump of height 1 on a cube where the player is most likely.",
            hostile, kind=Predictive,
        ),
        game(
            "predictive-polynomial", 1000, ball(150, 2, seed=8), Polynomial(3),
            "A cubic bump on a disc where the player is most likely.",
            hostile, kind=Predictive,
        ),
        game(
            "lure-patient", 4000, cube(250, 2, seed=9), Gaussian(0.3),
            "A dip of depth 1 on a square where the player is least likely, moved every 25 rounds.",
            hostile, kind=Lure, patience=25,
        ),
        game(
            "trap-2d", 10_000, cube(300, 2, seed=10), Gaussian(0.35),
            "One random landscape on a square for 8,000 rounds, then a bump where the player is most likely.",
            trap, first=partial(drawn, weights=pieces(8000)), starts=(8000,),
        ),
        game(
            "turncoat-1d", 20_000, np.linspace(0, 1, 120)[:, None], Matern(2.5, 0.2),
            "A bump of height 1 on an interval where the player was most likely on average of late.",
            hostile, kind=Turncoat, memory=100,
        ),
        game(
            "echo-2d", 3000, cube(200, 2, seed=11), Gaussian(0.4),
            "A bump of height 1 on a square where the player was most likely 20 rounds ago.",
            hostile, kind=Echo, lag=20,
        ),
    )  # fmt: skip


def replay(_terrain: Terrain, _seed: Any, *, table: Callable[[], Any]) -> Adversary:
    """Recorded losses are the same for every seed."""
    return Replay(table(), bound=1.0)


@cache
def _data() -> tuple[Game, ...]:
    prices = np.linspace(0, 1, 101)[:, None]
    return (
        make_game(
            "data", Terrain(prices, Gaussian(0.2)), 365 * len(data.HOURS), "airport-prices",
            "The price of a ride to the airport, hour by hour: recorded flights, a model of who buys.",
            replay, table=partial(data.pricing_losses, prices[:, 0]), about={"source": data.FLIGHTS},
        ),
        make_game(
            "data", Terrain(data.compressor_settings(), Matern(2.5, 0.7)), 1500, "compressor",
            "Effort and window of zlib on changing payloads: recorded times and sizes, a link of 5 MB/s.",
            replay, table=data.compression_losses, about={"source": data.COMPRESSIONS},
        ),
    )  # fmt: skip


# The family of the field: losses that come late or never, coins, units nobody has heard of, an adversary that turns twice.


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


@cache
def _field() -> tuple[Game, ...]:
    """Written down without any results, too. How late a loss is does not depend on what was played or paid."""
    n = 2000

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
