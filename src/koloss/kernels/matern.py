"""The Matérn kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.actions import ActionSet
from koloss.core.arrays import Array, Namespace, as_float, matching, to_numpy
from koloss.kernels.base import Stationary, as_scales

LARGEST = 1e3
"""exp(-z) is zero for larger z, where a polynomial must stay finite."""


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
    >>> import math
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[1.3, 1.6]])
    >>> z = math.sqrt(3) * 0.5 / 0.7
    >>> math.isclose(kl.Matern(1.5, 0.7)(x, y)[0, 0], (1 + z) * math.exp(-z))
    True
    """

    smoothness: float  # ν > 0, at most 100
    # ℓ > 0, in the units of the actions; from 1e-150 to 1e150. From any sequence of numbers, one per coordinate.
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


def _shape(nu: float, z: Array, xp: Namespace) -> Array:
    """2^(1-ν)/Γ(ν) z^ν K_ν(z), equal to 1 at z = 0."""
    if (nu - 0.5).is_integer() and nu < 20:  # closed form of half-integer order
        p, fact = round(nu - 0.5), math.factorial
        powers = [
            fact(p) / fact(2 * p) * math.comb(p, k) * fact(2 * p - k) / fact(p)
            for k in reversed(range(p + 1))
        ]
        if isinstance(z, np.ndarray):
            return _half_integer(powers, z)
        z = xp.clip(z, None, LARGEST)
        polynomial, twice = powers[0], 2 * z
        for power in powers[1:]:  # Horner in 2z
            polynomial = polynomial * twice + power
        return xp.exp(-z) * polynomial
    return _bessel(nu, nu, z)


def _half_integer(powers: list[float], z: Any) -> Any:
    """exp(-z) times a polynomial in 2z, its highest power first, in the place of z."""
    np.minimum(z, LARGEST, out=z)
    if len(powers) == 1:
        return np.exp(np.negative(z, out=z), out=z)
    twice = 2 * z
    polynomial = powers[0] * twice
    polynomial += powers[1]
    for power in powers[2:]:
        polynomial *= twice
        polynomial += power
    np.exp(np.negative(z, out=z), out=z)
    z *= polynomial
    return z


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
