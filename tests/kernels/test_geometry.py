"""How far features reach, against brute force over many pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.kernels.geometry import feature_diameter, feature_radius

EXACT = [
    *((kl.Quadratic(), kl.Ball(2, r)) for r in (1.0, 0.4, 2.0)),
    *((kl.Quadratic(), kl.Ball(1, r)) for r in (1.0, 3.0)),
    (kl.Linear(), kl.Ball(2, 1.5)),
    (kl.Linear(), kl.Box([0.0, -1.0], [1.0, 1.0])),
    (kl.Gaussian(0.7), kl.Ball(2)),
    (kl.Gaussian([0.7, 0.2]), kl.Box([0.0, 1.0], [1.0, 1.5])),
    (kl.Matern(1.5, 0.8), kl.Box([0.0, 0.0], [1.0, 0.5])),
]
LOOSE = [
    (kl.Polynomial(3), kl.Ball(2)),
    (kl.Quadratic(), kl.Box([0.0, 0.0], [1.0, 1.0])),
    (kl.Posynomial([[1, 0], [-1, 2]]), kl.Box([0.5, 0.5], [1.0, 2.0])),
    (kl.Posynomial([[1, 0], [0, 1]]), kl.Box([-1, -1], [1, 1])),
]


def brute_force(kernel, actions):
    X = actions.net(actions.diameter() / 60).X if not isinstance(actions, kl.Points) else actions.X
    K = kernel(X, X)
    return math.sqrt(float(np.max(np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K)))


@pytest.mark.parametrize("kernel, actions", EXACT, ids=repr)
def test_exact_in_closed_form(kernel, actions):
    diameter, seen = feature_diameter(kernel, actions), brute_force(kernel, actions)
    assert 0.985 * diameter <= seen <= diameter * (1 + 1e-9)


@pytest.mark.parametrize("kernel, actions", LOOSE, ids=repr)
def test_upper_bound_elsewhere(kernel, actions):
    assert brute_force(kernel, actions) <= feature_diameter(kernel, actions) * (1 + 1e-9)
    assert feature_diameter(kernel, actions) <= 2 * feature_radius(kernel, actions)


def test_points_pair_by_pair():
    X = np.random.default_rng(0).normal(size=(1100, 3))  # more than one block of rows
    kernel, actions = kl.Polynomial(2), kl.Points(X)
    expected = brute_force(kernel, actions)
    assert feature_diameter(kernel, actions) == pytest.approx(expected, rel=1e-12)


def test_many_points_get_a_bound():
    X = np.random.default_rng(0).random((5000, 2))
    bound = feature_diameter(kl.Gaussian(0.5), kl.Points(X))
    assert feature_diameter(kl.Gaussian(0.5), kl.Points(X[:4000])) <= bound <= math.sqrt(2)
