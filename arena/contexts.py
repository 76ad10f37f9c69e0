"""Games with contexts: what is best depends on who asks, or on the day.

They were written down without results of any learner of the library. A loss is a constant and bumps of the product of a kernel on
contexts and one on actions, but for recorded delays and for a segment that turns. Losses do not depend on which context
comes: they are there for all contexts before it does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from arena import data
from arena.base import Game, GameContexts
from arena.terrain import (
    Landscapes,
    Terrain,
    cube,
    glide,
    hostile,
    pieces,
)
from koloss.actions import Choice, Float, Space
from koloss.core.arrays import frozen
from koloss.core.random import GAMES, as_generator
from koloss.games.adversaries import Adversary
from koloss.games.watching import Predictive, Watching
from koloss.kernels import Gaussian, Kernel, Mixed, Periodic

SHARES = (0.36, 0.22, 0.15, 0.11, 0.08, 0.05, 0.027, 0.003)
"""Of eight segments."""

LOADS = (0.4, 0.3, 0.2, 0.1)
"""Of four kinds of load."""

CACHE = Space(
    method=Choice(["lru", "lfu", "random"]),
    size=Float(1, 8192, log=True),
    decay=Float(0.01, 1.0, log=True, when={"method": "lfu"}),
)
"""Settings of a cache."""

LEVEL = 0.65
"""What actions cost far from all dips."""


# How contexts come.


def independent(seed: Any, rounds: int, *, law: Any) -> Any:
    """Drawn from a law, independently of everything."""
    coins = as_generator(seed, GAMES).spawn(2)[1].random(rounds)  # beside losses and delays
    return np.searchsorted(np.cumsum(law)[:-1], coins, side="right")


def in_turn(_seed: Any, rounds: int, *, count: int) -> Any:
    """One after the other, and again."""
    return np.arange(rounds) % count


# Pairs of a context and an action, and adversaries on them.


class Pairs(Terrain):
    """Pairs of a context and an action as points, the actions of the first context first; bumps are products of bumps."""

    def __init__(self, contexts: Any, context_kernel: Kernel, actions: Any, kernel: Kernel) -> None:
        self.contexts, self.actions = Terrain(contexts, context_kernel), Terrain(actions, kernel)
        C, N = len(contexts), len(actions)
        points = np.column_stack([np.repeat(contexts, N, axis=0), np.tile(actions, (C, 1))])
        super().__init__(points, kernel)

    @cached_property
    def bumps(self) -> Any:
        return frozen(np.kron(self.contexts.bumps, self.actions.bumps))


class InContext(Adversary):
    """Of the losses of all pairs, those of the round's context."""

    def __init__(self, pairs: Adversary, contexts: int, rows: Any) -> None:
        self.pairs, self.contexts, self.rows = pairs, contexts, rows

    def choose(self, t: int, player: Any) -> Any:
        return self.pairs(t).reshape(self.contexts, -1)[self.rows[t % len(self.rows)]].copy()


class Turning(Adversary):
    """Kind, but in one context from a round on hostile."""

    oblivious = False

    def __init__(self, kind: InContext, hostile: Watching, context: int, start: int) -> None:
        self.kind, self.hostile, self.context, self.start = kind, hostile, context, start

    def choose(self, t: int, player: Any) -> Any:
        turned = t >= self.start and self.kind.rows[t % len(self.kind.rows)] == self.context
        return (self.hostile if turned else self.kind)(t, player)


class Delays(Adversary):
    """What every number of minutes costs for a recorded flight, one of each hour, drawn with the same coin."""

    def __init__(self, minutes: Any, rounds: int, rng: np.random.Generator) -> None:
        counts = data.delay_counts()
        late = np.arange(counts.shape[1])
        self.losses = data.delay_losses(late, minutes)  # by minutes late
        self.cumulated = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
        self.coins = rng.random(rounds)

    def choose(self, t: int, player: Any) -> Any:
        below = self.cumulated[:, :-1] <= self.coins[t % len(self.coins)]
        return self.losses[below.sum(axis=1)]


def cache_points() -> Any:
    """Seventy settings of the cache, encoded: sizes in powers of two, decays in powers of ten."""
    sizes = 2.0 ** np.arange(14)
    plain = [{"method": one, "size": size} for one in ("lru", "random") for size in sizes]
    fading = [
        {"method": "lfu", "size": size, "decay": d} for d in (0.01, 0.1, 1.0) for size in sizes
    ]
    return CACHE.encode([*plain, *fading])


# Makers: from pairs, a seed and the rows of the contexts that come.


