"""Mercer expansions that are known in closed form, truncated (Lemma 1 of the paper).

K(x, y) = Σ_j μ_j φ_j(x) φ_j(y) with eigenfunctions orthonormal under a measure; the features are √μ_j φ_j(x) for
the m largest eigenvalues. Truncating is an orthogonal projection in the RKHS, so its error is certified like
that of any proxy. In several coordinates both expansions here are products of one-dimensional ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points
from koloss.actions.base import expanded
from koloss.core.arrays import Array, as_vector, matching, namespace, take, to_numpy, within_floats
from koloss.kernels import Gaussian, Periodic
from koloss.kernels.base import as_scale
from koloss.proxy.base import (
    DEFAULT_TOLERANCE,
    MAX_BYTES,
    Problem,
    Proxy,
    allowance,
    unreachable,
)

Floats = NDArray[np.float64]

MAX_RANK = 4096
"""Largest rank tried in search of a tolerance."""


class HermiteExpansion:
    """Gaussian kernel on the line under N(centre, scale²): Hermite functions.

    With a = 1/(4 scale²), b = 1/(2 bandwidth²), c = √(a² + 2ab) and A = a + b + c:
    μ_k = √(2a/A) (b/A)^k and φ_k(x) = (c/a)^(1/4) exp(-(c - a) x²) h_k(√(2c) x), h_k the Hermite polynomials
    normalised under exp(-x²)/√π.
    """

    def __init__(self, bandwidth: float, centre: float, scale: float) -> None:
        a, b = 1 / (4 * scale**2), 1 / (2 * bandwidth**2)
        c = math.sqrt(a * a + 2 * a * b)
        self.a, self.c, self.centre = a, c, centre
        self.decay = 2 * a * b / (c + a)  # c - a, without cancellation
        self.first, self.ratio = math.sqrt(2 * a / (a + b + c)), b / (a + b + c)

    def eigenvalues(self, count: int) -> Floats:
        """μ_0, ..., μ_{count-1}."""
        values: Floats = self.first * np.power(self.ratio, np.arange(count, dtype=float))
        return values

    def eigenfunctions(self, x: Array, count: int) -> Array:
        """φ_0(x), ..., φ_{count-1}(x) in columns, by the three-term recurrence of the normalised polynomials."""
        xp, x = namespace(x), x - self.centre
        z = math.sqrt(2 * self.c) * x
        previous = xp.zeros_like(x)
        current = (self.c / self.a) ** 0.25 * xp.exp(-self.decay * x * x)
        values = []
        for k in range(count):
            values.append(current)
            following = math.sqrt(2 / (k + 1)) * z * current - math.sqrt(k / (k + 1)) * previous
            previous, current = current, following
        return xp.stack(values, axis=1)


class FourierExpansion:
    """Periodic kernel on the circle under the uniform measure: 1, then pairs √2 cos(jθ), √2 sin(jθ).

    μ = exp(-κ) I_j(κ) with κ = lengthscale⁻² and the modified Bessel functions I_j; |φ_j| ≤ √2, so Lemma 1
    holds with ℬ² = 2.
    """

    def __init__(self, lengthscale: float, period: float) -> None:
        self.kappa, self.frequency = lengthscale**-2, 2 * math.pi / period

    def eigenvalues(self, count: int) -> Floats:
        """μ_0, ..., μ_{count-1}."""
        from scipy.special import ive

        values: Floats = ive((np.arange(count) + 1) // 2, self.kappa)
        return values

    def eigenfunctions(self, x: Array, count: int) -> Array:
        """φ_0(x), ..., φ_{count-1}(x) in columns."""
        xp, theta, root = namespace(x), self.frequency * x, math.sqrt(2)
        waves = ((xp.cos if k % 2 else xp.sin)((k + 1) // 2 * theta) for k in range(1, count))
        return xp.stack([xp.ones_like(x), *(root * wave for wave in waves)], axis=1)


@within_floats("`kernel`, `actions`, `center` and `scale`")
def mercer_features(
    kernel: Gaussian | Periodic,
    actions: ActionSet,
    *,
    rank: int | None = None,
    tolerance: float | None = None,
    center: Array | None = None,
    scale: Array | float | None = None,
    spacing: float | Points | None = None,
    max_bytes: int = MAX_BYTES,
) -> Proxy:
    """Proxy by truncating a Mercer expansion that is known in closed form; its `eigenvalues` are exact.

    Parameters
    ----------
    kernel : Gaussian or Periodic
        Gaussian under a normal measure, or periodic under the uniform measure on the circle.
    center, scale : array of shape (d,) or number, optional
        Mean and standard deviation, coordinate by coordinate, of the normal measure. By default those of
        the points.
    rank, tolerance, spacing, max_bytes
        As for `kernel_pca`.

    Raises
    ------
    RankUnreachable, ToleranceUnreachable
        With the number of eigenvalues that are not too small for the floating type, or with the smallest
        error reached by up to 4,096 features.

    Examples
    --------
    >>> import math
    >>> import koloss as kl
    >>> circle = kl.Box([0], [2 * math.pi]).net(0.05)
    >>> proxy = kl.mercer_features(kl.Periodic(1.0), circle, rank=7)
    >>> tail = 1 - sum(proxy.eigenvalues)  # Lemma 1: here the error is the tail of the eigenvalues
    >>> math.isclose(proxy.epsilon, tail, rel_tol=1e-6)
    True
    """
    problem = Problem(
        kernel, actions, spacing, max_bytes, rank=rank, tolerance=tolerance, size=rank or 1
    )
    expansions = _expansions(kernel, problem.points, center, scale)
    if problem.rank is not None:
        return problem.cut(_truncated(problem, expansions, problem.rank), "the expansion")
    tolerance, size = problem.tolerance, 16
    while True:  # twice as many features until they suffice, or cannot
        proxy = _truncated(problem, expansions, size)
        wanted = problem.wanted(proxy)
        if wanted is not None:
            return proxy.truncate(wanted)
        # What rounding and the step from the net to the whole set leave, K(a, a) being 1.
        floor = (math.sqrt(allowance(size, problem.points.X)) + problem.step) ** 2
        hopeless = tolerance is not None and floor > tolerance
        if hopeless or proxy.rank < size or size >= MAX_RANK:
            least = float(proxy.residual_curve.min())
            raise unreachable(tolerance or DEFAULT_TOLERANCE, least, problem.step)
        size *= 2


def _expansions(kernel: Any, points: Points, center: Any, scale: Any) -> list[Any]:
    d = points.dimension
    if isinstance(kernel, Periodic):
        if center is not None or scale is not None:
            raise ValueError("`center` and `scale` must be left out for a periodic kernel")
        return [FourierExpansion(kernel.lengthscale, kernel.period)] * d
    if not isinstance(kernel, Gaussian):
        rule = "must be Gaussian or Periodic to have a known expansion"
        raise TypeError(f"`kernel` {rule}, got {kernel!r}")
    X = to_numpy(points.X)
    spread = X.std(axis=0)
    center = X.mean(axis=0) if center is None else center
    bandwidths = kernel.length_scales(d)
    scale = np.where(spread > 0, spread, bandwidths) if scale is None else scale
    centers, scales = _coordinates("center", center, d), _coordinates("scale", scale, d)
    return [
        HermiteExpansion(width, float(c), as_scale("scale", s))
        for width, c, s in zip(bandwidths, centers, scales, strict=True)
    ]


def _coordinates(name: str, value: Any, d: int) -> Any:
    """One number for each coordinate; a single number stands for all."""
    value = np.full(d, value) if np.ndim(value) == 0 else value
    return to_numpy(as_vector(name, value, length=d))


def _truncated(problem: Problem, expansions: list[Any], rank: int) -> Proxy:
    X = problem.points.X
    # Below the normal numbers √μ_j φ_j(x), at most 1, would be zero times infinity.
    smallest = float(namespace(X).finfo(X.dtype).smallest_normal)
    indices, mu = _largest_products(expansions, rank, smallest)
    counts = indices.max(axis=0) + 1

    def feature_map(X: Array) -> Array:
        product = None
        for i, expansion in enumerate(expansions):
            factor = take(expansion.eigenfunctions(X[:, i], int(counts[i])), indices[:, i], axis=1)
            product = factor if product is None else product * factor
        return product * matching(np.sqrt(mu), X)

    return problem.proxy("Mercer expansion", feature_map(X), feature_map, matching(mu, X))


def _largest_products(
    expansions: list[Any], count: int, smallest: float
) -> tuple[NDArray[np.int64], Floats]:
    """Multi-indices of the largest products of one-dimensional eigenvalues, largest first.

    There are `count` of them, or fewer (but one) where the others are below `smallest`.
    """
    indices, values = np.zeros((1, 0), dtype=np.int64), np.ones(1)
    for expansion in expansions:
        size = 1024
        while size < count and expansion.eigenvalues(size)[-1] >= smallest:
            size *= 2
        mu = expansion.eigenvalues(min(size, count))
        # Both are sorted: of the new products at least i·j are as large as that of the i-th and the j-th.
        most = np.minimum(count // np.arange(1, len(values) + 1), len(mu))
        rows, place = expanded(most)
        products, indices = values[rows] * mu[place], np.column_stack([indices[rows], place])
        order = np.lexsort([*indices.T[::-1], -products])[:count]
        order = order[: max(int(np.sum(products[order] >= smallest)), 1)]
        indices, values = indices[order], products[order]
    return indices, values
