"""What every kernel can do, and the small protocol that a kernel of the user's own must meet.

A kernel is a positive semidefinite function K(x, y) = ⟨Φ(x), Φ(y)⟩. A subclass says what K(x, y) is
(`_gram`, `_diagonal`, `_gradient`); this class checks the arguments and does everything else.
"""

from __future__ import annotations

import abc
import contextlib
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.core.arrays import (
    Array,
    Namespace,
    as_array,
    as_float,
    as_points,
    as_size,
    as_vector,
    matching,
    namespace,
    to_numpy,
)
from koloss.core.plain import Plain
from koloss.errors import NoFiniteFeatures

if TYPE_CHECKING:
    from koloss.kernels.loss import Loss


@runtime_checkable
class KernelLike(Protocol):
    """All that proxies and designs need of a kernel: Gram matrices and their diagonal.

    Any object with these two methods will do. Subclass `Kernel` instead to have sums, products, losses
    and nets as well.
    """

    def __call__(self, X: Array, Y: Array | None = None, /) -> Array:
        """Gram matrix of shape (len(X), len(Y)); Y = X where it is missing."""

    def diag(self, X: Array, /) -> Array:
        """K(x, x) for every row of X."""


class Kernel(Plain, abc.ABC):
    """Base of all kernels: checks, algebra, and what can be derived from K(x, y).

    A kernel is a frozen dataclass: it compares by value, can be a dictionary's key, and its `repr` reads
    back. A subclass needs `_gram` and `_diagonal`; the rest is optional.
    """

    __array_ufunc__ = None  # NumPy leaves `number * kernel` to `__rmul__`

    # What a subclass says.

    @abc.abstractmethod
    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        """Gram matrix of two checked arrays."""

    @abc.abstractmethod
    def _diagonal(self, X: Array, xp: Namespace) -> Array:
        """K(x, x) for the rows of a checked array."""

    def _gradient(self, X: Array, Y: Array, weights: Array, xp: Namespace) -> Array:
        """Row i: Σ_j weights[i, j] ∂K(x_i, y_j)/∂x_i."""
        raise TypeError(f"{self!r} has no gradient")

    def _features(self, X: Array, xp: Namespace) -> Array:
        """Finite feature map of a checked array."""
        advice = "build one with kernel_pca or pivoted_cholesky"
        raise NoFiniteFeatures(f"{self!r} has no finite feature map; {advice}")

    def feature_dimension(self, dimension: int) -> int | None:
        """Length of the feature vector of a point with `dimension` coordinates; None where it is infinite."""
        return None

    def _check_dimension(self, name: str, dimension: int) -> None:
        """Refuse a number of coordinates for which the kernel is not defined; by default it is for any."""

    def _check_domain(self, name: str, X: Array) -> None:
        """Refuse points where the kernel is not defined; by default it is defined everywhere."""
        self._check_dimension(name, X.shape[1])

    def _check_actions(self, actions: ActionSet) -> None:
        """Refuse sets of actions on which the kernel is not defined; by default it is defined on all."""
        self._check_dimension("actions", actions.dimension)

    def length_scales(self, dimension: int) -> tuple[float, ...] | None:
        """Length on which K varies along each coordinate; None where the kernel has none.

        A net of a box is laid in these units.
        """
        return None

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]] | None:
        """Number of features on a finite set and the map to them; None where there is no finite one.

        The map is that of `features`, unless the kernel has a finite one on a finite set alone.
        """
        size = self.feature_dimension(points.dimension)
        return None if size is None else (size, self.features)

    def _bound(self, actions: ActionSet) -> float:
        """Supremum of K(a, a) over a compact set."""
        where = f"{actions!r}; use actions.net(spacing)"
        raise TypeError(f"{self!r} has no closed-form bound on {where}")

    def _feature_diameter(self, actions: ActionSet) -> float | None:
        """Largest ‖Φ(x) - Φ(y)‖ over the actions, where there is a closed form."""
        return None

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        """Whether no K(x, y) can be negative on the actions, as far as is known."""
        return False

    # What follows from it.

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        """Gram matrix K(x_i, y_j), of shape (len(X), len(Y)); Y = X where it is missing."""
        X, Y = self._pair(X, Y)
        with finite(X, self):
            return self._gram(X, Y, namespace(X))

    def diag(self, X: Array) -> Array:
        """K(x, x) for every row of X, without the Gram matrix."""
        X = self._points("X", X)
        with finite(X, self):
            return self._diagonal(X, namespace(X))

    def features(self, X: Array) -> Array:
        """Exact feature map: `features(X) @ features(Y).T == K(X, Y)`.

        `NoFiniteFeatures` is raised where the feature space is not of finite dimension.
        """
        X = self._points("X", X)
        with finite(X, self):
            return self._features(X, namespace(X))

    def gradient(self, X: Array, Y: Array | None = None, weights: Array | None = None) -> Array:
        """Gradient of K in its first argument, of shape (n, p, d), or (n, d) with weights.

        Weights of shape (p,) or (n, p) sum over the second argument, Σ_j w_j ∂K(x_i, y_j)/∂x_i: the gradient of
        a kernel expansion, for the price of two matrix products.
        """
        X, Y = self._pair(X, Y)
        xp = namespace(X)
        n, p = X.shape[0], Y.shape[0]
        if weights is None:
            one = xp.ones_like(X[:, :1])
            with finite(X, self):
                columns = [self._gradient(X, Y[j : j + 1, :], one, xp) for j in range(p)]
            return xp.stack(columns, axis=1)
        weights = as_array("weights", weights, ndim=_axes(weights), like=X)
        if tuple(weights.shape) not in ((p,), (n, p)):
            shape = tuple(weights.shape)
            raise ValueError(f"`weights` must have shape ({p},) or ({n}, {p}), got {shape}")
        with finite(X, self):
            return self._gradient(X, Y, xp.broadcast_to(weights, (n, p)), xp)

    def bound(self, actions: ActionSet) -> float:
        """Supremum of K(a, a) over the actions: the 𝒢² of the paper.

        The maximum on points, a closed form on balls and boxes. For sums and products on balls and boxes
        the parts' suprema are combined: exact where they are attained at one point, an upper bound
        otherwise.
        """
        if isinstance(actions, Points):
            return float(namespace(actions.X).max(self.diag(actions.X)))
        self._check_actions(actions)
        return self._bound(actions)

    def lipschitz(self, actions: ActionSet) -> float:
        """Λ with ‖Φ(x) - Φ(y)‖ ≤ Λ‖x - y‖ for all actions x and y; infinite where there is none.

        A loss with RKHS norm G then is ΛG-Lipschitz.
        """
        raise TypeError(f"{self!r} has no Lipschitz constant on {actions!r}")

    def modulus(self, distance: float, actions: ActionSet) -> float:
        """Largest ‖Φ(x) - Φ(y)‖ over points of the actions at most `distance` apart (an upper bound)."""
        distance = as_float("distance", distance, minimum=0.0)
        return self.lipschitz(actions) * distance if distance > 0 else 0.0

    def cell_modulus(self, widths: Sequence[float], actions: ActionSet) -> float:
        """Largest ‖Φ(x) - Φ(y)‖ over actions at most `widths[i]` apart along coordinate i (an upper bound)."""
        return self.modulus(math.hypot(*widths), actions)

    # Losses: elements of the RKHS, in the form of `loss_family`.

    @property
    def loss_family(self) -> type[Loss]:
        """Class of the losses in its RKHS: `KernelLoss`, unless the kernel has a form of its own."""
        from koloss.kernels.loss import KernelLoss

        return KernelLoss

    def embed(self, points: Array, weights: Array | None = None) -> Loss:
        """Element Σ_i w_i Φ(x_i) of points in rows, or of a single point; the weights are ones where they are missing."""
        if _axes(points) == 1:
            points = as_vector("points", points)[None, :]
        X = self._points("points", points)
        if weights is None:
            weights = namespace(X).ones(X.shape[0], dtype=X.dtype, device=X.device)
        weights = as_vector("weights", weights, length=X.shape[0], like=X)
        with finite(X, self):
            return self._embed(X, weights)

    def _embed(self, X: Array, weights: Array) -> Loss:
        return self.loss_family(self, X, weights)  # type: ignore[call-arg]

    def element(self, coordinates: Array) -> Loss:
        """Element with these coordinates in the features: its values are `features(X) @ coordinates`."""
        raise TypeError(f"{self!r} has no losses by coordinates; use embed(points, weights)")

    def bump(self, point: Array, norm: float = 1.0) -> Loss:
        """Φ(point), scaled to a norm; with a negative `norm` its negative."""
        loss = self.embed(point)
        known = loss.is_expansion  # its norm is, with less rounding
        size = math.sqrt(float(self.diag(loss.landmarks())[0])) if known else loss.norm()
        return loss * (norm / size if size > 0 else math.copysign(1.0, norm))

    def random_loss(self, actions: ActionSet, norm: float, rng: np.random.Generator) -> Loss:
        """A random element of this norm: a direction where there are coordinates, else ± a bump at an action."""
        point = to_numpy(actions.sample(1, rng))[0]
        return self.bump(point, norm * float(rng.choice([-1.0, 1.0])))

    def own_loss(self, loss: Loss) -> Loss:
        """A loss of this kernel's RKHS in the kernel's own form; others are refused."""
        if loss.kernel == self:
            loss = loss.own_form()
        family = self.loss_family
        if not isinstance(loss, family):
            kind = type(loss).__name__
            raise TypeError(f"`loss` must be a {family.__name__} for {self!r}, got {kind}")
        if loss.kernel != self:
            raise ValueError(f"`loss` must be one of {self!r}, got one of {loss.kernel!r}")
        return loss

    # Algebra.

    def __add__(self, other: object) -> Kernel:
        from koloss.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # for sum()

    def __mul__(self, other: object) -> Kernel:
        from koloss.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(other, self) if isinstance(other, numbers.Real) else NotImplemented  # type: ignore[arg-type]

    def __rmul__(self, other: object) -> Kernel:
        return self * other

    # Checks.

    def _points(self, name: str, X: Array) -> Array:
        X = as_points(name, X)
        self._check_domain(name, X)
        return X

    def _pair(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        X = self._points("X", X)
        if Y is None:
            return X, X
        Y = matching(self._points("Y", Y), X)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"`Y` must have {X.shape[1]} columns as `X` has, got {Y.shape[1]}")
        return X, Y


