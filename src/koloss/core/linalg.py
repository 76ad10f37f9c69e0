"""Dense linear algebra: small matrices by direct BLAS and LAPACK calls, tall arrays a share of rows at a time.

Features may be in single precision: they are read a block of rows at a time, and all sums are in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dgemv, dsymm, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtri, dtrtrs, strtrs

from koloss.core.arrays import Array, Namespace, matching, namespace
from koloss.core.device import DeviceFeatures
from koloss.core.threads import in_parallel, single

Floats = NDArray[np.float64]

ROWS = 1024
"""Rows of a block whose products stay in the cache."""

WHOLE = 32_768
"""Up to so many rows in double precision are one block."""

BLOCK = 4096
"""Rows of a tall array handled at a time: what is computed of them stays in the cache."""

SHARE = 16 * BLOCK
"""Rows that one thread takes at a time. Up to this number nothing is shared."""

REGULAR = 1e-4
"""Smallest pivot of a Cholesky factor of F'F, over the largest, with which it has enough digits left."""


def slices(length: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover 0, ..., length - 1."""
    return [slice(k, min(k + size, length)) for k in range(0, length, size)]


def blocks(features: Any, size: int | None = None, within: slice | None = None) -> Iterator[slice]:
    """Rows to be handled at a time: all, where they are few and in double precision."""
    size = size or 2 * ROWS
    start, stop = (0, len(features)) if within is None else (within.start, within.stop)
    if stop - start <= WHOLE and features.dtype == np.float64:
        yield slice(start, stop)
        return
    yield from (slice(k, min(k + size, stop)) for k in range(start, stop, size))


def share(features: Any, function: Callable[[slice], Any]) -> list[Any]:
    """A function of parts of the rows, in order; many rows are shared by threads, and their parts are the same for any number."""
    N = len(features)
    if N <= SHARE:
        return [function(slice(0, N))]
    return list(in_parallel(function, slices(N, SHARE)))


def for_rows(features: Any, function: Callable[[Any], Any], size: int | None = None) -> Floats:
    """A number for every row, by a function of a block of rows."""
    result = np.empty(len(features))

    def fill(part: slice) -> None:
        for block in blocks(features, size, part):
            result[block] = function(features[block])

    share(features, fill)
    return result


def product(features: Any, vector: Floats) -> Any:
    """φ'vector of every row φ of the features."""
    if features.dtype == np.float64 and len(features) <= SHARE:
        return features @ vector
    return for_rows(features, lambda rows: rows.astype(np.float64, copy=False) @ vector, 8 * ROWS)


def weighted_sum(features: Any, weights: Floats) -> Any:
    """Σ weights φ over the rows φ of the features."""
    if features.dtype == np.float64:
        return weights @ features

    def of(part: slice) -> Any:
        parts = (
            weights[b] @ features[b].astype(np.float64) for b in blocks(features, 8 * ROWS, part)
        )
        return sum(parts)

    return sum(share(features, of))


def in_columns(features: Any) -> Any:
    """Features in double precision and Fortran order; those on a device stay there."""
    if isinstance(features, DeviceFeatures):
        return features
    return np.asfortranarray(features, dtype=np.float64)


def times(features: Any, vector: Floats) -> Any:
    """The same as `product`, by one call of BLAS."""
    if isinstance(features, DeviceFeatures):
        return features @ vector
    return dgemv(1.0, features, vector)


def quadratic(features: Any, lower: Floats) -> Any:
    """φ'Cφ of every row φ of the features, from the lower triangle of C."""
    if isinstance(features, DeviceFeatures):
        return features.quadratic(lower + np.tril(lower, -1).T - np.triu(lower, 1))
    half = dsymm(1.0, lower, features, side=1, lower=1)
    return np.einsum("ij,ij->i", half, features)


def transformed(features: Any, root: Floats) -> Any:
    """Features L⁻¹φ in other coordinates, where L is lower triangular."""
    if isinstance(features, DeviceFeatures):
        return features.transformed(inverse_of(np.asfortranarray(root)).T)
    white = solve_triangular(root, features.T, lower=True, check_finite=False)
    return np.asfortranarray(white.T)


def squared_lengths(features: Any) -> Floats:
    """|φ|² of every row φ of the features."""
    if isinstance(features, DeviceFeatures):
        return features.quadratic(None)
    return for_rows(features, lambda rows: np.sum(np.square(rows, dtype=np.float64), axis=1))


def cholesky(matrix: Floats) -> Floats | None:
    """Lower Cholesky factor of a symmetric matrix, of which the lower triangle is read; None where it is singular."""
    factor, failed = dpotrf(matrix, lower=1)
    return None if failed else factor


def work_space(features: Any) -> Floats:
    """What `covariance_factor` works on: room for a block of the features.

    It begins with a line of the cache: to write across lines takes half as long again.
    """
    rows, columns = min(next(blocks(features)).stop, len(features)), features.shape[1]
    raw = np.empty(rows * columns + 7)
    start = -raw.ctypes.data // 8 % 8
    return raw[start : start + rows * columns].reshape((rows, columns), order="F")


def covariance_factor(
    features: Any, weights: Floats, buffer: Floats, penalty: Floats | None = None
) -> Floats | None:
    """Cholesky factor of Σ weights φφ' over the rows φ of the features, plus a penalty; None where it is singular.

    The features are in Fortran order, and the buffer is their `work_space`, which saves an allocation.
    """

    def of(part: slice) -> Any:
        alone = len(features) <= SHARE
        return _covariance(features, weights, buffer if alone else work_space(features), part)

    sigma, *others = share(features, of)
    for other in others:
        sigma += other
    if penalty is not None:
        sigma += penalty
    factor, failed = dpotrf(sigma, lower=1, overwrite_a=1)
    return None if failed else factor


def _covariance(features: Any, weights: Floats, buffer: Floats, part: slice) -> Any:
    """Σ weights φφ' over a part of the rows, in its lower triangle."""
    sigma: Any = None
    for block in blocks(features, within=part):
        rows, roots = features[block], np.sqrt(weights[block])
        scaled = buffer if len(rows) == len(buffer) else np.empty_like(rows, dtype=np.float64)
        np.multiply(rows.T, roots, out=scaled.T)
        if sigma is None:
            sigma = dsyrk(1.0, scaled, trans=1, lower=1)
        else:
            sigma = dsyrk(1.0, scaled, trans=1, lower=1, beta=1.0, c=sigma, overwrite_c=1)
    return sigma


def mixed_factor(features: Any, weights: Floats, ridge: float) -> Any:
    """Cholesky factor of Σ weights φφ' + ridge I."""
    if isinstance(features, DeviceFeatures):
        sigma: Any = features.covariance(features.vector(weights))
    else:
        root = features * np.sqrt(weights)[:, None]
        sigma = dsyrk(1.0, root, trans=1, lower=1)
    sigma[np.diag_indices_from(sigma)] += ridge
    factor, _ = dpotrf(sigma, lower=1, overwrite_a=1)
    return factor


def inverse_of(factor: Floats) -> Floats:
    """L⁻¹ of a Cholesky factor L, lower triangular."""
    inverse, _ = dtrtri(factor, lower=1)
    lower: Floats = np.tril(inverse)
    return lower


def solve(factor: Floats, vector: Floats) -> Any:
    """Σ⁻¹ vector by the Cholesky factor of Σ."""
    solution, _ = dpotrs(factor, vector, lower=1)
    return solution


def leverages(factor: Floats, features: Any) -> Any:
    """φ'Σ⁻¹φ of every row φ of the features."""

    def of(rows: Any) -> Any:
        white = dtrsm(1.0, factor, rows.T, lower=1)
        return np.einsum("ij,ij->j", white, white)

    return for_rows(features, of)


def row_leverages(factor: Floats, features: Floats) -> Any:
    """The same for many rows in Fortran order, which need no copy the other way round: faster, and other roundings."""
    white = dtrsm(1.0, factor, features, side=1, lower=1, trans_a=1)
    return np.einsum("ij,ij->i", white, white)


def penalised_leverages(factor: Floats, features: Any, penalty: Floats) -> tuple[Any, Any]:
    """s² = φ'A⁻¹ΣA⁻¹φ and e² = φ'A⁻¹ΛA⁻¹φ of every row φ of the features, where A = Σ + Λ has this factor and Λ the diagonal `penalty`.

    With w = A⁻¹φ these are φ'w - e² and Σ_j Λ_jj w_j²: one product, by the lower triangle of A⁻¹.
    """
    inverse, _ = dpotri(factor, lower=1)
    whole, biased = np.empty(len(features)), np.empty(len(features))

    def fill(part: slice) -> None:
        for block in blocks(features, within=part):
            rows = np.asfortranarray(features[block], dtype=np.float64)
            w = dsymm(1.0, inverse, rows, side=1, lower=1)
            np.einsum("ij,ij->i", w, rows, out=whole[block])
            np.square(w, out=w)
            np.dot(w, penalty, out=biased[block])

    share(features, fill)
    return np.maximum(whole - biased, 0.0), biased


# Tall arrays of any library, given as a whole or by their blocks.


def each_share(function: Callable[[slice], Any], length: int, like: Array) -> list[Any]:
    """`function` of every share of the rows; by threads where the array is NumPy's, otherwise where it is."""
    shares = slices(length, SHARE)
    if isinstance(like, np.ndarray):
        return list(in_parallel(function, shares))
    return [function(share) for share in shares]


def blocks_of(share: slice, like: Array) -> Iterator[slice]:
    """The blocks of a share; on a device one, which has more to do at a time."""
    size = BLOCK if isinstance(like, np.ndarray) else SHARE
    for block in slices(share.stop - share.start, size):
        yield slice(share.start + block.start, share.start + block.stop)


def as_float64(array: Array) -> Array:
    """The same numbers in float64; only ever asked of a block."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def triangle(rows: Callable[[slice], Array], length: int, like: Array) -> Array:
    """R, up to signs, of the QR factorisation of an array that is given by its blocks, in float64.

    By the Cholesky factor of the Gram matrix, several times faster, where that has enough digits left.
    """
    quick = regular_cholesky(gram(rows, length, like))
    return stacked(rows, length, like) if quick is None else quick.T


def regular_cholesky(total: Array) -> Array | None:
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
        for block in blocks_of(share, like):
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
            for block in blocks_of(share, like):
                z = as_float64(rows(block))
                total = total + z.T @ z
            return total

    total: Array = sum(each_share(part, length, like), 0.0)
    return (total + total.T) / 2


def table(rows: Callable[[slice], Array], length: int, columns: int, like: Array) -> Array:
    """The array that is given by its blocks, in the type of `like`."""
    if not isinstance(like, np.ndarray):
        parts = [matching(rows(block), like) for block in slices(length, SHARE)]
        return namespace(like).concat(parts, axis=0)
    whole = np.empty((length, columns), dtype=like.dtype)

    def fill(share: slice) -> None:
        for block in blocks_of(share, like):
            whole[block] = rows(block)

    each_share(fill, length, like)
    return whole


def solve_lower(lower: Array, right: Array, xp: Namespace) -> Array:
    """Forward substitution, by LAPACK where the arrays are NumPy's; by one thread, since BLAS shares even the smallest."""
    if not isinstance(lower, np.ndarray):
        return xp.linalg.solve(lower, right)
    solve = strtrs if lower.dtype == right.dtype == np.float32 else dtrtrs
    with single:
        solution, _ = solve(lower, right, lower=1)
    return solution
