"""What an oracle answers, a point, its value, and what proves it; and the oracle that tries all of finitely many points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from koloss.actions import Points
from koloss.core.arrays import roundoff, take, to_numpy
from koloss.kernels import Loss

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


def minimize_points(loss: Loss, actions: Points, **_: Any) -> Minimum:
    """The point of smallest loss, the first where there are several, with its row in `index` and all of them in `points`.

    The gap allows for a few roundings of the largest loss; a loss whose own terms cancel may be less exact.

    Examples
    --------
    >>> import koloss as kl
    >>> best = minimize_points(kl.LinearLoss([1.0]), kl.Points([[2.0], [-1.0], [3.0], [-1.0]]))
    >>> best.index, best.value, len(best.points), best.certificate
    (1, -1.0, 2, 'exhaustive')
    """
    computed = loss(actions.X)
    values = to_numpy(computed).astype(np.float64)
    index = int(np.argmin(values))
    ties = np.flatnonzero(values == values[index])
    gap = 16 * roundoff(computed) * float(np.abs(values).max())
    points = take(actions.X, ties)
    return Minimum(points[0, ...], float(values[index]), gap, "exhaustive", points, index)
