"""Sums, products and multiples of kernels, which are kernels again."""

from __future__ import annotations

import abc
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, Namespace, as_float, namespace
from koloss.kernels.base import Kernel


@dataclass(frozen=True, repr=False)
class _Pair(Kernel):
    """What sums and products share."""

    left: Kernel
    right: Kernel

    @staticmethod
    @abc.abstractmethod
    def _join(left: Any, right: Any, /) -> Any:
        """Sum or product of two numbers or arrays."""

    def __post_init__(self) -> None:
        _check_part("left", self.left)
        _check_part("right", self.right)

    def _check_domain(self, name: str, X: Array) -> None:
        self.left._check_domain(name, X)
        self.right._check_domain(name, X)

    def _check_actions(self, actions: ActionSet) -> None:
        self.left._check_actions(actions)
        self.right._check_actions(actions)

    def length_scales(self, dimension: int) -> tuple[float, ...] | None:
        left, right = self.left.length_scales(dimension), self.right.length_scales(dimension)
        return tuple(map(min, left, right)) if left and right else left or right

    @staticmethod
    @abc.abstractmethod
    def _join_features(left: Array, right: Array, xp: Namespace) -> Array:
        """Φ of Φ₁ and Φ₂."""

    def _features(self, X: Array, xp: Namespace) -> Array:
        return self._join_features(self.left._features(X, xp), self.right._features(X, xp), xp)

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]] | None:
        left, right = self.left.finite_map(points), self.right.finite_map(points)
        if left is None or right is None:
            return None
        join, (m, phi), (n, psi) = self._join_features, left, right
        return self._join(m, n), lambda X: join(phi(X), psi(X), namespace(X))

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self._join(self.left._gram(X, Y, xp), self.right._gram(X, Y, xp))

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return self._join(self.left._diagonal(X, xp), self.right._diagonal(X, xp))

    def feature_dimension(self, dimension: int) -> int | None:
        left, right = (
            self.left.feature_dimension(dimension),
            self.right.feature_dimension(dimension),
        )
        return None if left is None or right is None else self._join(left, right)

    def _bound(self, actions: ActionSet) -> float:
        return float(self._join(self.left.bound(actions), self.right.bound(actions)))


@dataclass(frozen=True, repr=False)
class Sum(_Pair):
    """Sum of two kernels: K(x, y) = K₁(x, y) + K₂(x, y), Φ = (Φ₁, Φ₂).

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> k, x = kl.Linear() + kl.Gaussian(0.5), np.array([[1.0], [2.0]])
    >>> bool(np.all(k(x) == kl.Linear()(x) + kl.Gaussian(0.5)(x)))
    True
    """

    _join = staticmethod(operator.add)

    def __repr__(self) -> str:
        right = f"({self.right!r})" if isinstance(self.right, Sum) else repr(self.right)
        return f"{self.left!r} + {right}"

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return self.left._gradient(X, Y, weights, xp) + self.right._gradient(X, Y, weights, xp)

    @staticmethod
    def _join_features(left: Array, right: Array, xp: Namespace) -> Array:
        return xp.concat([left, right], axis=1)

    def lipschitz(self, actions: ActionSet) -> float:
        return math.hypot(self.left.lipschitz(actions), self.right.lipschitz(actions))

    def modulus(self, distance: float, actions: ActionSet) -> float:
        left, right = self.left.modulus(distance, actions), self.right.modulus(distance, actions)
        return math.hypot(left, right)

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        left = self.left.cell_modulus(widths, actions)
        return math.hypot(left, self.right.cell_modulus(widths, actions))


