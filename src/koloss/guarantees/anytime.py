"""Exponential weights without a horizon: the terms of Theorem B4, with or without a penalty that falls with time (theory B4, F1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from koloss.guarantees.bandit import BanditProblem, anytime_rate, psi

Level = tuple[int, BanditProblem]
"""A first round, and the game from then on: a penalty may fall with time."""


def anytime_terms(levels: Sequence[Level], kappa: float, n: int, b: int = 1) -> dict[str, float]:
    """The terms of the anytime bound after n rounds, in epochs of at most b; sums over rounds are bounded by integrals.

    An epoch keeps the rates of its first round: a round may have those of b - 1 rounds before it, and a game may be played b - 1 rounds
    longer than its level.
    """
    total, paid = {"exploration": 0.0, "variance": 0.0, "prior": 0.0, "bias": 0.0}, 0.0
    ends = [start - 1 for start, _ in levels[1:]] + [n]
    for (first, game), end in zip(levels, ends, strict=True):
        last = min(end, n)
        if first > last:
            continue
        # As many rounds more have the rates of the first; where the game ends, no epoch begins with the last ones.
        more, stop = b - 1, last
        if last == n:
            more = min(more, last - first + 1)
            stop -= more
        a = anytime_rate(game, kappa, 1)  # η_t = a/√t
        rates = a * _sum(-0.5, first, stop, more)
        shares = game.leverage * game.estimate_bound / kappa * rates
        one = psi(kappa) * game.second_moment
        if b > 1:
            one = replace(game, hindsight=False).variance(a, kappa, b, whole=False)
        total["exploration"] += 2 * game.loss_bound * shares
        total["variance"] += one * rates
        total["prior"] = game.log_prior * math.sqrt(last) / a
        # The brackets of Theorem F1: √γ_t falls like t^(-1/4), and ḡ_t grows like t^(1/4).
        largest = game.estimate_bound + game.variance_bonus(a / math.sqrt(first), kappa)
        roots = math.sqrt(game.leverage * largest * a / kappa) * _sum(-0.25, first, stop, more)
        growth = math.sqrt(kappa / (a * game.loss_bound)) * _sum(0.25, first, stop, more)
        total["bias"] += float(game.bracket(roots, growth, stop - first + 1 + more))
        g = math.sqrt(game.largest_leverage(a / math.sqrt(last), kappa))
        total["range"] = game.range_cost(g)
        if game.hindsight:
            for name, value in _anytime_hindsight(game, kappa, a, first, last).items():
                total[name] = total.get(name, 0.0) + value
            paid += game.variance_bonus(1.0, kappa) * game.dimension * rates
            total["hindsight"] = total["prior"] + paid
    return total


def _sum(power: float, first: int, stop: int, more: int) -> float:
    """At least Σ t^power of these rounds, and that of the first so many times more; the power is above -1."""
    whole = power + 1
    if power < 0:
        own = (stop**whole - (first - 1) ** whole) / whole
    else:
        own = max(stop**whole - (first**whole if first > 1 else 0.0), 0.0) / whole + stop**power
    return float(own + more * first**power)


def _anytime_hindsight(
    game: BanditProblem, kappa: float, a: float, first: int, last: int
) -> dict[str, float]:
    """What the bonuses ν_t s² add to exploration and variance (Theorem F7.2): Σ of η_t^1.5 and η_t², by integrals."""
    L, nu = game.loss_bound, game.variance_bonus(1.0, kappa)  # ν_t = ν η_t
    cubes = 4 * a**1.5 * (last**0.25 - (first - 1) ** 0.25)
    squares = a**2 * (1 / first + math.log(last / first))
    # ḡ_t² ≤ κ/(η_t L), so that the root of (1 - γ) q·(ν_t s²)² is at most slope · √η_t.
    slope, S = nu * math.sqrt(kappa * game.dimension / L), math.sqrt(game.second_moment)
    return {
        "exploration": 2 * L * game.leverage * nu / kappa * squares,
        "variance": psi(kappa) * slope * (2 * S * cubes + slope * squares),
    }
