"""Contexts and actions as they are said: rules for what goes with contexts, and kernels on pairs of a context and an action (theory F6)."""

from __future__ import annotations

import math
import reprlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Contexts, Points
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.kernels import Gaussian, Kernel, Polynomial, Posynomial, Sum
from koloss.kernels.rescaled import lacks_constant
from koloss.proxy import Proxy

if TYPE_CHECKING:
    from koloss.learners.bandit.settings import BanditSettings

Floats = NDArray[np.float64]

MOST_PAIRS = 1_000_000


class Ground(NamedTuple):
    """What a kernel on pairs is made of; settings that have the same will do."""

    actions: Any
    kernel: Any  # of actions, or of pairs
    contexts: Contexts | None
    context_kernel: Any  # theirs, "pairs", or None for what is usual


# What may be said.


def check_contexts(settings: BanditSettings) -> None:
    """Refuse what contexts cannot be played with."""
    check_kinds(settings)
    contexts = settings.contexts
    if contexts is None:
        return
    if contexts.allowed is not None:
        check_columns(settings.actions, contexts.allowed)
    if not settings.several:
        return
    if settings.tuning != "sharp":
        got = f"got {settings.tuning!r}: the paper has no contexts"
        raise ValueError(f"`tuning` must be 'sharp' with several contexts, {got}")
    if isinstance(settings.proxy, Proxy) and settings.context_kernel is not None:
        rule = "must be named where there is a `context_kernel`, which it does not know"
        raise ValueError(f"`proxy` {rule}, got {settings.proxy!r}")
    if settings.shared:
        _check_shared(settings)


def check_kinds(settings: Ground | BanditSettings) -> None:
    """Refuse what are no contexts, and what is no kernel on them."""
    contexts, kernel = settings.contexts, settings.context_kernel
    if contexts is None:
        if kernel is not None:
            value = reprlib.repr(kernel)
            raise ValueError(f"`context_kernel` must be left out without `contexts`, got {value}")
        return
    if not isinstance(contexts, Contexts):
        raise TypeError(f"`contexts` must be Contexts, got {type(contexts).__name__}")
    fits = kernel is None or kernel == "pairs" or (callable(kernel) and hasattr(kernel, "diag"))
    if not fits and not _is_described(kernel):
        rule = "must be a Kernel, or have k(X, Y) and k.diag(X), or be 'pairs'"
        raise TypeError(f"`context_kernel` {rule}, got {reprlib.repr(kernel)}")
    if kernel == "pairs" and not isinstance(settings.actions, Points):
        raise ValueError(
            f"`actions` must be Points where `context_kernel` is 'pairs', got {settings.actions!r}"
        )


def _check_shared(settings: BanditSettings) -> None:
    """Refuse what one learner for all pairs does not play."""
    where = "where contexts share what they learn"
    advice = "without `weights` each has a learner of its own, which plays this"
    if settings.learns_range:
        raise ValueError(f"`loss_range` must be an interval {where}, got 'learn': {advice}")
    for name, played in SHARED.items():
        value = getattr(settings, name)
        if isinstance(value, np.ndarray) or not any(value is a or value == a for a in played):
            rule = f"must be {' or '.join(map(repr, played))} {where}"
            raise ValueError(f"`{name}` {rule}, got {reprlib.repr(value)}: {advice}")


def check_columns(actions: Any, allowed: NDArray[np.bool_]) -> None:
    """Refuse what contexts allow of other actions than these."""
    if not isinstance(actions, Points):
        raise ValueError(
            f"`actions` must be Points where `contexts` allow some of them, got {actions!r}"
        )
    if allowed.shape[1] != len(actions):
        rule = f"must have {len(actions)} columns, one for each action"
        raise ValueError(f"`allowed` of `contexts` {rule}, got {allowed.shape[1]}")


def _is_described(value: Any) -> bool:
    return type(value).__name__ == "Described"  # in a snapshot, for a kernel that it could not hold


SHARED: dict[str, tuple[Any, ...]] = {
    "covariance": ("exact",),
    "regret": ("pseudo",),
    "loss_class": ("general", "rank-one"),
    "outside": ("raise",),
    "shares": (None,),
    "prior": (None,),
    "design": ("john",),
    "exploration_rate": (None,),
    "proxy": (None, "pivoted_cholesky", "kernel_pca"),
}
"""What settings may be where one learner plays all pairs (theory F6): it is made for no others."""


# Kernels.


