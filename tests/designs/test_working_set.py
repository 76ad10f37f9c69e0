"""Newton's steps and single exchanges reach the same optimum, and each knows how far it came."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss.designs import working_set
from koloss.designs.working_set import exchange, interior_point, largest_leverage


def log_det(rows, w):
    return np.linalg.slogdet(rows.T @ (w[:, None] * rows))[1]


def gap(rows, w):
    sigma = rows.T @ (w[:, None] * rows)
    return np.einsum("ij,jk,ik->i", rows, np.linalg.inv(sigma), rows).max() / rows.shape[1] - 1


@pytest.mark.parametrize("n, m", [(12, 2), (60, 5), (150, 12)])
def test_both_reach_the_optimum(rng, n, m):
    rows = rng.normal(size=(n, m))
    newton = interior_point(rows, float(m), None, 1e-9)
    assert newton.w.sum() == pytest.approx(1)
    assert gap(rows, newton.w) == pytest.approx(newton.gap, abs=1e-12)
    assert newton.gap <= 1e-9
    single = exchange(rows, np.full(n, 1 / n), 1e-4)
    assert single.sum() == pytest.approx(1)
    assert single.min() == 0  # actions that leave have no weight at all
    assert gap(rows, single) <= 1e-4 * (1 + 1e-6)
    # Weak duality: log det* - log det Σ(w) ≤ m log(1 + gap).
    assert 0 <= log_det(rows, newton.w) - log_det(rows, single) <= m * math.log1p(1e-4)


def test_a_start_near_the_optimum_leads_to_the_same(rng):
    rows = rng.normal(size=(80, 6))
    first = interior_point(rows, 6.0, None, 1e-2)
    again = interior_point(rows, 6.0, None, 1e-9, (first.w, first.slacks))
    assert_allclose(again.w, interior_point(rows, 6.0, None, 1e-9).w, atol=1e-6)
    assert first.gap > 1e-4  # and the start alone was not it


def test_too_few_exchanges_are_not_enough(rng):
    rows = rng.normal(size=(60, 5))
    assert gap(rows, exchange(rows, np.full(60, 1 / 60), 1e-4, steps=3)) > 1e-2


def test_largest_leverage(rng):
    rows, w = rng.normal(size=(30, 4)), rng.dirichlet(np.ones(10))
    sigma = rows[:10].T @ (w[:, None] * rows[:10])
    expected = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(sigma), rows).max()
    assert largest_leverage(rows, rows[:10], w) == pytest.approx(expected)
    assert largest_leverage(rows, rows[:1], np.ones(1)) == math.inf


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_large_working_sets_are_solved_by_exchanges_first(rng, monkeypatch, tolerance):
    called = []
    watched = exchange
    monkeypatch.setattr(
        working_set, "exchange", lambda *args: called.append(len(args[0])) or watched(*args)
    )
    monkeypatch.setattr(working_set, "MANY", 40)
    X = rng.normal(size=(600, 15))
    design = kl.john_design(X, tolerance=tolerance)
    assert min(called) > 40
    assert gap(X, design.weights) <= tolerance * (1 + 1e-6)
    assert design.gap == pytest.approx(gap(X, design.weights), abs=1e-10)
    assert len(design.support) <= 121
