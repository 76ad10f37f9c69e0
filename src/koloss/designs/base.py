"""Exploration distributions, their certificate, and the coordinates in which they are round.

For features φ(a) ∈ ℝ^m and a distribution π on the actions, Σ(π) = E_π φφ' and the leverage of an action is
φ(a)'Σ(π)⁻¹φ(a). Its maximum is at least m for every π (Kiefer and Wolfowitz), with equality for the G-optimal
design. The learners' bounds need exactly this maximum, and nothing else of the design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.core import text
from koloss.core.arrays import (
    Array,
    as_distribution,
    as_points,
    matching,
    namespace,
    roundoff,
    take,
    to_numpy,
)
from koloss.core.linalg import (
    BLOCK,
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
from koloss.core.threads import in_parallel, single, threads_for
from koloss.errors import RankUnreachable
from koloss.proxy.base import Proxy

WORTH_SHARING = 1e8
"""Multiplications, in blocks, from which on threads share them: a few milliseconds."""


SMALLEST = 1e-300
"""Features below it have no inverse, or few digits."""


@dataclass(frozen=True, eq=False)
class Design:
    """A distribution on the actions from which to explore.

    Its largest leverage is from a fresh factorisation of Σ for these very weights, and has a relative error of
    about 10⁻¹⁶ times the condition number of the features with columns of length one.
    """

    weights: Array  # the distribution, of shape (N,)
    rank: int  # m, the dimension that the features span
    max_leverage: float  # max_a φ(a)'Σ⁻¹φ(a), at least `rank`
    method: str
    approximation: float | None = None  # of a spanner: C, the largest coefficient needed

    @property
    def support(self) -> NDArray[np.intp]:
        """Indices of the actions with positive weight."""
        return np.flatnonzero(to_numpy(self.weights))

    @property
    def gap(self) -> float:
        """τ = max_leverage / rank - 1: how far the design is from the optimum."""
        return self.max_leverage / self.rank - 1

    def __repr__(self) -> str:
        support = f"{len(self.support)} of {self.weights.shape[0]} actions"
        numbers = f"rank {self.rank}, max leverage {self.max_leverage:.6g}"
        return f"<Design by {self.method}: {support}, {numbers}>"

    def _repr_html_(self) -> str:
        facts = {
            "support": f"{len(self.support):,} of {self.weights.shape[0]:,} actions",
            "rank": f"{self.rank:,}",
            "max leverage": f"{self.max_leverage:.6g} ({1 + self.gap:.4f} times the rank)",
        }
        return text.card(f"Design: {self.method}", text.facts_table(facts))


class Whitened(NamedTuple):
    """Features in coordinates where the design's covariance is the identity."""

    features: Array  # (N, rank): `original @ transform`, but with less rounding where that is ill-conditioned
    transform: Array  # (m, rank)


def whiten(features: Array, design: Design | Array) -> Whitened:
    """Change coordinates so that Σ(π) = I; leverages become squared norms.

    There are fewer columns where the features, an (N, m) array or a Proxy, do not have full rank.
    `RankUnreachable` is raised where the actions with positive weight do not span the space that all do.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> features = np.random.default_rng(0).normal(size=(100, 3))
    >>> design = kl.john_design(features)
    >>> white, _ = kl.whiten(features, design)
    >>> bool(np.allclose(white.T @ (design.weights[:, None] * white), np.eye(3)))
    True
    """
    features = as_features(features)
    weights = design.weights if isinstance(design, Design) else design
    if features.shape[0] > SHARE:
        return _whiten_many(features, weights)
    with single:
        white, transform = orthonormal(features)
        weights = as_distribution("design", weights, length=features.shape[0], like=white)
        # Twice: the second pass removes the rounding that an ill-conditioned first one leaves.
        for _ in range(2):
            root = inverse_root(covariance(white, weights))
            white, transform = white @ root, transform @ root
    return Whitened(matching(white, features), matching(transform, features))


def _whiten_many(features: Array, weights: Array) -> Whitened:
    """The same for many actions: only what is returned has their number of rows."""
    rows = Rows(features, coordinates(features))
    weights = as_distribution("design", weights, length=rows.shape[0], like=rows.transform)
    for _ in range(2):
        root = inverse_root(rows.covariance(weights))
        rows = Rows(features, rows.transform @ root)
    return Whitened(rows.product(), matching(rows.transform, features))


