"""The uniform design and what every design says of itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from tests.support.designs import leverages


@pytest.mark.parametrize("shape", [(40, 3), (5, 5), (3, 6), (70_000, 2), (50, 2, 5)])
def test_leverage_of_the_uniform_distribution(rng, shape):
    X = rng.normal(size=shape[:2])
    if len(shape) == 3:  # rank deficient
        X = X @ rng.normal(size=shape[1:])
    design = kl.uniform_design(X)
    assert_allclose(design.weights, 1 / shape[0])
    assert design.rank == min(shape)
    assert design.max_leverage == pytest.approx(leverages(X, design.weights).max(), rel=1e-9)
    assert design.gap == pytest.approx(design.max_leverage / design.rank - 1)
    assert len(design.support) == shape[0]


def test_best_where_all_actions_are_alike_and_bad_where_one_is_not():
    assert kl.uniform_design(np.eye(4)).gap == pytest.approx(0, abs=1e-12)
    # One of N actions carries the second dimension alone: leverage N.
    X = np.zeros((100, 2))
    X[:, 0], X[0] = 1.0, [0.0, 1.0]
    assert kl.uniform_design(X).max_leverage == pytest.approx(100)
    assert kl.john_design(X).max_leverage == pytest.approx(2, rel=1e-3)


def test_support_lists_positive_weights_only():
    design = kl.Design(np.array([0.0, 0.5, 0.0, 0.5]), 2, 2.2, "by hand")
    assert design.support.tolist() == [1, 3]
    assert design.gap == pytest.approx(0.1)
    assert "by hand: 2 of 4 actions" in repr(design)
