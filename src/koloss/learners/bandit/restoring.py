"""The numbers of a game in a snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core import linalg
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.reading import SMALLEST, Reader

Floats = NDArray[np.float64]


def interval_from_dict(data: Reader) -> tuple[float, float, float]:
    """Where losses lie, and what is subtracted from them."""
    low, high = data.number("low"), data.number("high")
    if low >= high:
        data.refuse("low", "must be below the high end", [low, high])
    return low, high, data.number("center", low, high)


def problem_from_dict(data: Reader, rank: int, settings: BanditSettings) -> BanditProblem:
    """The numbers of the bound, of a game with so many features and these settings."""
    return data.record(
        BanditProblem,
        least=0.0,
        rank=rank,
        ridge=data.part("ridge").record(Ridge, least=0.0) if data.has("ridge") else None,
        shrink=settings.sample_error if settings.covariance == "sampled" else 0.0,
        delay=settings.planned_delay,
        learned=settings.learns_range,
        hindsight=settings.regret == "hindsight",
        arms=settings.loss_class == "any",
    )


def check_span(data: Reader, features: Floats, weights: Floats, columns: Floats | None) -> None:
    """Refuse features whose covariance has no factor under the design."""
    penalty = None if columns is None else columns @ columns.T
    room = linalg.work_space(features)
    if linalg.covariance_factor(features, weights, room, penalty) is None:
        data.refuse("features", "must be spanned by those that are explored", features.shape)


def rates_from_dict(data: Reader, horizon: int | None) -> Rates:
    """The rates; zero without a horizon, where they change with time."""
    least = 0.0 if horizon is None else SMALLEST
    rate, exploration = data.number("learning_rate", least), data.number("exploration", least, 1.0)
    return Rates(rate, exploration, data.number("kappa", positive=True))


def printed_from_dict(data: Reader) -> dict[str, Any]:
    """What the paper says of the game."""
    numbers = ("bound", "epsilon", "learning_rate", "exploration", "size")
    return {
        "profile": data.word("profile", ("exact", "polynomial", "exponential")),
        **{name: data.number(name, 0) for name in numbers},
        "rate": data.number("rate") if data.has("rate") else None,
        "rank": data.count("rank", 1),
    }
