"""Where the insured learner explores, and how far one round can move its estimates."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from koloss.core import linalg
from koloss.core.device import DeviceFeatures
from koloss.core.snapshot import Vector, kept
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.shares import Shares
from koloss.learners.bandit.subsets import subset_of

Floats = NDArray[np.float64]

STEPS = 4
"""Multiplicative steps towards a design in the middle of a game."""

KEPT = 1_000_000
"""Most numbers about single actions that an exploration keeps."""

PAIRS = 10_000_000
"""Most pairs of actions that are looked at one by one; beyond that, Cauchy and Schwarz have to do."""


def smallest(values: Floats) -> float:
    """The minimum, by way of `argmin`, which is faster than `min`."""
    value: float = values.item(values.argmin())
    return value


def largest(values: Floats) -> float:
    """The maximum, likewise."""
    value: float = values.item(values.argmax())
    return value


def lowest(values: Floats, offered: Any = None) -> int:
    """Row of the smallest value, among the actions that are offered where not all are."""
    return int((values if offered is None else np.where(offered, values, np.inf)).argmin())


def within(values: Floats, half: float = 0.5) -> Floats:
    """Values brought into [-half, half] by a factor, so that they stay in the span of the features."""
    size = max(largest(values), -smallest(values))
    return values * (half / size) if size > half else values


def _lengths(features: Any) -> Floats:
    if isinstance(features, DeviceFeatures):
        return features.quadratic(None)
    lengths: Floats = np.einsum("ij,ij->i", features, features)
    return lengths


@kept
@dataclass(eq=False)
class Exploration:
    """A design π, features in which Σ(π) = I, and what one round can do to the estimates.

    Where actions come and go each era has its own; features of actions that are not offered are zero.
    """

    number: int
    features: Any  # (N, m)
    weights: Vector
    shares: Shares | None = None  # within which designs are made
    era: int = 0
    among: Any = None  # the actions that are allowed in a request; None: all on offer

    def __post_init__(self) -> None:
        self._restored()

    def _restored(self) -> None:
        self.cdf = np.cumsum(self.weights)
        self.cdf /= self.cdf[-1]
        self.support = np.flatnonzero(self.weights)
        self.leverages = _lengths(self.features)
        self.largest = float(self.leverages.max())
        self._near: dict[int, tuple[Floats, Floats]] = {}
        self._pairs: Any = None

    def priced(self, number: int, prices: Floats) -> Exploration:
        """The same actions, weighted so that the leverage of each is nearly in proportion to its price.

        With π the G-optimal design of φ/√price, μ ∝ π/price has φ'Σ(μ)⁻¹φ in proportion to the price where it explores: an
        action whose estimate may be off by more is explored less. A few multiplicative steps come near enough to π.
        """
        at, c = self.support, prices[self.support]
        rows = self.features[at] / np.sqrt(c)[:, None]
        w = self.weights[at]
        for _ in range(STEPS):
            root = np.linalg.cholesky(rows.T @ (w[:, None] * rows))
            white = solve_triangular(root, rows.T, lower=True, check_finite=False)
            w = w * np.einsum("ij,ij->j", white, white)
            w /= w.sum()
        weights = np.zeros_like(self.weights)
        weights[at] = w / c
        weights /= weights.sum()
        if self.shares is not None:
            with np.errstate(divide="ignore"):
                weights = self.shares.project(np.log(weights))
        mu = weights[at]
        root = np.linalg.cholesky(self.features[at].T @ (mu[:, None] * self.features[at]))
        white = linalg.transformed(self.features, root)
        return Exploration(number, white, weights, self.shares, self.era)

    def draw(self, uniform: float) -> int:
        """An action by inversion of the cumulative sums."""
        return int(self.cdf.searchsorted(uniform, side="right"))

    def about(self, choice: int) -> tuple[Floats, Floats]:
        """K(a, choice) and γ max_b |k(a, b)| at most, for every action a, where the policy plays `choice` with 1 - γ ≥ 1/2.

        With K(a, b) = φ(a)'φ(b) and j the choice, γk(a, b) = K(a, b) - s K(a, j)K(j, b)/K(j, j) for an s between K(j, j)/(K(j, j) + 1)
        and 1, and γ|k(a, j)| ≤ |K(a, j)|/K(j, j). The pairs at s = 1, and what the rest can add. Kept, as policies return to their actions.
        """
        known = self._near.get(choice)
        if known is not None:
            return known
        W = self.features
        if len(self._near) * len(W) > KEPT:
            self._near.clear()
        beside = W @ W[choice]
        if len(self.support) * len(W) > PAIRS:
            self._near[choice] = beside, self.far_reach()
            return self._near[choice]
        if self._pairs is None:
            near = W[self.support]
            self._pairs = near @ W.T if isinstance(W, np.ndarray) else np.asarray(W @ near.T).T
        K_jj = float(beside[choice])
        explored = beside[self.support]
        pairs = np.outer(explored / K_jj, beside)
        np.subtract(self._pairs, pairs, out=pairs)
        reach = np.abs(pairs, out=pairs).max(axis=0)
        rest = max(largest(np.abs(explored)) / (K_jj + 1), 1.0) / K_jj
        self._near[choice] = beside, reach + rest * np.abs(beside)
        return self._near[choice]

    def far_reach(self) -> Floats:
        """The same for any law of the policy's: |k(a, b)| ≤ √(k(a, a) k(b, b))."""
        reach: Floats = np.sqrt(self.leverages * self.largest)
        return reach


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
        beside, _ = self.exploration.about(self.choice)
        weight = 1 / (g + (1 - g) * beside.item(self.choice))
        if index == self.choice:
            return weight * beside
        return (W @ W[index] - (1 - g) * weight * float(beside[index]) * beside) / g

    def reach(self) -> Any:
        """max_b |k(a, b)| at most, for every action a."""
        if self.choice is None:
            return self.exploration.far_reach() / self.rate
        return self.exploration.about(self.choice)[1] / self.rate


Bools = NDArray[np.bool_]

MASKED = 2**52
"""Least number of an exploration among some of the actions."""

MASKS_KEPT = 16
"""Explorations among some of the actions that are kept for when they are asked for again."""


def explore(
    engine: PointsEngine, offered: Bools, number: int, era: int, among: Bools | None = None
) -> Exploration:
    """How to explore the actions that are offered: their own design, in coordinates of the space that they span."""
    subset = subset_of(engine, offered).engine
    return Exploration(number, subset.features, subset.weights, era=era, among=among)


def explore_masked(
    engine: PointsEngine, mask: Bools, era: int, made: dict[int, Exploration]
) -> Exploration:
    """How to explore in a request among some of the actions: one of those made of late in this era, or a new one."""
    # Numbered by what it is, so that a learner that has kept it and one that makes it again agree.
    digest = hashlib.sha256(b"%d " % era + mask.tobytes()).digest()
    number = MASKED + int.from_bytes(digest[:6], "big")
    if number not in made:
        found = explore(engine, mask, number, era, mask)
        if len(made) >= MASKS_KEPT:
            made.clear()
        made[number] = found
    return made[number]
