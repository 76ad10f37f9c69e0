"""The Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from koloss._arrays import Array, Namespace
from koloss.actions import ActionSet
from koloss.kernels.base import Stationary, as_scale


@dataclass(frozen=True)
class Gaussian(Stationary):
    """Gaussian kernel: K(x, y) = exp(-|x - y|² / (2 bandwidth²)).

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[1.3, 1.6]])
    >>> value = math.exp(-(0.3**2 + 0.4**2) / (2 * 0.5**2))
    >>> math.isclose(kl.Gaussian(0.5)(x, y)[0, 0], value)
    True
    """

    bandwidth: float  # σ > 0, in the units of the actions; from 1e-150 to 1e150

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", as_scale("bandwidth", self.bandwidth))

    def _profile(self, squared: Array, xp: Namespace) -> Array:
        # In two steps: 1 / bandwidth² may be beyond float32 where 1 / bandwidth is not.
        return xp.exp((squared * (1 / self.bandwidth)) * (-0.5 / self.bandwidth))

    def _slope(self, squared: Array, xp: Namespace) -> Array:
        return self._profile(squared, xp) * (-0.5 / self.bandwidth**2)

    def _drop(self, distance: float) -> float:
        ratio = distance / self.bandwidth
        return -math.expm1(-0.5 * ratio * ratio)

    def lipschitz(self, actions: ActionSet) -> float:
        return 1 / self.bandwidth
