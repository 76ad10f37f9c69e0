"""The linear kernel and its losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.arrays import Array, Namespace, as_points, as_vector, frozen, matching, to_numpy
from koloss.kernels.base import DotProduct
from koloss.kernels.loss import Loss


class LinearLoss(Loss):
    """Linear loss ℓ(a) = w'a with a vector w of shape (d,), an element of the RKHS of `Linear`.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.LinearLoss([3.0, 4.0])
    >>> loss([[1.0, 0.0], [0.0, 2.0]]).tolist(), loss.norm()
    ([3.0, 8.0], 5.0)
    """

    is_convex = True
    _coordinates = ("vector",)

    def __init__(self, vector: Array) -> None:
        self.vector = frozen(as_vector("vector", vector))
        if self.dimension == 0:
            raise ValueError("`vector` must not be empty, got length 0")

    @property
    def kernel(self) -> Linear:
        return Linear()

    @property
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _evaluate(self, X: Array) -> Array:
        return X @ matching(self.vector, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return 0 * X + matching(self.vector, X)

    def quadratic_form(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.zeros((self.dimension, self.dimension)), to_numpy(self.vector)

    @classmethod
    def _table(cls, losses: Any, X: NDArray[Any]) -> NDArray[Any]:
        table: NDArray[Any] = np.stack([to_numpy(loss.vector) for loss in losses]) @ X.T
        return table


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

    loss_family = LinearLoss

    def _profile(self, t: Any) -> Any:
        return t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 0 * t + 1.0, 0 * t

    def _features(self, X: Array, xp: Namespace) -> Array:
        return xp.asarray(X, copy=True)

    def feature_dimension(self, dimension: int) -> int:
        return dimension

    def _embed(self, X: Array, weights: Array) -> LinearLoss:
        return LinearLoss(X.T @ weights)

    def element(self, coordinates: Array) -> LinearLoss:
        return LinearLoss(as_vector("coordinates", coordinates))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> LinearLoss:
        w = rng.standard_normal(actions.dimension)
        return LinearLoss(w * (norm / np.linalg.norm(w)))
