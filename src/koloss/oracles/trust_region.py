"""The global minimum of x'Bx + b'x on a ball, for every symmetric B and every b, with a proof.

The problem need not be convex, yet it has no duality gap. With h = b/2, a point of the ball |x| ≤ r is a minimum if
and only if there is a multiplier μ ≥ 0 such that

    (B + μI) x = -h,    B + μI ⪰ 0,    μ (r² - |x|²) = 0.

In the eigenbasis of B the first condition gives x(μ), and |x(μ)| = r is one equation in one unknown, solved by Newton's
method on 1/|x(μ)| = 1/r. The left side is concave and increasing in μ, so steps from the left of the root never pass it.
The unknown is t = μ + λ₁, the distance from the pole at the lowest eigenvalue, so that no digits are lost close to it. In
the hard case (h ⟂ the lowest eigenspace, and |x| < r at the pole) a step along that eigenspace, in either direction,
reaches the sphere.

*The proof.* Let M = B + μI have no eigenvalue below m, and ε = |Mx + h|. Expanding f(y) + μ(|y|² - r²) around x gives,
for every y of the ball,

    f(y) ≥ f(x) - μ (r² - |x|²) - min{ε²/m, 2ε(r + |x|) + (-m)₊(r + |x|)²}.

The first of the two counts for m > 0 only, and makes the right side the dual value at μ, or a little less; the other
survives a pole. This holds for any x of the ball and any μ ≥ 0, however they were found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, lapack
from scipy.linalg.blas import ddot, dnrm2

from koloss.core.arrays import as_float, as_quadratic_form, within_floats
from koloss.oracles.base import Minimum

UNIT = 2.0**-53
"""Unit roundoff."""

NEGLIGIBLE = 1e-280
"""More than underflow can cost, relative to the size of the problem."""


@within_floats("`matrix`, `vector` and `radius`")
def minimize_quadratic_ball(matrix: Any, vector: Any, *, radius: float = 1.0) -> Minimum:
    """Global minimum of x'Bx + b'x (no factor 1/2) on the ball |x| ≤ radius, convex or not.

    Parameters
    ----------
    matrix : array of shape (d, d)
        B, symmetric: definite, indefinite, singular, zero, anything.
    vector : array of shape (d,)
        b.
    radius : float

    Returns
    -------
    Minimum
        With `certificate` "dual". `multiplier` is μ ≥ 0, for which B + μI ⪰ 0 to rounding; it is infinite where it is
        beyond the floating range. `points` has one row, or two in the hard case: b orthogonal to the lowest
        eigenspace, the lowest eigenvalue not positive, and room on the sphere. If that eigenvalue is negative and
        simple these are all minimisers; else they are two of infinitely many.

    Raises
    ------
    ValueError
        If the minimal value is beyond the floating range.

    Notes
    -----
    The gap allows for rounding, u = 2⁻⁵³ per step: (d + 8) u |B| |x| in a product, 4 d u |B| in an eigenvalue. For a
    matrix of any size it is a small multiple of that.

    Examples
    --------
    >>> import numpy as np
    >>> best = minimize_quadratic_ball(np.diag([1.0, -2.0]), [1.0, 0.0])  # the hard case
    >>> np.round(np.abs(best.points), 6).tolist(), best.multiplier
    ([[0.166667, 0.986013], [0.166667, 0.986013]], 2.0)
    >>> round(best.value, 6), best.gap < 1e-13
    (-2.083333, True)
    """
    return by_eigenvalues(from_array(matrix, vector, radius))


@dataclass(frozen=True)
class _Problem:
    """min x'Bx + 2h'x on |x| ≤ ρ, in units that are powers of two, so that nothing overflows."""

    matrix: Any  # B
    half: Any  # h
    rho: float  # at least 1/2, less than 1
    value_unit: int  # as binary exponents
    length_unit: int

    def gap(self, x: Any, mu: float, margin: float, size: float) -> tuple[float, float]:
        """Value at x, and the gap that x and μ prove.

        `margin` is a lower bound on the eigenvalues of B + μI, `size` an upper bound on the norm of |B|.
        """
        h, rho = self.half, self.rho
        rounding = (len(h) + 8) * UNIT
        gradient = self.matrix @ x + h
        residual = gradient + mu * x
        norm, norm_h, eps = dnrm2(x), dnrm2(h), dnrm2(residual)
        most = eps + rounding * ((size + mu) * norm + norm_h)
        reach = rho + norm
        gap = 2 * most * reach + max(-margin, 0.0) * reach**2
        if margin > 0:
            gap = min(gap, most**2 / margin)
        gap += mu * (max(rho**2 - norm**2, 0.0) + rounding * rho**2)
        gap += 2 * rounding * norm * (size * norm + 2 * norm_h) + NEGLIGIBLE
        return ddot(x, gradient + h), gap

    def minimum(self, points: Any, mu: float, value: float, gap: float) -> Minimum:
        """The answer in the units of the caller."""
        try:
            value, gap = math.ldexp(value, self.value_unit), math.ldexp(gap, self.value_unit)
        except OverflowError as error:
            message = "`matrix` and `vector` must be smaller: the minimal value is beyond the floating range"
            raise ValueError(message) from error
        try:
            mu = math.ldexp(mu, self.value_unit - 2 * self.length_unit)
        except OverflowError:
            mu = math.inf
        points = np.ldexp(points, self.length_unit)
        smallest = 1e-323  # the value may have lost as much to underflow
        return Minimum(points[0], value, gap + smallest, "dual", points, multiplier=mu)


def from_array(matrix: Any, vector: Any, radius: float) -> _Problem:
    """The problem of an array, in units in which nothing overflows."""
    matrix, vector = as_quadratic_form(matrix, vector)
    rho, length = math.frexp(as_float("radius", radius, positive=True))
    largest, largest_b = (float(np.maximum.reduce(np.abs(x), axis=None)) for x in (matrix, vector))
    sizes = [math.frexp(largest)[1] + 2 * length] if largest > 0 else []
    sizes += [math.frexp(largest_b)[1] + length] if largest_b > 0 else []
    unit = max(sizes, default=0)
    B, h = np.ldexp(matrix, 2 * length - unit), np.ldexp(vector, length - unit - 1)
    return _Problem(B, h, rho, unit, length)


# The eigenvalues of B.


def by_eigenvalues(problem: _Problem) -> Minimum:
    """The minimum by a decomposition of the matrix."""
    B, h, rho = problem.matrix, problem.half, problem.rho
    values, axes, info = lapack.dsyevd(B.T)
    if info != 0:
        raise LinAlgError(f"the eigenvalues of `matrix` must converge, got status {info} of LAPACK")
    norm = max(-float(values[0]), float(values[-1]))
    rounding = 4 * len(h) * UNIT
    y, mu, t = _secular(values, h @ axes, rho, rounding * (norm * rho + dnrm2(h)))
    points = _inside(y @ axes.T, rho)
    value, gap = problem.gap(points[0], mu, t - rounding * norm, dnrm2(B.ravel()))
    return problem.minimum(points, mu, value, gap)


def _secular(values: Any, h: Any, rho: float, tie: float) -> tuple[Any, float, float]:
    """Minimisers of Σ λ_i y_i² + 2 h_i y_i on |y| ≤ ρ (λ increasing), their multiplier μ, and t = μ + λ₁.

    If the component of h in the lowest eigenspace is `tie` or less, it is taken for zero.
    """
    lowest = float(values[0])
    delta, t, skip = values - lowest, max(lowest, 0.0), 0
    if lowest <= 0:
        flat = 4 * len(h) * UNIT * max(-lowest, float(values[-1]))
        multiplicity = int(delta.searchsorted(flat, side="right"))
        if dnrm2(h[:multiplicity]) <= tie:
            skip = multiplicity
    g, delta, y = h[skip:], delta[skip:], np.zeros(len(h))
    alone = float((np.abs(g) / rho - delta).max(initial=0.0))  # one component reaches ρ by itself
    # Where the range of μ ends, |y| may be finite, and short enough.
    if t >= alone and (skip > 0 or t > 0):
        y[skip:] = -g / (delta + t)
        room = rho**2 - ddot(y, y)
        if room >= 0:
            if skip > 0:  # the hard case
                y[0] = math.sqrt(room)
            points = np.array([y, y] if skip > 0 and room > 64 * len(h) * UNIT else [y])
            points[1:, 0] *= -1
            return points, t - lowest, t
    t = _root(delta, g, rho, max(t, alone, NEGLIGIBLE))
    y[skip:] = -g / (delta + t)
    return y[None], t - lowest, t


def _root(delta: Any, h: Any, rho: float, t: float) -> float:
    """Where |h / (δ + t)| = ρ, by Newton's method on the inverse of the left side, from a smaller t."""
    for _ in range(100):  # 22 is the most ever seen
        shifted = delta + t
        y = h / shifted
        norm = dnrm2(y)
        excess = norm / rho - 1
        t += max(excess, 0.0) * norm**2 / ddot(y, y / shifted)
        if excess < 1e-8:  # squared by the step just made
            break
    return t


def _inside(points: Any, rho: float) -> Any:
    """The points; if they are on the sphere, on it to the last digit, and not outside."""
    norm = dnrm2(points[0])
    if norm < rho * (1 - 1e-13):
        return points
    points = points * (rho / norm)
    while dnrm2(points[0]) > rho:
        points *= 1 - 2 * UNIT
    return points
