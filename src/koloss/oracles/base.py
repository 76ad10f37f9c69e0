"""What an oracle answers: a point, its value, and why one may believe that nothing is smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Certificate = Literal["dual", "exhaustive", "local only"]


@dataclass(frozen=True, eq=False)
class Minimum:
    """A minimum of a loss over an action set, with its certificate."""

    point: Any  # (d,)
    value: float  # the loss there
    gap: float  # the value minus a proved lower bound on the loss; infinite where nothing is proved
    certificate: Certificate  # what proves it: a dual value, all actions tried, or nothing
    points: Any = field(repr=False, default=None)  # (k, d): all known minimisers, `point` first
    index: int | None = None  # row of the point in a finite set
    multiplier: float | None = None  # of |a| ≤ radius, where that is the dual variable

    def __post_init__(self) -> None:
        if self.points is None:
            object.__setattr__(self, "points", self.point[None])

    @property
    def lower_bound(self) -> float:
        """Proved lower bound on the loss."""
        return self.value - self.gap if math.isfinite(self.gap) else -math.inf
