"""Features of many actions in other coordinates, a share of rows at a time: nothing of their size is ever stored.

The coordinates come from the Gram matrix F'F, summed in float64 whatever the features are, and its Cholesky factor: designs do not
depend on the coordinates, so these need not be orthonormal to the last digit. Shares go to threads, see `core.threads`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import Array, matching, namespace, roundoff, take, to_numpy
from koloss.core.linalg import (
    SHARE,
    as_float64,
    blocks_of,
    each_share,
    gram,
    regular_cholesky,
    slices,
    solve_lower,
    stacked,
    table,
)
from koloss.errors import RankUnreachable

SMALLEST = 1e-300
"""Features below it have no inverse, or few digits."""


class Rows:
    """The rows of `features @ transform` in float64, computed when they are asked for."""

    def __init__(self, features: Array, transform: Array) -> None:
        self.features, self.transform = features, transform
        self.shape = int(features.shape[0]), int(transform.shape[1])

    def take(self, index: Any) -> NDArray[Any]:
        """Some rows, as a NumPy array."""
        return to_numpy(as_float64(take(self.features, index)) @ self.transform)

    def lengths(self, matrix: NDArray[Any] | None = None) -> NDArray[Any]:
        """|z'matrix|² of every row z: leverages, where the matrix is a root of Σ⁻¹."""
        T = self.transform
        T = T if matrix is None else T @ matching(matrix, T)
        lengths = np.empty(self.shape[0])

        def fill(share: slice) -> None:
            for block in blocks_of(share, self.features):
                z = as_float64(self.features[block, :]) @ T
                lengths[block] = to_numpy(row_lengths(z))

        each_share(fill, self.shape[0], self.features)
        return lengths

    def covariance(self, weights: Array) -> Array:
        """Σ_a weights(a) z(a)z(a)' in float64. Rows without weight are not read where they are most."""
        features, carriers = self.features, np.flatnonzero(to_numpy(weights))
        if 8 * len(carriers) < self.shape[0]:
            features, weights = take(features, carriers), take(weights, carriers)
        roots = namespace(weights).sqrt(as_float64(weights))

        def scaled(block: slice) -> Array:
            return as_float64(features[block, :]) @ self.transform * roots[block, None]

        return gram(scaled, int(features.shape[0]), features)

    def product(self) -> Array:
        """All rows at once, in the type of the features."""
        N, m = self.shape

        def rows(block: slice) -> Array:
            return as_float64(self.features[block, :]) @ self.transform

        return table(rows, N, m, self.features)


def coordinates(features: Array) -> Array:
    """Transform to coordinates of the space that the features span, in which F'F is nearly the identity.

    Columns are scaled to unit length first, so small ones count as much as large ones, and directions below rounding
    after that are left out.
    """
    xp, m = namespace(features), int(features.shape[1])
    eye = xp.eye(m, dtype=xp.float64, device=features.device)
    N = int(features.shape[0])
    total = gram(lambda block: features[block, :], N, features)
    squares = xp.linalg.diagonal(total)
    # Squares of very large or small features are no floating point numbers: then columns are scaled before.
    if float(xp.min(squares)) > 1e-200 and float(xp.max(squares)) < 1e200:
        scales = 1 / xp.sqrt(squares)
        total = total * scales[:, None] * scales
    else:
        scales = 1 / _column_lengths(features)
        total = gram(lambda block: as_float64(features[block, :]) * scales, N, features)
    lower = regular_cholesky(total)
    if lower is not None:
        return scales[:, None] * solve_lower(lower, eye, xp).T
    # F'F squares the condition number: the factor R of F = QR does not.
    R = stacked(lambda block: as_float64(features[block, :]) * scales, N, features)
    _, s, Vh = xp.linalg.svd(R, full_matrices=False)
    limit = max(features.shape) * 2 * roundoff(s) * s[0]
    rank = int(xp.sum(xp.astype(s > limit, xp.int64)))
    return scales[:, None] * Vh[:rank, :].T / s[:rank]


def check_columns(largest: Array) -> None:
    """Refuse features that vanish, and columns that are too small for an inverse, by their largest entries."""
    xp = namespace(largest)
    if float(xp.max(largest)) == 0:
        raise RankUnreachable("`features` must not vanish, got zeros only", rank=0)
    tiny = (largest > 0) & (largest < SMALLEST)
    if bool(xp.any(tiny)):
        rule = f"must have columns of zeros or of size {SMALLEST:g} at least"
        raise ValueError(f"`features` {rule}, got {float(xp.max(largest[tiny])):.6g}")


def row_lengths(z: Array) -> Array:
    """|z|² of every row."""
    if isinstance(z, np.ndarray):
        return np.einsum("ij,ij->i", z, z)
    return namespace(z).sum(z * z, axis=1)


def _column_lengths(features: Array) -> Array:
    """Lengths of the columns where their squares are no numbers; infinite for those of zeros, whose scale is then zero."""
    xp = namespace(features)
    parts = (
        xp.max(xp.abs(features[block, :]), axis=0) for block in slices(features.shape[0], SHARE)
    )
    largest = xp.astype(xp.max(xp.stack(list(parts)), axis=0), xp.float64)
    check_columns(largest)
    divisors = xp.where(largest > 0, largest, xp.ones_like(largest))
    sums = [
        xp.sum((as_float64(features[block, :]) / divisors) ** 2, axis=0)
        for block in slices(features.shape[0], SHARE)
    ]
    lengths = divisors * xp.sqrt(sum(sums, 0.0))
    return xp.where(largest > 0, lengths, xp.full_like(lengths, float("inf")))
