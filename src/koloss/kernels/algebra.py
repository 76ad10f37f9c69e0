"""Sums, products and multiples of kernels, which are kernels again."""

from __future__ import annotations

import abc
import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, Namespace, as_float, namespace
from koloss.kernels.base import Kernel


@dataclass(frozen=True, repr=False)
class _Composite(Kernel):
    """A kernel made of others, its parts: how values and features are joined, and how far the feature vector moves."""

    @property
    def _parts(self) -> tuple[Kernel, ...]:
        return tuple(v for v in vars(self).values() if isinstance(v, Kernel))

    @abc.abstractmethod
    def _join(self, *values: Any) -> Any:
        """K, or its supremum, of the parts' values."""

    @abc.abstractmethod
    def _join_features(self, xp: Namespace, *features: Array) -> Array:
        """Φ of the parts' features."""

    def _join_sizes(self, *sizes: int) -> int:
        """Length of Φ, of the lengths of the parts' features."""
        return int(self._join(*sizes))

    @abc.abstractmethod
    def _reach(self, actions: ActionSet, *steps: float) -> float:
        """How far Φ moves where the parts' features move by these steps."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            part = getattr(self, field.name)
            if field.name != "scale" and not isinstance(part, Kernel):
                raise TypeError(f"`{field.name}` must be a Kernel, got {part!r}")

    def _check_domain(self, name: str, X: Array) -> None:
        for part in self._parts:
            part._check_domain(name, X)

    def _check_actions(self, actions: ActionSet) -> None:
        for part in self._parts:
            part._check_actions(actions)

    def length_scales(self, dimension: int) -> tuple[float, ...] | None:
        scales = [part.length_scales(dimension) for part in self._parts]
        known = [lengths for lengths in scales if lengths]
        return tuple(map(min, zip(*known, strict=True))) if known else None

    def _features(self, X: Array, xp: Namespace) -> Array:
        return self._join_features(xp, *(part._features(X, xp) for part in self._parts))

    def feature_dimension(self, dimension: int) -> int | None:
        sizes = [part.feature_dimension(dimension) for part in self._parts]
        return None if None in sizes else self._join_sizes(*sizes)  # type: ignore[arg-type]

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]] | None:
        maps = [part.finite_map(points) for part in self._parts]
        known = [found for found in maps if found]
        if len(known) < len(maps):
            return None

        def phi(X: Array) -> Array:
            return self._join_features(namespace(X), *(part(X) for _, part in known))

        return self._join_sizes(*(size for size, _ in known)), phi

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self._join(*(part._gram(X, Y, xp) for part in self._parts))

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return self._join(*(part._diagonal(X, xp) for part in self._parts))

    def _bound(self, actions: ActionSet) -> float:
        return float(self._join(*(part.bound(actions) for part in self._parts)))

    def lipschitz(self, actions: ActionSet) -> float:
        return self._reach(actions, *(part.lipschitz(actions) for part in self._parts))

    def modulus(self, distance: float, actions: ActionSet) -> float:
        return self._reach(actions, *(part.modulus(distance, actions) for part in self._parts))

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        return self._reach(actions, *(part.cell_modulus(widths, actions) for part in self._parts))


@dataclass(frozen=True, repr=False)
class Sum(_Composite):
    """Sum of two kernels: K(x, y) = K₁(x, y) + K₂(x, y), Φ = (Φ₁, Φ₂).

    Examples
    --------
    >>> import koloss as kl
    >>> (kl.Linear() + kl.White())([[1.0], [2.0]]).tolist()
    [[2.0, 2.0], [2.0, 5.0]]
    """

    left: Kernel
    right: Kernel

    _join = staticmethod(operator.add)

    def __repr__(self) -> str:
        right = f"({self.right!r})" if isinstance(self.right, Sum) else repr(self.right)
        return f"{self.left!r} + {right}"

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return self.left._gradient(X, Y, weights, xp) + self.right._gradient(X, Y, weights, xp)

    def _join_features(self, xp: Namespace, *features: Array) -> Array:
        return xp.concat(features, axis=1)

    def _reach(self, actions: ActionSet, *steps: float) -> float:
        return math.hypot(*steps)


@dataclass(frozen=True, repr=False)
class Product(_Composite):
    """Product of two kernels: K(x, y) = K₁(x, y) K₂(x, y), Φ = Φ₁ ⊗ Φ₂.

    Examples
    --------
    >>> import koloss as kl
    >>> (kl.Linear() * kl.White())([[1.0], [2.0]]).tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    left: Kernel
    right: Kernel

    _join = staticmethod(operator.mul)

    def __repr__(self) -> str:
        left = f"({self.left!r})" if isinstance(self.left, Sum) else repr(self.left)
        return f"{left} * {_factor(self.right)}"

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        left = self.left._gradient(X, Y, weights * self.right._gram(X, Y, xp), xp)
        return left + self.right._gradient(X, Y, weights * self.left._gram(X, Y, xp), xp)

    def _join_features(self, xp: Namespace, *features: Array) -> Array:
        left, right = features
        return xp.reshape(left[:, :, None] * right[:, None, :], (left.shape[0], -1))

    def _reach(self, actions: ActionSet, *steps: float) -> float:
        # Φ₁(x)⊗Φ₂(x) - Φ₁(y)⊗Φ₂(y) = (Φ₁(x)-Φ₁(y))⊗Φ₂(x) + Φ₁(y)⊗(Φ₂(x)-Φ₂(y))
        terms = zip(steps, (self.right.bound(actions), self.left.bound(actions)), strict=True)
        # Where a factor vanishes on the actions its term does too, even next to an infinite constant.
        return math.fsum(step * math.sqrt(bound) for step, bound in terms if bound > 0)


@dataclass(frozen=True, repr=False)
class Scaled(_Composite):
    """Positive multiple of a kernel: K(x, y) = scale · K₁(x, y), Φ = √scale Φ₁.

    Examples
    --------
    >>> import koloss as kl
    >>> (2.0 * kl.Linear())([[1.0], [2.0]]).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """

    scale: float
    kernel: Kernel

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", as_float("scale", self.scale, positive=True))
        super().__post_init__()

    def __repr__(self) -> str:
        return f"{self.scale!r} * {_factor(self.kernel)}"

    def _join(self, *values: Any) -> Any:
        return self.scale * values[0]

    def _join_sizes(self, *sizes: int) -> int:
        return sizes[0]

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return self.scale * self.kernel._gradient(X, Y, weights, xp)

    def _join_features(self, xp: Namespace, *features: Array) -> Array:
        return math.sqrt(self.scale) * features[0]

    def _reach(self, actions: ActionSet, *steps: float) -> float:
        return math.sqrt(self.scale) * steps[0]


def _factor(kernel: Kernel) -> str:
    return f"({kernel!r})" if isinstance(kernel, _Composite) else repr(kernel)
