"""The Matérn kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from koloss._arrays import Array, Namespace, as_float, matching, to_numpy
from koloss.kernels.base import Stationary

if TYPE_CHECKING:
    from koloss.actions import ActionSet


@dataclass(frozen=True)
class Matern(Stationary):
    """Matérn kernel: K(x, y) = 2^(1-ν)/Γ(ν) z^ν K_ν(z) with z = √(2ν) |x - y| / lengthscale.

    K_ν is the modified Bessel function. Half-integer smoothness ν = p + 1/2 has closed forms, for example
    exp(-z) at 1/2, (1 + z) exp(-z) at 3/2 and (1 + z + z²/3) exp(-z) at 5/2; these run on any array
    library, other values of ν go through SciPy. In d dimensions the Mercer eigenvalues decay
    polynomially, like j^(-(2ν + d)/d); the limit ν → ∞ is the Gaussian kernel.

    Parameters
    ----------
    smoothness : float
        ν > 0, at most 100.
    lengthscale : float
        ℓ > 0, in the units of the actions.

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

    smoothness: float
    lengthscale: float

    def __post_init__(self) -> None:
        smoothness = as_float("smoothness", self.smoothness, positive=True)
        if smoothness > 100:
            raise ValueError(
                f"`smoothness` must be at most 100 (Gaussian is the limit), got {smoothness:.6g}"
            )
        object.__setattr__(self, "smoothness", smoothness)
        object.__setattr__(
            self, "lengthscale", as_float("lengthscale", self.lengthscale, positive=True)
        )

    def _profile(self, squared: Array, xp: Namespace) -> Array:
        return _shape(self.smoothness, self._scaled(squared, xp), xp)

    def _slope(self, squared: Array, xp: Namespace) -> Array:
        # d/dz z^ν K_ν(z) = -z^ν K_{ν-1}(z), so dk/ds = -ν/(2ℓ²(ν-1)) shape_{ν-1}(z) for ν > 1.
        nu, z = self.smoothness, self._scaled(squared, xp)
        if nu > 1:
            return _shape(nu - 1, z, xp) * (-nu / (2 * (nu - 1) * self.lengthscale**2))
        if nu <= 0.5 and bool(xp.any(squared == 0)):
            raise ValueError(f"{self!r} has no gradient where the two points coincide")
        safe = xp.where(z > 0, z, xp.ones_like(z))
        if nu == 0.5:
            return -xp.exp(-safe) / (2 * safe * self.lengthscale**2)
        steep = _bessel(nu, nu - 1, safe) * (-nu / self.lengthscale**2)
        return xp.where(z > 0, steep, xp.zeros_like(z))

    def _scaled(self, squared: Array, xp: Namespace) -> Array:
        return xp.sqrt(squared) * (math.sqrt(2 * self.smoothness) / self.lengthscale)

    def _drop(self, distance: float) -> float:
        # The series 1 - k ≤ z²/(4(ν-1)) holds for ν > 1; elsewhere the difference, with room for rounding.
        z = math.sqrt(2 * self.smoothness) * distance / self.lengthscale
        nu = self.smoothness
        direct = 1 - float(_shape(nu, np.asarray([z]), np)[0]) + (1e-14 if distance > 0 else 0.0)
        return min(direct, z * z / (4 * (nu - 1))) if nu > 1 else min(direct, 1.0)

    def lipschitz(self, actions: ActionSet) -> float:
        nu = self.smoothness
        return math.sqrt(nu / (nu - 1)) / self.lengthscale if nu > 1 else math.inf


def _shape(nu: float, z: Array, xp: Namespace) -> Array:
    """2^(1-ν)/Γ(ν) z^ν K_ν(z), equal to 1 at z = 0."""
    if (nu - 0.5).is_integer() and nu < 20:  # closed form of half-integer order
        p = round(nu - 0.5)
        ratio = math.factorial(p) / math.factorial(2 * p)
        powers = [
            ratio * math.comb(p, k) * math.factorial(2 * p - k) / math.factorial(p)
            for k in range(p + 1)
        ]
        polynomial = xp.zeros_like(z)
        for k in reversed(range(p + 1)):  # Horner in 2z
            polynomial = polynomial * (2 * z) + powers[k]
        return xp.exp(-z) * polynomial
    return _bessel(nu, nu, z)


def _bessel(nu: float, order: float, z: Array) -> Array:
    """2^(1-ν)/Γ(ν) z^order K_order(z), through SciPy, in logarithms; its limit at 0 where order = ν."""
    from scipy import special

    x = to_numpy(z).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logarithm = order * np.log(x) + np.log(special.kve(abs(order), x)) - x
        value = np.exp((1 - nu) * math.log(2) - special.gammaln(nu) + logarithm)
    if order == nu:
        # Where K_ν overflows z is so small that the next term of the series is below rounding.
        value = np.where(np.isfinite(value), np.minimum(value, 1.0), 1.0)
    return matching(value, z)
