"""With or without a ridge on pairs of a context and an action: features, a penalty and a design, chosen by the bound (theory F6)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.designs.contexts import CappedDesign, capped_design
from koloss.designs.ridge import along, whitening
from koloss.guarantees import contexts
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.candidates import NEAR, choose, with_columns
from koloss.learners.bandit.context_designs import (
    find_design,
    first_design,
    total,
    whitened,
)
from koloss.learners.bandit.ridge import choose_ridge, loss_class
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import all_features, spans

Floats = NDArray[np.float64]


class PairsCandidate(NamedTuple):
    """Features of pairs and a penalty with which the game could be played, where to explore, and what is proved then."""

    features: Floats
    columns: Floats | None
    weights: Floats  # the best design without contexts; with a ridge that of the contexts
    leverage: float  # its own
    epsilon: float  # what the features miss
    problem: BanditProblem
    rates: Rates
    capped: CappedDesign
    proxy: str
    eigenvalue: float


def choose_pairs(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats
) -> PairsCandidate:  # fmt: skip
    """The candidate of least bound; `plain` are the settings of somebody who takes pairs for actions, without a ridge."""
    if settings.ridge == 0 or game.log_prior == 0 or spans(plain):
        return _plain(settings, plain, pairs, game, norm, mu)
    if settings.ridge != "auto":
        best = _penalised(settings, plain, pairs, game, norm, mu, np.inf)
        assert best is not None
        return best
    best = _plain(settings, plain, pairs, game, norm, mu)
    bound = total(best.problem, best.rates)
    other = _penalised(settings, plain, pairs, game, norm, mu, bound)
    if other is None or total(other.problem, other.rates) >= bound:
        return best
    return other


def _plain(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats
) -> PairsCandidate:  # fmt: skip
    best = choose(plain, pairs, game, settings.loss_class == "rank-one", norm, {})
    features, leverage = np.asfortranarray(best.features), best.problem.leverage
    weights, epsilon = np.array(best.weights, dtype=float), best.problem.epsilon

    def found(reach: float) -> CappedDesign:
        return find_design(features, weights, leverage, mu, reach)

    # A constant among the features would make the bound a little smaller; nothing is taken off for it.
    problem = replace(best.problem, constant=False)
    problem, rates, capped = first_design(settings, problem, best.rates, found, len(features))
    white = whitened(features, capped)
    return PairsCandidate(
        white, None, weights, leverage, epsilon, problem, rates, capped, best.proxy, best.eigenvalue
    )


def _penalised(
    settings: BanditSettings,
    plain: BanditSettings,
    pairs: Points,
    game: BanditProblem,
    norm: float,
    mu: Floats,
    bound: float,
) -> PairsCandidate | None:
    """With a ridge, unless it is far from this bound."""
    proxy = all_features(plain, pairs)
    losses = loss_class(proxy, settings.loss_class == "rank-one", norm)
    game = replace(game, bonus=settings.bonus is not False)
    given = None if settings.ridge == "auto" else float(settings.ridge)
    choice = choose_ridge(to_numpy(proxy.features), losses, game, given, mu)
    if choice is None or (given is None and choice.bound > (1 + NEAR) * bound):
        return None
    features = to_numpy(proxy.features)[:, : choice.rank]
    features, columns = with_columns(features, choice.head, choice.penalty, game.constant)

    def found(reach: float) -> CappedDesign:
        stacked = features.reshape(len(mu), -1, features.shape[1])
        return capped_design(stacked, mu, reach, ridge=columns)

    problem, rates = choice.problem, choice.rates
    # What the rates count on is γR of the plan, which is far below d* of all rounds.
    problem = replace(problem, leverage=rates.exploration * contexts.reach(problem, rates))
    if settings.learning_rate is not None:
        rates = replace(rates, learning_rate=settings.learning_rate)
    problem, rates, capped = first_design(settings, problem, rates, found, len(features))
    u = capped.exploration.ravel()
    T, penalty = along(whitening(features, u, columns), columns)
    white = np.asfortranarray(features @ T)
    return PairsCandidate(
        white, penalty, u / u.sum(), problem.leverage, problem.epsilon, problem, rates, capped,
        proxy.method, proxy.negative_eigenvalue,
    )  # fmt: skip
