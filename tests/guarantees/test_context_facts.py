"""What the proofs with contexts rest on, by enumeration of every context and action: exact up to rounding.

Instances are random in all their parts: features, law, discounts, penalty, what is played, losses and what is not linear in them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

SEEDS = range(60)


class Instance:
    """A round of a small game: C contexts, K actions, features of pairs and the law of what is played."""

    def __init__(self, seed, *, penalty=None, error=None, constant=False):
        rng = self.rng = np.random.default_rng(seed)
        C, K, m = rng.integers(2, 5), rng.integers(2, 5), rng.integers(2, 5)
        self.C, self.K = C, K
        self.phi = rng.normal(size=(C * K, m))
        if constant:
            self.phi = np.column_stack([np.ones(C * K), self.phi])
        self.mu = np.maximum(rng.dirichlet(np.full(C, rng.choice([0.2, 1.0, 5.0]))), 1e-4)
        self.mu /= self.mu.sum()
        self.w = np.where(rng.random(C) < 0.5, 1.0, rng.uniform(0.05, 1.0, C))
        p = 0.95 * rng.dirichlet(np.full(K, 0.5), size=C) + 0.05 / K
        self.p = p.ravel()
        self.penalty = rng.choice([0.0, 0.01, 0.3]) if penalty is None else penalty
        error = rng.choice([0.0, 0.3]) if error is None else error
        m = self.phi.shape[1]
        self.ridge = self.penalty * np.diag(np.r_[float(not constant), np.ones(m - 1)])
        self.theta = rng.normal(size=m)
        self.r = error * rng.uniform(-1, 1, C * K)
        self.losses = self.phi @ self.theta + self.r
        self.L, self.error = np.abs(self.losses).max(), error
        self.b = math.sqrt(error**2 + self.theta @ self.ridge @ self.theta)
        self.row = np.repeat(self.mu, K) * self.p  # of the pair that is seen
        self.discount = np.repeat(self.w, K)
        self.P = self.discount * self.row

    def covariance(self, mu=None):
        P = self.P if mu is None else self.discount * np.repeat(mu, self.K) * self.p
        return self.phi.T @ (P[:, None] * self.phi) + self.ridge

    def estimates(self, mu=None):
        """x[t, z]: the estimate at z if the pair t is seen, by the covariance for a law of contexts."""
        k = self.phi @ np.linalg.solve(self.covariance(mu), self.phi.T)
        return (self.discount * self.losses)[:, None] * k

    def g(self, mu=None):
        inverse = np.linalg.inv(self.covariance(mu))
        return np.sqrt(np.einsum("ij,jk,ik->i", self.phi, inverse, self.phi))

    def below(self):
        """Weights on pairs that nowhere exceed P: of exploitation."""
        return self.P * self.rng.uniform(0, 1, len(self.P))


@pytest.mark.parametrize("seed", SEEDS)
def test_four_facts_about_the_estimator(seed):
    game = Instance(seed)
    x, g, v = game.estimates(), game.g(), game.below()
    mean, linear, tiny = game.row @ x, game.phi @ game.theta, 1e-9
    # 1: bias, and none without a penalty and an error, whatever the discounts.
    assert np.all(np.abs(mean - linear) <= game.b * g + tiny)
    # 2: averaged bias.
    assert abs(v @ (mean - linear)) <= game.b + tiny
    # 3: second moment, and its average.
    square, d = game.row @ x**2, np.sum(game.P * g**2)
    assert np.all(square <= game.L**2 * g**2 * (1 + tiny))
    assert v @ square <= game.L**2 * d * (1 + tiny)
    assert d <= game.phi.shape[1] * (1 + tiny)
    # 4: means, for losses of any kind.
    game.losses = game.rng.uniform(-1, 1, len(game.losses))
    mean = game.row @ game.estimates()
    assert v @ mean**2 <= 1 + tiny


@pytest.mark.parametrize("seed", SEEDS)
def test_without_penalty_and_error_estimates_are_unbiased(seed):
    game = Instance(seed, penalty=0.0, error=0.0)
    np.testing.assert_allclose(game.row @ game.estimates(), game.losses, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_the_constant_the_average_estimate_is_the_loss_heard(seed):
    game = Instance(seed, constant=True)
    np.testing.assert_allclose(game.estimates() @ game.P, game.discount * game.losses, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_law_is_one_more_bias(seed):
    game = Instance(seed)
    wrong = game.rng.dirichlet(np.full(game.C, 2.0)) + 0.01
    wrong /= wrong.sum()
    chi = math.sqrt(np.sum((game.mu - wrong) ** 2 / wrong))
    bias = game.row @ game.estimates(wrong) - game.phi @ game.theta
    assert np.all(np.abs(bias) <= (game.b + game.L * chi) * game.g(wrong) + 1e-9)


def test_a_wrong_law_is_not_harmless():
    """Negative control: without penalty and error the same test that estimates are unbiased fails."""
    worst = []
    for seed in SEEDS:
        game = Instance(seed, penalty=0.0, error=0.0)
        wrong = np.full(game.C, 1 / game.C)
        if math.sqrt(np.sum((game.mu - wrong) ** 2 / wrong)) > 0.3:
            bias = np.abs(game.row @ game.estimates(wrong) - game.losses)
            worst.append(bias.max() / game.L)
    assert len(worst) > 20
    assert min(worst) > 0.01
