"""Linear losses."""

from __future__ import annotations

from typing import Any, Self

from koloss._arrays import Array, as_points, as_vector, frozen, matching, namespace
from koloss.kernels.loss import Loss, dot


class LinearLoss(Loss):
    """Linear loss ℓ(a) = w'a, an element of the RKHS of `Linear`.

    Parameters
    ----------
    vector : array of shape (d,)
        w.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.LinearLoss([3.0, 4.0])
    >>> loss([[1.0, 0.0], [0.0, 2.0]]).tolist(), loss.norm()
    ([3.0, 8.0], 5.0)
    """

    def __init__(self, vector: Array) -> None:
        self.vector = frozen(as_vector("vector", vector))
        if self.dimension == 0:
            raise ValueError("`vector` must not be empty, got length 0")

    @property
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _parts(self) -> dict[str, Any]:
        return {"vector": self.vector}

    def _evaluate(self, X: Array) -> Array:
        return X @ matching(self.vector, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return namespace(X).zeros_like(X) + matching(self.vector, X)

    def inner(self, other: Loss) -> float:
        self._check_family(other)
        return dot(self.vector, other.vector)  # type: ignore[attr-defined]

    def _combine(self, own: float, other: Self, factor: float) -> Self:
        return type(self)(own * self.vector + factor * matching(other.vector, self.vector))

    def _scale(self, factor: float) -> Self:
        return type(self)(factor * self.vector)
