"""Features, a penalty and a design for Algorithm 1, to be chosen by the bound (theory F1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core import linalg
from koloss.core.arrays import to_numpy
from koloss.designs import whiten
from koloss.designs.john import earlier_first
from koloss.designs.ridge import Leverage, whiten_ridge
from koloss.guarantees import bandit
from koloss.guarantees.anytime import anytime_terms
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.kernels.rescaled import Rescaled
from koloss.learners.bandit.doubts import warn_of_lost
from koloss.learners.bandit.ridge import (
    Choice,
    LossClass,
    Schedule,
    choose_ridge,
    choose_ridge_design,
    choose_schedule,
    loss_class,
    tuned_with,
)
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import (
    all_features,
    choose_batch,
    choose_design,
    choose_proxy,
    choose_rates,
    spans,
)
from koloss.proxy import Proxy
from koloss.proxy.base import check_reached
from koloss.proxy.exact import span_of

Floats = NDArray[np.float64]

Losses = Callable[[Proxy], LossClass]

NEAR = 0.03
"""How much a design may change the bound of a plan."""


class Candidate(NamedTuple):
    """Features and a penalty with which the game could be played, and what is proved then, by the names of an engine."""

    bound: float
    problem: BanditProblem
    rates: Rates
    features: Floats
    columns: Floats | None
    weights: Any
    proxy: str
    eigenvalue: float = 0.0
    schedule: Schedule | None = None
    leverage: float = 0.0


Plan = tuple[float, Callable[[], Candidate]]
"""The bound that the best design would give, and what makes the candidate: its design is most of the work."""


def choose(
    settings: BanditSettings, points: Points, game: BanditProblem, hull: bool, norm: float, printed: dict[str, Any]
) -> Candidate:  # fmt: skip
    """The candidate of least bound: without a penalty, as many features as the bound asks for; with one, all (theory F1).

    Where losses are anything in the span of the features there is nothing to compare: other bounds would be for another class. Where
    they are anything at all, every action is a feature of its own, whatever the kernel (theory F8).
    """
    if settings.loss_class == "any":
        return _alone(settings, game, len(points))
    if spans(settings):
        return _spanning(settings, points, replace(game, bonus=settings.bonus is True))
    plain = settings.wants_no_ridge or game.log_prior == 0  # with one action nothing is learned
    bonuses = (False, True) if settings.bonus == "auto" else (settings.bonus,)
    losses_of = partial(loss_class, hull=hull, norm=norm)
    plans: list[Plan] = []
    if plain or settings.ridge in ("auto", 0):
        for bonus in bonuses[:1] if plain else bonuses:
            plans.append(_plain(settings, points, replace(game, bonus=bonus), losses_of, printed))
    if not (plain or settings.ridge == 0 or (settings.shares and settings.horizon is None)):
        game = replace(game, bonus=settings.bonus is not False)
        plans += _penalised(settings, points, game, losses_of)
    least = min(bound for bound, _ in plans) * (1 + NEAR)
    if settings.shares or not settings.is_default("design"):  # which may be far from the best
        least = math.inf
    made = [candidate() for bound, candidate in plans if bound <= least]
    return min(made, key=lambda candidate: candidate.bound)


def _alone(settings: BanditSettings, game: BanditProblem, N: int) -> Candidate:
    """Every action on its own."""
    weights, leverage, shares = np.full(N, 1 / N), float(N), settings.laws(N)
    if shares is not None:  # no design within the shares has a larger least weight
        weights = shares.project(np.zeros(N))
        leverage = float(1 / weights.min())
    problem = replace(game, rank=N, leverage=leverage, arms=True)
    rates, nothing = choose_rates(settings, problem, N), np.zeros((N, 0), order="F")
    return Candidate(math.nan, problem, rates, nothing, None, weights, "indicators")


def _plain(
    settings: BanditSettings, points: Points, game: BanditProblem, losses_of: Losses, printed: dict[str, Any]
) -> Plan:  # fmt: skip
    N, chosen = len(points), choose_proxy(settings, points, game, losses_of, printed)
    epsilon = losses_of(chosen).error(chosen.rank)

    def candidate() -> Candidate:
        features = _double(chosen)
        if game.constant:
            scale = math.sqrt(float(chosen.residual_curve[0])) or 1.0
            features = np.column_stack([features, np.full(N, scale)])
        return _designed(settings, features, features, replace(game, epsilon=epsilon), chosen, printed)  # fmt: skip

    best = bandit.with_rank(game, chosen.rank + int(game.constant), epsilon)
    return _bound(settings, best, choose_rates(settings, best, N, printed)), candidate


def _spanning(settings: BanditSettings, points: Points, game: BanditProblem) -> Candidate:
    """All features, without a penalty and without an error (theory B6)."""
    kernel = settings.kernel
    span = span_of(kernel, points.X, constant=game.constant)
    if not game.constant:  # which is a feature of its own, also where the others vanish
        check_reached(None, int(np.max(to_numpy(kernel.diag(points.X))) > 0), "the features")
    if span.lost:
        warn_of_lost(kernel, span)
    centred = isinstance(kernel, Rescaled) and kernel.centred
    if not centred:  # what is far from 0 looks alike by rounding
        most = min(span.features, len(points) - game.constant)
        game = replace(game, lost=max(most - span.columns.shape[1] + game.constant, 0))
    return _designed(settings, span.columns, earlier_first(span.columns), game, None, {})


def _designed(
    settings: BanditSettings, features: Floats, ordered: Floats, game: BanditProblem, proxy: Proxy | None,
    printed: dict[str, Any],
) -> Candidate:  # fmt: skip
    """Features without a penalty, whitened by a design that is chosen on them as they are `ordered`, and the rates for them."""
    N = len(features)
    design = choose_design(ordered, settings.design, settings.laws(N))
    white = whiten(features, design).features
    leverage = float(np.max(linalg.squared_lengths(white)))
    problem = replace(game, rank=white.shape[1], leverage=leverage)
    rates = choose_rates(settings, problem, N, printed)
    bound = _bound(settings, problem, rates, choose_batch(settings, problem, N))
    said = ("exact features",) if proxy is None else (proxy.method, proxy.negative_eigenvalue)
    return Candidate(bound, problem, rates, white, None, to_numpy(design.weights), *said)


def _penalised(
    settings: BanditSettings, points: Points, game: BanditProblem, losses_of: Losses
) -> Iterator[Plan]:
    """With a penalty; without a horizon one that falls with time, or where it is given stays (theory F1.8)."""
    proxy = all_features(settings, points)
    features, losses = _double(proxy), losses_of(proxy)
    given = None if settings.ridge == "auto" else float(settings.ridge)
    said = (proxy.method, proxy.negative_eigenvalue)
    if settings.horizon is None:
        found = choose_schedule(features, losses, game, given)
        if found is not None:
            rank = proxy.rank + int(game.constant)
            whole = replace(game, rank=rank, epsilon=losses.error(proxy.rank))
            yield found[2], lambda: _scheduled(settings, features, whole, *found, said)
        return
    choice = choose_ridge(features, losses, game, given)
    if choice is not None:
        yield choice.bound, lambda: _with_ridge(settings, features, choice, said)


def _with_ridge(
    settings: BanditSettings, features: Floats, choice: Choice, said: tuple[Any, ...]
) -> Candidate:
    problem, N = choice.problem, len(features)
    eta, kappa = choice.rates.learning_rate, choice.rates.kappa
    features = features[:, : choice.rank]
    features, columns = with_columns(features, choice.head, choice.penalty, problem.constant)
    if settings.learning_rate is not None:
        eta = settings.learning_rate
    laws, b = settings.laws(N), choose_batch(settings, problem, N)
    cap = problem.largest_leverage(eta, kappa)
    design = choose_ridge_design(features, columns, cap, settings.design, laws)
    white, columns = whiten_ridge(features, columns, design)
    gamma, largest = design.exploration, design.largest
    if (laws is not None or b > 1) and settings.learning_rate is None:
        # The rates were those for the best of all designs, and for epochs of one round.
        tuned, largest = tuned_with(problem, Leverage(white, design.weights, columns), b)
        eta, gamma = tuned.learning_rate, tuned.exploration
    if settings.exploration_rate is not None:
        gamma = settings.exploration_rate
        largest = Leverage(white, design.weights, columns)(gamma)
    problem = replace(problem, leverage=gamma * largest)
    rates = Rates(eta, min(1.0, gamma), problem.rise(eta, gamma))
    bound = _bound(settings, problem, rates, b)
    return Candidate(bound, problem, rates, white, columns, design.weights, *said)


def _scheduled(
    settings: BanditSettings, features: Floats, game: BanditProblem, schedule: Schedule, kappa: float, bound: float,
    said: tuple[Any, ...],
) -> Candidate:  # fmt: skip
    level = schedule.level(1)
    problem = schedule.problem(game, kappa, level)
    features, columns = with_columns(features, 0, schedule.penalty, game.constant)
    columns = columns * 2.0**-level
    cap = problem.largest_leverage(bandit.anytime_rate(problem, kappa, 1), kappa)
    design = choose_ridge_design(features, columns, cap, settings.design)
    white, columns = whiten_ridge(features, columns, design)
    said = (*said, schedule, design.exploration * design.largest)
    return Candidate(bound, problem, Rates(0.0, 0.0, kappa), white, columns, design.weights, *said)


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
