"""The Gaussian kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koloss._arrays import Array, Namespace, as_float
from koloss.kernels.base import Stationary

if TYPE_CHECKING:
    from koloss.actions import ActionSet


@dataclass(frozen=True)
class Gaussian(Stationary):
    """Gaussian kernel: K(x, y) = exp(-|x - y|² / (2 bandwidth²)).

    Parameters
    ----------
    bandwidth : float
        σ > 0, in the units of the actions.

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

    bandwidth: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bandwidth", as_float("bandwidth", self.bandwidth, positive=True))

    def _profile(self, squared: Array, xp: Namespace) -> Array:
        return xp.exp(squared * (-0.5 / self.bandwidth**2))

    def _slope(self, squared: Array, xp: Namespace) -> Array:
        return self._profile(squared, xp) * (-0.5 / self.bandwidth**2)

    def _drop(self, distance: float) -> float:
        return -math.expm1(-0.5 * (distance / self.bandwidth) ** 2)

    def lipschitz(self, actions: ActionSet) -> float:
        return 1 / self.bandwidth
