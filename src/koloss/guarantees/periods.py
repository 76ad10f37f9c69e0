r"""Contexts in whole periods, such as the days of a week, in which they come in turn (theory F6.7, 2).

The law of actions is fixed for a period of e rounds, in which context c comes e μ_c times. Then only the condition of one round
on the range of estimates is needed, and sharing over a period costs ψ(M)e in the variance, not a factor e: the numbers are those of
whole epochs (`bandit`, Theorem B3w). What must be true is that losses of a period do not know its order, or hardly: at every pair
they stay within ϖ of their mean over the period, and ϖ is one more error of the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.guarantees.base import Assumption, Guarantee
from koloss.guarantees.contexts import MAPPING

PERIODS = "every {} rounds are a period, in which a context comes as often as its share says"
FIXED = "the losses of a period are fixed before it"
STEADY = "at every pair they stay within {:.6g} of their mean over the period"
"""What F6.7 (2) assumes."""


def in_turn(
    promise: Guarantee,
    contexts: int,
    period: int,
    variation: float,
    width: float,
    *,
    whole: bool | None = None,
) -> Guarantee:
    """F6.7 (2): a bound for whole epochs of a period each (`promises.fixed`), for contexts that come in turn.

    The variation must have been added to the error of the features. A period that is not whole at the end costs the range in each of its rounds.
    `whole` says whether periods were as they should be, where that is known.
    """
    if contexts == 1:
        return promise
    kept = [a for a in promise.assumptions if "epoch" not in a.text]
    kept.append(Assumption(PERIODS.format(period), whole))
    kept.append(Assumption(FIXED, oblivious=True))
    kept.append(Assumption(STEADY.format(variation)))
    terms = {**promise.terms, "last period": width * (promise.rounds % period)}
    _, with_, what = promise.statement.partition(" with ")
    statement = f"Theorem F6.7 (whole periods){with_}{what}"
    notes = (MAPPING, *promise.notes)
    return replace(promise, statement=statement, terms=terms, assumptions=tuple(kept), notes=notes)


def tune_whole(problem: BanditProblem, period: int) -> Rates:
    """η and κ that minimise the bound of whole periods or epochs (F6.7, 2).

    Examples
    --------
    >>> week = BanditProblem(4200, 4, 4.0, 0.5, 0.0, math.log(4))
    >>> rates = tune_whole(week, 7)
    >>> terms = week.terms(rates.learning_rate, rates.kappa, b=7, whole=True)
    >>> round(sum(terms.values()))
    281
    """

    def terms(eta: Any, kappa: Any) -> dict[str, Any]:
        return problem.terms(eta, kappa, b=period, whole=True)

    eta, kappa = _least(terms, bandit.tune(problem))
    R = problem.largest_leverage(eta, kappa)
    return Rates(eta, min(1.0, float(problem.leverage / R)), kappa)


def _least(terms: Callable[[Any, Any], dict[str, Any]], near: Rates) -> tuple[float, float]:
    """Where the sum of terms is least, by ever finer grids around rates that are near."""
    x, y = math.log(near.learning_rate), math.log(near.kappa)
    width, around = np.array([3.0, 2.0]), np.linspace(-1.0, 1.0, 17)
    while width.max() > bandit.FINEST:
        etas, kappas = np.exp(x + width[0] * around)[:, None], np.exp(y + width[1] * around)
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.broadcast_to(sum(terms(etas, kappas).values()), (17, 17))
        i, j = divmod(int(np.argmin(np.nan_to_num(total, nan=np.inf))), 17)
        x, y = x + width[0] * around[i], y + width[1] * around[j]
        width = width / 3
    return math.exp(x), math.exp(y)
