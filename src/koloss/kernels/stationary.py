"""Kernels of differences: Gaussian, Matérn, periodic and white."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from koloss.actions import ActionSet, Box, Points
from koloss.core.arrays import Array, Namespace, as_float, matching, namespace, take, to_numpy
from koloss.kernels.base import Kernel, as_scale, as_scales
from koloss.kernels.distances import squared_distances

LARGEST = 1e3
"""exp(-z) is zero for larger z, where a polynomial must stay finite."""


class Normalised(Kernel):
    """Kernels with K(x, x) = 1."""

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return xp.ones(X.shape[0], dtype=X.dtype, device=X.device)

    def _bound(self, actions: ActionSet) -> float:
        return 1.0


class Stationary(Normalised):
    """Kernels K(x, y) = k(|z|²), z_i = (x_i - y_i) / σ_i, with k(0) = 1, decreasing in the distance.

    σ is one length for all coordinates, or one for each. A single length is left to the profile.
    """

    _length: ClassVar[str]  # name of the field that holds σ

    @abc.abstractmethod
    def _profile(self, squared: Array, xp: Namespace) -> Array:
        """k of the squared distances, in units of `_unit`; NumPy's may be overwritten, which is faster."""

    @abc.abstractmethod
    def _slope(self, squared: Array, xp: Namespace) -> Array:
        """dk/ds of the squared distances s (zero where s is zero and the gradient vanishes); NumPy's may be overwritten."""

    @abc.abstractmethod
    def _drop(self, distance: float) -> float:
        """k(0) - k(distance²) without cancellation, or an upper bound."""

    @property
    def _lengths(self) -> tuple[float, ...] | None:
        """σ where there is one for each coordinate; None where it is one for all."""
        lengths = getattr(self, self._length)
        return lengths if isinstance(lengths, tuple) else None

    @property
    def _unit(self) -> float:
        """The single length; 1 where each coordinate has its own, which then are divided out before."""
        return 1.0 if self._lengths else getattr(self, self._length)

    @property
    def _shortest(self) -> float:
        return min(self._lengths or (self._unit,))

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        with np.errstate(over="ignore"):  # k is zero at distances beyond the floating point numbers
            return squared_distances(X, Y, xp, self._lengths, self._profile)

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        lengths = self._lengths
        centre = xp.mean(Y, axis=0, keepdims=True)
        X, Y = X - centre, Y - centre
        with np.errstate(over="ignore"):
            pull = 2 * weights * squared_distances(X, Y, xp, lengths, self._slope)
        gradient = xp.sum(pull, axis=1, keepdims=True) * X - pull @ Y
        if lengths is None:
            return gradient
        inverse = matching(1 / np.asarray(lengths), X)
        return (gradient * inverse) * inverse

    def _check_dimension(self, name: str, dimension: int) -> None:
        if self._lengths and len(self._lengths) != dimension:
            rule = f"one length for each of the {dimension} coordinates of `{name}`"
            raise ValueError(f"`{self._length}` must have {rule}, got {len(self._lengths)}")

    def length_scales(self, dimension: int) -> tuple[float, ...]:
        self._check_dimension("actions", dimension)
        return self._lengths or (self._unit,) * dimension

    def modulus(self, distance: float, actions: ActionSet) -> float:
        # ‖Φ(x) - Φ(y)‖² = 2 - 2K(x, y); the farthest step is along the shortest length.
        self._check_actions(actions)
        distance = as_float("distance", distance, minimum=0.0)
        if self._lengths:
            distance /= min(self._lengths)
        return math.sqrt(2 * self._drop(distance))

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        if self._lengths is None:
            return super().cell_modulus(widths, actions)
        self._check_actions(actions)
        steps = (width / length for width, length in zip(widths, self._lengths, strict=True))
        return math.sqrt(2 * self._drop(math.hypot(*steps)))

    def _feature_diameter(self, actions: ActionSet) -> float | None:
        if self._lengths is None or not isinstance(actions, Box):
            return None  # left to the modulus
        lower, upper = actions.bounds()
        return self.cell_modulus((upper - lower).tolist(), actions)


