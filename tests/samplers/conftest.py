"""Exact draws to begin with, and the chi-square test against quadrature, for the tests of all chains."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support.statistics import by_counts


@pytest.fixture
def exact_draws():
    """Function (log_density, actions, n, rng, top) -> independent draws, by rejection under a bound."""
    return _exact_draws


def _exact_draws(log_density, actions, n, rng, top):
    accepted = []
    while sum(map(len, accepted)) < n:
        X = actions.sample(4 * n, rng)
        values = log_density(X)
        assert values.max() <= top
        accepted.append(X[np.log(rng.random(len(X))) < values - top])
    return np.concatenate(accepted)[:n]


def _cells(actions, rings=6, sectors=8, nodes=24):
    """Index of a point's cell, and the quadrature of a density over the cells (disc or rectangle)."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    ball = isinstance(actions, kl.Ball)
    low = np.array([0.0, -np.pi]) if ball else np.asarray(actions.lower)
    high = np.array([actions.radius, np.pi]) if ball else np.asarray(actions.upper)
    step = (high - low) / [rings, sectors]

    def index(X):
        polar = np.column_stack([np.linalg.norm(X, axis=1), np.arctan2(X[:, 1], X[:, 0])])
        U = polar if ball else X
        i = np.clip(((U - low) / step).astype(int), 0, [rings - 1, sectors - 1])
        return i[:, 0] * sectors + i[:, 1]

    def masses(log_density):
        mass = np.empty((rings, sectors))
        for i in range(rings):
            for j in range(sectors):
                u = low[0] + step[0] * (i + (x + 1) / 2)
                v = low[1] + step[1] * (j + (x + 1) / 2)
                U, V = np.meshgrid(u, v, indexing="ij")
                X = np.column_stack([(U * np.cos(V)).ravel(), (U * np.sin(V)).ravel()])
                X = X if ball else np.column_stack([U.ravel(), V.ravel()])
                density = np.exp(log_density(X)).reshape(U.shape) * (U if ball else 1.0)
                mass[i, j] = w @ density @ w
        return (mass / mass.sum()).ravel()

    return index, masses


@pytest.fixture
def fits():
    """Function (X, actions, log_density) -> p-value of draws against quadrature, in two dimensions."""
    return _fits


def _fits(X, actions, log_density):
    """By the chi-square test."""
    index, masses = _cells(actions)
    p = masses(log_density)
    return by_counts(np.bincount(index(X), minlength=len(p)), p)
