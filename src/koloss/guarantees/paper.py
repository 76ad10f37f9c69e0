"""The bandit bounds as the paper prints them, and the parameters they come with.

Neither is proved as written (see the theory pages); they are here so that the paper's play can be reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from koloss.guarantees.base import Assumption, Guarantee


def theorem(n: int, m: int, log_n: float, G2: float) -> dict[str, Any]:
    """Theorem 10 for finite features (ε = 0), at the learning rate that minimises it.

    R_n ≤ 4γ𝒢²n + (e - 2)𝒢⁴ηmn + log N/η with γ = 4η𝒢⁴m. The γ returned is at most 1.
    """
    log_n = max(log_n, 1e-300)
    slope = (16 * G2**3 + (math.e - 2) * G2**2) * m * n
    eta = math.sqrt(log_n / slope)
    return {
        "profile": "exact",
        "bound": 2 * math.sqrt(slope * log_n),
        "rank": m,
        "learning_rate": eta,
        "exploration": min(1.0, 4 * eta * G2**2 * m),
        "epsilon": 0.0,
        "size": G2,
        "rate": None,
    }


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
    eta = math.sqrt(epsilon / (10 * m))
    return {
        "profile": best.profile,
        "bound": bound,
        "rank": m,
        "learning_rate": eta,
        "exploration": min(1.0, 4 * eta * G2**2 * m),
        "epsilon": epsilon,
        "size": G2,
        "rate": beta,
    }


def bandit_guarantee(
    said: Mapping[str, Any], n: int, trivial: float, as_assumed: bool
) -> Guarantee:
    """Theorem 10 or Corollary 12 as a guarantee, with what it needs and what is wrong with it.

    `said` is what `theorem` or `corollary` gave; `as_assumed` whether epochs had one round, and losses came at once.
    """
    if said["profile"] == "exact":
        statement, needs = "The paper's Theorem 10, as printed", []
    else:
        statement = f"The paper's Corollary ({said['profile']} eigendecay), as printed"
        needs = [
            Assumption("sup K(a, a) = 1", abs(said["size"] - 1) < 1e-9),
            Assumption(f"ε = log N / (2n) = {said['epsilon']:.3g} is below 1", said["epsilon"] < 1),
            Assumption("4ηm is at most 1", 4 * said["learning_rate"] * said["rank"] <= 1),
        ]
        if said["profile"] == "polynomial":
            above = f"the eigendecay {said['rate']:.3g} is above 2"
            needs.append(Assumption(above, said["rate"] > 2))
    if not as_assumed:
        needs.append(Assumption("epochs of one round, losses heard at once", False))
    false = "the smallest eigenvalue of John's covariance is 1/m (false in general)"
    return Guarantee(
        statement,
        n,
        {"regret": said["bound"]},
        trivial,
        (*needs, Assumption(false, False)),
        proved=False,
        notes=(
            "departures: q₁ is the prior, features are not centred, the design is G-optimal",
            "guarantee(printed=False) gives what is proved for the same parameters",
        ),
    )
