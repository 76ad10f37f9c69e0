"""Losses are elements of the RKHS, ℓ(a) = ⟨Φ(a), w⟩. Smaller is better.

A family is the form that the losses of a kernel have; `Kernel.loss_family` says which. `KernelLoss`, the kernel
expansion, is the form that every kernel has; linear, quadratic and posynomial kernels have a form of their own.
"""

from __future__ import annotations

import abc
import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import (
    Array,
    as_array,
    as_float,
    as_points,
    as_vector,
    equal,
    frozen,
    matching,
    namespace,
    to_numpy,
)
from koloss.core.plain import Plain
from koloss.kernels.base import Kernel, finite


class Loss(Plain, abc.ABC):
    """An element w of the RKHS, seen as the function a ↦ ⟨Φ(a), w⟩.

    Losses of one family add, subtract and scale; families do not mix. A subclass keeps its numbers in
    arrays and says how to combine them. Where two losses hold arrays of two kinds, those of the left one
    are kept.
    """

    __array_ufunc__ = None  # NumPy leaves `number * loss` to `__rmul__`

    # What a family says of itself.
    is_convex: ClassVar[bool] = False
    is_expansion: ClassVar[bool] = False  # a sum is as long as its parts together
    is_one_sided: ClassVar[bool] = False  # games keep to losses whose coefficients are not negative
    _coordinates: ClassVar[tuple[str, ...]]  # arrays in which a loss is linear, and an isometry

    if TYPE_CHECKING:  # an attribute in some families, a property in others

        @property
        def kernel(self) -> Kernel:
            """Kernel in whose RKHS the loss is."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of an action."""

    @abc.abstractmethod
    def _evaluate(self, X: Array) -> Array:
        """Values at the rows of a checked array."""

    @abc.abstractmethod
    def gradient(self, X: Array) -> Array:
        """Gradient of the loss at every row of X, an array of shape (n, d)."""

    def inner(self, other: Loss) -> float:
        """RKHS inner product with a loss of the same family."""
        self._check_family(other)
        return sum(_dot(getattr(self, part), getattr(other, part)) for part in self._coordinates)

    def _plus(self, other: Self, factor: float) -> Self:
        """The sum with `factor` times another, which `_check_family` has let through."""
        mine = {name: getattr(self, name) for name in self._coordinates}
        theirs = {name: matching(getattr(other, name), a) for name, a in mine.items()}
        with np.errstate(over="ignore", invalid="ignore"):  # `_with` refuses what comes of it
            sums = {name: a + factor * theirs[name] for name, a in mine.items()}
        return self._with(sums)

    def _scale(self, factor: float) -> Self:
        """`factor` times this loss."""
        with np.errstate(over="ignore"):  # `_with` refuses what comes of it
            return self._with({name: factor * getattr(self, name) for name in self._coordinates})

    def _with(self, coordinates: dict[str, Array]) -> Self:
        """The same with other coordinates, made of those of checked losses: only an overflow can be wrong with them."""
        loss = copy.copy(self)
        for name, value in coordinates.items():
            finite = as_array(name, value, ndim=value.ndim)
            if isinstance(finite, np.ndarray):
                finite.flags.writeable = False
            setattr(loss, name, finite)
        return loss

    @classmethod
    def _total(cls, losses: Sequence[Any]) -> Loss:
        """Sum of losses that `_check_family` has let through."""
        first, parts = losses[0], cls._coordinates
        sums = [
            np.sum([to_numpy(getattr(loss, name)) for loss in losses], axis=0) for name in parts
        ]
        pairs = zip(parts, sums, strict=True)
        total: Loss = first._with({name: matching(a, getattr(first, name)) for name, a in pairs})
        return total

    def _weights(self) -> NDArray[Any] | None:
        """Coordinates in the kernel's features, where there are any."""
        return None

    @classmethod
    def _table(cls, losses: Sequence[Any], X: NDArray[Any]) -> NDArray[Any]:
        """Values of such losses at the rows of X."""
        weights = [loss._weights() for loss in losses]
        if weights[0] is None:
            return np.stack([to_numpy(loss(X)) for loss in losses])
        table: NDArray[Any] = np.stack(weights) @ to_numpy(losses[0].kernel.features(X)).T
        return table

    def own_form(self) -> Loss:
        """The same element in its kernel's own form: an expansion in `Quadratic` is a `QuadraticLoss`."""
        return self

    def quadratic_form(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """(A, b) where the loss is a'Aa + b'a, as NumPy arrays; otherwise None."""
        return None

    def landmarks(self) -> NDArray[Any]:
        """Points near which a search for the minimum should start; an array of shape (k, d), k may be 0."""
        return np.empty((0, self.dimension))

    # What follows from it.

    def __call__(self, X: Array) -> Array:
        """Loss of every action: ⟨Φ(a), w⟩ for the rows a of X."""
        X = as_points("X", X, dimension=self.dimension)
        with finite(X, self):
            return self._evaluate(X)

    def norm(self) -> float:
        """RKHS norm ‖w‖."""
        with np.errstate(over="ignore", invalid="ignore"):
            squared = max(self.inner(self), 0.0)
        if 1e-250 < squared < math.inf:
            return math.sqrt(squared)
        # The square may be no floating point number, or one of few digits: then take the norm in another unit.
        largest = max(float(_largest(getattr(self, part))) for part in self._coordinates)
        usual = math.isfinite(squared) and largest > 1e-100  # nothing, but for rounding
        if usual or largest == 0 or not math.isfinite(1 / largest):
            return math.sqrt(squared)
        unit = self._scale(1 / largest)
        return largest * math.sqrt(max(unit.inner(unit), 0.0))

    @staticmethod
    def total(losses: Sequence[Loss]) -> Loss:
        """Sum of losses of one family, in one step; equal centres of expansions are joined.

        Examples
        --------
        >>> import koloss as kl
        >>> kl.Loss.total([kl.LinearLoss([1.0, k]) for k in range(4)]).vector.tolist()
        [4.0, 6.0]
        """
        losses[0]._check_family(*losses[1:])
        return losses[0]._total(losses)

    @staticmethod
    def table(losses: Sequence[Loss], X: NDArray[Any]) -> NDArray[Any]:
        """Values of several losses at the n rows of X, of shape (len(losses), n); for losses of one space in one product."""
        kind, kernel = type(losses[0]), losses[0].kernel
        if all(type(loss) is kind and loss.kernel == kernel for loss in losses[1:]):
            return kind._table(losses, X)
        return np.stack([to_numpy(loss(X)) for loss in losses])

    def _check_family(self, *others: Loss) -> None:
        """Refuse losses that live in another space."""
        for other in others:
            if type(other) is not type(self):
                kinds = f"{type(self).__name__} and {type(other).__name__}"
                raise TypeError(f"losses of two families do not mix: {kinds}")
            if other.dimension != self.dimension:
                sizes = f"{self.dimension} and {other.dimension}"
                raise ValueError(f"losses must have one dimension, got {sizes}")
            if other.kernel != self.kernel:
                kernels = f"{self.kernel!r} and {other.kernel!r}"
                raise ValueError(f"losses of two kernels do not mix: {kernels}")

    def __add__(self, other: Any) -> Self:
        if not isinstance(other, Loss):
            return NotImplemented
        self._check_family(other)
        return self._plus(other, 1.0)  # type: ignore[arg-type]

    def __radd__(self, other: Any) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # for sum()

    def __sub__(self, other: Any) -> Self:
        return self + -other if isinstance(other, Loss) else NotImplemented

    def __mul__(self, factor: Any) -> Self:
        if isinstance(factor, Loss):
            return NotImplemented
        return self._scale(as_float("factor", factor))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Self:
        divisor = as_float("divisor", divisor)
        if divisor == 0:
            raise ZeroDivisionError("a loss cannot be divided by zero")
        return self._scale(1 / divisor)

    def __neg__(self) -> Self:
        return self._scale(-1.0)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.parts(), other.parts()
        return all(
            equal(part, theirs[name]) if hasattr(part, "shape") else part == theirs[name]
            for name, part in mine.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        def text(part: Any) -> str:
            return f"<{'x'.join(map(str, part.shape))}>" if hasattr(part, "shape") else repr(part)

        shown = ", ".join(f"{name}={text(part)}" for name, part in self.parts().items())
        return f"{type(self).__name__}({shown})"


class KernelLoss(Loss):
    """Kernel expansion ℓ(a) = Σ_j c_j K(a, z_j), an element of the RKHS of any kernel.

    Adding two expansions joins their centres, or just their coefficients where the centres are the same.

    Parameters
    ----------
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

    kernel: Kernel
    is_expansion = True
    _coordinates = ("coefficients",)  # no isometry here

    def __init__(self, kernel: Kernel, centers: Array, coefficients: Array) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        self.kernel = kernel
        self.centers = frozen(kernel._points("centers", centers))
        size, like = self.centers.shape[0], self.centers
        self.coefficients = frozen(as_vector("coefficients", coefficients, length=size, like=like))

    @property
    def dimension(self) -> int:
        return int(self.centers.shape[1])

    def _evaluate(self, X: Array) -> Array:
        return self.kernel(X, self.centers) @ matching(self.coefficients, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return self.kernel.gradient(X, self.centers, self.coefficients)

    def inner(self, other: Loss) -> float:
        self._check_family(other)
        return _dot(self.coefficients, other(self.centers))

    def landmarks(self) -> NDArray[Any]:
        return to_numpy(self.centers)

    def own_form(self) -> Loss:
        if self.kernel.loss_family is KernelLoss:
            return self
        return self.kernel.embed(self.centers, self.coefficients)

    def _plus(self, other: Self, factor: float) -> Self:
        if self.centers is other.centers or equal(self.centers, other.centers):
            return super()._plus(other, factor)
        xp, theirs = namespace(self.centers), matching(other.coefficients, self.coefficients)
        centers = xp.concat([self.centers, matching(other.centers, self.centers)], axis=0)
        coefficients = xp.concat([self.coefficients, factor * theirs])
        return type(self)(self.kernel, centers, coefficients)

    @classmethod
    def _total(cls, losses: Sequence[KernelLoss]) -> KernelLoss:
        centers, place = np.unique(_centers(losses), axis=0, return_inverse=True)
        return cls(losses[0].kernel, centers, np.bincount(place.ravel(), _coefficients(losses)))

    @classmethod
    def _table(cls, losses: Sequence[KernelLoss], X: NDArray[Any]) -> NDArray[Any]:
        gram = to_numpy(losses[0].kernel(_centers(losses), X))
        table: NDArray[Any] = _coefficients(losses)[:, None] * gram
        sizes = [len(loss.coefficients) for loss in losses]
        if any(size > 1 for size in sizes):
            table = np.add.reduceat(table, np.cumsum([0, *sizes[:-1]]), axis=0)
        return table


def _centers(losses: Sequence[KernelLoss]) -> NDArray[Any]:
    return np.concatenate([to_numpy(loss.centers) for loss in losses])


def _coefficients(losses: Sequence[KernelLoss]) -> NDArray[Any]:
    return np.concatenate([to_numpy(loss.coefficients) for loss in losses])


def _largest(a: Array) -> Array:
    return namespace(a).max(namespace(a).abs(a))


def _dot(a: Array, b: Array) -> float:
    """Inner product of two arrays of one shape, as a number."""
    return float(namespace(a).sum(a * matching(b, a)))
