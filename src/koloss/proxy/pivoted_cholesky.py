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

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, assign, namespace, roundoff, take, to_numpy
from koloss.core.linalg import SHARE, as_float64, each_share, solve_lower
from koloss.core.threads import single
from koloss.kernels.base import KernelLike
from koloss.proxy.base import (
    DEFAULT_TOLERANCE,
    MAX_BYTES,
    Columns,
    FeatureMap,
    Problem,
    Proxy,
    allowance,
    check_reached,
    leading_eigenvalues,
    not_certified,
    unreachable,
)

WHOLE = 512
"""Up to so many points the smallest eigenvalue is that of the whole matrix, once one below zero has been noticed."""


GLANCES = 64
"""Columns that are looked at, beside the pivots', where the pivots leave nothing of the diagonal."""


def pivoted_cholesky(
    kernel: KernelLike,
    actions: ActionSet,
    *,
    tolerance: float | None = None,
    rank: int | None = None,
    spacing: float | Points | None = None,
    max_bytes: int = MAX_BYTES,
) -> Proxy:
    """Greedy proxy in O(N m²) time and O(N m) memory; its `pivots` are the indices of the chosen points, in order.

    Parameters
    ----------
    tolerance, rank
        Where to stop, as for `kernel_pca`; so are `kernel`, `spacing` and `max_bytes`.

    Raises
    ------
    RankUnreachable, ToleranceUnreachable, NotPositiveDefinite
        As for `kernel_pca`.

    Notes
    -----
    Only the columns of the pivots are computed, so a kernel that is not positive semidefinite is noticed where it
    shows in them: where what they leave of some K(a, a) is negative by more than rounding, 10⁻⁸ of the largest. The
    `negative_eigenvalue` of the proxy says so, and its `epsilon` is infinite. At full rank every column is seen.

    Examples
    --------
    >>> import koloss as kl
    >>> proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), kl.Box([0], [1]).net(0.01), tolerance=1e-6)
    >>> proxy.rank, proxy.epsilon <= 1e-6
    (7, True)
    """
    problem = Problem(kernel, actions, spacing, max_bytes, rank=rank, tolerance=tolerance)
    points, rank, tolerance, step = problem.points, problem.rank, problem.tolerance, problem.step
    X, diagonal = points.X, kernel.diag(points.X)
    top = float(namespace(X).max(diagonal))
    if tolerance is not None and step**2 > tolerance:
        raise unreachable(tolerance, step**2, step)

    def certified(largest: float, size: int) -> bool:
        error = largest + allowance(size, X) * top
        if tolerance is not None:
            return (math.sqrt(error) + step) ** 2 <= tolerance
        return rank is None and error <= DEFAULT_TOLERANCE * top

    factor = greedy(Columns(kernel, X), diagonal, most=rank or len(points), enough=certified)
    size = len(factor.pivots)
    check_reached(rank, size, "the Gram matrix", factor.negative)
    features = factor.rows.T
    more = {"pivots": np.asarray(factor.pivots), "negative_eigenvalue": factor.negative}
    phi, mu = projection(kernel, points, factor), leading_eigenvalues(features)
    proxy = problem.proxy("pivoted Cholesky", features, phi, mu, **more)
    if tolerance is not None and not proxy.is_certified:
        raise not_certified(proxy.negative_eigenvalue)
    if tolerance is not None and proxy.epsilon > tolerance:
        raise unreachable(tolerance, proxy.epsilon, step)
    return proxy


def negative_eigenvalue(kernel: KernelLike, points: Points, columns: int = 64) -> float:
    """An eigenvalue of the kernel below zero, where so many columns of its Gram matrix show one; otherwise zero."""
    X = points.X
    return greedy(Columns(kernel, X), kernel.diag(X), most=columns).negative


class Factor(NamedTuple):
    """K ≈ rows' rows, with the pivots in order; rows has shape (m, N)."""

    rows: Array
    pivots: list[int]
    exhausted: bool  # whether nothing but rounding is left
    negative: float = (
        0.0  # eigenvalue of a part, below zero by more than rounding, where one was seen
    )


