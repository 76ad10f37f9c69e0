"""One bandwidth or lengthscale for each coordinate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.kernels import Kernel

FAMILIES = {
    "gaussian": kl.Gaussian,
    "matern-1/2": lambda s: kl.Matern(0.5, s),
    "matern-5/2": lambda s: kl.Matern(2.5, s),
    "matern-1.3": lambda s: kl.Matern(1.3, s),
}
every = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
powers = st.lists(st.integers(-60, 60), min_size=3, max_size=3)


def points(size, d=3, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (size, d)) + 3.0


@every
@given(exponents=powers)
def test_powers_of_two_scale_coordinates_and_bandwidths_bit_for_bit(family, exponents):
    units, lengths = 2.0 ** np.array(exponents), np.array([0.3, 0.9, 2.1])
    X, Y = points(6), points(5, seed=1)
    plain, scaled = family(lengths), family(lengths * units)
    assert_array_equal(scaled(X * units, Y * units), plain(X, Y))
    assert_array_equal(scaled(X * units, Y[:1] * units), plain(X, Y[:1]))
    weights = np.linspace(-1, 1, 5)
    there = scaled.gradient(X * units, Y * units, weights) * units
    assert_array_equal(there, plain.gradient(X, Y, weights))


@every
@pytest.mark.parametrize("d", [1, 3, 20])
def test_any_units_leave_the_gram_matrix_unchanged(family, d, rng):
    X, lengths = points(8, d), rng.uniform(0.5, 3.0, d)
    units = 10.0 ** rng.uniform(-4, 4, d)
    gram = family(lengths)(X)
    assert_allclose(family(lengths * units)(X * units), gram, rtol=1e-11)
    # The kernel of one length on coordinates divided by theirs, and the same length for all.
    assert_allclose(gram, family(1.0)(X / lengths), rtol=1e-11)
    assert_allclose(family([0.7] * d)(X), family(0.7)(X), rtol=1e-12)
    wrong = family(np.roll(lengths, 1) if d > 1 else 2 * lengths)
    assert np.abs(wrong(X) - gram).max() > 1e-3


@every
def test_differences_are_scaled_not_points(family):
    # Far from the origin the coordinates divided by 0.3 would have lost the distance.
    x, y = np.array([[2.0**40, 0.0]]), np.array([[2.0**40 + 2.0**-10, 0.0]])
    exact = family([0.3, 1.0])([[0.0, 0.0]], [[2.0**-10, 0.0]])
    assert_allclose(1 - family([0.3, 1.0])(x, y), 1 - exact, rtol=1e-12)
    assert_allclose(family([0.3, 1.0])(x, np.concatenate([y, y]))[0], exact[0, 0], rtol=1e-15)


def test_lengths_are_values():
    kernel = kl.Gaussian(np.array([0.1, 5.0]))
    assert kernel == kl.Gaussian([0.1, 5]) == kl.Gaussian((0.1, 5.0))
    assert kernel != kl.Gaussian([5.0, 0.1])
    assert repr(kernel) == "Gaussian(bandwidth=(0.1, 5.0))"
    assert kernel.to_dict() == {"kind": "Gaussian", "bandwidth": [0.1, 5.0]}
    assert Kernel.from_dict({"kind": "matern", "smoothness": 2.5, "lengthscale": [1, 2]}) == (
        kl.Matern(2.5, (1.0, 2.0))
    )
    assert kl.Gaussian(np.float64(0.5)) == kl.Gaussian(np.asarray(0.5)) == kl.Gaussian(0.5)


def test_lengths_from_another_array_library(xp):
    assert kl.Gaussian(xp.asarray([0.5, 0.25])) == kl.Gaussian((0.5, 0.25))


@pytest.mark.parametrize(
    "value, message",
    [
        ([], "`bandwidth` must not be empty, got length 0"),
        ([1.0, 0.0], "`bandwidth` must be positive, got 0"),
        ([1.0, -2.0], "`bandwidth` must be positive, got -2"),
        ([1.0, math.nan], "`bandwidth` must be finite"),
        ([1.0, 1e200], "`bandwidth` must be between 1e-150 and 1e150, got 1e[+]200"),
        ([1.0, True], "`bandwidth` must be a number, got True"),
        ([[1.0, 2.0]], "`bandwidth` must be 1-D, got ndim=2"),
        (["a", "b"], "`bandwidth` must be an array of numbers"),
    ],
)
def test_bad_lengths(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kl.Gaussian(value)


@pytest.mark.parametrize(
    "kernel, name",
    [
        (kl.Gaussian([0.1, 0.2]), "bandwidth"),
        (kl.Matern(1.5, [0.1, 0.2]), "lengthscale"),
        (kl.Linear() + 2.0 * kl.Gaussian([0.1, 0.2]), "bandwidth"),
        (kl.Linear() * kl.Matern(1.5, [0.1, 0.2]), "lengthscale"),
    ],
)
def test_another_dimension_is_refused_by_name(kernel, name):
    X, box = points(4), kl.Box([0, 0, 0], [1, 1, 1])

    def rule(argument):
        text = f"`{name}` must have one length for each of the 3 coordinates of `{argument}`, got 2"
        return pytest.raises(ValueError, match=text)

    with rule("X"):
        kernel(X)
    with rule("X"):
        kernel.diag(X)
    with rule("Y"):
        kernel(X[:, :2], X)
    with rule("centers"):
        kl.KernelLoss(kernel, X, np.ones(4))
    for method in (kernel.bound, kernel.lipschitz, lambda actions: kernel.modulus(0.1, actions)):
        with rule("actions"):
            method(box)
    with rule("actions"):
        kl.pivoted_cholesky(kernel, box)
    with rule("actions"):
        kl.BanditExpWeights(kl.Points(X), kernel, horizon=10)


def test_gaussian_mercer_expansion_of_each_coordinate():
    X = points(300, 2)
    kernel = kl.Gaussian([0.5, 4.0])
    proxy = kl.mercer_features(kernel, kl.Points(X), tolerance=1e-6)
    assert np.abs(kernel(X) - proxy(X) @ proxy(X).T).max() <= proxy.epsilon <= 1e-6
    same = kl.mercer_features(kl.Gaussian(0.5), kl.Points(X / [1.0, 8.0]), tolerance=1e-6)
    assert proxy.rank == same.rank
    assert_allclose(proxy.eigenvalues, same.eigenvalues, rtol=1e-9)
