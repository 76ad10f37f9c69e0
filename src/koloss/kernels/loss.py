"""What every loss can do: losses are elements of the RKHS, ℓ(a) = ⟨Φ(a), w⟩. Smaller is better."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any, Self

from koloss._arrays import Array, as_float, as_points, equal, matching, namespace, to_numpy


class Loss(abc.ABC):
    """An element w of the RKHS, seen as the function a ↦ ⟨Φ(a), w⟩.

    Losses of one family add, subtract and scale; families do not mix. A subclass keeps its numbers in
    arrays and says how to combine them. Where two losses hold arrays of two kinds, those of the left one
    are kept.
    """

    __array_ufunc__ = None  # NumPy leaves `number * loss` to `__rmul__`

    @abc.abstractmethod
    def _evaluate(self, X: Array) -> Array:
        """Values at the rows of a checked array."""

    @abc.abstractmethod
    def gradient(self, X: Array) -> Array:
        """Gradient of the loss at every row of X, an array of shape (n, d)."""

    @abc.abstractmethod
    def inner(self, other: Loss) -> float:
        """RKHS inner product with a loss of the same family."""

    @abc.abstractmethod
    def _parts(self) -> dict[str, Any]:
        """Constructor arguments by name."""

    @abc.abstractmethod
    def _combine(self, own: float, other: Self, factor: float) -> Self:
        """`own` times this loss plus `factor` times another, which `_check_family` has let through."""

    @abc.abstractmethod
    def _scale(self, factor: float) -> Self:
        """`factor` times this loss."""

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of an action."""

    def __call__(self, X: Array) -> Array:
        """Loss of every action: ⟨Φ(a), w⟩ for the rows a of X.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n,)
        """
        return self._evaluate(as_points("X", X, dimension=self.dimension))

    def norm(self) -> float:
        """RKHS norm ‖w‖."""
        return math.sqrt(max(self.inner(self), 0.0))

    def _check_family(self, other: Any) -> None:
        """Refuse a loss that lives in another space."""
        if type(other) is not type(self):
            raise TypeError(
                f"losses of two families do not mix: {type(self).__name__} and {type(other).__name__}"
            )
        if other.dimension != self.dimension:
            raise ValueError(
                f"losses must have one dimension, got {self.dimension} and {other.dimension}"
            )

    def __add__(self, other: Any) -> Self:
        if not isinstance(other, Loss):
            return NotImplemented
        self._check_family(other)
        return self._combine(1.0, other, 1.0)  # type: ignore[arg-type]

    def __radd__(self, other: Any) -> Self:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # for sum()

    def __sub__(self, other: Any) -> Self:
        if not isinstance(other, Loss):
            return NotImplemented
        self._check_family(other)
        return self._combine(1.0, other, -1.0)  # type: ignore[arg-type]

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
        mine, theirs = self._parts(), other._parts()
        return all(
            equal(mine[name], theirs[name])
            if hasattr(mine[name], "shape")
            else mine[name] == theirs[name]
            for name in mine
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = self._parts().items()
        shown = (
            f"{k}=<{'x'.join(map(str, v.shape))}>" if hasattr(v, "shape") else f"{k}={v!r}"
            for k, v in parts
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data from which `Loss.from_dict` makes the same loss again."""
        plain: dict[str, Any] = {"kind": type(self).__name__}
        for name, value in self._parts().items():
            plain[name] = to_numpy(value).tolist() if hasattr(value, "shape") else value.to_dict()
        return plain

    @staticmethod
    def from_dict(data: Any) -> Loss:
        """Loss described by plain data: its class name as "kind", and its parts.

        Examples
        --------
        >>> import koloss as kl
        >>> loss = kl.LinearLoss([1.0, 2.0])
        >>> kl.Loss.from_dict(loss.to_dict()) == loss
        True
        """
        from koloss.kernels import Kernel

        kinds = {kind.__name__: kind for kind in Loss.__subclasses__()}
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or kind not in kinds:
            kind = kind if isinstance(data, Mapping) else data
            raise ValueError(f"`kind` must be one of {', '.join(sorted(kinds))}, got {kind!r}")
        parts = {
            name: Kernel.from_dict(value) if isinstance(value, Mapping) else value
            for name, value in data.items()
            if name != "kind"
        }
        try:
            return kinds[kind](**parts)
        except TypeError as error:
            raise ValueError(f"`{kind}` cannot be made from {sorted(parts)}: {error}") from error


def dot(a: Array, b: Array) -> float:
    """Inner product of two arrays of one shape, as a number."""
    return float(namespace(a).sum(a * matching(b, a)))
