"""Krylov spaces of large symmetric matrices: where the trust region problem becomes small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import ddot, dnrm2, dsymv

UNIT = 2.0**-53
"""Unit roundoff."""

FAILURE = 1e-12
"""Probability, over the random start, that the lower bound on the eigenvalues of an operator is wrong."""

NEGLIGIBLE = 1e-280
"""More than underflow can cost, relative to the size of the problem."""


class Symmetric:
    """A symmetric array that is only multiplied by vectors, half of it read each time."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __matmul__(self, vector: Any) -> Any:
        return dsymv(1.0, self.matrix.T, vector)


class Krylov:
    """Orthonormal basis of the space of s, Bs, B²s, …, where B is tridiagonal: Lanczos, orthogonalised in full."""

    def __init__(self, matrix: Any, start: Any, limit: int) -> None:
        self.matrix, norm = matrix, dnrm2(start)
        self.basis = np.empty((limit + 1, len(start)))
        self.diagonal: list[float] = []
        self.beside: list[float] = []  # of which the last one leads out of the space
        self.size = 0.0  # of B, as far as it is seen
        self.open = norm > 0
        if self.open:
            self.basis[0] = start / norm

    def extend(self, steps: int) -> None:
        """To so many dimensions, or as many as there are."""
        while self.open and len(self.diagonal) < steps:
            k = len(self.diagonal) + 1
            V = self.basis[:k]
            w = self.matrix @ V[-1]
            self.size = max(self.size, dnrm2(w))
            self.diagonal.append(ddot(w, V[-1]))
            w = w - self.diagonal[-1] * V[-1]
            if k > 1:
                w -= self.beside[-1] * V[-2]
            # Rounding alone is left to take away, and once is enough, unless much was cancelled (Daniel et al., 1976).
            before = dnrm2(w)
            w -= (V @ w) @ V
            if dnrm2(w) < 0.7 * before:
                w -= (V @ w) @ V
            self.beside.append(dnrm2(w))
            self.open = self.beside[-1] > 64 * UNIT * self.size  # else it is noise
            if self.open:
                self.basis[k] = w / self.beside[-1]

    def ritz(self) -> tuple[Any, Any]:
        """Eigenvalues of B in this space, increasing, and eigenvectors in its basis."""
        return eigh_tridiagonal(self.diagonal, self.beside[:-1])  # type: ignore[no-any-return]

    def lower_bound(self, values: Any) -> float:
        """Lower bound on the lowest eigenvalue λ of B if the start was random (van Dorsselaer et al., 2000).

        The vector after the last is p(B)s, where the roots of p are the Ritz values. Let u be the eigenvector of λ.
        Then 1 ≥ |u'p(B)s| = |p(λ)| |u's|, and |u's| ≥ δ except with probability δ √(2d/π): so |p(λ)| ≤ 1/δ.
        """
        d = self.basis.shape[1]
        log_delta = math.log(FAILURE) - 0.5 * math.log(2 * d / math.pi)
        goal = float(np.sum(np.log(np.maximum(self.beside, NEGLIGIBLE)))) - log_delta
        norm = max(-float(values[0]), float(values[-1]), NEGLIGIBLE)
        low, high = -60.0, 60.0  # of the logarithm of the distance from the lowest Ritz value
        for _ in range(30):
            middle = (low + high) / 2
            distances = values - values[0] + norm * math.exp2(middle)
            low, high = (low, middle) if np.sum(np.log(distances)) >= goal else (middle, high)
        return float(values[0]) - norm * math.exp2(high)

    def joined(self, vector: Any) -> tuple[Any, Any]:
        """Orthonormal basis of the space and one vector more, and the matrix of B there."""
        k, beside = len(self.diagonal), self.beside[:-1]
        V = self.basis[:k]
        for _ in range(2):
            vector = vector - (V @ vector) @ V
        norm = dnrm2(vector)
        T = np.zeros((k + 1, k + 1))
        T[:k, :k] = np.diag(self.diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        if norm < 1e-10:  # it was there already
            return V, T[:k, :k]
        basis = np.vstack([V, vector / norm])
        T[-1] = T[:, -1] = basis @ (self.matrix @ basis[-1])
        return basis, T
