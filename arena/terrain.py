"""What games of the arena are made of: points with a kernel, landscapes of bumps, and adversaries.

A loss is a constant and bumps K(·, y) with y among the points, scaled to a height of at most 1, with Σ|c_i| ≤ 1 (≤ 1/2 in
the kind games), so that the library's certificate for bumps holds for kernels of height 1.

Hostile adversaries look at the player's distribution, never at its coin. Of equally likely actions they take the first. Kind
ones draw all their noise in advance, so that losses are the same whatever the player does and in whatever order they
are asked for.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from arena.base import Family, Game, Weather
from koloss.actions import Ball, Points
from koloss.core.arrays import frozen
from koloss.core.random import GAMES, as_generator
from koloss.games.adversaries import Adversary
from koloss.games.watching import Predictive, Watching
from koloss.kernels import Kernel


class Terrain:
    """Points and a kernel, and K(x, y) / max K for all pairs of points, computed when a game is first played."""

    def __init__(self, points: Any, kernel: Kernel) -> None:
        self.points, self.kernel = frozen(points), kernel

    @cached_property
    def bumps(self) -> Any:
        gram = self.kernel(self.points)
        return frozen(gram / gram.max())

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "bumps"}

    def nearest(self, place: Any) -> int:
        return int(np.argmin(np.sum((self.points - np.asarray(place)) ** 2, axis=1)))


def ball(count: int, dimension: int, *, seed: int) -> Any:
    """Random points of the unit ball."""
    return Ball(dimension).sample(count, np.random.default_rng(seed))


def cube(count: int, dimension: int, *, seed: int) -> Any:
    """Random points of the unit cube."""
    return np.random.default_rng(seed).random((count, dimension))


def around(height: float, radius: float, degrees: Iterable[float]) -> list[Any]:
    """A landscape with one bump for every angle on a circle."""
    angles = [math.radians(d) for d in degrees]
    return [[(height, (radius * math.cos(a), radius * math.sin(a)))] for a in angles]


def pieces(n: int, *starts: int) -> Any:
    """One landscape at a time; those after the first begin at given rounds."""
    return np.eye(len(starts) + 1)[np.searchsorted(starts, np.arange(n), side="right")]


def glide(n: int, count: int) -> Any:
    """From each landscape to the next, on a straight line at an even pace."""
    at = np.linspace(0, count - 1, n)
    return np.clip(1 - np.abs(at[:, None] - np.arange(count)), 0, None)


def seasons(n: int, period: int) -> Any:
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
    """Two adversaries in turn: the first one begins, and every one of some rounds is the start of the other's turn."""

    oblivious = False

    def __init__(self, first: Adversary, second: Adversary, starts: Sequence[int]) -> None:
        self.two, self.starts = (first, second), sorted(starts)

    def choose(self, t: int, player: Any) -> Any:
        return self.two[bisect(self.starts, t) % 2](t, player)


class Ambush(Adversary):
    """Kind until the player has been sure of its action for `patience` rounds in a row, hostile until it no longer is.

    Sure is who plays an action with a probability above one half. Whoever grows sure again is struck again.
    """

    oblivious = False

    def __init__(self, kind: Adversary, hostile: Watching, patience: int) -> None:
        self.kind, self.hostile, self.patience, self.sure = kind, hostile, patience, 0

    def choose(self, t: int, player: Any) -> Any:
        _, p = self.hostile.look(player)
        self.sure = self.sure + 1 if p.max() > 0.5 else 0
        return (self.hostile if self.sure > self.patience else self.kind)(t, player)


class InUnits(Adversary):
    """The losses of another adversary, which are in [0, 1], in units of one's own."""

    def __init__(self, inner: Adversary, loss_range: tuple[float, float]) -> None:
        self.inner, self.oblivious = inner, inner.oblivious
        self.low, self.high = loss_range

    def choose(self, t: int, player: Any) -> Any:
        return self.low + (self.high - self.low) * self.inner(t, player)


# Makers of adversaries: from a terrain and a seed.


def placed(
    terrain: Terrain, seed: Any, *, weights: Any, landscapes: list[list[tuple[float, Any]]], **noise: float
) -> Adversary:  # fmt: skip
    """Landscapes that list coefficients and places; a bump stands on the nearest point."""
    made = [
        sum(c * terrain.bumps[terrain.nearest(place)] for c, place in landscape)
        for landscape in landscapes
    ]
    return Landscapes(terrain, np.stack(made), weights, as_generator(seed, GAMES), **noise)


def drawn(
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


def bernoulli(terrain: Terrain, seed: Any, **options: Any) -> Adversary:
    """Losses 0 or 1 whose means are random landscapes."""
    rng = as_generator(seed, GAMES)
    return Bernoulli(drawn(terrain, rng, **options), rng)


def hostile(terrain: Terrain, _seed: Any, *, kind: type[Watching], **options: Any) -> Watching:
    """Someone who looks at the player."""
    return kind(terrain.kernel, Points(terrain.points), heights=terrain.bumps, **options)


def trap(
    terrain: Terrain, seed: Any, *, first: Callable[..., Adversary], starts: Sequence[int]
) -> Adversary:
    """Kind and predictive in turn."""
    return Trap(first(terrain, seed), hostile(terrain, seed, kind=Predictive), starts)


def ambush(
    terrain: Terrain, seed: Any, *, first: Callable[..., Adversary], patience: int
) -> Adversary:
    """Kind until the player is sure of itself, then predictive."""
    return Ambush(first(terrain, seed), hostile(terrain, seed, kind=Predictive), patience)


def in_units(
    terrain: Terrain, seed: Any, *, first: Callable[..., Adversary], loss_range: tuple[float, float]
) -> Adversary:
    """A kind game in units of its own."""
    return InUnits(first(terrain, seed), loss_range)


def make_game(
    family: Family, terrain: Terrain, rounds: int, name: str, summary: str, maker: Callable[..., Adversary], *,
    about: dict[str, Any] | None = None, **options: Any,
) -> Game:  # fmt: skip
    """A game on a terrain; `about` are further fields of it, `options` are for the maker."""
    weather: Weather = "hostile" if maker in (hostile, trap, ambush) else "kind"
    make, points = partial(maker, terrain, **options), terrain.points
    fields = {"weather": weather, **(about or {})}
    return Game(name, family, summary=summary, points=points, kernel=terrain.kernel, rounds=rounds, make=make, **fields)  # fmt: skip
