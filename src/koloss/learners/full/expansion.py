"""Sums of kernel expansions that stay short: compressed by a certified proxy once that pays.

A sum S of losses Σ_j c_j Φ(z_j) gains centres in every round. Pivoted Cholesky on the centres finds a few, the
pivots, that span the others up to a small residual: with P the projection on the span of the pivots and
r(z) = ‖(I - P)Φ(z)‖², leaving a centre out changes the function nowhere by more than

    |c_j| √r(z_j) 𝒢,   𝒢 = sup ‖Φ(a)‖ over the actions,

whatever the kernel, the dimension, or where the centres lie. Pivots once chosen stay, so that the error of a
centre is paid once. The sum of the errors is kept, and a guarantee adds twice this sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dpstrf

from koloss.core.arrays import to_numpy
from koloss.core.snapshot import Cached, Matrix, Vector, kept
from koloss.kernels import Kernel, KernelLoss

SHORTEST = 64
"""Expansions with fewer centres are left alone."""

WORTH = 0.75
"""A compression must leave at most this share of the centres."""

FLOOR = 1e-10
"""Residuals below this, relative to K(z, z), are not told from rounding: pivots are not chosen among them."""


@kept
@dataclass
class Expansion:
    """A sum of kernel expansions, part of it compressed.

    Examples
    --------
    >>> import numpy as np, koloss as kl
    >>> rng, kernel = np.random.default_rng(0), kl.Gaussian(0.5)
    >>> total = Expansion.empty(kernel, 2, size=1.0)
    >>> losses = [kl.KernelLoss(kernel, rng.random((1, 2)), [1.0]) for _ in range(500)]
    >>> for loss in losses:
    ...     total.add(loss, allowance=1e-4)
    >>> X = rng.random((100, 2))
    >>> error = np.max(np.abs(total.loss(X) - sum(loss(X) for loss in losses)))
    >>> bool(error <= total.spent <= 500 * 1e-4), len(total) < 250
    (True, True)
    """

    kernel: Kernel
    size: float  # 𝒢
    pivots: Matrix  # the compressed part, (m, d)
    weights: Vector  # (m,)
    centers: Matrix  # what was added since, (p, d)
    coefficients: Vector  # (p,)
    allowance: float = 0.0  # error that may be made when these are compressed
    spent: float = 0.0  # largest error of the sum anywhere, so far
    limit: int = SHORTEST  # number of centres at which the next compression is tried
    pending: int = 0  # losses added since the last compression
    _loss: Cached = field(default=None, repr=False, compare=False)  # of type KernelLoss

    @classmethod
    def empty(cls, kernel: Kernel, dimension: int, *, size: float) -> Expansion:
        """The zero function."""
        none = np.zeros((0, dimension))
        return cls(kernel, size, none, np.zeros(0), none, np.zeros(0))

    def __len__(self) -> int:
        return len(self.pivots) + len(self.centers)

    @property
    def loss(self) -> KernelLoss:
        """The sum as a loss."""
        if self._loss is None:
            centers = np.concatenate([self.pivots, self.centers])
            coefficients = np.concatenate([self.weights, self.coefficients])
            self._loss = KernelLoss(self.kernel, centers, coefficients)
        loss: KernelLoss = self._loss
        return loss

    def add(self, loss: KernelLoss, allowance: float) -> None:
        """Add a loss; compressing it, now or later, may change the sum by up to the allowance."""
        self.centers = np.concatenate([self.centers, to_numpy(loss.centers)])
        self.coefficients = np.concatenate([self.coefficients, to_numpy(loss.coefficients)])
        self.allowance += allowance
        self.pending += 1
        self._loss = None
        if len(self) >= self.limit and self.allowance > 0:
            self._compress()

    def _compress(self) -> None:
        kernel, Z, Y, c = self.kernel, self.pivots, self.centers, self.coefficients
        mass = float(np.sum(np.abs(c)))
        diagonal = to_numpy(kernel.diag(Y))
        top = float(np.max(diagonal))
        if mass == 0 or top == 0:
            return
        # Residual kernel of the new centres, given the old pivots; pivots among them until all is small.
        R = to_numpy(kernel(Y, Y))
        if len(Z):
            V = _solve_lower(to_numpy(kernel(Z, Z)), to_numpy(kernel(Z, Y)))
            R = R - V.T @ V
        tolerance = max((self.allowance / (self.size * mass)) ** 2, FLOOR * top)
        if float(np.max(np.diagonal(R))) > tolerance:
            _, order, rank, _ = dpstrf(R, tol=tolerance, lower=1)
        else:
            order, rank = np.arange(1, len(Y) + 1), 0
        if len(Z) + rank > WORTH * len(self):  # not worth it yet
            self.limit = math.ceil(1.25 * len(self))
            return
        chosen, left = order[:rank] - 1, order[rank:] - 1
        Z = np.concatenate([Z, Y[chosen]])
        gram, cross = to_numpy(kernel(Z, Z)), to_numpy(kernel(Z, Y[left]))
        V = _solve_lower(gram, cross)
        rounding = 10 * max(10, len(Z)) * np.finfo(float).eps / 2
        r = np.maximum(diagonal[left] - np.einsum("ij,ij->j", V, V), 0.0)
        r = r + rounding * diagonal[left]
        a = cho_solve(cho_factor(gram, lower=True), cross @ c[left])
        # The bound of the residuals, or the distance itself should the solve have lost digits.
        rest = c[left]
        squared = rest @ to_numpy(kernel(Y[left], Y[left])) @ rest
        squared = squared - 2 * (a @ (cross @ rest)) + a @ gram @ a
        distance = max(float(np.abs(rest) @ np.sqrt(r)), math.sqrt(max(float(squared), 0.0)))
        self.spent += self.size * distance
        self.pivots, self.weights = Z, np.concatenate([self.weights, c[chosen]]) + a
        self.centers, self.coefficients = Y[:0], c[:0]
        self.allowance, self.pending = 0.0, 0
        self.limit = max(SHORTEST, math.ceil(1.5 * len(Z)))
        self._loss = None


def _solve_lower(gram: Any, cross: Any) -> Any:
    return solve_triangular(np.linalg.cholesky(gram), cross, lower=True)
