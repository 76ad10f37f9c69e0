"""From settings to who plays: points or a net, features, rates (Algorithm 1, lines 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from koloss.actions import Points, SpacePoints
from koloss.core.arrays import to_numpy
from koloss.core.threads import threads_for
from koloss.errors import NetTooLarge
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.bandit.assumed import assumed
from koloss.learners.bandit.candidates import Candidate, choose
from koloss.learners.bandit.contexts import Pairs
from koloss.learners.bandit.coordinates import without_units
from koloss.learners.bandit.device import on_host, placed
from koloss.learners.bandit.doubts import doubts, warn_of_cost, warn_of_size, warn_of_span
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.pairs import in_context
from koloss.learners.bandit.per_context import PerContext, engines_of
from koloss.learners.bandit.points import ArmsEngine, PointsEngine, log_prior_of
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import (
    EXACT_LIMIT,
    choose_batch,
    has_too_many,
    least_rank,
    paper_says,
    spans,
)
from koloss.proxy import Proxy
from koloss.proxy.base import MAX_BYTES, discretise, step_beyond
from koloss.proxy.exact import largest_norm

MANY_FEATURES = 512
"""So many are rarely used, but only the proxy will tell: for whether the set-up is worth threads."""


def engine_for(settings: BanditSettings) -> Engine:
    """The ball's engine where the moments of its laws are known and no net is asked for, otherwise that of points."""
    if plays_ball(settings):
        from koloss.learners.bandit.ball import ball_engine

        return ball_engine(settings)
    return points_engine(without_units(settings))


def player_for(settings: BanditSettings) -> Exp2 | PerContext:
    """The player of a game: one learner, one for all pairs (theory F6), or one per context (theory F6.11)."""
    if settings.several and not settings.shared:
        settings = without_units(settings)
        contexts, batch = settings.contexts, settings.batch
        assert contexts is not None
        engines, batch = engines_of(settings), 1 if batch == "auto" else batch
        masks = contexts.allowed
        return PerContext(engines, horizon=settings.horizon, batch=batch, masks=masks)
    engine: Engine
    kind = Exp2
    if settings.shared:
        from koloss.learners.bandit.context_search import pairs_engine

        settings, kind = without_units(settings), Pairs
        engine = pairs_engine(settings)
    else:
        if settings.contexts is not None:  # one context is no context
            if not plays_ball(in_context(settings, 0)):
                settings = without_units(settings)
            settings = in_context(settings, 0)
        engine = engine_for(settings)
    batch = choose_batch(settings, engine.problem, engine.rows)
    return kind(engine, horizon=settings.horizon, batch=batch)


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
    kernel = settings.kernel
    if isinstance(settings.proxy, Proxy):
        points = settings.proxy.points
    else:
        settings, points = in_play(settings)
    log_prior = log_prior_of(settings.prior, len(points))
    size, distance = sizes(kernel, points)
    low, high, norm = settings.interval(size, distance)
    game, center = game_of(settings, float(-log_prior.min()), low, high)
    if not trial:
        doubts(settings, points, size, distance, norm)
        if has_too_many(settings):
            warn_of_size(f"are more than {EXACT_LIMIT}, too many to be learned without being asked")
    anything, hull = settings.loss_class == "any", settings.loss_class == "rank-one"
    if anything and points is not settings.actions:
        raise ValueError(
            f"`loss_class` of 'any' must have a finite set of actions, got {settings.actions!r}"
        )
    with threads_for(len(points) * min(len(points), MANY_FEATURES) ** 2):
        printed = paper_says(settings, points, game.log_prior) if settings.tuning == "paper" else {}
        best = choose(settings, points, game, hull, norm, printed)
    made, net = best._asdict(), 0.0
    del made["bound"]
    made["features"] = np.asfortranarray(best.features)
    made["weights"] = np.array(best.weights, dtype=float)
    if not (trial or anything):
        warn_of_cost(len(points), best.problem.rank)
        if spans(settings):
            warn_of_span(best.problem, best.bound, high - low)
    if not anything:
        net = beyond_net(settings, points, best, norm * (size if hull else 1.0), high - low)
    engine = (ArmsEngine if anything else PointsEngine)(
        **made,
        points=np.array(to_numpy(points.X), dtype=float),
        log_prior=log_prior,
        low=low,
        high=high,
        center=center,
        net=net,
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        norm=math.inf if anything else norm,
        level=best.schedule.level(1) if best.schedule else 0,
        losses=assumed(settings, norm, best.problem),
        printed=printed,
        design=settings.design if isinstance(settings.design, str) else "given",
        shares=settings.laws(len(points)),
    )
    if settings.covariance == "sampled":
        from koloss.learners.bandit.sampled import SampledEngine

        return engine.become(SampledEngine, kappa=best.rates.kappa)
    return placed(engine, given.X if isinstance(given, Points) else points.X)


def in_play(settings: BanditSettings) -> tuple[BanditSettings, Points]:
    """The actions themselves, or a net; where all features of so many are too many to be kept, the settings ask for fewer."""

    def found(settings: BanditSettings) -> Points:
        rank, rounds = least_rank(settings), settings.horizon or 10_000
        given = (settings.kernel, settings.actions, settings.spacing)
        return discretise(*given, rank=rank, rounds=rounds, max_bytes=MAX_BYTES)

    try:
        return settings, found(settings)
    except NetTooLarge:
        if settings.proxy is not None or not spans(settings):
            raise
    settings = replace(settings, proxy="pivoted_cholesky")
    points = found(settings)
    warn_of_size(f"at {len(points):,} actions are too many to be kept")
    return settings, points


def beyond_net(
    settings: BanditSettings, points: Points, best: Candidate, norm: float, width: float
) -> float:
    """How much better than the best point of a net an action may be, per round.

    By the norm of losses; where none is assumed, by the largest that a loss within the range can have, and never more than the
    width of that (theory B6).
    """
    kernel, actions, problem = settings.kernel, settings.actions, best.problem
    step = step_beyond(kernel, actions, points)
    if step > 0 and settings.loss_norm is None and problem.epsilon == 0 and problem.ridge is None:
        ground = actions.space if isinstance(actions, SpacePoints) else actions
        between = ground.sample(2 * problem.rank + 16, np.random.default_rng(0))
        norm = problem.loss_bound * largest_norm(
            kernel, points.X, between, best.features, constant=problem.constant
        )
        return min(norm * step, width)
    return norm * step


def game_of(
    settings: BanditSettings, log_prior: float, low: float, high: float
) -> tuple[BanditProblem, float]:
    """The numbers of a game that do not depend on features, and what is subtracted from losses."""
    anything = settings.loss_class == "any"
    centred = anything or (settings.loss_range is not None and settings.tuning == "sharp")
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
