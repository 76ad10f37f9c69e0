"""What every action set can do."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import LARGEST, Array
from koloss.core.plain import Plain
from koloss.errors import NetTooLarge

if TYPE_CHECKING:
    from koloss.actions.points import Points

MAX_NET_BYTES = 2**30
"""Largest net that is laid without being asked twice: 1 GiB."""


class ActionSet(Plain, abc.ABC):
    """A set of points in ℝ^d where the player may move: finite (`Points`) or compact (`Ball`, `Box`, `PositiveBall`)."""

    if TYPE_CHECKING:  # a field in some subclasses, a property in others

        @property
        def dimension(self) -> int:
            """Number of coordinates of an action."""

    @abc.abstractmethod
    def contains(self, X: Array) -> NDArray[np.bool_]:
        """Whether each row of X is an action (to rounding)."""

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest value of every coordinate."""
        raise TypeError(f"{self!r} has no bounds")

    def diameter(self) -> float:
        """Largest Euclidean distance between two actions, or an upper bound: by default that of the box around them."""
        lower, upper = self.bounds()
        return float(np.linalg.norm(upper - lower))

    def norm_bound(self) -> float:
        """Largest Euclidean norm of an action, or an upper bound: by default that in the box around them."""
        return float(np.linalg.norm(np.maximum(*np.abs(self.bounds()))))

    @abc.abstractmethod
    def sample(self, size: int, rng: Any = None) -> Array:
        """Independent uniform draws, an array of shape (size, dimension); `rng` is a seed or a Generator."""

    @abc.abstractmethod
    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        """Finite subset that covers the set.

        Neighbours of the net are at most `spacing` apart along each axis, and every action is within
        `spacing` of the net: in up to three dimensions within spacing·√d/2 (see the `covering_radius` of
        the result).

        A net of more than `max_bytes` is refused by `NetTooLarge`, which has the number of points it would have, or a
        lower bound. A box takes one spacing for each coordinate, too.
        """


def slack(X: NDArray[Any]) -> float:
    """Relative distance within which a point counts as an action: a few roundings of the point's type."""
    return max(1e-12, 4 * float(np.finfo(X.dtype).eps))


def norms(X: NDArray[Any]) -> NDArray[Any]:
    """Euclidean norms of the rows, also of those whose squares are beyond the floating point numbers."""
    with np.errstate(over="ignore"):
        lengths: NDArray[Any] = np.linalg.norm(X, axis=1)
        far = ~np.isfinite(lengths)
        if far.any():
            size = np.abs(X[far]).max(axis=1)
            lengths[far] = size * np.linalg.norm(X[far] / size[:, None], axis=1)
        finite: NDArray[Any] = np.clip(lengths, 0.0, np.finfo(lengths.dtype).max)
    return finite


def too_large(spacing: Any, actions: ActionSet, points: float, max_bytes: int) -> NetTooLarge:
    """The refusal of a net of (at least) so many points."""
    message = (
        f"`spacing` of {_text(spacing)} gives a net of {points:.15g} points or more in {actions!r}, more than "
        f"{max_bytes} bytes; use a larger spacing or raise `max_bytes`"
    )
    return NetTooLarge(message, points=float(points))


def _text(spacing: Any) -> str:
    if np.ndim(spacing):
        return f"({', '.join(f'{s:.6g}' for s in spacing)})"
    return f"{spacing:.6g}"


def steps(spacing: float, dimension: int) -> tuple[float, float]:
    """Grid step that keeps both promises of a net, and half the diagonal of its cell."""
    if spacing > LARGEST:
        raise ValueError(f"`spacing` must be at most {LARGEST:g}, got {spacing:.6g}")
    step = spacing * min(1.0, 2 / np.sqrt(dimension))
    return float(step), float(step * np.sqrt(dimension) / 2)


def expanded(counts: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row i as often as counts[i] says, and which of its repetitions each is."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
