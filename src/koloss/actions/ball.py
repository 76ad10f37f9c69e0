"""The Euclidean ball around the origin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss._arrays import Array, as_float, as_int, as_points, to_numpy
from koloss.actions.base import MAX_NET_BYTES, ActionSet, steps
from koloss.actions.points import Points
from koloss.errors import NetTooLarge


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
        object.__setattr__(self, "dimension", as_int("dimension", self.dimension, minimum=1))
        object.__setattr__(self, "radius", as_float("radius", self.radius, positive=True))

    def contains(self, X: Array) -> Any:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        return np.linalg.norm(X, axis=1) <= self.radius * (1 + 1e-12)

    def diameter(self) -> float:
        return 2 * self.radius

    def norm_bound(self) -> float:
        return self.radius

    def volume(self) -> float:
        """Lebesgue measure of the ball."""
        d = self.dimension
        return math.exp(
            d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1) + d * math.log(self.radius)
        )

    def project(self, X: Array) -> Any:
        """Nearest point of the ball to each row of X."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X * np.minimum(1.0, self.radius / np.maximum(norms, np.finfo(float).tiny))

    def sample(self, size: int, rng: Any = None) -> Array:
        rng = np.random.default_rng(rng)
        size = as_int("size", size, minimum=1)
        directions = rng.standard_normal((size, self.dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * (self.radius * rng.random((size, 1)) ** (1 / self.dimension))

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        # Grid points within one covering radius of the ball, projected on it. Projections do not lengthen
        # distances, so the covering radius stays that of the grid.
        step, radius = steps(as_float("spacing", spacing, positive=True), self.dimension)
        reach = self.radius + radius
        estimate = Ball(self.dimension, reach + radius).volume() / step**self.dimension
        if estimate * self.dimension * 8 > max_bytes and estimate > 2**self.dimension:
            message = (
                f"`spacing` of {spacing:.6g} gives a net of about {estimate:.3g} points in {self!r}, more than "
                f"{max_bytes} bytes; use a larger spacing or raise `max_bytes`"
            )
            raise NetTooLarge(message, points=estimate)
        count = math.floor(reach / step)
        axis = step * np.arange(-count, count + 1)
        grid = np.zeros((1, 0))
        for _ in range(
            self.dimension
        ):  # one coordinate at a time, leaving out what is too far already
            norms = np.sum(grid**2, axis=1)
            i, j = np.nonzero(norms[:, None] + axis[None, :] ** 2 <= reach**2 * (1 + 1e-12))
            if len(i) * self.dimension * 8 > max_bytes:
                message = (
                    f"`spacing` of {spacing:.6g} gives a net of more than {len(i)} points in {self!r}, more "
                    f"than {max_bytes} bytes; use a larger spacing or raise `max_bytes`"
                )
                raise NetTooLarge(message, points=float(len(i)))
            grid = np.column_stack([grid[i], axis[j]])
        # Projection makes near-duplicates at most in one dimension, where two points meet at each end.
        projected = (
            np.unique(self.project(grid), axis=0) if self.dimension == 1 else self.project(grid)
        )
        return Points(projected, covering_radius=radius)
