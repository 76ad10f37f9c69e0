"""Predicting the next loss of every action: kernel ridge regressions that forget, and the choice between them.

Each regression has the kernel's prior, a noise of variance `ridge`, and weighs a loss heard k rounds ago by discount^k.
The one that has predicted best of late is trusted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dgemv, dsymm, dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from koloss._arrays import to_numpy
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.reading import SMALLEST, Reader

FADED = 2.0
"""A discount makes the prior fade with the data; the prior is restored when it has lost this factor."""

MEMORY = 0.98
"""How fast old errors are forgotten when regressions are compared."""

HANDICAP = 1.05
"""A regression is trusted only if its errors are smaller by this factor than those of the one before it in the list."""


FORECASTS = ((1.0, 0.05), (1.0, 0.5), (0.98, 0.05), (0.9, 0.05))
"""Discount and ridge of the regressions that the insured learner compares."""


class Forecaster:
    """Discounted ridge regressions on features, each loss a rank-one step: O(m²) for each, O(Nm) for the actions.

    Examples
    --------
    >>> import numpy as np
    >>> forecaster = Forecaster(np.eye(2), discounts=(1.0,), ridge=0.25)
    >>> forecaster.update(0, 1.0)
    >>> forecaster.mean.tolist(), forecaster.deviation.round(3).tolist()
    ([0.8, 0.0], [0.447, 1.0])
    """

    def __init__(
        self,
        features: Any,  # (N, m), of prior covariance I: features @ features.T is the kernel
        *,
        discounts: Sequence[float] = (1.0, 0.99, 0.97, 0.9),  # one per regression; 1 never forgets
        ridge: float | Sequence[float] = 0.05,  # variance of the noise
    ) -> None:
        self.features = np.asfortranarray(features)
        self.discounts = np.asarray(discounts, dtype=float)
        self.ridge = np.broadcast_to(np.asarray(ridge, dtype=float), self.discounts.shape).copy()
        K, m = len(self.discounts), features.shape[1]
        # Posterior covariances over `scale`, of which lower triangles are kept, and means.
        self.covariances = [np.eye(m, order="F") for _ in range(K)]
        self.means = [np.zeros(m) for _ in range(K)]
        self.scale = [1.0] * K
        self.errors = [0.0] * K  # recent squared errors
        self.trusted = 0
        self.terms = [
            (float(d), float(r), HANDICAP**k)
            for k, (d, r) in enumerate(zip(self.discounts, self.ridge, strict=True))
        ]
        self._mean: Any = np.zeros(len(features))
        self._variance: Any = None
        self.version = 0  # changes with the regression that is trusted, but for its updates

    def update(self, index: int, value: float) -> None:
        """Learn from the loss of an action."""
        phi, trusted = self.features[index].copy(), self.trusted
        scales, errors, best, least = self.scale, self.errors, 0, math.inf
        for k, (discount, ridge, handicap) in enumerate(self.terms):
            C, theta, scale = self.covariances[k], self.means[k], scales[k]
            u = dsymv(1.0, C, phi, lower=1)
            error = value - ddot(theta, phi)
            gain = scale / (ridge + scale * ddot(u, phi))
            dsyr(-gain, u, lower=1, a=C, overwrite_a=1)
            daxpy(u, theta, a=gain * error)
            errors[k] = MEMORY * errors[k] + error * error
            if errors[k] * handicap < least:
                best, least = k, errors[k] * handicap
            if k == trusted:
                moved = dgemv(1.0, self.features, u)
                self._mean = self._mean + gain * error * moved
                if self._variance is not None:
                    moved *= moved
                    moved *= gain
                    self._variance -= moved
            scales[k] = scale / discount
            if scales[k] > FADED:
                self._restore_prior(k)
        if best != self.trusted:
            self.trusted = best
            self._refresh()

    def rescale(self, factor: float) -> None:
        """As if all losses had been so many times as large."""
        self.means = [theta * factor for theta in self.means]
        self.errors = [error * factor**2 for error in self.errors]
        self._mean = self._mean * factor

    def _refresh(self) -> None:
        """Recompute the predicted losses; their variance is computed when it is needed."""
        self._mean, self._variance = self.features @ self.weights, None
        self.version += 1

    def _restore_prior(self, k: int) -> None:
        """Add what is missing of the prior's precision: (C⁻¹ + sI)⁻¹ = (I - (I + sC)⁻¹)/s."""
        scale, m = self.scale[k], len(self.means[k])
        s = 1 - 1 / scale
        factor = (s * scale) * self.covariances[k]
        diagonal = factor.ravel(order="K")[:: m + 1]
        diagonal += 1
        factor, _ = dpotrf(factor, lower=1, overwrite_a=1)
        self.means[k], _ = dpotrs(factor, self.means[k], lower=1)
        inverse, _ = dpotri(factor, lower=1)
        inverse *= -1 / s
        diagonal = inverse.ravel(order="K")[:: m + 1]
        diagonal += 1 / s
        self.covariances[k], self.scale[k] = inverse, 1.0
        if k == self.trusted:
            self._refresh()

    @property
    def covariance(self) -> Any:
        """Posterior covariance of θ of the regression that is trusted."""
        lower = np.tril(self.covariances[self.trusted]) * self.scale[self.trusted]
        return lower + np.tril(lower, -1).T

    @property
    def weights(self) -> Any:
        """θ of the regression that is trusted, its posterior mean."""
        return self.means[self.trusted]

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        return self._mean

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior."""
        if self._variance is None:
            half = dsymm(1.0, self.covariances[self.trusted], self.features, side=1, lower=1)
            self._variance = np.einsum("ij,ij->i", half, self.features)
        deviation = np.maximum(self._variance, 0.0)
        deviation *= self.scale[self.trusted]
        return np.sqrt(deviation, out=deviation)

    def sample(
        self,
        rng: np.random.Generator,
        scale: float = 1.0,
        count: int | None = None,
        covariance: Any = None,
    ) -> Any:
        """A draw of all losses from the posterior, its deviation times `scale`; or several, in columns.

        With the covariance of θ under the posterior, or with another one.
        """
        eigenvalues, vectors = np.linalg.eigh(self.covariance if covariance is None else covariance)
        normal = rng.standard_normal((len(eigenvalues), 1 if count is None else count))
        root = scale * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None]
        drawn = self.features @ (self.weights[:, None] + vectors @ (root * normal))
        return drawn[:, 0] if count is None else drawn

    def state(self) -> dict[str, Any]:
        """Plain data for a snapshot, without the features."""
        names = ("discounts", "ridge", "covariances", "means", "scale", "errors", "trusted")
        kept = {name: getattr(self, name) for name in names}
        return copy.deepcopy({**kept, "mean": self._mean, "variance": self._variance})

    @classmethod
    def from_state(cls, features: Any, data: Reader) -> Self:
        """The forecaster of a snapshot."""
        N, m = features.shape
        discounts = data.array("discounts", (None,), 1e-3, 1)
        K = len(discounts)
        ridge = data.array("ridge", (K,), SMALLEST)
        forecaster = cls(features, discounts=discounts.tolist(), ridge=ridge.tolist())
        names = ("covariances", "means", "scale", "errors")
        covariances, means, scale, errors = (data.items(name, K) for name in names)
        for k in range(K):
            key = str(k)
            forecaster.covariances[k] = covariances.array(key, (m, m), -FADED, FADED, order="F")
            forecaster.means[k] = means.array(key, (m,))
            forecaster.scale[k] = scale.number(key, 1, FADED)
            forecaster.errors[k] = errors.number(key, 0)
        forecaster.trusted = data.count("trusted", 0, K - 1)
        forecaster._mean = data.array("mean", (N,))
        forecaster._variance = data.array("variance", (N,)) if data.has("variance") else None
        return forecaster


def forecaster_for(kernel: Any, engine: PointsEngine) -> Forecaster:
    """With the prior of the kernel, scaled to 1, and a constant.

    With Σ(π) = I and K = ΦPΦ' on the support of π, P = Φ'ΠKΠΦ; a root of P takes Φ to features of prior covariance I.
    """
    weights, support = engine.weights, np.flatnonzero(engine.weights)
    X, W = engine.points[support], engine.features[support] * weights[support, None]
    K = to_numpy(kernel(X, X))
    P = W.T @ (K / max(float(np.max(np.diag(K))), 1e-300) + 1) @ W
    eigenvalues, vectors = np.linalg.eigh((P + P.T) / 2)
    root = vectors * np.sqrt(np.maximum(eigenvalues, 1e-12 * max(eigenvalues[-1], 0.0)))
    discounts, ridges = zip(*FORECASTS, strict=True)
    return Forecaster(engine.features @ root, discounts=discounts, ridge=ridges)
