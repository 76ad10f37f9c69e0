"""A finite action set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import MAX_NET_BYTES, ActionSet, slack, too_large
from koloss.core.arrays import (
    LARGEST,
    Array,
    as_count,
    as_float,
    as_points,
    as_vector,
    equal,
    frozen,
    namespace,
    take,
    to_numpy,
)
from koloss.core.random import as_generator

WRITTEN_OUT = 8
"""Points with up to so many coordinates are written out as text; of more the number is given."""


class Points(ActionSet):
    """Finite set of actions, one per row. Duplicates and collinear points are legal.

    Parameters
    ----------
    X : array of shape (N, d)
        The actions. Copied. Arrays of other libraries keep their kind and device.
    covering_radius : float
        Where the points are a net of a larger set: every element of that set is at most so far from one
        of them.
    covering_widths : sequence of d numbers, optional
        The same for each coordinate by itself: every element of that set is within a cell of these half-widths around
        one of the points.

    Examples
    --------
    >>> import koloss as kl
    >>> prices = kl.Points([[1.0], [1.5], [2.0]])
    >>> len(prices), prices.dimension, prices.diameter()
    (3, 1, 1.0)
    >>> prices.contains([[1.5], [1.6]]).tolist()
    [True, False]
    """

    def __init__(
        self,
        X: Array,
        *,
        covering_radius: float = 0.0,
        covering_widths: Sequence[float] | None = None,
    ) -> None:
        self.X = frozen(as_points("X", X, largest=LARGEST))
        self.covering_radius = as_float("covering_radius", covering_radius, minimum=0.0)
        self.covering_widths: tuple[float, ...] | None = None
        if covering_widths is not None:
            widths = as_vector("covering_widths", covering_widths, length=self.dimension)
            for width in to_numpy(widths).tolist():
                as_float("covering_widths", width, minimum=0.0)
            self.covering_widths = tuple(to_numpy(widths).tolist())

    def parts(self) -> dict[str, Any]:
        parts = super().parts()
        if self.covering_widths is None:
            del parts["covering_widths"]
        return parts

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, index: Any) -> Array:
        return self.X[index, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Points):
            return NotImplemented
        mine = self.covering_radius, self.covering_widths
        return mine == (other.covering_radius, other.covering_widths) and equal(self.X, other.X)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if len(self) * self.dimension > WRITTEN_OUT:
            return f"Points({len(self)} in dimension {self.dimension})"
        rest = f", covering_radius={self.covering_radius!r}" if self.covering_radius else ""
        rest += f", covering_widths={self.covering_widths!r}" if self.covering_widths else ""
        return f"Points({to_numpy(self.X).tolist()}{rest})"

    @property
    def dimension(self) -> int:
        return int(self.X.shape[1])

    def contains(self, X: Array) -> NDArray[np.bool_]:
        from scipy.spatial import KDTree

        X = to_numpy(as_points("X", X, dimension=self.dimension))
        distance, _ = KDTree(to_numpy(self.X)).query(X)
        inside: NDArray[np.bool_] = distance <= slack(X) * self.norm_bound()
        return inside

    def diameter(self) -> float:
        """Largest distance between two points.

        Exact, except where more than 20,000 points lie almost equally far out; then twice the largest
        distance from their mean, an upper bound.
        """
        from scipy.spatial.distance import cdist

        X = to_numpy(self.X).astype(np.float64)
        X = X - X.mean(axis=0)
        radius = np.linalg.norm(X, axis=1)
        # Two sweeps give a pair at least `best` apart; a farther pair has |x| + |y| > best.
        far = X[np.argmax(radius)]
        far = X[np.argmax(np.linalg.norm(X - far, axis=1))]
        best = float(np.linalg.norm(X - far, axis=1).max())
        rim = X[radius + radius.max() >= best * (1 - 1e-12)]
        if len(rim) > 20_000:
            return 2 * float(radius.max())
        for start in range(0, len(rim), 256):
            best = max(best, float(cdist(rim[start : start + 256], rim[start:]).max()))
        return best

    def norm_bound(self) -> float:
        xp = namespace(self.X)
        return math.sqrt(float(xp.max(xp.sum(self.X * self.X, axis=1))))

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        X = to_numpy(self.X).astype(float)
        return X.min(axis=0), X.max(axis=0)

    def sample(self, size: int, rng: Any = None) -> Array:
        size = as_count("size", size)
        return take(self.X, as_generator(rng).integers(len(self), size=size))

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        """Subset of which every point has a member within `spacing`, chosen greedily in the given order.

        The result's covering radius is the largest distance measured, plus that of the set itself.
        """
        from scipy.spatial import KDTree

        spacing = as_float("spacing", spacing, positive=True)
        X = to_numpy(self.X)
        tree, uncovered, chosen = KDTree(X), np.ones(len(self), dtype=bool), []
        for i in range(len(self)):
            if uncovered[i]:
                chosen.append(i)
                uncovered[tree.query_ball_point(X[i], spacing)] = False
                uncovered[i] = False
        if len(chosen) * self.dimension * 8 > max_bytes:
            raise too_large(spacing, self, len(chosen), max_bytes)
        radius = float(KDTree(X[chosen]).query(X)[0].max())
        return self._subset(chosen, radius + self.covering_radius)

    def _subset(self, index: list[int], covering_radius: float) -> Points:
        return Points(take(self.X, index), covering_radius=covering_radius)
