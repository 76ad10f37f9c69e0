"""From settings to the engine that plays: points or a net, features, rates (Algorithm 1, lines 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from koloss._arrays import to_numpy
from koloss._threads import threads_for
from koloss.actions import Points
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.bandit.arms import arms_engine
from koloss.learners.bandit.assumed import assumed
from koloss.learners.bandit.candidates import choose
from koloss.learners.bandit.doubts import doubts, warn_of_cost
from koloss.learners.bandit.placing import on_host, placed
from koloss.learners.bandit.points import PointsEngine, log_prior_of
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import least_rank, paper_says
from koloss.proxy import Proxy
from koloss.proxy.base import discretise, step_beyond

if TYPE_CHECKING:
    from koloss.learners.bandit.ball import BallEngine

    Engine: TypeAlias = PointsEngine | BallEngine

MANY_FEATURES = 512
"""So many are rarely used, but only the proxy will tell: for whether the set-up is worth threads."""


def engine_for(settings: BanditSettings) -> Engine:
    """The ball's engine where the moments of its laws are known and no net is asked for, otherwise that of points."""
    if plays_ball(settings):
        from koloss.learners.bandit.ball import ball_engine

        return ball_engine(settings)
    return points_engine(settings)


def plays_ball(settings: BanditSettings) -> bool:
    """Whether a whole ball is played, and not points."""
    if settings.spacing is not None or isinstance(settings.actions, Points):
        return False
    from koloss.samplers.lookup import moments_for

    return moments_for(settings.kernel, settings.actions) is not None


def points_engine(settings: BanditSettings, *, trial: bool = False) -> PointsEngine:
    """Points or a net, features, whitened by the design (Algorithm 1, lines 1 and 2); a trial warns of nothing."""
    given = settings.actions
    if type(given) is Points and not (
        isinstance(given.X, np.ndarray) and given.X.dtype == np.float64
    ):
        settings = replace(settings, actions=on_host(given))
    kernel, actions, proxy = settings.kernel, settings.actions, settings.proxy
    if isinstance(proxy, Proxy):
        points = proxy.points
    else:
        rounds, rank = settings.horizon or 10_000, least_rank(settings)
        points = discretise(kernel, actions, settings.spacing, rank=rank, rounds=rounds)
    log_prior = log_prior_of(settings.prior, len(points))
    size, distance = sizes(kernel, points)
    low, high, norm = settings.interval(size, distance)
    game, center = game_of(settings, float(-log_prior.min()), low, high)
    if not trial:
        doubts(settings, points, size, distance, norm)
    if settings.loss_class == "any":
        return arms_engine(settings, points, game, log_prior, low, high)
    hull = settings.loss_class == "rank-one"
    with threads_for(len(points) * min(len(points), MANY_FEATURES) ** 2):
        printed = paper_says(settings, points, game.log_prior) if settings.tuning == "paper" else {}
        best = choose(settings, points, game, hull, norm, printed)
    problem = best.problem
    if not trial:
        warn_of_cost(len(points), problem.rank)
    engine = PointsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.asfortranarray(best.features),
        columns=best.columns,
        weights=np.array(best.weights, dtype=float),
        log_prior=log_prior,
        problem=problem,
        rates=best.rates,
        low=low,
        high=high,
        center=center,
        net=norm * (size if hull else 1.0) * step_beyond(kernel, actions, points),
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        norm=norm,
        level=best.schedule.level(1) if best.schedule else 0,
        leverage=best.leverage,
        samples=best.rates.kappa if settings.covariance == "sampled" else 0.0,
        proxy=best.proxy,
        losses=assumed(settings, norm, problem),
        printed=printed,
        schedule=best.schedule,
        design="john" if settings.is_default("design") else None,
        eigenvalue=best.eigenvalue,
        shares=settings.laws(len(points)),
    )
    return placed(engine, given.X if isinstance(given, Points) else points.X)


def game_of(
    settings: BanditSettings, log_prior: float, low: float, high: float
) -> tuple[BanditProblem, float]:
    """The numbers of a game that do not depend on features, and what is subtracted from losses."""
    centred = settings.loss_range is not None and settings.tuning == "sharp"
    center = (low + high) / 2 if centred else 0.0
    game = BanditProblem(
        rounds=settings.horizon or 10_000,
        rank=1,
        leverage=1.0,
        loss_bound=max(high - center, center - low),
        epsilon=0.0,
        log_prior=log_prior,
        shrink=settings.sample_error if settings.covariance == "sampled" else 0.0,
        delay=settings.planned_delay,
        constant=centred,
        learned=settings.learns_range,
        hindsight=settings.regret == "hindsight",
    )
    return game, center


def sizes(kernel: Any, points: Points) -> tuple[float, float]:
    """𝒢 = max √K(a, a), and how far Φ(a) is at most from Φ of the action where that is."""
    diagonal = to_numpy(kernel.diag(points.X))
    first = int(np.argmax(diagonal))
    column = to_numpy(kernel(points.X, points.X[first : first + 1, :]))[:, 0]
    distance = float(np.max(diagonal + diagonal[first] - 2 * column))
    return math.sqrt(float(diagonal[first])), math.sqrt(max(distance, 0.0))
