"""Action sets at the ends of their ranges, and nets that are refused before they are laid."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import koloss as kl
from koloss.actions.ball import fewest
from koloss.errors import NetTooLarge


@pytest.mark.parametrize("radius", [1e-320, 1e-200, 1e200, 1.7e308])
@pytest.mark.parametrize("kind", [kl.Ball, kl.PositiveBall])
def test_radii(kind, radius):
    with pytest.raises(ValueError, match="`radius` must be between 1e-150 and 1e150, got"):
        kind(2, radius)


def test_coordinates():
    for act, name in (
        (lambda: kl.Points([[1e200]]), "X"),
        (lambda: kl.Box([-1e200], [0.0]), "lower"),
        (lambda: kl.Box([0.0], [1e200]), "upper"),
    ):
        with pytest.raises(
            ValueError, match=rf"`{name}` must be at most 1e\+152 in size, got 1e\+200"
        ):
            act()


@pytest.mark.parametrize(
    "kind", [kl.Ball(2), kl.Box([0], [1]), kl.Points([[0.0]]), kl.PositiveBall(2)]
)
def test_draws_beyond_memory(kind):
    with pytest.raises(ValueError, match="`size` must be at most 1000000000, got"):
        kind.sample(10**12)


def test_dimensions_beyond_memory():
    with pytest.raises(ValueError, match="`dimension` must be at most 1000000, got"):
        kl.Ball(10**12)


def test_points_whose_squares_are_no_floats():
    ball = kl.Ball(2)
    X = np.array([[3e200, 4e200], [-1.7e308, 0.0], [0.3, 0.4]])
    assert ball.contains(X).tolist() == [False, False, True]
    np.testing.assert_allclose(ball.project(X), [[0.6, 0.8], [-1.0, 0.0], [0.3, 0.4]])
    assert kl.PositiveBall(2).contains(X).tolist() == [False, False, True]


@pytest.mark.parametrize("d", [4, 5, 6])
@pytest.mark.parametrize("kind", [kl.Ball, kl.PositiveBall, partial(kl.PositiveBall, lower=0.2)])
def test_points_of_a_grid_are_bounded_from_below(kind, d):
    """By a number close to theirs, before there are any; less so in a ball, where many sums are the largest."""
    step = 0.4 if kind is kl.Ball else 0.3
    axes, taken, room = kind(d)._axes(step, step * d**0.5 / 2)
    assert [len(axis) for axis in axes] == [len(axis) for axis in taken]
    exact = np.sum(sum(np.ix_(*taken)) <= room)
    share = 0.5 if kind is kl.Ball else 0.9
    assert share * exact <= fewest(taken, room, enough=1e9) <= exact


NETS = [
    (kl.Ball(2), 1e-4),
    (kl.Ball(3), 2e-3),
    (kl.Ball(6), 0.05),
    (kl.Ball(10), 0.2),
    (kl.Ball(50), 1.0),
    (kl.PositiveBall(3), 1e-3),
    (kl.PositiveBall(8), 0.04),
    (kl.PositiveBall(12, 4.0, 0.01), 0.4),
    (kl.Box([0] * 6, [1] * 6), 0.03),
]
FINE = {"spacing": 0.01, "max_bytes": 2**28}
TABLES = [  # features times points
    lambda: kl.exact_features(kl.Quadratic(), kl.Ball(3), **FINE),
    lambda: kl.pivoted_cholesky(kl.Gaussian(1.0), kl.Ball(3), rank=400, **FINE),
    lambda: kl.kernel_pca(kl.Gaussian(1.0), kl.Ball(3), rank=400, **FINE),
    lambda: kl.mercer_features(kl.Gaussian(1.0), kl.Ball(3), rank=400, **FINE),
    lambda: kl.BanditExpWeights(kl.Ball(3), kl.Gaussian(1.0), horizon=100, spacing=0.003),
]
TOO_FINE = [
    *((partial(actions.net, spacing), "of .* gives a net of") for actions, spacing in NETS),
    *((make, "must need at most .* larger `max_bytes`") for make in TABLES),
]


@pytest.mark.parametrize("make, message", TOO_FINE)
def test_what_is_too_fine_is_refused_before_the_net_is_laid(make, message):
    tracemalloc.start()
    try:
        with pytest.raises(NetTooLarge, match=f"`spacing` {message}"):
            make()
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_a_spacing_whose_multiples_are_no_floats():
    for actions in (kl.Ball(9), kl.Box([0.0, 0.0], [0.0, 0.0]), kl.PositiveBall(2)):
        with pytest.raises(ValueError, match=r"`spacing` must be at most 1e\+152, got 1.7e\+308"):
            actions.net(1.7e308)


def test_a_larger_limit_is_taken():
    fine = kl.Ball(4).net(0.25)
    with pytest.raises(NetTooLarge):
        kl.Ball(4).net(0.25, max_bytes=len(fine) * 8)
    assert len(kl.Ball(4).net(0.25, max_bytes=10**9)) == len(fine)


def test_a_rank_above_the_points_is_no_matter_of_memory():
    with pytest.raises(ValueError, match="`rank` must be at most 2, the numerical rank"):
        kl.pivoted_cholesky(kl.Gaussian(1.0), kl.Points([[0.0], [1.0]]), rank=10**12)
