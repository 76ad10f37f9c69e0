"""Kernels of the inner product x'y, linear, quadratic and polynomial, with linear and quadratic losses."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Ball
from koloss.core.arrays import (
    Array,
    Namespace,
    as_float,
    as_int,
    as_points,
    as_vector,
    frozen,
    matching,
    namespace,
    roundoff,
    take,
    to_numpy,
)
from koloss.kernels.base import Kernel, finite
from koloss.kernels.loss import Loss

LARGEST_DEGREE = 1000
"""Beyond it (x'y + c)^p is nearly always zero or no floating point number."""


class LinearLoss(Loss):
    """Linear loss ℓ(a) = w'a with a vector w of shape (d,), an element of the RKHS of `Linear`.

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.LinearLoss([3.0, 4.0])
    >>> loss([[1.0, 0.0], [0.0, 2.0]]).tolist(), loss.norm()
    ([3.0, 8.0], 5.0)
    """

    is_convex = True
    _coordinates = ("vector",)

    def __init__(self, vector: Array) -> None:
        self.vector = frozen(as_vector("vector", vector))
        if self.dimension == 0:
            raise ValueError("`vector` must not be empty, got length 0")

    @property
    def kernel(self) -> Linear:
        return Linear()

    @property
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _evaluate(self, X: Array) -> Array:
        return X @ matching(self.vector, X)

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        return 0 * X + matching(self.vector, X)

    def quadratic_form(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.zeros((self.dimension, self.dimension)), to_numpy(self.vector)

    def _weights(self) -> NDArray[Any]:
        return to_numpy(self.vector)


class QuadraticLoss(Loss):
    """Quadratic loss ℓ(a) = a'Aa + b'a, an element of the RKHS of `Quadratic`; norm² = ‖A‖_F² + |b|².

    Parameters
    ----------
    matrix : array of shape (d, d)
        A, symmetric; it need not be positive semidefinite.
    vector : array of shape (d,), optional
        b; zero where it is missing.

    Examples
    --------
    >>> import koloss as kl
    >>> saddle = kl.QuadraticLoss([[1.0, 0.0], [0.0, -1.0]], [0.0, 2.0])
    >>> saddle([[1.0, 0.0], [0.0, 1.0]]).tolist(), round(saddle.norm() ** 2, 9)
    ([1.0, 1.0], 6.0)
    """

    _coordinates = ("matrix", "vector")

    def __init__(self, matrix: Array, vector: Array | None = None) -> None:
        matrix = as_points("matrix", matrix)
        xp, d = namespace(matrix), matrix.shape[0]
        if matrix.shape[1] != d:
            raise ValueError(f"`matrix` must be square, got shape {tuple(matrix.shape)}")
        skew, size = float(xp.max(xp.abs(matrix - matrix.T))), float(xp.max(xp.abs(matrix)))
        if skew > max(1e-8, 16 * roundoff(matrix)) * size:
            raise ValueError(f"`matrix` must be symmetric, got entries that differ by {skew:.6g}")
        if vector is None:
            vector = xp.zeros(d, dtype=matrix.dtype, device=matrix.device)
        self.matrix = frozen((matrix + matrix.T) / 2)
        self.vector = frozen(as_vector("vector", vector, length=d, like=matrix))

    @property
    def kernel(self) -> Quadratic:
        return Quadratic()

    @property
    def dimension(self) -> int:
        return int(self.vector.shape[0])

    def _evaluate(self, X: Array) -> Array:
        matrix, vector = matching(self.matrix, X), matching(self.vector, X)
        return namespace(X).sum((X @ matrix) * X, axis=1) + X @ vector

    def gradient(self, X: Array) -> Array:
        X = as_points("X", X, dimension=self.dimension)
        with finite(X, self):
            return 2 * (X @ matching(self.matrix, X)) + matching(self.vector, X)

    def quadratic_form(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return to_numpy(self.matrix), to_numpy(self.vector)

    def _weights(self) -> NDArray[Any]:
        matrix, cross = to_numpy(self.matrix), np.triu_indices(self.dimension, k=1)
        parts = [np.diagonal(matrix), math.sqrt(2) * matrix[cross], to_numpy(self.vector)]
        return np.concatenate(parts)


class DotProduct(Kernel):
    """Kernels K(x, y) = k(x'y) with k, k' and k'' non-negative and increasing."""

    @abc.abstractmethod
    def _profile(self, t: Any) -> Any:
        """k(t), for arrays and for numbers."""

    @abc.abstractmethod
    def _slopes(self, t: Any) -> tuple[Any, Any]:
        """k'(t) and k''(t), for arrays and for numbers."""

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        return self._profile(X @ Y.T)

    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        return self._profile(xp.sum(X * X, axis=1))

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        return (weights * self._slopes(X @ Y.T)[0]) @ Y

    def _bound(self, actions: ActionSet) -> float:
        R = actions.norm_bound()
        return float(self._profile(R * R))

    def lipschitz(self, actions: ActionSet) -> float:
        # ‖∂_u Φ(x)‖² = k'(|x|²)|u|² + k''(|x|²)(x'u)², largest at |x| = R along x.
        R = actions.norm_bound()
        R2 = R * R
        first, second = self._slopes(R2)
        return math.sqrt(first + R2 * second)


@dataclass(frozen=True)
class Linear(DotProduct):
    """Linear kernel: K(x, y) = x'y, Φ(x) = x, losses a ↦ w'a.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Linear()([[1.0, 2.0]], [[3.0, -1.0]]).tolist()
    [[1.0]]
    """

    loss_family = LinearLoss

    def _profile(self, t: Any) -> Any:
        return t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 0 * t + 1.0, 0 * t

    def _features(self, X: Array, xp: Namespace) -> Array:
        return xp.asarray(X, copy=True)

    def feature_dimension(self, dimension: int) -> int:
        return dimension

    def _embed(self, X: Array, weights: Array) -> LinearLoss:
        return LinearLoss(X.T @ weights)

    def element(self, coordinates: Array) -> LinearLoss:
        return LinearLoss(as_vector("coordinates", coordinates))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> LinearLoss:
        w = rng.standard_normal(actions.dimension)
        return LinearLoss(w * (norm / np.linalg.norm(w)))


@dataclass(frozen=True)
class Quadratic(DotProduct):
    """Quadratic kernel: K(x, y) = (x'y)² + x'y, Φ(x) = (xx', x), losses a ↦ a'Aa + b'a.

    The feature vector lists the squares x_i², then √2 x_i x_j for i < j (the √2 makes the Euclidean inner
    product equal to the trace inner product of symmetric matrices), then x itself: d(d + 3)/2 numbers.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Quadratic().features([[1.0, 2.0]]).round(3).tolist()
    [[1.0, 4.0, 2.828, 1.0, 2.0]]
    """

    loss_family = QuadraticLoss

    def _profile(self, t: Any) -> Any:
        return t * t + t

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        return 2 * t + 1.0, 0 * t + 2.0

    def _features(self, X: Array, xp: Namespace) -> Array:
        i, j = np.triu_indices(X.shape[1], k=1)
        cross = take(X, i, axis=1) * take(X, j, axis=1)
        return xp.concat([X * X, math.sqrt(2) * cross, X], axis=1)

    def feature_dimension(self, dimension: int) -> int:
        return dimension * (dimension + 3) // 2

    def _feature_diameter(self, actions: ActionSet) -> float | None:
        if not isinstance(actions, Ball):
            return None
        r = actions.radius
        if actions.dimension >= 2:
            # With |x| = |y| = r and c = x'y: ‖Φ(x) - Φ(y)‖² = 2(r⁴ + r²) - 2c² - 2c, largest at c = -1/2 if it can be.
            c = -min(0.5, r * r)
            return math.sqrt(2 * (r**4 + r**2) - 2 * c * c - 2 * c)
        # On the line x = r and y = -t: (r² - t²)² + (r + t)², stationary at 2t(r - t) = 1.
        inner = (r - math.sqrt(r * r - 2)) / 2 if r * r > 2 else r
        return math.sqrt(max((r * r - t * t) ** 2 + (r + t) ** 2 for t in (r, inner)))

    def _embed(self, X: Array, weights: Array) -> QuadraticLoss:
        matrix = (X * weights[:, None]).T @ X
        return QuadraticLoss((matrix + matrix.T) / 2, X.T @ weights)

    def element(self, coordinates: Array) -> QuadraticLoss:
        coordinates = as_vector("coordinates", coordinates)
        m = coordinates.shape[0]
        d = (math.isqrt(9 + 8 * m) - 3) // 2
        if d == 0 or self.feature_dimension(d) != m:
            raise ValueError(f"`coordinates` must have length d(d + 3)/2 for some d, got {m}")
        w = to_numpy(coordinates)
        matrix, (i, j) = np.diag(w[:d]), np.triu_indices(d, k=1)
        matrix[i, j] = matrix[j, i] = w[d:-d] / math.sqrt(2)
        return QuadraticLoss(matching(matrix, coordinates), matching(w[-d:], coordinates))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> Loss:
        d = actions.dimension
        A = rng.standard_normal((d, d))
        x = np.append((A + A.T) / 2, rng.standard_normal(d))  # ‖w‖² = ‖A‖² + |b|²
        x = x * (norm / np.linalg.norm(x))
        return QuadraticLoss(x[: d * d].reshape(d, d), x[d * d :])


@dataclass(frozen=True)
class Polynomial(DotProduct):
    """Polynomial kernel: K(x, y) = (x'y + c)^p with degree p and offset c.

    The feature of the monomial x^α is √(p! / (α₁!⋯α_d! (p - |α|)!) c^(p-|α|)) x^α: one for every α with
    |α| ≤ p, or |α| = p where the offset is zero.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Polynomial(2).features([[1.0, 2.0]]).round(3).tolist()
    [[1.0, 1.414, 2.828, 1.0, 2.828, 4.0]]
    """

    degree: int  # p, from 1 to 1,000
    offset: float = 1.0  # c ≥ 0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "degree", as_int("degree", self.degree, minimum=1, maximum=LARGEST_DEGREE)
        )
        object.__setattr__(self, "offset", as_float("offset", self.offset, minimum=0.0))

    def _profile(self, t: Any) -> Any:
        return (t + self.offset) ** self.degree

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        p, u = self.degree, t + self.offset
        second = 0 * u if p == 1 else p * (p - 1) * u ** (p - 2)
        return p * u ** (p - 1), second

    def _features(self, X: Array, xp: Namespace) -> Array:
        p, c = self.degree, self.offset
        block, columns = xp.ones_like(X[:, :1]), []
        index: dict[tuple[int, ...], int] = {}
        for total in range(p + 1):
            names = list(combinations_with_replacement(range(X.shape[1]), total))
            if total > 0:  # every monomial is one of degree one less, times one coordinate
                parents, last = [index[name[:-1]] for name in names], [name[-1] for name in names]
                block = take(block, parents, axis=1) * take(X, last, axis=1)
            index = {name: k for k, name in enumerate(names)}
            if c > 0 or total == p:
                scales = np.sqrt([_multinomial(p, name) * c ** (p - total) for name in names])
                columns.append(block * matching(scales, X))
        return xp.concat(columns, axis=1)

    def feature_dimension(self, dimension: int) -> int:
        extra = 1 if self.offset > 0 else 0
        return math.comb(dimension + self.degree - 1 + extra, self.degree)


def _multinomial(p: int, name: tuple[int, ...]) -> float:
    """p! / (α₁!⋯α_d! (p - |α|)!) for the monomial whose variables, with repeats, are `name`."""
    counts = [name.count(i) for i in set(name)] + [p - len(name)]
    return math.factorial(p) / math.prod(math.factorial(k) for k in counts)
