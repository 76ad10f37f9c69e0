"""Features, a penalty and a design for Algorithm 1, to be chosen by the bound (theory F1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core import linalg
from koloss.core.arrays import to_numpy
from koloss.designs import Design, whiten
from koloss.designs.john import earlier_first
from koloss.designs.ridge import Leverage, whiten_ridge
from koloss.guarantees import bandit
from koloss.guarantees.anytime import anytime_terms
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.kernels.rescaled import Rescaled
from koloss.learners.bandit.doubts import warn_of_lost
from koloss.learners.bandit.ridge import (
    SHARES_EXPLORED,
    LossClass,
    choose_ridge,
    choose_ridge_design,
    exploration_curve,
    loss_class,
)
from koloss.learners.bandit.schedule import Schedule, choose_schedule
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import (
    all_features,
    choose_batch,
    choose_design,
    choose_proxy,
    choose_rates,
    is_exact,
    spans,
)
from koloss.proxy import Proxy
from koloss.proxy.base import check_reached
from koloss.proxy.exact import span_of

Floats = NDArray[np.float64]

NEAR = 0.03
"""How much a design may change the bound of a plan."""


class Candidate(NamedTuple):
    """Features and a penalty with which the game could be played, and what is proved then."""

    bound: float
    features: Floats
    columns: Floats | None
    weights: Any
    problem: BanditProblem
    rates: Rates
    proxy: str
    eigenvalue: float
    schedule: Schedule | None = None
    leverage: float = 0.0


class Plan(NamedTuple):
    """A candidate before its design, which is most of the work, with the bound that the best design would give."""

    bound: float
    candidate: Callable[[], Candidate]


def choose(
    settings: BanditSettings, points: Points, game: BanditProblem, hull: bool, norm: float, printed: dict[str, Any]
) -> Candidate:  # fmt: skip
    """The candidate of least bound: without a penalty, as many features as the bound asks for; with one, all (theory F1).

    Where losses are anything in the span of the features there is nothing to compare: other bounds would be for another class.
    """
    if spans(settings):
        return _spanning(settings, points, replace(game, bonus=settings.bonus is True))
    plain = (
        settings.wants_no_ridge or game.log_prior == 0
    )  # with one action there is nothing to learn
    bonuses = (False, True) if settings.bonus == "auto" else (settings.bonus,)
    plans: list[Plan] = []
    if plain or settings.ridge in ("auto", 0):
        for bonus in bonuses[:1] if plain else bonuses:
            plans.append(_plain(settings, points, replace(game, bonus=bonus), hull, norm, printed))
    if not (plain or settings.ridge == 0 or (settings.shares and settings.horizon is None)):
        penalised = replace(game, bonus=settings.bonus is not False)
        plans += _penalised(settings, points, penalised, hull, norm)
    least = min(plan.bound for plan in plans) * (1 + NEAR)
    if settings.shares or not settings.is_default("design"):  # which may be far from the best
        least = math.inf
    made = [plan.candidate() for plan in plans if plan.bound <= least]
    return min(made, key=lambda candidate: candidate.bound)


def _plain(
    settings: BanditSettings, points: Points, game: BanditProblem, hull: bool, norm: float, printed: dict[str, Any]
) -> Plan:  # fmt: skip
    def error(proxy: Proxy, rank: int) -> float:
        return loss_class(proxy, hull, norm).error(rank)

    chosen, N = choose_proxy(settings, points, game, error, printed), len(points)
    epsilon = 0.0 if is_exact(chosen) else error(chosen, chosen.rank)

    def candidate() -> Candidate:
        features = _double(chosen)
        if game.constant:
            scale = math.sqrt(float(chosen.residual_curve[0])) or 1.0
            features = np.column_stack([features, np.full(len(points), scale)])
        design = choose_design(features, settings.design, settings.laws(len(points)))
        method, below = chosen.method, chosen.negative_eigenvalue
        return _designed(settings, features, design, game, epsilon, printed, method, below)

    best = bandit.with_rank(game, chosen.rank + int(game.constant), epsilon)
    return Plan(_bound(settings, best, choose_rates(settings, best, N, printed)), candidate)


def _spanning(settings: BanditSettings, points: Points, game: BanditProblem) -> Candidate:
    """All features, without a penalty and without an error (theory B6)."""
    kernel = settings.kernel
    span = span_of(kernel, points.X, constant=game.constant)
    if not game.constant:  # which is a feature of its own, also where the others vanish
        check_reached(None, int(np.max(to_numpy(kernel.diag(points.X))) > 0), "the features")
    if span.lost:
        warn_of_lost(kernel, span)
    if not (
        isinstance(kernel, Rescaled) and kernel.centred
    ):  # what is far from 0 looks alike by rounding
        most = min(span.features, len(points) - game.constant)
        game = replace(game, lost=max(most - span.columns.shape[1] + game.constant, 0))
    laws = settings.laws(len(points))
    design = choose_design(earlier_first(span.columns), settings.design, laws)
    return _designed(settings, span.columns, design, game, 0.0, {}, "exact features", 0.0)


def _designed(
    settings: BanditSettings, features: Floats, design: Design, game: BanditProblem, epsilon: float,
    printed: dict[str, Any], method: str, below: float,
) -> Candidate:  # fmt: skip
    """Features without a penalty, whitened by a design, and the rates for them."""
    white = whiten(features, design).features
    rank, leverage = white.shape[1], float(np.max(linalg.squared_lengths(white)))
    problem = replace(game, rank=rank, leverage=leverage, epsilon=epsilon)
    N, weights = len(features), to_numpy(design.weights)
    rates = choose_rates(settings, problem, N, printed)
    bound = _bound(settings, problem, rates, choose_batch(settings, problem, N))
    return Candidate(bound, white, None, weights, problem, rates, method, below)


def _penalised(
    settings: BanditSettings, points: Points, game: BanditProblem, hull: bool, norm: float
) -> Iterator[Plan]:
    proxy = all_features(settings, points)
    losses = loss_class(proxy, hull, norm)
    if settings.horizon is None:
        yield from _scheduled(settings, proxy, losses, game)
        return
    given = None if settings.ridge == "auto" else float(settings.ridge)
    choice = choose_ridge(_double(proxy), losses, game, given)
    if choice is None:
        return

    def candidate() -> Candidate:
        problem, rank = choice.problem, choice.rank
        features = _double(proxy)[:, :rank]
        features, columns = with_columns(features, choice.head, choice.penalty, game.constant)
        eta, kappa = choice.rates.learning_rate, choice.rates.kappa
        if settings.learning_rate is not None:
            eta = settings.learning_rate
        cap = problem.largest_leverage(eta, kappa)
        laws = settings.laws(len(points))
        design = choose_ridge_design(features, columns, cap, settings.design, laws)
        white, columns = whiten_ridge(features, columns, design)
        gamma, largest = design.exploration, design.largest
        b = choose_batch(settings, problem, len(points))
        if (laws is not None or b > 1) and settings.learning_rate is None:
            # The rates were those for the best of all designs, and for epochs of one round.
            leverage = Leverage(white, design.weights, columns)
            tuned = bandit.tune(problem, exploration_curve(leverage.at(SHARES_EXPLORED)), b)
            eta = tuned.learning_rate
            largest = problem.largest_leverage(eta, tuned.kappa)
            gamma = leverage.exploration(largest)
        if settings.exploration_rate is not None:
            gamma = settings.exploration_rate
            largest = Leverage(white, design.weights, columns)(gamma)
        problem = replace(problem, leverage=gamma * largest)
        rates = Rates(eta, min(1.0, gamma), problem.rise(eta, gamma))
        bound = _bound(settings, problem, rates, b)
        weights, method, below = design.weights, proxy.method, proxy.negative_eigenvalue
        return Candidate(bound, white, columns, weights, problem, rates, method, below)

    yield Plan(choice.bound, candidate)


def _scheduled(
    settings: BanditSettings, proxy: Proxy, losses: LossClass, game: BanditProblem
) -> Iterator[Plan]:
    """A penalty that falls with time; where one is given, it stays (theory F1.8)."""
    given = None if settings.ridge == "auto" else float(settings.ridge)
    chosen = choose_schedule(_double(proxy), losses, game, given)
    if chosen is None:
        return
    schedule, kappa, bound = chosen

    def candidate() -> Candidate:
        rank = proxy.rank + int(game.constant)
        whole = replace(game, rank=rank, epsilon=losses.error(proxy.rank))
        problem = schedule.problem(whole, kappa, schedule.level(1))
        features = _double(proxy)
        features, columns = with_columns(features, 0, schedule.penalty, game.constant)
        columns = columns * 2.0 ** -schedule.level(1)
        cap = problem.largest_leverage(bandit.anytime_rate(problem, kappa, 1), kappa)
        design = choose_ridge_design(features, columns, cap, settings.design)
        white, columns = whiten_ridge(features, columns, design)
        rates, leverage = Rates(0.0, 0.0, kappa), design.exploration * design.largest
        method, below = proxy.method, proxy.negative_eigenvalue
        return Candidate(
            bound, white, columns, design.weights, problem, rates, method, below, schedule, leverage
        )

    yield Plan(bound, candidate)


def _double(proxy: Proxy) -> Floats:
    """The features of a proxy on the host, in double precision."""
    return to_numpy(proxy.features).astype(np.float64, copy=False)


def with_columns(
    features: Floats, head: int, penalty: float, constant: bool
) -> tuple[Floats, Floats]:
    """The constant, where it is one, and all features; and Λ = columns columns', which leaves out the head."""
    N, rank = features.shape
    if constant:
        features = np.column_stack([np.ones(N), features])
    columns = math.sqrt(penalty) * np.eye(rank + constant)[:, head + constant :]
    return features, columns


def _bound(settings: BanditSettings, problem: BanditProblem, rates: Rates, b: int = 1) -> float:
    """By which candidates are compared: for epochs of at most b rounds."""
    if problem.log_prior == 0:
        return float(problem.rank)
    if settings.horizon is None:
        return sum(anytime_terms([(1, problem)], rates.kappa, problem.rounds).values())
    return float(sum(problem.terms(rates.learning_rate, rates.kappa, b=b).values()))
