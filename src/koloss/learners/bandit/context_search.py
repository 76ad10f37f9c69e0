"""The engine of pairs of contexts and actions: features, with or without a ridge, where to explore and how fast, by the bound (theory F6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.core.threads import threads_for
from koloss.designs import Design, whiten
from koloss.designs.contexts import CappedDesign, capped_design
from koloss.designs.ridge import along, whitening
from koloss.guarantees import bandit, contexts
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.assumed import assumed
from koloss.learners.bandit.candidates import NEAR, Candidate, choose, with_columns
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.doubts import doubt_coordinates, warn_of_cost, warn_of_span
from koloss.learners.bandit.pairs import context_kernel, pair_kernel, pairs_of, without_contexts
from koloss.learners.bandit.ridge import choose_ridge, loss_class
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import MANY_FEATURES, game_of, in_play, sizes
from koloss.learners.bandit.tuning import all_features, choose_batch, spans
from koloss.proxy.base import step_beyond
from koloss.proxy.exact import largest_norm

Floats = NDArray[np.float64]

WORTHWHILE = 0.8
"""Share of m/R below which the cost of a design is worth other rates."""


def pairs_engine(settings: BanditSettings) -> PairsEngine:
    """Pairs, their features whitened by a design, and where to explore in each context."""
    known, actions, kernel = settings.contexts, settings.actions, pair_kernel(settings)
    assert known is not None
    points = actions if isinstance(actions, Points) else in_play(without_contexts(settings))[1]
    pairs = pairs_of(known, points)
    plain = without_contexts(settings, actions=pairs, kernel=kernel, ridge=0.0, spacing=None)
    size, distance = sizes(kernel, pairs)
    low, high, norm = plain.interval(size, distance)
    game, center = game_of(plain, math.log(len(points)), low, high)
    with threads_for(len(pairs) * min(len(pairs), MANY_FEATURES) ** 2):
        K, mu = len(points), np.array(known.weights)
        best, capped = choose_pairs(settings, plain, pairs, game, norm, mu)
        warn_of_cost(len(pairs), best.problem.rank)
        if spans(plain):
            warn_of_span(best.problem, best.bound, high - low)
        doubt_coordinates(plain, pairs, norm, contexts=known)
    net = 0.0
    if not isinstance(actions, Points):
        largest = float(np.max(to_numpy(context_kernel(settings).diag(known.X))))
        step = math.sqrt(largest) * step_beyond(settings.kernel, actions, points)
        reach = norm * (size if settings.loss_class == "rank-one" else 1.0)
        if spans(plain):
            between = pairs_of(known, Points(actions.sample(64, np.random.default_rng(0))))
            reach = game.loss_bound * largest_norm(
                kernel, pairs.X, between.X, whiten(best.features, best.weights).features,
                constant=game.constant,
            )  # fmt: skip
        net = min(reach * step, high - low)
    return PairsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=best.features,
        columns=best.columns,
        weights=best.weights,
        log_prior=np.full(K, -math.log(K)),
        problem=best.problem,
        rates=best.rates,
        low=low,
        high=high,
        center=center,
        net=net,
        outside=settings.outside,
        learned=False,
        sign=settings.sign,
        norm=norm,
        proxy=best.proxy,
        losses=assumed(settings, norm, best.problem),
        eigenvalue=best.eigenvalue,
        leverage=best.leverage,
        law_of_contexts=mu,
        capped=capped,
        slots=known.slots(K),
    )


# With and without a ridge.

Found = tuple[Candidate, CappedDesign]
"""Features of pairs with which the game could be played, and where to explore; the leverage is that of the best design without contexts."""


def choose_pairs(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats
) -> Found:  # fmt: skip
    """The candidate of least bound; `plain` are the settings of somebody who takes pairs for actions, without a ridge."""
    found: list[Found] = []
    free = settings.ridge == 0 or game.log_prior == 0 or spans(plain)
    if free or settings.ridge == "auto":
        found.append(_plain(settings, plain, pairs, game, norm, mu))
    if not free:
        most = (1 + NEAR) * found[0][0].bound if found else math.inf
        found += _penalised(settings, plain, pairs, game, norm, mu, most)
    return min(found, key=lambda one: one[0].bound)


def _plain(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats
) -> Found:  # fmt: skip
    best = choose(plain, pairs, game, settings.loss_class == "rank-one", norm, {})
    features, leverage = np.asfortranarray(best.features), best.problem.leverage
    weights = np.array(best.weights, dtype=float)

    def found(reach: float) -> CappedDesign:
        return find_design(features, weights, leverage, mu, reach)

    # A constant among the features would make the bound a little smaller; nothing is taken off for it.
    problem = replace(best.problem, constant=False)
    problem, rates, capped = first_design(settings, problem, best.rates, found, len(features))
    if not capped.exploits.all():
        # All that matters in the game is of one size, however rare a context is.
        T = whitening(features, capped.exploration.ravel(), np.zeros((features.shape[1], 0)))
        features = np.asfortranarray(features @ T)
    best = best._replace(bound=total(problem, rates), features=features, weights=weights)
    return best._replace(problem=problem, rates=rates, leverage=leverage), capped


def _penalised(
    settings: BanditSettings, plain: BanditSettings, pairs: Points, game: BanditProblem, norm: float, mu: Floats, most: float
) -> list[Found]:  # fmt: skip
    """With a ridge, unless its bound is above `most`."""
    proxy = all_features(plain, pairs)
    losses = loss_class(proxy, settings.loss_class == "rank-one", norm)
    game = replace(game, bonus=settings.bonus is not False)
    given = None if settings.ridge == "auto" else float(settings.ridge)
    choice = choose_ridge(to_numpy(proxy.features), losses, game, given, mu)
    if choice is None or (given is None and choice.bound > most):
        return []
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
    candidate = Candidate(
        total(problem, rates), problem, rates, np.asfortranarray(features @ T), penalty, u / u.sum(),
        proxy.method, proxy.negative_eigenvalue, leverage=problem.leverage,
    )  # fmt: skip
    return [(candidate, capped)]


# Where to explore, and at which rates (theory F6.2).


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


def total(game: BanditProblem, rates: Rates) -> float:
    """The bound, for epochs of one round."""
    return float(sum(game.terms(rates.learning_rate, rates.kappa).values()))
