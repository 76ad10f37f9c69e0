"""What an oracle answers: a point, its value, and why one may believe that nothing is smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Certificate = Literal["dual", "exhaustive", "local only"]


@dataclass(frozen=True, eq=False)
class Minimum:
    """A minimum of a loss over an action set, with its certificate.

    Attributes
    ----------
    point : array of shape (d,)
    value : float
        The loss there.
    gap : float
        The value minus a proved lower bound on the loss: no action is better by more. Infinite where nothing is
        proved.
    certificate : "dual", "exhaustive" or "local only"
        What proves it: a dual value, all actions tried, or nothing.
    points : array of shape (k, d)
        All minimisers that the oracle knows, `point` first.
    index : int or None
        Row of the point in a finite set.
    multiplier : float or None
        Of the constraint |a| ≤ radius, where that is the dual variable.
    """

    point: Any
    value: float
    gap: float
    certificate: Certificate
    points: Any = field(repr=False, default=None)
    index: int | None = None
    multiplier: float | None = None

    def __post_init__(self) -> None:
        if self.points is None:
            object.__setattr__(self, "points", self.point[None])

    @property
    def lower_bound(self) -> float:
        """Proved lower bound on the loss."""
        return self.value - self.gap if math.isfinite(self.gap) else -math.inf
