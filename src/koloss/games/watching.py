"""Adversaries that look at the player: at the law of its next action, never at its coin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.core.arrays import as_float, as_int, as_interval, to_numpy
from koloss.games.adversaries import Adversary, InSpace
from koloss.kernels import Kernel


class Watching(InSpace):
    """What those share that look at the player.

    On points, `heights` may be their bumps, an array of shape (N, N) with entries of at most 1. Losses are arrays then: a
    row of it, or 1 less it for a reward.
    """

    oblivious = False

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, norm: float = 1.0, heights: Any = None, rng: Any = None
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.heights = heights

    def look(self, player: Any) -> tuple[Any, Any]:
        """Next actions of the player, and their weights."""
        if player is None:
            raise ValueError("`player` must be a learner: this adversary looks at its distribution")
        X, p = player.peek(self.rng)
        if self.heights is not None and p.shape != self.heights.shape[:1]:
            rule = f"must have a distribution over {len(self.heights)} points"
            raise ValueError(f"`player` {rule}, got shape {p.shape}")
        return X, p

    def penalty(self, point: Any, i: int) -> Any:
        """A bump at a point, the i-th of those that the player may play."""
        return self.bump(point) if self.heights is None else self.heights[i].copy()

    def reward(self, point: Any, i: int) -> Any:
        """A dip there."""
        return self.bump(point, -1.0) if self.heights is None else 1.0 - self.heights[i]


class Predictive(Watching):
    """Sees the player's distribution, not its coin, and puts the loss where the player is most likely.

    On points it plays Φ of the likeliest one; elsewhere the mean of Φ over the player's distribution, the element that
    costs the player most on average.
    """

    def choose(self, t: int, player: Any) -> Any:
        X, p = self.look(player)
        if isinstance(self.actions, Points):
            i = int(np.argmax(p))
            return self.penalty(X[i], i)
        return self.scaled(self.kernel.embed(X, p))


class Lure(Watching):
    """Sees the player's distribution, and is good where the player is least likely. For points.

    The reward stays at one place for `patience` rounds, then moves to where the player is least likely by then.
    """

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, patience: int = 1, norm: float = 1.0,
        heights: Any = None, rng: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm, heights=heights, rng=rng)
        if not isinstance(actions, Points):
            raise TypeError(f"`actions` must be Points for a lure, got {type(actions).__name__}")
        self.patience = as_int("patience", patience, minimum=1)
        self._place: tuple[Any, int] | None = None

    def choose(self, t: int, player: Any) -> Any:
        X, p = self.look(player)
        if self._place is None or t % self.patience == 0:
            i = int(np.argmin(p))
            self._place = X[i], i
        return self.reward(*self._place)


class Stalker(Adversary):
    """Keeps arms where exponential weights barely play them, so that no estimate of theirs can be trusted.

    The first arm costs the middle of the range, always. Any other costs the least while only exploration plays it, and the
    most otherwise, so that the player's *estimate* of its total stays where it is: its true total is then minus the error of
    the estimate, which is of the order n^(3/4). In the last rounds such arms are let in. Errors cancel on average, but the best
    arm in the end is the one whose error was largest: the pseudo-regret stays below its bound, the regret in hindsight does not
    (theory F7). It knows the rates of the player, and sees its law.

    Parameters
    ----------
    rounds : int
        Of the game.
    learning_rate, exploration_rate : float
        η and γ of the player, which explores all arms alike.
    loss_range : (float, float)
        Of the losses.

    Examples
    --------
    >>> import koloss as kl
    >>> arms = kl.Points(np.eye(3))
    >>> learner = kl.BanditExpWeights(
    ...     arms, kl.Linear(), horizon=1000, loss_range=(-1, 1), batch=1, rng=0
    ... )
    >>> eta, gamma = learner.rates.learning_rate, learner.rates.exploration
    >>> stalker = kl.games.Stalker(1000, learning_rate=eta, exploration_rate=gamma)
    >>> stalker(0, learner).tolist()  # nobody is hidden yet
    [0.0, 1.0, 1.0]
    """

    oblivious = False

    def __init__(
        self, rounds: int, *, learning_rate: float, exploration_rate: float, loss_range: tuple[float, float] = (-1.0, 1.0)
    ) -> None:  # fmt: skip
        self.rounds = as_int("rounds", rounds, minimum=1)
        self.learning_rate = as_float("learning_rate", learning_rate, positive=True)
        self.exploration_rate = as_float("exploration_rate", exploration_rate, positive=True)
        if self.exploration_rate > 1:
            rule = f"must be at most 1, got {self.exploration_rate:.6g}"
            raise ValueError(f"`exploration_rate` {rule}")
        low, high = as_interval("loss_range", loss_range)
        self.center, self.half = (low + high) / 2, (high - low) / 2
        self.hidden = 1 - math.log(self.exploration_rate)
        """How much larger the log-weight of the first arm is than that of one that only exploration plays."""
        self.end = self.rounds - 1.2 * self.hidden / (self.learning_rate * self.half)
        self._in: Any = None  # arms that were let in at the end

    def choose(self, t: int, player: Any) -> Any:
        if player is None:
            raise ValueError("`player` must be a learner: this adversary looks at its distribution")
        p = np.asarray(to_numpy(player.distribution), dtype=float)
        q = np.maximum(p - self.exploration_rate / len(p), 1e-300)
        behind = np.log(q[0] / q)
        if t < self.end:
            self._in = np.zeros(len(p), dtype=bool)
            signs = np.where(behind >= self.hidden, -1.0, 1.0)
        else:
            self._in = (behind < 1) if self._in is None else self._in | (behind < 1)
            signs = np.where(self._in, 0.0, -1.0)
        signs[0] = 0.0
        return self.center + self.half * signs

    def __repr__(self) -> str:
        return f"Stalker({self.rounds})"
