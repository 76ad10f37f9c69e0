"""The quadratic kernel and its losses: quadratic with a linear term, convex or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Ball
from koloss.core.arrays import (
    Array,
    Namespace,
    as_points,
    as_vector,
    frozen,
    matching,
    namespace,
    roundoff,
    take,
    to_numpy,
)
from koloss.kernels.base import DotProduct, finite
from koloss.kernels.loss import Loss


class QuadraticLoss(Loss):
    """Quadratic loss ℓ(a) = a'Aa + b'a, an element of the RKHS of `Quadratic`; norm² = ‖A‖_F² + |b|².

    Parameters
    ----------
    matrix : array of shape (d, d)
        A, symmetric; it need not be positive semidefinite.
    vector : array of shape (d,), optional
        b; zero where it is missing.

    Examples
    --------
    >>> import koloss as kl
    >>> saddle = kl.QuadraticLoss([[1.0, 0.0], [0.0, -1.0]], [0.0, 2.0])
    >>> saddle([[1.0, 0.0], [0.0, 1.0]]).tolist(), round(saddle.norm() ** 2, 9)
    ([1.0, 1.0], 6.0)
    """

    _coordinates = ("matrix", "vector")

    def __init__(self, matrix: Array, vector: Array | None = None) -> None:
        matrix = as_points("matrix", matrix)
        xp, d = namespace(matrix), matrix.shape[0]
        if matrix.shape[1] != d:
            raise ValueError(f"`matrix` must be square, got shape {tuple(matrix.shape)}")
        skew, size = float(xp.max(xp.abs(matrix - matrix.T))), float(xp.max(xp.abs(matrix)))
        if skew > max(1e-8, 16 * roundoff(matrix)) * size:
            raise ValueError(f"`matrix` must be symmetric, got entries that differ by {skew:.6g}")
        if vector is None:
            vector = xp.zeros(d, dtype=matrix.dtype, device=matrix.device)
        self.matrix = frozen((matrix + matrix.T) / 2)
        self.vector = frozen(as_vector("vector", vector, length=d, like=matrix))

    @property
    def kernel(self) -> Quadratic:
        return Quadratic()

    @property
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _evaluate(self, X: Array) -> Array:
        matrix, vector = matching(self.matrix, X), matching(self.vector, X)
        return namespace(X).sum((X @ matrix) * X, axis=1) + X @ vector

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        with finite(X, self):
            return 2 * (X @ matching(self.matrix, X)) + matching(self.vector, X)

    def quadratic_form(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return to_numpy(self.matrix), to_numpy(self.vector)

    @classmethod
    def _total(cls, losses: Any) -> QuadraticLoss:
        return cls(
            np.sum([to_numpy(loss.matrix) for loss in losses], axis=0),
            np.sum([to_numpy(loss.vector) for loss in losses], axis=0),
        )

    @classmethod
    def _table(cls, losses: Any, X: NDArray[Any]) -> NDArray[Any]:
        A = np.stack([to_numpy(loss.matrix) for loss in losses])
        b = np.stack([to_numpy(loss.vector) for loss in losses])
        squares = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        table: NDArray[Any] = A.reshape(len(A), -1) @ squares.T + b @ X.T
        return table


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

    loss_family = QuadraticLoss

    def _profile(self, t: Any) -> Any:
        return t * t + t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 2 * t + 1.0, 0 * t + 2.0

    def _features(self, X: Array, xp: Namespace) -> Array:
        i, j = np.triu_indices(X.shape[1], k=1)
        cross = take(X, i, axis=1) * take(X, j, axis=1)
        return xp.concat([X * X, math.sqrt(2) * cross, X], axis=1)

    def feature_dimension(self, dimension: int) -> int:
        return dimension * (dimension + 3) // 2

    def _feature_diameter(self, actions: ActionSet) -> float | None:
        if not isinstance(actions, Ball):
            return None
        r = actions.radius
        if actions.dimension >= 2:
            # With |x| = |y| = r and c = x'y: ‖Φ(x) - Φ(y)‖² = 2(r⁴ + r²) - 2c² - 2c, largest at c = -1/2 if it can be.
            c = -min(0.5, r * r)
            return math.sqrt(2 * (r**4 + r**2) - 2 * c * c - 2 * c)
        # On the line x = r and y = -t: (r² - t²)² + (r + t)², stationary at 2t(r - t) = 1.
        inner = (r - math.sqrt(r * r - 2)) / 2 if r * r > 2 else r
        return math.sqrt(max((r * r - t * t) ** 2 + (r + t) ** 2 for t in (r, inner)))

    def _embed(self, X: Array, weights: Array) -> QuadraticLoss:
        matrix = (X * weights[:, None]).T @ X
        return QuadraticLoss((matrix + matrix.T) / 2, X.T @ weights)

    def element(self, coordinates: Array) -> QuadraticLoss:
        coordinates = as_vector("coordinates", coordinates)
        m = coordinates.shape[0]
        d = (math.isqrt(9 + 8 * m) - 3) // 2
        if d == 0 or self.feature_dimension(d) != m:
            raise ValueError(f"`coordinates` must have length d(d + 3)/2 for some d, got {m}")
        w = to_numpy(coordinates)
        matrix, (i, j) = np.diag(w[:d]), np.triu_indices(d, k=1)
        matrix[i, j] = matrix[j, i] = w[d:-d] / math.sqrt(2)
        return QuadraticLoss(matching(matrix, coordinates), matching(w[-d:], coordinates))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> Loss:
        d = actions.dimension
        A = rng.standard_normal((d, d))
        x = np.append((A + A.T) / 2, rng.standard_normal(d))  # ‖w‖² = ‖A‖² + |b|²
        x = x * (norm / np.linalg.norm(x))
        return QuadraticLoss(x[: d * d].reshape(d, d), x[d * d :])
