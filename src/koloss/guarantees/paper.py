"""The bounds as the paper prints them, and the parameters they come with.

Most are not proved as written (see the theory pages); they are here so that the paper's play can be reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from koloss.guarantees.base import Clause, Guarantee, Note, clause, note

# Algorithm 1.


def theorem(n: int, m: int, log_n: float, G2: float) -> dict[str, Any]:
    """Theorem 10 for finite features (ε = 0), at the learning rate that minimises it.

    R_n ≤ 4γ𝒢²n + (e - 2)𝒢⁴ηmn + log N/η with γ = 4η𝒢⁴m. The γ returned is at most 1.
    """
    log_n = max(log_n, 1e-300)
    slope = (16 * G2**3 + (math.e - 2) * G2**2) * m * n
    eta = math.sqrt(log_n / slope)
    said = {"profile": "exact", "bound": 2 * math.sqrt(slope * log_n), "epsilon": 0.0, "rate": None}
    return said | _play(eta, m, G2)


def corollary(n: int, decay: Any, log_n: float, G2: float) -> dict[str, Any]:
    """Corollary 12, for the envelope of an `Eigendecay` that fits better.

    ε = log N/(2n), m the effective dimension (no more than there are eigenvalues), η = √(ε/(10m)) and
    γ = 4ηm, at most 1. The Corollary is for 𝒢 = 1, which the guarantee checks.
    """
    log_n = max(log_n, 1e-300)
    best, B2, epsilon = decay.best, decay.eigenfunction_bound**2, log_n / (2 * n)
    if not best.valid:
        raise ValueError(f"`tuning` of 'paper' must have a decay rate above 1, got {best.rate:.6g}")
    C, beta = best.constant, best.rate
    m = min(decay.effective_dimension(epsilon), len(decay.eigenvalues))
    if best.profile == "polynomial":
        front = (2 ** (beta + 2) * C * B2 / (beta - 1)) ** (1 / (2 * (beta - 1)))
        power = log_n ** ((beta - 2) / (2 * (beta - 1))) * n ** (beta / (2 * (beta - 1)))
        bound = math.sqrt(160) * front * power
    else:
        inside = max(math.log(40 * C * B2 * n / (beta * log_n)), 0.0)
        bound = math.sqrt(320 * log_n / beta * inside * n)
    said = {"profile": best.profile, "bound": bound, "epsilon": epsilon, "rate": beta}
    return said | _play(math.sqrt(epsilon / (10 * m)), m, G2)


def _play(eta: float, m: int, G2: float) -> dict[str, Any]:
    exploration = min(1.0, 4 * eta * G2**2 * m)
    return {"learning_rate": eta, "exploration": exploration, "rank": m, "size": G2}


def bandit_guarantee(
    said: Mapping[str, Any], n: int, trivial: float, as_assumed: bool
) -> Guarantee:
    """Theorem 10 or Corollary 12 as a guarantee, with what it needs and what is wrong with it.

    `said` is what `theorem` or `corollary` gave; `as_assumed` whether epochs had one round, and losses came at once.
    """
    theorem, needs = "10", []
    if said["profile"] != "exact":
        theorem = f"12 {said['profile']}"
        needs = [
            clause("size 1", abs(said["size"] - 1) < 1e-9),
            clause("small error", said["epsilon"] < 1, epsilon=said["epsilon"]),
            clause("small rate", 4 * said["learning_rate"] * said["rank"] <= 1),
        ]
        if said["profile"] == "polynomial":
            needs.append(clause("fast decay", said["rate"] > 2, rate=said["rate"]))
    if not as_assumed:
        needs.append(clause("as assumed", False))
    needs.append(clause("John", False))
    return _printed(theorem, n, said["bound"], trivial, needs, (note("departures"),))


def _printed(
    theorem: str,
    n: int,
    bound: float,
    trivial: float,
    assumptions: Sequence[Clause],
    remarks: tuple[Note, ...] = (),
    same: str = "printed",
) -> Guarantee:
    """A bound of the paper's that is not proved as it is printed."""
    remarks = (*remarks, note(same))
    return Guarantee((theorem,), n, {"regret": bound}, trivial, tuple(assumptions), False, remarks)


# Algorithm 2.


def exp_weights_theorem(rounds: int, log_volume: float, size: float) -> dict[str, float]:
    """Theorem 14: η and the bound, with 𝒢² = size.

    Its volume depends on the unit of length; where it is at most 1 the theorem sets η to zero and claims that
    there is no regret.

    Examples
    --------
    >>> said = exp_weights_theorem(1000, math.log(3.0), 1.0)
    >>> round(said["learning_rate"], 4), round(said["bound"], 2)
    (0.0391, 28.09)
    """
    log_volume, c = max(log_volume, 0.0), math.e - 2
    return {
        "learning_rate": math.sqrt(log_volume / c / rounds) / size,
        "bound": math.sqrt(c * log_volume * rounds) * size,
        "log_volume": log_volume,
        "small": math.sqrt(log_volume / c / rounds),
    }


def exp_weights(said: dict[str, float], n: int, width: float) -> Guarantee:
    """Theorem 14 in words; `said` is what `exp_weights_theorem` says, `width` the largest range of a loss."""
    needs = [
        clause("volume", said["log_volume"] > 0),
        clause("many rounds", said["small"] <= 1),
        clause("two terms", False),
    ]
    return _printed("14", n, said["bound"], width * n, needs, same="printed rate")


# Algorithm 3.


def gradient_rate(rounds: int) -> float:
    """η = n^(-3/4)/2."""
    return 0.5 * float(rounds**-0.75)


def gradient_steps(first: int, count: int) -> Any:
    """γ_t = min(1, 2/√t) for `count` rounds from the given one."""
    return np.minimum(1.0, 2 / np.sqrt(np.arange(first, first + count)))


def conditional_gradient(n: int, *, norm: float, radius: float, width: float) -> Guarantee:
    """Theorem 15, for losses of this norm and range, and features of norm at most `radius`."""
    needs = (_small_losses(norm, radius), clause("smooth", False))
    return _printed("15", n, 8 * radius**2 * n**0.75, width * n, needs)


# Algorithm 4.


def leader_rate(rounds: int) -> float:
    """η = 1/√n, which minimises the bound that the paper prints."""
    return 1 / math.sqrt(rounds)


def regularised_leader(proved: Guarantee, eta: float, *, norm: float, radius: float) -> Guarantee:
    """The bound of Appendix E.3: what the leader pays is the paper's, all else as it is proved."""
    terms = {"stability": 2 * proved.rounds * eta * radius**2, "regulariser": 2 * radius**2 / eta}
    return replace(
        proved,
        theorems=("E.3",),
        terms=terms | {name: proved.terms[name] for name in ("projection", "delay", "unheard")},
        assumptions=(*proved.assumptions, _small_losses(norm, radius)),
    )


def _small_losses(norm: float, radius: float) -> Clause:
    return clause("small losses", norm <= radius * (1 + 1e-9))
