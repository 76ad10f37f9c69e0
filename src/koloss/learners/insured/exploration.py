"""Where the insured learner explores, and how far one round can move its estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from koloss.core import linalg
from koloss.core.device import DeviceFeatures
from koloss.core.snapshot import Vector, kept
from koloss.learners.bandit.shares import Shares

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


def softmax(scores: Floats) -> Floats:
    """The law in proportion to exp(scores), along the last axis."""
    q: Floats = np.exp(scores - scores.max(axis=-1, keepdims=True))
    q /= q.sum(axis=-1, keepdims=True)
    return q


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
class Exploration:
    """A design π, features in which Σ(π) = I, and what one round can do to the estimates.

    Where actions come and go each era has its own; features of actions that are not offered are zero.
    """

    number: int
    features: Any  # (N, m)
    weights: Vector
    era: int
    among: Any  # the actions that are allowed in a request; None: all on offer
    shares: Shares | None  # within which designs are made

    def __init__(
        self,
        number: int,
        features: Any,
        weights: Floats,
        shares: Shares | None = None,
        era: int = 0,
        among: Any = None,
    ) -> None:
        self.number, self.features, self.weights, self.era = number, features, weights, era
        self.among, self.shares = among, shares
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

    def reach(self, choice: int) -> Floats:
        """γ max_b |k(a, b)| at most, for every action a, where the policy plays `choice` with probability 1 - γ ≥ 1/2.

        With K(a, b) = φ(a)'φ(b) and j the choice, γk(a, b) = K(a, b) - s K(a, j)K(j, b)/K(j, j) for an s between K(j, j)/(K(j, j) + 1)
        and 1, and γ|k(a, j)| ≤ |K(a, j)|/K(j, j). The pairs at s = 1, and what the rest can add.
        """
        return self._about(choice)[1]

    def beside(self, choice: int) -> Floats:
        """K(a, choice) for every action a."""
        return self._about(choice)[0]

    def _about(self, choice: int) -> tuple[Floats, Floats]:
        """K(a, choice) and the reach; kept, as policies return to their actions."""
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
