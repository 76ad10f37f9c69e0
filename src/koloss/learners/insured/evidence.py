"""What speaks against a policy in play, or for one that was stopped, and the alarms that say so.

*Bets* are made against a policy under watch, which is stopped at long odds.

*Second chances* (theory F5.5): while the robust learner plays in place of a policy, an action is put down for every round that the
policy's forecast would have played, before anybody knows the loss. The robust learner's estimate of that action's loss is without
bias, so that

    gain = loss paid - estimated loss of the action put down

adds up to what the policy would have saved. Whether and when a policy plays again is free: its account is never forgotten, and
the bound holds for every such rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

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


REST = 100
"""Losses after a stop before the policy may play again on evidence; twice as many after every further one."""

CHANCE = 1.5
"""Deviations by which its forecast has to have done better than the robust learner."""

ROOM = 2.5
"""And the room that its budget must have left, in units of the design's leverage."""


@kept
@dataclass(slots=True)
class Chances:
    """What the policy in the shadow would have gained since it was stopped."""

    stops: int = 0  # how often the robust learner has taken over
    since: int = 0  # losses heard when it last did
    gain: float = 0.0  # Σ of what would have been gained
    spread: float = 0.0  # Σ of squares
    chosen: dict[int, int] = field(
        default_factory=dict
    )  # the action put down for every decision that waits

    def stopped(self, heard: int) -> None:
        """The robust learner takes over, once so many losses have been heard."""
        self.stops += 1
        self.since, self.gain, self.spread = heard, 0.0, 0.0
        self.chosen.clear()

    def put_down(self, decisions: Iterable[int], action: int) -> None:
        """What would have been played in the robust learner's place."""
        self.chosen.update(dict.fromkeys(decisions, action))

    def compare(self, gain: float) -> None:
        """Take note of what it would have gained."""
        self.gain += gain
        self.spread += gain * gain

    def rest(self, heard: int) -> int:
        """Losses that have still to be heard before it may play again, once so many have been."""
        rest: int = REST << min(max(self.stops - 1, 0), 40)
        return max(self.since + rest - heard, 0)

    @property
    def deviations(self) -> float:
        """The gain in deviations of its noise."""
        return self.gain / math.sqrt(self.spread) if self.spread > 0 else 0.0

    def deserved(self, heard: int, room: float, leverage: float) -> bool:
        """Whether to let it play again, once so many losses have been heard, with so much room left in its budget."""
        return self.rest(heard) == 0 and room > ROOM * leverage and self.deviations > CHANCE


@kept
@dataclass(frozen=True)
class Alarm:
    """A policy was stopped, or plays again."""

    round: int  # decisions made before it
    policy: str
    reason: str  # "budget", "evidence", "operator" or "short"; "forecast" or "operator" for a second chance
    estimated_regret: float  # in the units of the losses
    successor: str  # who plays on: "robust", or the policy
    budget: float  # what the estimated regret could have reached
    context: int | None = None  # the row of the context in which, where there are several, ...
    named: str = ""  # ... and how it was given

    def __str__(self) -> str:
        why, successor = REASONS[self.reason], self.successor
        used = f"estimated regret {self.estimated_regret:.4g} of {self.budget:.4g}"
        where = "" if self.context is None else f" in context {self.named}"
        after = (f"after {self.round} rounds" if self.round else "before the first round") + where
        if self.policy == "robust":
            return f"{after} the policy {successor!r} plays again: {why}; {used}"
        return (
            f"{after} the policy {self.policy!r} was stopped: {why}; {used}; {successor} plays on"
        )


REASONS = {
    "budget": "its estimated regret left no room for another round",
    "evidence": "exploration did better than it",
    "forecast": "its forecast did better than the robust learner",
    "operator": "by hand",
    "short": "there is nothing to insure: one action, or too few rounds",
}
"""Why a stage ends, in words."""
