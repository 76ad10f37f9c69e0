"""Kernel principal component analysis: the paper's ProxyKernel.

Sample x₁, ..., x_p from a measure on the actions, take the top m eigenvectors ω_j of the Gram matrix, and
project on the span of v_j ∝ Σ_k ω_jk Φ(x_k). With `samples=None` the "sample" is the whole finite set with
its measure: then the empirical covariance is the true one, there is no failure probability, and the p of the
paper's theorem (often beyond 10¹³) is not needed.

Departures from the Function box. (1) Smooth kernels have Gram matrices of small numerical rank M. These
are factored first, K = FF' by pivoted Cholesky, and the eigenvectors come from the N×M factor: the same
subspace, in O(N M²) instead of O(N³), and the v_j are orthonormal to rounding, which the box's division by
‖Σ_k ω_jk Φ(x_k)‖ is not once the eigenvalue is small. (2) Otherwise the box is followed, and the v_j are made
orthonormal once more at the end, so that the proxy is an orthogonal projection and its error can be certified.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, as_count, as_distribution, namespace, roundoff, take, to_numpy
from koloss.core.linalg import solve_lower
from koloss.core.random import as_generator
from koloss.core.threads import single, threads_for
from koloss.errors import RankUnreachable
from koloss.kernels.base import KernelLike
from koloss.proxy.base import (
    MAX_BYTES,
    Columns,
    FeatureMap,
    Problem,
    Proxy,
    allowance,
    check_reached,
    in_blocks,
)
from koloss.proxy.pivoted_cholesky import greedy, projection, visible

SMOOTH_RANK = 400
"""Numerical rank up to which the factored path is tried, or a quarter more than the rank asked for."""

DENSE_LIMIT = 20_000
"""Largest Gram matrix that is formed: 3.2 GB."""


def kernel_pca(
    kernel: KernelLike,
    actions: ActionSet,
    *,
    rank: int | None = None,
    tolerance: float | None = None,
    samples: int | None = None,
    measure: Array | None = None,
    spacing: float | Points | None = None,
    max_bytes: int = MAX_BYTES,
    rng: Any = None,
) -> Proxy:
    """Proxy by the leading Mercer eigenfunctions, Function ProxyKernel of the paper.

    Parameters
    ----------
    kernel : Kernel
        Or any object with `k(X, Y)` and `k.diag(X)`.
    rank : int, optional
        Number m of features.
    tolerance : float, optional
        Take the smallest rank that certifies this error. Without rank and tolerance: the smallest rank
        that certifies 10⁻³ sup K(a, a) on the points, or the numerical rank.
    samples : int, optional
        Number p of independent draws from the measure; by default the whole finite set (or the whole net
        of a compact one) with its measure, exactly.
    measure : array of shape (len(actions),), optional
        Weights of the points; uniform by default.
    spacing : float or Points, optional
        Spacing of the net on a ball or box, or the net itself; by default the coarsest that costs a small part of the
        error, of at most 4,096 points.
    max_bytes : int
        Largest table of features: by default 4 GiB. More is refused by `NetTooLarge`, before a net is laid.
    rng : seed or Generator, optional
        For the draws.

    Raises
    ------
    RankUnreachable, ToleranceUnreachable
        With the largest rank, or the smallest error, that can be had.
    NotPositiveDefinite
        Where a `tolerance` is asked for and the kernel is seen not to be positive semidefinite: see the proxy's
        `negative_eigenvalue`, and the notes of `pivoted_cholesky`.

    Examples
    --------
    >>> import koloss as kl
    >>> points = kl.Box([0, 0], [1, 1]).net(0.05)
    >>> exact = kl.kernel_pca(kl.Gaussian(0.5), points, rank=15)
    >>> sampled = kl.kernel_pca(kl.Gaussian(0.5), points, rank=15, samples=100, rng=0)
    >>> exact.epsilon < 0.004, sampled.epsilon < 0.02
    (True, True)
    """
    problem = Problem(kernel, actions, spacing, max_bytes, rank=rank, tolerance=tolerance)
    points = sample = problem.points
    measure, source = as_measure(measure, actions, points), "the Gram matrix"
    if samples is not None:
        samples = as_count("samples", samples)
        sample, measure = draw(actions, points, measure, samples, rng), None
        source += f" of {samples} samples"
    mu, features, feature_map, negative = eigenspace(kernel, sample, measure, problem.rank)
    if sample is not points:
        features = in_blocks(feature_map, points.X)
    proxy = problem.proxy("kernel PCA", features, feature_map, mu, negative_eigenvalue=negative)
    return problem.cut(proxy, source)


class Eigenspace(NamedTuple):
    """Leading eigenvalues of E Φ(x)Φ(x)', and the coordinates of the sample in their eigenvectors."""

    eigenvalues: Array
    features: Array
    feature_map: FeatureMap
    negative: float  # eigenvalue of the Gram matrix below zero, where one was seen


