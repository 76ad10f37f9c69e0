"""Tall arrays, a share of rows at a time: temporaries stay small, and shares go to threads where the arrays are NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from koloss.core.arrays import Array, matching, namespace
from koloss.core.threads import in_parallel, single

ROWS = 4096
"""Rows handled at a time: what is computed of them stays in the cache."""

SHARE = 16 * ROWS
"""Rows that a thread takes at a time. Up to so many nothing is shared."""

REGULAR = 1e-4
"""Smallest pivot of a Cholesky factor of F'F, over the largest, with which it has enough digits left."""


def blocks(length: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover 0, ..., length - 1."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def within(share: slice, like: Array) -> Iterator[slice]:
    """The blocks of a share: of `ROWS` rows where the array is NumPy's; on a device one, which has more to do at a time."""
    size = ROWS if isinstance(like, np.ndarray) else SHARE
    for block in blocks(share.stop - share.start, size):
        yield slice(share.start + block.start, share.start + block.stop)


def each_share(function: Callable[[slice], Any], length: int, like: Array) -> list[Any]:
    """`function` of every share of so many rows; by threads where the array is NumPy's, otherwise where it is."""
    shares = list(blocks(length, SHARE))
    if isinstance(like, np.ndarray):
        return list(in_parallel(function, shares))
    return [function(share) for share in shares]


def as_float64(array: Array) -> Array:
    """The same numbers in float64; only ever asked of a block."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def triangle(rows: Callable[[slice], Array], length: int, like: Array) -> Array:
    """R, up to signs, of the QR factorisation of an array that is given by its blocks, in float64.

    By the Cholesky factor of the Gram matrix, several times faster, where that has enough digits left.
    """
    quick = cholesky(gram(rows, length, like))
    return stacked(rows, length, like) if quick is None else quick.T


def cholesky(total: Array) -> Array | None:
    """Lower Cholesky factor of a Gram matrix F'F; None where the condition number of F is too large for its square."""
    xp = namespace(total)
    try:
        with single:
            lower = xp.linalg.cholesky(total)
    except (np.linalg.LinAlgError, RuntimeError):
        return None
    pivots = xp.abs(xp.linalg.diagonal(lower))
    return lower if float(xp.min(pivots)) > REGULAR * float(xp.max(pivots)) else None


def stacked(rows: Callable[[slice], Array], length: int, like: Array) -> Array:
    """R of each share, and of their Rs on top of each other."""
    xp = namespace(like)

    def part(share: slice) -> Array:
        R: Array = None
        for block in within(share, like):
            below = as_float64(rows(block))
            R = xp.linalg.qr(below if R is None else xp.concat([R, below], axis=0))[1]
        return R

    return xp.linalg.qr(xp.concat(each_share(part, length, like), axis=0))[1]


def gram(rows: Callable[[slice], Array], length: int, like: Array) -> Array:
    """Sum of block'block in float64 over an array that is given by its blocks, in the order of the shares."""

    def part(share: slice) -> Array:
        # What overflows is for the caller to see; threads do not know how errors are treated elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            total: Array = 0.0
            for block in within(share, like):
                z = as_float64(rows(block))
                total = total + z.T @ z
            return total

    total: Array = sum(each_share(part, length, like), 0.0)
    return (total + total.T) / 2


def table(rows: Callable[[slice], Array], length: int, columns: int, like: Array) -> Array:
    """The array that is given by its blocks, in the type of `like`."""
    if not isinstance(like, np.ndarray):
        parts = [matching(rows(block), like) for block in blocks(length, SHARE)]
        return namespace(like).concat(parts, axis=0)
    whole = np.empty((length, columns), dtype=like.dtype)

    def fill(share: slice) -> None:
        for block in within(share, like):
            whole[block] = rows(block)

    each_share(fill, length, like)
    return whole
