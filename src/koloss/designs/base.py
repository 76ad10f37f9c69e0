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
    to_numpy,
)
from koloss.core.linalg import BLOCK, SHARE, regular_cholesky, slices, solve_lower
from koloss.core.threads import in_parallel, single
from koloss.designs.rows import Rows, check_columns, coordinates, row_lengths
from koloss.errors import RankUnreachable
from koloss.proxy.base import Proxy

WORTH_SHARING = 1e8
"""Multiplications, in blocks, from which on threads share them: a few milliseconds."""


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
    parts = list(slices(features.shape[0], SHARE))
    largest = xp.max(xp.stack([xp.max(xp.abs(features[p, :]), axis=0) for p in parts]), axis=0)
    check_columns(largest)
    largest = xp.where(largest > 0, largest, xp.ones_like(largest))
    # Divided first: the squares of very large or small features are no floating point numbers.
    squares = sum((xp.sum((features[p, :] / largest) ** 2, axis=0) for p in parts), 0.0)
    lengths = largest * xp.sqrt(squares)
    scales = xp.where(lengths > 0, 1 / xp.where(lengths > 0, lengths, largest), lengths)
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
        total = _sum_over_blocks(_gram_of(features, transform), features)
        lower = regular_cholesky(total)
        if lower is None:
            return None
        eye = xp.eye(total.shape[0], dtype=total.dtype, device=total.device)
        transform = transform @ solve_lower(lower, eye, xp).T
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

    total = _sum_over_blocks(part, features)
    return (total + total.T) / 2


def _sum_over_blocks(part: Callable[[slice], Array], features: Array) -> Array:
    """The sum over blocks of rows, in their order: the same by one thread and by many."""
    total: Array = sum(_over_blocks(part, features), 0.0)
    return total


def _over_blocks(part: Callable[[slice], Array], features: Array) -> Iterator[Array]:
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
    return solve_lower(lower, xp.eye(m, dtype=sigma.dtype, device=sigma.device), xp).T


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
        return certify_rows(Z, weights, method, like)[0]
    xp = namespace(Z)
    weights = matching(weights, like)  # as they are handed out, in the type of the features
    g = leverages(Z, covariance(Z, xp.astype(weights, xp.float64, copy=False)))
    return Design(weights, int(Z.shape[1]), float(xp.max(g)), method, approximation)


def certify_rows(
    rows: Rows, weights: Array, method: str, like: Array
) -> tuple[Design, NDArray[Any]]:
    """The same of many rows, with the leverages of all."""
    weights = matching(weights, like)
    g = rows.lengths(inverse_root(rows.covariance(weights)))
    return Design(weights, rows.shape[1], float(g.max()), method), g


def as_features(features: Any) -> Array:
    """Checked (N, m) array of features; a proxy stands for its own."""
    return as_points("features", features.features if isinstance(features, Proxy) else features)
