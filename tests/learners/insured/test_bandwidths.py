"""Kernels at other bandwidths, and the priors made of them."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.learners.bandit.pairs import PairKernel
from koloss.learners.insured.bandwidths import (
    CONSTANT,
    DOUBLED,
    DOUBT,
    HALVED,
    Priors,
    at_bandwidth,
)

X = np.random.default_rng(0).random((40, 2))


@pytest.mark.parametrize(
    "kernel",
    [
        kl.Gaussian(0.4),
        kl.Gaussian([0.3, 0.5]),
        kl.Matern(1.5, 0.5),
        0.7 * kl.Matern(2.5, 0.4),
        kl.Gaussian(0.4) + 0.2 * kl.Matern(0.5, 1.0),
        kl.Gaussian(0.4) * kl.Matern(0.5, 1.0),
    ],
    ids=repr,
)
def test_another_bandwidth_is_another_unit_of_the_actions(kernel):
    factors = np.array([2.0, 0.5])
    np.testing.assert_allclose(at_bandwidth(kernel, factors)(X), kernel(X / factors), rtol=1e-12)
    assert np.abs(kernel(X) - kernel(X / factors)).max() > 0.1  # negative control


def test_parts_without_a_bandwidth_stay():
    kernel = kl.Gaussian(0.4) + 0.1 * kl.White()
    moved = at_bandwidth(kernel, (2.0, 2.0))(X)
    np.testing.assert_allclose(moved, kl.Gaussian(0.8)(X) + 0.1 * np.eye(40))
    assert at_bandwidth(kl.Polynomial(2) + kl.White(), (2.0, 2.0)) is None
    circle = X[:, :1]
    moved = at_bandwidth(kl.Periodic(0.8, period=1.0), (0.5,))(circle)
    np.testing.assert_allclose(moved, kl.Periodic(0.4, period=1.0)(circle))


def learner_of(kernel, points=X):
    return kl.InsuredBandit(kl.Points(points), kernel, horizon=600, loss_range=(0, 1), rng=3)


def test_priors_are_the_kernels_at_all_bandwidths():
    engine = learner_of(kl.Gaussian(0.3)).engine
    priors = Priors.of(kl.Gaussian(0.3), engine)
    for key in ((0, 0), (1, 1), (2, 0)):
        half = engine.features @ priors.root(key)
        K = kl.Gaussian([0.3 * 2.0**k for k in key])(X)
        np.testing.assert_allclose(half @ half.T, K + CONSTANT, atol=0.05)


def test_which_bandwidths_are_compared():
    priors = Priors.of(kl.Gaussian(0.3), learner_of(kl.Gaussian(0.3)).engine)
    near = {(0, 0), (1, 1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)}
    assert set(priors.keys((0, 0))) == near
    assert all(-HALVED <= k <= DOUBLED for key in priors.keys((DOUBLED, -HALVED)) for k in key)
    line = Priors.of(kl.Gaussian(0.3), learner_of(kl.Gaussian(0.3), X[:, :1]).engine)
    assert line.keys((0,)) == [(k,) for k in range(-HALVED, DOUBLED + 1)]
    for likeliest in ((0, 0), (2, -1)):
        odds = [
            priors.odds(tuple(np.add(likeliest, steps).tolist()), likeliest)
            for steps in ((0, 0), (1, 1), (1, 0), (2, 0))
        ]
        assert odds == [0, DOUBT, 1.5 * DOUBT, 3 * DOUBT]


def test_pairs_have_bandwidths_of_contexts_and_of_actions():
    kernel = PairKernel(kl.Gaussian(1.0), kl.Gaussian((0.5, 0.25)), 4)
    wider = at_bandwidth(kernel, (2.0,) * 4 + (1.0, 4.0))
    X, Y = np.random.default_rng(0).random((2, 7, 6))
    contexts, actions = kl.Gaussian(2.0), kl.Gaussian((0.5, 1.0))
    assert np.allclose(wider(X, Y), contexts(X[:, :4], Y[:, :4]) * actions(X[:, 4:], Y[:, 4:]))
    assert at_bandwidth(PairKernel(kl.Linear(), kl.Linear(), 2), (2.0,) * 4) is None
    half = at_bandwidth(PairKernel(kl.Linear(), kl.Gaussian(1.0), 4), (0.5,) * 6)
    assert np.allclose(half(X), (X[:, :4] @ X[:, :4].T) * kl.Gaussian(0.5)(X[:, 4:], X[:, 4:]))
    priors = Priors(kernel, X, np.eye(7, 3))
    steps = {tuple(np.sign(key)) for key in priors.keys((0,) * 6)}
    assert {(1, 1, 1, 1, 0, 0), (0, 0, 0, 0, 1, 1), (1,) * 6} <= steps
