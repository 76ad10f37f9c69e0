"""A kernel on mixed spaces: numbers, choices, and parameters that only matter for some values of others."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from koloss.actions import ActionSet, Choice, Space, SpacePoints
from koloss.core.arrays import Array, Namespace, as_float, take
from koloss.kernels.base import as_scales
from koloss.kernels.distances import squared_distances
from koloss.kernels.stationary import Gaussian, Matern, Normalised, Stationary

KINDS = ("number", "choice", "conditional number", "conditional choice")
"""Kinds of parameters: what can be near or far, what is the same or not; and those that are not always active."""

ROUNDING = 1e-9
"""Share of a distance that rounding may have taken."""


@dataclass(frozen=True)
class Mixed(Normalised):
    """Kernel on the encoded rows of a `Space`: the product K(x, y) = Π_i k_i(x_i, y_i) over its parameters.

    - of a number (`Float`, `Int`, `Ordinal`), on the unit interval: k(u, v) = exp(-(u - v)² / 2 length²), or Matérn;
    - of a `Choice`: k(u, v) = exp(-hamming) where u and v differ, otherwise 1;
    - of a conditional parameter, with k one of these and s = `shared`: 1 where it is inactive (negative) on both sides,
      √s where on one, and s + (1 - s) k(u, v) where on none.

    It is positive semidefinite on all rows. Numbers: Gaussian and Matérn kernels are; choices: exp(-h) 11' + (1 - exp(-h)) I is.
    Conditional: with k(u, v) = ⟨ψ(u), ψ(v)⟩ take Φ = (1, 0) where it is inactive and (√s, √(1 - s) ψ(u)) where it is active. Products of
    such kernels are such kernels.

    The share s of a conditional parameter's influence is what it has in common with runs in which it is not active, whatever
    its value. It cannot be left out: with k itself for active values and any positive constant for mixed pairs the matrix
    is not positive semidefinite, since the space of a Gaussian kernel holds no constant.

    Examples
    --------
    >>> import koloss as kl
    >>> kernel = kl.Mixed(("number", "choice"), lengths=0.5, hamming=1.0)
    >>> kernel([[0.0, 0.0]], [[0.0, 0.0], [0.5, 0.0], [0.0, 1.0]]).round(4).tolist()
    [[1.0, 0.6065, 0.3679]]
    >>> kl.Mixed(["conditional number"])([[-1.0]], [[-1.0], [0.2], [0.9]]).round(4).tolist()
    [[1.0, 0.7071, 0.7071]]
    """

    # A Space, or the kinds of its parameters, words of `KINDS`; of several in a row: those of contexts and actions, say. Kept as words.
    space: Any
    # > 0, of the unit interval: one, or one for each number
    lengths: float | tuple[float, ...] = 0.5
    hamming: float | tuple[float, ...] = 1.0  # > 0: one, or one for each choice
    shared: float = 0.5  # s of conditional parameters, from 0 to 1
    smoothness: float | None = None  # that of a Matérn kernel of each number; None: Gaussian

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "space", kinds_of(self.space))
        for name, kind in (("lengths", "number"), ("hamming", "choice")):
            scales = as_scales(name, getattr(self, name))
            count = sum(word.endswith(kind) for word in self.space)
            if isinstance(scales, tuple) and len(scales) != count:
                rule = f"one number, or one for each {kind} among the parameters, which are {count}"
                raise ValueError(f"`{name}` must be {rule}, got {len(scales)}")
            put(self, name, scales)
        shared = as_float("shared", self.shared, minimum=0.0)
        if shared > 1:
            raise ValueError(f"`shared` must be at most 1, got {shared:.6g}")
        put(self, "shared", shared)
        if self.smoothness is not None:
            put(self, "smoothness", Matern(self.smoothness, 1.0).smoothness)

    # K(x, y).

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        plain = [(i, scale) for i, kind, scale in self._columns() if kind == "number"]
        exponents = []  # of all Gaussian factors, and of choices
        if plain and self.smoothness is None:
            exponents.append(self._squared(X, Y, plain, xp) * 0.5)
        for i, kind, scale in self._columns():
            if kind == "choice":
                exponents.append(scale * self._unequal(X, Y, i, xp))
        factors = [xp.exp(-functools.reduce(operator.add, exponents))] if exponents else []
        if self.smoothness is not None:
            factors += [self._base._profile(self._squared(X, Y, [one], xp), xp) for one in plain]
        for i, kind, scale in self._columns():
            if kind.startswith("conditional"):
                factors.append(self._conditional(X, Y, i, kind, scale, xp))
        return functools.reduce(operator.mul, factors)

    def _squared(self, X: Array, Y: Array, group: list[tuple[int, float]], xp: Namespace) -> Array:
        """Squared distances of some numbers, in units of their lengths."""
        columns, lengths = zip(*group, strict=True)
        X, Y = take(X, columns, axis=1), take(Y, columns, axis=1)
        with np.errstate(over="ignore"):  # k is zero at distances beyond the floating point numbers
            return squared_distances(X, Y, xp, lengths)

    def _unequal(self, X: Array, Y: Array, i: int, xp: Namespace) -> Array:
        return xp.astype(X[:, i, None] != Y[None, :, i], X.dtype)

    def _conditional(
        self, X: Array, Y: Array, i: int, kind: str, scale: float, xp: Namespace
    ) -> Array:
        if kind.endswith("number"):
            k = self._base._profile(self._squared(X, Y, [(i, scale)], xp), xp)
        else:
            k = xp.exp(-scale * self._unequal(X, Y, i, xp))
        x, y = X[:, i, None] >= 0, Y[None, :, i] >= 0
        one = xp.ones_like(k)
        apart = xp.where(x == y, one, one * math.sqrt(self.shared))
        return xp.where(x & y, self.shared + (1 - self.shared) * k, apart)

    # What is known of it.

    @property
    def _base(self) -> Stationary:
        """The kernel of a number in units of its length."""
        return Gaussian(1.0) if self.smoothness is None else Matern(self.smoothness, 1.0)

    def _columns(self) -> Iterator[tuple[int, str, float]]:
        """Of each parameter its column, its kind, and its length or what a difference costs."""
        scales = {"number": self.lengths, "choice": self.hamming}
        each = {
            word: iter(given) if isinstance(given, tuple) else itertools.repeat(given)
            for word, given in scales.items()
        }
        for i, kind in enumerate(self.space):
            yield i, kind, next(each[kind.split()[-1]])

    def rescaled(self, factors: Sequence[float]) -> Mixed:
        """With the length of each parameter times a factor; a choice has 1/√(2 hamming) for one.

        Examples
        --------
        >>> import koloss as kl
        >>> kl.Mixed(("number", "choice")).rescaled((0.5, 2.0))
        Mixed(space=('number', 'choice'), lengths=(0.25,), hamming=(0.25,), shared=0.5, smoothness=None)
        """
        scaled: dict[str, list[float]] = {"number": [], "choice": []}
        for i, kind, scale in self._columns():
            word, f = kind.split()[-1], factors[i]
            scaled[word].append(scale * f if word == "number" else scale / (f * f))
        lengths, hamming = tuple(scaled["number"]), tuple(scaled["choice"])
        return replace(self, lengths=lengths or self.lengths, hamming=hamming or self.hamming)

    def _check_dimension(self, name: str, dimension: int) -> None:
        if dimension != len(self.space):
            rule = f"a column for each of the {len(self.space)} parameters of {self!r}"
            raise ValueError(f"`{name}` must have {rule}, got {dimension}")

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        return True

    def lipschitz(self, actions: ActionSet) -> float:
        self._check_actions(actions)
        if any(kind != "number" for kind in self.space):
            return math.inf  # two choices may be as near as one likes
        # ‖Φ(x) - Φ(y)‖² = 2 - 2K ≤ Λ² Σ_i (x_i - y_i)² / length_i²
        return self._base.lipschitz(actions) / min(length for _, _, length in self._columns())

    def modulus(self, distance: float, actions: ActionSet) -> float:
        distance = as_float("distance", distance, minimum=0.0)
        if self.smoothness is None and all(kind == "number" for kind in self.space):
            # The farthest step is along the shortest length.
            self._check_actions(actions)
            shortest = min(length for _, _, length in self._columns())
            return math.sqrt(2 * self._base._drop(distance / shortest))
        return self.cell_modulus((distance,) * len(self.space), actions)

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        self._check_actions(actions)
        # 1 - Π k_i without cancellation, from the smallest that each k_i can be.
        gaps, parameters = _gaps(actions, len(self.space)), self._columns()
        drops = [
            self._drop(kind, scale, width, gap)
            for (_, kind, scale), width, gap in zip(parameters, widths, gaps, strict=True)
        ]
        if max(drops) >= 1:
            return math.sqrt(2)
        return math.sqrt(-2 * math.expm1(math.fsum(map(math.log1p, (-drop for drop in drops)))))

    def _drop(self, kind: str, scale: float, width: float, gap: float) -> float:
        """Largest 1 - k_i of parameters at most `width` apart; two values are the same, or `gap` apart or more."""
        if width == 0:
            return 0.0
        if kind.endswith("number"):
            drop = self._base._drop(width / scale)
        else:
            drop = -math.expm1(-scale) if width >= gap else 0.0
        if not kind.startswith("conditional"):
            return drop
        near = gap > 0 and width < 1 - ROUNDING  # what is inactive is 1 away
        return max((1 - self.shared) * drop, 0.0 if near else 1 - math.sqrt(self.shared))


def kinds_of(space: Any) -> tuple[str, ...]:
    """Kinds of the parameters of a space, of words for them, or of several of these in a row."""
    if isinstance(space, str):
        if space not in KINDS:
            words = ", ".join(map(repr, KINDS))
            raise ValueError(f"`space` must be a Space, or have words among {words}, got {space!r}")
        return (space,)
    if isinstance(space, Space):
        return tuple(
            ("conditional " if parameter.when else "")
            + ("choice" if type(parameter) is Choice else "number")  # an Ordinal is a number
            for parameter in space.parameters.values()
        )
    if not isinstance(space, Sequence):
        raise TypeError(f"`space` must be a Space, or kinds, got {type(space).__name__}")
    if not space:
        raise ValueError("`space` must have a parameter, got none")
    return tuple(kind for part in space for kind in kinds_of(part))


def _gaps(actions: ActionSet, dimension: int) -> list[float]:
    """How far two values of each parameter are apart at least, or of a continuum its length; 0 where there is no space to ask."""
    space = actions.space if isinstance(actions, SpacePoints) else actions
    if not isinstance(space, Space):
        return [0.0] * dimension
    counts = (parameter.count for parameter in space.parameters.values())
    return [(1 - ROUNDING) / (max(count, 2) - 1 if count else 1) for count in counts]
