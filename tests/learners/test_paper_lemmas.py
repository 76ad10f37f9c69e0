"""The lemmas behind Theorem 10 (Appendix A) and Appendix D, checked on the learner's own epochs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl

POINTS = kl.Points(np.random.default_rng(8).random((25, 2)))
KERNEL = kl.Gaussian(0.4)


@pytest.fixture
def epoch(rng):
    """A learner in mid-game, with its features, distribution, covariance and certified error."""
    learner = kl.BanditExpWeights(POINTS, KERNEL, horizon=2000, rank=6, batch=1, rng=0)
    learner._theta = rng.normal(size=6) * 40
    current = learner._open(whole=False)
    features = learner.setup.features
    sigma = features.T @ (current.p[:, None] * features)
    return learner, features, current.p, sigma


def white_loss(learner, y):
    """Loss of Φ(y) and of its projection, at every action."""
    exact = KERNEL(POINTS.X)[:, y]
    proxy = kl.pivoted_cholesky(KERNEL, POINTS, rank=6)
    return exact, proxy.features @ proxy.features[y]


def test_estimate_of_the_projected_loss_is_unbiased(epoch):
    # Lemma 17: with K̂ for the loss, the estimate has mean K̂(y, ·).
    learner, features, p, sigma = epoch
    for y in range(25):
        _, projected = white_loss(learner, y)
        estimates = features @ np.linalg.solve(sigma, features.T)  # [a, a_t], for a loss of one
        np.testing.assert_allclose(estimates @ (p * projected), projected, atol=1e-9)


def test_weights_telescope(epoch, rng):
    # Lemma 18: Σ log q_t·e^(-ηx_t) ≥ -ηΣ x_t(a) - log N for every action a, pathwise.
    learner, features, _, _ = epoch
    eta, theta = learner.setup.rates.learning_rate, np.zeros(6)
    total = 0.0
    for _ in range(50):
        q = np.exp(-eta * (features @ theta))
        step = rng.normal(size=6) * 20
        total += math.log(q / q.sum() @ np.exp(-eta * (features @ step)))
        theta += step
    assert np.all(total >= -eta * (features @ theta) - math.log(25) - 1e-9)


def test_second_moment_of_the_estimates(epoch):
    # Lemma 19: E q·x² ≤ 𝒢⁴ m / (1 - γ), the expectation by enumeration.
    learner, features, p, sigma = epoch
    gamma = learner.setup.rates.exploration
    q = (p - gamma * learner.setup.design) / (1 - gamma)
    k = features @ np.linalg.solve(sigma, features.T)
    for y in range(25):
        exact, _ = white_loss(learner, y)
        moment = q @ (k**2 @ (p * exact**2))
        assert moment <= 6 / (1 - gamma)


def test_bias_of_the_estimates(epoch):
    # Lemma 20 in its proved form: |E x(a) - K̂(y, a)| ≤ ε √(φ(a)'Σ⁻¹φ(a)).
    learner, features, p, sigma = epoch
    k = features @ np.linalg.solve(sigma, features.T)
    epsilon = learner.setup.problem.epsilon
    for y in range(25):
        exact, projected = white_loss(learner, y)
        bias = np.abs(k @ (p * exact) - projected)
        assert np.all(bias <= epsilon * np.sqrt(np.diag(k)) + 1e-12)


def test_smallest_eigenvalue_of_the_mixture(epoch):
    # Lemma 31: λ_min(Σ_t) ≥ γ λ_min(Σ(π)), and Σ(π) = I in whitened coordinates.
    learner, _, _, sigma = epoch
    assert np.linalg.eigvalsh(sigma)[0] >= learner.setup.rates.exploration * (1 - 1e-9)


def test_inverses_of_near_matrices(rng):
    # Lemma 36: ‖A⁻¹ - B⁻¹‖ ≤ ‖A - B‖ / (λ_min(A) λ_min(B)).
    for _ in range(20):
        root = rng.normal(size=(5, 5))
        A = root @ root.T + 0.1 * np.eye(5)
        B = A + 0.05 * np.diag(rng.random(5))
        left = np.linalg.norm(np.linalg.inv(A) - np.linalg.inv(B), 2)
        right = np.linalg.norm(A - B, 2) / (np.linalg.eigvalsh(A)[0] * np.linalg.eigvalsh(B)[0])
        assert left <= right * (1 + 1e-9)


def test_sampled_estimates_are_near(epoch):
    # Corollary 39, corrected: ‖ŵ₂ - ŵ₁‖ ≤ ‖Σ̂⁻¹ - Σ⁻¹‖ 𝒢 · 𝒢² (|φ| ≤ √G in whitened coordinates).
    learner, features, p, sigma = epoch
    rng = np.random.default_rng(0)
    counts = rng.multinomial(5000, p / p.sum()) / 5000
    sampled = features.T @ (counts[:, None] * features)
    gap = np.linalg.norm(np.linalg.inv(sampled) - np.linalg.inv(sigma), 2)
    change = (np.linalg.inv(sampled) - np.linalg.inv(sigma)) @ features.T  # losses of at most 1
    size = math.sqrt(learner.setup.problem.leverage)
    assert np.max(np.linalg.norm(change, axis=0)) <= gap * size * (1 + 1e-12)
