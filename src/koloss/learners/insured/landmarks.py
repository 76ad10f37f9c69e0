"""Features of any point of a continuous set, by landmarks, and forecasts with the bandwidths that the losses speak for.

With landmarks Z and the Cholesky factor L of K(Z, Z), φ(x) = L⁻¹K(Z, x) are coordinates of the projection of Φ(x) on the span of
Φ(Z), for points that come later as well as for those known now; what it leaves out is r(x) = K(x, x) - |φ(x)|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.core.linalg import solve_lower
from koloss.core.snapshot import Matrix, Vector, kept
from koloss.learners.insured.bandwidths import CONSTANT, Key, at_bandwidth, at_key
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.forecast import (
    DISCOUNTS,
    NOISES,
    OFTEN,
    UNUSUAL,
    USUAL,
    Forecaster,
    Trusted,
)
from koloss.learners.insured.regression import log_evidence
from koloss.proxy.pivoted_cholesky import greedy

RICH, FINE = 200, 1e-3
"""Features of forecasts: so many at most, and no more than leave this share of K(a, a) out."""

COMPARED = 96
"""Landmarks with which bandwidths are compared, half of them at the points played most."""

NARROWEST, WIDEST = -3, 3
"""How many times the bandwidth of a coordinate is doubled, at least and at most."""

DOUBT, SPREAD = 2.0, 0.25
"""Logarithm of the prior odds against bandwidths twice or half a kernel's own, and against one of them alone."""

RECENT = 256
"""Latest losses that are kept one by one, for the regression that forgets: the weight of older ones is below one per cent."""


@kept
@dataclass(frozen=True, eq=False)
class Landmarks:
    """φ(x) = L⁻¹K(Z, x)."""

    kernel: Any
    points: Matrix  # Z, (m, d)
    lower: Matrix  # L

    @classmethod
    def among(cls, kernel: Any, X: Floats, most: int, fine: float = 0.0) -> Self:
        """Chosen one by one from the rows of X, each where most is left out, until no more than a share of K(a, a) is."""
        gram = to_numpy(kernel(X, X))
        diagonal = gram.diagonal()
        top = fine * float(diagonal.max())
        factor = greedy(
            lambda i: gram[:, i], diagonal, most=most, enough=lambda left, _: left <= top
        )
        rows = np.array(factor.pivots)
        return cls(kernel, X[rows], np.asfortranarray(np.tril(to_numpy(factor.rows)[:, rows].T)))

    def __call__(self, X: Floats) -> Floats:
        """φ of the rows of X, in rows."""
        phi: Floats = solve_lower(self.lower, to_numpy(self.kernel(self.points, X)), np).T
        return phi

    def residual(self, X: Floats) -> Floats:
        """r(x) of the rows of X."""
        phi = self(X)
        left: Floats = to_numpy(self.kernel.diag(X)) - np.einsum("ij,ij->i", phi, phi)
        return np.maximum(left, 0.0)


@kept
@dataclass(frozen=True, eq=False)
class Explicit:
    """All features of a kernel that has finitely many, each in units of its own."""

    kernel: Any
    units: Vector

    @classmethod
    def of(cls, kernel: Any, X: Floats) -> Self:
        """In units of the largest feature at the rows of X."""
        largest = np.abs(to_numpy(kernel.features(X))).max(axis=0)
        return cls(kernel, np.where(largest > 0, largest, 1.0))

    def __call__(self, X: Floats) -> Floats:
        """φ of the rows of X, in rows."""
        phi: Floats = to_numpy(self.kernel.features(X)) / self.units
        return phi

    def residual(self, X: Floats) -> Floats:
        """Nothing is left out."""
        return np.zeros(len(X))


@kept
class History:
    """All losses heard, in units of the range: sums for each row, and the latest one by one."""

    counts: Vector
    sums: Vector
    squares: float = 0.0
    recent: list[tuple[int, float]]  # the latest last

    def __init__(self, rows: int) -> None:
        self.counts, self.sums, self.recent = np.zeros(rows), np.zeros(rows), []

    @property
    def played(self) -> NDArray[np.int64]:
        """Rows with a loss."""
        return np.flatnonzero(self.counts)

    def hear(self, row: int, y: float) -> None:
        """The loss of a row."""
        self.counts[row] += 1
        self.sums[row] += y
        self.squares += y * y
        self.recent.append((row, y))
        if len(self.recent) > 2 * RECENT:
            del self.recent[:RECENT]

    def moments(self, features: Floats, discount: float) -> tuple[Floats, Floats, float, float]:
        """Σ w φφ', Σ w φy, Σ w y² and Σ w over losses, w = discount^k for the k-th latest."""
        if discount == 1:
            rows, counts, sums = self.played, self.counts, self.sums
            F = features[rows]
            gram = F.T @ (counts[rows, None] * F)
            return gram, F.T @ sums[rows], self.squares, float(counts.sum())
        latest = self.recent[-RECENT:]
        F, y = features[[row for row, _ in latest]], np.array([y for _, y in latest])
        w = discount ** np.arange(len(y), 0.0, -1.0)
        return F.T @ (w[:, None] * F), F.T @ (w * y), float(w @ (y * y)), float(w.sum())


