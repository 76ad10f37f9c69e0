"""Statements of the paper that no other test checks, in the paper's order; docs/paper_map.md points here.

Numbers are those of the paper, where definitions, theorems, lemmas, propositions and remarks share one
count. Where a statement is wrong, the test checks the corrected one and shows that the printed one fails.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.designs.base import covariance
from koloss.proxy.mercer import FourierExpansion

CIRCLE = kl.Points(np.linspace(0, 2 * math.pi, 720, endpoint=False)[:, None])
"""Its uniform measure integrates trigonometric polynomials below degree 720 exactly."""


def projections(exact, sampled):
    """Features of two proxies of one kernel, and ‖(P - P̂)Φ(x)‖ at every point of the first."""
    A, B = exact.features, sampled(exact.points.X)
    # Z holds the points in an orthonormal basis of all that rounding lets us see. As A = ZU and B = ZV, the
    # two projections are UU' and VV' in that basis.
    Z = kl.kernel_pca(exact.kernel, exact.actions, tolerance=1e-11).features
    U, V = (np.linalg.lstsq(Z, features, rcond=None)[0] for features in (A, B))
    assert np.allclose(V.T @ V, np.eye(sampled.rank), atol=1e-6)
    return A, B, np.linalg.norm(Z @ (U @ U.T - V @ V.T), axis=1)


# Section 1.2: notation and setting


def test_regret_compares_with_the_best_action_of_the_summed_losses(rng):
    # Definition 1. The comparator minimises one element of the space, the sum of the losses.
    actions = kl.Ball(2).net(0.2)
    centers, weights = rng.random((9, 2)), rng.normal(size=9)
    losses = [kl.Gaussian(0.5).embed(centers[t], [weights[t]]) for t in range(9)]
    total = sum(losses)
    table = np.array([loss(actions.X) for loss in losses])
    played = rng.integers(len(actions), size=9)
    paid = table[np.arange(9), played]
    brute_force = max(sum(paid[t] - table[t, i] for t in range(9)) for i in range(len(actions)))
    assert math.isclose(paid.sum() - total(actions.X).min(), brute_force)


# Section 2.1: construction of the finite-dimensional kernel


def test_the_kernel_is_square_integrable(rng):
    # Definition 4: the integral of K² is the sum of the squared eigenvalues.
    actions, measure = kl.Points(rng.random((60, 2))), rng.dirichlet(np.ones(60))
    proxy = kl.kernel_pca(kl.Gaussian(0.5), actions, tolerance=1e-9, measure=measure)
    integral = measure @ kl.Gaussian(0.5)(actions.X) ** 2 @ measure
    assert math.isclose(integral, float(np.sum(proxy.eigenvalues**2)), rel_tol=1e-8)


def test_features_are_projections_on_the_leading_eigenvectors(rng):
    # Definition 7 and Remark 8, in coordinates: P = VV' with V from the covariance of explicit features.
    kernel, actions = kl.Polynomial(2), kl.Points(rng.normal(size=(40, 2)))
    Phi = kernel.features(actions.X)
    V = np.linalg.eigh(Phi.T @ Phi / 40)[1][:, ::-1][:, :3]
    proxy = kl.kernel_pca(kernel, actions, rank=3)
    assert np.allclose(proxy.features @ proxy.features.T, Phi @ V @ V.T @ Phi.T)
    X = rng.normal(size=(7, 2))
    assert np.allclose(proxy(X) @ proxy.features.T, kernel.features(X) @ V @ V.T @ Phi.T)


# Appendix B: kernel principal component analysis


def test_covariance_and_gram_matrix_have_the_same_eigenvalues(rng):
    # Lemma 22, Proposition 28 and Remark 34; the Gram matrix must be divided by the number of points.
    kernel, actions = kl.Polynomial(2), kl.Points(rng.normal(size=(30, 2)))
    Phi = kernel.features(actions.X)
    of_covariance = np.linalg.eigvalsh(Phi.T @ Phi / 30)[::-1]
    of_gram = np.linalg.eigvalsh(kernel(actions.X))[::-1][:6]
    assert np.allclose(of_covariance, of_gram / 30)
    assert not np.allclose(of_covariance, of_gram)
    assert np.allclose(kl.kernel_pca(kernel, actions, rank=6).eigenvalues, of_covariance)


def test_principal_components_are_eigenvectors_of_the_covariance(rng):
    # The displayed equations of Appendix B: Σ̂v = μv for the v made from the Gram matrix.
    kernel, actions = kl.Polynomial(2), kl.Points(rng.normal(size=(30, 2)))
    Phi = kernel.features(actions.X)
    proxy = kl.kernel_pca(kernel, actions, rank=4)
    V = np.linalg.lstsq(Phi, proxy.features, rcond=None)[0]
    assert np.allclose(V.T @ V, np.eye(4))
    assert np.allclose(Phi.T @ Phi / 30 @ V, V * proxy.eigenvalues)


# Appendix C: properties of proxy kernels


@pytest.mark.parametrize("samples", [30, 300])
def test_two_projections_differ_in_first_order(samples):
    # Theorems 9, 23 and 29 and Lemmas 25 and 26, with the w that was in fact reached.
    exact = kl.kernel_pca(kl.Periodic(0.5), CIRCLE, rank=5)
    sampled = kl.kernel_pca(kl.Periodic(0.5), CIRCLE, rank=5, samples=samples, rng=1)
    ideal, made, apart = projections(exact, sampled)
    w, epsilon = apart.max(), 4 * exact.epsilon
    assert sampled.epsilon <= epsilon / 4 + math.sqrt(epsilon) * w + w**2  # part 1
    difference = np.abs(made @ made.T - ideal @ ideal.T).max()
    assert difference <= math.sqrt(epsilon) * w + w**2  # part 2, corrected
    spread = np.abs(np.linalg.eigvalsh(made.T @ made / len(CIRCLE))[::-1] - exact.eigenvalues).max()
    assert spread <= math.sqrt(epsilon) * w + w**2  # part 3, corrected


def test_two_projections_do_not_differ_in_second_order():
    # Part 2 of Theorem 23 and Lemma 26 as printed: on e₁, e₂ and a line turned by θ, w² is too small.
    theta = 0.1
    P, Q = np.diag([1.0, 0.0]), np.outer(*[[math.cos(theta), math.sin(theta)]] * 2)
    w = np.linalg.norm((P - Q) @ np.eye(2), axis=0).max()
    difference = np.abs(P - Q).max()
    assert math.isclose(difference, math.sin(2 * theta) / 2)
    assert difference > w**2


def test_sampled_projections_concentrate():
    # Theorem 24 with α = 10, at the smallest p it allows: one of 40 draws fails with probability at most
    # 40 e⁻¹⁰ < 0.002. The control: a hundredth of the bound.
    actions, alpha = kl.Points([[1.0, 0.0], [0.8, 0.2], [-0.9, 0.1]]), 10.0
    mu = kl.kernel_pca(kl.Linear(), actions, rank=2).eigenvalues
    gap = (mu[0] - mu[1]) / 2
    B = 2 / gap * (1 + math.sqrt(alpha / 2))
    p = math.ceil(4 * B**2 / gap**2)
    v = kl.kernel_pca(kl.Linear(), actions, rank=1)(np.eye(2))
    distances = []
    for seed in range(40):
        w = kl.kernel_pca(kl.Linear(), actions, rank=1, samples=p, rng=seed)(np.eye(2))
        distances.append(np.linalg.norm(v @ v.T - w @ w.T))
    assert max(distances) <= B / math.sqrt(p)
    assert max(distances) > B / math.sqrt(p) / 100


def test_sampled_eigenvalues_concentrate():
    # Theorem 27, with the explicit constants of Lemma 35 (which bounds the same difference): it fails
    # with probability e⁻¹⁴. The control: the eigenvalues of another kernel.
    circle, N, delta = kl.Box([0], [2 * math.pi]), 20_000, 14.0
    sampled = kl.eigendecay(kl.Periodic(1.0), circle, samples=N, count=15, rng=0).eigenvalues
    bound = 2 / math.sqrt(N) * (1 + math.sqrt(delta / 2))

    def largest_difference(lengthscale):
        expansion = FourierExpansion(lengthscale, 2 * math.pi)
        mu = expansion.eigenvalues(len(sampled))
        return np.abs(sampled - mu).max()

    assert largest_difference(1.0) <= bound < largest_difference(0.8)


# Appendix D: the covariance matrix


def test_johns_distribution_does_not_bound_the_smallest_eigenvalue():
    # Proposition 32 is wrong: with features (1, 0) and (0, s) the smallest eigenvalue is s²/2, not 1/2.
    features = np.array([[1.0, 0.0], [0.0, 1e-3]])
    design = kl.john_design(features)
    smallest = np.linalg.eigvalsh(covariance(features, design.weights))[0]
    assert math.isclose(smallest, 1e-6 / 2, rel_tol=1e-6)
    assert smallest < 1 / 2
    assert math.isclose(design.max_leverage, 2, rel_tol=1e-6)


def test_eigenvalues_of_the_covariance_are_mercer_eigenvalues(rng):
    # Remark 33, under a distribution of its own.
    actions, p = kl.Points(rng.random((50, 2))), rng.dirichlet(np.ones(50))
    phi = kl.pivoted_cholesky(kl.Gaussian(0.5), actions, rank=6).features
    operator = np.sqrt(p)[:, None] * (phi @ phi.T) * np.sqrt(p)
    mercer = np.linalg.eigvalsh(operator)[::-1][:6]
    assert np.allclose(np.linalg.eigvalsh(covariance(phi, p))[::-1], mercer)


# Appendix F: posynomials


def test_monomials(rng):
    # Definition 47
    X, powers = rng.uniform(0.5, 2, size=(6, 3)), [2.0, -1.5, 0.0]
    loss = kl.PosynomialLoss(kl.Posynomial([powers]), [3.0])
    assert np.allclose(loss(X), [3 * a[0] ** 2 * a[1] ** -1.5 for a in X])


def test_posynomials_are_closed(rng):
    # Definition 48: sums and non-negative multiples are posynomials; differences need not be.
    kernel, X = kl.Posynomial([[1, 0], [-1, 2], [0.5, 0.5]]), rng.uniform(0.5, 2, size=(6, 2))
    c, d = rng.random(3), rng.random(3)
    f, g = kl.PosynomialLoss(kernel, c), kl.PosynomialLoss(kernel, d)
    monomials = np.column_stack([X[:, 0], X[:, 1] ** 2 / X[:, 0], np.sqrt(X[:, 0] * X[:, 1])])
    assert np.allclose((f + 2 * g)(X), monomials @ (c + 2 * d))
    assert (f + 2 * g).is_posynomial
    assert not (f - 10 * f).is_posynomial


# Appendix G.1: John's theorem


def test_johns_theorem_around_the_origin(rng):
    # Theorem 50 for ±φ(A), whose smallest ellipsoid {x : x'Hx ≤ 1} has its centre at the origin.
    phi, m = rng.normal(size=(300, 4)) @ np.diag([1.0, 0.3, 0.1, 0.03]), 4
    design = kl.john_design(phi, tolerance=1e-6)
    u, p = phi[design.support], design.weights[design.support]
    H = np.linalg.inv(covariance(phi, design.weights)) / m
    assert len(u) <= m * (m + 1) // 2 + 1
    assert np.all(np.einsum("ij,jk,ik->i", phi, H, phi) <= 1 + 1e-5)  # it contains the set
    assert np.allclose(np.einsum("ij,jk,ik->i", u, H, u), 1, atol=1e-4)  # and touches it at u
    x = rng.normal(size=m)
    assert np.allclose(m * sum(pi * (x @ H @ ui) * ui for pi, ui in zip(p, u, strict=True)), x)
    # In the coordinates in which the ellipsoid is the unit ball the covariance is I/m.
    white, _ = kl.whiten(phi, design)
    assert np.allclose(white.T @ (design.weights[:, None] * white) / m, np.eye(m) / m)


def test_centring_the_features_biases_the_estimate():
    # The fourth step, translation, must be left out: here it turns the sign of the estimate.
    p, features, w = np.array([0.9, 0.1]), np.array([1.0, 2.0]), 1.0

    def mean_estimate(phi):
        return np.sum(p * phi * features * w) / np.sum(p * phi**2)

    assert math.isclose(mean_estimate(features), w)
    assert math.isclose(mean_estimate(features - 1.5), -1.4)
