"""A Gaussian-process regression that forgets.

It takes the losses for θ'φ with θ ~ N(0, s²P), heard with noise of variance s²λ, and weighs a loss heard k rounds ago by
discount^k. The scale s² is estimated in closed form, so that nothing depends on the units of the losses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dsymm, dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dtrtri

from koloss.core import linalg
from koloss.core.snapshot import Matrix, Vector, kept

UNIFORM = 1 / 12
"""Variance of a uniform law on an interval of length 1."""

FADED = 2.0
"""A discount makes the prior fade with the data; the prior is restored when it has lost this factor."""

GROWN = 1e9
"""Weights of losses grow in place of shrinking those of the past, up to this."""

GUESSED = 2.0
"""Losses in whose place their variance is guessed: that of a uniform law, from the least to the largest heard."""


def log_evidence(
    gram: Any,
    moment: Any,
    squares: float,
    weight: float,
    ridges: Any,
    grown: float = 1.0,
    guess: float = UNIFORM,
) -> Any:
    """Logarithm of the marginal likelihood with P = I, for each λ, up to a constant: s² is integrated out.

    `gram` is A = Σφφ'; moment, squares and weight are b = Σφy, Σy² and Σ1 times `grown`. With A = V diag(g) V' and β = V'b:
    Σ log(1 + gᵢ/λ) is a determinant, Σy² - Σ βᵢ²/(gᵢ + λ) over λ the misfit.
    """
    g, V = np.linalg.eigh(gram)
    g = np.maximum(g, 0.0)[:, None]
    beta = np.square(V.T @ moment / grown)[:, None]
    misfit = np.maximum((squares / grown - (beta / (g + ridges)).sum(axis=0)) / ridges, 0.0)
    weight, guessed = weight / grown, GUESSED * guess / (1 + ridges)
    return (
        -0.5 * np.log1p(g / ridges).sum(axis=0)
        - 0.5 * weight * np.log(ridges)
        - 0.5 * (GUESSED + max(weight - 1, 0.0)) * np.log(guessed + misfit)
    )


@kept
class Regression:
    """One regression with a prior, noise and discount; each loss is a step of rank one: O(m²), and O(Nm) for the actions.

    Examples
    --------
    >>> import numpy as np
    >>> regression = Regression(np.eye(2), ridge=0.25)
    >>> regression.update(0, 1.0)
    >>> regression.mean.tolist(), regression.deviation.round(3).tolist()
    ([0.8, 0.0], [0.447, 1.0])
    """

    features: Any  # (N, m)
    discount: float
    ridge: float  # λ
    root: Matrix  # R of the prior P = RR'
    gram: Matrix  # Σ of φφ' (lower triangle), ...
    moment: Vector  # ... φy, ...
    squares: float = 0.0  # ... y² ...
    weight: float = 0.0  # ... and 1, all over `grown`
    grown: float = 1.0
    heard: int = 0
    guess: float = UNIFORM  # of the variance of a loss
    looks: int = 0  # how often predictions of all actions were made from scratch
    scale: float  # how far the prior has faded; the covariance is C times this
    C: Matrix
    theta: Vector
    misfit: float
    _mean: Any
    _variance: Any

    def __init__(
        self, features: Any, *, discount: float = 1.0, ridge: float = 0.05, root: Any = None
    ) -> None:
        self.features = linalg.in_columns(features)
        self.discount, self.ridge = discount, ridge
        m = self.features.shape[1]
        self.root = np.eye(m, order="F") if root is None else root
        self.gram, self.moment = np.zeros((m, m), order="F"), np.zeros(m)
        self._fit()

    def _fit(self) -> None:
        """The posterior of all that was heard: C = R(I + R'AR/λ)⁻¹R', θ = Cb/λ, of which a lower triangle is kept."""
        m, grown, R = len(self.moment), self.grown, self.root
        self.scale = 1.0
        if self.heard:
            inner = R.T @ dsymm(1 / (grown * self.ridge), self.gram, R, lower=1)
            inner.ravel(order="K")[:: m + 1] += 1
            factor, _ = dpotrf(inner, lower=1)
            half, _ = dtrtri(factor, lower=1)
            half = np.tril(half) @ R.T
            self.C = np.asfortranarray(half.T @ half)
        else:
            self.C = np.asfortranarray(R @ R.T)
        self.theta = self.C @ self.moment / (grown * self.ridge)
        self.misfit = max(
            (self.squares / grown - ddot(self.moment, self.theta) / grown) / self.ridge, 0.0
        )
        self._mean = self._variance = None

    def fit(self, root: Any, ridge: float) -> None:
        """Another prior and noise, as if they had been the ones from the start."""
        self.root, self.ridge = root, ridge
        self._fit()

    def update(self, index: int, value: float) -> None:
        """Learn from the loss of an action."""
        self.step(self.features[index].copy(), value)

    def step(self, phi: Any, value: float) -> tuple[float, float]:
        """The same; the error of the prediction, and its variance in units of s²."""
        grown = self.grown
        dsyr(grown, phi, lower=1, a=self.gram, overwrite_a=1)
        daxpy(phi, self.moment, a=grown * value)
        self.squares += grown * value * value
        self.weight += grown
        self.heard += 1
        scale, theta, discount = self.scale, self.theta, self.discount
        u = dsymv(1.0, self.C, phi, lower=1)
        error = value - ddot(theta, phi)
        spread = self.ridge + scale * ddot(u, phi)
        gain = scale / spread
        dsyr(-gain, u, lower=1, a=self.C, overwrite_a=1)
        daxpy(u, theta, a=gain * error)
        self.misfit = discount * (self.misfit + error * error / spread)
        if self._mean is not None or self._variance is not None:
            moved = linalg.times(self.features, u)
            if self._mean is not None:
                self._mean = self._mean + gain * error * moved
            if self._variance is not None:
                moved *= moved
                moved *= gain
                self._variance -= moved
        if discount < 1:
            self.scale, self.grown = scale / discount, grown / discount
            if self.grown > GROWN:
                self.gram /= self.grown
                self.moment /= self.grown
                self.squares /= self.grown
                self.weight /= self.grown
                self.grown = 1.0
            if self.scale > FADED:
                kept = self._mean is not None
                self._fit()
                if kept:
                    self.look()
        return error, spread

    def rescale(self, factor: float) -> None:
        """As if all losses had been so many times as large."""
        self.moment, self.theta = self.moment * factor, self.theta * factor
        self.squares, self.misfit = self.squares * factor**2, self.misfit * factor**2
        if self.heard:
            self.guess *= factor**2
        if self._mean is not None:
            self._mean = self._mean * factor

    def evidence(self, root: Any, ridges: Any) -> Any:
        """Logarithm of the marginal likelihood with another prior, for each λ, up to a constant."""
        A = root.T @ dsymm(1 / self.grown, self.gram, root, lower=1)
        seen = A, root.T @ self.moment, self.squares, self.weight
        return log_evidence(*seen, ridges, self.grown, self.guess)

    @property
    def signal(self) -> float:
        """The estimate of s²; the constant in the losses takes one of them."""
        weight = self.weight / self.grown
        guessed = GUESSED * self.guess / (1 + self.ridge)
        return float(guessed + self.misfit) / (GUESSED + max(weight - 1, 0.0))

    # Of all actions.

    def look(self) -> None:
        """Begin to keep predictions of all actions up to date."""
        self._mean, self._variance = self.features @ self.theta, None
        self.looks += 1

    def look_away(self) -> None:
        """And stop."""
        self._mean = self._variance = None

    @property
    def covariance(self) -> Any:
        """Posterior covariance of θ, in units of s²."""
        lower = np.tril(self.C) * self.scale
        return lower + np.tril(lower, -1).T

    @property
    def mean(self) -> Any:
        """Predicted loss of every action."""
        if self._mean is None:
            self._mean = self.features @ self.theta
        return self._mean

    @property
    def deviation(self) -> Any:
        """Its standard deviation under the posterior, in units of s."""
        if self._variance is None:
            self._variance = linalg.quadratic(self.features, self.C)
        deviation = np.maximum(self._variance, 0.0)
        deviation *= self.scale
        return np.sqrt(deviation, out=deviation)
