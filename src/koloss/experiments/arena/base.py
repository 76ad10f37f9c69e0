"""What a game and a player of the arena are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from koloss.games.adversaries import Adversary
from koloss.kernels import Kernel

Family = Literal["reported", "held-out", "data"]
Weather = Literal["kind", "hostile"]


@dataclass(frozen=True)
class Game:
    """One game of the arena: finitely many actions, a kernel, losses in [0, 1].

    Attributes
    ----------
    name : str
        Its own, in lower case with hyphens.
    family : "reported", "held-out" or "data"
        Whether the insured learner was tuned while its results on this game were being looked at, was not, or the
        losses come from real data.
    weather : "kind" or "hostile"
        Hostile: the losses depend on what the player is about to do.
    summary : str
        A line for people.
    points : array of shape (N, d)
    kernel : Kernel
        What players that use a kernel are told.
    rounds : int
    make : callable
        From a seed to the adversary; its losses are arrays of shape (N,) with entries in [0, 1]. The same seed gives
        the same losses, where these do not depend on the player.
    source : str
        Where real data come from, and their licence.
    """

    name: str
    family: Family
    weather: Weather
    summary: str
    points: Any
    kernel: Kernel
    rounds: int
    make: Callable[[Any], Adversary]
    source: str = ""


class Player(Protocol):
    """What the arena asks of a player; all learners of the library with bandit feedback on points are players."""

    @property
    def actions(self) -> Any:
        """The points, an array of shape (N, d)."""

    @property
    def distribution(self) -> Any:
        """Probability of every action in the next `ask`, which adversaries may look at before it."""

    def ask(self) -> Any:
        """A decision with an `index`."""

    def tell(self, decision: Any, loss: Any) -> None:
        """Hear the loss of that action; with full information the losses of all actions."""


@dataclass(frozen=True)
class PlayerSpec:
    """How to make a player.

    Attributes
    ----------
    name : str
        As in the table.
    slug : str
        In lower case with hyphens.
    make : callable
        (game, seed) -> Player. Imports the package it needs.
    package : str
        The distribution on PyPI that it needs beside the library itself; empty where none.
    full : bool
        Whether it is told the losses of all actions.
    summary : str
        A line for people: what it is, and with which settings.
    most_runs : int, optional
        Runs of a game that it plays at most, where it is slow.
    """

    name: str
    slug: str
    make: Callable[[Game, Any], Player]
    package: str = ""
    full: bool = False
    summary: str = ""
    most_runs: int | None = None