@kept
class PairKernel:
    """K((c, a), (c', a')) = K_C(c, c') K_A(a, a') on rows that hold a context and then an action; or one kernel for such rows."""

    contexts: Any
    actions: Any
    split: int

    def __init__(self, contexts: Any, actions: Any, split: int) -> None:
        self.contexts, self.actions, self.split = contexts, actions, split

    def __repr__(self) -> str:
        return f"{self.contexts!r} of contexts × {self.actions!r}"

    def __call__(self, X: Any, Y: Any = None) -> Floats:
        X = to_numpy(X)
        Y, k = X if Y is None else to_numpy(Y), self.split
        left = to_numpy(self.contexts(X[:, :k], Y[:, :k]))
        gram: Floats = left * to_numpy(self.actions(X[:, k:], Y[:, k:]))
        return gram

    def diag(self, X: Any) -> Floats:
        """K(z, z) of every row."""
        X, k = to_numpy(X), self.split
        values: Floats = to_numpy(self.contexts.diag(X[:, :k])) * to_numpy(
            self.actions.diag(X[:, k:])
        )
        return values

    def feature_dimension(self, dimension: int) -> int | None:
        """Number of products of a feature of a context and one of an action; None where one kernel has not finitely many."""
        k = self.split
        sizes = (finite_size(self.contexts, k), finite_size(self.actions, dimension - k))
        return None if None in sizes else math.prod(map(int, sizes))  # type: ignore[arg-type]

    def features(self, X: Any) -> Floats:
        """These products."""
        X, k = to_numpy(X), self.split
        left, right = (
            to_numpy(self.contexts.features(X[:, :k])),
            to_numpy(self.actions.features(X[:, k:])),
        )
        products: Floats = (left[:, :, None] * right[:, None, :]).reshape(len(X), -1)
        return products


def finite_size(kernel: Any, dimension: int) -> int | None:
    """Number of features of a kernel; None where it has not finitely many."""
    size: int | None = getattr(kernel, "feature_dimension", lambda _: None)(dimension)
    return size


class Within:
    """A kernel on pairs as one on actions, in one context."""

    def __init__(self, kernel: Any, context: Floats) -> None:
        self.kernel, self.context = kernel, context

    def __repr__(self) -> str:
        return f"{self.kernel!r} in context {self.context.tolist()}"

    def _pairs(self, X: Any) -> Floats:
        X = to_numpy(X)
        return np.column_stack([np.tile(self.context, (len(X), 1)), X])

    def __call__(self, X: Any, Y: Any = None) -> Any:
        return self.kernel(self._pairs(X), self._pairs(X if Y is None else Y))

    def diag(self, X: Any) -> Any:
        """K(z, z) of every row."""
        return self.kernel.diag(self._pairs(X))

    def feature_dimension(self, dimension: int) -> int | None:
        """That of pairs."""
        return finite_size(self.kernel, len(self.context) + dimension)

    def features(self, X: Any) -> Any:
        """Those of pairs."""
        return self.kernel.features(self._pairs(X))


def context_kernel(settings: Ground | BanditSettings) -> Any:
    """The kernel on contexts: by default half of what is learned is common to two labels, and lengths are half the ranges."""
    contexts = settings.contexts
    assert contexts is not None
    if settings.context_kernel is not None:
        return settings.context_kernel
    if contexts.labels is not None:
        return 0.5 * Polynomial(1)  # of unit vectors: 1 and ½
    width = contexts.X.max(axis=0) - contexts.X.min(axis=0)
    return Gaussian(tuple(np.where(width > 0, width / 2, 1.0).tolist()))


def pair_kernel(settings: Ground | BanditSettings) -> Any:
    """The kernel on pairs."""
    assert settings.contexts is not None
    if settings.context_kernel == "pairs":
        return settings.kernel
    kernel, d = settings.kernel, settings.actions.dimension
    if settings.context_kernel is None and lacks_constant(kernel, d):
        kernel = Sum(kernel, Posynomial(((0.0,) * d,)))  # contexts may differ in their level
    return PairKernel(context_kernel(settings), kernel, settings.contexts.dimension)


def pairs_of(contexts: Contexts, points: Points) -> Points:
    """All pairs, those of a context one after the other."""
    X = to_numpy(points.X)
    C, K = len(contexts), len(X)
    if C * K > MOST_PAIRS:
        raise ValueError(
            f"`contexts` must make at most {MOST_PAIRS:,} pairs with the actions, got {C} × {K}"
        )
    slots = contexts.slots(K)
    actions = np.tile(X, (C, 1)) if slots is None else X[slots.ravel()]
    return Points(np.column_stack([np.repeat(contexts.X, K, axis=0), actions]))


def without_contexts(settings: BanditSettings, **others: Any) -> BanditSettings:
    """The same settings for somebody who knows no contexts."""
    return replace(settings, contexts=None, context_kernel=None, **others)


def in_context(settings: BanditSettings, c: int, **others: Any) -> BanditSettings:
    """The settings of a game in one context alone."""
    return without_contexts(settings, kernel=kernel_in(settings, c), **others)


def kernel_in(settings: Ground | BanditSettings, c: int) -> Any:
    """The kernel on actions in one context."""
    contexts, kernel, scale = settings.contexts, settings.kernel, scale_in(settings, c)
    assert contexts is not None
    if scale is None:
        return Within(kernel, contexts.X[c])
    if scale == 1.0:
        return kernel
    return (
        scale * kernel
        if isinstance(kernel, Kernel)
        else Within(pair_kernel(settings), contexts.X[c])
    )


def scale_in(settings: Ground | BanditSettings, c: int) -> float | None:
    """K_C(c, c): the kernel in one context is that of actions but for this factor; None for one kernel on pairs."""
    assert settings.contexts is not None
    if settings.context_kernel is None:
        return 1.0
    if settings.context_kernel == "pairs":
        return None
    return float(to_numpy(settings.context_kernel.diag(settings.contexts.X[c : c + 1]))[0])