@contextlib.contextmanager
def finite(X: Array, function: object) -> Iterator[None]:
    """Refuse points at which a kernel or a loss is beyond every floating point number."""
    try:
        with np.errstate(over="raise", invalid="raise"):
            yield
    except (FloatingPointError, OverflowError) as error:
        size = float(namespace(X).max(namespace(X).abs(X)))
        rule = f"must be smaller in size: {function!r} has no finite values there"
        raise ValueError(f"`X` {rule}, got {size:.6g}") from error


def check_dimension(name: str, dimension: int, expected: int) -> None:
    """Refuse points, or actions, with another number of coordinates."""
    if dimension != expected:
        what = "coordinates" if name == "actions" else "columns"
        raise ValueError(f"`{name}` must have {expected} {what}, got {dimension}")


def as_scales(name: str, value: Any) -> float | tuple[float, ...]:
    """One positive length, or a tuple with one for each coordinate."""
    if _axes(value) == 0:
        return as_scale(name, value)
    lengths = to_numpy(as_vector(name, value)).tolist()
    if not lengths:
        raise ValueError(f"`{name}` must not be empty, got length 0")
    given = value if isinstance(value, (list, tuple)) else lengths  # True is not a length
    return tuple(as_scale(name, length) for length in given)


def as_scale(name: str, value: Any) -> float:
    """Positive length whose square and its inverse are still numbers."""
    return as_size(name, value, smallest=1e-150, largest=1e150)


def _axes(value: Any) -> int:
    """Number of axes of an array or of nested lists; 1 where that makes no sense."""
    try:
        return int(value.ndim if hasattr(value, "ndim") else np.ndim(value))
    except ValueError:
        return 1
