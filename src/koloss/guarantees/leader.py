r"""Follow the regularised leader and its conditional-gradient version: bounds and step sizes.

Notation: n rounds, losses of norm at most G, features with ‖Φ(a) - c‖ ≤ ϱ and diameter D, learning rate η. The
leader X*_t minimises F_t(Y) = η Σ_{s<t} ⟨w_s, Y⟩ + ‖Y - c‖² over the convex hull of the features; a player who is at
X_t with F_t(X_t) - F_t(X*_t) ≤ h_t has

    R_n ≤ ϱ²/η + ηG²n/4 + G Σ_t √h_t                                                   (theory A4),

and a conditional-gradient step of size γ_t on F_t, by an oracle with error e_t, keeps

    h_{t+1} ≤ (1 - γ_t) h_t + γ_t² D² + γ_t e_t + ηG √h_{t+1}.

The theory pages have the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.guarantees.base import Guarantee, clause, semidefinite
from koloss.guarantees.full import Played

ONE_BY_ONE = 10**6
"""Rounds whose part of the bound is summed term by term."""

Steps = Callable[[int, int], Any]
"""Step sizes γ_t of so many rounds from the given one, an array."""


@dataclass(frozen=True)
class LeaderProblem:
    """The numbers of a game that its bound depends on."""

    rounds: int  # n
    norm: float  # G
    reach: float  # ϱ, the largest distance of a feature from the centre of the regulariser
    diameter: float  # D of the features

    def terms(self, eta: float, n: int) -> dict[str, float]:
        """What the leader itself pays in n rounds."""
        return {"regulariser": self.reach**2 / eta, "stability": eta * self.norm**2 * n / 4}

    def leader_rate(self, delay: int = 0) -> float:
        """η that minimises the leader's bound: 2ϱ/(G√n), where losses come after `delay` others."""
        return 2 * self.reach / (self.norm * math.sqrt(self.rounds * (1 + 2 * delay)))

    def gradient_steps(self) -> tuple[float, float, float]:
        """γ, η and h̄ of Theorem A4-const: h_t ≤ h̄ throughout if it holds at the start.

        Examples
        --------
        >>> game = LeaderProblem(10_000, norm=1.0, reach=1.0, diameter=2.0)
        >>> gamma, eta, height = game.gradient_steps()
        >>> round(gamma * 100, 4), round(eta * 1000, 3)
        (0.866, 1.14)
        """
        n, ratio = self.rounds, self.reach / self.diameter
        gamma = min(1.0, math.sqrt(3) * ratio / math.sqrt(n))
        scale = 3**0.75 * 4**-0.25 * ratio**1.5
        eta = scale * self.diameter / self.norm * n**-0.75
        return gamma, eta, math.sqrt(12) * self.reach * self.diameter / math.sqrt(n)

    def next_height(self, h: float, gamma: float, eta: float, error: float = 0.0) -> float:
        """The largest h_{t+1} that the recursion allows."""
        pull = eta * self.norm
        base = (1 - gamma) * h + gamma**2 * self.diameter**2 + gamma * error
        root = (pull + math.sqrt(pull**2 + 4 * base)) / 2
        return root * root

    def tracking(self, h: float, steps: Steps, first: int, count: int, eta: float) -> float:
        """Σ √h_t over `count` rounds from the given one, from a start at h; step sizes do not grow.

        The first million terms are summed one by one. Beyond them blocks of rounds are bounded from above at once, each
        a 64th of the rounds before it.
        """
        total, end = 0.0, first + count
        direct = min(count, ONE_BY_ONE)
        for gamma in np.asarray(steps(first, direct)).tolist():
            total += math.sqrt(h)
            h = self.next_height(h, gamma, eta)
        t, s = first + direct, math.sqrt(h)
        while t < end:
            k = min(max(t // 64, 1), end - t)
            largest, smallest = float(steps(t, 1)[0]), float(steps(t + k - 1, 1)[0])
            limit = self._limit(s, largest, smallest, k, eta)
            total += k * max(s, limit)
            s = limit + (1 - smallest) ** (k / 2) * max(s - limit, 0.0)
            t += k
        return total

    def _limit(self, s: float, largest: float, smallest: float, k: int, eta: float) -> float:
        """What s = √h does not exceed in k rounds, except as far as it begins above: then that much shrinks by √(1 - γ) a round.

        The recursion is s ↦ T(s) = (p + √(p² + 4c + 4qs²))/2 with p = ηG, and it grows in both c = γ²D² and q = 1 - γ: take the
        largest γ of the rounds in one and the smallest in the other. 0 ≤ T' ≤ √q, so s approaches the fixed point of T; below
        it rises, by no more than at first: T(s) - s ≤ p/2 + √(p²/4 + c + s²) - s, which falls in s.
        """
        p, root_c = eta * self.norm, largest * self.diameter
        fixed = (p + math.hypot(p, 2 * math.sqrt(smallest) * root_c)) / (2 * smallest)
        return min(fixed, s + k * (p / 2 + math.hypot(p / 2, root_c, s) - s))


# The bound in words.


def proved(
    problem: LeaderProblem,
    eta: float,
    n: int,
    *,
    width: float,  # largest range of a loss
    played: Played,
    tracking: float,  # Σ √h_t, by the gaps that were measured, then by the recursion; over projections, by the largest
    delay_cost: float,  # what late losses have cost
    delay: int = 0,  # losses come after at most so many others
    certified: bool
    | None = None,  # whether every vertex so far has come with a certificate; None: Algorithm 4 has none
    eigenvalue: float = 0.0,  # of the kernel, where one below zero was seen
) -> Guarantee:
    """The bound for Algorithm 3 after n rounds, or for Algorithm 4, which projects in place of going to vertices."""
    theorem, name = (
        ("A4 leader", "projection") if certified is None else ("A4 gradient", "tracking")
    )
    late = max(delay_cost, delay * eta * problem.norm**2 / 2 * n)
    terms = problem.terms(eta, n) | {name: problem.norm * tracking, "delay": late}
    needed = played.assumptions(n, norm=problem.norm, horizon=problem.rounds, delay=delay)
    if certified is not None:
        needed.append(clause("vertices", played.seen(n) if certified else None))
    needed += semidefinite(eigenvalue)
    return played.promise(theorem, n, terms, width, needed)
