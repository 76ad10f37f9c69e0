"""The Euclidean ball around the origin, and what it shares with its positive part: above all the net."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import MAX_NET_BYTES, ActionSet, expanded, norms, slack, steps, too_large
from koloss.actions.points import Points
from koloss.core.arrays import Array, as_count, as_float, as_int, as_points, as_size, to_numpy
from koloss.core.random import as_generator

Floats = NDArray[np.float64]


class Round(ActionSet):
    """A ball, or a part of one."""

    dimension: int
    radius: float

    def __post_init__(self) -> None:
        d = as_int("dimension", self.dimension, minimum=1, maximum=10**6)
        radius = as_size("radius", self.radius, smallest=1e-150, largest=1e150)
        object.__setattr__(self, "dimension", d)
        object.__setattr__(self, "radius", radius)

    @abc.abstractmethod
    def project(self, X: Array) -> NDArray[Any]:
        """Nearest action to each row of X."""

    @abc.abstractmethod
    def _log_volume(self) -> float:
        """Logarithm of the volume."""

    @abc.abstractmethod
    def _axes(self, step: float, reach: float) -> tuple[list[Floats], list[Floats], float]:
        """The grid of a net: coordinates along each axis, what each of them takes of some room, in order, and that room."""

    def norm_bound(self) -> float:
        return self.radius

    def volume(self) -> float:
        """Lebesgue measure: a closed form; where there are lower bounds a numerical contour integral (to 1e-9)."""
        return _exp(self._log_volume())

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        # The points of a grid whose cells cover the set, projected on it. Projections do not lengthen distances.
        step, reach = steps(as_float("spacing", spacing, positive=True), self.dimension)
        lower, upper = self.bounds()
        if self.diameter() == 0:
            return Points([lower])
        most = max_bytes / (self.dimension * 8)
        # Lower bounds on the number of points, dearer ones later: of the cells that cover the longest side and the volume, by
        # histograms, and while the points are made.
        with np.errstate(over="ignore"):
            least = float(np.max((upper - lower) / step))
        volume = self._log_volume() - self.dimension * math.log(step)
        least, places = max(least, _exp(volume) * (1 - 1e-6)), None
        if least <= most:
            axes, taken, room = self._axes(step, reach)
            least = fewest(taken, room, enough=most)
        if least <= most:
            places, least = _within(taken, room, most)
        if places is None:
            raise too_large(spacing, self, math.ceil(least) if least < 1e15 else least, max_bytes)
        grid = np.column_stack([axis[k] for axis, k in zip(axes, places.T, strict=True)])
        grid = grid[np.lexsort(grid.T[::-1])]
        X = self.project(grid)
        return Points(X[_distinct(X, norms(grid) / self.radius)], covering_radius=reach)


@dataclass(frozen=True)
class Ball(Round):
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

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        upper = np.full(self.dimension, self.radius)
        return -upper, upper

    def contains(self, X: Array) -> NDArray[np.bool_]:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        inside: NDArray[np.bool_] = norms(X.astype(float)) <= self.radius * (1 + slack(X))
        return inside

    def diameter(self) -> float:
        return 2 * self.radius

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

    def _log_volume(self) -> float:
        d = self.dimension
        return d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1) + d * math.log(self.radius)

    def _axes(self, step: float, reach: float) -> tuple[list[Floats], list[Floats], float]:
        # Within one covering radius of the ball: whole numbers whose squares add up to at most this one.
        room = math.floor(((self.radius + reach) / step) ** 2 * (1 + 1e-12))
        k = np.repeat(np.arange(math.isqrt(room) + 1.0), 2)[1:]  # 0, 1, -1, 2, -2, ...
        squares = k * k
        k[2::2] *= -1
        return [step * k] * self.dimension, [squares] * self.dimension, room


def _exp(x: float) -> float:
    """e^x, infinite where there is no such number."""
    return math.exp(x) if x < 709 else math.inf


def fewest(taken: Sequence[Floats], room: float, *, enough: float, bins: int = 1024) -> float:
    """Lower bound on the number of points whose coordinates together take at most the room, or some number above `enough`.

    What is taken is rounded up to a multiple of room/1024; then the number of points is a convolution of histograms.
    """
    found = np.zeros(bins + 1)
    found[0] = 1.0
    for axis in taken:
        place = np.ceil(axis * (bins / max(room, 1e-300)))
        counts = np.bincount(place[place <= bins].astype(np.int64), minlength=bins + 1)
        found = np.convolve(found, counts)[: bins + 1]
        if found.sum() > enough:
            break
    return float(found.sum())


def _within(
    taken: Sequence[Floats], room: float, most: float
) -> tuple[NDArray[np.int64] | None, float]:
    """All points whose coordinates together take at most the room, and their number; none where it is above `most`."""
    places, spent = np.zeros((1, 0), dtype=np.int64), np.zeros(1)
    for axis in taken:
        fits = np.searchsorted(axis, room - spent, side="right")
        if (total := float(fits.sum())) > most:
            return None, total
        rows, place = expanded(fits)
        places = np.column_stack([places[rows], place])
        spent = spent[rows] + axis[place]
    return places, len(places)


def _distinct(X: Floats, lengths: Floats) -> NDArray[np.intp]:
    """Indices without repeated projections: only grid points outside, or on the sphere, can share one."""
    from scipy.spatial import KDTree

    keep = np.ones(len(X), dtype=bool)
    shell = np.flatnonzero(lengths > 1 - 1e-9)
    if len(shell) > 1:
        Y = X[shell] / np.abs(X[shell]).max()
        twins = KDTree(Y).query_pairs(1e-12, output_type="ndarray")
        keep[shell[twins.max(axis=1)]] = False
    return np.flatnonzero(keep)
