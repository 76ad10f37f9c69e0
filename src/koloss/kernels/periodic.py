"""A periodic kernel, for angles and times of day."""

from __future__ import annotations

import math
from dataclasses import dataclass

from koloss.actions import ActionSet
from koloss.core.arrays import Array, Namespace, as_float
from koloss.kernels.base import Normalised, as_scale


@dataclass(frozen=True)
class Periodic(Normalised):
    """Periodic kernel: K(x, y) = exp(-2 Σ_i sin²(π (x_i - y_i) / period) / lengthscale²).

    On the circle (one coordinate) its Mercer expansion under the uniform measure is a Fourier series with
    coefficients exp(-κ) I_j(κ), κ = lengthscale⁻², and its eigenfunctions are bounded by √2, as Lemma 1 of
    the paper asks. See `mercer_features`.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[0.1]]), np.array([[0.4]])
    >>> value = math.exp(-2 * math.sin(math.pi * 0.3 / 2) ** 2 / 0.5**2)
    >>> math.isclose(kl.Periodic(0.5, period=2.0)(x, y)[0, 0], value)
    True
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
