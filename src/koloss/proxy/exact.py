"""Exact features of finite-dimensional kernels, reduced to full rank on the actions; and their span.

The span is what a learner needs where no norm is assumed of losses. It then depends on the span of its features alone (theory
B6), so they may be replaced by any others that span the same: here by orthonormal columns, with as little rounding as the
features allow. Units of features have no say in their rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from koloss.actions import ActionSet, Points
from koloss.core.arrays import matching, namespace, roundoff, to_numpy
from koloss.core.linalg import SHARE, slices, table, triangle
from koloss.core.threads import single
from koloss.kernels.base import Kernel
from koloss.proxy.base import MAX_BYTES, Problem, Proxy, check_game, check_reached, check_table

Floats = NDArray[np.float64]

SMALLEST = 1e-9
"""What must be left of a feature of length 1 beyond the others, for it to be told apart from them: less is mostly rounding."""

ROUNDING = 1e-13
"""What may be left of one that is a combination of others."""

TILT = 1e-6
"""By how much the last feature is shortened, so that rounding does not choose among those of one length."""


def exact_features(
    kernel: Kernel,
    actions: ActionSet,
    *,
    spacing: float | Points | None = None,
    max_bytes: int = MAX_BYTES,
) -> Proxy:
    """Proxy without approximation for linear, quadratic, polynomial and posynomial kernels, and `White` on points.

    The kernel's own feature map, rotated to the principal axes of the actions under the uniform measure. On
    a finite set it is reduced to the directions that the actions span (collinear points need fewer features
    than the kernel has); on a ball or box all features are kept. Its `epsilon` is zero but for the allowance
    for rounding.

    Parameters
    ----------
    kernel : Kernel
        With a finite feature map; otherwise `NoFiniteFeatures` is raised.
    spacing, max_bytes
        As for `kernel_pca`.

    Examples
    --------
    >>> import koloss as kl
    >>> line = kl.Points([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> kl.exact_features(kl.Linear(), line).rank
    1
    >>> kl.exact_features(kl.Quadratic(), line).rank
    2
    """
    check_game(kernel, actions)
    if not isinstance(kernel, Kernel):
        raise TypeError(f"`kernel` must be a Kernel with a finite feature map, got {kernel!r}")
    size = kernel.feature_dimension(actions.dimension)
    problem = Problem(kernel, actions, spacing, max_bytes, size=size or 1)
    points = problem.points
    size, phi = kernel.finite_map(points) or (0, kernel.features)  # which refuses
    check_table("kernel", points, size, max_bytes)
    X, n, D = points.X, len(points), size
    xp, many = namespace(X), n > SHARE
    # Of many points no table is made but that of the features in the end: the map is computed twice, a block at a time.
    if many:
        Phi, R = None, triangle(lambda block: phi(X[block, :]), n, X)
    else:
        Phi = phi(X)
        with single:
            R = xp.linalg.qr(Phi)[1]
    with single:
        _, s, Vh = xp.linalg.svd(R, full_matrices=True)
    check_reached(None, int(s[0] > 0), "the features")
    # Of many points R is in float64: what is left of its accuracy, or of that of the points.
    limit = max(100 * 2**-53, 10 * roundoff(X)) * D if many else max(n, D) * 2 * roundoff(s)
    rank = int(xp.sum(xp.astype(s > limit * s[0], xp.int64)))
    eigenvalues = s[:rank] * s[:rank] / n
    # A direction that is small only because another is large is no rounding, and missing it is an error.
    cut = rank < min(n, D) and _rank_of_unit_columns(to_numpy(R)) > rank
    if points is not actions and rank < D:
        # A net says nothing of the directions that it does not span, so all are kept.
        rest = xp.zeros(D - rank, dtype=s.dtype, device=s.device)
        rank, eigenvalues = D, xp.concat([eigenvalues, rest])
    V, eigenvalues = matching(Vh[:rank, :].T, X), matching(eigenvalues, X)
    if Phi is None:
        features = table(lambda block: phi(X[block, :]) @ V, n, rank, X)
    else:
        with single:
            features = Phi @ V
    problem.step = 0.0  # exact between the points of a net too
    cut = cut and rank < D
    return problem.proxy("exact features", features, lambda X: phi(X) @ V, eigenvalues, cut=cut)


def _rank_of_unit_columns(R: NDArray[Any]) -> int:
    """Rank of an array by its triangular factor, whatever the units of its columns are."""
    lengths = np.sqrt(np.sum(R.astype(float) ** 2, axis=0))
    kept = lengths > 0
    with single:
        sizes = np.abs(np.diagonal(qr(R[:, kept] / lengths[kept], mode="r", pivoting=True)[0]))
    return int(np.sum(sizes > 1e3 * max(R.shape) * 2 * roundoff(R)))


class Span(NamedTuple):
    """Orthonormal columns that span the features, and the constant where it is one of them, in the last column."""

    columns: Floats  # (N, m)
    features: int  # that the kernel has
    lost: int  # of these, how many cannot be told apart from others; none where all such are combinations of them


def span_of(kernel: Any, X: Any, *, constant: bool) -> Span:
    """The span of the features of a kernel at the rows of X, and of a constant where there is one.

    Each feature is scaled to length 1, the constant is taken off, and a QR factorisation with pivots leaves out what is below
    1e-9 of that length. That limit does not depend on how large other features are.
    """
    N, size = len(X), kernel.feature_dimension(X.shape[1])
    Phi = np.empty((N, size), order="F")
    for rows in slices(N, SHARE):
        Phi[rows] = to_numpy(kernel.features(X[rows]))
    largest = np.abs(Phi).max(axis=0)
    Phi /= np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(np.einsum("ij,ij->j", Phi, Phi))
    Phi /= np.where(lengths > 0, lengths, 1.0)
    if constant:
        for _ in range(2):  # the second removes the rounding of the first
            Phi -= Phi.mean(axis=0)
    Phi *= 1 - TILT * np.arange(size) / size  # of features of one length earlier ones go first
    with single:
        Q, R, _ = qr(Phi, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
    left = np.abs(np.diagonal(R))
    rank = int(np.sum(left > SMALLEST))
    small = left <= SMALLEST
    lost = int(small.sum()) if np.any(left[small] > ROUNDING) else 0  # not all of them combinations
    columns = Q[:, :rank]
    if constant:
        columns = np.column_stack([columns, np.full(N, 1 / np.sqrt(N))])
    return Span(columns, size, lost)


def largest_norm(kernel: Any, net: Any, others: Any, white: Floats, *, constant: bool) -> float:
    """Largest norm, up to a constant, of what is in the span of the features and at most 1 in absolute value on a net.

    `white` are columns that span the features on the net, with E ψψ' = I under some law on it. What is θ'ψ there has |θ|² = E (θ'ψ)²
    at most 1, and is w'Φ + c with w = Aθ for Ψ = (Φ, 1)(A; a'): its norm is at most that of A. Infinite where the features vary on
    the points of `others`, which lie between those of the net, in ways that the net does not show.
    """
    both = np.concatenate([to_numpy(net), to_numpy(others)])
    if span_of(kernel, both, constant=constant).columns.shape[1] > white.shape[1]:
        return float("inf")
    Phi = to_numpy(kernel.features(net)).astype(float)
    size = Phi.shape[1]
    if constant:
        Phi = np.column_stack([Phi, np.ones(len(Phi))])
    with single:
        A = np.linalg.lstsq(Phi, white, rcond=SMALLEST)[0][:size]
        return float(np.linalg.norm(A, 2))