def greedy(
    column: Callable[[int], Array],
    diagonal: Array,
    *,
    most: int,
    enough: Callable[[float, int], bool] | None = None,
) -> Factor:
    """Pivoted Cholesky factorisation of a positive semidefinite matrix given by its columns.

    Ends at `most` pivots, when `enough(largest residual, size)` after one or more, or when only rounding is left. A matrix that is not
    positive semidefinite is noticed where what is left of its diagonal turns negative.
    """
    xp, n = namespace(diagonal), diagonal.shape[0]
    most = min(most, n)
    top = float(xp.max(diagonal))
    kind = {"dtype": diagonal.dtype, "device": diagonal.device}
    rows = xp.empty((min(most, 64), n), **kind)
    residual, exhausted = as_float64(diagonal) + 0.0, False
    pivots: list[int] = []
    while True:
        size = len(pivots)
        pivot = int(xp.argmax(residual))
        largest = float(residual[pivot])
        exhausted = largest <= allowance(size, diagonal) * top
        if exhausted or size == most or (size and enough and enough(max(largest, 0.0), size)):
            break
        if size == rows.shape[0]:  # more room, twice as much
            rows = xp.concat([rows, xp.empty((min(most, 2 * size) - size, n), **kind)], axis=0)
        if n > SHARE and isinstance(column, Columns) and isinstance(rows, np.ndarray):
            _append(rows, residual, column, size, pivot)
        else:
            row = column(pivot)
            if size > 0:
                with single:
                    row = row - rows[:size, pivot] @ rows[:size, :]
            row = row / largest**0.5
            rows = assign(rows, (size, slice(None)), row)
            row = as_float64(row)
            residual = assign(residual - row * row, pivot, 0.0)
        pivots.append(pivot)
    rows, left = rows[: len(pivots), :], residual
    if (
        exhausted
    ):  # then nothing is left of the other entries of a semidefinite matrix either: look at some
        others = np.setdiff1d(np.arange(n), pivots)
        for i in others[:: len(others) // GLANCES + 1].tolist():
            with single:
                row = as_float64(column(i) - rows[:, i] @ rows)
            left = xp.minimum(left, assign(-xp.abs(row), i, 0.0))
    seen = float(xp.min(left)) < -visible(diagonal) * abs(top)
    return Factor(rows, pivots, exhausted, _negative(column, left, pivots) if seen else 0.0)


def _append(rows: Array, residual: Array, column: Columns, size: int, pivot: int) -> None:
    """The next row of a factor of many columns, and what is left of the diagonal: in place, shared by threads."""
    head, root = rows[:size, pivot].copy(), float(residual[pivot]) ** 0.5

    def fill(share: slice) -> None:
        row = column(pivot, share)
        if size > 0:
            row = row - head @ rows[:size, share]
        row = row / root
        rows[size, share] = row
        row = as_float64(row)
        residual[share] -= row * row

    each_share(fill, rows.shape[1], rows)
    residual[pivot] = 0.0


def _negative(column: Callable[[int], Array], left: Array, pivots: list[int]) -> float:
    """The smallest eigenvalue of a part of the matrix that is not positive semidefinite.

    r(a) is a Schur complement: where it is negative, the rows and columns of the pivots and of a show it. The
    smallest eigenvalue of the whole is no larger than that of a part.
    """
    worst, n = np.argsort(to_numpy(left), kind="stable")[:64].tolist(), left.shape[0]
    part = list(range(n)) if n <= WHOLE else sorted({*pivots[: WHOLE - 64], *worst})
    gram = np.stack([to_numpy(column(i))[part] for i in part]).astype(np.float64)
    smallest = float(np.linalg.eigvalsh((gram + gram.T) / 2)[0])
    return smallest if smallest < 0 else float(left[worst[0]])  # a matrix that is not symmetric


def visible(like: Array) -> float:
    """How negative an eigenvalue must be, relative to the largest K(a, a), to be told from rounding: √u."""
    return math.sqrt(roundoff(like))


def projection(kernel: KernelLike, points: Points, factor: Factor) -> FeatureMap:
    """Coordinates of PΦ(x) in the Gram-Schmidt basis of a factor's pivots: L⁻¹ K(pivots, x)."""
    anchors = take(points.X, factor.pivots)
    lower = namespace(points.X).tril(take(factor.rows, factor.pivots, axis=1).T)
    return lambda X: solve_lower(lower, kernel(anchors, X), namespace(X)).T
