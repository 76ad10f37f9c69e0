"""Normaliser and moments up to the fourth order of exp(x'Bx + b'x) on the ball, by one contour integral.

As in `quadratic_ball` the ball is lifted to the sphere of ℝ^p, p = d + 2, with B and b padded by zeros, and all is
done in the eigenbasis of B. The Laplace transform of the density over spheres of all radii is a Gaussian integral,
so the sphere of radius one is an inverse Laplace transform: with λ and β the padded B and b,

    Z = Γ(p/2) (1/2πi) ∫ exp(f(s)) ds,   f(s) = s - ½ Σ log(s - λ_i) + Σ β_i² / (4(s - λ_i)),

over a path that keeps all λ_i to its left. Given s the coordinates are independent 'Gaussians' with the complex
variances v_i = 1/(2(s - λ_i)) and means μ_i = β_i v_i, so every moment is the mean of a Gaussian moment over the same
path, and fourth moments of all pairs are one matrix product over its nodes.

The path is a hyperbola through the saddle s₀ of f on the real line, bent to the left as the path of steepest descent
is there. Its asymptotes have a slope below one, so every term of f has a smaller real part on it than in s₀ (the
theory page has the proof): nothing overflows, at any scale, and next to nothing cancels. The trapezoid rule converges
exponentially.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from koloss.core.arrays import as_float, as_quadratic_form, one_of, within_floats

SLOPE = 0.8
"""Slope of the path's asymptotes; at most 1."""

TOLERANCE = 1e-13
"""Relative change of normaliser, means and second moments at which halving the step ends."""

LARGEST = 1e100
"""Beyond this a coefficient's powers leave the floating range."""


@dataclass(frozen=True, eq=False)
class QuadraticMoments:
    """Moments of the density ∝ exp(x'Bx + b'x) on the ball |x| ≤ radius."""

    log_normalizer: float  # logarithm of the mean of exp(x'Bx + b'x) over the ball
    mean: Any  # (d,)
    second: Any  # E xx', (d, d)
    axes: Any  # eigenvectors of B in its columns, (d, d)
    radius: float
    _weights: Any = field(repr=False)  # of the nodes, complex; the sum of their real parts is 1
    _variances: Any = field(repr=False)  # v, (nodes, d)
    _means: Any = field(repr=False)  # μ, (nodes, d)

    def features(
        self,
        *,
        quadratic: bool = True,
        intercept: bool = False,
        basis: Literal["standard", "eigen"] = "standard",
    ) -> Any:
        """Second moments E φφ' of the features φ(x) = (x_i², √2 x_i x_j for i < j, x, 1).

        The squares and products are among the features with `quadratic`, the constant with `intercept`. The `basis`
        "eigen" has the features of axes' x in place of those of x, which needs no rotation of the result.

        Examples
        --------
        >>> import numpy as np
        >>> moments = quadratic_moments(np.zeros((2, 2)), np.zeros(2))  # uniform on the disc
        >>> rows = moments.features(intercept=True).round(4).tolist()
        >>> rows[0]  # E x₁² times (x₁², x₂², √2 x₁x₂, x₁, x₂, 1)
        [0.125, 0.0417, 0.0, 0.0, 0.0, 0.25]
        """
        one_of("basis", basis, ("standard", "eigen"))
        moments = self._fourth(intercept) if quadratic else self._second(intercept)
        if basis == "standard":
            moments = turn_features(moments, self.axes, quadratic=quadratic)
            moments = turn_features(moments.T, self.axes, quadratic=quadratic)
        d, r = len(self.mean), self.radius
        pairs = d * (d + 1) // 2 if quadratic else 0
        scale = np.repeat([r * r, r, 1.0], [pairs, d, int(intercept)])
        moments = (moments + moments.T) / 2
        return moments * scale * scale[:, None]

    def _second(self, intercept: bool) -> Any:
        """E φφ' for φ = (y, 1), y = axes'x/radius."""
        mu, v, w = self._means, self._variances, self._weights
        d = mu.shape[1]
        moments = _product(w, np.pad(mu, ((0, 0), (0, 1)), constant_values=1.0))
        moments[np.arange(d), np.arange(d)] += (w @ v).real
        return moments if intercept else moments[:d, :d]

    def _fourth(self, intercept: bool) -> Any:
        """E φφ' for φ = (y_i², √2 y_i y_j, y, 1): given s it is uu' + Cov φ, u the mean of φ (Isserlis)."""
        mu, v, w = self._means, self._variances, self._weights
        d = mu.shape[1]
        pair, i, j, factor = pairs(d)
        n = len(i)
        cross = mu[:, i] * mu[:, j]  # μ_i μ_j
        u = np.empty((len(w), n + d + intercept), dtype=complex)
        u[:, :n] = factor * cross
        u[:, :d] += v
        u[:, n : n + d] = mu
        u[:, n + d :] = 1.0
        moments = _product(w, u)
        weighted = v * w[:, None]
        linear = (weighted.T @ mu).real  # E v_k μ_j
        third = (weighted.T @ cross).real  # E v_k μ_i μ_j
        # Two features that share the coordinate k; a square has it twice.
        for k in range(d):
            where = pair[k]
            twice = np.full(d, math.sqrt(2))
            twice[k] = 2.0
            moments[np.ix_(where, where)] += np.outer(twice, twice) * third[k][pair]
            moments[where, n + k] += twice * linear[k]
            moments[n + k, where] += twice * linear[k]
        both = (weighted.T @ v).real  # E v_i v_j
        moments[np.arange(n), np.arange(n)] += 2 * both[i, j]
        moments[n + np.arange(d), n + np.arange(d)] += (w @ v).real
        return moments


