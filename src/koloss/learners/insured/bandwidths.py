"""The prior of a kernel at other bandwidths, on features that stay what they are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from koloss.core.arrays import to_numpy
from koloss.core.device import DeviceFeatures
from koloss.core.snapshot import Matrix, kept
from koloss.kernels import Mixed, Periodic
from koloss.kernels.algebra import Product, Scaled, Sum
from koloss.kernels.stationary import Stationary
from koloss.learners.bandit.pairs import PairKernel
from koloss.learners.bandit.points import PointsEngine

Key = tuple[int, ...]  # for each coordinate, how many times its bandwidth is doubled

DOUBLED, HALVED = 2, 3
"""How many times at most."""

DOUBT, PRECAUTION = 3.0, 1.0
"""Logarithm of the prior odds against a bandwidth twice or half as large as a kernel's own; and as the narrowest of several."""

CONSTANT = 100.0
"""Prior variance of a constant added to all losses, over that of the kernel."""

RICHEST, NARROWEST, CAPTURED = 64, 5, 0.9
"""With `kernel="auto"` forecasts have so many features, of a bandwidth halved so many times, if they hold this share of its trace."""

LANDMARKS = 400
"""Actions from which they are made."""

COORDINATES = 3
"""Most coordinates for which bandwidths are learned one by one."""


def at_bandwidth(kernel: Any, factors: Sequence[float]) -> Any:
    """The kernel with the bandwidth of each coordinate times a factor; None where it has no bandwidths.

    Examples
    --------
    >>> import koloss as kl
    >>> at_bandwidth(0.5 * kl.Gaussian(0.3) + kl.Linear(), (2.0,))
    0.5 * Gaussian(bandwidth=(0.6,)) + Linear()
    >>> at_bandwidth(kl.Linear(), (2.0,)) is None
    True
    """
    if isinstance(kernel, Stationary):
        lengths = kernel.length_scales(len(factors))
        scaled = tuple(length * f for length, f in zip(lengths, factors, strict=True))
        return replace(kernel, **{kernel._length: scaled})  # type: ignore[type-var]
    if isinstance(kernel, Mixed):
        return kernel.rescaled(factors)
    if isinstance(kernel, Periodic):
        return replace(kernel, lengthscale=kernel.lengthscale * min(factors))  # one for all
    if isinstance(kernel, Scaled):
        inner = at_bandwidth(kernel.kernel, factors)
        return None if inner is None else Scaled(kernel.scale, inner)
    if isinstance(kernel, PairKernel):
        k = kernel.split
        of_contexts = at_bandwidth(kernel.contexts, factors[:k])
        of_actions = at_bandwidth(kernel.actions, factors[k:])
        if of_contexts is None and of_actions is None:
            return None
        return PairKernel(of_contexts or kernel.contexts, of_actions or kernel.actions, k)
    if isinstance(kernel, (Sum, Product)):
        left, right = (at_bandwidth(part, factors) for part in (kernel.left, kernel.right))
        if left is None and right is None:
            return None
        return type(kernel)(left or kernel.left, right or kernel.right)
    return None


def at_key(kernel: Any, key: Key) -> Any:
    """The kernel with the bandwidth of each coordinate doubled so many times."""
    return at_bandwidth(kernel, [2.0**k for k in key]) if any(key) else kernel


def ladder(kernel: Any) -> tuple[Any, int]:
    """The kernel whose bandwidth is learned, and how often it may be halved.

    Of a sum of Gaussian or mixed kernels, as `kernel="auto"` makes it, the first, which is the widest.
    """
    parts = _parts(kernel)
    if len(parts) > 1 and all(
        isinstance(p, Scaled) and isinstance(p.kernel, (Stationary, Mixed)) for p in parts
    ):
        return parts[0].kernel, max(len(parts), HALVED)
    return kernel, HALVED


def _parts(kernel: Any) -> list[Any]:
    return [*_parts(kernel.left), *_parts(kernel.right)] if isinstance(kernel, Sum) else [kernel]