@dataclass(frozen=True)
class Gaussian(Stationary):
    """Gaussian kernel: K(x, y) = exp(-|x - y|² / (2 bandwidth²)).

    With one bandwidth for each coordinate, K(x, y) = exp(-Σ_i (x_i - y_i)² / (2 bandwidth_i²)): the kernel on
    coordinates divided by their bandwidths.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Gaussian(0.5)([[1.0, 2.0]], [[1.3, 1.6]]).round(4).tolist()  # exp(-0.5² / (2 · 0.5²))
    [[0.6065]]
    >>> kl.Gaussian([0.1, 5.0])
    Gaussian(bandwidth=(0.1, 5.0))
    """

    # σ > 0, in the units of the actions, from 1e-150 to 1e150: one, or any sequence with one per coordinate
    bandwidth: float | tuple[float, ...]

    _length = "bandwidth"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", as_scales("bandwidth", self.bandwidth))

    def _profile(self, squared: Array, xp: Namespace) -> Array:
        # In two steps: 1 / bandwidth² may be beyond float32 where 1 / bandwidth is not.
        if isinstance(squared, np.ndarray):
            squared *= 1 / self._unit
            squared *= -0.5 / self._unit
            return np.exp(squared, out=squared)
        return xp.exp((squared * (1 / self._unit)) * (-0.5 / self._unit))

    def _slope(self, squared: Array, xp: Namespace) -> Array:
        return self._profile(squared, xp) * (-0.5 / self._unit**2)

    def _drop(self, distance: float) -> float:
        ratio = distance / self._unit
        return -math.expm1(-0.5 * ratio * ratio)

    def lipschitz(self, actions: ActionSet) -> float:
        self._check_actions(actions)
        return 1 / self._shortest


