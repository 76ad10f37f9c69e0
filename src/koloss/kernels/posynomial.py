"""The posynomial kernel and its losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.core.arrays import (
    LARGEST,
    Array,
    Namespace,
    as_points,
    as_vector,
    frozen,
    matching,
    namespace,
    to_numpy,
    within_floats,
)
from koloss.kernels.base import Kernel, check_dimension, finite
from koloss.kernels.loss import Loss


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

    kernel: Posynomial
    is_one_sided = True
    _coordinates = ("coefficients",)

    def __init__(self, kernel: Posynomial, coefficients: Array) -> None:
        if not isinstance(kernel, Posynomial):
            raise TypeError(f"`kernel` must be a Posynomial, got {type(kernel).__name__}")
        self.kernel = kernel
        size = len(kernel.exponents)
        self.coefficients = frozen(as_vector("coefficients", coefficients, length=size))

    @property
    def dimension(self) -> int:
        return self.kernel.dimension

    @property
    def is_posynomial(self) -> bool:
        """Whether no coefficient is negative."""
        return bool(namespace(self.coefficients).all(self.coefficients >= 0))

    def _evaluate(self, X: Array) -> Array:
        return self.kernel.features(X) @ matching(self.coefficients, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        self.kernel._check_domain("X", X)
        with finite(X, self):
            return self.kernel.expansion_gradient(X, matching(self.coefficients, X))

    def _weights(self) -> NDArray[Any]:
        return to_numpy(self.coefficients)


@dataclass(frozen=True)
class Posynomial(Kernel):
    """Posynomial kernel: K(x, y) = Σ_k Φ(x)_k Φ(y)_k with Φ(x)_k = Π_i x_i^exponents[k, i].

    Losses are Σ_k c_k Φ(a)_k; with non-negative coefficients they are posynomials. A coordinate with a
    negative exponent must be positive, one with a fractional exponent non-negative.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Posynomial([[1, -2], [0.5, 0]]).features([[4.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """

    exponents: tuple[tuple[float, ...], ...]  # from any (m, d) array; row k: powers of monomial k

    loss_family = PosynomialLoss

    def __post_init__(self) -> None:
        table = to_numpy(as_points("exponents", self.exponents, largest=LARGEST)).astype(float)
        object.__setattr__(self, "exponents", tuple(tuple(map(float, row)) for row in table))

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.exponents[0])

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self._features(X, xp) @ self._features(Y, xp).T

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        features = self._features(X, xp)
        return xp.sum(features * features, axis=1)

    def _features(self, X: Array, xp: Namespace) -> Array:
        return _monomials(X, np.asarray(self.exponents), xp)

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return self.expansion_gradient(X, weights @ self._features(Y, xp))

    def expansion_gradient(self, X: Array, coefficients: Array) -> Array:
        """Row i: the gradient of Σ_k coefficients[i, k] Φ(x)_k at x_i."""
        xp, alpha = namespace(X), np.asarray(self.exponents)
        columns = []
        for i in range(self.dimension):
            lowered = np.where(alpha[:, i, None] == 0, 0.0, alpha - np.eye(self.dimension)[i])
            if bool(xp.any(X[:, i] == 0)) and np.any(lowered[:, i] < 0):
                raise ValueError(f"{self!r} has no gradient where coordinate {i} is zero")
            powers = matching(alpha[:, i], X)
            columns.append(xp.sum(coefficients * powers * _monomials(X, lowered, xp), axis=1))
        return xp.stack(columns, axis=1)

    def feature_dimension(self, dimension: int) -> int:
        return len(self.exponents)

    def _check_dimension(self, name: str, dimension: int) -> None:
        check_dimension(name, dimension, self.dimension)

    def _check_domain(self, name: str, X: Array) -> None:
        super()._check_domain(name, X)
        xp, alpha = namespace(X), np.asarray(self.exponents)
        lows = [float(xp.min(X[:, i])) for i in range(self.dimension)]
        for i, rule in _violations(alpha, lows):
            raise ValueError(f"`{name}` must have {rule} numbers in column {i}, got {lows[i]:.6g}")

    def _bound(self, actions: ActionSet) -> float:
        return self._supremum(actions, 2 * np.asarray(self.exponents), np.ones(len(self.exponents)))

    def lipschitz(self, actions: ActionSet) -> float:
        # ‖DΦ‖² ≤ ‖DΦ‖_F² = Σ_ki α_ki² (x^(α_k - e_i))², a posynomial again.
        alpha = np.asarray(self.exponents)
        k, i = np.nonzero(alpha)
        if len(k) == 0:
            return 0.0
        powers = 2 * (alpha[k] - np.eye(self.dimension)[i])
        return math.sqrt(self._supremum(actions, powers, alpha[k, i] ** 2))

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        return bool(np.min(actions.bounds()[0]) >= 0)

    @within_floats("`exponents` and `actions`")
    def _supremum(self, actions: ActionSet, powers: Any, coefficients: NDArray[Any]) -> float:
        """Largest value of a posynomial with even or otherwise admissible powers on an action set.

        On a box it is attained at a corner (it is convex in log x, and in |x| where powers are even); points are
        treated as the box around them. On a ball, where every coordinate takes both signs, the monomials are
        maximised one by one, which is exact for one and an upper bound for several. So they are on the positive
        part of a ball, unless the box around it gives the smaller bound.
        """
        if not isinstance(actions, (Ball, Box, Points, PositiveBall)):
            return super()._bound(actions)  # which refuses
        self._check_actions(actions)
        lower, upper = actions.bounds()
        for i, rule in _violations(np.asarray(self.exponents), lower.tolist()):
            place = repr(actions) if isinstance(actions, Ball) else f"{lower[i]:.6g}"
            raise ValueError(f"`actions` must have {rule} numbers in coordinate {i}, got {place}")
        if np.any((lower <= 0) & np.any(powers < 0, axis=0)):
            raise ValueError(f"`actions` must keep away from zero for {self!r}, got {actions!r}")
        if isinstance(actions, Ball):
            totals = powers.sum(axis=1)
            shares = np.where(powers > 0, powers / np.where(totals > 0, totals, 1)[:, None], 1.0)
            peaks = actions.radius**totals * np.prod(shares ** (powers / 2), axis=1)
            return float(coefficients @ peaks)
        bounds = []
        if isinstance(actions, PositiveBall):
            # Σ p_i log x_i is largest at x_i² = max(lower_i², t p_i) with |x| = radius: the projection of a far point.
            roots = np.sqrt(np.maximum(powers, 0.0))
            sizes = np.linalg.norm(roots, axis=1, keepdims=True)
            peaks = actions.project(actions.radius * roots / np.where(sizes > 0, sizes, 1.0))
            bounds.append(float(coefficients @ np.prod(peaks**powers, axis=1)))
        corners = _corners(lower, upper, powers, most=10 if bounds else 20)
        if corners is not None:
            bounds.append(max(float(coefficients @ np.prod(c**powers, axis=1)) for c in corners))
        if not bounds:
            advice = f"to search for {self!r}; use actions.net(spacing)"
            raise ValueError(f"`actions` has too many corners {advice}")
        return min(bounds)

    def _embed(self, X: Array, weights: Array) -> PosynomialLoss:
        return PosynomialLoss(self, self._features(X, namespace(X)).T @ weights)

    def element(self, coordinates: Array) -> PosynomialLoss:
        return PosynomialLoss(self, as_vector("coordinates", coordinates))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> Loss:
        c = rng.random(len(self.exponents))
        return PosynomialLoss(self, c * (norm / np.linalg.norm(c)))


def _corners(
    lower: NDArray[Any], upper: NDArray[Any], powers: NDArray[Any], *, most: int
) -> Iterator[NDArray[Any]] | None:
    """Corners of a box, in |x|, where a posynomial may be largest; None where more than `most` sides have two ends."""
    small = np.where(lower * upper < 0, 0.0, np.minimum(abs(lower), abs(upper)))
    large = np.maximum(abs(lower), abs(upper))
    falls, rises = np.any(powers < 0, axis=0), np.any(powers > 0, axis=0)
    if np.sum(falls & rises) > most:
        return None
    sides = zip(small, large, falls, rises, strict=True)
    ends = [[s, g] if f and r else [s] if f else [g] for s, g, f, r in sides]
    return map(np.asarray, itertools.product(*ends))


def _monomials(X: Array, exponents: NDArray[Any], xp: Namespace) -> Array:
    """Π_i x_i^exponents[k, i] in column k."""
    product = xp.ones((X.shape[0], exponents.shape[0]), dtype=X.dtype, device=X.device)
    for i in range(X.shape[1]):
        if np.any(exponents[:, i] != 0):
            product = product * X[:, i, None] ** matching(exponents[:, i], X)[None, :]
    return product


def _violations(exponents: NDArray[Any], lows: list[float]) -> list[tuple[int, str]]:
    """Coordinates whose smallest value is outside the domain, with the rule they break."""
    broken = []
    for i, low in enumerate(lows):
        if low <= 0 and np.any(exponents[:, i] < 0):
            broken.append((i, "positive"))
        elif low < 0 and np.any(exponents[:, i] != np.round(exponents[:, i])):
            broken.append((i, "non-negative"))
    return broken
