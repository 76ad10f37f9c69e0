"""Where to explore with contexts, at which rates, and in which coordinates (theory F6.2, F6.4, F6.7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss import _linalg
from koloss.designs import Design
from koloss.designs.contexts import CappedDesign, always_design, capped_design
from koloss.designs.ridge import whitening
from koloss.guarantees import bandit, contexts, periods
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.schedule import Schedule
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.reading import ROUNDING, Reader

Floats = NDArray[np.float64]

SLACK = 1.01
"""How far above m/R the cost of a design may be, for which rates allow beforehand where designs change."""

WORTHWHILE = 0.8
"""Share of m/R below which the cost of a design is worth other rates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockSchedule(Schedule):
    """Penalties that fall only where a block begins, in rounds 1, 2, 4, 8, ..., together with the design (theory F6.4)."""

    # A block explores as its first round has to: Σ γ is BLOCKS times as large, and Σ √γ, by √ROOTS, a little more.
    slack: ClassVar[float] = SLACK * contexts.ROOTS

    def level(self, t: int) -> int:
        return super().level(first_of_block(t))

    def first_round(self, level: int) -> int:
        t = 1
        while self.level(t) < level:
            t *= 2
        return t


def first_of_block(t: int) -> int:
    """The round in which the block of round t has begun."""
    return 1 << (t.bit_length() - 1)


def find_design(
    features: Floats, weights: Floats, leverage: float, mu: Floats, reach: float, columns: Floats | None = None, dimension: float = 0.0
) -> CappedDesign:  # fmt: skip
    """Where to explore in each context if R may be `reach`.

    `weights` are the best design without contexts and without a ridge, of this leverage; with one, of these columns, they matter
    only where R may not be more than the dimension: then everybody explores, and nothing is estimated.
    """
    plain = Design(weights, features.shape[1], leverage, "given") if columns is None else None
    stacked = features.reshape(len(mu), -1, features.shape[1])
    if columns is not None and reach <= dimension:
        return always_design(stacked, mu, weights.reshape(len(mu), -1), columns)

    def found(aim: float) -> CappedDesign:
        return capped_design(stacked, mu, aim, ridge=columns, plain=plain)

    aim = reach if columns is None else reach / 1.001  # the tolerance of its first design
    design = found(aim)
    while design.largest > reach and design.cost < 1:
        aim *= min(0.999, reach / design.largest)
        design = found(aim)
    return design


def first_reach(problem: BanditProblem, rates: Rates) -> float:
    """What R may be in the first round, without a horizon."""
    eta = bandit.anytime_rate(problem, rates.kappa, 1)
    return float(problem.largest_leverage(eta, rates.kappa))


def is_dear(problem: BanditProblem, design: CappedDesign, reach: float) -> bool:
    """Whether a design without a horizon costs more than the rates have allowed for."""
    more = contexts.BLOCKS if problem.ridge is None else contexts.ROOTS
    return design.cost * reach * more > problem.leverage * (1 + ROUNDING)


def first_design(
    settings: BanditSettings,
    problem: BanditProblem,
    rates: Rates,
    found: Callable[[float], CappedDesign],
) -> tuple[BanditProblem, Rates, CappedDesign]:
    """Rates and the design of the first rounds, and the game that they make; `found` is the design for a reach R."""
    if settings.horizon is None:
        # Exploration is paid for at the beginning of a block (theory F6.4).
        problem = replace(problem, leverage=SLACK * contexts.BLOCKS * problem.leverage)
        rates = Rates(0.0, 0.0, bandit.anytime_kappa(problem))
        return problem, rates, found(first_reach(problem, rates))
    if settings.manner == "paid" and problem.log_prior > 0:
        return counted_design(settings, problem, found)
    if settings.manner == "in turn" and settings.learning_rate is None:
        rates = in_turn_rates(settings, problem)
    capped = found(contexts.reach(problem, rates))
    eta = rates.learning_rate
    game, rates = contexts.with_design(problem, eta, capped.cost, capped.largest)
    if settings.learning_rate is None and game.leverage < WORTHWHILE * problem.leverage:
        # Rare contexts explore for less than others: a faster rate may be better.
        tuned = in_turn_rates(settings, game) if settings.manner == "in turn" else bandit.tune(game)
        again = found(contexts.reach(game, tuned))
        other, faster = contexts.with_design(
            problem, tuned.learning_rate, again.cost, again.largest
        )
        if total(settings, other, faster) < total(settings, game, rates):
            return other, faster, again
    return game, rates, capped


