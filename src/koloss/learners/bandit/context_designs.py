"""Where to explore with contexts, at which rates, and in which coordinates (theory F6.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from koloss.designs import Design
from koloss.designs.contexts import CappedDesign, capped_design
from koloss.designs.ridge import whitening
from koloss.guarantees import bandit, contexts
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import choose_batch

Floats = NDArray[np.float64]

WORTHWHILE = 0.8
"""Share of m/R below which the cost of a design is worth other rates."""


def find_design(
    features: Floats, weights: Floats, leverage: float, mu: Floats, reach: float
) -> CappedDesign:
    """Where to explore in each context if R may be `reach`; `weights` are the best design without contexts, of this leverage."""
    plain = Design(weights, features.shape[1], leverage, "given")
    stacked = features.reshape(len(mu), -1, features.shape[1])
    aim, design = reach, capped_design(stacked, mu, reach, plain=plain)
    while design.largest > reach and design.cost < 1:
        aim *= min(0.999, reach / design.largest)
        design = capped_design(stacked, mu, aim, plain=plain)
    return design


def first_design(
    settings: BanditSettings,
    problem: BanditProblem,
    rates: Rates,
    found: Callable[[float], CappedDesign],
    pairs: int,
) -> tuple[BanditProblem, Rates, CappedDesign]:
    """Rates and the design of the first rounds, and the game that they make; `found` is the design for a reach R."""
    b = choose_batch(settings, problem, pairs)
    if settings.learning_rate is None and b > 1:
        rates = bandit.tune(problem, b=b)
    capped = found(contexts.reach(problem, rates))
    eta = rates.learning_rate
    game, rates = contexts.with_design(problem, eta, capped.cost, capped.largest)
    if settings.learning_rate is None and game.leverage < WORTHWHILE * problem.leverage:
        # Rare contexts explore for less than others: a faster rate may be better.
        tuned = bandit.tune(game, b=b)
        again = found(contexts.reach(game, tuned))
        other, faster = contexts.with_design(
            problem, tuned.learning_rate, again.cost, again.largest
        )
        if total(other, faster) < total(game, rates):
            return other, faster, again
    return game, rates, capped


def whitened(features: Floats, capped: CappedDesign) -> Floats:
    """Features in coordinates in which all that matters in the game is of one size, however rare a context is."""
    if capped.exploits.all():
        return features
    T = whitening(features, capped.exploration.ravel(), np.zeros((features.shape[1], 0)))
    return np.asfortranarray(features @ T)


def total(game: BanditProblem, rates: Rates) -> float:
    """The bound, for epochs of one round."""
    return float(sum(game.terms(rates.learning_rate, rates.kappa).values()))
