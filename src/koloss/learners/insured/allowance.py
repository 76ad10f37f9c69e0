"""What a policy may use: of estimated regret, and of losses that wait. Set before the first round."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from koloss.core.snapshot import Extended, kept
from koloss.guarantees import insured
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.insured.settings import InsuredSettings


@kept
@dataclass(frozen=True)
class Allowance:
    """What a policy may use of estimated regret, in units of the range."""

    share: float  # of B(n), the robust learner's scale
    premium: float  # the part of it that one loss may use where the range is learned
    unit: float  # B(1)
    horizon: int | None
    warm_up: int  # rounds played on trust where there is no horizon
    cap: Extended | None  # R, the largest leverage allowed; None: the budget of the time
    overdraft: float | None = None  # C; None: that of `insured.overdraft`
    learned: bool = False  # whether the range is learned

    @classmethod
    def of(
        cls,
        settings: InsuredSettings,
        problem: BanditProblem,
        horizon: int | None,
        *,
        warm_up: int,
        learned: bool,
    ) -> Allowance:
        """That of a stage with these settings, for its share of the horizon."""
        allowance = cls(
            share=settings.budget,
            premium=settings.premium,
            unit=insured.scale(problem, 1),
            horizon=horizon,
            warm_up=warm_up,
            cap=None,
            overdraft=settings.planned_delay or None,
            learned=learned,
        )
        return replace(
            allowance, cap=insured.largest_leverage(problem, allowance.budget(1), horizon)
        )

    def size(self, made: int) -> float:
        """B of all rounds, or of those up to the next one where there is no horizon."""
        return self.unit * math.sqrt(self.horizon or max(made, self.warm_up + 1))

    def budget(self, made: int) -> float:
        """Estimated regret that may be reached once so many decisions have been made."""
        return self.share * self.size(made)

    def debt(self, made: int) -> float:
        """C: decisions that may be open beyond what the budget has room for."""
        if self.overdraft is not None:
            return self.overdraft
        return insured.overdraft(self.horizon or max(made, self.warm_up + 1))
