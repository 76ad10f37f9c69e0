"""Bets against a policy under watch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from koloss.core.snapshot import Extended, kept

ODDS = 100.0
"""Wealth of the bets on "exploration does better than the policy" at which the stage ends early, at least ..."""

ODDS_EACH = 20.0
"""... and for every bet that has been made."""

STAKE = 0.9
"""Share of that wealth at stake whenever an action is explored."""

SUSPICION = 0.25
"""Share of exploration while the policy does worse than exploration itself."""

GUESSED = 10.0
"""Losses in whose place the variance of residuals is 1/4, the largest possible."""


def residual_variance(noise: float, heard: int) -> float:
    """Of so many losses around what had been predicted; `noise` is the sum of their squared residuals."""
    return (noise + GUESSED / 4) / (heard + GUESSED)


@kept
@dataclass(slots=True)
class Bets:
    """A bet that exploration does better than the policy, and how both have done of late.

    Whenever an action is explored, `STAKE` of the wealth is bet on its loss being below the mean of the policy's losses since
    the last bet; a new bet of 1 is added each time, so that a change late in the game is noticed, too (an e-detector). No loss
    is used twice: if exploration is no better than the policy, each bet is a fair one or worse.
    """

    wealth: Extended = 0.0  # it may grow beyond every number
    policy_mean: float = 0.0
    explored_mean: float = 0.0
    policy_rounds: int = 0
    explored_rounds: int = 0
    bets: int = 0
    fresh_mean: float = 0.0  # of the policy's losses since the last bet
    fresh_rounds: int = 0

    @property
    def evidence(self) -> float:
        """Wealth over what ends the stage: more with every bet, lest one of many succeed by chance."""
        return self.wealth / max(ODDS, ODDS_EACH * self.bets)

    def suspects(self, noise: float) -> bool:
        """Whether the policy has done worse than exploration of late, by a deviation of losses of this variance or more."""
        if self.explored_rounds == 0:
            return True
        # The means forget at 1/10 and 1/20, which leaves them the variance of means of 19 and 39.
        seen = 1 / min(max(self.policy_rounds, 1), 19) + 1 / min(self.explored_rounds, 39)
        return self.policy_mean - self.explored_mean >= math.sqrt(noise * seen)

    def add(self, y: float, explored: bool) -> None:
        """Take note of a loss."""
        if not explored:
            self.policy_rounds += 1
            self.policy_mean += (y - self.policy_mean) * max(1 / self.policy_rounds, 0.1)
            self.fresh_rounds += 1
            self.fresh_mean += (y - self.fresh_mean) * max(1 / self.fresh_rounds, 0.1)
            return
        if self.fresh_rounds:
            self.wealth = (self.wealth + 1) * (1 + STAKE * (self.fresh_mean - y))
            self.bets += 1
            self.fresh_rounds, self.fresh_mean = 0, 0.0
        self.explored_rounds += 1
        self.explored_mean += (y - self.explored_mean) / min(self.explored_rounds, 20)
