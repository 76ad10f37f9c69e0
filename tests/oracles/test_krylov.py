"""Krylov spaces: a basis that stays orthonormal, and products that read half of a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from koloss.oracles.krylov import Krylov, Symmetric

SPECTRA = {
    "spread": np.linspace(-1, 1, 300),
    "two far ones": np.append(
        np.linspace(-1e-3, 1e-3, 298), [5.0, -7.0]
    ),  # Lanczos alone copies these
    "graded": np.geomspace(1e-12, 1, 300),
    "few": np.repeat([-1.0, 0.5, 2.0], 100),  # the space ends after three steps
}


@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
def test_the_basis_is_orthonormal_and_makes_the_matrix_tridiagonal(values):
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(300, 300)))
    B = (turn * values) @ turn.T
    B = (B + B.T) / 2
    space = Krylov(Symmetric(B), rng.normal(size=300), 100)
    space.extend(100)
    k = len(space.diagonal)
    assert k == 100 or not space.open
    V, beside = space.basis[:k], space.beside[: k - 1]
    assert_allclose(V @ V.T, np.eye(k), atol=1e-13)
    T = np.diag(space.diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    assert_allclose(V @ B @ V.T, T, atol=1e-13 * np.abs(values).max())


def test_without_orthogonalising_the_basis_would_decay():
    # The control of the test above: three-term recurrences alone lose all of it.
    values = SPECTRA["two far ones"]
    V = [np.ones(300) / np.sqrt(300)]
    beta, before = 0.0, np.zeros(300)
    for _ in range(60):
        w = values * V[-1] - beta * before
        w -= (w @ V[-1]) * V[-1]
        before, beta = V[-1], np.linalg.norm(w)
        V.append(w / beta)
    V = np.array(V)
    assert np.abs(V @ V.T - np.eye(len(V))).max() > 0.1


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_of_a_symmetric_array(order):
    rng = np.random.default_rng(1)
    B = rng.normal(size=(40, 40))
    B = np.asarray(B + B.T, order=order)
    x = rng.normal(size=40)
    assert_allclose(Symmetric(B) @ x, B @ x, rtol=1e-13, atol=1e-13)
