"""Proxies of many points, in shares and by threads, and in single precision, against those made whole and in double precision."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

import koloss as kl
from koloss.core import linalg
from koloss.errors import NetTooLarge
from koloss.proxy import base

N = linalg.SHARE + 1_000
NAMES = ("core.linalg", "proxy.base", "proxy.pivoted_cholesky", "proxy.exact")
MODULES = [importlib.import_module(f"koloss.{name}") for name in NAMES]


@pytest.fixture
def points(rng):
    return kl.Points(rng.uniform(-1, 1, size=(N, 2)))


def whole(monkeypatch, build):
    """The same without shares."""
    with monkeypatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "SHARE", 10**9)
        return build()


BUILDS = {
    "pivoted_cholesky": lambda points: kl.pivoted_cholesky(kl.Gaussian(0.5), points, rank=9),
    "pivoted_cholesky, tolerance": lambda points: kl.pivoted_cholesky(
        kl.Gaussian(0.7), points, tolerance=0.05
    ),
    "exact_features": lambda points: kl.exact_features(kl.Quadratic(), points),
}


@pytest.mark.parametrize("name", BUILDS)
def test_in_shares_and_whole(points, monkeypatch, name):
    def build():
        return BUILDS[name](points)

    proxy, reference = build(), whole(monkeypatch, build)
    assert proxy.rank == reference.rank
    some = slice(None, None, 997)
    assert_allclose(
        proxy.features[some] @ proxy.features[some].T,
        reference.features[some] @ reference.features[some].T,
        atol=1e-12,
    )
    assert_allclose(proxy.eigenvalues, reference.eigenvalues, rtol=1e-9)
    assert_allclose(proxy.residual_curve, reference.residual_curve, rtol=1e-9, atol=1e-13)
    assert_allclose(proxy.residual, reference.residual, atol=1e-12)
    if proxy.pivots is not None:
        assert_array_equal(proxy.pivots, reference.pivots)


@pytest.mark.parametrize("name", BUILDS)
def test_one_thread_and_two_give_the_same_bits(points, name):
    proxies = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            proxies.append(BUILDS[name](points))
    assert_array_equal(proxies[0].features, proxies[1].features)
    assert proxies[0].epsilon == proxies[1].epsilon


def test_exact_features_of_points_on_a_line(rng):
    line = kl.Points(rng.uniform(size=(N, 1)) * [[1.0, 2.0]])
    proxy = kl.exact_features(kl.Linear(), line)
    assert proxy.rank == 1
    assert_allclose(proxy.features[:, 0] ** 2, np.sum(line.X**2, axis=1), rtol=1e-10)


def test_exact_features_of_single_precision_keep_small_directions(rng):
    # A thousandth of the largest is no rounding, however many points there are.
    scales = np.array([1.0, 1e-3], dtype=np.float32)
    X = rng.normal(size=(N, 2)).astype(np.float32) * scales
    proxy = kl.exact_features(kl.Linear(), kl.Points(X))
    assert proxy.rank == 2
    assert proxy.features.dtype == proxy.eigenvalues.dtype == np.float32
    assert_allclose(proxy.eigenvalues, scales.astype(float) ** 2, rtol=0.05)
    # What rounding alone has put there is none.
    line = np.column_stack([X[:, 0], X[:, 0] / np.float32(3)])
    assert kl.exact_features(kl.Linear(), kl.Points(line)).rank == 1


def test_eigenvalues_of_many_in_single_precision(points):
    single = kl.Points(points.X.astype(np.float32))
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.5), single, rank=9)
    assert proxy.features.dtype == proxy.eigenvalues.dtype == np.float32
    features = proxy.features.astype(float)
    expected = np.linalg.eigvalsh(features.T @ features / N)[::-1]
    assert_allclose(proxy.eigenvalues, expected, rtol=1e-5, atol=1e-7)


def test_residuals_are_sums_in_double_precision(rng):
    features = rng.normal(size=(50, 300)).astype(np.float32)
    diagonal = np.full(50, 400.0, dtype=np.float32)
    left, largest = base.residuals(features, diagonal)
    squares = features.astype(float) ** 2
    assert_allclose(left, 400.0 - squares.sum(axis=1), rtol=1e-12)
    curve = np.maximum((400.0 - np.cumsum(squares, axis=1)).max(axis=0), 0)
    assert_allclose(largest, [400.0, *curve], rtol=1e-12)
    # In single precision they are not.
    assert np.abs(400 - np.sum(features * features, axis=1) - left).max() > 1e-6


class TestMaxBytes:
    """A table of single precision needs half, and whoever is refused is told what would do."""

    def test_refused_with_the_number_that_is_needed(self, rng):
        X = rng.uniform(size=(1000, 2))
        with pytest.raises(NetTooLarge, match="80000 or more; points in float32 need half"):
            kl.pivoted_cholesky(kl.Gaussian(0.3), kl.Points(X), rank=10, max_bytes=79_999)
        single = kl.Points(X.astype(np.float32))
        with pytest.raises(NetTooLarge, match=r"`max_bytes`, 40000 or more$"):
            kl.pivoted_cholesky(kl.Gaussian(0.3), single, rank=10, max_bytes=39_999)

    def test_what_is_needed_is_enough(self, rng):
        X = rng.uniform(size=(1000, 2))
        for points, needed in ((X, 80_000), (X.astype(np.float32), 40_000)):
            proxy = kl.pivoted_cholesky(
                kl.Gaussian(0.3), kl.Points(points), rank=10, max_bytes=needed
            )
            assert proxy.features.nbytes == needed
