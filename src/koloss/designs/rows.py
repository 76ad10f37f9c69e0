"""Features of many actions in other coordinates, a share of rows at a time: nothing of their size is ever stored.

The coordinates come from the Gram matrix F'F, summed in float64 whatever the features are, and its Cholesky factor: designs do not
depend on the coordinates, so these need not be orthonormal to the last digit. Shares go to threads, see `_threads`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import Array, matching, namespace, roundoff, take, to_numpy
from koloss._threads import in_parallel
from koloss.errors import RankUnreachable
from koloss.proxy.base import blocks
from koloss.proxy.pivoted_cholesky import solve_lower

ROWS = 4096
"""Rows of features handled at a time, to keep the memory of temporaries small."""

SHARE = 16 * ROWS
"""Rows that a thread takes at a time."""

SMALLEST = 1e-300
"""Features below it have no inverse, or few digits."""

REGULAR = 1e-4
"""Smallest pivot of a Cholesky factor, over the largest, with which F'F has enough digits left."""


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
            for block in _within(share):
                z = as_float64(self.features[block, :]) @ T
                lengths[block] = to_numpy(row_lengths(z))

        _each(fill, self.features)
        return lengths

    def covariance(self, weights: Array | None = None) -> Array:
        """Σ_a weights(a) z(a)z(a)' in float64; the plain sum without weights. Rows without weight are not read where they are most."""
        if weights is not None:
            carriers = np.flatnonzero(to_numpy(weights))
            if 8 * len(carriers) < self.shape[0]:
                features = take(self.features, carriers)
                return _gram(features, self.transform, as_float64(take(weights, carriers)))
            weights = as_float64(weights)
        return _gram(self.features, self.transform, weights)

    def product(self) -> Array:
        """All rows at once, in the type of the features."""
        xp = namespace(self.features)
        if not isinstance(self.features, np.ndarray):
            parts = [self.features[block, :] for block in blocks(self.shape[0], SHARE)]
            return xp.concat([matching(as_float64(b) @ self.transform, b) for b in parts], axis=0)
        product = np.empty(self.shape, dtype=self.features.dtype)

        def fill(share: slice) -> None:
            for block in _within(share):
                product[block] = as_float64(self.features[block]) @ self.transform

        _each(fill, self.features)
        return product


def coordinates(features: Array) -> Array:
    """Transform to coordinates of the space that the features span, in which F'F is nearly the identity.

    Columns are scaled to unit length first, so small ones count as much as large ones, and directions below rounding
    after that are left out.
    """
    xp, m = namespace(features), int(features.shape[1])
    eye = xp.eye(m, dtype=xp.float64, device=features.device)
    total = _gram(features)
    squares = xp.linalg.diagonal(total)
    # Squares of very large or small features are no floating point numbers: then columns are scaled before.
    if 1e-200 < float(xp.min(squares)) and float(xp.max(squares)) < 1e200:
        scales = 1 / xp.sqrt(squares)
        total = total * scales[:, None] * scales
    else:
        scales = 1 / _column_lengths(features)
        total = _gram(features, eye * scales)
    try:
        lower = xp.linalg.cholesky(total)
        pivots = xp.linalg.diagonal(lower)
        regular = float(xp.min(pivots)) > REGULAR * float(xp.max(pivots))
    except (np.linalg.LinAlgError, RuntimeError):
        regular = False
    if regular:
        return scales[:, None] * solve_lower(lower, eye, xp).T
    # F'F squares the condition number: the factor R of F = QR does not.
    R = _triangle(features, scales)
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


def as_float64(features: Array) -> Array:
    """The same numbers in float64; only ever asked of a block."""
    xp = namespace(features)
    return xp.astype(features, xp.float64, copy=False)


def _column_lengths(features: Array) -> Array:
    """Lengths of the columns where their squares are no numbers; infinite for those of zeros, whose scale is then zero."""
    xp = namespace(features)
    parts = (xp.max(xp.abs(features[block, :]), axis=0) for block in blocks(len(features), SHARE))
    largest = xp.astype(xp.max(xp.stack(list(parts)), axis=0), xp.float64)
    check_columns(largest)
    largest = xp.where(largest > 0, largest, xp.full_like(largest, float("inf")))
    sums = [
        xp.sum((as_float64(features[block, :]) / largest) ** 2, axis=0)
        for block in blocks(len(features), SHARE)
    ]
    roots = xp.sqrt(sum(sums, 0.0))
    return xp.where(roots > 0, largest * roots, largest)


def _gram(features: Array, transform: Array = None, weights: Array | None = None) -> Array:
    """(F T)'diag(weights)(F T), summed in the order of the shares."""

    @np.errstate(over="ignore", invalid="ignore")
    def part(share: slice) -> Array:
        total: Array = 0.0
        for block in _within(share):
            z = as_float64(features[block, :])
            z = z if transform is None else z @ transform
            total = total + (z.T @ z if weights is None else (z * weights[block, None]).T @ z)
        return total

    total: Array = sum(_each(part, features), 0.0)
    return (total + total.T) / 2


def _triangle(features: Array, scales: Array) -> Array:
    """R of the QR factorisation of the scaled features: of each share, and of their Rs on top of each other."""
    xp = namespace(features)

    def part(share: slice) -> Array:
        R: Array = None
        for block in _within(share):
            rows = as_float64(features[block, :]) * scales
            R = xp.linalg.qr(rows if R is None else xp.concat([R, rows], axis=0))[1]
        return R

    return xp.linalg.qr(xp.concat(_each(part, features), axis=0))[1]


def _within(share: slice) -> Iterator[slice]:
    for block in blocks(share.stop - share.start, ROWS):
        yield slice(share.start + block.start, share.start + block.stop)


def _each(function: Callable[[slice], Any], features: Array) -> list[Any]:
    """`function` of every share of the rows; by threads where the array is NumPy's, otherwise where the array is."""
    shares = list(blocks(int(features.shape[0]), SHARE))
    if isinstance(features, np.ndarray):
        return list(in_parallel(function, shares))
    return [function(share) for share in shares]