def counted_design(
    settings: BanditSettings, problem: BanditProblem, found: Callable[[float], CappedDesign]
) -> tuple[BanditProblem, Rates, CappedDesign]:
    """Rates where shares are counted and a bonus pays for that (theory F6.5); at first everybody explores."""
    assert settings.contexts is not None
    everybody = found(problem.leverage / 2)  # R is below the dimension
    problem = replace(problem, leverage=SLACK * problem.leverage)
    rates = contexts.tune_unknown_law(problem, len(settings.contexts))
    if settings.learning_rate is not None:
        rates = replace(rates, learning_rate=settings.learning_rate)
    return problem, rates, everybody


def whitened(
    features: Floats, weights: Floats, capped: CappedDesign, mu: Floats, anytime: bool
) -> Floats:
    """Features in coordinates in which all that matters in the game is of one size, however rare a context is.

    With a horizon they are those of the design; without, those of exploring in every round.
    """
    if anytime:
        K = capped.laws.shape[1]
        plain = weights.reshape(-1, K)
        each = plain.sum(axis=1, keepdims=True)
        law = mu[:, None] * np.where(each > 0, plain / np.where(each > 0, each, 1.0), 1 / K)
    elif capped.exploits.all():
        return features
    else:
        law = capped.exploration
    T = whitening(features, law.ravel(), np.zeros((features.shape[1], 0)))
    return np.asfortranarray(features @ T)


def total(settings: BanditSettings, game: BanditProblem, rates: Rates) -> float:
    """The bound without a ridge that falls with time: for epochs of one round, or for whole periods."""
    if settings.horizon is None:
        return sum(bandit.anytime_terms([(1, game)], rates.kappa, game.rounds).values())
    period = settings.contexts.period if settings.contexts else None
    whole = settings.manner == "in turn"
    terms = game.terms(rates.learning_rate, rates.kappa, b=period or 1, whole=whole)
    return float(sum(terms.values()))


def in_turn_rates(settings: BanditSettings, problem: BanditProblem) -> Rates:
    """η and κ that minimise the bound of whole periods (theory F6.7, 2)."""
    assert settings.contexts is not None
    return periods.tune_whole(problem, settings.contexts.period or 1)


def capped_from_dict(
    data: Reader, features: Floats, columns: Floats | None, mu: Floats, K: int
) -> CappedDesign:
    """The design in a snapshot; what it says of estimates must be so."""
    C = len(mu)
    laws = data.array("laws", (C, K), 0, 1)
    if np.any(np.abs(laws.sum(axis=1) - 1) > ROUNDING):
        data.refuse("laws", "must hold probabilities", laws.sum(axis=1))
    design = CappedDesign(
        exploration=data.array("exploration", (C, K), 0, 1),
        laws=laws,
        shares=data.array("shares", (C,), 0, 1),
        discounts=data.array("discounts", (C,), 0, 1),
        exploits=data.array("exploits", (C,), 0, 1, whole=True).astype(bool),
        largest=data.number("largest", positive=True),
        largest_exploiting=data.number("largest_exploiting", positive=True),
        cost=data.number("cost", 0, 1),
    )
    u, S, w = design.exploration, design.exploits, design.discounts
    penalty = None if columns is None else columns @ columns.T
    factor = _linalg.covariance_factor(features, u.ravel(), _linalg.work_space(features), penalty)
    good = bool(w.min() > 0)
    if factor is None or not good:
        good = False
    else:
        G = _linalg.leverages(factor, features).reshape(C, K).max(axis=1)
        R_S = float(np.max(G[S], initial=0.0)) or float(G.max())
        R = math.sqrt(R_S * float(np.max(w**2 * G)))
        good = max(R / design.largest, R_S / design.largest_exploiting) <= 1 + 1e-3
        good &= bool(np.all(u.sum(axis=1) <= w * mu * (1 + ROUNDING)))
    if not good:
        data.refuse("largest", "must bound what estimates can be", design.largest)
    return design
