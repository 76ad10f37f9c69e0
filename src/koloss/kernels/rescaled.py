"""A kernel in coordinates without units, and where that changes nothing of what losses can be (theory B6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Ball, Box
from koloss.core.arrays import Array, Namespace, as_flag, as_float, matching
from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.base import Kernel, check_dimension
from koloss.kernels.dot_product import Linear, Polynomial, Quadratic
from koloss.kernels.posynomial import Posynomial

Maps = Literal["affine", "scaling"]


@dataclass(frozen=True)
class Rescaled(Kernel):
    """A kernel of coordinates from -1 to 1: K(Tx, Ty) with (Tx)_i = 2 (x_i - low_i)/width_i - 1, or x_i/width_i.

    The ends of an interval are mapped to -1 and 1 exactly. A coordinate of width 0 is mapped to 0.

    Examples
    --------
    >>> import koloss as kl
    >>> Rescaled(kl.Linear(), (2000.0,), (26.0,)).features([[2000], [2013], [2026]]).tolist()
    [[-1.0], [0.0], [1.0]]
    """

    kernel: Kernel
    low: tuple[float, ...]
    width: tuple[float, ...]  # ≥ 0
    centred: bool = True  # otherwise coordinates are divided by their widths, and `low` has no say

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {self.kernel!r}")
        for name, least in (("low", -np.inf), ("width", 0.0)):
            given = tuple(as_float(name, x, minimum=least) for x in getattr(self, name))
            object.__setattr__(self, name, given)
        if len(self.low) != len(self.width):
            sizes = f"{len(self.low)} numbers, as `low`, got {len(self.width)}"
            raise ValueError(f"`width` must have {sizes}")
        as_flag("centred", self.centred)

    @property
    def _inverse(self) -> NDArray[np.float64]:
        """Slopes of T."""
        width = np.asarray(self.width)
        inverse = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
        slopes: NDArray[np.float64] = 2 * inverse if self.centred else inverse
        return slopes

    def _mapped(self, X: Array) -> Array:
        """Tx of the rows of X."""
        if not self.centred:
            return X / matching(np.where(np.asarray(self.width) > 0, self.width, 1.0), X)
        varies = np.asarray(self.width) > 0
        width = matching(np.where(varies, self.width, 1.0), X)
        share = (X - matching(np.asarray(self.low), X)) / width
        return (2 * share - 1) * matching(varies.astype(float), X)

    def _image(self, actions: ActionSet) -> ActionSet:
        """A set of actions that holds the image of another."""
        if isinstance(actions, Ball) and not self.centred and len(set(self.width)) == 1:
            return Ball(actions.dimension, actions.radius / self.width[0])
        lower, upper = (self._mapped(np.atleast_2d(end))[0] for end in actions.bounds())
        if isinstance(actions, Ball) and len(set(self.width)) == 1 and np.allclose(lower, -upper):
            return Ball(actions.dimension, float(upper[0]))
        return Box(lower, upper)

    # K(x, y).

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self.kernel._gram(self._mapped(X), self._mapped(Y), xp)

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return self.kernel._diagonal(self._mapped(X), xp)

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        gradient = self.kernel._gradient(self._mapped(X), self._mapped(Y), weights, xp)
        return gradient * matching(self._inverse, X)

    def _features(self, X: Array, xp: Namespace) -> Array:
        return self.kernel._features(self._mapped(X), xp)

    def feature_dimension(self, dimension: int) -> int | None:
        return self.kernel.feature_dimension(dimension)

    # Where it is defined, and how far Φ reaches.

    def _check_dimension(self, name: str, dimension: int) -> None:
        check_dimension(name, dimension, len(self.low))

    def _check_domain(self, name: str, X: Array) -> None:
        super()._check_domain(name, X)
        self.kernel._check_domain(name, self._mapped(X))

    def _check_actions(self, actions: ActionSet) -> None:
        super()._check_actions(actions)
        self.kernel._check_actions(self._image(actions))

    def length_scales(self, dimension: int) -> tuple[float, ...]:
        inner = self.kernel.length_scales(dimension) or (1.0,) * dimension
        slopes = self._inverse
        return tuple(
            length / slope if slope > 0 else length
            for length, slope in zip(inner, slopes.tolist(), strict=True)
        )

    def _bound(self, actions: ActionSet) -> float:
        return self.kernel.bound(self._image(actions))

    def lipschitz(self, actions: ActionSet) -> float:
        return float(self._inverse.max()) * self.kernel.lipschitz(self._image(actions))

    def modulus(self, distance: float, actions: ActionSet) -> float:
        return self.kernel.modulus(float(self._inverse.max()) * distance, self._image(actions))

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        steps = (np.asarray(widths) * self._inverse).tolist()
        return self.kernel.cell_modulus(steps, self._image(actions))

    def _feature_diameter(self, actions: ActionSet) -> float | None:
        return self.kernel._feature_diameter(self._image(actions))

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        return self.kernel._is_nonnegative(self._image(actions))


def closed_under(kernel: Any, *, constant: bool) -> Maps | None:
    """Maps of the coordinates, one by one, that change nothing of what is in the span of the features, as far as is known.

    With the `constant` linear and quadratic functions may be shifted: what a shift leaves over is in the span, too.

    Examples
    --------
    >>> import koloss as kl
    >>> closed_under(kl.Quadratic(), constant=True), closed_under(kl.Quadratic(), constant=False)
    ('affine', 'scaling')
    >>> closed_under(kl.Linear() + kl.Gaussian(0.5), constant=True) is None
    True
    """
    kind = type(kernel)
    if kind in (Linear, Quadratic):
        return "affine" if constant else "scaling"
    if kind is Polynomial:
        return "affine" if kernel.offset > 0 else "scaling"
    if kind is Posynomial:
        return "scaling"
    if kind is Scaled:
        return closed_under(kernel.kernel, constant=constant)
    if kind in (Sum, Product):  # a product is, if each factor is with a constant of its own
        own = constant and kind is Sum
        parts = [closed_under(part, constant=own) for part in (kernel.left, kernel.right)]
        if None in parts:
            return None
        return "affine" if set(parts) == {"affine"} else "scaling"
    return None


def lacks_constant(kernel: Any, dimension: int) -> bool:
    """Whether a kernel has finitely many features, and constants are not known to be in their span.

    Examples
    --------
    >>> import koloss as kl
    >>> lacks_constant(kl.Quadratic(), 2), lacks_constant(kl.Polynomial(2), 2)
    (True, False)
    """
    kind = type(kernel)
    if kind in (Rescaled, Scaled):
        return lacks_constant(kernel.kernel, dimension)
    if kind in (Sum, Product):
        parts = [lacks_constant(part, dimension) for part in (kernel.left, kernel.right)]
        return all(parts) if kind is Sum else any(parts)
    if kind is Polynomial:
        return not kernel.offset > 0
    if kind is Posynomial:
        return bool(np.any(kernel.exponents, axis=1).all())
    size = getattr(kernel, "feature_dimension", lambda _: None)(dimension)
    return size is not None


def rescaled(kernel: Any, lower: Any, upper: Any, *, maps: Maps | None) -> Any:
    """The kernel in coordinates in which a box is [-1, 1] in each, by such maps; itself where there are none, or no width."""
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    if maps is None or not np.isfinite(upper - lower).all():
        return kernel
    if maps == "affine":
        if not (upper > lower).any():
            return kernel
        return Rescaled(kernel, tuple(lower.tolist()), tuple((upper - lower).tolist()))
    largest = np.maximum(np.abs(lower), np.abs(upper))
    width = np.where(largest > 0, largest, 1.0)
    return Rescaled(kernel, (0.0,) * len(width), tuple(width.tolist()), centred=False)
