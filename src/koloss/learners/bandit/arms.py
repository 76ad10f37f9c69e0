"""What is left of Algorithm 1 where nothing is assumed of losses: each action on its own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.bandit.points import PointsEngine, PointsLaw
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import choose_rates

Floats = NDArray[np.float64]


@kept
class ArmsEngine(PointsEngine):
    """Actions that have nothing to do with each other: EXP3, with the design's exploration.

    The features are the indicators, so that Σ = diag(p), and an estimate is the loss over the probability.
    """

    def scores(self, theta: Floats) -> Floats:
        return theta

    def _factor(self, p: Floats, eta: float, rng: Any) -> Any:
        return p

    def estimate(self, law: PointsLaw, rows: Any, losses: Any) -> Any:
        total = np.zeros(len(law.factor))
        np.add.at(total, rows, np.asarray(losses) / law.factor[rows])
        return total

    def epoch_sums(self, law: PointsLaw, gain: Floats, mass: float) -> Floats:
        return gain if law.bonus is None else gain - mass * law.bonus

    def reach(self, law: PointsLaw, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        # It costs no less than the exact test, of what was added alone.
        return self.rise(law, gamma, moved, mass)

    def leverages(self, law: PointsLaw) -> Any:
        p = law.factor  # zero where an action is asleep
        return np.divide(1.0, p, out=np.zeros_like(p), where=p > 0)

    @property
    def coordinates(self) -> int:
        return len(self.points)

    @property
    def size(self) -> str:
        return f"{len(self.points):,} points, each on its own"


def arms_engine(
    settings: BanditSettings,
    points: Points,
    game: BanditProblem,
    log_prior: Floats,
    low: float,
    high: float,
) -> ArmsEngine:
    """Any losses at all: every action is a feature of its own, whatever the kernel (theory F8)."""
    if points is not settings.actions:
        raise ValueError(
            f"`loss_class` of 'any' must have a finite set of actions, got {settings.actions!r}"
        )
    N, shares = len(points), settings.laws(len(points))
    weights = np.full(N, 1 / N)
    if shares is not None:  # no design within the shares has a larger least weight
        weights = shares.project(np.zeros(N))
    leverage = float(N) if shares is None else float(1 / weights.min())
    problem = replace(game, rank=N, leverage=leverage, constant=True, arms=True)
    return ArmsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.zeros((N, 0), order="F"),
        columns=None,
        weights=weights,
        log_prior=log_prior,
        problem=problem,
        rates=choose_rates(settings, problem, N),
        low=low,
        high=high,
        center=(low + high) / 2,
        net=0.0,
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        norm=math.inf,
        proxy="indicators",
        losses=(),
        printed={},
        shares=shares,
    )
