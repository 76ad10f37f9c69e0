"""Posynomial kernels: suprema on balls and boxes, and the edge of their domain."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

import koloss as kl


def jacobian(table, x):
    """DΦ(x), entry by entry."""

    def entry(row, i):
        powers = (v ** (p - (i == j)) for j, (v, p) in enumerate(zip(x, row, strict=True)))
        return 0.0 if row[i] == 0 else row[i] * math.prod(powers)

    return np.array([[entry(row, i) for i in range(len(x))] for row in table])


def grid(lower, upper, n=9):
    axes = (np.linspace(a, b, n) for a, b in zip(lower, upper, strict=True))
    return list(itertools.product(*axes))


@pytest.mark.parametrize("powers", [(1, 2), (3, 0), (0, 0), (1, 1), (4, 1)])
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_bound_of_one_monomial_on_a_disc_is_exact(powers, radius):
    angle = np.linspace(0, 2 * np.pi, 200_001)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    best = np.max(x ** (2 * powers[0]) * y ** (2 * powers[1]))
    assert_allclose(kl.Posynomial([powers]).bound(kl.Ball(2, radius)), best, rtol=1e-8)


BOXES = [
    ([[1, -2], [0.5, 0.5], [-1, 1]], [0.5, 0.8], [2.0, 3.0]),  # powers of both signs
    ([[2, 1], [1, 3]], [-2.0, -0.5], [1.0, 1.5]),  # coordinates of both signs
    ([[2, 1], [1, 3]], [-2.0, -3.0], [-1.0, -0.5]),  # negative coordinates
    ([[3, 0.5], [1, 2.5]], [-2.0, 0.0], [1.0, 1.5]),  # a zero, and a fraction next to it
    ([[-1, 2]], [0.5, -2.0], [3.0, 1.0]),
    ([[0, 0]], [-1.0, -1.0], [1.0, 1.0]),
    ([[1, 1]], [0.0, 2.0], [0.0, 2.0]),  # a single point
]


@pytest.mark.parametrize("table, lower, upper", BOXES)
def test_bound_on_a_box_is_exact(table, lower, upper):
    kernel, box = kl.Posynomial(table), kl.Box(lower, upper)
    best = max(
        sum(math.prod(v**p for v, p in zip(x, row, strict=True)) ** 2 for row in table)
        for x in grid(lower, upper)
    )
    assert_allclose(kernel.bound(box), best, rtol=1e-12)


@pytest.mark.parametrize("table, lower, upper", [b for b in BOXES if b[0] != [[3, 0.5], [1, 2.5]]])
def test_lipschitz_constant_on_a_box(table, lower, upper):
    kernel, box = kl.Posynomial(table), kl.Box(lower, upper)
    steepest = max(np.linalg.norm(jacobian(table, x), 2) for x in grid(lower, upper))
    constant = kernel.lipschitz(box)
    assert constant >= steepest * (1 - 1e-12)
    # the Frobenius norm stands in for the spectral norm
    assert constant <= steepest * math.sqrt(min(len(table), 2)) * (1 + 1e-12)


def test_gradient_on_the_axes():
    # ∂(x²y + y + 3)/∂(x, y) at zero coordinates, where 0⁰ and 0¹ occur
    kernel = kl.Posynomial([[2, 1], [0, 1], [0, 0]])
    gradient = kernel.gradient([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], [[1.0, 1.0]])
    assert_allclose(gradient[:, 0], [[0, 1], [0, 5], [0, 1]])


def test_gradient_is_refused_where_there_is_none():
    kernel = kl.Posynomial([[0.5, 1.0]])
    with pytest.raises(ValueError, match="has no gradient where coordinate 0 is zero"):
        kernel.gradient([[0.0, 1.0]], [[1.0, 1.0]])
    assert np.all(np.isfinite(kernel.gradient([[0.5, 0.0]], [[1.0, 1.0]])))


@pytest.mark.parametrize(
    "table, point, message",
    [
        ([[-1, 0]], [0.0, 1.0], "`X` must have positive numbers in column 0, got 0"),
        ([[1, 0], [0, -2]], [1.0, -3.0], "`X` must have positive numbers in column 1, got -3"),
        ([[0.5, 1]], [-0.25, 1.0], "`X` must have non-negative numbers in column 0, got -0.25"),
        ([[1, 1]], [1.0, 2.0, 3.0], "`X` must have 2 columns, got 3"),
    ],
)
def test_points_outside_the_domain(table, point, message):
    kernel = kl.Posynomial(table)
    for call, name in [
        (kernel, "X"),
        (kernel.diag, "X"),
        (kernel.features, "X"),
        (kernel.gradient, "X"),
        (kl.PosynomialLoss(kernel, np.ones(len(table))), "X"),
        (kl.PosynomialLoss(kernel, np.ones(len(table))).gradient, "X"),
        (kl.Posynomial([[1, 1]]) + kernel, "X"),
        ((kernel * kl.Linear()).diag, "X"),
        (2.0 * kernel, "X"),
        (lambda X: kernel(np.ones((1, 2)), X), "Y"),
        (kernel.embed, "points"),
        (lambda X: kl.KernelLoss(kernel, X, [1.0]), "centers"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message.replace("`X`", f"`{name}`"))):
            call([point])


@pytest.mark.parametrize(
    "table, actions, message",
    [
        ([[-1]], kl.Ball(1), "`actions` must have positive numbers in coordinate 0"),
        ([[1.5]], kl.Ball(1), "`actions` must have non-negative numbers in coordinate 0"),
        ([[-1]], kl.Box([0.0], [1.0]), "`actions` must have positive numbers in coordinate 0, got 0"),
        ([[0, 0.5]], kl.Box([0.0, -2.0], [1.0, 1.0]), "`actions` must have non-negative numbers in coordinate 1, got -2"),
        ([[1, 1]], kl.Ball(3), "`actions` must have 2 coordinates, got 3"),
        ([[-1, 0]], kl.PositiveBall(2), "`actions` must have positive numbers in coordinate 0, got 0"),
        ([[1, 1]], kl.PositiveBall(3), "`actions` must have 2 coordinates, got 3"),
    ],
)  # fmt: skip
def test_sets_outside_the_domain_have_no_bound(table, actions, message):
    for ask in (kl.Posynomial(table).bound, kl.Posynomial(table).lipschitz):
        with pytest.raises(ValueError, match=re.escape(message)):
            ask(actions)


def test_roots_are_not_lipschitz_at_zero():
    kernel, box = kl.Posynomial([[0.5]]), kl.Box([0.0], [1.0])
    assert kernel.bound(box) == 1.0
    with pytest.raises(ValueError, match="`actions` must keep away from zero for Posynomial"):
        kernel.lipschitz(box)


def test_numbers_beyond_the_floats_are_refused():
    with pytest.raises(ValueError, match=r"`exponents` must be at most 1e.152 in size, got 1e.308"):
        kl.Posynomial([[-1e308, 1.0]])
    steep, inside = kl.Posynomial([[-1e9]]), kl.Box([0.5], [2.0])
    for ask in (steep.bound, steep.lipschitz, kl.Posynomial([[1e150]]).lipschitz):
        with pytest.raises(ValueError, match="`exponents` and `actions` must be of moderate size"):
            ask(inside)
    with pytest.raises(ValueError, match="`X` must be smaller in size: Posynomial"):
        steep.embed([0.5])
    assert steep.bound(kl.Box([1.0], [2.0])) == 1.0


def test_too_many_corners_are_refused():
    kernel = kl.Posynomial([[1.0] * 21, [-1.0] * 21])
    with pytest.raises(ValueError, match="`actions` has too many corners to search"):
        kernel.bound(kl.Box([0.5] * 21, [2.0] * 21))


def test_other_sets_have_no_closed_form():
    class Simplex(kl.Ball):
        pass

    class Odd(kl.ActionSet):
        dimension = 2
        contains = diameter = norm_bound = sample = net = None

    assert kl.Posynomial([[1, 1]]).bound(Simplex(2)) == 0.25
    with pytest.raises(TypeError, match=re.escape("no closed-form bound on")):
        kl.Posynomial([[1, 1]]).bound(Odd())


def test_exponents_of_any_kind_of_array(xp):
    assert kl.Posynomial(xp.asarray([[1.0, -2.0]])) == kl.Posynomial(((1, -2),))
