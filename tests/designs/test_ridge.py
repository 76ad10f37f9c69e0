"""Dimensions and designs with a penalty, against a convex solver, enumeration and random laws."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.designs import ridge
from koloss.designs.ridge import Dimensions, Leverage, ridge_design, tail_of, whiten_ridge

KERNELS = {
    "gaussian": kl.Gaussian(0.4),
    "matern": kl.Matern(1.5, 0.5),
    "rough": kl.Matern(0.5, 0.5),
}


def features_of(kernel, count=20, rank=None):
    points = kl.Points(np.random.default_rng(count).random((count, 2)))
    proxy = kl.pivoted_cholesky(kernel, points, tolerance=1e-9)
    return np.asarray(proxy.features), proxy.point_curve


def split(kernel, k):
    """The constant and k features, the others, and the residual curve."""
    features, curve = features_of(kernel)
    head = np.column_stack([np.ones(len(features)), features[:, :k]])
    return head, features[:, k:], curve[k:]


def dimension(head, tail, penalty, p):
    """d and e of a law by their definition, with matrices of the full size."""
    phi = np.column_stack([head, tail])
    ridge = np.diag(np.r_[np.zeros(head.shape[1]), np.full(tail.shape[1], penalty)])
    sigma = phi.T @ (p[:, None] * phi)
    inverse = np.linalg.inv(sigma + ridge)
    return np.trace(inverse @ sigma), np.trace(inverse @ ridge @ inverse @ sigma)


def random_laws(count, rng):
    """Laws of all kinds: flat, peaked, and nearly on few points."""
    for concentration in np.repeat([10.0, 1.0, 0.1], 40):
        p = rng.dirichlet(np.full(count, concentration))
        yield 0.999 * p + 0.001 / count


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_projection_agrees_with_the_definition(name, k, rng):
    head, tail, _ = split(KERNELS[name], k)
    for p in random_laws(len(head), rng):
        for penalty in (1e-3, 1e-1):
            d, e = dimension(head, tail, penalty, p)
            sigma = tail_of(head, tail, p).variances
            assert np.sum(sigma / (sigma + penalty)) == pytest.approx(d - k - 1, rel=1e-6, abs=1e-7)
            assert np.sum(sigma * penalty / (sigma + penalty) ** 2) == pytest.approx(e, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name, k", [("gaussian", 0), ("matern", 3), ("rough", 0)])
def test_certified_dimension_against_a_convex_solver(name, k):
    cp = pytest.importorskip("cvxpy")
    head, tail, residuals = split(KERNELS[name], k)
    penalty, phi = 0.01, np.column_stack([head, tail])
    dimensions = Dimensions(head, tail, residuals, unit=penalty)
    dimensions.improve(penalty, steps=60)
    bound = dimensions.certificates.excess(penalty)
    p = cp.Variable(len(phi), nonneg=True)
    ridge = np.diag(np.r_[np.zeros(k + 1), np.full(tail.shape[1], penalty)])
    A = phi.T @ cp.diag(p) @ phi + ridge
    cost = sum(penalty * cp.matrix_frac(np.eye(len(ridge))[i], A) for i in range(k + 1, len(ridge)))
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(p) == 1])
    problem.solve(solver=cp.CLARABEL)
    best = tail.shape[1] - problem.value  # d* - k₀ = tr of the tail's share
    assert best * (1 - 1e-4) <= bound <= best * 1.01


@pytest.mark.parametrize("name", KERNELS)
def test_no_law_exceeds_the_certificates(name, rng):
    head, tail, residuals = split(KERNELS[name], 2)
    dimensions = Dimensions(head, tail, residuals, unit=0.01)
    for penalty in (0.01 * 4.0**j for j in range(-3, 4)):
        dimensions.improve(penalty)
    known = dimensions.certificates
    for p in random_laws(len(head), rng):
        sigma = tail_of(head, tail, p).variances
        for penalty in known.penalties[::5]:
            assert np.sum(sigma / (sigma + penalty)) <= known.excess(penalty) * (1 + 1e-9)
            spread = np.sum(sigma * penalty / (sigma + penalty) ** 2)
            assert spread <= known.spread(penalty) * (1 + 1e-9)


def test_certificates_without_laws_come_from_the_residual_curve():
    head, tail, residuals = split(KERNELS["matern"], 1)
    known = Dimensions(head, tail, residuals, unit=0.5).certificates
    by_hand = min(j + r / 0.5 for j, r in enumerate(residuals))
    assert known.excess(0.5) == pytest.approx(by_hand)
    assert known.excess(0.6) == known.excess(0.5)  # that of the next smaller penalty on the grid
    assert known.excess(1e-300) == tail.shape[1]


def test_unrelated_arms_in_closed_form():
    arms = Dimensions(np.empty((8, 0)), np.eye(8), np.ones(9), unit=1.0)
    arms.improve(1.0)
    for penalty in (0.25, 1.0, 4.0):
        assert arms.certificates.excess(penalty) == pytest.approx(8 / (1 + 8 * penalty))


# Designs.


def columns_of(head, tail, penalty):
    k0, t = head.shape[1], tail.shape[1]
    return np.sqrt(penalty) * np.eye(k0 + t)[:, k0:]


@pytest.mark.slow
@pytest.mark.parametrize("cap", [30.0, 300.0])
@pytest.mark.parametrize("name", KERNELS)
def test_design_against_a_convex_solver(name, cap):
    cp = pytest.importorskip("cvxpy")
    head, tail, _ = split(KERNELS[name], 2)
    phi, columns = np.column_stack([head, tail]), columns_of(head, tail, 0.01)
    weights, gamma, largest = ridge_design(phi, columns, cap)
    w = cp.Variable(len(phi), nonneg=True)
    A = phi.T @ cp.diag(w) @ phi + columns @ columns.T
    problem = cp.Problem(cp.Maximize(cp.log_det(A) - cap * cp.sum(w)))
    problem.solve(solver=cp.CLARABEL)
    assert gamma == pytest.approx(float(np.sum(w.value)), rel=2e-2)
    assert largest <= cap * 1.001
    assert weights.sum() == pytest.approx(1.0)
    # Lemma F1.5: the largest leverage of the log-det design is its trace.
    sigma = phi.T @ (weights[:, None] * phi)
    inverse = np.linalg.inv(gamma * sigma + columns @ columns.T)
    assert np.trace(inverse @ sigma) == pytest.approx(largest, rel=2e-3)


def test_leverage_as_a_function_of_exploration(rng):
    head, tail, _ = split(KERNELS["gaussian"], 2)
    phi, columns = np.column_stack([head, tail]), columns_of(head, tail, 0.01)
    weights = rng.dirichlet(np.ones(len(phi)))
    penalty = columns @ columns.T
    largest = Leverage(phi, weights, columns)
    sigma = phi.T @ (weights[:, None] * phi)
    for gamma in (1e-4, 1e-2, 1.0):
        inverse = np.linalg.inv(gamma * sigma + penalty)
        by_hand = np.max(np.einsum("ij,jk,ik->i", phi, inverse, phi))
        assert largest(gamma) == pytest.approx(by_hand, rel=1e-6)
    gamma = largest.exploration(50.0)
    assert largest(gamma) <= 50.0 < largest(gamma * (1 - 1e-6))


def test_whitened_coordinates(rng):
    head, tail, _ = split(KERNELS["gaussian"], 2)
    phi, columns = np.column_stack([head, tail]), columns_of(head, tail, 0.01)
    design = ridge_design(phi, columns, 100.0)
    white, penalty = whiten_ridge(phi, columns, design)
    sigma = white.T @ (design.weights[:, None] * white)
    identity = sigma + penalty @ penalty.T / design.exploration
    np.testing.assert_allclose(identity, np.eye(len(identity)), atol=1e-9)
    np.testing.assert_array_equal(penalty @ penalty.T, np.diag(np.sum(penalty**2, axis=1)))
    # Leverages do not depend on the coordinates.
    p = rng.dirichlet(np.ones(len(phi)))
    there = white @ np.linalg.solve(white.T @ (p[:, None] * white) + penalty @ penalty.T, white.T)
    here = phi @ np.linalg.solve(phi.T @ (p[:, None] * phi) + columns @ columns.T, phi.T)
    np.testing.assert_allclose(there, here, rtol=1e-6, atol=1e-8)


def test_no_exploration_where_the_penalty_is_enough():
    weights, gamma, largest = ridge_design(np.eye(3), np.eye(3), 2.0)
    assert gamma < 1e-6
    assert largest <= 1.0 + 1e-6
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("k", [0, 3])
def test_certificates_cover_features_that_were_left_out(k, rng, monkeypatch):
    monkeypatch.setattr(ridge, "NEGLIGIBLE", 0.3)
    sizes = []
    monkeypatch.setattr(ridge, "tail_of", lambda *a: sizes.append(a[1].shape[1]) or tail_of(*a))
    head, tail, residuals = split(KERNELS["matern"], k)
    missed = 0
    for penalty in (1e-3, 1e-2, 1e-1):
        dimensions = Dimensions(head, tail, residuals, unit=penalty)
        law = dimensions.improve(penalty, steps=60)
        count = sizes[-1]
        assert count < tail.shape[1]
        for p in [law, *random_laws(len(head), rng)]:
            for at in (penalty / 4, penalty, 8 * penalty):
                d, e = dimension(head, tail, at, p)
                assert d - k - 1 <= dimensions.certificates.excess(at) + 1e-9
                assert e <= dimensions.certificates.spread(at) + 1e-9
        # Without r/λ it would be no certificate.
        d, _ = dimension(head, tail, penalty, law)
        missed += d - k - 1 > dimensions.certificates.excess(penalty) - residuals[count] / penalty
    assert missed > 0