@dataclass(frozen=True, repr=False)
class Product(_Pair):
    """Product of two kernels: K(x, y) = K₁(x, y) K₂(x, y), Φ = Φ₁ ⊗ Φ₂.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> k, x = kl.Linear() * kl.Gaussian(0.5), np.array([[1.0], [2.0]])
    >>> bool(np.all(k(x) == kl.Linear()(x) * kl.Gaussian(0.5)(x)))
    True
    """

    _join = staticmethod(operator.mul)

    def __repr__(self) -> str:
        left = f"({self.left!r})" if isinstance(self.left, Sum) else repr(self.left)
        simple = not isinstance(self.right, (Sum, Product, Scaled))
        return f"{left} * {self.right!r}" if simple else f"{left} * ({self.right!r})"

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        left = self.left._gradient(X, Y, weights * self.right._gram(X, Y, xp), xp)
        return left + self.right._gradient(X, Y, weights * self.left._gram(X, Y, xp), xp)

    @staticmethod
    def _join_features(left: Array, right: Array, xp: Namespace) -> Array:
        return xp.reshape(left[:, :, None] * right[:, None, :], (left.shape[0], -1))

    def lipschitz(self, actions: ActionSet) -> float:
        return self._combine(actions, self.left.lipschitz(actions), self.right.lipschitz(actions))

    def modulus(self, distance: float, actions: ActionSet) -> float:
        left, right = self.left.modulus(distance, actions), self.right.modulus(distance, actions)
        return self._combine(actions, left, right)

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        left = self.left.cell_modulus(widths, actions)
        return self._combine(actions, left, self.right.cell_modulus(widths, actions))

    def _combine(self, actions: ActionSet, left: float, right: float) -> float:
        # Φ₁(x)⊗Φ₂(x) - Φ₁(y)⊗Φ₂(y) = (Φ₁(x)-Φ₁(y))⊗Φ₂(x) + Φ₁(y)⊗(Φ₂(x)-Φ₂(y))
        terms = (left, self.right.bound(actions)), (right, self.left.bound(actions))
        # Where a factor vanishes on the actions its term does too, even next to an infinite constant.
        return math.fsum(step * math.sqrt(bound) for step, bound in terms if bound > 0)


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """Positive multiple of a kernel: K(x, y) = scale · K₁(x, y), Φ = √scale Φ₁.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> k, x = 2.0 * kl.Linear(), np.array([[1.0], [2.0]])
    >>> k(x).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """

    scale: float
    kernel: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_float("scale", self.scale, positive=True))
        _check_part("kernel", self.kernel)

    def __repr__(self) -> str:
        simple = not isinstance(self.kernel, (Sum, Product, Scaled))
        return f"{self.scale!r} * " + (repr(self.kernel) if simple else f"({self.kernel!r})")

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self.scale * self.kernel._gram(X, Y, xp)

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return self.scale * self.kernel._diagonal(X, xp)

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return self.scale * self.kernel._gradient(X, Y, weights, xp)

    def _features(self, X: Array, xp: Namespace) -> Array:
        return math.sqrt(self.scale) * self.kernel._features(X, xp)

    def feature_dimension(self, dimension: int) -> int | None:
        return self.kernel.feature_dimension(dimension)

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]] | None:
        found = self.kernel.finite_map(points)
        if found is None:
            return None
        size, phi = found
        return size, lambda X: math.sqrt(self.scale) * phi(X)

    def _check_domain(self, name: str, X: Array) -> None:
        self.kernel._check_domain(name, X)

    def _check_actions(self, actions: ActionSet) -> None:
        self.kernel._check_actions(actions)

    def length_scales(self, dimension: int) -> tuple[float, ...] | None:
        return self.kernel.length_scales(dimension)

    def _bound(self, actions: ActionSet) -> float:
        return self.scale * self.kernel.bound(actions)

    def lipschitz(self, actions: ActionSet) -> float:
        return math.sqrt(self.scale) * self.kernel.lipschitz(actions)

    def modulus(self, distance: float, actions: ActionSet) -> float:
        return math.sqrt(self.scale) * self.kernel.modulus(distance, actions)

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        return math.sqrt(self.scale) * self.kernel.cell_modulus(widths, actions)


def _check_part(name: str, part: object) -> None:
    if not isinstance(part, Kernel):
        raise TypeError(f"`{name}` must be a Kernel, got {part!r}")
