"""An axis-parallel box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import MAX_NET_BYTES, ActionSet, slack, steps, too_large
from koloss.actions.points import Points
from koloss.core.arrays import LARGEST, Array, as_count, as_float, as_points, as_vector, to_numpy
from koloss.core.random import as_generator


@dataclass(frozen=True)
class Box(ActionSet):
    """Box {a : lower ≤ a ≤ upper}, coordinate by coordinate. A side may have length zero.

    Examples
    --------
    >>> import koloss as kl
    >>> square = kl.Box([0, 0], [1, 1])
    >>> square.contains([[0.5, 1.0], [0.5, 1.1]]).tolist()
    [True, False]
    >>> len(square.net(0.1)), square
    (121, Box(lower=(0.0, 0.0), upper=(1.0, 1.0)))
    >>> kl.Box.from_bounds([[0, 1], [0, 1]]) == square
    True
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __post_init__(self) -> None:
        lower = to_numpy(as_vector("lower", self.lower, largest=LARGEST)).astype(float)
        upper = as_vector("upper", self.upper, length=len(lower), largest=LARGEST)
        upper = to_numpy(upper).astype(float)
        if len(lower) == 0:
            raise ValueError("`lower` must not be empty, got length 0")
        if np.any(lower > upper):
            i = int(np.argmax(lower > upper))
            pair = f"{lower[i]:.6g} > {upper[i]:.6g}"
            raise ValueError(f"`lower` must not exceed `upper`, got {pair} at {i}")
        object.__setattr__(self, "lower", tuple(lower.tolist()))
        object.__setattr__(self, "upper", tuple(upper.tolist()))

    @classmethod
    def from_bounds(cls, bounds: Array) -> Self:
        """Box from an array of shape (d, 2): the lowest and the highest value of every coordinate."""
        bounds = to_numpy(as_points("bounds", bounds, dimension=2))
        for i, (low, high) in enumerate(bounds.tolist()):
            if low > high:
                rule, pair = "pairs (low, high) with low <= high", f"({low:.6g}, {high:.6g})"
                raise ValueError(f"`bounds` must be {rule}, got {pair} at {i}")
        return cls(bounds[:, 0], bounds[:, 1])

    @property
    def dimension(self) -> int:
        return len(self.lower)

    @property
    def _sides(self) -> NDArray[np.float64]:
        lower, upper = self.bounds()
        return upper - lower

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.asarray(self.lower), np.asarray(self.upper)

    def contains(self, X: Array) -> NDArray[np.bool_]:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        room = slack(X) * np.maximum(np.abs(self.lower), np.abs(self.upper))
        lower, upper = self.bounds()
        inside: NDArray[np.bool_] = np.all((lower - room <= X) & (upper + room >= X), axis=1)
        return inside

    def volume(self) -> float:
        """Lebesgue measure of the box."""
        return float(np.prod(self._sides))

    def project(self, X: Array) -> NDArray[Any]:
        """Nearest point of the box to each row of X."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        projected: NDArray[Any] = np.clip(X, self.lower, self.upper)
        return projected

    def sample(self, size: int, rng: Any = None) -> Array:
        size = as_count("size", size)
        uniform = as_generator(rng).random((size, self.dimension))
        return self.project(np.asarray(self.lower) + uniform * self._sides)

    def net(self, spacing: float | Sequence[float], *, max_bytes: int = MAX_NET_BYTES) -> Points:
        """Grid that covers the box, with one spacing for all coordinates or one for each.

        With one for each, the result has `covering_widths`, half a cell of the grid: every action is within half a
        spacing of the net along each coordinate in up to four dimensions, within spacing/√d in more.
        """
        if np.ndim(spacing) == 0:
            lengths = [as_float("spacing", spacing, positive=True)] * self.dimension
        else:
            given = to_numpy(as_vector("spacing", spacing, length=self.dimension))
            lengths = [as_float("spacing", s, positive=True) for s in given.tolist()]
        # Ends far from zero are rounded, and a side that is a multiple of the step may seem a little longer.
        ends = np.maximum(np.abs(self.lower), np.abs(self.upper))
        sides = np.maximum(
            self._sides * (1 - 1e-12) - 4 * np.finfo(float).eps * ends, self._sides / 2
        )
        pairs = zip(sides.tolist(), lengths, strict=True)
        cells = [min(side / steps(s, self.dimension)[0], 1e18) for side, s in pairs]
        counts = [math.ceil(c) + 1 for c in cells]
        total = math.prod(map(float, counts))  # infinite rather than an error in high dimension
        if total * self.dimension * 8 > max_bytes:
            raise too_large(spacing, self, total, max_bytes)
        grids = zip(self.lower, self.upper, counts, strict=True)
        axes = [np.unique(np.linspace(*one)) for one in grids]  # the spacing may be below rounding
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dimension)
        widths = self._sides / np.maximum(np.asarray(counts) - 1, 1)
        halves = (widths / 2).tolist() if np.ndim(spacing) else None
        radius = float(np.linalg.norm(widths)) / 2
        return Points(grid, covering_radius=radius, covering_widths=halves)
