"""The regret of the game that was played, estimated by what the learner has received (theory R).

With x'_t(a) the estimate of a loss, bonuses subtracted, E x'_t(a) ≤ ℓ_t(a) + ε. So for every action the regret is at most

    E Ĉ(a) + εn,    Ĉ(a) = Σ_t (y_t - x'_t(a)), and the range for every loss that was not received.

The largest Ĉ(a) of a game is one draw of what bounds the regret on average: no bound for this game.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.core.snapshot import Vector, kept
from koloss.guarantees import Guarantee, promises

if TYPE_CHECKING:
    from koloss.learners.bandit.exp2 import Exp2
    from koloss.learners.bandit.loss_range import LossRange

Floats = NDArray[np.float64]


@kept
class Tally:
    """Sums over the losses that were learned from, each with weight 1."""

    paid: float = 0.0  # Σ of the losses less their centres
    count: int = 0
    theta: Vector | None  # Σ of estimates, where those that play have weights
    credit: Any  # and of bonuses

    def __init__(self, weighted: bool, theta: Floats, credit: Any) -> None:
        self.theta = np.zeros_like(theta) if weighted else None
        self.credit = 0.0 * credit if weighted and credit is not None else None

    def add(self, paid: float, count: int, weight: float, estimate: Floats, bonus: Any) -> None:
        """Count losses, given the sum of their estimates with a weight; `bonus` is a factor and the bonuses of a round."""
        if weight == 0:  # only to learn the range
            return
        self.paid += paid
        self.count += count
        if self.theta is not None:
            self.theta = self.theta + estimate / weight
            if bonus is not None:
                self.credit = self.credit + bonus[0] * bonus[1]


def estimated_regrets(exp2: Exp2) -> Any:
    """Ĉ(a) of every action of a finite set, without losses that were not received; on a ball the largest alone."""
    from koloss.learners.bandit.points import PointsEngine

    engine, tally = exp2.engine, exp2.tally
    theta, credit = tally.theta, tally.credit
    if theta is None:
        theta, credit = exp2.theta, exp2.credit
    if not isinstance(engine, PointsEngine):
        return np.array([tally.paid - engine.best(theta, 1.0)[-1]])
    sums = to_numpy(engine.scores(theta))
    return tally.paid - (sums if credit is None else sums - to_numpy(credit))


def estimated_regret(each: Sequence[Exp2]) -> float | None:
    """The estimated regret of one learner, or of one for each context; None where it is biased or not known."""
    if any(why_not(exp2) for exp2 in each):
        return None
    found = sum(largest_estimate(exp2) + missing_cost(exp2) for exp2 in each)
    return found + each[0].range.beyond  # contexts have one range


def largest_estimate(exp2: Exp2) -> float:
    """The largest Ĉ(a), without losses that were not received."""
    estimates = estimated_regrets(exp2)
    if (
        prior := getattr(exp2.engine, "log_prior", None)
    ) is not None:  # a context may not allow all
        estimates = estimates[np.isfinite(prior)]
    return float(estimates.max())


def missing_cost(exp2: Exp2) -> float:
    """What losses may have cost that were not received, or not learned from."""
    return float((exp2.made - exp2.tally.count) * width_of(exp2))


def realise(each: Sequence[Exp2], promise: Guarantee, confidence: float | None = None) -> Guarantee:
    """What is estimated of the rounds so far, with the assumptions of a bound for as many: of one learner, or one for each context."""
    for exp2 in each:
        check(exp2)
    estimate = promises.realised(
        promise,
        sum(exp2.made for exp2 in each),
        estimate=sum(map(largest_estimate, each)),
        missing=sum(map(missing_cost, each)),
        bias=sum(exp2.made * bias_of(exp2) for exp2 in each),
        excess=each[0].range.beyond,  # contexts have one range
        within=unseen(each[0].range, each[0].engine.sign),
        width=width_of(each[0]),
    )
    if confidence is None:
        return estimate
    log_prior, eta = each[0].engine.problem.log_prior, each[0].rates.learning_rate
    return promises.realised_with_confidence(estimate, log_prior, eta, confidence)


def check(exp2: Exp2) -> None:
    """Refuse games whose estimates are biased, or not known."""
    where = why_not(exp2)
    if where:
        raise ValueError(f"`realised` must be False {where}")


def why_not(exp2: Exp2) -> str:
    """Where estimates are biased or not known; nothing where they are good."""
    lacking = {
        "where several contexts share a learner": exp2.counts is not None,
        "with a sampled covariance": exp2.engine.is_sampled,
        "where not all actions could be chosen all the time": exp2.totals is not None,
        "where losses in hindsight are clipped": exp2.range.moves and exp2.engine.problem.hindsight,
    }
    return next((where for where, lacks in lacking.items() if lacks), "")


def width_of(exp2: Exp2) -> float:
    """ρ, as far as it is known."""
    if exp2.range.moves:
        return float(exp2.range.heard_high - exp2.range.heard_low) if exp2.range.known else 0.0
    return float(exp2.engine.high - exp2.engine.low)


def unseen(heard: LossRange, sign: int) -> tuple[float, float] | None:
    """Where losses must be that were not received, to cost no more than the range; None where an interval holds all losses."""
    if not (heard.learned or heard.outside != "raise") or not heard.known:
        return None
    low, high = sorted((sign * heard.heard_low, sign * heard.heard_high))
    return low, high


def bias_of(exp2: Exp2) -> float:
    """By how much an estimate may be above the loss, on average."""
    problem = exp2.engine.problem
    error = problem.epsilon + problem.misfit
    if (problem.bias or error) and (not problem.bonus or problem.learned):
        eta = exp2.rates_now()[0] * (exp2.range.factor if exp2.range.moves else 1.0)  # as tuned
        g = math.sqrt(problem.largest_leverage(eta, exp2.rates.kappa)) if eta > 0 else 0.0
        error += (math.hypot(problem.bias, problem.epsilon) + problem.misfit) * g
    return float(error) * (width_of(exp2) if problem.learned else 1.0)