@within_floats("`matrix`, `vector` and `radius`")
def quadratic_moments(matrix: Any, vector: Any, *, radius: float = 1.0) -> QuadraticMoments:
    """Normaliser and moments of the density ∝ exp(x'Bx + b'x) on the ball |x| ≤ radius, to near machine precision.

    The matrix B is symmetric: indefinite, singular, with repeated eigenvalues, anything; the vector is b.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> moments = quadratic_moments(np.zeros((3, 3)), [0.0, 0.0, 2.0])
    >>> exact = 3 * (math.cosh(2) / 4 - math.sinh(2) / 8)  # mean of exp(2 x₃) over the ball
    >>> round(math.exp(moments.log_normalizer) / exact, 12)
    1.0
    """
    matrix, vector = as_quadratic_form(matrix, vector)
    radius = as_float("radius", radius, positive=True)
    largest = max(float(np.abs(matrix).max()) * radius**2, float(np.abs(vector).max()) * radius)
    if largest > LARGEST:
        raise ValueError(
            f"`matrix` and `vector` must have entries of at most {LARGEST:g} in units of the radius, got {largest:.6g}"
        )
    values, axes = np.linalg.eigh(matrix * radius**2)
    linear = axes.T @ (vector * radius)
    d = len(values)
    path = _Path(np.append(values, [0.0, 0.0]), np.append(linear, [0.0, 0.0]))
    log_normalizer, w, v, mu = path.integrate()
    v, mu = v[:, :d], mu[:, :d]
    second = _product(w, mu)
    second[np.arange(d), np.arange(d)] += (w @ v).real
    mean, second = radius * (axes @ (w @ mu).real), radius**2 * (axes @ second @ axes.T)
    return QuadraticMoments(log_normalizer, mean, second, axes, radius, w, v, mu)


