"""What a game and a player of the arena are."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from koloss.games.adversaries import Adversary
from koloss.kernels import Kernel

Family = Literal["reported", "held-out", "data", "field", "peers"]
Weather = Literal["kind", "hostile"]
Fact = Literal["range", "kernel"]
"""What players may have to be told of a game: an interval that holds all losses, a kernel that fits them."""


@dataclass(frozen=True)
class Game:
    """One game of the arena: finitely many actions, a kernel, and losses, in [0, 1] unless it says otherwise."""

    name: str  # in lower case with hyphens
    family: Family
    """Whether the insured learner was tuned while its results on this game were being looked at (`reported`, and the `peers`'
    own environments), was not (`held-out`, and conditions of the `field`), or the losses come from real data."""
    weather: Weather  # hostile: the losses depend on what the player is about to do, or has done
    summary: str  # a line for people
    points: Any  # array of shape (N, d)
    kernel: Kernel  # what players that use a kernel are told
    rounds: int
    make: Callable[[Any], Adversary]
    """From a seed to the adversary; its losses are arrays of shape (N,) with entries in the range. The same seed gives the same
    losses, where these do not depend on the player."""
    source: str = ""  # where data or rules come from, and their licence
    loss_range: tuple[float, float] = (0.0, 1.0)  # holds all losses
    unknown: tuple[Fact, ...] = ()  # what only those players are told that cannot do without
    home: str = ""  # the package whose own environment it is
    floor: float | None = None
    """What regret is counted against, per round, where losses depend on what was played: no fixed action can be compared then."""
    delays: Callable[[Any, int], Any] | None = None
    """From a seed and a number of rounds to how many rounds late the loss of each is told, -1 where it never is; all at once
    where there is no such function. The same seed gives the same delays, whatever the player does and pays."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An action, and the probability with which it was drawn where that is known."""

    index: int
    probability: float | None = None


class Player(abc.ABC):
    """What a player is that is no learner of the library: it has as much of their contract as a game needs."""

    feedback: Literal["bandit", "full"] = "bandit"  # full: `tell` hears the losses of all actions
    rank: int | None = None  # number of features, where there are any
    epsilon: float | None = None  # their error

    def __init__(self, game: Game) -> None:
        self.actions = np.asarray(game.points, dtype=float)  # of shape (N, d)

    @property
    @abc.abstractmethod
    def distribution(self) -> Any:
        """Probability of every action in the next `ask`, which adversaries may look at before it."""

    @abc.abstractmethod
    def ask(self) -> Any:
        """A decision with an `index`, and a `probability` where that is known."""

    @abc.abstractmethod
    def tell(self, decision: Any, loss: Any) -> None:
        """Hear the loss of that action; with full information the losses of all actions."""

    def peek(self, rng: np.random.Generator, count: int = 64) -> tuple[Any, Any]:
        """All actions, and their probabilities in the next `ask`."""
        return self.actions, self.distribution

    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Any:
        """What is proved of it: nothing."""
        return None


@dataclass(frozen=True)
class PlayerSpec:
    """How to make a player."""

    name: str  # as in the table
    slug: str  # in lower case with hyphens
    make: Callable[[Game, Any], Any]  # (game, seed) -> Player or learner; imports what it needs
    package: str = ""  # the distribution on PyPI that it needs beside the library itself
    full: bool = False  # whether it is told the losses of all actions
    summary: str = ""  # a line for people: what it is, and with which settings
    most_runs: int | None = None  # of a game, where it is slow
    needs: tuple[Fact, ...] = ("range", "kernel")
    """What it is told also where that is `unknown`. With a range it hears losses scaled to [0, 1] by it, otherwise in the game's
    own units."""
    late: bool = True  # whether it can hear a loss after it has made further decisions
