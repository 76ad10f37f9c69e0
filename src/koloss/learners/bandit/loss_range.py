"""Where losses lie: stated, or learned from what is heard (theory F3), and what becomes of one outside.

The learner is tuned to an interval of half-width L. *Learned*: that is a unit, the interval heard before a round, its centre c and
half-width h, takes its place, and η is L/h times the tuned rate. Nothing is clipped, nothing thrown away: every loss enters its
estimate at its full size, ŵ = A⁻¹φ(a)·(loss - c); only then the interval widens. The first decisions are drawn from the design
and only listened to.

*Stated*: a loss outside is an error ("raise"), or moves the ends ("widen", as above from the interval stated); or one above
counts as the high end, and one below is an error ("clip").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.core.snapshot import Extended, kept
from koloss.learners.losses import FARTHEST

OUTSIDE = ("raise", "clip", "widen")

WIDEST = 1e120
"""Half-width of an interval to which nothing is clipped."""


def centred(losses: Any, center: float, half: float) -> Any:
    """Losses as they enter the estimates."""
    values = losses - center
    return values if half == WIDEST else np.clip(values, -half, half)


@kept
@dataclass
class LossRange:
    """The interval that the learner goes by, and what was heard outside of it."""

    low: float  # stated, in the units in which the learner is tuned
    high: float
    outside: str = "raise"
    learned: bool = False
    heard_low: Extended = math.inf
    heard_high: Extended = -math.inf
    beyond: float = 0.0  # Σ of what losses were above the high end, where they count as that
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
        """Whether it is wider than what was stated."""
        return not self.learned and self.factor > 1

    @property
    def limits(self) -> tuple[float, float]:
        """What is refused."""
        if self.moves:
            return -FARTHEST, FARTHEST
        return self.low, FARTHEST if self.outside == "clip" else self.high

    def admitted(self, losses: Any) -> Any:
        """Losses as they enter the estimates."""
        return np.minimum(losses, self.high) if self.outside == "clip" else losses

    def hear(self, losses: Sequence[float]) -> bool:
        """Count what is above, or widen where that is the rule; whether the interval has moved."""
        if self.outside == "raise" and not self.learned:
            return False
        low, high = float(np.min(losses)), float(np.max(losses))
        if self.known and low >= self.heard_low and high <= self.heard_high:
            return False
        if self.moves:
            self.heard_low, self.heard_high = min(self.heard_low, low), max(self.heard_high, high)
            return True
        self.beyond += float(np.sum(np.maximum(np.asarray(losses) - self.high, 0.0)))
        return False
