"""What a policy may use: of estimated regret, of exploring, of losses that wait. Set before its stage begins."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from koloss.guarantees import insured
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.insured.settings import InsuredSettings


@dataclass(frozen=True)
class Allowance:
    """What a policy may use of estimated regret, in units of the range."""

    share: float  # of B(n), the robust learner's scale, for all policies up to this one
    premium: float  # the part of it that one loss may use where the range is learned
    unit: float  # B(1)
    horizon: int | None
    warm_up: int  # rounds played on trust where there is no horizon
    cap: float | None  # R, the largest leverage allowed; None: the budget of the time
    early: bool  # whether evidence against the policy ends its stage
    overdraft: float | None = None  # C; None: that of `insured.overdraft`
    cost: float | None = None  # most that exploring may be expected to cost ...
    per: int = 1  # ... in so many rounds
    learned: bool = False  # whether the range is learned

    @classmethod
    def of(
        cls,
        settings: InsuredSettings,
        problem: BanditProblem,
        number: int,
        *,
        warm_up: int,
        width: float,
        learned: bool,
    ) -> Allowance:
        """That of a policy by its number, with what those before it have left; `width` is that of the range."""
        horizon, (cost, per) = settings.horizon, settings.costs
        debt = settings.overdraft
        allowance = cls(
            share=sum(settings.budgets[: number + 1]),
            premium=sum(settings.premiums[: number + 1]),
            unit=insured.scale(problem, 1),
            horizon=horizon,
            warm_up=warm_up,
            cap=None,
            early=settings.early,
            overdraft=debt if debt != "auto" else settings.planned_delay or None,
            cost=None if cost is None else cost / width,
            per=per,
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
