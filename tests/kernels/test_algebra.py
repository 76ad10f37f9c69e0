"""Sums, products and multiples of kernels as they are written; what they are is in the contract of kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl
from koloss import kernels
from koloss.kernels import Product, Scaled, Sum

X = kl.Box([0.5, 0.7], [1.3, 1.6]).sample(6, 1)


def test_what_operators_make():
    left, right = kl.Linear(), kl.Gaussian(1.0)
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
