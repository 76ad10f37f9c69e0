"""Kernels of differences: values where they are hard, against quadrature, series and closed forms."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special
from scipy.spatial.distance import cdist

import koloss as kl
from koloss.errors import NetTooLarge
from koloss.kernels.distances import squared_distances


@pytest.mark.parametrize("lengthscale", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("period", [1.0, 2 * math.pi])
def test_periodic_is_its_fourier_series(lengthscale, period):
    # exp(-κ(1 - cos θ)) = exp(-κ) Σ_j I_j(κ) cos jθ (DLMF 10.35.2)
    kappa, x = lengthscale**-2, np.linspace(-3, 3, 31)
    j = np.arange(80)
    coefficients = special.ive(j, kappa) * np.where(j == 0, 1, 2)
    expected = np.cos(2 * np.pi * np.outer(x, j) / period) @ coefficients
    kernel = kl.Periodic(lengthscale, period=period)
    assert_allclose(kernel(x[:, None], [[0.0]])[:, 0], expected, atol=1e-13)


FAMILIES = [
    kl.Gaussian,
    kl.Periodic,
    *(partial(kl.Matern, nu) for nu in (0.5, 0.7, 1.5, 2.5, 33.3)),
]


@pytest.mark.parametrize("length", [1e-150, 1e-12, 1e12, 1e150])
@pytest.mark.parametrize("family", FAMILIES)
def test_extreme_lengths(family, length, rng):
    X, kernel = np.array([[0.0], [1.0], [3.0]]), family(length)
    expected = np.eye(3) if length < 1 else np.ones((3, 3))
    assert_allclose(kernel(X), expected, atol=1e-11)
    assert_allclose(kernel(X + 2 * math.pi), kernel(X), atol=1e-11)
    for distance in (1.0, 1e9, 1e200):
        assert kernel.modulus(distance, kl.Ball(1)) <= math.sqrt(2)
    if family is kl.Gaussian:
        assert np.all(np.isfinite(kernel.gradient(X)))
    # Only the ratio of distance and length counts.
    X, scale = rng.uniform(size=(6, 2)), 2.0 ** (300 if length > 1 else -300)
    if family is not kl.Periodic:
        assert_array_equal(family(0.25 * scale)(X * scale), family(0.25)(X))


def test_small_bandwidth_in_single_precision():
    X = np.array([[0.0], [1e-10], [3e-20]], dtype=np.float32)
    gram = kl.Gaussian(1e-20)(X)
    expected = [[1, 0, math.exp(-4.5)], [0, 1, 0], [math.exp(-4.5), 0, 1]]
    assert gram.dtype == np.float32
    # 9e-40 is subnormal in single precision: a few digits are left of the squared distance
    assert_allclose(gram, expected, rtol=1e-3, atol=1e-6)
    assert np.all(np.diag(kl.Periodic(1e-20)(X)) == 1)


@pytest.mark.parametrize("d", [1, 3, 16, 17, 40])
def test_offsets_do_not_matter(d, rng):
    # Numbers with few bits: the shifted points are represented exactly.
    X = rng.integers(-64, 64, (12, d)) / 16
    Y = np.concatenate([X[:3], rng.integers(-64, 64, (6, d)) / 16])
    for kernel in (kl.Gaussian(3.0), kl.Matern(0.5, 3.0), kl.Matern(1.7, 3.0)):
        shifted, plain = kernel(X + 2.0**40, Y + 2.0**40), kernel(X, Y)
        assert_allclose(shifted, plain, rtol=1e-12)
        w = rng.standard_normal(len(Y))
        shifted = kernel.gradient(X + 1 / 32 + 2.0**40, Y + 2.0**40, w)
        assert_allclose(shifted, kernel.gradient(X + 1 / 32, Y, w), rtol=1e-9, atol=1e-12)


NEIGHBOURS = {  # points that make differences of squares cancel, from two clouds
    "spread": lambda X, Y: (X, Y),
    "coincident": lambda X, Y: (X, X[::-1].copy()),
    "close": lambda X, Y: (X[:20], X[:20] + 1e-9 * Y),
    "cluster": lambda X, Y: (1e6 + 1e-3 * X, 1e6 + 1e-3 * Y),  # every pair
    "two clusters": lambda X, Y: (1e-6 * X, 1e-6 * Y + np.repeat([[0.0], [100.0]], 10, axis=0)),
    "far": lambda X, Y: (1e8 + X, X[:7]),  # the first far from the second
}


@pytest.mark.parametrize("d", [1, 2, 16, 17, 64])
@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_squared_distances_are_accurate_one_by_one(kind, d, rng):
    X, Y = NEIGHBOURS[kind](rng.standard_normal((30, d)), rng.standard_normal((20, d)))
    computed = squared_distances(X, Y, np)
    assert_allclose(computed, cdist(X, Y, "sqeuclidean"), rtol=1e-11, atol=0)
    same = squared_distances(X, X, np)
    assert_array_equal(np.diag(same), 0.0)
    assert_allclose(same, cdist(X, X, "sqeuclidean"), rtol=1e-11, atol=0)


BALL = kl.Ball(1, 1000.0)


def at(kernel, r):
    return float(kernel([[0.0]], [[r]])[0, 0])


def mixture(nu, lengthscale, r, of):
    """E of(t / G) with t = z²/4 and G ~ Gamma(ν): the kernel is the case of = exp(-·).

    The Bessel function does not occur: K_ν(z) = ½ (z/2)^ν ∫ exp(-g - z²/4g) g^(-ν-1) dg (DLMF 10.32.10).
    """
    t = nu * (r / lengthscale) ** 2 / 2

    def integrand(s):  # g = exp(s)
        return of(t * math.exp(-s)) * math.exp(nu * s - math.exp(s) - math.lgamma(nu))

    middle, width = math.log(nu), 12 / math.sqrt(nu) + 3
    low = min(middle, math.log(t) if t > 0 else middle) - width - 30 / nu
    parts = [low, middle - 1, middle, middle + 1, middle + width]
    return sum(
        integrate.quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=400)[0]
        for a, b in itertools.pairwise(parts)
    )


@pytest.mark.parametrize("nu", [0.5, 0.7, 1, 1.5, 2, 2.5, 3.3, 7.5, 12.25, 19.5, 20.5, 33.3, 100])
@pytest.mark.parametrize("r", [0.05, 0.4, 1.0, 3.0])
def test_values_against_quadrature(nu, r):
    expected = mixture(nu, 0.9, r, lambda u: math.exp(-u))
    assert_allclose(at(kl.Matern(nu, 0.9), r), expected, rtol=1e-8)


@pytest.mark.parametrize("nu", [20.5, 21.0, 35.0, 50.0, 80.2, 99.5, 100.0])
@pytest.mark.parametrize("r", [1e-7, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 0.1])
def test_near_coincident_points_of_smooth_kernels(nu, r):
    # Where K_ν overflows the kernel is not yet one: at ν = 100, up to z = 0.06.
    missing = mixture(nu, 1.0, r, lambda u: -math.expm1(-u))
    assert_allclose(1 - at(kl.Matern(nu, 1.0), r), missing, rtol=1e-6, atol=5e-13)


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.7, 1.0, 1.2, 1.5, 2.5, 2.7, 19.5, 33.3, 100.0])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_decreases_to_zero_and_never_comes_back(nu, precision):
    r = np.concatenate([[0.0], np.geomspace(1e-6, 1e15, 300)]).astype(precision)[:, None]
    k = kl.Matern(nu, 1.0)(r[:1], r)[0]
    assert k[0] == 1
    rounding = {"float32": 1e-6, "float64": 1e-12}[precision]
    assert np.all(np.diff(k) <= rounding)
    assert np.all((k >= 0) & (k <= 1 + rounding))
    assert np.all(k[r[:, 0] > 1e4] == 0)


@pytest.mark.parametrize("nu", [0.6, 0.75, 1.0])
def test_gradient_vanishes_where_points_coincide(nu):
    X = np.array([[0.3, 0.1], [0.3, 0.1], [1.0, 0.0]])
    gradient = kl.Matern(nu, 1.0).gradient(X)
    assert_array_equal(gradient[0, :2], 0.0)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("nu", [0.2, 0.5])
@pytest.mark.parametrize("d", [1, 20])
def test_there_is_no_gradient_of_rough_kernels_where_points_coincide(nu, d, rng):
    X = rng.uniform(size=(3, d))
    Y = np.concatenate([rng.uniform(size=(2, d)), X[1:2]])
    message = r"Matern\(smoothness=.*\) has no gradient where the two points coincide"
    with pytest.raises(ValueError, match=message):
        kl.Matern(nu, 1.0).gradient(X, Y, np.ones(3))
    assert np.all(np.isfinite(kl.Matern(nu, 1.0).gradient(X, Y[:2])))


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.0, 1.2, 2.5, 3.7, 20.5, 33.3, 50.0, 99.5, 100.0])
@pytest.mark.parametrize("r", [1e-6, 1e-4, 1e-2, 0.5, 2.0])
def test_modulus_against_quadrature(nu, r):
    exact = math.sqrt(2 * mixture(nu, 1.0, r, lambda u: -math.expm1(-u)))
    modulus = kl.Matern(nu, 1.0).modulus(r, BALL)
    assert modulus >= exact * (1 - 1e-9)
    # not loose: the room for rounding is felt where 1 - k is of that order
    assert modulus <= exact * (1 + 3e-3) + 1e-6 * (nu <= 1)


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
def test_rough_kernels_have_no_lipschitz_constant(nu):
    kernel = kl.Matern(nu, 0.3)
    assert kernel.lipschitz(BALL) == math.inf
    # and rightly so: the difference quotient grows without bound
    slow, fast = (math.sqrt(2 * (1 - at(kernel, r))) / r for r in (1e-2, 1e-5))
    assert fast > 1.2 * slow
    assert kernel.modulus(1e-5, BALL) < 1.0


X = np.random.default_rng(2).random((50, 2))
DOUBLED = np.concatenate([X, X[:20], [[0.0, 0.5]], [[-0.0, 0.5]]])  # 51 different points
NUGGET = kl.Gaussian(0.4) + 0.01 * kl.White()


def test_equal_points_are_one_action():
    gram = kl.White()(DOUBLED)
    expected = [[float(tuple(x) == tuple(y)) for y in DOUBLED.tolist()] for x in DOUBLED.tolist()]
    assert_array_equal(gram, expected)
    assert gram[-1, -2] == 1.0  # -0.0 is 0.0
    assert kl.White()(X + 1e-16, X).sum() < 50  # and nothing else is equal but what is


@pytest.mark.parametrize("construct", [kl.pivoted_cholesky, kl.kernel_pca])
@pytest.mark.parametrize("kernel", [kl.White(), NUGGET, NUGGET * kl.Polynomial(1)], ids=repr)
def test_proxies_are_certified_and_exact_at_full_rank(construct, kernel):
    gram = kernel(DOUBLED)
    for rank in (1, 7, 30, 51):
        proxy = construct(kernel, kl.Points(DOUBLED), rank=rank)
        error = np.abs(gram - proxy.features @ proxy.features.T).max()
        assert error <= proxy.epsilon
        # A nugget is missed by its own size wherever an action is left out.
        assert proxy.epsilon >= (0.0 if rank == 51 else 0.009)
        assert_allclose(proxy(DOUBLED), proxy.features, atol=1e-7)
    assert proxy.epsilon < 1e-12 * kernel.bound(kl.Points(DOUBLED)) * 1e3
    with pytest.raises(kl.errors.RankUnreachable, match="at most 51"):
        construct(kernel, kl.Points(DOUBLED), rank=52)


def test_exact_features_are_indicators_of_the_different_points():
    proxy = kl.exact_features(kl.White(), kl.Points(DOUBLED))
    assert proxy.rank == 51
    assert_allclose(proxy.features @ proxy.features.T, kl.White()(DOUBLED), atol=1e-12)
    # Between the points Φ is orthogonal to all of them.
    assert_array_equal(proxy([[7.0, 7.0]]), np.zeros((1, 51)))
    assert proxy.residual_at([[7.0, 7.0]])[0] == pytest.approx(1.0)
    both = kl.exact_features(kl.Linear() + 0.25 * kl.White(), kl.Points(DOUBLED))
    assert both.rank == 51
    gram = DOUBLED @ DOUBLED.T + 0.25 * kl.White()(DOUBLED)
    assert_allclose(both.features @ both.features.T, gram, atol=1e-12)
    product = kl.exact_features(kl.Linear() * kl.White(), kl.Points(X))
    assert_allclose(product.features @ product.features.T, np.diag((X**2).sum(axis=1)), atol=1e-12)
    with pytest.raises(kl.errors.NoFiniteFeatures):
        kl.exact_features(NUGGET, kl.Points(X))


def test_exact_features_keep_to_their_limit():
    size = 50 * 50 * 8
    assert kl.exact_features(kl.White(), kl.Points(X), max_bytes=size).rank == 50
    with pytest.raises(NetTooLarge, match="`kernel` must need at most 19999 bytes, got 50 points"):
        kl.exact_features(kl.White(), kl.Points(X), max_bytes=size - 1)


def test_every_function_is_in_the_space_and_its_norm_is_that_of_the_split(rng):
    # ‖f‖² = f'(K + νI)⁻¹f = min over f = u + z of ‖u‖² + |z|²/ν, at z = ν(K + νI)⁻¹f
    f, nu = rng.standard_normal(50), 0.01
    K = kl.Gaussian(0.4)(X)
    loss = kl.KernelLoss(NUGGET, X, np.linalg.solve(K + nu * np.eye(50), f))
    assert_allclose(loss(X), f, atol=1e-9)
    z = nu * np.linalg.solve(K + nu * np.eye(50), f)
    u = np.linalg.solve(K + nu * np.eye(50), f)  # coefficients of f - z in the smooth part
    assert_allclose(K @ u, f - z, atol=1e-9)
    assert loss.norm() ** 2 == pytest.approx(u @ K @ u + z @ z / nu, rel=1e-9)
    # A spike of norm W has height W√ν beyond the smooth part, as the docstring says.
    spike = kl.White().bump(X[3], 2.0)
    assert_allclose(spike(X), 2.0 * np.eye(50)[3])
    assert (nu * kl.White()).bump(X[3], 2.0)(X).max() == pytest.approx(2 * math.sqrt(nu))


@pytest.mark.parametrize("kernel", [kl.White(), NUGGET, 2.0 * (kl.Linear() * kl.White())], ids=repr)
@pytest.mark.parametrize(
    "actions", [kl.Box([0, 0], [1, 1]), kl.Ball(2), kl.PositiveBall(2)], ids=repr
)
def test_compact_sets_are_refused_with_the_reason(kernel, actions):
    uses = [
        kernel.bound,
        kernel.lipschitz,
        lambda a: kernel.modulus(0.1, a),
        lambda a: kl.pivoted_cholesky(kernel, a, spacing=0.5),
        lambda a: kl.exact_features(kernel, a),
        lambda a: kl.BanditExpWeights(a, kernel, horizon=10),
    ]
    for use in uses:
        with pytest.raises(
            ValueError, match=r"`actions` must be Points, since White\(\) has no limit"
        ):
            use(actions)
    assert kl.pivoted_cholesky(kernel, actions.net(0.5)).rank > 1  # whoever lays the net means it


def test_has_no_gradient():
    with pytest.raises(TypeError, match=r"White\(\) has no gradient"):
        NUGGET.gradient(X, X)
