"""Exact draws from exp(c t² + b t) on an interval, and on a box where the coordinates are independent.

On an interval that is the conditional of a quadratic log density along a line.
Rejection under piecewise exponential, uniform or normal envelopes; every case accepts with probability 0.4
or more, whatever the numbers, and no distribution function is evaluated, so that nothing can lose precision
in a tail. With t mapped to s in [0, 1], the log density is a s² + g s, and

- a ≤ 0, mode at an end: with u the distance from that end, exp(-p u - k u²), k = -a, p ≥ 0. Where k ≤ 1/2
  (zero curvature among them) the exponential exp(-p u) on [0, 1]; else Robert's tilt: the exponential of rate
  λ√(2k), λ = (α + √(α² + 4))/2, α = p/√(2k).
- a < 0, mode inside: uniform where k ≤ 2, else the normal distribution around the mode.
- a > 0: log density convex, hence below its chords. Cut at its minimum; on each piece the chord is an
  exponential that falls from the end of the interval, with at most twice the mass.

Robert (1995), Simulation of truncated normal variables, Statistics and Computing 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.core.arrays import as_count, as_vector, within_floats
from koloss.core.random import as_generator


@within_floats("`curvature`, `slope`, `lower` and `upper`")
def separable_box(
    curvature: Any, slope: Any, lower: Any, upper: Any, size: int, *, rng: Any = None
) -> Any:
    """Independent, exact draws from exp(Σ_i curvature_i x_i² + slope_i x_i) on the box lower ≤ x ≤ upper.

    All of these are arrays of shape (d,); the draws are of shape (size, d).

    Examples
    --------
    >>> x = separable_box([0.0, 0.0], [50.0, -50.0], [0.0, 0.0], [1.0, 1.0], 1000, rng=0)
    >>> x.mean(axis=0).round(2).tolist()
    [0.98, 0.02]
    """
    size, rng = as_count("size", size), as_generator(rng)
    rows = np.broadcast_arrays(*(np.atleast_1d(v) for v in (curvature, slope, lower, upper)))
    each = (np.tile(row, size) for row in rows)
    return quadratic_interval(*each, rng=rng).reshape(size, -1)


@within_floats("`curvature`, `slope`, `lower` and `upper`")
def quadratic_interval(
    curvature: Any, slope: Any, lower: Any, upper: Any, *, rng: Any = None
) -> Any:
    """Independent draws t_i from the density ∝ exp(curvature_i t² + slope_i t) on [lower_i, upper_i].

    All four are arrays of shape (n,), or numbers; the curvature may have any sign and size.

    Examples
    --------
    >>> import numpy as np
    >>> t = quadratic_interval(-1e8 * np.ones(1000), 1e8, 0.0, 1.0, rng=0)
    >>> round(float(t.mean()), 3), float(t.std()) < 1e-4
    (0.5, True)
    """
    rng = as_generator(rng)
    given = {"curvature": curvature, "slope": slope, "lower": lower, "upper": upper}
    rows = (as_vector(name, np.atleast_1d(value)) for name, value in given.items())
    c, b, lo, hi = np.broadcast_arrays(*(np.asarray(row, dtype=np.float64) for row in rows))
    if np.any(lo > hi):
        i = int(np.argmax(lo > hi))
        raise ValueError(f"`lower` must not exceed `upper`, got {lo[i]:.6g} > {hi[i]:.6g} at {i}")
    width = hi - lo
    with np.errstate(over="ignore", invalid="ignore"):
        a = c * width**2
        left, right = (b + 2 * c * lo) * width, (b + 2 * c * hi) * width  # slopes at the two ends
    if not np.all(np.isfinite(a) & np.isfinite(left) & np.isfinite(right)):
        raise ValueError("`curvature` and `slope` overflow on the interval: rescale the problem")
    # The end with the larger log density becomes 0. The difference of the two ends is their mean slope.
    flip = left + right > 0
    s = _unit(a, np.where(flip, -right, left), np.where(flip, -left, right), rng)
    t = np.where(flip, hi - s * width, lo + s * width)
    return np.clip(t, lo, hi)  # a last rounding may leave the interval


def _unit(a: Any, g: Any, h: Any, rng: np.random.Generator) -> Any:
    """Draws from exp(a s² + g s) on [0, 1], where the end 0 is no lower than the end 1; h = 2a + g."""
    s = np.zeros(len(a))
    convex, inside = a > 0, (a <= 0) & (g > 0)
    split = convex & (h > 0)  # the minimum lies between the ends
    for members, draw in (
        ((a <= 0) & ~inside & (a >= -0.5), _exponential),
        ((a < -0.5) & ~inside, _tilted),
        (inside & (a >= -2), _flat),
        (inside & (a < -2), _normal),
        (convex & ~split, _chord),
        (split, _two_chords),
    ):
        pending = np.flatnonzero(members)
        while len(pending):
            proposal, log_acceptance = draw(a[pending], g[pending], h[pending], rng)
            accepted = -rng.standard_exponential(len(pending)) <= log_acceptance
            s[pending[accepted]] = proposal[accepted]
            pending = pending[~accepted]
    return s


# Each proposes by its envelope and gives the logarithm of density over envelope, zero at most.


def _exponential(a: Any, g: Any, _: Any, rng: np.random.Generator) -> Any:
    u = _truncated_exponential(-g, rng)
    return u, a * u**2


def _tilted(a: Any, g: Any, _: Any, rng: np.random.Generator) -> Any:
    scale = np.sqrt(-2 * a)  # √(2k), one over the standard deviation
    alpha = -g / scale
    # λ - α = 2/(α + √(α² + 4)) without cancellation.
    excess = 2 / (alpha + np.hypot(alpha, 2))
    u = _truncated_exponential((alpha + excess) * scale, rng)
    return u, -((u * scale - excess) ** 2) / 2


def _flat(a: Any, g: Any, _: Any, rng: np.random.Generator) -> Any:
    u = rng.random(len(a))
    return u, a * (u + g / (2 * a)) ** 2


def _normal(a: Any, g: Any, _: Any, rng: np.random.Generator) -> Any:
    u = g / (-2 * a) + rng.standard_normal(len(a)) / np.sqrt(-2 * a)
    return u, np.where((u >= 0) & (u <= 1), 0.0, -np.inf)


def _chord(a: Any, g: Any, h: Any, rng: np.random.Generator) -> Any:
    u = _truncated_exponential(-(g + h) / 2, rng)  # a + g = (g + h)/2, the chord's slope
    return u, -a * u * (1 - u)


def _two_chords(a: Any, g: Any, h: Any, rng: np.random.Generator) -> Any:
    near, far = -g / (2 * a), h / (2 * a)  # lengths of the two pieces; they sum to one
    # log (mass of the far envelope / mass of the near one); the ends differ by (g + h)/2 ≤ 0.
    log_odds = (g + h) / 2 + _log_mass(a * far**2, far) - _log_mass(a * near**2, near)
    other = rng.standard_exponential(len(a)) >= np.logaddexp(0, -log_odds)
    length = np.where(other, far, near)
    v = length * _truncated_exponential(a * length**2, rng)  # distance from the piece's end
    return np.where(other, 1 - v, v), -a * v * (length - v)


def _log_mass(rate: Any, length: Any) -> Any:
    """Logarithm of length · ∫₀¹ exp(-rate u) du."""
    small = rate < 1e-10
    safe = np.where(small, 1.0, rate)
    with np.errstate(divide="ignore"):  # a piece of length zero has mass zero
        return np.log(length) + np.where(small, 0.0, np.log(-np.expm1(-safe) / safe))


def _truncated_exponential(rate: Any, rng: np.random.Generator) -> Any:
    """Draws from exp(-rate u) on [0, 1], rate ≥ 0, by the inverse distribution function."""
    uniform = rng.random(len(rate))
    small = rate < 1e-18  # uniform to far below a rounding
    safe = np.where(small, 1.0, rate)
    return np.where(small, uniform, np.minimum(-np.log1p(uniform * np.expm1(-safe)) / safe, 1.0))
