"""The part of a ball where every coordinate is above a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions.ball import Ball, exp
from koloss.actions.base import MAX_NET_BYTES, ActionSet, as_radius, norms, slack, steps, too_large
from koloss.actions.points import Points
from koloss.core.arrays import Array, as_count, as_float, as_int, as_points, as_vector, to_numpy
from koloss.core.random import as_generator


@dataclass(frozen=True)
class PositiveBall(ActionSet):
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
        d = as_int("dimension", self.dimension, minimum=1, maximum=10**6)
        radius = as_radius(self.radius)
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
        object.__setattr__(self, "dimension", d)
        object.__setattr__(self, "radius", radius)
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

    def norm_bound(self) -> float:
        return self.radius

    def volume(self) -> float:
        """Lebesgue measure: a closed form where `lower` is zero, else a numerical contour integral (to 1e-9)."""
        return exp(self._log_volume())

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

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        # The cells around the points lower + step · (0, 1, 2, ...) cover the set; keep the points whose cell meets
        # it, and project them on it. Projections do not lengthen distances.
        d = self.dimension
        step, reach = steps(as_float("spacing", spacing, positive=True), d)
        low, room = self._bounds
        if room == 0:
            return Points([self.lower])
        # As many cells as cover the volume, and the longest side.
        least = math.exp(min(self._log_volume() - d * math.log(step), 700)) * (1 - 1e-6)
        with np.errstate(over="ignore"):
            counts = np.floor(self._sides / step + 1.5)
        least = max(least, float(counts.max()))
        if least * d * 8 > max_bytes:
            raise too_large(spacing, self, math.ceil(least) if least < 1e15 else least, max_bytes)
        step /= self.radius
        if d > 3:  # where the volume says little of the number of cells
            least = _fewest_cells(low, room, step, counts, enough=max_bytes / (d * 8))
            if least * d * 8 > max_bytes:
                raise too_large(spacing, self, least, max_bytes)
        grid, spent = np.zeros((1, 0)), np.zeros(1)  # |nearest point of the cell|² - |low|² so far
        for i in range(d):
            axis = step * np.arange(counts[i])
            rise = _rises(low[i], step, counts[i])
            fits = np.searchsorted(rise, room * (1 + 1e-12) - spent, side="right")
            total = int(fits.sum())
            if total * d * 8 > max_bytes:
                raise too_large(spacing, self, total, max_bytes)
            rows = np.repeat(np.arange(len(grid)), fits)
            place = np.arange(total) - np.repeat(np.cumsum(fits) - fits, fits)
            grid = np.column_stack([grid[rows], low[i] + axis[place]])
            spent = spent[rows] + rise[place]
        X = self.project(self.radius * grid)
        return Points(X[_distinct(X, grid)], covering_radius=reach)


def _rises(low: float, step: float, count: float) -> NDArray[np.float64]:
    """How much the cells low + step · (0, 1, ...) of one coordinate add to |x|² at least, where they start at |low|²."""
    rise: NDArray[np.float64] = np.maximum(step * np.arange(count) - step / 2, 0.0)
    rise *= rise + 2 * low
    return rise


def _fewest_cells(
    low: NDArray[np.float64],
    room: float,
    step: float,
    counts: NDArray[np.float64],
    *,
    enough: float,
    parts: int = 1024,
) -> float:
    """Lower bound on the number of cells whose rises add up to at most the room, or some number above `enough`.

    Rises are rounded up to a multiple of room/1024; then the number of cells is a convolution of histograms.
    """
    found = np.zeros(parts + 1)
    found[0] = 1.0
    for i in range(len(low)):
        bins = np.ceil(_rises(low[i], step, counts[i]) / room * parts)
        axis = np.bincount(bins[bins <= parts].astype(np.int64), minlength=parts + 1)
        found = np.convolve(found, axis)[: parts + 1]
        if found.sum() > enough:
            break
    return float(found.sum())


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


def _distinct(X: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices without repeated projections: only grid points outside, or on the sphere, can share one."""
    from scipy.spatial import KDTree

    keep = np.ones(len(X), dtype=bool)
    shell = np.flatnonzero(np.linalg.norm(grid, axis=1) > 1 - 1e-9)
    if len(shell) > 1:
        Y = X[shell] / np.abs(X[shell]).max()
        twins = KDTree(Y).query_pairs(1e-12, output_type="ndarray")
        keep[shell[twins.max(axis=1)]] = False
    return np.flatnonzero(keep)
