"""What a game and a player of the arena are."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from koloss.games.adversaries import Adversary
from koloss.kernels import Kernel

Family = Literal["reported", "held-out", "data", "field", "peers", "contexts"]
Weather = Literal["kind", "hostile"]
Fact = Literal["range", "kernel"]
"""What players may have to be told of a game: an interval that holds all losses, a kernel that fits them."""


@dataclass(frozen=True)
class GameContexts:
    """The contexts of a game: which there are, how they come, and what players are told of that."""

    X: Any  # array of shape (C, d)
    kernel: Kernel  # what players that use a kernel are told; that of pairs is its product with the actions' kernel
    draw: Callable[[Any, int], Any]
    """From a seed and a number of rounds n to the rows of X that come, of shape (n,). The same seed gives the same rows, those of
    a shorter game are the first of a longer one, and the losses have nothing to do with them."""
    weights: Any = None  # their law, of shape (C,), where players are told it
    order: Literal["independent", "any"] = "independent"
    """Whether players may rely on contexts that are drawn independently of the losses; otherwise they come as they like."""


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
    contexts: GameContexts | None = None
    """Where there are any, the losses of a round are those in its context, players that can are asked with it, and regret is
    against the best mapping from contexts to actions."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An action, the probability with which it was drawn where that is known, and its context, where it was asked for in one."""

    index: int
    probability: float | None = None
    context: int | None = None
    memory: Any = None  # what the player wants to be reminded of with its loss


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


class ContextPlayer(Player):
    """A player that hears of contexts, by their rows; of none, in a game without them."""

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        told = np.empty((0, 0)) if game.contexts is None else game.contexts.X
        self.contexts = np.asarray(told, dtype=float)  # of shape (C, d)

    @abc.abstractmethod
    def distribution_for(self, context: int | None) -> Any:
        """Probability of every action in the next `ask` with this context."""

    @abc.abstractmethod
    def ask(self, context: int | None = None) -> Any:
        """A decision in this context."""

    @property
    def distribution(self) -> Any:
        """The mean over all contexts, where there are any."""
        if not len(self.contexts):
            return self.distribution_for(None)
        return np.mean([self.distribution_for(c) for c in range(len(self.contexts))], axis=0)


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
    where: Literal["plain", "contexts", "both"] = "plain"
    """Games without contexts, with contexts, or both: then it plays without hearing of contexts."""

    def plays(self, game: Game) -> bool:
        """Whether it has a place in this game."""
        return self.where in ("both", "plain" if game.contexts is None else "contexts")
