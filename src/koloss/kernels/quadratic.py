"""The kernel of quadratic losses with a linear term."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss._arrays import Array, Namespace
from koloss.kernels.base import DotProduct

if TYPE_CHECKING:
    from koloss.kernels import QuadraticLoss


@dataclass(frozen=True)
class Quadratic(DotProduct):
    """Quadratic kernel: K(x, y) = (x'y)² + x'y, Φ(x) = (xx', x), losses a ↦ a'Aa + b'a.

    The feature vector lists the squares x_i², then √2 x_i x_j for i < j (the √2 makes the Euclidean inner
    product equal to the trace inner product of symmetric matrices), then x itself: d(d + 3)/2 numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    >>> float(kl.Quadratic()(x, y)[0, 0]) == (1 * 3 + 2 * -1) ** 2 + (1 * 3 + 2 * -1)
    True
    >>> kl.Quadratic().features(x).round(3).tolist()
    [[1.0, 4.0, 2.828, 1.0, 2.0]]
    """

    def _profile(self, t: Any) -> Any:
        return t * t + t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 2 * t + 1.0, 0 * t + 2.0

    def _features(self, X: Array, xp: Namespace) -> Array:
        i, j = np.triu_indices(X.shape[1], k=1)
        rows, columns = (xp.asarray(index, device=X.device) for index in (i, j))
        cross = xp.take(X, rows, axis=1) * xp.take(X, columns, axis=1)
        return xp.concat([X * X, math.sqrt(2) * cross, X], axis=1)

    def feature_dimension(self, dimension: int) -> int:
        return dimension * (dimension + 3) // 2

    def _embed(self, X: Array, weights: Array) -> QuadraticLoss:
        from koloss.kernels import QuadraticLoss

        matrix = (X * weights[:, None]).T @ X
        return QuadraticLoss((matrix + matrix.T) / 2, X.T @ weights)
