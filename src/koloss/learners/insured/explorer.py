"""How much a policy under watch explores, and by which design.

The share γ of exploration has to keep the account within the budget whatever the next loss is: γ ≥ `rate_needed`. More than that
is explored so that a usual loss uses no more than a part of the room that is left (`jump`); less is needed where losses need not
be counted in full (`thrift`). The design is made anew as the forecast tells actions apart: the leverage of each is to be in
proportion to the noise it can bear.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.guarantees import insured
from koloss.learners.insured.account import Account
from koloss.learners.insured.allowance import Allowance
from koloss.learners.insured.bets import SUSPICION, Bets, residual_variance
from koloss.learners.insured.exploration import Exploration, Floats, largest, lowest, smallest
from koloss.learners.insured.forecast import Forecaster, Local

DEAREST = 5.0
"""Largest ratio of prices."""

JUMP = 0.3
"""Share of the room that is left which one loss may use, if that can be had by exploring: ..."""

USUAL = 3.0
"""... one that is within so many deviations of its prediction."""

SPARED, LEAST = 0.5, 1 / 3
"""Share of the room that is left which may go, by the forecast, to losses that are not counted in full; and how much of each is."""


ALIKE = 1e-7
"""Relative difference of the costs of two designs below which they cost the same but for rounding."""


class Explorer:
    """The exploring half of a stage: its share and its design, given the account, the forecast and the bets."""

    first: Exploration
    exploration: Exploration
    allowance: Allowance
    account: Account
    forecaster: Forecaster | Local
    designs: int = 1  # explorations designed so far
    heard: int = 0
    noise: float = 0.0  # Σ of squared residuals
    priced: float = 0.0  # largest ratio of prices at the last design
    thrift: float = 1.0  # weight that is aimed at, and with it the exploration that is needed
    bets: Bets  # against the policy

    def __init__(
        self,
        first: Exploration,
        allowance: Allowance,
        account: Account,
        forecaster: Forecaster | Local,
    ) -> None:
        self.first = self.exploration = first
        self.allowance, self.account, self.forecaster = allowance, account, forecaster

    # Its share.

    def rate_needed(
        self,
        choice: int | None,
        budget: float,
        exploration: Exploration | None = None,
        weight: float = 1.0,
    ) -> float:
        """The smallest γ that keeps the account within the budget after one more round of this weight; may be above 1."""
        explore = exploration or self.exploration
        spread = choice is None or self.account.shares is not None
        reach = explore.far_reach() if spread else explore.reach(choice)  # type: ignore[arg-type]
        return weight * max(self.account.rate(reach, budget), explore.largest / self.cap(budget))

    def cap(self, budget: float) -> float:
        """R: the largest leverage that exploration may leave."""
        allowance = self.allowance
        cap = budget if allowance.cap is None else allowance.cap
        if not allowance.learned:
            return cap
        # One loss outside of all that was heard costs as much as it is, times this.
        return min(cap, budget * allowance.premium / allowance.share)

    def spare(self, budget: float, left: float) -> Floats:
        """u(a): the variance per round that the account of an action can bear, over so many rounds.

        Where the forecast is sure that an action is worse than the best by g, its account falls by g in every round: noise uses up
        room r + g s in s rounds, at worst after r/g of them.
        """
        room = np.maximum(self.account.room(budget), budget / 2)
        forecaster = self.forecaster
        sure = forecaster.mean - 2 * forecaster.deviation
        mean, offered = forecaster.mean, self.offered
        gap = np.maximum(sure - mean[lowest(mean, offered)], 1e-12)
        s = np.minimum(room / gap, left)
        spare: Floats = np.square(room + gap * s) / s
        if offered is not None:
            spare[~offered] = smallest(spare[offered])
        return spare

    def left(self, made: int) -> float:
        """Rounds to come, or as many as there were where there is no horizon; of a context that has had its share of it one."""
        horizon = self.allowance.horizon
        return max(made if horizon is None else horizon - made, 1.0)

    @property
    def jump(self) -> float:
        """How many times the exploration that the worst loss needs, so that a usual one uses no more than its share of the room."""
        return min(1.0, USUAL * math.sqrt(self.residual_variance)) / JUMP

    def exploration_now(self, made: int) -> float:
        """Share of exploration if the best action by the forecast were proposed."""
        if made < self.allowance.warm_up:
            return SUSPICION
        choice = lowest(self.forecaster.mean, self.offered)
        budget = self.allowance.budget(made + 1)
        needed = self.rate_needed(choice, budget, weight=self.thrift)
        needed = max(needed, min(needed * self.jump, insured.CEILING))
        return min(max(needed, SUSPICION) if self.suspicious else needed, 1.0)

    # Its design.

    def redesign(self, budget: float, left: float = math.inf, *, now: bool = False) -> bool:
        """Look at the room that is left, and make a new design once gaps have changed, or `now`; whether there is a new one.

        The leverage of an action is to be in proportion to the variance that its account can bear.
        """
        used = self.account.used
        if budget - 1 - used <= 0:
            return False
        spare = self.spare(budget, left)
        ratios = spare / smallest(spare)
        widest = largest(ratios)
        changed = now or not 0.7 * self.priced <= widest <= 1.4 * self.priced
        made = changed and self._reprice(budget, np.minimum(ratios, DEAREST), now)
        if changed:
            self.priced = widest
        if now:  # nothing else, as nothing more was heard
            return made
        self.thrift = 1.0 if self.allowance.learned else self.enough(budget, left)
        return made

    def enough(self, budget: float, left: float) -> float:
        """The smallest weight of losses with which the account stays well within the budget for so many rounds, by the forecast.

        With a weight w the account of an action of loss l rises by y - w l + (1 - w)/2 in a round, whatever is explored; and the
        exploration that is needed is in proportion to w.
        """
        losses = np.clip(self.forecaster.mean, -0.5, 0.5) + 0.5
        slack = SPARED * self.account.room(budget) / left
        weights = (self.bets.policy_mean + 0.5 - slack) / np.maximum(losses, 1e-12)
        if self.offered is not None:
            weights = weights[self.offered]
        return min(max(largest(weights), LEAST), 1.0)

    def _reprice(self, budget: float, prices: Floats, now: bool) -> bool:
        """Explore by these prices, if that costs less and not by rounding alone."""
        candidate = self.first.priced(self.designs + 1, prices)
        mean = self.forecaster.mean
        choice = lowest(mean, self.offered)
        costs = mean - mean[choice]
        if now:
            costs = np.ones_like(costs)
        old, new = (
            self.rate_needed(choice, budget, one) * float(costs @ one.weights)
            for one in (self.exploration, candidate)
        )
        if new >= old * (1 - ALIKE):
            return False
        self.designs += 1
        self.exploration = candidate
        return True

    # What it goes by.

    @property
    def residual_variance(self) -> float:
        """Of what was heard around what had been predicted."""
        return residual_variance(self.noise, self.heard)

    @property
    def suspicious(self) -> bool:
        """Whether the policy has done worse than exploration of late."""
        return self.bets.suspects(self.residual_variance)

    @property
    def offered(self) -> Any:
        """Which actions are offered; None where all are."""
        return self.account.offered
