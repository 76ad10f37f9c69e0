"""Which theorem an insured learner with contexts plays by, decided before the first round by the bounds (theory F6.6, F6.6c, F6.7).

In units of the losses' range, with B the scale of the robust learner's bound, R and S those of its design: one budget for all
contexts costs (trigger + premium)B, one for each costs trigger B + R + (|S| + 1)/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from koloss.core.snapshot import kept
from koloss.designs import Design, john_design
from koloss.designs.base import certify, orthonormal
from koloss.designs.contexts import capped_design, even_design
from koloss.designs.john import earlier_first
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.guarantees.insured import CEILING
from koloss.guarantees.insured_contexts import exploration, scale, scale_in_any_order
from koloss.learners.insured.in_turn import KAPPA, InTurn, Own, OwnRows
from koloss.learners.insured.segments import Floats, Footing, OneByOne, Rows, Together

TOLERANCE = 1e-3
"""How far designs may be from the best ones."""

Kind = Literal["one by one", "together", "in any order"]


@kept
@dataclass(frozen=True)
class Numbers:
    """What the bound depends on, in units of the range."""

    kind: Kind
    rounds: int  # n
    trigger: float  # β
    premium: float  # δ
    scale: float  # B(n)
    learning_rate: float = (
        0.0  # η of the robust learner, the largest of its contexts; 0: it changes with time
    )
    cost: float = 0.0  # γ of its design, ...
    largest: float = 0.0  # ... R, ...
    largest_exploiting: float = 0.0  # ... R_S, ...
    exploiting: int = 0  # ... |S|, ...
    explored: float = 0.0  # ... and the mass of what is observed by exploring
    jump: float = 0.0  # J₁ and ...
    spread: float = 0.0  # ... H₁ of the even design


@kept
@dataclass(frozen=True, eq=False)
class Plan:
    """A watch and a robust learner, and what is proved of them."""

    numbers: Numbers
    games: tuple[BanditProblem, ...]  # on pairs, or one for each context, in units of the range
    watch: OneByOne | Together | InTurn
    robust: Rows | OwnRows

    @property
    def short(self) -> bool:
        """Whether there is nothing to insure: more than half of the rounds would explore."""
        n = self.numbers
        if n.kind == "in any order":
            room = n.premium * n.scale
            return max(exploration(game.leverage, room) for game in self.games) > CEILING
        return n.cost > CEILING

    @property
    def rank(self) -> int:
        """Number of features, of all contexts together."""
        return sum(game.rank for game in self.games)

    @property
    def epsilon(self) -> float:
        """Their error, in units of the range."""
        return max(game.epsilon for game in self.games)

    @property
    def rates(self) -> Rates:
        """η and γ of the robust learner, where they do not change with time, and κ."""
        return Rates(self.numbers.learning_rate, min(self.numbers.cost, 1.0), KAPPA)


def plan_segments(
    features: Floats, law: Floats, epsilon: float, rounds: int, trigger: float, premium: float
) -> Plan:
    """For contexts drawn independently by a known law: one segment at a time, or all at once where that costs less."""
    _, K, m = features.shape
    game = pairs_game(m, K, epsilon, rounds)
    B = scale(game, rounds)
    eta = game.log_prior * (1 + 2 * epsilon) / (B * game.estimate_bound) if K > 1 else 1.0
    reach = KAPPA / (eta * game.estimate_bound)
    plain = _plain(features.reshape(-1, m))
    design = capped_design(features, law, reach, plain=plain, tolerance=TOLERANCE)
    footing = Footing.of(
        features, law, design.laws, design.shares, design.discounts, design.exploits
    )
    numbers = Numbers(
        kind="one by one",
        rounds=rounds,
        trigger=trigger,
        premium=premium,
        scale=B,
        learning_rate=eta,
        cost=design.cost,
        largest=design.largest,
        largest_exploiting=design.largest_exploiting,
        exploiting=int(design.exploits.sum()),
        explored=float(np.sum(law * footing.rates * footing.discounts)),
    )
    watch = OneByOne.sharing(footing, trigger * B)
    plan = Plan(numbers, (game,), watch, Rows(footing, eta, epsilon))
    if premium * B < design.largest + (numbers.exploiting + 1) / 2 and not plan.short:
        even = even_design(features, law, plain=plain)
        rate = exploration(even.jump, premium * B)
        if rate <= CEILING:
            numbers = replace(numbers, kind="together", jump=even.jump, spread=even.spread)
            other = Footing.of(features, law, even.laws, rate, even.discounts)
            return replace(plan, numbers=numbers, watch=Together(other, trigger * B))
    return plan


def _plain(rows: Floats) -> Design:
    """The best design on all pairs; of those that are equally good the one that earlier pairs carry, so that rounding does not choose."""
    weights = john_design(earlier_first(rows)).weights
    return certify(orthonormal(rows)[0], weights, "G-optimal design", rows)


def pairs_game(rank: int, actions: int, epsilon: float, rounds: int) -> BanditProblem:
    """The game on pairs, whose designs are nearly the best ones."""
    leverage = (1 + TOLERANCE) * rank
    return BanditProblem(rounds, rank, leverage, 0.5, epsilon, math.log(actions), bonus=True)


def plan_in_turn(
    owns: Sequence[Own], epsilon: float, rounds: int, trigger: float, premium: float
) -> Plan:
    """For contexts in any order."""
    robust = OwnRows(owns, epsilon, rounds)
    B = scale_in_any_order(robust.games, rounds)
    eta = max(robust.etas or [1.0])
    numbers = Numbers("in any order", rounds, trigger, premium, B, learning_rate=eta)
    watch = InTurn(owns, premium * B, trigger * B)
    return Plan(numbers, tuple(robust.games), watch, robust)
