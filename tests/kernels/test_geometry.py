"""How far features reach, against brute force over many pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.kernels.geometry import feature_diameter, feature_radius

CASES = {
    "quadratic, disc": (kl.Quadratic(), kl.Ball(2)),
    "quadratic, small disc": (kl.Quadratic(), kl.Ball(2, 0.4)),
    "quadratic, large disc": (kl.Quadratic(), kl.Ball(2, 2.0)),
    "quadratic, interval": (kl.Quadratic(), kl.Ball(1)),
    "quadratic, long interval": (kl.Quadratic(), kl.Ball(1, 3.0)),
    "linear, disc": (kl.Linear(), kl.Ball(2, 1.5)),
    "linear, box": (kl.Linear(), kl.Box([0.0, -1.0], [1.0, 1.0])),
    "gaussian, disc": (kl.Gaussian(0.7), kl.Ball(2)),
    "matern, box": (kl.Matern(1.5, 0.8), kl.Box([0.0, 0.0], [1.0, 0.5])),
}
LOOSE = {
    "polynomial, disc": (kl.Polynomial(3), kl.Ball(2)),
    "quadratic, box": (kl.Quadratic(), kl.Box([0.0, 0.0], [1.0, 1.0])),
    "posynomial, box": (kl.Posynomial([[1, 0], [-1, 2]]), kl.Box([0.5, 0.5], [1.0, 2.0])),
    "posynomial, signed box": (kl.Posynomial([[1, 0], [0, 1]]), kl.Box([-1, -1], [1, 1])),
}


def brute_force(kernel, actions):
    X = actions.net(actions.diameter() / 60).X
    K = kernel(X, X)
    return math.sqrt(float(np.max(np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K)))


@pytest.mark.parametrize("name", CASES)
def test_exact_in_closed_form(name):
    kernel, actions = CASES[name]
    found, seen = feature_diameter(kernel, actions), brute_force(kernel, actions)
    assert seen <= found * (1 + 1e-9)
    assert seen >= 0.985 * found


@pytest.mark.parametrize("name", LOOSE)
def test_upper_bound_elsewhere(name):
    kernel, actions = LOOSE[name]
    assert brute_force(kernel, actions) <= feature_diameter(kernel, actions) * (1 + 1e-9)
    assert feature_diameter(kernel, actions) <= 2 * feature_radius(kernel, actions)


def test_points_pair_by_pair():
    X = np.random.default_rng(0).normal(size=(1100, 3))  # more than one block of rows
    kernel = kl.Polynomial(2)
    K = kernel(X, X)
    expected = math.sqrt(np.max(np.diag(K)[:, None] + np.diag(K)[None, :] - 2 * K))
    assert feature_diameter(kernel, kl.Points(X)) == pytest.approx(expected, rel=1e-12)


def test_many_points_get_a_bound():
    X = np.random.default_rng(0).random((5000, 2))
    found = feature_diameter(kl.Gaussian(0.5), kl.Points(X))
    assert feature_diameter(kl.Gaussian(0.5), kl.Points(X[:4000])) <= found <= math.sqrt(2)
