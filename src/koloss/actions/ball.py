"""The Euclidean ball around the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import MAX_NET_BYTES, ActionSet, as_radius, norms, slack, steps, too_large
from koloss.actions.points import Points
from koloss.core.arrays import Array, as_count, as_float, as_int, as_points, to_numpy
from koloss.core.random import as_generator


@dataclass(frozen=True)
class Ball(ActionSet):
    """Ball {a : |a| ≤ radius} in ℝ^dimension.

    Examples
    --------
    >>> import koloss as kl
    >>> disc = kl.Ball(2)
    >>> disc.contains([[0.6, 0.8], [0.7, 0.8]]).tolist()
    [True, False]
    >>> net = disc.net(0.1)
    >>> len(net), round(net.covering_radius, 4)
    (357, 0.0707)
    """

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        d = as_int("dimension", self.dimension, minimum=1, maximum=10**6)
        object.__setattr__(self, "dimension", d)
        object.__setattr__(self, "radius", as_radius(self.radius))

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        upper = np.full(self.dimension, self.radius)
        return -upper, upper

    def contains(self, X: Array) -> NDArray[np.bool_]:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        inside: NDArray[np.bool_] = norms(X.astype(float)) <= self.radius * (1 + slack(X))
        return inside

    def diameter(self) -> float:
        return 2 * self.radius

    def norm_bound(self) -> float:
        return self.radius

    def volume(self) -> float:
        """Lebesgue measure of the ball."""
        d = self.dimension
        return exp(_log_volume(d) + d * math.log(self.radius))

    def project(self, X: Array) -> NDArray[Any]:
        """Nearest point of the ball to each row of X."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        lengths = norms(X)[:, None]
        projected: NDArray[Any] = X * (self.radius / np.maximum(lengths, self.radius))
        return projected

    def sample(self, size: int, rng: Any = None) -> Array:
        rng = as_generator(rng)
        size = as_count("size", size)
        directions = rng.standard_normal((size, self.dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * (self.radius * rng.random((size, 1)) ** (1 / self.dimension))

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        # Grid points within one covering radius of the ball, projected on it. Projections do not lengthen
        # distances, so the covering radius stays that of the grid.
        d = self.dimension
        step, radius = steps(as_float("spacing", spacing, positive=True), d)
        # The cells of the grid points cover the ball, so there are at least volume / step^d of them.
        least = exp(_log_volume(d) + d * (math.log(self.radius) - math.log(step)))
        if least * d * 8 > max_bytes:
            raise too_large(spacing, self, math.ceil(least) if least < 1e15 else least, max_bytes)
        squared = math.floor(((self.radius + radius) / step) ** 2 * (1 + 1e-12))
        total = _integer_points(d, squared, enough=max_bytes / (d * 8))
        if total * d * 8 > max_bytes:
            raise too_large(spacing, self, total, max_bytes)
        grid, left = np.zeros((1, 0), dtype=np.int64), np.array([squared])
        for _ in range(d):  # one coordinate at a time, as far as what is left of the radius allows
            far = _integer_roots(left)
            rows = np.repeat(np.arange(len(grid)), 2 * far + 1)
            starts = np.cumsum(2 * far + 1) - (2 * far + 1)
            place = np.arange(len(rows)) - (starts + far)[rows]
            grid = np.column_stack([grid[rows], place])
            left = left[rows] - place**2
        # The shell around the ball is as thick as a step or more: two points may have one projection.
        if d > 3:
            grid = grid[_distinct_rays(grid, self.radius / step)]
        return Points(self.project(step * grid), covering_radius=radius)


def _log_volume(dimension: int) -> float:
    """Logarithm of the volume of the unit ball."""
    return dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)


def exp(x: float) -> float:
    """e^x, infinite where there is no such number."""
    return math.exp(x) if x < 709 else math.inf


def _integer_roots(squares: NDArray[np.int64]) -> NDArray[np.int64]:
    """⌊√s⌋ of whole numbers below 2⁵²; there floating point roots are right to the next whole number."""
    return np.floor(np.sqrt(squares)).astype(np.int64)


def _integer_points(dimension: int, squared: int, *, enough: float) -> float:
    """Number of integer points with |k|² ≤ squared, or some number above `enough` where there are more.

    Coordinate by coordinate: C_j(s) = Σ_k C_{j-1}(s - k²), where C_j(s) points of ℤ^j have |k|² ≤ s.
    """
    if dimension == 1:
        return float(2 * math.isqrt(squared) + 1)
    ends = np.arange(math.isqrt(squared) + 1) ** 2
    if dimension == 2:
        columns = 2 * _integer_roots(squared - ends) + 1.0
        return float(2 * columns.sum() - columns[0])
    counts = 2 * _integer_roots(np.arange(squared + 1)) + 1.0
    for _ in range(dimension - 1):
        if counts[-1] > enough:
            break
        following = counts.copy()
        for end in ends[1:]:
            following[end:] += 2 * counts[: len(counts) - end]
        counts = following
    return float(counts[-1])


def _distinct_rays(grid: NDArray[np.int64], radius: float) -> NDArray[np.intp]:
    """Indices of the integer points that are inside, and of one point of each ray among the others."""
    norms = np.sum(grid**2, axis=1)
    outside = np.nonzero((norms > 0) & (norms >= radius**2 * (1 - 1e-12)))[0]
    directions = grid[outside] // np.gcd.reduce(grid[outside], axis=1, keepdims=True)
    _, first = np.unique(directions, axis=0, return_index=True)
    keep = np.ones(len(grid), dtype=bool)
    keep[outside] = False
    keep[outside[first]] = True
    return np.nonzero(keep)[0]
