"""The G-optimal design on a ball for linear or quadratic features, in closed form."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 4 * 2**30
"""Largest covariance."""


@lru_cache(maxsize=8)
def sphere_design(dimension: int, quadratic: bool, intercept: bool) -> tuple[NDArray[Any], float]:
    """Σ(π) of the G-optimal design on the unit ball, and its mass at 0; the rest is uniform on the sphere (theory B5).

    Features are (uu', u) or u, and a constant where there is an intercept. The largest leverage is their number m, at every
    point of the sphere. Σ(π) does not change under rotations.
    """
    d = dimension
    n = d * (d + 1) // 2 if quadratic else 0
    m = n + d + intercept
    if 8 * m * m > MOST_BYTES:
        rule = f"must have fewer dimensions for a covariance of {m:,} features"
        raise ValueError(f"`actions` {rule}, got {d:,}")
    zero = 1 / m if quadratic and intercept else 0.0
    sigma = np.zeros((m, m))
    squares, linear = np.arange(d), n + np.arange(d)
    sigma[linear, linear] = (1 - zero) / d
    if quadratic:
        sigma[np.arange(n), np.arange(n)] = 2 * (1 - zero) / (d * (d + 2))
        sigma[:d, :d] += (1 - zero) / (d * (d + 2))
    if intercept:
        sigma[-1, -1] = 1.0
        if quadratic:
            sigma[squares, -1] = sigma[-1, squares] = (1 - zero) / d
    sigma.flags.writeable = False
    return sigma, zero
