"""Exact draws on a box from densities whose coordinates are independent."""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.core.arrays import as_count, within_floats
from koloss.core.random import as_generator
from koloss.samplers.interval import quadratic_interval


@within_floats("`curvature`, `slope`, `lower` and `upper`")
def separable_box(
    curvature: Any, slope: Any, lower: Any, upper: Any, size: int, *, rng: Any = None
) -> Any:
    """Independent, exact draws from exp(Σ_i curvature_i x_i² + slope_i x_i) on the box lower ≤ x ≤ upper.

    All of these are arrays of shape (d,); the draws are of shape (size, d).

    Examples
    --------
    >>> x = separable_box([0.0, 0.0], [50.0, -50.0], [0.0, 0.0], [1.0, 1.0], 1000, rng=0)
    >>> x.mean(axis=0).round(2).tolist()
    [0.98, 0.02]
    """
    size, rng = as_count("size", size), as_generator(rng)
    rows = np.broadcast_arrays(*(np.atleast_1d(v) for v in (curvature, slope, lower, upper)))
    each = (np.tile(row, size) for row in rows)
    return quadratic_interval(*each, rng=rng).reshape(size, -1)
