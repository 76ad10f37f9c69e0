"""A round of a stage: how its actions are drawn, and what the loss of one says of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from koloss.core import linalg
from koloss.core.snapshot import kept
from koloss.learners.insured.exploration import Exploration


@kept
@dataclass(slots=True, eq=False)
class Round:
    """How the actions of a round were drawn, and what had been predicted."""

    choice: int | None  # the policy's action, or None where it gave a law
    rate: float  # γ
    exploration: Exploration
    prediction: Any  # M, within [-1/2, 1/2]
    heard: int  # losses heard by the stage before
    counted: bool = True  # whether it is within the budget, or played on trust
    law: Any = None  # q
    factor: Any = None  # Cholesky factor of Σ where the policy gave a law
    towards: Any = None  # in its place once it is long over: Σ⁻¹φ of the one action that waits
    weight: float = 1.0  # with which its loss is entered at most

    together: ClassVar[bool] = False
    number: ClassVar[int] = 0

    @property
    def era(self) -> int:
        """In which it was drawn."""
        return self.exploration.era

    def shrink(self) -> None:
        """Keep only what late losses need."""
        self.law = None

    def condensed(self, keys: Sequence[int]) -> list[Round] | None:
        """A round for each action that waits, without Σ; None where that takes no less room."""
        if self.factor is None or len(keys) > len(self.factor):
            return None
        rows = (self.exploration.features[key if key >= 0 else ~key] for key in keys)
        return [replace(self, factor=None, towards=linalg.solve(self.factor, row)) for row in rows]

    def draw(self, coin: float) -> int:
        """The row of an action, or its complement ~row where it is explored: one coin decides both."""
        g = self.rate
        if coin < g:
            return ~self.exploration.draw(coin / g)
        if self.choice is not None:
            return self.choice
        cdf = np.cumsum(self.law)
        return int(cdf.searchsorted((coin - g) / (1 - g) * cdf[-1], side="right"))

    def draw_many(self, coins: Any) -> Any:
        """The same for every coin of an array."""
        g, explored = self.rate, coins < self.rate
        keys = np.full(len(coins), -1 if self.choice is None else self.choice)
        keys[explored] = ~self.exploration.cdf.searchsorted(coins[explored] / g, side="right")
        if self.choice is None:
            cdf, rest = np.cumsum(self.law), coins[~explored]
            keys[~explored] = cdf.searchsorted((rest - g) / (1 - g) * cdf[-1], side="right")
        return keys

    def probability(self, index: int) -> float:
        """p of one action."""
        p: float = self.rate * self.exploration.weights.item(index)
        if self.choice is None:
            return p + (1 - self.rate) * float(self.law[index])
        return p + (1 - self.rate) * (index == self.choice)

    def distribution(self) -> Any:
        """p of every action."""
        p = self.rate * self.exploration.weights
        if self.choice is None:
            return p + (1 - self.rate) * self.law
        p[self.choice] += 1 - self.rate
        return p

    def estimates(self, index: int) -> Any:
        """k(a, index) for every action a."""
        W, g = self.exploration.features, self.rate
        if self.choice is None:
            solved = self.towards
            return W @ (linalg.solve(self.factor, W[index]) if solved is None else solved)
        # Sherman and Morrison: Σ = γI + (1 - γ)φ_jφ_j'.
        beside = self.exploration.beside(self.choice)
        weight = 1 / (g + (1 - g) * beside.item(self.choice))
        if index == self.choice:
            return weight * beside
        return (W @ W[index] - (1 - g) * weight * float(beside[index]) * beside) / g

    def reach(self) -> Any:
        """max_b |k(a, b)| at most, for every action a."""
        if self.choice is None:
            return self.exploration.far_reach() / self.rate
        return self.exploration.reach(self.choice) / self.rate
