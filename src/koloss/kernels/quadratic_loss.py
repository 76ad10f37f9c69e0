"""Quadratic losses with a linear term, convex or not."""

from __future__ import annotations

from typing import Any, Self

from koloss._arrays import Array, as_points, as_vector, frozen, matching, namespace, roundoff
from koloss.kernels.loss import Loss, dot


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
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _parts(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "vector": self.vector}

    def _evaluate(self, X: Array) -> Array:
        matrix, vector = matching(self.matrix, X), matching(self.vector, X)
        return namespace(X).sum((X @ matrix) * X, axis=1) + X @ vector

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return 2 * (X @ matching(self.matrix, X)) + matching(self.vector, X)

    def inner(self, other: Loss) -> float:
        self._check_family(other)
        return dot(self.matrix, other.matrix) + dot(self.vector, other.vector)  # type: ignore[attr-defined]

    def _combine(self, own: float, other: Self, factor: float) -> Self:
        matrix, vector = matching(other.matrix, self.matrix), matching(other.vector, self.vector)
        return type(self)(own * self.matrix + factor * matrix, own * self.vector + factor * vector)

    def _scale(self, factor: float) -> Self:
        return type(self)(factor * self.matrix, factor * self.vector)
