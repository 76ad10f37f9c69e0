"""The Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from koloss.actions import ActionSet
from koloss.core.arrays import Array, Namespace
from koloss.kernels.base import Stationary, as_scales


@dataclass(frozen=True)
class Gaussian(Stationary):
    """Gaussian kernel: K(x, y) = exp(-|x - y|² / (2 bandwidth²)).

    With one bandwidth for each coordinate, K(x, y) = exp(-Σ_i (x_i - y_i)² / (2 bandwidth_i²)): the kernel on
    coordinates divided by their bandwidths.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[1.3, 1.6]])
    >>> value = math.exp(-(0.3**2 + 0.4**2) / (2 * 0.5**2))
    >>> math.isclose(kl.Gaussian(0.5)(x, y)[0, 0], value)
    True
    >>> kl.Gaussian([0.1, 5.0])
    Gaussian(bandwidth=(0.1, 5.0))
    """

    # σ > 0, in the units of the actions; from 1e-150 to 1e150. From any sequence of numbers, one per coordinate.
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