def dips(
    pairs: Pairs, seed: Any, rows: Any, *, weights: Any, count: int, travel: float = 0.0, size: float = 0.9,
    **noise: float,
) -> InContext:  # fmt: skip
    """Landscapes of dips: each stands at one of `count` contexts, evenly chosen, and at a random action, all in other parts.

    With `travel` every landscape is the next stop of the first: all dips go that share of the actions up, or all go down.
    """
    rng = as_generator(seed, GAMES)
    C, N = len(pairs.contexts.points), len(pairs.actions.points)
    at = np.linspace(0, C - 1, count).round().astype(int)
    parts = rng.permuted(np.tile(np.arange(count), (weights.shape[1], 1)), axis=1)
    actions = (parts + rng.random(parts.shape)) / count  # from 0 to 1
    if travel:
        actions = (1 - travel) * actions[0] + travel * np.linspace(0, 1, len(actions))[:, None]
        actions = actions if rng.random() < 0.5 else 1 - actions
    places = at * N + np.rint(actions * (N - 1)).astype(int)
    landscapes = -size / count * pairs.bumps[places].sum(axis=1)
    losses = Landscapes(pairs, landscapes, weights, rng, constant=LEVEL, **noise)
    return InContext(losses, C, rows)


def turning(
    pairs: Pairs, seed: Any, rows: Any, *, context: int, start: int, **options: Any
) -> Turning:
    """Dips, until one context turns and puts a bump where the player is most likely."""
    bumps = hostile(pairs.actions, seed, kind=Predictive)
    return Turning(dips(pairs, seed, rows, **options), bumps, context, start)


def delays(pairs: Pairs, seed: Any, rows: Any, *, minutes: Any) -> InContext:
    """Recorded delays."""
    flights = Delays(minutes, len(rows), as_generator(seed, GAMES))
    return InContext(flights, len(pairs.contexts.points), rows)


def _make(
    seed: Any, *, pairs: Pairs, maker: Callable[..., Adversary], draw: Any, rounds: int, **options: Any
) -> Adversary:  # fmt: skip
    return maker(pairs, seed, draw(seed, rounds), **options)


def _game(
    name: str, summary: str, rounds: int, pairs: Pairs, maker: Callable[..., Adversary], *,
    law: Any = None, told: bool = True, source: str = "", **options: Any,
) -> Game:  # fmt: skip
    """Contexts are drawn from a law, which players may be told; without a law they come in turn."""
    X = pairs.contexts.points
    if law is None:
        come = partial(in_turn, count=len(X))
        contexts = GameContexts(X, pairs.contexts.kernel, come, order="any")
    else:
        law = frozen(np.asarray(law, dtype=float) / np.sum(law))
        come = partial(independent, law=law)
        contexts = GameContexts(X, pairs.contexts.kernel, come, law if told else None)
    make = partial(_make, pairs=pairs, maker=maker, draw=come, rounds=rounds, **options)
    return Game(
        name, "contexts", "hostile" if maker is turning else "kind", summary, pairs.actions.points, pairs.actions.kernel,
        rounds, make, source=source, contexts=contexts,
    )  # fmt: skip


# The games.


@cache
def context_games() -> tuple[Game, ...]:
    """The family."""
    prices = np.linspace(0, 1, 25)[:, None]
    segments = Pairs(np.linspace(0, 1, 8)[:, None], Gaussian(0.25), prices, Gaussian(0.2))
    week = Pairs(np.arange(7.0)[:, None], Periodic(0.8, period=7.0), prices, Gaussian(0.2))
    loads = Pairs(
        np.arange(4)[:, None] / 3,
        Mixed(("choice",), hamming=0.7),
        cache_points(),
        Mixed(CACHE, lengths=(0.4, 0.8), hamming=0.7),
    )
    people = Pairs(
        cube(24, 2, seed=31), Gaussian(0.3), np.linspace(0, 1, 20)[:, None], Gaussian(0.25)
    )
    hours = Pairs(
        (data.delay_hours() / 24)[:, None],
        Gaussian(0.2),
        data.BUFFERS[:, None] / 150,
        Gaussian(0.2),
    )
    return (
        _game(
            "segments", "The best prices for eight segments drift; shares from 36 % to 0.3 %; random bumps ±0.1.",
            3000, segments, dips, weights=glide(3000, 9), count=3, travel=0.3, stray=0.1, law=SHARES,
        ),
        _game(
            "segment-turns", "Eight segments, random bumps ±0.1; in the largest, from round 1,500 on, a bump where the player is "
            "most likely there.",
            4500, segments, turning, weights=pieces(4500), count=3, stray=0.1, context=0, start=1500, law=SHARES,
        ),
        _game(
            "weekdays", "The best prices for the days of the week, which come in turn; others from round 1,400 on; common noise ±0.1.",
            2100, week, dips, weights=pieces(2100, 1400), count=3, common=0.1,
        ),
        _game(
            "cache", "Settings of a cache, a method of three, a size, and a rate that only one of them has, for four kinds of load; common "
            "noise ±0.1.",
            2500, loads, dips, weights=pieces(2500), count=4, common=0.1, law=LOADS,
        ),
        _game(
            "many-segments", "Twenty-four segments of a square, whose shares fall off as 1/k and are not told; common noise ±0.1, random bumps ±0.1.",
            3000, people, dips, weights=pieces(3000), count=4, size=0.8, common=0.1, stray=0.1, law=1 / np.arange(1, 25), told=False,
        ),
        _game(
            "flight-delays", "How many minutes to add to an airline's timetable, for each hour of departure: recorded delays.",
            3000, hours, delays, minutes=data.BUFFERS, law=data.delay_counts().sum(axis=1), source=data.DELAYS,
        ),
    )  # fmt: skip
