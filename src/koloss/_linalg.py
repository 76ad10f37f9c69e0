"""Small dense linear algebra by direct BLAS and LAPACK calls, which cost less than their wrappers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

Floats = NDArray[np.float64]

ROWS = 1024
"""Rows of a block whose products stay in the cache."""


def cholesky(matrix: Floats) -> Floats | None:
    """Lower Cholesky factor of a symmetric matrix, of which the lower triangle is read; None where it is singular."""
    factor, failed = dpotrf(matrix, lower=1)
    return None if failed else factor


def covariance_factor(
    features: Floats, weights: Floats, buffer: Floats, penalty: Floats | None = None
) -> Floats | None:
    """Cholesky factor of Σ weights φφ' over the rows φ of the features, plus a penalty; None where it is singular.

    The buffer has the shape of the features, both in Fortran order, and saves an allocation.
    """
    np.multiply(features.T, np.sqrt(weights), out=buffer.T)
    sigma = dsyrk(1.0, buffer, trans=1, lower=1)
    if penalty is not None:
        sigma += penalty
    factor, failed = dpotrf(sigma, lower=1, overwrite_a=1)
    return None if failed else factor


def mixed_factor(features: Floats, weights: Floats, ridge: float) -> Any:
    """Cholesky factor of Σ weights φφ' + ridge I."""
    root = features * np.sqrt(weights)[:, None]
    sigma = dsyrk(1.0, root, trans=1, lower=1)
    sigma[np.diag_indices_from(sigma)] += ridge
    factor, _ = dpotrf(sigma, lower=1, overwrite_a=1)
    return factor


def solve(factor: Floats, vector: Floats) -> Any:
    """Σ⁻¹ vector by the Cholesky factor of Σ."""
    solution, _ = dpotrs(factor, vector, lower=1)
    return solution


def leverages(factor: Floats, features: Floats) -> Any:
    """φ'Σ⁻¹φ of every row φ of the features."""
    white = dtrsm(1.0, factor, features.T, lower=1)
    return np.einsum("ij,ij->j", white, white)


def row_leverages(factor: Floats, features: Floats) -> Any:
    """The same for many rows in Fortran order, which need no copy the other way round: faster, and other roundings."""
    white = dtrsm(1.0, factor, features, side=1, lower=1, trans_a=1)
    return np.einsum("ij,ij->i", white, white)


def penalised_leverages(factor: Floats, features: Floats, columns: Floats) -> tuple[Any, Any]:
    """s² = φ'A⁻¹ΣA⁻¹φ and e² = φ'A⁻¹ΛA⁻¹φ of every row φ of the features, where Λ = columns columns' and A = Σ + Λ.

    A block of rows at a time, which stays in the cache, and by products: they are faster than triangular solves.
    """
    inverse, _ = dtrtri(factor, lower=1)
    penalty = (inverse @ columns).T @ inverse
    whole, biased = np.empty(len(features)), np.empty(len(features))
    for start in range(0, len(features), ROWS):
        block = slice(start, start + ROWS)
        for matrix, out in ((inverse, whole), (penalty, biased)):
            part = matrix @ features[block].T
            np.einsum("ij,ij->j", part, part, out=out[block])
    return np.maximum(whole - biased, 0.0), biased