def orthonormal(features: Array) -> tuple[Array, Array]:
    """Orthonormal coordinates of the space that the features span, in float64, and the transform to them.

    Columns are scaled to unit length first, so small ones count as much as large ones (designs do not depend
    on the coordinates), and directions below rounding after that are left out.
    """
    xp = namespace(features)
    features = xp.astype(features, xp.float64, copy=False)
    scales = 1 / _column_lengths(features)
    quick = _cholesky_qr(features, scales)
    if quick is not None and features.shape[0] > SHARE:
        return Rows(features, quick).product(), quick
    with single:
        if quick is not None:
            return features @ quick, quick
        Q, R = xp.linalg.qr(features * scales)
        U, s, Vh = xp.linalg.svd(R, full_matrices=False)
        limit = max(features.shape) * 2 * roundoff(features) * s[0]
        rank = int(xp.sum(xp.astype(s > limit, xp.int64)))
        return Q @ U[:, :rank], scales[:, None] * Vh[:rank, :].T / s[:rank]


def _cholesky_qr(features: Array, scales: Array) -> Array | None:
    """Transform to orthonormal columns by two Cholesky factorisations; None where they are ill-conditioned.

    Only matrix products touch the features, a block of rows at a time: several times faster than Householder's
    QR for tall ones.
    """
    xp = namespace(features)
    if float(xp.min(scales)) == 0 or features.shape[0] < features.shape[1]:
        return None
    transform = xp.eye(features.shape[1], dtype=features.dtype, device=features.device) * scales
    for _ in range(2):  # the second removes the rounding of the first
        total = sum(_over_blocks(_gram_of(features, transform), features), 0.0)
        lower = regular_cholesky(total)
        if lower is None:
            return None
        transform = transform @ _inverse_transposed(lower)
    return transform


def _gram_of(features: Array, transform: Array) -> Callable[[slice], Array]:
    def gram(block: slice) -> Array:
        rows = features[block, :] @ transform
        return rows.T @ rows

    return gram


def covariance(features: Array, weights: Array) -> Array:
    """Σ(π) = Σ_a π(a) φ(a)φ(a)', a block of rows at a time."""

    def part(block: slice) -> Array:
        phi = features[block, :]
        return (phi * weights[block, None]).T @ phi

    total: Array = sum(_over_blocks(part, features), 0.0)
    return (total + total.T) / 2


def _over_blocks(part: Callable[[slice], Array], features: Array) -> Iterator[Array]:
    """Parts of all blocks of rows, in their order: the same by one thread and by many."""
    N, m = features.shape
    parts = list(slices(N, BLOCK))
    if isinstance(features, np.ndarray) and N * m * m >= WORTH_SHARING:
        yield from in_parallel(part, parts)
    else:
        with single:
            yield from map(part, parts)


def inverse_root(sigma: Array) -> Array:
    """T with T'ΣT = I, from the Cholesky factor of Σ."""
    xp, m = namespace(sigma), int(sigma.shape[0])
    try:
        with single:
            lower = xp.linalg.cholesky(sigma)
        pivots = xp.linalg.diagonal(lower) ** 2
        regular = float(xp.min(pivots)) > 10 * m * roundoff(sigma) * float(xp.max(pivots))
    except (np.linalg.LinAlgError, RuntimeError):
        regular = False
    if not regular:
        message = f"`design` must span all {m} dimensions of the features, and does not"
        raise RankUnreachable(message, rank=m)
    return _inverse_transposed(lower)


def _inverse_transposed(lower: Array) -> Array:
    xp = namespace(lower)
    eye = xp.eye(lower.shape[0], dtype=lower.dtype, device=lower.device)
    return solve_lower(lower, eye, xp).T


def leverages(features: Array, sigma: Array) -> Array:
    """φ(a)'Σ⁻¹φ(a) of every row, from a fresh factorisation of Σ."""
    xp, root = namespace(features), inverse_root(sigma)

    def part(block: slice) -> Array:
        return row_lengths(features[block, :] @ root)

    return xp.concat(list(_over_blocks(part, features)))