class _Path:
    """The path s(τ) = s₀ + i b sinh τ - g (cosh τ - 1), g = SLOPE·b, and f on it."""

    def __init__(self, values: Any, linear: Any) -> None:
        top = float(values.max())
        gaps, squares = top - values, linear**2 / 4
        t = _saddle(gaps, squares)
        self.linear, self.squares = linear, squares
        self.distance = t + gaps  # s₀ - λ
        g = self.inverse = 1 / self.distance
        self.value = top + t - 0.5 * float(np.sum(np.log(self.distance))) + float(squares @ g)
        second = float(np.sum((0.5 + 2 * squares * g) * g * g))
        third = float(np.sum((1 + 6 * squares * g) * g**3))
        self.width = 1 / math.sqrt(second)
        # Steepest descent: s ≈ s₀ + iy + f'''/(6f'') y².
        self.b = SLOPE * 3 * second / third

    def displacement(self, tau: Any) -> Any:
        """s - s₀."""
        return self.b * (1j * np.sinh(tau) - 2 * SLOPE * np.sinh(tau / 2) ** 2)

    def rise(self, shift: Any) -> Any:
        """f(s) - f(s₀), without what its terms have in first order: that adds up to f'(s₀) = 0.

        Where rounding leaves f'(s₀) = c, this is f for the sphere of radius² 1 - c, so it does no harm.
        """
        z = shift[:, None] * self.inverse
        gaussian = (self.squares * self.inverse**2) / (self.distance + shift[:, None])
        return shift**2 * np.sum(gaussian, axis=1) - 0.5 * np.sum(np.log1p(z) - z, axis=1)

    def integrate(self) -> tuple[float, Any, Any, Any]:
        """Logarithm of Z, and weights, variances and means of the nodes, after halving the step until nothing moves."""
        p = len(self.linear)
        step = min(0.5 * self.width / self.b, 0.4)
        end = 12 * step
        while self.rise(self.displacement(np.array([end])))[0].real > -40:
            end *= 1.1
        before, change, rounding = None, math.inf, 4 * p * float(np.finfo(float).eps)
        while change > TOLERANCE + rounding:
            tau = step * np.arange(math.ceil(end / step) + 1)  # the other half is conjugate
            shift = self.displacement(tau)
            w = np.exp(self.rise(shift)) * self.b * (np.cosh(tau) + 1j * SLOPE * np.sinh(tau))
            w[1:] *= 2
            total = step * float(np.sum(w.real))
            w *= step / total
            v = 0.5 / (self.distance + shift[:, None])
            mu = self.linear * v
            second, mean = (w @ (v + mu * mu)).real, (w @ mu).real
            now = np.concatenate([[math.log(total)], second, mean])
            if before is not None:
                size = np.concatenate([[1.0], second, np.sqrt(second)])
                change = float(np.max(np.abs(now - before) / size))
            before, step = now, step / 2
        scale = math.lgamma(p / 2) - math.log(2 * math.pi)
        return scale + self.value + math.log(total), w, v, mu


def _saddle(gaps: Any, squares: Any) -> float:
    """t > 0 with Σ ½/(t + gaps) + squares/(t + gaps)² = 1, the distance of s₀ from the largest eigenvalue."""
    # Each term alone is at most 1 at the root. From there, Newton on the -½th power of the sum, which is nearly
    # linear in t.
    t = float(np.max(0.25 + np.sqrt(0.0625 + squares) - gaps))
    for _ in range(100):
        g = 1 / (t + gaps)
        value = float(np.sum((0.5 + squares * g) * g))
        slope = float(np.sum((0.5 + 2 * squares * g) * g * g))
        move = 2 * (value**1.5 - value) / slope
        t += move
        if abs(move) <= 1e-12 * t:
            break
    return t


def _product(w: Any, u: Any) -> Any:
    """Re Σ_k w_k u_k u_k', as real products."""
    root = np.sqrt(w)[:, None] * u
    return root.real.T @ root.real - root.imag.T @ root.imag


@lru_cache(maxsize=16)
def pairs(d: int) -> tuple[Any, Any, Any, Any]:
    """The products x_i x_j among the features: their numbers, as a (d, d) table; i, j and the factor of each."""
    above = np.triu_indices(d, k=1)
    i, j = (np.concatenate([np.arange(d), index]) for index in above)
    table = np.empty((d, d), dtype=np.intp)
    table[i, j] = table[j, i] = np.arange(len(i))
    factor = np.where(i == j, 1.0, math.sqrt(2))
    for array in (table, i, j, factor):
        array.flags.writeable = False
    return table, i, j, factor


def turn_features(rows: Any, axes: Any, *, quadratic: bool) -> Any:
    """Coefficients of features of axes'x (squares and products, x, and whatever else) as those of features of x.

    Orthogonal, so it serves for features themselves as well: φ(axes y) from φ(y).
    """
    d = len(axes)
    n = d * (d + 1) // 2 if quadratic else 0
    turned = rows.copy()
    turned[..., n : n + d] = rows[..., n : n + d] @ axes.T
    if quadratic:
        table, i, j, factor = pairs(d)
        full = axes @ (rows[..., :n] / factor)[..., table] @ axes.T
        turned[..., :n] = full[..., i, j] * factor
    return turned
