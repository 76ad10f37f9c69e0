"""Policies watched context by context, for contexts in any order (theory F6.7 (4)).

Nothing is assumed of the contexts: weekdays, hours, or chosen by an adversary. The policy may share what it hears between them
as it likes. The watch does not: estimates stay inside the context, on its own m_c features and its own design π_c,

    x(a) = M(c, a) + e φ_c(a)'Σ(γ_c π_c)⁻¹φ_c(a_t)(y - M(c, a_t)),      γ_c = G_c/(δB - 1),

where G_c is the leverage of π_c. Once Ĉ = Σ y - Σ_c min_a S(c, a) is above its budget, every context has a learner of its own:
exponential weights with rates that need no horizon (`OwnRows`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.core import linalg
from koloss.core.snapshot import kept
from koloss.guarantees.bandit import BanditProblem, anytime_rate, fixed_rate
from koloss.guarantees.contexts import horizons
from koloss.guarantees.insured_contexts import exploration
from koloss.learners.insured.exploration import softmax, within
from koloss.learners.insured.segments import Bools, Floats, Watch

KAPPA = 2.0
"""κ: how far one estimate may move a log-weight."""


@kept
@dataclass(frozen=True, eq=False)
class Own:
    """What a context has for itself: features in which its design is the identity."""

    features: Floats  # (K, m_c)
    weights: Floats  # (K,), π_c

    @property
    def rank(self) -> int:
        """m_c."""
        return int(self.features.shape[1])

    @property
    def leverage(self) -> float:
        """G_c = (1 + τ)m_c."""
        return float(np.max(np.einsum("ij,ij->i", self.features, self.features)))

    def projected(self, values: Floats) -> Floats:
        """Predictions of all actions in the span of the features, at most 1/2."""
        W = self.features
        return within(W @ (W.T @ (self.weights * values)))


@kept
class InTurn(Watch):
    """One account and one budget for all contexts; every row of sums has the rounds of its own context alone.

    One loss adds at most 1 + G_c/γ_c = δB.
    """

    owns: Sequence[Own]
    budget: float
    rates: Floats

    def __init__(self, owns: Sequence[Own], room: float, budget: float) -> None:
        super().__init__(np.full(len(owns), True), len(owns[0].weights), budget)
        self.owns, self.budget = owns, budget  # β B; and `room` is δ B
        self.rates = np.array([min(exploration(own.leverage, room), 1.0) for own in owns])  # γ_c

    def rate(self, context: int) -> float:
        """γ_c."""
        return float(self.rates[context])

    def weights(self, context: int) -> Floats:
        """π_c."""
        return self.owns[context].weights

    @property
    def used(self) -> Floats:
        """The part of every context in Ĉ."""
        return self.paid - self.total.min(axis=1)  # type: ignore[no-any-return]

    def learn(
        self, context: int, action: int, explored: bool, y: float, M: Floats, own: bool = True
    ) -> list[int]:
        """Enter a loss; all contexts, where it exceeds the budget."""
        if not self.watched.any():
            return []
        x = self.owns[context].projected(M[context])
        if explored:
            W = self.owns[context].features
            x = x + W @ (W[action] * ((y - x.item(action)) / self.rates.item(context)))
        self.total[context] += x
        self.paid[context] += y
        return list(range(len(self.owns))) if self.used.sum() > self.budget else []


@kept
class Part:
    """What the loss of a round in one context needs: γ and the factor of Σ then, the bonus."""

    __slots__ = ("bonus", "factor", "rate")

    rate: float
    factor: Any
    bonus: Any

    def __init__(self, rate: float, factor: Any, bonus: Any) -> None:
        self.rate, self.factor, self.bonus = rate, factor, bonus


@kept
@dataclass(slots=True)
class Parts:
    """That of a round, or of several drawn at once, by their contexts."""

    of: dict[int, Part]


@kept
class OwnRows:
    """One learner per context, for any order of contexts: Theorem F6.7 (1).

    With a number of rounds rates are those of the context's share of them (theory F6.11); without, those of exponential weights without
    a horizon for the t-th round of the context. Its sums gain (1 - γ_t)x'.
    """

    owns: Sequence[Own]
    epsilon: float
    games: list[BanditProblem]
    etas: list[float] | None
    sums: Floats
    made: Any
    awake: Bools

    def __init__(
        self, owns: Sequence[Own], epsilon: float = 0.0, rounds: int | None = None
    ) -> None:
        self.owns, self.epsilon = owns, epsilon
        C, K = len(owns), len(owns[0].weights)
        self.games = [
            BanditProblem(1, own.rank, own.leverage, 0.5, epsilon, math.log(K), bonus=True)
            for own in owns
        ]
        self.etas = None  # where they do not change
        if rounds is not None and K > 1:
            each = zip(self.games, horizons(self.games, [KAPPA] * C, rounds), strict=True)
            self.etas = [fixed_rate(game, KAPPA, own) for game, own in each]
        self.sums = np.zeros((C, K))
        self.made = np.zeros(C, dtype=np.int64)  # rounds of every context
        self.awake = np.zeros(C, dtype=bool)

    def hand_over(self, contexts: Any) -> None:
        """Play in these contexts from now on."""
        self.awake[contexts] = True

    def eta(self, context: int) -> float:
        """η of the next round in a context."""
        if self.sums.shape[1] == 1:
            return 1.0
        if self.etas is not None:
            return self.etas[context]
        return anytime_rate(self.games[context], KAPPA, self.made.item(context) + 1)

    def rate(self, context: int) -> float:
        """γ of the next round in a context."""
        return min(1.0, float(self.games[context].exploration(self.eta(context), KAPPA)))

    def weights(self, context: int) -> Floats:
        """π_c."""
        return self.owns[context].weights

    def law(self, context: int) -> Floats:
        """q ∝ exp(-η S(c, ·))."""
        return softmax(-self.eta(context) * self.sums[context])

    def observe(self, contexts: Any, keys: Any) -> Parts | None:
        """What the losses of a round will need, given what was drawn in which contexts; counts the rounds."""
        parts: dict[int, Part] = {}
        for c in contexts:
            if self.awake[c] and c not in parts:
                own, rate = self.owns[c], self.rate(c)
                factor = linalg.mixed_factor(own.features, (1 - rate) * self.law(c), rate)
                bonus = None
                if self.epsilon:
                    bonus = self.epsilon * np.sqrt(linalg.leverages(factor, own.features))
                parts[c] = Part(rate, factor, bonus)
        for c in contexts:
            self.made[c] += bool(self.awake[c])
        return Parts(parts) if parts else None

    def learn(
        self, observed: Parts | None, context: int, action: int, explored: bool, y: float
    ) -> None:
        """Add (1 - γ)x' with x' = φ'Σ⁻¹φ(a_t) y - ε √(φ'Σ⁻¹φ)."""
        part = None if observed is None else observed.of.get(context)
        if part is None:
            return
        W = self.owns[context].features
        x = W @ (linalg.solve(part.factor, W[action]) * y)
        if part.bonus is not None:
            x -= part.bonus
        self.sums[context] += (1 - part.rate) * x

    def best(self, context: int) -> int:
        """The action of least estimated loss."""
        return int(self.sums[context].argmin())
