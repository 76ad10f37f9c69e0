"""Sums, products and multiples of any kernels, left to Hypothesis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import koloss as kl
from koloss import kernels
from koloss.kernels import Kernel, Product, Scaled, Sum

SCALES = st.floats(0.25, 4.0)
LEAVES = st.one_of(
    st.just(kl.Linear()),
    st.just(kl.Quadratic()),
    st.builds(kl.Polynomial, st.integers(1, 3), st.floats(0.0, 2.0)),
    st.builds(kl.Gaussian, SCALES),
    st.builds(kl.Matern, st.sampled_from([1.5, 1.8, 2.5]), SCALES),
    st.builds(kl.Periodic, SCALES, SCALES),
    st.just(kl.Posynomial([[1, 0.5], [-1, 2]])),
)
KERNELS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda c, a: c * a, SCALES, inner),
    ),
    max_leaves=4,
)
BOX = kl.Box([0.5, 0.7], [1.3, 1.6])
X, Y = BOX.sample(6, 1), BOX.sample(5, 2)


def combined(kernel, of):
    """`of` applied to the leaves, put together by hand."""
    match kernel:
        case Sum(left, right):
            return combined(left, of) + combined(right, of)
        case Product(left, right):
            return combined(left, of) * combined(right, of)
        case Scaled(scale, inner):
            return scale * combined(inner, of)
    return of(kernel)


@given(KERNELS)
def test_gram_and_diagonal_follow_the_algebra(kernel):
    assert_allclose(kernel(X, Y), combined(kernel, lambda k: k(X, Y)), rtol=1e-12)
    assert_allclose(kernel.diag(X), combined(kernel, lambda k: k.diag(X)), rtol=1e-12)


@given(KERNELS)
def test_repr_and_plain_data_read_back(kernel):
    twin = eval(repr(kernel), vars(kernels).copy())
    assert twin == kernel == Kernel.from_dict(kernel.to_dict())
    assert hash(twin) == hash(kernel)


@given(KERNELS)
def test_bounds_and_moduli_hold(kernel):
    corners = np.array([[a, b] for a in (0.5, 1.3) for b in (0.7, 1.6)])
    Z = np.concatenate([X, Y, corners])
    assert kernel.bound(BOX) >= kernel.diag(Z).max() * (1 - 1e-12)
    gram, diagonal = kernel(Z), kernel.diag(Z)
    moved = np.sqrt(np.maximum(diagonal[:, None] + diagonal[None, :] - 2 * gram, 0))
    apart = np.linalg.norm(Z[:, None] - Z[None, :], axis=2)
    rounding = 1e-7 * math.sqrt(diagonal.max())
    assert np.all(moved <= kernel.lipschitz(BOX) * apart + rounding)
    moduli = np.vectorize(lambda r: kernel.modulus(r, BOX))(apart)
    assert np.all(moved <= moduli + rounding)


@given(KERNELS, KERNELS)
def test_structure_is_kept(left, right):
    assert left + right == Sum(left, right)
    assert left * right == Product(left, right)
    assert 2 * left == left * 2 == left * 2.0 == np.float32(2) * left == Scaled(2.0, left)


def test_associativity_is_remembered_in_the_repr():
    a, b, c = kl.Linear(), kl.Gaussian(1.0), kl.Quadratic()
    for kernel in ((a + b) + c, a + (b + c), (a * b) * c, a * (b * c), 2.0 * (a * b), 2.0 * a * b):
        assert eval(repr(kernel), vars(kernels).copy()) == kernel
    assert (a + b) + c != a + (b + c)
    assert repr(a + (b + c)) == "Linear() + (Gaussian(bandwidth=1.0) + Quadratic())"
    assert repr((a + b) * c) == "(Linear() + Gaussian(bandwidth=1.0)) * Quadratic()"


def test_sum():
    total = sum([kl.Linear(), kl.Gaussian(1.0), kl.Quadratic()])
    assert_allclose(total(X), kl.Linear()(X) + kl.Gaussian(1.0)(X) + kl.Quadratic()(X))
    with pytest.raises(TypeError):
        1 + kl.Linear()


def test_vanishing_factor_beside_an_infinite_constant():
    # On the single point 0 the linear kernel is zero; inf · 0 must not become NaN.
    kernel, origin = kl.Linear() * kl.Matern(0.5, 1.0), kl.Points([[0.0, 0.0]])
    assert kernel.lipschitz(origin) == 1.0
    assert kernel.lipschitz(kl.Ball(2)) == math.inf
    assert kernel.modulus(0.1, kl.Ball(2)) < 1.0


def test_other_things_do_not_combine():
    for wrong in ("2", None, [1.0], np.array([1.0, 2.0]), 2j):
        for combine in (
            lambda w: kl.Linear() * w,
            lambda w: w * kl.Linear(),
            lambda w: kl.Linear() + w,
        ):
            with pytest.raises(TypeError):
                combine(wrong)
    with pytest.raises(TypeError):
        kl.Linear() + 1
