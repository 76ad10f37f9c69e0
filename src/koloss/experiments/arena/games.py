"""The games of the arena.

All losses but those of real data are made of bumps K(·, y) with y among the points, scaled to a height of at most 1. A kind
game has a few landscapes Σ_i c_i K(·, y_i) that take turns on a constant, with noise; a hostile one is a bump placed by
what the player is about to do. A loss is a constant and bumps with Σ|c_i| ≤ 1 (≤ 1/2 in the kind games), so the library's
certificate for bumps holds for kernels of height 1. Only Bernoulli losses and real data are outside the span.

The reported family follows a description in words; where that is silent, the numbers were chosen so that uniform play
has about the regret that was reported. The held-out family was written down without any player's results on it.

Hostile games look at the player's distribution, never at its coin. Of equally likely actions they take the first. A kind
game draws all its noise in advance, so that its losses are the same whatever the player does and in whatever order they
are asked for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache, cached_property, partial
from typing import Any, get_args

import numpy as np

from koloss._arrays import frozen
from koloss._random import GAMES, as_generator
from koloss.actions import Ball, Points
from koloss.experiments.arena import data
from koloss.experiments.arena.base import Family, Game, Weather
from koloss.games.adversaries import Adversary, Replay
from koloss.games.watching import Lure, Predictive, Watching
from koloss.kernels import Gaussian, Kernel, Matern, Periodic, Polynomial


def games(family: Family | None = None) -> dict[str, Game]:
    """The games by name: the reported ones, the held-out ones, those with real data; or one family alone.

    Examples
    --------
    >>> from koloss.experiments.arena.games import games
    >>> list(games("reported"))[:3], list(games("data"))
    (['stationary', 'drift', 'switch'], ['airport-prices', 'compressor'])
    >>> game = games()["stationary"]
    >>> loss = game.make(0)(0)
    >>> regret = game.rounds * (loss.mean() - loss.min())  # of uniform play
    >>> loss.shape, round(float(regret))
    ((400,), 736)
    """
    allowed = get_args(Family)
    if family is not None and family not in allowed:
        names = ", ".join(repr(name) for name in allowed)
        raise ValueError(f"`family` must be one of {names}, got {family!r}")
    makers = {"reported": _reported, "held-out": _held_out, "data": _data}
    chosen = allowed if family is None else (family,)
    return {game.name: game for name in chosen for game in makers[name]()}


# What games are made of.


class Terrain:
    """Points and a kernel, and K(x, y) / max K for all pairs of points, computed when a game is first played."""

    def __init__(self, points: Any, kernel: Kernel) -> None:
        self.points, self.kernel = frozen(points), kernel

    @cached_property
    def bumps(self) -> Any:
        gram = self.kernel(self.points)
        return frozen(gram / gram.max())

    def nearest(self, place: Any) -> int:
        return int(np.argmin(np.sum((self.points - np.asarray(place)) ** 2, axis=1)))


def _ball(count: int, dimension: int, *, seed: int) -> Any:
    return Ball(dimension).sample(count, np.random.default_rng(seed))


def _cube(count: int, dimension: int, *, seed: int) -> Any:
    return np.random.default_rng(seed).random((count, dimension))


def _around(height: float, radius: float, degrees: Iterable[float]) -> list[Any]:
    """A landscape with one bump for every angle on a circle."""
    angles = [math.radians(d) for d in degrees]
    return [[(height, (radius * math.cos(a), radius * math.sin(a)))] for a in angles]


def _pieces(n: int, *starts: int) -> Any:
    """One landscape at a time; those after the first begin at given rounds."""
    return np.eye(len(starts) + 1)[np.searchsorted(starts, np.arange(n), side="right")]


def _glide(n: int, count: int) -> Any:
    """From each landscape to the next, on a straight line at an even pace."""
    at = np.linspace(0, count - 1, n)
    return np.clip(1 - np.abs(at[:, None] - np.arange(count)), 0, None)


def _seasons(n: int, period: int) -> Any:
    """Two landscapes that come and go."""
    wave = np.cos(2 * math.pi * np.arange(n) / period)
    return np.stack([(1 + wave) / 2, (1 - wave) / 2], axis=1)


# Adversaries that belong to these games.


class Landscapes(Adversary):
    """constant + Σ_j weights[t, j] landscapes[j] + noise: common to all actions, and a random bump."""

    def __init__(
        self, terrain: Terrain, landscapes: Any, weights: Any, rng: np.random.Generator, *,
        constant: float = 0.5, common: float = 0.0, stray: float = 0.0,
    ) -> None:  # fmt: skip
        n = len(weights)
        self.landscapes, self.weights, self.bumps = landscapes, weights, terrain.bumps
        self.constant = constant + common * rng.choice([-1, 1], n)
        self.height = stray * rng.choice([-1, 1], n)
        self.place = rng.integers(len(terrain.points), size=n)

    def choose(self, t: int, player: Any) -> Any:
        t %= len(self.weights)
        stray = self.height[t] * self.bumps[self.place[t]]
        return self.constant[t] + self.weights[t] @ self.landscapes + stray


class Bernoulli(Adversary):
    """Losses 0 or 1 with the means of another adversary."""

    def __init__(self, mean: Adversary, rng: np.random.Generator) -> None:
        self.mean, self.entropy = mean, int(rng.integers(2**63))

    def choose(self, t: int, player: Any) -> Any:
        mean = self.mean(t)
        # A generator for every round: the losses do not depend on the order in which rounds are asked for.
        return (np.random.default_rng([self.entropy, t]).random(mean.shape) < mean).astype(float)


class Turncoat(Watching):
    """K(·, y), y the likeliest point under a mean of all distributions so far that forgets in `memory` rounds."""

    def __init__(self, kernel: Kernel, actions: Points, *, heights: Any, memory: int) -> None:
        super().__init__(kernel, actions, heights=heights)
        self.memory, self.mean = memory, np.zeros(len(heights))

    def choose(self, t: int, player: Any) -> Any:
        X, p = self.look(player)
        self.mean += (p - self.mean) / self.memory
        i = int(np.argmax(self.mean))
        return self.penalty(X[i], i)


class Echo(Watching):
    """K(·, y), y the likeliest point of `lag` rounds ago; 1/2 everywhere before there is one."""

    def __init__(self, kernel: Kernel, actions: Points, *, heights: Any, lag: int) -> None:
        super().__init__(kernel, actions, heights=heights)
        self.lag, self.places = lag, deque[int]()

    def choose(self, t: int, player: Any) -> Any:
        X, p = self.look(player)
        self.places.append(int(np.argmax(p)))
        if len(self.places) <= self.lag:
            return np.full(len(X), 0.5)
        i = self.places.popleft()
        return self.penalty(X[i], i)


class Trap(Adversary):
    """One adversary until a round, another from then on."""

    oblivious = False

    def __init__(self, first: Adversary, second: Adversary, start: int) -> None:
        self.first, self.second, self.start = first, second, start

    def choose(self, t: int, player: Any) -> Any:
        return (self.first if t < self.start else self.second)(t, player)


# Makers of adversaries: from a terrain and a seed.


def _placed(
    terrain: Terrain, seed: Any, *, weights: Any, landscapes: list[list[tuple[float, Any]]], **noise: float
) -> Adversary:  # fmt: skip
    """Landscapes that list coefficients and places; a bump stands on the nearest point."""
    made = [
        sum(c * terrain.bumps[terrain.nearest(place)] for c, place in landscape)
        for landscape in landscapes
    ]
    return Landscapes(terrain, np.stack(made), weights, as_generator(seed, GAMES), **noise)


def _drawn(
    terrain: Terrain, seed: Any, *, weights: Any, size: float = 0.5, bumps: int = 6, **noise: float
) -> Adversary:
    """Random landscapes: a dip with half of the size (all of it where it is alone), and bumps of either sign."""
    rng = as_generator(seed, GAMES)
    made = []
    for _ in range(weights.shape[1]):
        place = rng.integers(len(terrain.points), size=bumps)
        c = np.full(bumps, -size)
        if bumps > 1:
            c[0] = -size / 2
            c[1:] = rng.dirichlet(np.ones(bumps - 1)) * rng.choice([-1, 1], bumps - 1) * size / 2
        made.append(c @ terrain.bumps[place])
    return Landscapes(terrain, np.stack(made), weights, rng, **noise)


def _bernoulli(terrain: Terrain, seed: Any, **options: Any) -> Adversary:
    rng = as_generator(seed, GAMES)
    return Bernoulli(_drawn(terrain, rng, **options), rng)


def _hostile(terrain: Terrain, _seed: Any, *, kind: type[Watching], **options: Any) -> Adversary:
    return kind(terrain.kernel, Points(terrain.points), heights=terrain.bumps, **options)


def _trap(terrain: Terrain, seed: Any, *, first: Callable[..., Adversary], start: int) -> Adversary:
    return Trap(first(terrain, seed), _hostile(terrain, seed, kind=Predictive), start)


def _replay(_terrain: Terrain, _seed: Any, *, table: Callable[[], Any]) -> Adversary:
    """Recorded losses are the same for every seed."""
    return Replay(table(), bound=1.0)


def _game(
    family: Family, terrain: Terrain, rounds: int, name: str, summary: str, maker: Callable[..., Adversary], *,
    source: str = "", **options: Any,
) -> Game:  # fmt: skip
    weather: Weather = "hostile" if maker in (_hostile, _trap) else "kind"
    make, points = partial(maker, terrain, **options), terrain.points
    return Game(name, family, weather, summary, points, terrain.kernel, rounds, make, source)


# The three families.


@cache
def _reported() -> tuple[Game, ...]:
    n = 2000
    game = partial(_game, "reported", Terrain(_ball(400, 2, seed=0), Gaussian(0.5)), n)
    stationary = partial(_placed, weights=_pieces(n), landscapes=[[(-0.5, (0.85, 0.0))]])
    noisy = [[(0.15, (0.6, 0.0)), (-0.15, (-0.6, 0.0))]]
    return (
        game("stationary", "A dip of depth 0.5 near (0.85, 0); no noise.", stationary),
        game(
            "drift", "A dip of depth 0.3 goes 60 degrees along the circle of radius 0.7; random bumps ±0.1.",
            _placed, weights=_glide(n, 13), landscapes=_around(-0.3, 0.7, range(0, 65, 5)), stray=0.1,
        ),
        game(
            "switch", "A dip of depth 0.5 jumps three times, to the next of four places on the circle of radius 0.4.",
            _placed, weights=_pieces(n, 500, 1000, 1500), landscapes=_around(-0.5, 0.4, (20, 110, 200, 290)),
        ),
        game(
            "noisy", "Bumps of ±0.15 at (0.6, 0) and (-0.6, 0) under common noise ±0.2 and random bumps ±0.1.",
            _placed, weights=_pieces(n), landscapes=noisy, common=0.2, stray=0.1,
        ),
        game(
            "abrupt", "A dip of depth 0.5 jumps once, by 90 degrees on the circle of radius 0.7; common noise ±0.05.",
            _placed, weights=_pieces(n, 1000), landscapes=_around(-0.5, 0.7, (0, 90)), constant=0.56, common=0.05,
        ),
        game(
            "alternating", "Two bumps of height 0.3 in turn, 90 degrees apart on the circle of radius 0.6.",
            _placed, weights=np.eye(2)[np.arange(n) % 2], landscapes=_around(0.3, 0.6, (0, 90)),
        ),
        game("half", "As `stationary` until half time, then as `predictive`.", _trap, first=stationary, start=1000),
        game(
            "predictive", "A bump of height 1 where the player is most likely (of several such actions: the first).",
            _hostile, kind=Predictive,
        ),
        game(
            "lure", "A dip of depth 1 where the player is least likely (of several such actions: the first).",
            _hostile, kind=Lure,
        ),
    )  # fmt: skip


@cache
def _held_out() -> tuple[Game, ...]:
    def game(name: str, n: int, points: Any, kernel: Kernel, *about: Any, **options: Any) -> Game:
        return _game("held-out", Terrain(points, kernel), n, name, *about, **options)

    return (
        game(
            "matern-stationary", 3000, _cube(300, 2, seed=1), Matern(2.5, 0.5),
            "One random landscape on a square; no noise.",
            _drawn, weights=_pieces(3000), bumps=3,
        ),
        game(
            "needle-2d", 5000, _cube(600, 2, seed=2), Gaussian(0.12),
            "One narrow dip of depth 0.5 at a random place of a square; no noise.",
            _drawn, weights=_pieces(5000), bumps=1,
        ),
        game(
            "bernoulli-3d", 10_000, _cube(500, 3, seed=3), Gaussian(0.5),
            "Losses 0 or 1 on a cube, independent; their means are one random landscape.",
            _bernoulli, weights=_pieces(10_000),
        ),
        game(
            "noisy-2d", 20_000, _cube(400, 2, seed=4), Gaussian(0.25),
            "One random landscape on a square under common noise ±0.15 and random bumps ±0.15.",
            _drawn, weights=_pieces(20_000), size=0.2, common=0.15, stray=0.15,
        ),
        game(
            "polynomial-5d", 2000, _ball(1000, 5, seed=5), Polynomial(2),
            "One random quadratic landscape on a ball in five dimensions; random bumps ±0.1.",
            _drawn, weights=_pieces(2000), size=0.4, stray=0.1,
        ),
        game(
            "drift-1d", 5000, np.linspace(0, 1, 60)[:, None], Gaussian(0.15),
            "A random landscape on an interval turns slowly into a second, third and fourth; random bumps ±0.1.",
            _drawn, weights=_glide(5000, 4), size=0.4, stray=0.1,
        ),
        game(
            "changes-2d", 4000, _cube(200, 2, seed=6), Matern(2.5, 0.4),
            "A fresh random landscape on a square at rounds 700, 1000, 2300 and 3600; common noise ±0.05.",
            _drawn, weights=_pieces(4000, 700, 1000, 2300, 3600), size=0.4, common=0.05,
        ),
        game(
            "seasonal-1d", 3000, np.arange(72)[:, None] / 72, Periodic(0.8, period=1.0),
            "Two random landscapes on a circle come and go with a period of 250 rounds; random bumps ±0.1.",
            _drawn, weights=_seasons(3000, 250), size=0.4, stray=0.1,
        ),
        game(
            "predictive-3d", 5000, _cube(300, 3, seed=7), Matern(2.5, 0.6),
            "A bump of height 1 on a cube where the player is most likely.",
            _hostile, kind=Predictive,
        ),
        game(
            "predictive-polynomial", 1000, _ball(150, 2, seed=8), Polynomial(3),
            "A cubic bump on a disc where the player is most likely.",
            _hostile, kind=Predictive,
        ),
        game(
            "lure-patient", 4000, _cube(250, 2, seed=9), Gaussian(0.3),
            "A dip of depth 1 on a square where the player is least likely, moved every 25 rounds.",
            _hostile, kind=Lure, patience=25,
        ),
        game(
            "trap-2d", 10_000, _cube(300, 2, seed=10), Gaussian(0.35),
            "One random landscape on a square for 8,000 rounds, then a bump where the player is most likely.",
            _trap, first=partial(_drawn, weights=_pieces(8000)), start=8000,
        ),
        game(
            "turncoat-1d", 20_000, np.linspace(0, 1, 120)[:, None], Matern(2.5, 0.2),
            "A bump of height 1 on an interval where the player was most likely on average of late.",
            _hostile, kind=Turncoat, memory=100,
        ),
        game(
            "echo-2d", 3000, _cube(200, 2, seed=11), Gaussian(0.4),
            "A bump of height 1 on a square where the player was most likely 20 rounds ago.",
            _hostile, kind=Echo, lag=20,
        ),
    )  # fmt: skip


@cache
def _data() -> tuple[Game, ...]:
    prices = np.linspace(0, 1, 101)[:, None]
    return (
        _game(
            "data", Terrain(prices, Gaussian(0.2)), 365 * len(data.HOURS), "airport-prices",
            "The price of a ride to the airport, hour by hour: recorded flights, a model of who buys.",
            _replay, table=partial(data.pricing_losses, prices[:, 0]), source=data.FLIGHTS,
        ),
        _game(
            "data", Terrain(data.compressor_settings(), Matern(2.5, 0.7)), 1500, "compressor",
            "Effort and window of zlib on changing payloads: recorded times and sizes, a link of 5 MB/s.",
            _replay, table=data.compression_losses, source=data.COMPRESSIONS,
        ),
    )  # fmt: skip
