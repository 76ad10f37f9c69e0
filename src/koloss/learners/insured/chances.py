"""Second chances: whether a policy that was stopped deserves to play again (theory F5.5).

While the robust learner plays in place of a policy, an action is put down for every round that the policy's forecast would have
played, before anybody knows the loss. The robust learner's estimate of that action's loss is without bias, so that

    gain = loss paid - estimated loss of the action put down

adds up to what the policy would have saved. Whether and when a policy plays again is free: its account is never forgotten, and
the bound holds for every such rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from koloss.core.snapshot import kept

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