def learn_lengths(kernel: Any, X: Floats, history: History, key: Key) -> Key:
    """Bandwidths of the largest evidence, in powers of two of the kernel's own: first all together, then one by one."""
    rows = history.played
    if at_bandwidth(kernel, (1.0,) * len(key)) is None or len(rows) < 2:
        return key
    counts, sums = history.counts[rows], history.sums[rows]
    often = np.argsort(-counts, kind="stable")
    rest = np.sort(often[COMPARED // 2 :])
    spread = rest[np.linspace(0, len(rest) - 1, min(len(rest), COMPARED // 2)).astype(int)]
    at = rows[np.concatenate([often[: COMPARED // 2], spread])]

    def evidence(key: Key) -> float:
        scaled = at_key(kernel, key)
        features = _scaled_features(Landmarks.among(scaled, X[at], len(at), 1e-6), X[rows])
        gram, moment = features.T @ (counts[:, None] * features), features.T @ sums
        seen = gram, moment, history.squares, float(counts.sum())
        least = (log_evidence(*seen, NOISES) - UNUSUAL * np.abs(np.log10(NOISES / USUAL))).max()
        return float(least) - SPREAD * sum(k * k for k in key) - DOUBT * abs(sum(key)) / len(key)

    best, most = key, evidence(key)
    steps = [tuple(s * one for one in (1,) * len(key)) for s in (1, -1)]
    for j in range(len(key)):
        steps += [tuple(s * (i == j) for i in range(len(key))) for s in (1, -1)]
    for step in steps:
        moved = tuple(min(max(k + s, NARROWEST), WIDEST) for k, s in zip(best, step, strict=True))
        if moved != best and (value := evidence(moved)) > most:
            best, most = moved, value
    return best


def _scaled_features(landmarks: Landmarks, X: Floats) -> Floats:
    """φ, of a prior variance of 1 at most, and a constant."""
    top = math.sqrt(float(np.max(to_numpy(landmarks.kernel.diag(landmarks.points)))))
    return np.column_stack([landmarks(X) / top, np.full(len(X), math.sqrt(CONSTANT))])


@kept
class GrownForecaster(Forecaster):
    """Forecasts with features of their own, made anew whenever the set grows.

    What the account is given as a prediction must be in the span of the game's features: the projection of the forecast on it, by
    least squares over the actions that are offered.
    """

    landmarks: Landmarks
    key: Key
    history: History
    own: Any  # the game's features
    _offered: Any  # the actions over which forecasts are projected on their span

    def __init__(self, landmarks: Landmarks, X: Floats, key: Key, history: History) -> None:
        super().__init__(_scaled_features(landmarks, X), discounts=DISCOUNTS)
        self.landmarks, self.key, self.history = landmarks, key, history

    def update(self, index: int, value: float) -> None:
        self.history.hear(index, value)
        super().update(index, value)

    @classmethod
    def of(
        cls, kernel: Any, X: Floats, offered: Any, history: History, key: Key, former: Self | None
    ) -> Self:
        """From all losses heard: landmarks where points were played or are offered."""
        scaled = at_key(kernel, key)
        rows = np.union1d(history.played, np.flatnonzero(offered))
        made = cls(Landmarks.among(scaled, X[rows], RICH, FINE), X, key, history)
        if former is not None:
            made._recall(former)
        return made

    def _recall(self, former: Self) -> None:
        """Learn all that was heard at once."""
        self.scores, self.trusted = list(former.scores), former.trusted
        self.low, self.high = former.low, former.high
        for k, (one, old) in enumerate(zip(self.regressions, former.regressions, strict=True)):
            gram, moment, squares, weight = self.history.moments(self.features, one.discount)
            one.gram, one.moment = np.asfortranarray(gram), moment
            one.squares, one.weight, one.heard = squares, weight, old.heard
            one.guess = old.guess
            one.fit(one.root, old.ridge)
            self.due[k] = one.heard + OFTEN
        self._refit(self.trusted)

    def predict(self, X: Floats) -> tuple[Floats, Floats]:
        """Predicted losses of any points, and their deviations."""
        features, one = _scaled_features(self.landmarks, X), self.regression
        variance = np.einsum("ij,ij->i", features @ one.covariance, features)
        return features @ one.theta, np.sqrt(one.signal * np.maximum(variance, 0.0))

    def enter(self, rows: Any, X: Floats) -> None:
        """Points take rows that were free."""
        features = self.features.copy(order="F")
        features[rows] = _scaled_features(self.landmarks, X)
        self.features = features
        for one in self.regressions:
            one.features = features
        self.regression.look()

    def watch(self, features: Floats, offered: Any) -> None:
        """The game's features, and the actions over which forecasts are projected on their span."""
        self.own, self._offered = features, np.flatnonzero(offered)
        self._back = np.linalg.pinv(features[offered])

    def _restored(self) -> None:
        super()._restored()
        self._back = np.linalg.pinv(self.own[self._offered])

    @property
    def inside(self) -> Any:
        return self.own @ (self._back @ self.mean[self._offered])

    @property
    def chosen(self) -> Trusted:
        return super().chosen._replace(bandwidth=tuple(2.0**k for k in self.key))
