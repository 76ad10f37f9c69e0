"""Kernel expansions: losses of any kernel."""

from __future__ import annotations

from typing import Any, Self

from koloss._arrays import Array, as_points, as_vector, equal, frozen, matching, namespace
from koloss.kernels.base import Kernel
from koloss.kernels.loss import Loss, dot


class KernelLoss(Loss):
    """Kernel expansion ℓ(a) = Σ_j c_j K(a, z_j), an element of the RKHS of any kernel.

    Adding two expansions joins their centres, or just their coefficients where the centres are the same.

    Parameters
    ----------
    kernel : Kernel
    centers : array of shape (p, d)
        z.
    coefficients : array of shape (p,)
        c.

    Examples
    --------
    >>> import koloss as kl
    >>> bump = kl.KernelLoss(kl.Gaussian(1.0), [[0.0], [1.0]], [1.0, -1.0])
    >>> bump([[0.0], [0.5], [1.0]]).round(3).tolist(), round(bump.norm() ** 2, 3)
    ([0.393, 0.0, -0.393], 0.787)
    """

    def __init__(self, kernel: Kernel, centers: Array, coefficients: Array) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        self.kernel = kernel
        self.centers = frozen(kernel._points("centers", centers))
        size = self.centers.shape[0]
        self.coefficients = frozen(
            as_vector("coefficients", coefficients, length=size, like=self.centers)
        )

    @property
    def dimension(self) -> int:
        return int(self.centers.shape[1])

    def _parts(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "centers": self.centers, "coefficients": self.coefficients}

    def _evaluate(self, X: Array) -> Array:
        return self.kernel(X, self.centers) @ matching(self.coefficients, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return self.kernel.gradient(X, self.centers, self.coefficients)

    def inner(self, other: Loss) -> float:
        self._check_family(other)
        return dot(self.coefficients, other(self.centers))

    def _check_family(self, other: Any) -> None:
        super()._check_family(other)
        if other.kernel != self.kernel:
            raise ValueError(
                f"losses of two kernels do not mix: {self.kernel!r} and {other.kernel!r}"
            )

    def _combine(self, own: float, other: Self, factor: float) -> Self:
        theirs = matching(other.coefficients, self.coefficients)
        if self.centers is other.centers or equal(self.centers, other.centers):
            return type(self)(self.kernel, self.centers, own * self.coefficients + factor * theirs)
        xp = namespace(self.centers)
        centers = xp.concat([self.centers, matching(other.centers, self.centers)], axis=0)
        return type(self)(
            self.kernel, centers, xp.concat([own * self.coefficients, factor * theirs])
        )

    def _scale(self, factor: float) -> Self:
        return type(self)(self.kernel, self.centers, factor * self.coefficients)
