"""Pivoted Cholesky: the greedy proxy, one Gram column per rank, never an N×N array.

At each step take the action with the largest residual r(a), orthogonalise its Φ(a) against the features so
far (Gram-Schmidt in the RKHS, which is one step of the Cholesky factorisation with pivoting) and append it
as the next feature. The span of the chosen Φ(a) is the subspace of the proxy. This greedy choice takes the
place of the paper's ProxyKernel where its p samples are out of reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from koloss._arrays import Array, Namespace, assign, namespace, take
from koloss.actions import ActionSet, Points
from koloss.kernels.base import KernelLike
from koloss.proxy.base import (
    DEFAULT_TOLERANCE,
    FeatureMap,
    Proxy,
    allowance,
    check_rank,
    check_reached,
    columns_of,
    discretise,
    leading_eigenvalues,
    step_beyond,
    unreachable,
)


def pivoted_cholesky(
    kernel: KernelLike,
    actions: ActionSet,
    *,
    tolerance: float | None = None,
    rank: int | None = None,
    spacing: float | Points | None = None,
) -> Proxy:
    """Greedy proxy in O(N m²) time and O(N m) memory; its `pivots` are the indices of the chosen points, in order.

    Parameters
    ----------
    kernel : Kernel
        Or any object with `k(X, Y)` and `k.diag(X)`.
    tolerance : float, optional
        Stop at the smallest rank that certifies this error.
    rank : int, optional
        Stop at this rank. Without rank and tolerance: the smallest rank that certifies 10⁻³ sup K(a, a)
        on the points, or the numerical rank.
    spacing : float or Points, optional
        Spacing of the net on a ball or box, or the net itself; by default the coarsest that costs a small part of the
        error, of at most 4,096 points.

    Raises
    ------
    RankUnreachable, ToleranceUnreachable
        With the largest rank, or the smallest error, that can be had.

    Examples
    --------
    >>> import koloss as kl
    >>> proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), kl.Box([0], [1]).net(0.01), tolerance=1e-6)
    >>> proxy.rank, proxy.epsilon <= 1e-6
    (7, True)
    """
    rank, tolerance = check_rank(rank, tolerance)
    points = discretise(kernel, actions, spacing, tolerance=tolerance)
    X, diagonal = points.X, kernel.diag(points.X)
    xp = namespace(X)
    step = step_beyond(kernel, actions, points)
    top = float(xp.max(diagonal))
    if tolerance is not None and step**2 > tolerance:
        raise unreachable(tolerance, step**2, step)

    def certified(largest: float, size: int) -> bool:
        error = largest + allowance(size, X) * top
        if tolerance is not None:
            return (math.sqrt(error) + step) ** 2 <= tolerance
        return rank is None and error <= DEFAULT_TOLERANCE * top

    factor = greedy(columns_of(kernel, X), diagonal, most=rank or len(points), enough=certified)
    size = len(factor.pivots)
    check_reached(rank, size, "the Gram matrix")
    proxy = Proxy(
        kernel,
        actions,
        points,
        features=factor.rows.T,
        feature_map=projection(kernel, points, factor),
        eigenvalues=leading_eigenvalues(factor.rows.T),
        method="pivoted Cholesky",
        pivots=np.asarray(factor.pivots),
        step=step,
    )
    if tolerance is not None and proxy.epsilon > tolerance:
        raise unreachable(tolerance, proxy.epsilon, step)
    return proxy


class Factor(NamedTuple):
    """K ≈ rows' rows, with the pivots in order; rows has shape (m, N)."""

    rows: Array
    pivots: list[int]
    exhausted: bool  # whether nothing but rounding is left


def greedy(
    column: Callable[[int], Array],
    diagonal: Array,
    *,
    most: int,
    enough: Callable[[float, int], bool] | None = None,
) -> Factor:
    """Pivoted Cholesky factorisation of a positive semidefinite matrix given by its columns.

    Ends at `most` pivots, when `enough(largest residual, size)`, or when only rounding is left.
    """
    xp, n = namespace(diagonal), diagonal.shape[0]
    most = min(most, n)
    top = float(xp.max(diagonal))
    kind = {"dtype": diagonal.dtype, "device": diagonal.device}
    rows = xp.empty((min(most, 64), n), **kind)
    residual, exhausted = diagonal + 0.0, False
    pivots: list[int] = []
    while True:
        size = len(pivots)
        pivot = int(xp.argmax(residual))
        largest = float(residual[pivot])
        exhausted = largest <= allowance(size, diagonal) * top
        if exhausted or size == most or (enough and enough(max(largest, 0.0), size)):
            break
        if size == rows.shape[0]:  # more room, twice as much
            rows = xp.concat([rows, xp.empty((min(most, 2 * size) - size, n), **kind)], axis=0)
        row = column(pivot)
        if size > 0:
            row = row - rows[:size, pivot] @ rows[:size, :]
        row = row / largest**0.5
        rows = assign(rows, (size, slice(None)), row)
        residual = assign(residual - row * row, pivot, 0.0)
        pivots.append(pivot)
    return Factor(rows[: len(pivots), :], pivots, exhausted)


def projection(kernel: KernelLike, points: Points, factor: Factor) -> FeatureMap:
    """Coordinates of PΦ(x) in the Gram-Schmidt basis of a factor's pivots: L⁻¹ K(pivots, x)."""
    anchors = take(points.X, factor.pivots)
    lower = namespace(points.X).tril(take(factor.rows, factor.pivots, axis=1).T)
    return lambda X: solve_lower(lower, kernel(anchors, X), namespace(X)).T


def solve_lower(lower: Array, right: Array, xp: Namespace) -> Array:
    """Forward substitution, by LAPACK where the arrays are NumPy's."""
    if isinstance(lower, np.ndarray):
        from scipy.linalg import solve_triangular

        return solve_triangular(lower, right, lower=True, check_finite=False)
    return xp.linalg.solve(lower, right)
