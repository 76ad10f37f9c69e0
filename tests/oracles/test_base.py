"""Minimum over points: all are tried."""

from __future__ import annotations

import array_api_compat
import pytest
from numpy.testing import assert_array_equal

import koloss as kl
from koloss.core.arrays import to_numpy
from koloss.oracles.base import minimize_points

LOSSES = [
    kl.LinearLoss([1.0, -0.5]),
    kl.QuadraticLoss([[1.0, 0.2], [0.2, -1.0]], [0.3, 0.0]),
    kl.KernelLoss(kl.Gaussian(0.5), [[0.6, 0.5], [-0.3, 0.9]], [1.0, -1.0]),
    kl.PosynomialLoss(kl.Posynomial([[1, -1], [0.5, 2]]), [1.0, -0.3]),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_smallest_of_all(loss, rng):
    X = rng.uniform(0.1, 2, (300, 2))
    values = [float(loss(x[None])[0]) for x in X]
    best = minimize_points(loss, kl.Points(X))
    assert best.index == min(range(300), key=values.__getitem__)
    assert_array_equal(best.point, X[best.index])
    assert best.value == pytest.approx(min(values), rel=1e-12)
    assert best.certificate == "exhaustive"
    assert 0 <= best.gap <= 1e-13
    assert best.lower_bound <= min(values)


def test_ties_are_all_known_and_the_first_is_the_point():
    X = [[1.0, 3.0], [0.0, 5.0], [2.0, 1.0], [0.0, -1.0], [0.0, 5.0]]
    best = minimize_points(kl.LinearLoss([1.0, 0.0]), kl.Points(X))
    assert best.index == 1
    assert_array_equal(best.points, [X[1], X[3], X[4]])
    assert_array_equal(best.point, X[1])


def test_kind_and_type_are_kept(xp):
    points = kl.Points(xp.asarray([[1.0, 2.0], [3.0, -1.0]], dtype=xp.float32))
    best = minimize_points(kl.LinearLoss([0.0, 1.0]), points)
    assert array_api_compat.array_namespace(best.point) is xp
    assert best.point.dtype == xp.float32
    assert_array_equal(to_numpy(best.point), [3.0, -1.0])
    assert 1e-8 < best.gap < 1e-5  # the rounding of single precision


def test_one_point():
    best = minimize_points(LOSSES[0], kl.Points([[2.0, 4.0]]))
    assert (best.index, best.value, len(best.points)) == (0, 0.0, 1)