@dataclass(frozen=True)
class Matern(Stationary):
    """Matérn kernel: K(x, y) = 2^(1-ν)/Γ(ν) z^ν K_ν(z) with z = √(2ν) |x - y| / lengthscale.

    K_ν is the modified Bessel function. Half-integer smoothness ν = p + 1/2 has closed forms, for example
    exp(-z) at 1/2, (1 + z) exp(-z) at 3/2 and (1 + z + z²/3) exp(-z) at 5/2; these run on any array
    library, other values of ν go through SciPy. In d dimensions the Mercer eigenvalues decay
    polynomially, like j^(-(2ν + d)/d); the limit ν → ∞ is the Gaussian kernel. With one lengthscale for each
    coordinate, |x - y| / lengthscale is the norm of the differences divided each by its own.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Matern(0.5, 0.7)([[1.0, 2.0]], [[1.3, 1.6]]).round(4).tolist()  # exp(-0.5 / 0.7)
    [[0.4895]]
    """

    smoothness: float  # ν > 0, at most 100
    # ℓ > 0, in the units of the actions, from 1e-150 to 1e150: one, or any sequence with one per coordinate
    lengthscale: float | tuple[float, ...]

    _length = "lengthscale"

    def __post_init__(self) -> None:
        nu = as_float("smoothness", self.smoothness, positive=True)
        if nu > 100:
            limit = "100 (Gaussian is the limit)"
            raise ValueError(f"`smoothness` must be at most {limit}, got {nu:.6g}")
        object.__setattr__(self, "smoothness", nu)
        object.__setattr__(self, "lengthscale", as_scales("lengthscale", self.lengthscale))

    def _profile(self, squared: Array, xp: Namespace) -> Array:
        return _shape(self.smoothness, self._scaled(squared, xp), xp)

    def _slope(self, squared: Array, xp: Namespace) -> Array:
        # d/dz z^ν K_ν(z) = -z^ν K_{ν-1}(z), so dk/ds = -ν/(2ℓ²(ν-1)) shape_{ν-1}(z) for ν > 1.
        nu = self.smoothness
        if nu <= 0.5 and bool(xp.any(squared == 0)):
            raise ValueError(f"{self!r} has no gradient where the two points coincide")
        z = self._scaled(squared, xp)
        if nu > 1:
            return _shape(nu - 1, z, xp) * (-nu / (2 * (nu - 1) * self._unit**2))
        safe = xp.where(z > 0, z, xp.ones_like(z))
        if nu == 0.5:
            return -xp.exp(-safe) / (2 * safe * self._unit**2)
        steep = _bessel(nu, nu - 1, safe) * (-nu / self._unit**2)
        return xp.where(z > 0, steep, xp.zeros_like(z))

    def _scaled(self, squared: Array, xp: Namespace) -> Array:
        factor = math.sqrt(2 * self.smoothness) / self._unit
        if isinstance(squared, np.ndarray):
            z = np.sqrt(squared, out=squared)
            z *= factor
            return z
        return xp.sqrt(squared) * factor

    def _drop(self, distance: float) -> float:
        # The kernel is a mixture of Gaussians, k = E exp(-t/G) with t = z²/4 and G ~ Gamma(ν), and
        # E G⁻ʲ = 1/((ν-1)⋯(ν-j)). Odd truncations of the exponential series are upper bounds of 1 - k; so
        # is the difference itself, with room for its rounding.
        nu, z = self.smoothness, math.sqrt(2 * self.smoothness) * distance / self._unit
        if nu == 0.5:
            return -math.expm1(-z)
        if z == 0:
            return 0.0
        t, room = z * z / 4, 1e-15 * (10 + 5 * nu)
        bounds = [1.0, 1 - float(_shape(nu, np.asarray([z]), np)[0]) + room]
        if nu > 1:
            bounds.append(t / (nu - 1))
        if nu > 3 and t < 1:
            bounds.append(t / (nu - 1) * (1 - t / (2 * (nu - 2)) * (1 - t / (3 * (nu - 3)))))
        return min(bounds)

    def lipschitz(self, actions: ActionSet) -> float:
        self._check_actions(actions)
        nu = self.smoothness
        return math.sqrt(nu / (nu - 1)) / self._shortest if nu > 1 else math.inf


@dataclass(frozen=True)
class Periodic(Normalised):
    """Periodic kernel: K(x, y) = exp(-2 Σ_i sin²(π (x_i - y_i) / period) / lengthscale²).

    On the circle (one coordinate) its Mercer expansion under the uniform measure is a Fourier series with
    coefficients exp(-κ) I_j(κ), κ = lengthscale⁻², and its eigenfunctions are bounded by √2, as Lemma 1 of
    the paper asks. See `mercer_features`.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Periodic(0.5, period=2.0)([[0.1]], [[0.4], [2.4]]).round(4).tolist()
    [[0.1923, 0.1923]]
    """

    lengthscale: float  # ℓ > 0, relative to the period; from 1e-150 to 1e150
    period: float = 2 * math.pi  # of every coordinate; from 1e-150 to 1e150

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", as_scale("lengthscale", self.lengthscale))
        object.__setattr__(self, "period", as_scale("period", self.period))

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        total: Array = 0.0
        for i in range(X.shape[1]):
            sine = xp.sin((X[:, i, None] - Y[None, :, i]) * (math.pi / self.period))
            total = total + sine * sine
        return xp.exp((total * (1 / self.lengthscale)) * (-2 / self.lengthscale))

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        weighted = weights * self._gram(X, Y, xp)
        angle = 2 * math.pi / self.period
        columns = [
            xp.sum(weighted * xp.sin((X[:, i, None] - Y[None, :, i]) * angle), axis=1)
            for i in range(X.shape[1])
        ]
        return xp.stack(columns, axis=1) * (-angle / self.lengthscale**2)

    def lipschitz(self, actions: ActionSet) -> float:
        return 2 * math.pi / (self.period * self.lengthscale)

    def modulus(self, distance: float, actions: ActionSet) -> float:
        # Σ sin²(π δ_i / period) ≤ (π |δ| / period)²
        angle = math.pi * as_float("distance", distance, minimum=0.0) / self.period
        ratio = angle / self.lengthscale
        return math.sqrt(-2 * math.expm1(-2 * ratio * ratio))


