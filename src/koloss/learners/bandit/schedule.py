"""Without a horizon the penalty falls with time (theory F1.8)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import kept
from koloss.designs.ridge import Certificates
from koloss.guarantees import bandit
from koloss.guarantees.anytime import Level, anytime_terms
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.bandit.ridge import Head, LossClass, balance, penalty_grid, with_penalty

Floats = NDArray[np.float64]


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """Penalties λ_j = λ_0 4^(-j), each for the rounds in which it is below `start`/t, but not below a fourth of it (theory F1.8)."""

    penalty: float  # λ_0
    start: float
    bias: float  # b/√λ
    head_error: float
    certificates: Certificates

    def level(self, t: int) -> int:
        """j in round t."""
        return max(0, math.ceil(math.log(self.penalty * t / self.start, 4) - 1e-12))

    def first_round(self, level: int) -> int:
        """The round in which a level begins."""
        t = max(1, math.floor(self.start / self.penalty * 4.0 ** (level - 1)))
        while self.level(t) < level:
            t += 1 + (t >> 40)  # where numbers were forged, one more is nothing
        return t

    def problem(self, game: BanditProblem, kappa: float, level: int) -> BanditProblem:
        """The game at a level; its rates are not above those of the levels before."""
        floor = 0.0
        for j in range(self.level(1), level + 1):
            at = self.penalty * 4.0**-j
            b = self.bias * math.sqrt(at)
            problem = with_penalty(game, self.certificates, at, b, self.head_error)
            problem = replace(problem, floor=floor)
            floor = bandit.anytime_constant(problem, kappa) * problem.estimate_bound**2
        return problem

    def levels(self, game: BanditProblem, kappa: float, n: int) -> list[Level]:
        """All levels of n rounds."""
        numbers = range(self.level(1), self.level(n) + 1)
        return [(self.first_round(j), self.problem(game, kappa, j)) for j in numbers]


def choose_schedule(
    features: Floats,
    losses: LossClass,
    game: BanditProblem,
    penalty: float | None,
) -> tuple[Schedule, float, float] | None:
    """A schedule without a head, its κ, and its bound after `game.rounds` rounds; a penalty that is given stays."""
    if game.log_prior == 0:
        return None
    penalties = penalty_grid(losses, replace(game, rounds=100 * game.rounds))[2:]
    starts = [balance(losses, game) * game.rounds * 4.0**j for j in range(-4, 3)]
    if penalty is not None:
        penalties, starts = [penalty], [1e150]
    head = Head(features, 0, losses, game, penalties[-1])
    for at in penalties[::2]:
        head.certify(at)
    best, kappas = (
        None,
        (0.75, 1.0, 1.25, 1.5, 1.75) if game.hindsight or game.learned else (1.25, 1.5, 1.75, 2.0),
    )
    for kappa, start in product(kappas, starts):
        schedule = Schedule(
            penalty=penalties[0],
            start=start,
            bias=losses.bias(0, 1.0),
            head_error=losses.error(0),
            certificates=head.certificates,
        )
        levels = schedule.levels(head.game, kappa, game.rounds)
        bound = sum(anytime_terms(levels, kappa, game.rounds).values())
        if best is None or bound < best[2]:
            best = (schedule, kappa, bound)
    return best
