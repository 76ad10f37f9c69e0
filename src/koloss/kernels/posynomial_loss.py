"""Posynomial losses."""

from __future__ import annotations

from typing import Any, Self

from koloss._arrays import Array, as_points, as_vector, frozen, matching, namespace
from koloss.kernels.loss import Loss, dot
from koloss.kernels.posynomial import Posynomial


class PosynomialLoss(Loss):
    """Loss ℓ(a) = Σ_k c_k Π_i a_i^exponents[k, i], an element of the RKHS of a `Posynomial` kernel.

    The coefficients may have any sign (differences of posynomials are elements of the same space);
    `is_posynomial` says whether all are non-negative.

    Parameters
    ----------
    kernel : Posynomial
        Holds the exponents.
    coefficients : array of shape (m,)
        c.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.PosynomialLoss(kl.Posynomial([[1, 0], [-1, 1]]), [2.0, 3.0])
    >>> loss([[1.0, 1.0], [2.0, 4.0]]).tolist(), loss.is_posynomial
    ([5.0, 10.0], True)
    """

    def __init__(self, kernel: Posynomial, coefficients: Array) -> None:
        if not isinstance(kernel, Posynomial):
            raise TypeError(f"`kernel` must be a Posynomial, got {type(kernel).__name__}")
        self.kernel = kernel
        self.coefficients = frozen(
            as_vector("coefficients", coefficients, length=len(kernel.exponents))
        )

    @property
    def dimension(self) -> int:
        return self.kernel.dimension

    @property
    def is_posynomial(self) -> bool:
        """Whether no coefficient is negative."""
        return bool(namespace(self.coefficients).all(self.coefficients >= 0))

    def _parts(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "coefficients": self.coefficients}

    def _evaluate(self, X: Array) -> Array:
        return self.kernel.features(X) @ matching(self.coefficients, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        self.kernel._check_domain("X", X)
        return self.kernel.expansion_gradient(X, matching(self.coefficients, X))

    def inner(self, other: Loss) -> float:
        self._check_family(other)
        return dot(self.coefficients, other.coefficients)  # type: ignore[attr-defined]

    def _check_family(self, other: Any) -> None:
        super()._check_family(other)
        if other.kernel != self.kernel:
            raise ValueError(
                f"losses of two kernels do not mix: {self.kernel!r} and {other.kernel!r}"
            )

    def _combine(self, own: float, other: Self, factor: float) -> Self:
        theirs = matching(other.coefficients, self.coefficients)
        return type(self)(self.kernel, own * self.coefficients + factor * theirs)

    def _scale(self, factor: float) -> Self:
        return type(self)(self.kernel, factor * self.coefficients)
