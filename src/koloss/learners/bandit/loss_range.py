"""Where losses lie: stated, or learned from what is heard (theory F3), and what becomes of one outside.

The learner is tuned to an interval of half-width L. *Learned*: that is a unit, the interval heard before a round, its centre c and
half-width h, takes its place, and η is L/h times the tuned rate. Nothing is clipped, nothing thrown away: every loss enters its
estimate at its full size, ŵ = A⁻¹φ(a)·(loss - c); only then the interval widens. The first decisions are drawn from the design
and only listened to.

*Stated*: a loss outside is an error ("raise"), moves the ends ("widen", as above from the interval stated), is taken as the end
it is beyond ("clip"), or as it is, with everything else as stated ("keep").
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from koloss.learners.reading import LARGEST, Reader

OUTSIDE = ("raise", "clip", "widen", "keep")

WIDEST = LARGEST
"""Half-width of an interval to which nothing is clipped."""


def centred(losses: Any, center: float, half: float) -> Any:
    """Losses as they enter the estimates."""
    values = losses - center
    return values if half == WIDEST else np.clip(values, -half, half)


@dataclass
class LossRange:
    """The interval that the learner goes by, and what was heard outside of it."""

    low: float  # stated, in the units in which the learner is tuned
    high: float
    outside: str = "raise"
    learned: bool = False
    heard_low: float = math.inf
    heard_high: float = -math.inf
    beyond: float = 0.0  # Σ of distances to the interval
    squares: float = 0.0  # and of their squares
    listened: int = 0  # decisions made before anything was heard

    def __post_init__(self) -> None:
        if not self.learned:
            self.heard_low, self.heard_high = self.low, self.high

    @property
    def known(self) -> bool:
        """Whether there is an interval to go by."""
        return self.heard_low <= self.heard_high

    @property
    def center(self) -> float:
        """Its middle."""
        return (self.heard_low + self.heard_high) / 2 if self.known else 0.0

    @property
    def factor(self) -> float:
        """Its width over that for which the learner is tuned."""
        if not self.known:
            return 0.0
        return (self.heard_high - self.heard_low) / (self.high - self.low)

    @property
    def moves(self) -> bool:
        """Whether it may change."""
        return self.learned or self.outside == "widen"

    @property
    def has_been_left(self) -> bool:
        """Whether a loss was outside of what was stated."""
        return not self.learned and (self.beyond > 0 or self.factor > 1)

    @property
    def limits(self) -> tuple[float, float]:
        """What is refused."""
        if self.outside == "raise" and not self.learned:
            return self.low, self.high
        return -sys.float_info.max, sys.float_info.max

    def admitted(self, losses: Any) -> Any:
        """Losses as they enter the estimates."""
        return np.clip(losses, self.low, self.high) if self.outside == "clip" else losses

    def hear(self, losses: Sequence[float]) -> bool:
        """Count what is outside, and widen where that is the rule; whether the interval has moved."""
        if self.outside == "raise" and not self.learned:
            return False
        low, high = float(np.min(losses)), float(np.max(losses))
        if self.known and low >= self.heard_low and high <= self.heard_high:
            return False
        if self.moves:
            self.heard_low, self.heard_high = min(self.heard_low, low), max(self.heard_high, high)
            return True
        values = np.asarray(losses)
        distances = np.maximum(0.0, np.maximum(self.low - values, values - self.high))
        self.beyond += float(np.sum(distances))
        self.squares += float(np.sum(np.square(distances)))
        return False

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Reader, stated: LossRange) -> LossRange:
        """The interval in a snapshot of a game that began with the one stated."""
        made = cls(
            low=data.number("low", stated.low, stated.low),
            high=data.number("high", stated.high, stated.high),
            outside=data.word("outside", (stated.outside,)),
            learned=data.flag("learned"),
        )
        ends = [data.number(name, finite=False) for name in ("heard_low", "heard_high")]
        nothing = ends == [math.inf, -math.inf]
        if made.learned != stated.learned or not (ends[0] <= ends[1] or (nothing and made.learned)):
            data.refuse("heard_low", "must be the low end of what was heard", ends)
        if not made.moves and ends != [stated.low, stated.high]:
            data.refuse("heard_low", "must be what was stated", ends)
        made.heard_low, made.heard_high = ends
        made.beyond, made.squares = data.number("beyond", 0), data.number("squares", 0)
        made.listened = data.count("listened")
        return made
