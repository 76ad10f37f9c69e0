"""Compressed sums of kernel expansions: never farther from the sum than they say."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.learners.full.expansion import Expansion

KERNELS = [kl.Gaussian(0.5), kl.Matern(2.5, 0.7), kl.Polynomial(3), kl.Gaussian(0.05)]


def add_many(total, kernel, losses, seed, allowance=1e-3, spread=1.0):
    rng, kept = np.random.default_rng(seed), []
    for _ in range(losses):
        size = int(rng.integers(1, 4))
        loss = kl.KernelLoss(kernel, spread * rng.random((size, 2)), rng.normal(size=size))
        kept.append(loss)
        total.add(loss, allowance)
    return kept


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_error_is_certified(kernel):
    X = kl.Box([0, 0], [1, 1]).net(0.05).X
    size = float(np.sqrt(np.max(kernel.diag(X))))
    total = Expansion.empty(kernel, 2, size=size)
    losses = add_many(total, kernel, 300, seed=1)
    exact = sum(loss(X) for loss in losses)
    error = float(np.max(np.abs(total.loss(X) - exact)))
    assert error <= total.spent + 1e-9
    assert total.spent <= 300 * 1e-3  # never more than allowed


def test_smooth_kernels_become_short_and_rough_ones_stay():
    smooth = Expansion.empty(kl.Gaussian(0.5), 2, size=1.0)
    add_many(smooth, kl.Gaussian(0.5), 300, seed=2)
    rough = Expansion.empty(kl.Gaussian(0.01), 2, size=1.0)
    add_many(rough, kl.Gaussian(0.01), 300, seed=2)
    assert len(smooth) < 150
    assert smooth.spent > 0
    assert rough.spent == 0
    assert len(rough) > 500


def test_finite_dimensional_kernel_keeps_as_many_centres_as_features():
    kernel = kl.Polynomial(2)  # six features in the plane
    total = Expansion.empty(kernel, 2, size=3.0)
    add_many(total, kernel, 200, seed=3, allowance=1e-6)
    assert len(total.pivots) == 6


def test_centres_far_away_and_duplicates():
    """Centres need not be actions; the same centre twice has no residual the second time."""
    kernel = kl.Gaussian(1.0)
    total = Expansion.empty(kernel, 2, size=1.0)
    losses = add_many(total, kernel, 100, seed=4, spread=8.0)
    losses += add_many(total, kernel, 100, seed=4, spread=8.0)
    X = kl.Ball(2).net(0.1).X
    assert np.max(np.abs(total.loss(X) - sum(loss(X) for loss in losses))) <= total.spent + 1e-9
    assert total.spent <= 200 * 1e-3


def test_no_allowance_no_compression():
    total = Expansion.empty(kl.Gaussian(0.5), 2, size=1.0)
    losses = add_many(total, kl.Gaussian(0.5), 100, seed=5, allowance=0.0)
    assert total.spent == 0
    assert len(total) == sum(len(loss.coefficients) for loss in losses)


def test_negative_control_half_the_error_is_too_little():
    """The bound is not vacuous: compressing by hand with a coarse tolerance exceeds a tenth of it."""
    kernel = kl.Gaussian(0.5)
    total = Expansion.empty(kernel, 2, size=1.0)
    X = kl.Box([0, 0], [1, 1]).net(0.05).X
    losses = [
        kl.KernelLoss(kernel, np.random.default_rng(k).random((1, 2)), [1.0]) for k in range(130)
    ]
    for loss in losses:
        total.add(loss, 0.05)
    error = float(np.max(np.abs(total.loss(X) - sum(loss(X) for loss in losses))))
    assert total.spent / 1000 < error <= total.spent
