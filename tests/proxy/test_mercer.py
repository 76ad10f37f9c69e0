"""Closed-form Mercer expansions against quadrature, brute force and Lemma 1 of the paper."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.polynomial.hermite import hermgauss
from numpy.testing import assert_allclose

import koloss as kl
from koloss.errors import RankUnreachable, ToleranceUnreachable
from koloss.proxy.mercer import FourierExpansion, HermiteExpansion

COUNT = 12


def normal_quadrature(centre, scale):
    """Nodes and weights for the expectation under N(centre, scale²)."""
    t, weights = hermgauss(160)
    return centre + math.sqrt(2) * scale * t, weights / math.sqrt(math.pi)


def circle_quadrature(period):
    """The trapezoidal rule, exact for trigonometric polynomials of degree below 256."""
    return period * np.arange(256) / 256, np.full(256, 1 / 256)


EXPANSIONS = [
    pytest.param(
        HermiteExpansion(bandwidth, centre, scale),
        kl.Gaussian(bandwidth),
        normal_quadrature(centre, scale),
        id=f"Hermite, bandwidth {bandwidth}, scale {scale}",
    )
    for bandwidth, centre, scale in [(1, 0, 1), (0.8, -2.0, 0.5), (3, 5, 1), (0.7, 0.3, 1.2)]
] + [
    pytest.param(
        FourierExpansion(lengthscale, period),
        kl.Periodic(lengthscale, period),
        circle_quadrature(period),
        id=f"Fourier, lengthscale {lengthscale}, period {period}",
    )
    for lengthscale, period in [(1.0, 2 * math.pi), (0.5, 1.0), (2.0, 24.0)]
]


every = pytest.mark.parametrize("expansion, kernel, quadrature", EXPANSIONS)


@every
def test_eigenfunctions_are_orthonormal(expansion, kernel, quadrature):
    x, weights = quadrature
    phi = expansion.eigenfunctions(x, COUNT)
    assert_allclose(phi.T @ (weights[:, None] * phi), np.eye(COUNT), rtol=0, atol=1e-9)


@every
def test_eigenfunctions_solve_the_integral_equation(expansion, kernel, quadrature):
    # ∫ K(x, y) φ_k(y) dP(y) = μ_k φ_k(x)
    y, weights = quadrature
    x = y[0] + np.linspace(0.35, 0.65, 9) * (y[-1] - y[0])
    phi = expansion.eigenfunctions(y, COUNT)
    integral = kernel(x[:, None], y[:, None]) @ (weights[:, None] * phi)
    mu = expansion.eigenvalues(COUNT)
    expected = mu * expansion.eigenfunctions(x, COUNT)
    assert_allclose(integral, expected, rtol=0, atol=1e-9)


@every
def test_eigenvalues_sum_to_the_trace(expansion, kernel, quadrature):
    # Σ μ_k = E K(x, x) = 1
    mu = expansion.eigenvalues(400)
    assert mu.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.diff(mu) <= 0)


def test_converges_to_the_kernel(rng):
    X = rng.normal(size=(30, 2))
    proxy = kl.mercer_features(kl.Gaussian(1.5), kl.Points(X), tolerance=1e-9)
    assert_allclose(proxy.features @ proxy.features.T, kl.Gaussian(1.5)(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 7, 40])
def test_products_in_two_dimensions_by_brute_force(rng, rank):
    X = rng.normal(size=(25, 2))
    center, scale = np.array([0.1, -0.3]), np.array([0.7, 1.3])
    measure = {"center": center, "scale": scale}
    proxy = kl.mercer_features(kl.Gaussian(0.9), kl.Points(X), rank=rank, **measure)
    first, second = (HermiteExpansion(0.9, c, s) for c, s in zip(center, scale, strict=True))
    pairs = itertools.product(range(60), repeat=2)
    mu, nu = first.eigenvalues(60), second.eigenvalues(60)
    products = ((mu[i] * nu[j], i, j) for i, j in pairs)
    products = sorted(products, reverse=True)[:rank]
    assert_allclose(proxy.eigenvalues, [p[0] for p in products], rtol=1e-12)
    u, v = first.eigenfunctions(X[:, 0], 60), second.eigenfunctions(X[:, 1], 60)
    expected = np.stack([math.sqrt(mu) * u[:, i] * v[:, j] for mu, i, j in products], axis=1)
    assert_allclose(proxy.features, expected, rtol=0, atol=1e-12)


def test_products_in_three_dimensions_by_brute_force(rng):
    X = rng.uniform(0, 1, size=(10, 3))
    proxy = kl.mercer_features(kl.Periodic(0.8, 1.0), kl.Points(X), rank=60)
    one = FourierExpansion(0.8, 1.0).eigenvalues(12)
    products = np.sort([math.prod(c) for c in itertools.product(one, repeat=3)])[::-1]
    assert_allclose(proxy.eigenvalues, products[:60], rtol=1e-12)


class TestLemma1:
    """On the circle |φ_j| ≤ √2, so a tail of at most ε/(4ℬ²) = ε/8 makes an ε/4-approximation."""

    x = np.linspace(0, 2 * math.pi, 300)[:, None]
    kernel = kl.Periodic(0.4)

    @pytest.mark.parametrize("rank", [1, 2, 3, 8, 9, 14, 15])
    def test_error_is_at_most_twice_the_tail(self, rank):
        proxy = kl.mercer_features(self.kernel, kl.Points(self.x), rank=rank)
        tail = 1 - proxy.eigenvalues.sum()
        brute = np.abs(self.kernel(self.x) - proxy.features @ proxy.features.T).max()
        assert brute <= 2 * tail * (1 + 1e-9)
        if rank % 2:  # whole pairs: cos² + sin² = 1, the error is the tail itself
            assert proxy.epsilon == pytest.approx(tail, rel=1e-6)
        else:
            assert proxy.epsilon > 1.01 * tail

    @pytest.mark.parametrize("epsilon", [0.5, 1e-2, 1e-5])
    def test_the_rank_of_the_lemma_suffices(self, epsilon):
        mu = FourierExpansion(0.4, 2 * math.pi).eigenvalues(200)
        m = next(m for m in range(1, 200) if mu[m:].sum() <= epsilon / 8)
        proxy = kl.mercer_features(self.kernel, kl.Points(self.x), rank=m)
        assert proxy.epsilon <= epsilon / 4


def test_normal_measure_is_by_default_that_of_the_points(rng):
    X = rng.normal([1.0, -4.0], [0.5, 2.0], size=(50, 2))
    measures = {}, {"center": X.mean(axis=0), "scale": X.std(axis=0)}, {"center": 0.0, "scale": 3.0}
    default, named, other = (
        kl.mercer_features(kl.Gaussian(1.0), kl.Points(X), rank=10, **m) for m in measures
    )
    assert_allclose(default.features, named.features, rtol=1e-12, atol=1e-15)
    assert np.abs(other.features - default.features).max() > 1e-3


@pytest.mark.parametrize("bandwidth", [0.1, 0.02, 0.01])
def test_narrow_kernels_need_many_features_and_get_them(bandwidth):
    # The first dozens of Hermite functions do not reach the ends of the interval at all.
    X = np.linspace(0, 1, 200)[:, None]
    proxy = kl.mercer_features(kl.Gaussian(bandwidth), kl.Points(X))
    error = np.abs(kl.Gaussian(bandwidth)(X) - proxy.features @ proxy.features.T).max()
    assert error <= proxy.epsilon <= 1e-3


def test_constant_coordinates():
    # A spread of rounding size, 10⁻¹⁷: still a projection, there and elsewhere.
    X = np.column_stack([np.linspace(0, 1, 10), np.full(10, 0.1)])
    X[::2, 1] += 1e-17
    proxy = kl.mercer_features(kl.Gaussian(0.5), kl.Points(X), tolerance=1e-6)
    Y = np.vstack([X, X + np.array([0.0, 0.3])])
    missed = kl.Gaussian(0.5)(Y) - proxy(Y) @ proxy(Y).T
    assert np.linalg.eigvalsh(missed)[0] > -1e-12


class TestLimits:
    """Where the expansion ends in floating point."""

    far = kl.Points(np.append(np.linspace(0, 1, 20), 20.0)[:, None])

    @pytest.mark.parametrize("kernel", [kl.Gaussian(3.0), kl.Gaussian(9.0), kl.Periodic(1.0)])
    def test_eigenvalues_below_the_normal_numbers_are_refused(self, kernel):
        with pytest.raises(RankUnreachable, match=r"`rank` must be at most .* got 2000") as info:
            kl.mercer_features(kernel, self.far, rank=2000)
        proxy = kl.mercer_features(kernel, self.far, rank=info.value.rank)
        assert np.all(np.isfinite(proxy.features))
        assert 0 < proxy.eigenvalues[-1] < 1e-290

    def test_single_precision_ends_earlier(self):
        points = kl.Points(np.linspace(0, 9, 20, dtype=np.float32)[:, None])
        with pytest.raises(RankUnreachable) as info:
            kl.mercer_features(kl.Gaussian(5.0), points, rank=2000)
        proxy = kl.mercer_features(kl.Gaussian(5.0), points, rank=info.value.rank)
        assert np.all(np.isfinite(proxy.features))
        assert 0 < proxy.eigenvalues[-1] < 1e-35

    def test_tolerance_below_rounding(self):
        with pytest.raises(ToleranceUnreachable, match="`tolerance` must be at least") as info:
            kl.mercer_features(kl.Gaussian(1.0), self.far, tolerance=1e-15)
        assert 1e-15 < info.value.epsilon < 1

    def test_far_points_are_reached_late_but_reached(self):
        proxy = kl.mercer_features(kl.Gaussian(1.0), self.far, tolerance=1e-6)
        assert proxy.rank > 64
        assert proxy.epsilon <= 1e-6


def test_default_on_a_compact_set_is_certified_on_the_net():
    # As kernel_pca and pivoted_cholesky do: the step to the whole set comes on top.
    box = kl.Box([0, 0], [1, 1])
    proxy = kl.mercer_features(kl.Gaussian(0.3), box, spacing=0.05)
    assert proxy.residual.max() <= 1e-3 < proxy.epsilon
    before = proxy.truncate(proxy.rank - 1)
    assert before.residual.max() > 1e-3


def test_scales_whose_squares_are_no_floats():
    line = kl.Box([0.0], [1.0]).net(0.1)
    for scale in (1e308, 1e-308):
        with pytest.raises(ValueError, match="`scale` must be between 1e-150 and 1e150, got"):
            kl.mercer_features(kl.Gaussian(1.0), line, rank=2, scale=scale)
    for far in ({"center": 1e300}, {"center": -1e200}):
        with pytest.raises(ValueError, match="`center` and `scale` must be of moderate size"):
            kl.mercer_features(kl.Gaussian(1.0), line, rank=40, **far)