def certify(
    Z: Array | Rows, weights: Array, method: str, like: Array, approximation: float | None = None
) -> Design:
    """The design of these weights, with its largest leverage computed afresh, in float64, in orthonormal coordinates Z."""
    if isinstance(Z, Rows):
        return certify_rows(Z, weights, method)[0]
    xp = namespace(Z)
    weights = matching(weights, like)  # as they are handed out, in the type of the features
    g = leverages(Z, covariance(Z, xp.astype(weights, xp.float64, copy=False)))
    return Design(weights, int(Z.shape[1]), float(xp.max(g)), method, approximation)


def certify_rows(rows: Rows, weights: Array, method: str) -> tuple[Design, NDArray[Any]]:
    """The same of many rows, with the leverages of all."""
    weights = matching(weights, rows.features)
    g = rows.lengths(inverse_root(rows.covariance(weights)))
    return Design(weights, rows.shape[1], float(g.max()), method), g


def as_features(features: Any) -> Array:
    """Checked (N, m) array of features; a proxy stands for its own."""
    return as_points("features", features.features if isinstance(features, Proxy) else features)


# Many actions: their features in other coordinates are computed a share of rows at a time, and never stored.


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
    xp, N = namespace(features), int(features.shape[0])
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
        return scales[:, None] * _inverse_transposed(lower)
    # F'F squares the condition number: the factor R of F = QR does not.
    R = stacked(lambda block: as_float64(features[block, :]) * scales, N, features)
    _, s, Vh = xp.linalg.svd(R, full_matrices=False)
    limit = max(features.shape) * 2 * roundoff(s) * s[0]
    rank = int(xp.sum(xp.astype(s > limit, xp.int64)))
    return scales[:, None] * Vh[:rank, :].T / s[:rank]


def _check_columns(largest: Array) -> None:
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
    """Lengths of the columns, also where their squares are no numbers; infinite for columns of zeros, whose scale is then zero."""
    xp = namespace(features)
    parts = slices(features.shape[0], SHARE)
    largest = xp.max(xp.stack([xp.max(xp.abs(features[p, :]), axis=0) for p in parts]), axis=0)
    largest = xp.astype(largest, xp.float64)
    _check_columns(largest)
    divisors = xp.where(largest > 0, largest, xp.ones_like(largest))
    squares = (xp.sum((as_float64(features[p, :]) / divisors) ** 2, axis=0) for p in parts)
    lengths = divisors * xp.sqrt(sum(squares, 0.0))
    return xp.where(largest > 0, lengths, xp.full_like(lengths, float("inf")))


def leverage_from_gram(gram: Array, left: Array, right: Array) -> Array:
    """φ(x)'Σ̂⁻¹φ(y) of a sample covariance, from kernel values: r A_x'(K†)²A_y.

    For r sample points x_1, ..., x_r with Σ̂ = (1/r) Σ_i φ(x_i)φ(x_i)' of full rank, K = (φ(x_i)'φ(x_j))_ij
    and A_x = (φ(x)'φ(x_1), ..., φ(x)'φ(x_r)). The paper's lemma has no factor r, which is right for neither
    K nor K/r (for the latter it is 1/r).

    Parameters
    ----------
    gram : array of shape (r, r)
        K.
    left, right : arrays of shape (p, r) and (q, r)
        Rows A_x and A_y.

    Examples
    --------
    >>> import numpy as np
    >>> sample, points = np.random.default_rng(0).normal(size=(30, 3)), np.eye(3)
    >>> direct = points @ np.linalg.inv(sample.T @ sample / 30) @ points.T
    >>> leverage = leverage_from_gram(sample @ sample.T, points @ sample.T, points @ sample.T)
    >>> bool(np.allclose(leverage, direct))
    True
    """
    gram = as_points("gram", gram)
    xp, r = namespace(gram), gram.shape[0]
    if gram.shape[1] != r:
        raise ValueError(f"`gram` must be square, got shape {tuple(gram.shape)}")
    left, right = as_points("left", left, dimension=r), as_points("right", right, dimension=r)
    rows = max(r, left.shape[0], right.shape[0])
    with single:  # the products within a decomposition are small ones
        inverse = xp.linalg.pinv(gram)
    with threads_for(rows * r * r):
        return r * (left @ inverse) @ (right @ inverse).T
