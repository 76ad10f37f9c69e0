"""The linear kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koloss._arrays import Array, Namespace
from koloss.kernels.base import DotProduct

if TYPE_CHECKING:
    from koloss.kernels import LinearLoss


@dataclass(frozen=True)
class Linear(DotProduct):
    """Linear kernel: K(x, y) = x'y, Φ(x) = x, losses a ↦ w'a.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    >>> float(kl.Linear()(x, y)[0, 0]) == 1 * 3 + 2 * -1
    True
    """

    def _profile(self, t: Any) -> Any:
        return t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 0 * t + 1.0, 0 * t

    def _features(self, X: Array, xp: Namespace) -> Array:
        return xp.asarray(X, copy=True)

    def feature_dimension(self, dimension: int) -> int:
        return dimension

    def _embed(self, X: Array, weights: Array) -> LinearLoss:
        from koloss.kernels import LinearLoss

        return LinearLoss(X.T @ weights)
