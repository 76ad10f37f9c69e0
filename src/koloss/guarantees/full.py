r"""Exponential weights with full information: the bound, and the learning rate that makes it small.

Notation: n rounds, losses of range at most ρ in each round, learning rate η, prior p₁. For every δ in (0, 1]

    R_n ≤ ηρ²n/8 + log(1/p₁(A_δ))/η + n·e(δ),

where A_δ = (1 - δ)a* + δA is a copy of the actions shrunk towards the best one, and e(δ) bounds how much worse
than a* an action of A_δ can be in a round: G·ω(δD) for losses of norm G, ω the modulus of the feature map and D
the diameter, or δρ for convex losses. With the uniform prior, log(1/p₁(A_δ)) = d log(1/δ); on a finite set
A_δ is {a*}, e = 0, and log(1/p₁) is log N (theory A2). A loss that is heard after |I| others costs ηρ²|I|/4.

The theory pages have the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Excess = Callable[[float], float]
"""e(δ): how much worse than the best action those of A_δ can be, a round."""


@dataclass(frozen=True)
class FullProblem:
    """The numbers of a game that its bound depends on.

    Attributes
    ----------
    rounds : int
        n.
    width : float
        ρ, the largest range of a loss.
    log_prior : float
        max_a log(1/prior(a)) on a finite set; how far a prior's log density varies on a compact one.
    dimension : int
        d of a compact set; zero for a finite one.
    delay : int
        At most so many other losses are heard between a decision and its own.
    """

    rounds: int
    width: float
    log_prior: float
    dimension: int = 0
    delay: int = 0

    def complexity(self, delta: float) -> float:
        """log(1/p₁(A_δ)), or an upper bound."""
        return self.log_prior + (self.dimension * math.log(1 / delta) if self.dimension else 0.0)

    def terms(self, eta: float, delta: float, excess: Excess, n: int) -> dict[str, float]:
        """The terms of the bound after n rounds with a fixed learning rate, by name."""
        step = eta * self.width**2 * n / 8
        return {
            "variance": step,
            "prior": _ratio(self.complexity(delta), eta),
            "shrink": n * excess(delta) if self.dimension else 0.0,
            "delay": 2 * self.delay * step,
        }

    def anytime_rate(self, t: int) -> float:
        """η_t = (2/ρ) √(E_t/t), E_t = log(1/prior) + d log(t + 1)."""
        E = self.complexity(1 / (t + 1))
        return 2 / self.width * math.sqrt(E / t) if E > 0 else 1.0

    def anytime_terms(self, delta: float, excess: Excess, n: int) -> dict[str, float]:
        """The terms of the bound after n rounds with the rates η_t, by name."""
        E = self.complexity(1 / (n + 1))
        return {
            "variance": self.width * math.sqrt(E * n) / 2,  # ρ²/8 Σ η_t, Σ t^(-1/2) ≤ 2√n
            "prior": _ratio(self.complexity(delta), self.anytime_rate(n)) if E > 0 else 0.0,
            "shrink": n * excess(delta) if self.dimension else 0.0,
            "delay": 0.0,
        }


def _ratio(complexity: float, eta: float) -> float:
    if complexity == 0:
        return 0.0
    return complexity / eta if eta > 0 else math.inf


def best_shrink(bound: Callable[[float], float], dimension: int) -> float:
    """The δ in (0, 1] that minimises a bound; 1 on a finite set, where there is none to choose."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    if dimension == 0:
        return 1.0
    grid = np.linspace(-60.0, 0.0, 121)  # of log δ: the bound need not be convex in it
    k = int(np.argmin([bound(math.exp(x)) for x in grid]))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, 120)]
    found = minimize_scalar(lambda x: bound(math.exp(x)), bounds=(low, high), method="bounded")
    return math.exp(min(float(found.x) if found.fun <= bound(math.exp(grid[k])) else grid[k], 0.0))


def tune(problem: FullProblem, excess: Excess) -> float:
    """Learning rate that minimises the bound: η = √(8E / ((1 + 2·delay) n)) / ρ with E = log(1/p₁(A_δ)).

    Examples
    --------
    >>> game = FullProblem(10_000, width=1.0, log_prior=math.log(1000))
    >>> eta = tune(game, lambda delta: 0.0)
    >>> bound = sum(game.terms(eta, 1.0, lambda delta: 0.0, 10_000).values())
    >>> round(bound, 3), round(math.sqrt(10_000 * math.log(1000) / 2), 3)
    (185.846, 185.846)
    """
    n = problem.rounds

    def rate(delta: float) -> float:
        steps = (1 + 2 * problem.delay) * n
        return math.sqrt(8 * problem.complexity(delta) / steps) / problem.width

    def bound(delta: float) -> float:
        eta = rate(delta)
        if eta == 0:
            return n * excess(delta) if problem.dimension else 0.0
        return sum(problem.terms(eta, delta, excess, n).values())

    return rate(best_shrink(bound, problem.dimension)) or 1.0


def printed_theorem(rounds: int, log_volume: float, size: float) -> dict[str, Any]:
    """The paper's theorem for Algorithm 2, as printed: η and the bound, with 𝒢² = size.

    Its volume depends on the unit of length; where it is at most 1 the theorem sets η to zero and claims that
    there is no regret.

    Examples
    --------
    >>> said = printed_theorem(1000, math.log(3.0), 1.0)
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
