"""Minimum over finitely many points: all of them are tried."""

from __future__ import annotations

import numpy as np

from koloss.actions import Points
from koloss.core.arrays import roundoff, to_numpy
from koloss.kernels import Loss
from koloss.oracles.base import Minimum


def minimize_points(loss: Loss, actions: Points) -> Minimum:
    """The point of smallest loss, the first where there are several, with its row in `index` and all of them in `points`.

    The gap allows for a few roundings of the largest loss; a loss whose own terms cancel may be less exact.

    Examples
    --------
    >>> import koloss as kl
    >>> best = minimize_points(kl.LinearLoss([1.0]), kl.Points([[2.0], [-1.0], [3.0], [-1.0]]))
    >>> best.index, best.value, len(best.points), best.certificate
    (1, -1.0, 2, 'exhaustive')
    """
    if loss.dimension != actions.dimension:
        raise ValueError(
            f"`loss` must have the dimension of the actions, {actions.dimension}, got {loss.dimension}"
        )
    computed = loss(actions.X)
    values = to_numpy(computed).astype(np.float64)
    index = int(np.argmin(values))
    ties = np.flatnonzero(values == values[index])
    gap = 16 * roundoff(computed) * float(np.abs(values).max())
    points = actions._take(ties)
    return Minimum(points[0, ...], float(values[index]), gap, "exhaustive", points, index)
