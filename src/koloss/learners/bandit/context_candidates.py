"""With or without a ridge on pairs of a context and an action: features, a penalty and a design, chosen by the bound (theory F6)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import to_numpy
from koloss.actions import Points
from koloss.designs.contexts import CappedDesign, capped_design
from koloss.designs.ridge import whitening
from koloss.guarantees import contexts
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.candidates import NEAR, choose, with_columns
from koloss.learners.bandit.context_designs import (
    BlockSchedule,
    find_design,
    first_design,
    first_reach,
    total,
    whitened,
)
from koloss.learners.bandit.ridge import LossClass, choose_ridge, loss_class
from koloss.learners.bandit.schedule import choose_schedule
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import all_features
from koloss.proxy import Proxy

Floats = NDArray[np.float64]


class PairsCandidate(NamedTuple):
    """Features of pairs and a penalty with which the game could be played, where to explore, and what is proved then."""

    features: Floats
    columns: Floats | None
    weights: Floats  # the best design without contexts; with a ridge that of the contexts
    leverage: float  # its own
    epsilon: float  # what the features miss, without the variation of contexts in turn
    problem: BanditProblem
    rates: Rates
    capped: CappedDesign
    proxy: str
    eigenvalue: float
    schedule: BlockSchedule | None = None


def choose_pairs(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats
) -> PairsCandidate:  # fmt: skip
    """The candidate of least bound; `plain` are the settings of somebody who takes pairs for actions, without a ridge."""
    if settings.ridge == 0 or settings.manner == "paid" or game.log_prior == 0:
        return _plain(settings, plain, pairs, game, norm, mu)
    if settings.ridge != "auto":
        best = _penalised(settings, plain, pairs, game, norm, mu, np.inf)
        assert best is not None
        return best
    best = _plain(settings, plain, pairs, game, norm, mu)
    bound = total(settings, best.problem, best.rates)
    other = _penalised(settings, plain, pairs, game, norm, mu, bound)
    if other is None:
        return best
    if other.schedule is None and total(settings, other.problem, other.rates) >= bound:
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
    problem = replace(best.problem, constant=False, epsilon=epsilon + _variation(settings))
    problem, rates, capped = first_design(settings, problem, best.rates, found)
    white = whitened(features, weights, capped, mu, settings.horizon is None)
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
    if settings.horizon is None:
        return _scheduled(settings, proxy, losses, game, mu, bound)
    choice = choose_ridge(to_numpy(proxy.features), losses, game, given, mu)
    if choice is None or (given is None and choice.bound > (1 + NEAR) * bound):
        return None
    features = to_numpy(proxy.features)[:, : choice.rank]
    features, columns = with_columns(features, choice.head, choice.penalty, game.constant)

    def found(reach: float) -> CappedDesign:
        stacked = features.reshape(len(mu), -1, features.shape[1])
        return capped_design(stacked, mu, reach, ridge=columns)

    epsilon, rates = choice.problem.epsilon, choice.rates
    problem = replace(choice.problem, epsilon=epsilon + _variation(settings))
    # What the rates count on is γR of the plan, which is far below d* of all rounds.
    problem = replace(problem, leverage=rates.exploration * contexts.reach(problem, rates))
    if settings.learning_rate is not None:
        rates = replace(rates, learning_rate=settings.learning_rate)
    problem, rates, capped = first_design(settings, problem, rates, found)
    u = capped.exploration.ravel()
    T = whitening(features, u, columns)
    white = np.asfortranarray(features @ T)
    return PairsCandidate(
        white, T.T @ columns, u / u.sum(), problem.leverage, epsilon, problem, rates, capped,
        proxy.method, proxy.negative_eigenvalue,
    )  # fmt: skip


def _scheduled(
    settings: BanditSettings, proxy: Proxy, losses: LossClass, game: BanditProblem, mu: Floats, bound: float
) -> PairsCandidate | None:  # fmt: skip
    """A penalty that falls from block to block, unless its bound is above this one; a penalty that is given stays."""
    given, features = None if settings.ridge == "auto" else float(settings.ridge), to_numpy(proxy.features)  # fmt: skip
    chosen = choose_schedule(features, losses, game, given, mu, BlockSchedule)
    if chosen is None or (given is None and chosen[2] >= bound):
        return None
    schedule, kappa, _ = chosen
    assert isinstance(schedule, BlockSchedule)
    rank, epsilon = proxy.rank + int(game.constant), losses.error(proxy.rank)
    problem = replace(game, rank=rank, epsilon=epsilon)
    problem = schedule.problem(problem, kappa, schedule.level(1))
    features, columns = with_columns(features, 0, schedule.penalty, game.constant)
    columns = columns * 2.0 ** -schedule.level(1)
    rates, even = Rates(0.0, 0.0, kappa), np.full(len(features), 1 / len(features))
    reach, d = first_reach(problem, rates), float(problem.dimension)
    capped = find_design(features, even, 0.0, mu, reach, columns, d)
    u = capped.exploration.ravel()
    T = whitening(features, u, columns)
    white = np.asfortranarray(features @ T)
    return PairsCandidate(
        white, T.T @ columns, u / u.sum(), problem.leverage, epsilon, problem, rates, capped,
        proxy.method, proxy.negative_eigenvalue, schedule,
    )  # fmt: skip


def _variation(settings: BanditSettings) -> float:
    return settings.contexts.variation if settings.contexts else 0.0
