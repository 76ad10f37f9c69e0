"""What the games of the arena are made of: points with their bumps, kind losses, hostile adversaries."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from koloss._arrays import frozen, to_numpy
from koloss.actions import Ball
from koloss.games.adversaries import Adversary, Replay
from koloss.kernels import Kernel


class Ground:
    """Points and a kernel, and K(x, y) / max K for all pairs of points, computed when a game is first played."""

    def __init__(self, points: Any, kernel: Kernel) -> None:
        self.points, self.kernel = frozen(points), kernel

    @cached_property
    def bumps(self) -> Any:
        gram = self.kernel(self.points)
        return frozen(gram / gram.max())

    def nearest(self, place: Any) -> int:
        return int(np.argmin(np.sum((self.points - np.asarray(place)) ** 2, axis=1)))


def ball(count: int, dimension: int, *, seed: int) -> Any:
    return Ball(dimension).sample(count, np.random.default_rng(seed))


def cube(count: int, dimension: int, *, seed: int) -> Any:
    return np.random.default_rng(seed).random((count, dimension))


# Kind losses.


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


class Landscapes(Adversary):
    """constant + Σ_j weights[t, j] landscapes[j] + noise: common to all actions, and a random bump."""

    def __init__(
        self,
        ground: Ground,
        landscapes: Any,
        weights: Any,
        rng: np.random.Generator,
        *,
        constant: float = 0.5,
        common: float = 0.0,
        stray: float = 0.0,
    ) -> None:
        n = len(weights)
        self.landscapes, self.weights, self.bumps = landscapes, weights, ground.bumps
        self.constant = constant + common * rng.choice([-1, 1], n)
        self.height = stray * rng.choice([-1, 1], n)
        self.place = rng.integers(len(ground.points), size=n)

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


class Watching(Adversary):
    """Looks at the player's distribution and places a bump of height 1 by it."""

    oblivious = False

    def __init__(self, ground: Ground) -> None:
        self.bumps = ground.bumps

    def distribution(self, player: Any) -> Any:
        if player is None:
            raise ValueError("`player` must be a learner: this adversary looks at its distribution")
        p = to_numpy(player.distribution)
        if p.shape != self.bumps.shape[:1]:
            raise ValueError(
                f"`player` must have a distribution over {len(self.bumps)} points, got shape {p.shape}"
            )
        return p


class Predictive(Watching):
    """K(·, y), y the likeliest point."""

    def choose(self, t: int, player: Any) -> Any:
        return self.bumps[np.argmax(self.distribution(player))].copy()


class Lure(Watching):
    """1 - K(·, y), y the least likely point of every `patience`-th round."""

    def __init__(self, ground: Ground, patience: int = 1) -> None:
        super().__init__(ground)
        self.patience, self.place = patience, -1

    def choose(self, t: int, player: Any) -> Any:
        p = self.distribution(player)
        if self.place < 0 or t % self.patience == 0:
            self.place = int(np.argmin(p))
        return 1.0 - self.bumps[self.place]


class Turncoat(Watching):
    """K(·, y), y the likeliest point under a mean of all distributions so far that forgets in `memory` rounds."""

    def __init__(self, ground: Ground, memory: int) -> None:
        super().__init__(ground)
        self.memory, self.mean = memory, np.zeros(len(self.bumps))

    def choose(self, t: int, player: Any) -> Any:
        self.mean += (self.distribution(player) - self.mean) / self.memory
        return self.bumps[np.argmax(self.mean)].copy()


class Echo(Watching):
    """K(·, y), y the likeliest point of `lag` rounds ago; 1/2 everywhere before there is one."""

    def __init__(self, ground: Ground, lag: int) -> None:
        super().__init__(ground)
        self.lag, self.places = lag, deque[int]()

    def choose(self, t: int, player: Any) -> Any:
        self.places.append(int(np.argmax(self.distribution(player))))
        if len(self.places) <= self.lag:
            return np.full(len(self.bumps), 0.5)
        return self.bumps[self.places.popleft()].copy()


class Trap(Adversary):
    """One adversary until a round, another from then on."""

    oblivious = False

    def __init__(self, first: Adversary, second: Adversary, start: int) -> None:
        self.first, self.second, self.start = first, second, start

    def choose(self, t: int, player: Any) -> Any:
        return (self.first if t < self.start else self.second)(t, player)


# Makers of adversaries: from a ground and a seed.


def placed(
    ground: Ground,
    seed: Any,
    *,
    weights: Any,
    landscapes: list[list[tuple[float, tuple[float, float]]]],
    **noise: float,
) -> Adversary:
    """Landscapes that list coefficients and places; a bump stands on the nearest point."""
    made = [
        sum(c * ground.bumps[ground.nearest(place)] for c, place in landscape)
        for landscape in landscapes
    ]
    return Landscapes(ground, np.stack(made), weights, np.random.default_rng(seed), **noise)


def drawn(
    ground: Ground,
    seed: Any,
    *,
    weights: Any,
    size: float = 0.5,
    bumps: int = 6,
    **noise: float,
) -> Adversary:
    """Random landscapes: a dip with half of the size (all of it where it is alone), and bumps of either sign."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(weights.shape[1]):
        place = rng.integers(len(ground.points), size=bumps)
        c = np.full(bumps, -size)
        if bumps > 1:
            c[0] = -size / 2
            c[1:] = rng.dirichlet(np.ones(bumps - 1)) * rng.choice([-1, 1], bumps - 1) * size / 2
        made.append(c @ ground.bumps[place])
    return Landscapes(ground, np.stack(made), weights, rng, **noise)


def bernoulli(ground: Ground, seed: Any, **options: Any) -> Adversary:
    rng = np.random.default_rng(seed)
    return Bernoulli(drawn(ground, rng, **options), rng)


def hostile(ground: Ground, _seed: Any, *, kind: type[Watching], **options: Any) -> Adversary:
    return kind(ground, **options)


def trap(ground: Ground, seed: Any, *, first: Callable[..., Adversary], start: int) -> Adversary:
    return Trap(first(ground, seed), Predictive(ground), start)


def replay(_ground: Ground, _seed: Any, *, table: Callable[[], Any]) -> Adversary:
    """Recorded losses are the same for every seed."""
    return Replay(table(), bound=1.0)
