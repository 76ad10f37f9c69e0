"""Regret in hindsight with a stated probability (Theorem F7.1, second form)."""

from __future__ import annotations

import math
from dataclasses import replace

from koloss.guarantees.bandit import BanditProblem, Rates, psi
from koloss.guarantees.base import Guarantee


def with_confidence(
    promise: Guarantee, problem: BanditProblem, rates: Rates, confidence: float
) -> Guarantee:
    """The bound in expectation made one that holds with probability `confidence`, for epochs of one round.

    Three events have a third of the rest each: that no action's estimates add up to much more than their means, that the squares
    of the leverages played add up to little more than theirs, and that exploration costs little more than its mean.
    """
    n, eta, kappa = promise.rounds, rates.learning_rate, rates.kappa
    x = math.log(3 / (1 - confidence))
    L, d, R = problem.loss_bound, problem.dimension, problem.largest_leverage(eta, kappa)
    gamma = min(problem.exploration(eta, kappa), 1.0)
    # Σ s_t(a_t)², by Freedman's inequality, and beside it what the bonuses add to the root of Σ (1 - γ) q·x'².
    squares = d * n + math.sqrt(2 * d * R * n * x) + R * x / 3
    bonuses = problem.drift - L + problem.variance_bonus(eta, kappa) * math.sqrt(R * d)
    variance = psi(kappa) * eta * (L * math.sqrt(squares) + bonuses * math.sqrt(n)) ** 2
    chance = L * math.sqrt(2 * gamma * n * x) + 2 / 3 * L * math.sqrt(problem.leverage) * x
    terms = {**promise.terms, "variance": variance, "confidence": x / eta + chance}
    return replace(promise, terms=terms, confidence=confidence)