@kept
class Priors:
    """Prior covariances P of θ for losses θ'ψ, as roots: P = RR'.

    With a left inverse W' of Ψ on some actions and K = ΨPΨ' on them, P = W'KW. K is the kernel at a bandwidth, scaled to 1, and a
    constant.
    """

    points: Matrix  # some actions, ...
    inverse: Matrix  # ... and W
    dimension: int
    kernel: Any
    halved: int
    doubt: float
    start: Key

    def __init__(self, kernel: Any, points: Any, inverse: Any, halved: int | None = None) -> None:
        self.points, self.inverse = points, inverse
        self.dimension = points.shape[1]
        self.kernel, self.halved = ladder(kernel)
        if halved is not None:
            self.halved = halved
        start, self.doubt = (0, DOUBT) if self.kernel is kernel else (-self.halved, PRECAUTION)
        self.start = (start,) * self.dimension
        self._restored()

    def _restored(self) -> None:
        self._roots: dict[Key, Any] = {}

    @classmethod
    def of(cls, kernel: Any, engine: PointsEngine) -> Self:
        """For the features of a game: Σ(π) = I, so that W = ΠΦ on the support of π."""
        support = np.flatnonzero(engine.weights)
        inverse = engine.features[support] * engine.weights[support, None]
        return cls(kernel, engine.points[support], inverse)

    @classmethod
    def identity(cls, size: int) -> Self:
        """P = I alone."""
        priors = cls(None, np.zeros((0, 1)), np.zeros((0, size)))
        priors.keep(priors.start, np.eye(size, order="F"))
        return priors

    def keys(self, near: Key) -> list[Key]:
        """Bandwidths to compare: all with one coordinate; else one step for all coordinates, or for one of few.

        Of pairs, for those of contexts, or of actions.
        """
        d = self.dimension
        if at_bandwidth(self.kernel, (1.0,) * d) is None:
            return [self.start]
        if d == 1:
            return [(k,) for k in range(-self.halved, DOUBLED + 1)]
        steps = [np.ones(d, dtype=int), *(np.eye(d, dtype=int) if d <= COORDINATES else ())]
        if isinstance(self.kernel, PairKernel) and d > COORDINATES:
            contexts = (np.arange(d) < self.kernel.split).astype(int)
            steps += [contexts, 1 - contexts]
        keys = {near: None}
        for step, sign in itertools.product(steps, (1, -1)):
            moved = np.clip(near + sign * step, -self.halved, DOUBLED)
            keys[tuple(moved.tolist())] = None
        return list(keys)

    def odds(self, key: Key, likeliest: Key) -> float:
        """Logarithm of the prior odds against a bandwidth: steps from the likeliest one, more where coordinates differ in them."""
        steps = [k - s for k, s in zip(key, likeliest, strict=True)]
        return self.doubt * (max(map(abs, steps)) + 0.5 * (max(steps) - min(steps)))

    def keep(self, key: Key, root: Any) -> None:
        """R of a bandwidth, from a snapshot: a kernel of the user's may not be there."""
        self._roots[key] = root

    def root(self, key: Key) -> Any:
        """R of a bandwidth."""
        if key not in self._roots:
            X, W = self.points, self.inverse
            K = to_numpy(at_key(self.kernel, key)(X, X))
            P = W.T @ (K / max(float(np.max(np.diag(K))), 1e-300) + CONSTANT) @ W
            eigenvalues, vectors = np.linalg.eigh((P + P.T) / 2)
            root = vectors * np.sqrt(np.maximum(eigenvalues, 1e-12 * max(eigenvalues[-1], 0.0)))
            self._roots[key] = np.asfortranarray(root)
        return self._roots[key]


def narrower(kernel: Any, engine: PointsEngine) -> tuple[Any, int] | None:
    """Features for forecasts beside those of the game, and how often their bandwidth is halved; None but for a sum of kernels.

    A game's features hold what can be insured in its rounds; a policy may look for more. These are orthogonal under π, so that what is
    forecast by the game's own is the projection of the forecast onto their span.
    """
    first, _ = ladder(kernel)
    pi, X = engine.weights, engine.points
    (N, m), d = engine.features.shape, X.shape[1]
    if first is kernel or m >= min(RICHEST, N):
        return None
    Phi = np.asarray(engine.features, dtype=np.float64)
    even = _landmarks(N)
    Z = X[even]
    for halved in range(NARROWEST, 0, -1):
        narrow = at_bandwidth(first, (0.5**halved,) * d)
        values, vectors = np.linalg.eigh(to_numpy(narrow(Z, Z)))
        values, vectors = values[: -RICHEST - 1 : -1], vectors[:, : -RICHEST - 1 : -1]
        if values.sum() >= CAPTURED * len(Z):
            break
    kept = values > 1e-6 * values[0]
    extra = to_numpy(narrow(X, Z)) @ (vectors[:, kept] * (math.sqrt(len(Z)) / values[kept]))
    extra -= Phi @ (Phi.T @ (pi[:, None] * extra))
    _, sizes, axes = np.linalg.svd(extra[even], full_matrices=False)
    count = min(int(np.sum(sizes > 0.01 * math.sqrt(len(Z)))), RICHEST - m)
    return extra @ (axes[:count].T * (math.sqrt(len(Z)) / sizes[:count])), halved


def _landmarks(actions: int) -> Any:
    return np.linspace(0, actions - 1, min(actions, LANDMARKS)).astype(int)


def forecast_space(
    kernel: Any, engine: PointsEngine, more: tuple[Any, int] | None
) -> tuple[Any, Priors]:
    """Features of forecasts, and their priors: those of the game, and what `narrower` adds."""
    if more is None:
        return engine.features, Priors.of(kernel, engine)
    extra, halved = more
    own: Any = engine.features
    features: Any = np.column_stack([np.asarray(own, dtype=np.float64), extra])
    features = (
        own.placed(features) if isinstance(own, DeviceFeatures) else np.asfortranarray(features)
    )
    rows = np.union1d(_landmarks(len(features)), np.flatnonzero(engine.weights))
    inverse = np.linalg.pinv(features[rows]).T
    return features, Priors(kernel, engine.points[rows], inverse, halved)
