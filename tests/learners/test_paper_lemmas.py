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
    engine, rates = learner.engine, learner.rates
    theta = rng.normal(size=6) * 40
    p = engine.mixture(theta, None, rates.learning_rate, rates.exploration)
    return learner, engine.features, p, engine.features.T @ (p[:, None] * engine.features)


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
    eta, theta = learner.rates.learning_rate, np.zeros(6)
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
    gamma = learner.rates.exploration
    q = (p - gamma * learner.engine.weights) / (1 - gamma)
    k = features @ np.linalg.solve(sigma, features.T)
    for y in range(25):
        exact, _ = white_loss(learner, y)
        moment = q @ (k**2 @ (p * exact**2))
        assert moment <= 6 / (1 - gamma)


def test_bias_of_the_estimates(epoch):
    # Lemma 20 in its proved form: |E x(a) - K̂(y, a)| ≤ ε √(φ(a)'Σ⁻¹φ(a)).
    learner, features, p, sigma = epoch
    k = features @ np.linalg.solve(sigma, features.T)
    epsilon = learner.epsilon
    for y in range(25):
        exact, projected = white_loss(learner, y)
        bias = np.abs(k @ (p * exact) - projected)
        assert np.all(bias <= epsilon * np.sqrt(np.diag(k)) + 1e-12)


def test_smallest_eigenvalue_of_the_mixture(epoch):
    # Lemma 31: λ_min(Σ_t) ≥ γ λ_min(Σ(π)), and Σ(π) = I in whitened coordinates.
    learner, _, _, sigma = epoch
    assert np.linalg.eigvalsh(sigma)[0] >= learner.rates.exploration * (1 - 1e-9)


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
    size = math.sqrt(learner.engine.problem.leverage)
    assert np.max(np.linalg.norm(change, axis=0)) <= gap * size * (1 + 1e-12)


# Full information: Section 3.1 and Appendix E.1.


def test_log_partition_telescopes(rng):
    # Lemma 40, its first display: Γ = log p₁·exp(-ηS_n), and on points Γ ≥ -ηS_n(a*) - log N.
    eta, losses = 0.3, rng.normal(size=(20, 7))
    p, gamma = np.full(7, 1 / 7), 0.0
    for loss in losses:
        gamma += math.log(p @ np.exp(-eta * loss))
        p = p * np.exp(-eta * loss)
        p /= p.sum()
    total = losses.sum(axis=0)
    assert gamma == pytest.approx(math.log(np.mean(np.exp(-eta * total))))
    assert gamma >= -eta * total.min() - math.log(7)


def test_log_partition_of_a_small_volume():
    # Lemma 40, its second display, is reversed where the volume is at most one: no action has mass of its own.
    a = np.linspace(0, 0.5, 2001)
    total = 40 * a  # S_n, smallest at a* = 0
    integral = 0.5 * np.mean(np.exp(-total))
    assert math.log(integral) < -total.min()
    # Shrinking the set towards a* repairs it: log mean ≥ -sup over A_δ of S_n + d log δ.
    for delta in (0.01, 0.1, 0.5):
        inside = a <= delta * 0.5
        assert math.log(np.mean(np.exp(-total))) >= -total[inside].max() + math.log(delta) - 1e-3


def test_hoeffding(rng):
    # Lemma 49: its first display is true for λX ≥ -1; the second needs λ, not λ². Hoeffding's own lemma has ρ²/8.
    broken = 0
    for _ in range(200):
        x, p = rng.uniform(-1, 3, size=5), rng.dirichlet(np.ones(5))
        lam = rng.uniform(0.01, 1.0)
        log_mean, mean, square = math.log(p @ np.exp(-lam * x)), p @ x, p @ x**2
        assert log_mean <= (math.e - 2) * lam**2 * square - lam * mean + 1e-12
        assert mean <= -log_mean / lam + (math.e - 2) * lam * square + 1e-12
        assert log_mean <= -lam * mean + lam**2 * np.ptp(x) ** 2 / 8 + 1e-12
        broken += mean > -log_mean / lam + (math.e - 2) * lam**2 * square + 1e-12
    assert broken > 20  # as printed
