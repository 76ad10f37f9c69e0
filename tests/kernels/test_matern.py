"""Matérn kernels against quadrature, closed forms and their limits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special

import koloss as kl

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


@pytest.mark.parametrize("p", range(20))
def test_half_integers_against_the_bessel_function(p):
    nu = p + 0.5
    r = np.linspace(0.05, 6.0, 40)
    z = math.sqrt(2 * nu) * r / 0.9
    expected = 2 ** (1 - nu) / special.gamma(nu) * z**nu * special.kv(nu, z)
    assert_allclose(kl.Matern(nu, 0.9)([[0.0]], r[:, None])[0], expected, rtol=1e-12)


@pytest.mark.parametrize("nu", [20.5, 21.0, 35.0, 50.0, 80.2, 99.5, 100.0])
@pytest.mark.parametrize("r", [1e-7, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 0.1])
def test_near_coincident_points_of_smooth_kernels(nu, r):
    # Where K_ν overflows the kernel is not yet one: at ν = 100, up to z = 0.06.
    missing = mixture(nu, 1.0, r, lambda u: -math.expm1(-u))
    assert_allclose(1 - at(kl.Matern(nu, 1.0), r), missing, rtol=1e-6, atol=5e-13)


@pytest.mark.parametrize("nu", [0.1, 0.3, 0.5, 0.75])
def test_near_coincident_points_of_rough_kernels(nu):
    # 1 - k = Γ(1-ν)/Γ(1+ν) (z/2)^2ν to leading order
    z = 1e-4
    leading = special.gamma(1 - nu) / special.gamma(1 + nu) * (z / 2) ** (2 * nu)
    drop = 1 - at(kl.Matern(nu, math.sqrt(2 * nu)), z)
    assert_allclose(drop, leading, rtol=5 * leading + 5 * z ** (2 - 2 * nu))


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


@pytest.mark.parametrize("nu", [0.5, 0.7, 1.5, 2.5, 33.3])
def test_extreme_lengthscales(nu, rng):
    X = np.array([[0.0], [1.0], [3.0]])
    for lengthscale in (1e-150, 1e-12, 1e12, 1e150):
        expected = np.eye(3) if lengthscale < 1 else np.ones((3, 3))
        assert_allclose(kl.Matern(nu, lengthscale)(X), expected, atol=1e-11)
    # Only the ratio of distance and lengthscale counts.
    X = rng.uniform(size=(6, 2))
    for scale in (2.0**-300, 2.0**300):
        assert_array_equal(kl.Matern(nu, 0.25 * scale)(X * scale), kl.Matern(nu, 0.25)(X))


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


@pytest.mark.parametrize("nu", [1.01, 1.2, 2.0, 3.0, 3.01, 10.0, 100.0])
def test_lipschitz_constant_is_the_slope_of_the_modulus(nu):
    kernel = kl.Matern(nu, 0.3)
    assert_allclose(kernel.lipschitz(BALL), math.sqrt(nu / (nu - 1)) / 0.3)
    r = np.geomspace(1e-9, 10, 60)
    moduli = np.array([kernel.modulus(float(v), BALL) for v in r])
    assert np.all(moduli <= kernel.lipschitz(BALL) * r * (1 + 1e-12))
    assert np.all(np.diff(moduli) >= -1e-12)


@pytest.mark.parametrize("nu", [0.1, 0.5, 1.0])
def test_rough_kernels_have_no_lipschitz_constant(nu):
    kernel = kl.Matern(nu, 0.3)
    assert kernel.lipschitz(BALL) == math.inf
    # and rightly so: the difference quotient grows without bound
    slow, fast = (math.sqrt(2 * (1 - at(kernel, r))) / r for r in (1e-2, 1e-5))
    assert fast > 1.2 * slow
    assert kernel.modulus(1e-5, BALL) < 1.0


def test_gaussian_is_the_limit():
    r = np.linspace(0, 4, 50)[:, None]
    gaussian = kl.Gaussian(1.0)(r[:1], r)
    errors = [np.abs(kl.Matern(nu, 1.0)(r[:1], r) - gaussian).max() for nu in (10, 30, 100)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.004