def eigenspace(
    kernel: KernelLike, sample: Points, measure: Array | None, rank: int | None
) -> Eigenspace:
    """Eigenvectors of the covariance under a measure on the sample: `rank` of them, or all above rounding."""
    X, diagonal = sample.X, kernel.diag(sample.X)
    xp = namespace(X)
    weights = measure if measure is not None else xp.ones_like(diagonal) / len(sample)
    roots = xp.sqrt(weights)[:, None]
    cap = min(len(sample), max(SMOOTH_RANK, 5 * (rank or 0) // 4))
    factor = greedy(Columns(kernel, X), diagonal, most=cap)
    check_reached(None, len(factor.pivots), "the Gram matrix", factor.negative)
    if not factor.exhausted and len(factor.pivots) < len(sample):
        return dense_pca(kernel, sample, roots, rank, factor.negative)
    F = factor.rows.T
    with single:  # the products of a QR factorisation are small ones
        _, R = xp.linalg.qr(F * roots)
        _, s, Vh = xp.linalg.svd(R, full_matrices=False)
    mu = s * s
    keep = int(xp.sum(xp.astype(mu > allowance(len(factor.pivots), X) * mu[0], xp.int64)))
    keep = keep if rank is None else min(keep, rank)
    V, phi = Vh[:keep, :].T, projection(kernel, sample, factor)
    with threads_for(F.shape[0] * F.shape[1] * keep):
        features = F @ V
    return Eigenspace(mu[:keep], features, lambda Z: phi(Z) @ V, factor.negative)


def dense_pca(
    kernel: KernelLike, sample: Points, roots: Array, rank: int | None, negative: float
) -> Eigenspace:
    """The Function box itself, for Gram matrices of large numerical rank."""
    X, xp, n = sample.X, namespace(sample.X), len(sample)
    if n > DENSE_LIMIT:
        rule = f"must have at most {DENSE_LIMIT} points for kernel PCA with a kernel this rough"
        message = f"`actions` {rule}, got {n}; pass `samples`, or use pivoted_cholesky"
        raise RankUnreachable(message, rank=SMOOTH_RANK)
    gram = kernel(X)
    with single:  # an eigendecomposition reads the matrix once for each vector
        mu, omega = _top_eigenpairs(gram * roots * roots.T, rank, xp)
    if float(mu[-1]) < -visible(X) * float(mu[0]):
        # μ = v'DKDv with D² the weights, so (Dv)'K(Dv)/|Dv|² is at most μ over the largest weight.
        negative = min(negative, float(mu[-1]) / float(xp.max(roots)) ** 2)
    floor = 10 * n * roundoff(X) * mu[0]
    keep = int(xp.sum(xp.astype(mu > floor, xp.int64)))
    mu, C = mu[:keep], (omega[:, :keep] * roots) / xp.sqrt(mu[:keep])
    # v_j = Σ_k C_kj Φ(x_k) has Gram matrix C'KC = I up to rounding; make it so.
    with threads_for(n * n * keep):
        features = gram @ C
        correction = xp.linalg.cholesky(C.T @ features)
        features = solve_lower(correction, features.T, xp).T
    return Eigenspace(
        mu, features, lambda Z: solve_lower(correction, (kernel(Z, X) @ C).T, xp).T, negative
    )


def _top_eigenpairs(A: Array, rank: int | None, xp: Any) -> tuple[Array, Array]:
    """Largest eigenvalues first, with eigenvectors in columns."""
    n = A.shape[0]
    if isinstance(A, np.ndarray) and rank is not None and rank < n:
        from scipy.linalg import eigh
        from scipy.sparse.linalg import eigsh

        if n > 1000 and rank < n // 20:
            # A vector without the symmetries of the points: Lanczos never leaves those of its start.
            start = np.random.default_rng(0).standard_normal(n)
            mu, omega = eigsh(A, k=rank, which="LA", v0=start)
        else:
            mu, omega = eigh(A, subset_by_index=(n - rank, n - 1), check_finite=False)
    else:
        mu, omega = xp.linalg.eigh(A)
    return xp.flip(mu), xp.flip(omega, axis=1)


def as_measure(measure: Array | None, actions: ActionSet, points: Points) -> Array | None:
    """Checked weights of the points, where there are any."""
    if measure is None:
        return None
    if points is not actions:
        raise ValueError("`measure` must be left out for a compact set; lay the net yourself")
    return as_distribution("measure", measure, length=len(points), like=points.X)


def draw(
    actions: ActionSet, points: Points, measure: Array | None, samples: int, rng: Any
) -> Points:
    """Independent draws from the measure, or uniform ones on the actions."""
    rng = as_generator(rng)
    if measure is None:
        return Points(actions.sample(samples, rng))
    return Points(take(points.X, rng.choice(len(points), size=samples, p=to_numpy(measure))))
