"""Pivoted Cholesky against least squares in the RKHS."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import ToleranceUnreachable

KERNELS = {
    "gaussian": kl.Gaussian(0.5),
    "matern-1/2": kl.Matern(0.5, 0.4),
    "polynomial": kl.Polynomial(3),
}


@pytest.fixture
def X(rng):
    cloud = rng.uniform(-1, 1, size=(50, 2))
    return np.vstack([cloud, cloud[:10], np.linspace(-1, 1, 10)[:, None] * [[1.0, 2.0]]])


def projection(kernel, pivots, X, Y):
    """⟨PΦ(x), PΦ(y)⟩, P on the span of Φ(pivots): least squares, K(X, p) K(p, p)⁺ K(p, Y)."""
    root = scipy.linalg.cholesky(kernel(pivots), lower=True)
    left = scipy.linalg.solve_triangular(root, kernel(pivots, X), lower=True)
    right = scipy.linalg.solve_triangular(root, kernel(pivots, Y), lower=True)
    return left.T @ right


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_projects_on_the_span_of_its_pivots(X, rng, kernel, rank):
    proxy = kl.pivoted_cholesky(kernel, kl.Points(X), rank=rank)
    Y = rng.uniform(-2, 2, size=(15, 2))
    both, pivots = np.vstack([X, Y]), X[proxy.pivots]
    features = np.vstack([proxy.features, proxy(Y)])
    expected = projection(kernel, pivots, both, both)
    scale = kernel.diag(both).max()
    assert_allclose(features @ features.T, expected, rtol=0, atol=1e-10 * scale)
    # The best approximation in the span, by a generic least-squares solver: ‖Φ(x) - Σ α_i Φ(p_i)‖² = r(x).
    alpha = np.linalg.lstsq(kernel(pivots), kernel(pivots, both), rcond=None)[0]
    squares = np.sum(alpha * (kernel(pivots) @ alpha - 2 * kernel(pivots, both)), axis=0)
    assert_allclose(proxy.residual_at(both), kernel.diag(both) + squares, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_pivot_has_the_largest_residual(X, kernel):
    proxy = kl.pivoted_cholesky(kernel, kl.Points(X), rank=9)
    assert len(set(proxy.pivots.tolist())) == 9
    for j, pivot in enumerate(proxy.pivots):
        seen = projection(kernel, X[proxy.pivots[:j]], X, X).diagonal() if j else 0.0
        residual = kernel.diag(X) - seen
        assert residual[pivot] == pytest.approx(residual.max(), rel=1e-9)
        assert residual.max() == pytest.approx(proxy.residual_curve[j], rel=1e-9)


def test_more_pivots_than_the_first_allocation_holds(rng):
    X = rng.uniform(size=(200, 2))
    kernel = kl.Matern(0.5, 0.5)
    proxy = kl.pivoted_cholesky(kernel, kl.Points(X), rank=200)
    assert_allclose(proxy.features @ proxy.features.T, kernel(X), rtol=0, atol=1e-13)
    assert_array_equal(np.sort(proxy.pivots), np.arange(200))


@pytest.mark.parametrize("rank", [3, 8])
def test_eigenvalues_are_those_of_the_features(X, rank):
    proxy = kl.pivoted_cholesky(KERNELS["gaussian"], kl.Points(X), rank=12)
    for each in (proxy.truncate(rank), kl.pivoted_cholesky(proxy.kernel, proxy.points, rank=rank)):
        gram = each.features @ each.features.T / len(X)
        assert_allclose(each.eigenvalues, np.linalg.eigvalsh(gram)[::-1][:rank], rtol=1e-9)
        assert_array_equal(each.pivots, proxy.pivots[:rank])


def test_refuses_a_tolerance_that_the_net_alone_spoils():
    # (‖Φ(x) - Φ(y)‖ at the covering radius)² = 2 - 2K is the least that any rank can certify.
    box, kernel = kl.Box([0], [1]), kl.Gaussian(0.5)
    radius = box.net(0.1).covering_radius
    least = 2 - 2 * np.exp(-0.5 * (radius / 0.5) ** 2)
    with pytest.raises(ToleranceUnreachable, match="smaller `spacing`") as info:
        kl.pivoted_cholesky(kernel, box, tolerance=0.9 * least, spacing=0.1)
    assert info.value.epsilon == pytest.approx(least)
    proxy = kl.pivoted_cholesky(kernel, box, tolerance=1.1 * least, spacing=0.1)
    assert proxy.epsilon < 1.1 * least
