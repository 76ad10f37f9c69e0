"""Finite action sets."""

from __future__ import annotations

import math

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

import koloss as kl
from koloss.core.arrays import to_numpy
from tests.support.statistics import agrees, by_counts, differs


def clouds():
    rng = np.random.default_rng(5)
    angle = np.linspace(0, 2 * np.pi, 700, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return {
        "one": np.array([[1.0, 2.0]]),
        "two": np.array([[0.0], [5.0]]),
        "twins": np.full((10, 3), 0.1),
        "few": rng.standard_normal((20, 3)),
        "many": rng.standard_normal((1500, 2)),
        "cube": rng.uniform(size=(600, 5)),
        "circle": circle,
        "odd circle": circle[:-1] * 3 + [100.0, -7.0],
        "line": np.linspace(0, 1, 600)[:, None] * [[3.0, 4.0]],
        "triangle": np.array([[0, 0], [1, 0], [0.5, math.sqrt(3) / 2]]),
        "flat": np.concatenate([circle * [10, 1e-3], rng.standard_normal((50, 2)) * 1e-3]),
        "outlier": np.concatenate([rng.standard_normal((800, 2)), [[1e4, 0.0]]]),
        "high": rng.standard_normal((300, 40)),
        "far": rng.standard_normal((300, 2)) + 1e6,
    }


@pytest.mark.parametrize("name, X", clouds().items())
def test_diameter_by_brute_force(name, X):
    expected = pdist(X).max() if len(X) > 1 else 0.0
    assert_allclose(kl.Points(X).diameter(), expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_diameter_where_two_sweeps_miss_it(seed):
    # Rough circles of several blocks, and small clouds whose mean is pulled to one side.
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 1200)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1) * rng.uniform(0.97, 1, (1200, 1))
    assert_allclose(kl.Points(circle).diameter(), pdist(circle).max(), rtol=1e-12)
    for _ in range(30):
        X = rng.standard_normal((rng.integers(4, 9), 2))
        X = np.concatenate([X, np.repeat(X[:1], rng.integers(0, 30), axis=0)])
        assert_allclose(kl.Points(X).diameter(), pdist(X).max(), rtol=1e-12)


def test_diameter_of_a_huge_rim_is_an_upper_bound(rng):
    angle = rng.uniform(0, 2 * np.pi, 25_000)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert 2 * (1 - 1e-6) <= kl.Points(X).diameter() <= 2.1


@pytest.mark.parametrize("name, X", clouds().items())
def test_norm_bound_and_bounds(name, X):
    actions = kl.Points(X)
    assert_allclose(actions.norm_bound(), max(math.sqrt(sum(v * v for v in x)) for x in X.tolist()))
    lower, upper = actions.bounds()
    assert_array_equal(lower, [min(column) for column in X.T.tolist()])
    assert_array_equal(upper, [max(column) for column in X.T.tolist()])


def test_members_are_the_points_alone(rng):
    X = rng.standard_normal((50, 3))
    actions = kl.Points(X)
    assert np.all(actions.contains(X[::-1]))
    assert not np.any(actions.contains(X + 1e-9))
    assert np.all(actions.contains(X.astype(np.float32)))


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1.0, 1e20, 1e150])
def test_membership_knows_the_scale(scale):
    actions = kl.Points([[scale], [2 * scale]])
    assert_array_equal(
        actions.contains([[scale], [1.5 * scale], [2 * scale * (1 + 1e-15)], [0.0]]),
        [True, False, True, False],
    )


def test_draws_are_uniform_over_rows(rng):
    # Chi-squared statistic over 8 rows; false-alarm level 1e-6.

    X = np.arange(8.0)[:, None]
    counts = np.bincount(kl.Points(X).sample(8000, rng)[:, 0].astype(int), minlength=8)
    assert agrees(by_counts(counts))
    # Negative control: one row left out by an off-by-one.
    wrong = np.bincount(rng.integers(7, size=8000), minlength=8)
    assert differs(by_counts(wrong))


def test_sequence_and_equality():
    X = np.array([[0.0, 1.0], [2.0, 3.0]])
    actions = kl.Points(X)
    assert len(actions) == 2
    assert_array_equal(actions[1], [2.0, 3.0])
    assert_array_equal(actions[0:1], [[0.0, 1.0]])
    assert actions == kl.Points(X.tolist())
    assert actions != kl.Points(X + 1)
    assert actions != kl.Points(X[:1])
    assert actions != kl.Points(X, covering_radius=0.1)
    assert actions != "points"
    assert repr(actions) == "Points([[0.0, 1.0], [2.0, 3.0]])"
    assert repr(kl.Points(X, covering_radius=0.1)).endswith("]], covering_radius=0.1)")
    assert repr(kl.Points(np.ones((9, 1)))) == "Points(9 in dimension 1)"
    with pytest.raises(TypeError):
        hash(actions)

    # The array is a copy that nobody can change.
    X[:] = 9.0
    assert_array_equal(actions.X, [[0.0, 1.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="read-only"):
        actions.X[0, 0] = 5.0


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arrays_keep_their_kind_and_type(xp, precision, rng):
    X = rng.standard_normal((40, 2)).astype(precision)
    actions = kl.Points(xp.asarray(X))
    assert 1 < len(actions.net(0.5)) < 40
    for part in (actions.X, actions.sample(5, rng), actions[2:4], actions.net(0.5).X):
        assert array_api_compat.array_namespace(part) is xp
        assert part.dtype == getattr(xp, precision)
    assert_array_equal(to_numpy(actions.X), X)
    assert_allclose(actions.diameter(), pdist(X).max(), rtol=1e-6)
    assert_allclose(actions.norm_bound(), np.linalg.norm(X, axis=1).max(), rtol=1e-6)
    assert_array_equal(actions.bounds(), kl.Points(X).bounds())
    assert np.all(actions.contains(X))
    assert actions == kl.Points(X)
    assert_array_equal(to_numpy(actions.sample(9, 3)), kl.Points(X).sample(9, 3))
