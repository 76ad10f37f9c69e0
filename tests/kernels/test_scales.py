"""Bandwidths, range and norm from a log: known ones found again, in any units; degenerate logs refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import koloss as kl
from koloss.kernels import scales


def log(kernel, size, noise, seed, d=2, scale=1.0):
    """A function drawn from the kernel's Gaussian process on random points of the unit cube, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((size, d))
    root = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(size))
    return X, scale * (root @ rng.standard_normal(size) + noise * rng.standard_normal(size))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "family, true",
    [
        ("gaussian", kl.Gaussian([0.15, 0.6])),
        ("gaussian", kl.Gaussian([0.5, 0.1])),
        ("matern", kl.Matern(2.5, [0.2, 0.8])),
    ],
    ids=repr,
)
def test_known_bandwidths_are_found_within_a_factor_of_two(family, true, seed):
    # On twenty other seeds each the ratios were between 0.7 and 1.5 (measured): a false alarm is far from likely.
    X, y = log(true, 300, 0.1, seed)
    found = kl.estimate_scales(X, y, kernel=family)
    ratio = np.array(found.bandwidths) / true.length_scales(2)
    assert np.all((ratio > 0.5) & (ratio < 2.0)), ratio
    assert 0.07 < found.noise < 0.14
    # Negative control: the two bandwidths exchanged are not within the factor.
    exchanged = np.array(found.bandwidths)[::-1] / true.length_scales(2)
    assert not np.all((exchanged > 0.5) & (exchanged < 2.0))


def test_likelihood_and_its_slope_against_second_computations():
    X, y = log(kl.Gaussian([0.3, 0.7]), 25, 0.2, 0)
    squares = np.stack([(x[:, None] - x[None, :]) ** 2 for x in X.T])
    for unit, family in (
        (kl.Gaussian(1.0), kl.Gaussian),
        (kl.Matern(1.5, 1.0), lambda s: kl.Matern(1.5, s)),
    ):
        theta = np.log([0.2, 0.5, 0.1])
        value, slope = scales.deviance(theta, unit, squares, y)
        # The density itself, at the c and s² of a numerical search around those of the closed form.
        A = family([0.2, 0.5])(X) + 0.1 * np.eye(25)
        inverse = np.linalg.inv(A)
        c = inverse.sum(axis=0) @ y / inverse.sum()
        s2 = (y - c) @ inverse @ (y - c) / 25

        def deviance(c, s2, A=A):
            return -2 * multivariate_normal.logpdf(y, np.full(25, c), s2 * A) / 25

        assert deviance(c, s2) == pytest.approx(value + 1 + math.log(2 * math.pi), rel=1e-9)
        nearby = [deviance(c + e, s2 * f) for e in (-0.01, 0, 0.01) for f in (0.99, 1, 1.01)]
        assert min(nearby) == nearby[4]
        steps = 1e-5 * np.eye(3)
        ends = [
            [scales.deviance(theta + s * e, unit, squares, y)[0] for s in (1, -1)] for e in steps
        ]
        assert_allclose(slope, [(a - b) / 2e-5 for a, b in ends], rtol=1e-5, atol=1e-8)


def test_the_norm_is_that_of_the_function():
    # Many exact values of an expansion whose norm is known: the posterior mean is the function.
    kernel = kl.Gaussian([0.3, 0.3])
    X = np.random.default_rng(0).random((150, 2))
    loss = kl.KernelLoss(kernel, [[0.2, 0.3], [0.8, 0.6]], [2.0, -1.0])
    size, noise = scales.posterior(kernel, 1e-6, X, loss(X) + 40.0)
    assert size == pytest.approx(loss.norm(), rel=0.02)
    assert noise < 0.01


