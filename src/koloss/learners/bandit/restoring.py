"""The numbers of a game in a snapshot, checked as they are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.designs.ridge import Leverage
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.reading import SMALLEST, Reader

Floats = NDArray[np.float64]


def interval_from_dict(data: Reader, settings: BanditSettings) -> tuple[float, float, float]:
    """Where losses lie, and what is subtracted from them, in a snapshot of a game with these settings."""
    low, high = data.number("low"), data.number("high")
    said: tuple[float, ...] | None = None
    if settings.loss_range is not None:
        said = settings.interval(1.0)[:2]
    elif settings.loss_bound is not None:
        said = (-settings.loss_bound, settings.loss_bound)
    if low >= high or (said is not None and (low, high) != said):
        data.refuse("low", "must be the low end of the losses in the settings", [low, high])
    return low, high, data.number("center", low, high)


def problem_from_dict(data: Reader, rank: int, settings: BanditSettings) -> BanditProblem:
    """The numbers of the bound, in a snapshot of a game with so many features and these settings."""
    sampled = settings.covariance == "sampled"
    shrink = settings.sample_error if sampled else 0.0
    bonus = data.flag("bonus")
    if settings.bonus not in ("auto", bonus):
        data.refuse("bonus", "must be that of the settings", bonus)
    ridge = ridge_from_dict(data.part("ridge")) if data.has("ridge") else None
    some = (
        data.number("log_prior", 0) > 0
    )  # with one action there is nothing to learn, and no ridge
    if (settings.ridge == 0 and ridge) or (
        some and settings.ridge not in ("auto", 0) and not ridge
    ):
        data.refuse("ridge", "must be that of the settings", settings.ridge)
    for name, only in (("stretch", 1.0), ("misfit", 0.0)):  # these are for questions, never kept
        data.number(name, only, only)
    if data.flag("learned") != settings.learns_range:
        data.refuse("learned", "must be that of the settings", settings.loss_range)
    hindsight = data.flag("hindsight")
    if hindsight != (settings.regret == "hindsight"):
        data.refuse("hindsight", "must be that of the settings", hindsight)
    return BanditProblem(
        rounds=data.count("rounds", 1),
        rank=data.count("rank", rank, rank),
        leverage=data.number("leverage", positive=True),
        loss_bound=data.number("loss_bound", positive=True),
        epsilon=data.number("epsilon", 0),
        log_prior=data.number("log_prior", 0),
        bonus=bonus,
        shrink=data.number("shrink", shrink, shrink),
        delay=data.count("delay", settings.planned_delay, settings.planned_delay),
        constant=data.flag("constant"),
        ridge=ridge,
        floor=data.number("floor", 0),
        learned=settings.learns_range,
        hindsight=hindsight,
        arms=settings.loss_class == "any",
        lost=data.count("lost", 1) if data.has_key("lost") else 0,
    )


def check_ridge(
    data: Reader,
    features: Floats,
    columns: Floats,
    weights: Floats,
    problem: BanditProblem,
    rates: Rates,
) -> None:
    """Refuse features that do not belong to their penalty and design."""
    gamma, good = rates.exploration, bool(features.any(axis=1).all())
    if good and 0 < gamma < 1:
        largest = Leverage(features, weights, columns)(gamma)
        good = math.isclose(gamma * largest, problem.leverage, rel_tol=1e-3)
    if not good:
        data.refuse("features", "must have the leverage of the problem", problem.leverage)


def ridge_from_dict(data: Reader) -> Ridge:
    """The penalty in a snapshot."""
    free, penalty = data.count("free"), data.number("penalty", positive=True)
    dimension = data.number("dimension", free)
    return Ridge(
        penalty=penalty,
        free=free,
        dimension=dimension,
        spread=data.number("spread", 0, dimension),
        bias=data.number("bias", 0),
        head_error=data.number("head_error", 0),
    )


def rates_from_dict(data: Reader, horizon: int | None) -> Rates:
    """The rates in a snapshot; zero without a horizon, where they change with time."""
    least = 0.0 if horizon is None else SMALLEST
    return Rates(
        data.number("learning_rate", least, 0.0 if horizon is None else math.inf),
        data.number("exploration", least, 1.0),
        data.number("kappa", positive=True),
    )


def printed_from_dict(data: Reader) -> dict[str, Any]:
    """What the paper says of the game, in a snapshot."""
    numbers = ("bound", "epsilon", "learning_rate", "exploration", "size")
    return {
        "profile": data.word("profile", ("exact", "polynomial", "exponential")),
        **{name: data.number(name, 0) for name in numbers},
        "rate": data.number("rate") if data.has("rate") else None,
        "rank": data.count("rank", 1),
    }
