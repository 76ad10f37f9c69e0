"""Squared distances of points, and functions of them, accurate one by one and in blocks that fit the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from koloss.core.arrays import Array, Namespace, assign, matching

PRODUCT = 16
"""Above this dimension distances come from a product of matrices."""

CLOSE = 1e-3
"""Pairs whose squared distance is at most this share of |x|² + |y|² are done again."""

BLOCK = 2**18
"""Bytes of a block of rows. What becomes of a distance, pass after pass, is done before the next block is begun."""

Profile = Callable[[Array, Namespace], Array]


def _unchanged(squared: Array, _: Namespace) -> Array:
    return squared


def squared_distances(
    X: Array,
    Y: Array,
    xp: Namespace,
    lengths: tuple[float, ...] | None = None,
    profile: Profile = _unchanged,
) -> Array:
    """|z_ij|² of z_ij = x_i - y_j, in units of `lengths` where there is one for each coordinate.

    With a `profile` its values there, entry by entry, without an array of the distances beside them.

    Summed by coordinate in low dimension, a product in high. The product cancels where two points are close
    together, so such pairs are done again by coordinate: the error stays small relative to each distance, and
    coincident points are exactly so. For the same reason differences are scaled, not the points.
    """
    inverse = None if lengths is None else 1 / np.asarray(lengths)
    if X.shape[1] > PRODUCT:
        result = _by_product(X, Y, xp, inverse, profile)
        if result is not None:
            return result
    blocks = blocks_of(X, Y)
    if len(blocks) == 1:
        return profile(_by_coordinate(X, Y, inverse), xp)
    result = np.empty((X.shape[0], Y.shape[0]), dtype=X.dtype)
    for rows in blocks:
        result[rows] = profile(_by_coordinate(X[rows], Y, inverse, out=result[rows]), xp)
    return result


def blocks_of(X: Array, Y: Array) -> list[slice]:
    """Rows of X in blocks; in one where the library is not NumPy, and keeps house by itself."""
    n, p = X.shape[0], Y.shape[0]
    if not isinstance(X, np.ndarray):
        return [slice(0, n)]
    size = max(BLOCK // (p * X.itemsize), 1)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _by_coordinate(X: Array, Y: Array, inverse: Any, out: Any = None) -> Array:
    """Sums of squares; in the place `out` where they can be."""
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and Y.shape[0] > 1:
        from scipy.spatial.distance import cdist  # the same sums, in one pass

        weights = {} if inverse is None else {"w": inverse * inverse}
        return cdist(X, Y, "sqeuclidean", out=out, **weights)
    total = 0.0
    for i in range(X.shape[1]):
        difference = X[:, i, None] - Y[None, :, i]
        if inverse is not None:
            difference = difference * float(inverse[i])
        total = total + difference * difference
    return total


def _by_product(X: Array, Y: Array, xp: Namespace, inverse: Any, profile: Profile) -> Array | None:
    """By |x|² + |y|² - 2x'y, and by coordinate where much of that cancels; None where that is nearly everywhere."""
    centre = xp.mean(Y, axis=0, keepdims=True)
    scale = 1.0 if inverse is None else matching(inverse, X)
    x, y = (X - centre) * scale, (Y - centre) * scale
    x_sizes, y_sizes = xp.sum(x * x, axis=1)[:, None], xp.sum(y * y, axis=1)[None, :]
    result = (-2 * x) @ y.T
    blocks, left = blocks_of(X, Y), 4 * X.shape[0] * Y.shape[0]
    least = CLOSE * (x_sizes + xp.max(y_sizes))
    for rows in blocks:
        sizes = x_sizes[rows, :] + y_sizes
        total = result[rows, :]
        total += sizes
        # In one pass whether any pair of the block may be close, and only then which.
        if not bool(xp.all(xp.min(total, axis=1, keepdims=True) > least[rows, :])):
            near = total <= CLOSE * sizes
            pairs = xp.nonzero(xp.reshape(near, (-1,)))[0]  # faster than along two axes
            left -= pairs.shape[0] * X.shape[1]
            if left < 0:
                return None
            first = pairs // Y.shape[0]
            second = pairs - first * Y.shape[0]
            points = xp.take(X[rows, :], first, axis=0)
            difference = (points - xp.take(Y, second, axis=0)) * scale
            total = assign(total, near, xp.sum(difference * difference, axis=1))
        values = profile(total, xp)
        if len(blocks) == 1:
            return values
        result[rows, :] = values
    return result