def test_units_of_actions_and_losses_do_not_matter():
    X, y = log(kl.Gaussian([0.2, 0.5]), 80, 0.1, 3)
    plain = kl.estimate_scales(X, y)
    units = np.array([2.0**10, 2.0**-6])
    exact = kl.estimate_scales(X * units, 8.0 * y)  # powers of two: bit for bit
    assert exact.bandwidths == tuple(np.array(plain.bandwidths) * units)
    assert exact.loss_range == tuple(8.0 * np.array(plain.loss_range))
    assert (exact.loss_norm, exact.noise) == (8 * plain.loss_norm, 8 * plain.noise)
    other = kl.estimate_scales(X * [3e3, 7e-5] + [40.0, 2.0], 0.03 * y - 11)
    assert_allclose(other.bandwidths, np.array(plain.bandwidths) * [3e3, 7e-5], rtol=0.02)
    assert_allclose(other.loss_range, 0.03 * np.array(plain.loss_range) - 11, rtol=1e-9)
    assert other.loss_norm == pytest.approx(0.03 * plain.loss_norm, rel=0.02)


def test_a_long_log_is_thinned_by_a_fixed_rule(monkeypatch):
    X, y = log(kl.Gaussian([0.3, 0.6]), 300, 0.1, 1)
    monkeypatch.setattr(scales, "FITTED_ROWS", 60)
    monkeypatch.setattr(scales, "NORM_ROWS", 100)
    first, second = kl.estimate_scales(X, y), kl.estimate_scales(X, y)
    assert first == second
    assert first.rows == 300
    assert first.loss_range[0] == y.min() - 0.1 * np.ptp(y)  # of the whole log
    ratio = np.array(first.bandwidths) / [0.3, 0.6]
    assert np.all((ratio > 0.4) & (ratio < 2.5))


def test_noise_alone_and_duplicates():
    rng = np.random.default_rng(4)
    X = np.repeat(rng.random((20, 1)), 3, axis=0)
    pure = kl.estimate_scales(X, rng.standard_normal(60))
    assert pure.loss_norm < 2
    assert 0.5 < pure.noise < 1.5
    exact = kl.estimate_scales(X, np.sin(6 * X[:, 0]))  # equal losses of equal actions, no noise
    assert exact.noise < 0.05
    assert 0.1 < exact.bandwidths[0] < 1.5


def test_a_column_without_influence_has_a_wide_bandwidth():
    rng = np.random.default_rng(0)
    X = rng.random((120, 2))
    found = kl.estimate_scales(X, np.sin(7 * X[:, 0]) + 0.05 * rng.standard_normal(120))
    assert found.bandwidths[1] > 2 > found.bandwidths[0]


def test_what_is_found_builds_a_learner():
    X, y = log(kl.Gaussian([0.3, 0.6]), 60, 0.1, 2)
    found = kl.estimate_scales(X * [100.0, 1.0], y)
    assert isinstance(found.kernel, kl.Gaussian)
    assert found.kernel.bandwidth == found.bandwidths
    learner = kl.BanditExpWeights(
        kl.Points(X[:20] * [100.0, 1.0]), found.kernel, horizon=100,
        loss_range=found.loss_range, loss_norm=found.loss_norm, loss_class="general", rng=0,
    )  # fmt: skip
    learner.tell(learner.ask(), 0.0)
    assert repr(found).startswith("<Scales from 60 rows: bandwidths (")


GOOD = np.linspace(0, 1, 12)[:, None]
Y = GOOD[:, 0]


@pytest.mark.parametrize(
    "X, y, options, message",
    [
        (GOOD, np.full(12, 3.0), {}, "`y` must not be constant, got 3 throughout"),
        (np.column_stack([GOOD, 0 * GOOD + 7]), Y, {}, "`X` must vary in every column, got 7 throughout column 1"),
        ([[1.0]], [2.0], {}, "`X` must have at least 5 different rows, got 1"),
        (np.repeat(GOOD[:2], 9, axis=0), np.arange(18.0), {}, "at least 5 different rows, got 2"),
        (GOOD, np.where(Y > 0.5, np.nan, 1.0), {}, "`y` must be finite"),
        ((2 * GOOD - 1) * 1.7e308, Y, {}, "`X` and `y` must have finite ranges"),
        (GOOD, Y, {"kernel": "cubic"}, "`kernel` must be one of 'gaussian', 'matern', got 'cubic'"),
        (GOOD, Y, {"kernel": "matern", "smoothness": 0.5}, "`smoothness` must be above 0.5"),
        (GOOD, Y, {"margin": -0.1}, "`margin` must be at least 0, got -0.1"),
    ],
)  # fmt: skip
def test_degenerate_logs(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        kl.estimate_scales(X, y, **options)
