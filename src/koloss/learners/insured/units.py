"""The unit of losses inside: centred, and divided by the width of their range, which may have to be learned."""

from __future__ import annotations

from koloss.core.snapshot import kept
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.points import PointsEngine


@kept
class Units:
    """Centre and width of the range; where it is learned, those of what was heard."""

    hull: LossRange
    center: float
    width: float

    def __init__(self, engine: PointsEngine) -> None:
        self.hull = engine.loss_range()
        self.center, self.width = engine.center, engine.high - engine.low

    @property
    def learned(self) -> bool:
        """Whether the range is learned."""
        return self.hull.learned

    def hear(self, loss: float) -> float | None:
        """Learn where losses are: the first one is the centre, and the width heard is the unit of all that was heard.

        Until losses differ all are zero in any unit. The factor that brings what was heard before into a new unit, if there is one.
        """
        hull, before = self.hull, self.width
        if not hull.known:
            self.center = loss
        if not hull.hear([loss]) or hull.heard_low == hull.heard_high:
            return None
        self.width = hull.heard_high - hull.heard_low
        return before / self.width

    def inside(self, loss: float) -> float:
        """A loss in this unit."""
        return (loss - self.center) / self.width

    @property
    def heard(self) -> tuple[float, float]:
        """Where the losses heard are, in this unit."""
        hull, center = self.hull, self.center
        ends = (hull.heard_low, hull.heard_high) if hull.known else (center, center)
        return (ends[0] - center) / self.width, (ends[1] - center) / self.width
