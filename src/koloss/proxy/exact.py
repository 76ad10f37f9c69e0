"""Exact features of finite-dimensional kernels, reduced to full rank on the actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from koloss.actions import ActionSet, Points
from koloss.core.arrays import matching, namespace, roundoff, to_numpy
from koloss.core.threads import single
from koloss.kernels.base import Kernel
from koloss.proxy.base import (
    MAX_BYTES,
    Proxy,
    check_game,
    check_reached,
    check_table,
    discretise,
)
from koloss.proxy.shares import SHARE, table, triangle


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
    spacing : float or Points, optional
        Spacing of the net on a ball or box, or the net itself; by default the coarsest from which Φ is nowhere farther than
        0.8 % of its spread, of at most 4,096 points.
    max_bytes : int
        Largest table of features: by default 4 GiB. More is refused by `NetTooLarge`, before a net is laid.

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
    points = discretise(kernel, actions, spacing, features=size or 1, max_bytes=max_bytes)
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
    return Proxy(
        kernel,
        actions,
        points,
        features=features,
        feature_map=lambda X: phi(X) @ V,
        eigenvalues=eigenvalues,
        method="exact features",
        cut=cut and rank < D,
    )


def _rank_of_unit_columns(R: NDArray[Any]) -> int:
    """Rank of an array by its triangular factor, whatever the units of its columns are."""
    lengths = np.sqrt(np.sum(R.astype(float) ** 2, axis=0))
    kept = lengths > 0
    with single:
        sizes = np.abs(np.diagonal(qr(R[:, kept] / lengths[kept], mode="r", pivoting=True)[0]))
    return int(np.sum(sizes > 1e3 * max(R.shape) * 2 * roundoff(R)))
