"""Which theorem an insured learner with contexts plays by, decided before the first round by the bounds (theory F6.6, F6.6c, F6.7).

In units of ρ, the width of the losses' range, with m features of pairs, K actions and error ε:

    B(n) = (1 + 2ε) √(c m n log K),   c = 1 + τ + ψ(2)

is the scale of the robust learner's bound. One budget for all contexts costs (β + δ)B, a budget for each βB + R + (|S| + 1)/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from koloss.designs.contexts import capped_design, even_design
from koloss.guarantees.bandit import Rates, psi
from koloss.learners.insured.in_turn import InTurn, Own, OwnRows
from koloss.learners.insured.segments import Floats, Footing, OneByOne, Rows, Together

TOLERANCE = 1e-3
"""τ: how far designs are from the best ones."""

KAPPA = 2.0
"""κ: how far one estimate may move a log-weight."""

CEILING = 0.5
"""Largest share of exploration: with more there is nothing to insure."""


@dataclass(frozen=True)
class Numbers:
    """What the bound depends on, in units of the range."""

    rounds: int  # n
    contexts: int  # C
    actions: int  # K
    rank: int  # m; in turn the sum of those of all contexts
    epsilon: float  # ε
    trigger: float  # β
    premium: float  # δ
    scale: float  # B(n)
    learning_rate: float = 0.0  # η
    cost: float = 0.0  # γ of the robust learner
    largest: float = 0.0  # R; in turn the largest rank of a context
    largest_exploiting: float = 0.0  # R_S
    exploiting: int = 0  # |S|
    mass: float = 0.0  # of the measure that is watched: Σ μ_c γ_c w_c
    unevenness: float = 0.0  # H₁ of the even design


@dataclass(frozen=True, eq=False)
class Plan:
    """A watch and a robust learner, and what is proved of them."""

    statement: str
    watch: OneByOne | Together | InTurn
    robust: Rows | OwnRows
    numbers: Numbers
    short: bool  # whether there is nothing to insure

    @property
    def rates(self) -> Rates:
        """η and γ of the robust learner, where they do not change with time, and κ."""
        return Rates(self.numbers.learning_rate, min(self.numbers.cost, 1.0), KAPPA)


def plan_segments(
    features: Floats, law: Floats, epsilon: float, rounds: int, trigger: float, premium: float
) -> Plan:
    """For contexts drawn independently by a known law: segments one at a time, or all at once where that costs less."""
    C, K, m = features.shape
    c = 1 + TOLERANCE + psi(KAPPA)
    scale = (1 + 2 * epsilon) * math.sqrt(c * m * rounds * math.log(K))
    eta = math.sqrt(math.log(K) / (c * m * rounds)) / (0.5 + epsilon)
    design = capped_design(features, law, KAPPA / (eta * (0.5 + epsilon)), tolerance=TOLERANCE)
    footing = Footing.of(
        features, law, design.laws, design.shares, design.discounts, design.exploits
    )
    exploits = footing.exploits
    numbers = Numbers(
        rounds, C, K, m, epsilon, trigger, premium, scale, eta, design.cost, design.largest,
        design.largest_exploiting, int(exploits.sum()),
        float(np.sum(law * footing.rates * footing.discounts)),
    )  # fmt: skip
    robust, short = Rows(footing, eta, epsilon), design.cost > CEILING
    if premium * scale < design.largest + (numbers.exploiting + 1) / 2 and not short:
        together, unevenness = _together(features, law, scale, trigger, premium)
        if together is not None:
            numbers = replace(numbers, unevenness=unevenness)
            return Plan("Theorem F6.6", together, robust, numbers, short)
    watch = OneByOne.sharing(footing, trigger * scale)
    return Plan("Theorem F6.6c", watch, robust, numbers, short)


def _together(
    features: Floats, law: Floats, scale: float, trigger: float, premium: float
) -> tuple[Together | None, float]:
    """One budget for all, where the exploration that it needs is not too much; and H₁."""
    design = even_design(features, law)
    rate = design.jump / (premium * scale - 1) if premium * scale > 1 else math.inf
    if rate > CEILING:
        return None, 0.0
    footing = Footing.of(features, law, design.laws, rate, design.discounts)
    return Together(footing, trigger * scale), design.spread


def plan_in_turn(
    owns: Sequence[Own], epsilon: float, rounds: int, trigger: float, premium: float
) -> Plan:
    """For contexts in any order."""
    K, total = len(owns[0].weights), sum(own.rank for own in owns)
    c = max(own.leverage / own.rank for own in owns) + psi(KAPPA)
    scale = math.sqrt(2) * (1 + 2 * epsilon) * math.sqrt(c * rounds * math.log(K) * total)
    most = float(max(own.rank for own in owns))
    numbers = Numbers(rounds, len(owns), K, total, epsilon, trigger, premium, scale, largest=most)
    largest = premium * scale - 1
    short = largest * CEILING < max(own.leverage for own in owns)
    watch = InTurn(owns, max(largest, 1.0), trigger * scale)
    return Plan("Theorem F6.7 (4)", watch, OwnRows(owns, epsilon), numbers, short)
