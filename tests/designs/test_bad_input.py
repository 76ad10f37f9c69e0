"""Arguments that cannot be right: the message names the argument, the rule and the value."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.errors import RankUnreachable

X = np.random.default_rng(0).normal(size=(10, 3))
TAKES_FEATURES = {
    "john": kl.john_design,
    "spanner": kl.barycentric_spanner,
    "uniform": kl.uniform_design,
    "whiten": lambda features: kl.whiten(features, np.full(10, 0.1)),
}


@pytest.mark.parametrize("call", TAKES_FEATURES.values(), ids=TAKES_FEATURES)
@pytest.mark.parametrize(
    "features, error, message",
    [
        (np.ones(3), ValueError, "`features` must be 2-D, got ndim=1"),
        (np.zeros((0, 3)), ValueError, r"`features` must not be empty, got shape \(0, 3\)"),
        (np.zeros((3, 0)), ValueError, r"`features` must not be empty, got shape \(3, 0\)"),
        (np.array([[1.0, np.nan]]), ValueError, "`features` must be finite, got NaN or infinity"),
        (np.array([[1j, 2.0]]), TypeError, "`features` must hold real numbers, got dtype complex"),
        ("features", TypeError, "`features` must be an array of numbers, got"),
        (None, TypeError, "`features` must "),
    ],
)
def test_features(call, features, error, message):
    with pytest.raises(error, match=message):
        call(features)


@pytest.mark.parametrize("call", TAKES_FEATURES.values(), ids=TAKES_FEATURES)
def test_zero_features(call):
    with pytest.raises(RankUnreachable, match="`features` must not vanish, got zeros only") as info:
        call(np.zeros((10, 2)))
    assert info.value.rank == 0


@pytest.mark.parametrize(
    "call, options, error, message",
    [
        (kl.john_design, {"tolerance": 9e-7}, ValueError, "`tolerance` must be at least 1e-06, got 9e-07"),
        (kl.john_design, {"tolerance": np.nan}, ValueError, "`tolerance` must be finite, got nan"),
        (kl.john_design, {"tolerance": "tight"}, TypeError, "`tolerance` must be a number, got 'tight'"),
        (kl.john_design, {"max_rounds": 0}, ValueError, "`max_rounds` must be at least 1, got 0"),
        (kl.john_design, {"max_rounds": 1.5}, TypeError, "`max_rounds` must be an integer, got 1.5"),
        (kl.barycentric_spanner, {"approximation": 0.99}, ValueError, "`approximation` must be at least 1, got 0.99"),
        (kl.barycentric_spanner, {"approximation": np.inf}, ValueError, "`approximation` must be finite, got inf"),
        (kl.barycentric_spanner, {"approximation": None}, TypeError, "`approximation` must be a number, got None"),
        (kl.whiten, {"design": np.ones(10)}, ValueError, "`design` must sum to 1, got a sum of 10"),
        (kl.whiten, {"design": np.r_[1.5, -0.5, np.zeros(8)]}, ValueError, "`design` must be non-negative, got a weight of -0.5"),
        (kl.whiten, {"design": np.full(9, 1 / 9)}, ValueError, "`design` must have length 10, got 9"),
        (kl.whiten, {"design": np.full((10, 1), 0.1)}, ValueError, "`design` must be 1-D, got ndim=2"),
        (kl.whiten, {"design": np.full(10, np.nan)}, ValueError, "`design` must be finite"),
        (kl.whiten, {"design": kl.uniform_design(np.eye(4))}, ValueError, "`design` must have length 10, got 4"),
    ],
)  # fmt: skip
def test_options(call, options, error, message):
    with pytest.raises(error, match=message):
        call(X, **options)