@dataclass(frozen=True)
class White(Normalised):
    """White kernel: K(x, y) = 1 where x and y are the same point, otherwise 0.

    Its features are indicators, so every function on a finite set is in its space, and K + ν White, a nugget, allows
    for losses that miss the space of K: a loss of norm W may have a spike of W√ν at a single action. Equal points
    are one action. It is for `Points` alone: on a net of a compact set it has no limit as the net is refined.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.White()([[0.0], [0.5], [0.0]]).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    >>> kl.Gaussian(0.3) + 0.001 * kl.White()
    Gaussian(bandwidth=0.3) + 0.001 * White()
    """

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        same = X[:, 0, None] == Y[None, :, 0]
        for i in range(1, X.shape[1]):
            same = same & (X[:, i, None] == Y[None, :, i])
        return xp.astype(same, X.dtype)

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]]:
        _, first = np.unique(to_numpy(points.X) + 0.0, axis=0, return_index=True)  # -0.0 is 0.0
        distinct = take(points.X, np.sort(first))
        return len(first), lambda X: self._gram(X, matching(distinct, X), namespace(X))

    def _check_actions(self, actions: ActionSet) -> None:
        if not isinstance(actions, Points):
            reason = "White() has no limit as the net of a compact set is refined"
            advice = "lay the net yourself, actions.net(spacing), or leave White() out"
            raise ValueError(f"`actions` must be Points, since {reason}, got {actions!r}; {advice}")

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        return True

    def lipschitz(self, actions: ActionSet) -> float:
        self._check_actions(actions)
        return math.inf

    def modulus(self, distance: float, actions: ActionSet) -> float:
        self._check_actions(actions)
        return math.sqrt(2) if as_float("distance", distance, minimum=0.0) > 0 else 0.0


def _shape(nu: float, z: Array, xp: Namespace) -> Array:
    """2^(1-ν)/Γ(ν) z^ν K_ν(z), equal to 1 at z = 0."""
    if (nu - 0.5).is_integer() and nu < 20:  # closed form of half-integer order
        p, fact = round(nu - 0.5), math.factorial
        powers = [
            fact(p) / fact(2 * p) * math.comb(p, k) * fact(2 * p - k) / fact(p)
            for k in reversed(range(p + 1))
        ]
        z = xp.clip(z, None, LARGEST)
        value = xp.exp(-z)
        if p > 0:  # Horner in 2z
            z *= 2
            polynomial = powers[0] * z
            polynomial += powers[1]
            for power in powers[2:]:
                polynomial *= z
                polynomial += power
            value *= polynomial
        return value
    return _bessel(nu, nu, z)


def _bessel(nu: float, order: float, z: Array) -> Array:
    """2^(1-ν)/Γ(ν) z^order K_order(z), through SciPy, in logarithms; its limit at 0 where order = ν."""
    from scipy import special

    # Beyond 2,000 the result is zero for every ν; SciPy has no K_ν beyond about 10⁹.
    x = np.minimum(to_numpy(z).astype(np.float64), 2e3)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logarithm = order * np.log(x) + np.log(special.kve(abs(order), x)) - x
        value = np.exp((1 - nu) * math.log(2) - special.gammaln(nu) + logarithm)
    if order == nu:
        # Where K_ν overflows z is small: so small that the limit is exact, unless ν is large. Then three
        # terms of the series in t = z²/4 are.
        limit = np.ones_like(x)
        if nu > 20:
            t = np.where(x < 1, x * x / 4, 0.0)
            limit -= t / (nu - 1) * (1 - t / (2 * (nu - 2)) * (1 - t / (3 * (nu - 3))))
        value = np.where(np.isfinite(value), np.minimum(value, 1.0), limit)
    return matching(value, z)
