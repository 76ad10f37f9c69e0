"""The part of a ball where every coordinate is above a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.ball import Ball, Round
from koloss.actions.base import norms, slack
from koloss.core.arrays import Array, as_count, as_float, as_points, as_vector, to_numpy
from koloss.core.random import as_generator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PositiveBall(Round):
    """Positive part of a ball, {a : |a| ≤ radius and a ≥ lower ≥ 0}, coordinate by coordinate.

    The home of posynomials; one with a negative exponent needs a positive bound in that coordinate.

    Examples
    --------
    >>> import koloss as kl
    >>> quarter = kl.PositiveBall(2)
    >>> quarter.contains([[0.6, 0.8], [0.6, -0.1], [0.9, 0.9]]).tolist()
    [True, False, False]
    >>> kl.PositiveBall(2, 1.0, lower=0.25).project([[3.0, 0.0]]).round(3).tolist()
    [[0.968, 0.25]]
    """

    dimension: int
    radius: float = 1.0
    lower: Any = 0.0  # one bound for all, or one per coordinate; kept as a tuple; |lower| ≤ radius

    def __post_init__(self) -> None:
        super().__post_init__()
        d, radius = self.dimension, self.radius
        if isinstance(self.lower, (list, tuple)) or getattr(self.lower, "ndim", 0) > 0:
            lower = to_numpy(as_vector("lower", self.lower, length=d)).astype(float)
        else:
            lower = np.full(d, as_float("lower", self.lower))
        if np.any(lower < 0):
            i = int(np.argmax(lower < 0))
            raise ValueError(f"`lower` must be non-negative, got {lower[i]:.6g} at {i}")
        norm = math.hypot(*lower)
        if norm > radius * (1 + 1e-12):
            rule = f"must have a norm of at most the radius, {radius:.6g}"
            raise ValueError(f"`lower` {rule}, got {norm:.6g}: the set is empty")
        object.__setattr__(self, "lower", tuple(lower.tolist()))

    @property
    def _bounds(self) -> tuple[NDArray[np.float64], float]:
        """The lower bounds and 1 - |lower|², in units of the radius."""
        low = np.asarray(self.lower) / self.radius
        norm = float(np.linalg.norm(low))
        return low, max((1 - norm) * (1 + norm), 0.0)

    @property
    def upper(self) -> tuple[float, ...]:
        """Largest value of every coordinate."""
        return tuple((np.asarray(self.lower) + self._sides).tolist())

    @property
    def _sides(self) -> NDArray[np.float64]:
        # upper - lower without cancellation
        low, room = self._bounds
        return self.radius * (room / np.maximum(np.sqrt(low * low + room) + low, 1e-300))

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return np.asarray(self.lower), np.asarray(self.upper)

    def contains(self, X: Array) -> NDArray[np.bool_]:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        room = self.radius * slack(X)
        above: NDArray[np.bool_] = np.all(np.asarray(self.lower) - room <= X, axis=1)
        return above & (norms(X.astype(float)) <= self.radius + room)

    def diameter(self) -> float:
        # Taking min(x - lower, y - lower) off two points keeps them inside and their difference as it is. What is left has
        # disjoint supports, and is longest along the coordinate of each support with the most room.
        return float(np.linalg.norm(np.sort(self._sides)[-2:]))

    def _log_volume(self) -> float:
        d = self.dimension
        low, room = self._bounds
        if room == 0:
            return -math.inf
        # In units of √room, with z along a contour around the negative axis:
        # vol = (√π/2)^d / 2πi ∮ e^z z^(-1-d/2) Π_i erfcx(low_i √z) dz, the inverse Laplace transform of
        # ∫ exp(-z(|x|² - |low|²)) dx over x ≥ low, divided by z.
        log_units = d * (0.5 * math.log(room * math.pi) - math.log(2) + math.log(self.radius))
        if not np.any(low):
            return log_units - math.lgamma(d / 2 + 1)
        from scipy.special import erfcx

        # Parabola through the saddle point of e^z z^(-1-d/2) (Weideman and Trefethen 2007, Math. Comp. 76); the
        # lower half of it is the mirror image of the upper.
        count = 32 + 2 * d
        u = (np.arange(count) + 0.5) * (3 / count)
        z = math.pi / 12 * count * (1 + 1j * u) ** 2
        tails = np.log(erfcx(np.sqrt(z)[:, None] * (low / math.sqrt(room))[None, :]))
        logs = z - (1 + d / 2) * np.log(z) + tails.sum(axis=1)
        top = float(logs.real.max())
        slope = math.pi / 6 * count * (1 + 1j * u)  # dz/du over i
        total = float(np.sum(np.exp(logs - top) * slope).real) * 3 / count / math.pi
        return log_units + top + math.log(total)

    def project(self, X: Array) -> NDArray[np.float64]:
        """Nearest point to each row of X: max(lower, s x), with s ≤ 1 as large as the ball allows."""
        X = to_numpy(as_points("X", X, dimension=self.dimension)).astype(float)
        low, _ = self._bounds
        size = np.maximum(np.abs(X).max(axis=1, keepdims=True), self.radius)
        Y = X / size  # in these units nothing overflows
        # Coordinate i leaves its bound at s = low_i / y_i. Where the first k have left, |max(low, s y)|² is s² Σ y²
        # over these plus Σ low² over the others. It grows with s: find the last one that leaves inside the ball.
        rises = Y > 0
        with np.errstate(over="ignore"):
            leave = np.where(rises, low / np.where(rises, Y, 1.0), np.inf)
        order = np.argsort(leave, axis=1)
        leave = np.take_along_axis(leave, order, axis=1)
        squares = np.take_along_axis(np.where(rises, Y * Y, 0.0), order, axis=1)
        bounds = np.take_along_axis(np.broadcast_to(low * low, Y.shape), order, axis=1)
        free = np.cumsum(squares, axis=1)
        held = bounds.sum(axis=1, keepdims=True) - np.cumsum(bounds, axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            inside = leave**2 * free + held <= 1
        last = np.maximum(inside.sum(axis=1, keepdims=True) - 1, 0)
        free, held = np.take_along_axis(free, last, axis=1), np.take_along_axis(held, last, axis=1)
        with np.errstate(over="ignore"):  # of points far inside, which stay where they are
            s = np.sqrt(np.maximum(1 - held, 0.0) / np.where(free > 0, free, 1.0))
        s = np.minimum(s * (self.radius / size), 1.0)
        projected: NDArray[np.float64] = np.maximum(self.lower, s * X)
        return projected

    def sample(self, size: int, rng: Any = None) -> Array:
        # Exact, by rejection. With q(u) = |u|² + 2 low'u for u = x - low, in units of the radius, the set is
        # {u ≥ 0, q(u) ≤ room}. Draw u from exp(-t q(u)) on u ≥ 0, where the coordinates are independent, and
        # accept with probability exp(t (q(u) - room)) inside. Any t is valid; at the best one, where the mean of q
        # is `room`, about 1/√(πd) to 1/√(2πd) of the draws are accepted.
        rng = as_generator(rng)
        size, d = as_count("size", size), self.dimension
        low, room = self._bounds
        if not np.any(low):
            return np.abs(Ball(d, self.radius).sample(size, rng))
        if room == 0:
            return np.tile(self.lower, (size, 1))
        t = d / room
        for _ in range(20):  # mean of q, with an approximation of Mills' ratio
            a = low * math.sqrt(2 * t)
            t = float(np.sum(1 + a * (np.sqrt(a * a + 8) - a) / 4)) / (2 * room)
        scale = math.sqrt(2 * t)
        accepted: list[NDArray[np.float64]] = []
        missing = size
        while missing > 0:
            count = min(64 + int(2.5 * math.sqrt(d) * missing), max(64, 2**22 // d))
            u = _half_normals(low * scale, count, rng) / scale
            excess = t * (np.sum(u * (u + 2 * low), axis=1) - room)
            u = u[(excess <= 0) & (-rng.standard_exponential(count) < excess)]
            accepted.append(u[:missing])
            missing -= len(accepted[-1])
        return np.asarray(self.lower) + self.radius * np.concatenate(accepted)

    def _axes(self, step: float, reach: float) -> tuple[list[Floats], list[Floats], float]:
        # The points lower + step · (0, 1, 2, ...) whose cells meet the set: those whose nearest points have |x|² ≤ 1, in
        # units of the radius. What a coordinate adds to |x|² is counted from |lower|² on.
        low, room = self._bounds
        counts = np.floor(self._sides / step + 1.5)
        step /= self.radius
        axes, taken = [], []
        for bound, count in zip(low, counts, strict=True):
            rise = np.maximum(step * np.arange(count) - step / 2, 0.0)
            axes.append(self.radius * (bound + step * np.arange(count)))
            taken.append(rise * (rise + 2 * bound))
        return axes, taken, room * (1 + 1e-12)


def _half_normals(a: NDArray[Any], size: int, rng: np.random.Generator) -> NDArray[Any]:
    """Draws of v ≥ 0 with density ∝ exp(-v²/2 - a v), one column per entry of a (Robert 1995)."""
    alpha = np.tile((a + np.sqrt(a * a + 4)) / 2, size)
    v, pending = np.empty(len(alpha)), np.arange(len(alpha))
    while len(pending):
        trial = rng.standard_exponential(len(pending)) / alpha[pending]
        # exp(-v²/2 - a v) ≤ const · exp(-α v), and equal at v = α - a = 1/α
        yes = rng.random(len(pending)) < np.exp(-((trial - 1 / alpha[pending]) ** 2) / 2)
        v[pending[yes]] = trial[yes]
        pending = pending[~yes]
    return v.reshape(size, len(a))
