"""The global minimum of x'Bx + b'x on the ball, against semidefinite programs and exact arithmetic.

Most tests check the conditions of optimality on their own: nothing of the oracle's proof is used for that.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

from koloss.oracles import trust_region
from koloss.oracles.trust_region import minimize_quadratic_ball

FAMILIES = [
    *("definite", "negative", "indefinite", "hard", "nearly hard", "interior", "repeated lowest"),
    *("repeated lowest, hard", "singular, b in its range", "graded", "b = 0", "B = 0", "both zero"),
    "mixed scales",
]


def instance(family, d, rng):
    """(B, b, radius) of a family, in a random basis."""
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    values, g = np.sort(rng.normal(size=d)), rng.normal(size=d)
    radius = 10 ** rng.uniform(-1, 1)
    if family in ("definite", "interior"):
        values = np.abs(values) + 0.1
        if family == "interior":
            g = 2 * values * rng.random() * radius * g / np.linalg.norm(g)
    elif family == "negative":
        values = -np.abs(values)
    elif "hard" in family:
        values -= values[0] + 10 ** rng.uniform(-3, 1)  # the lowest first, and negative
        k = min(d, 2) if "repeated" in family else 1
        values[:k] = values[0]
        inside = rng.normal(size=d)
        inside *= rng.random() * radius / np.linalg.norm(inside)
        g = 2 * (values - values[0]) * inside
        if family == "nearly hard":
            g[0] = 10 ** rng.uniform(-14, -1)
    elif family == "repeated lowest":
        values[: min(d, 3)] = values[0]
    elif family == "singular, b in its range":
        values = np.abs(values)
        values[0] = g[0] = 0
    elif family == "graded":
        values = np.sort(rng.choice([-1, 1], size=d) * 10 ** rng.uniform(-16, 0, size=d))
        g = 10 ** rng.uniform(-16, 0, size=d)
    elif family == "b = 0":
        g = np.zeros(d)
    elif family in ("B = 0", "both zero"):
        values = np.zeros(d)
        g = g if family == "B = 0" else np.zeros(d)
    elif family == "mixed scales":
        values = values * 10 ** rng.uniform(-150, 150)
        g = g * 10 ** rng.uniform(-150, 150)
        radius = 10 ** rng.uniform(-75, 75)
    B = turn @ np.diag(values) @ turn.T
    return (B + B.T) / 2, turn @ g, radius


def size(B, b, radius):
    """What the value is compared with: the largest terms it may have."""
    return radius * (radius * np.linalg.norm(B, 2) + np.linalg.norm(b))


def evaluate(B, b, x):
    return float(x @ B @ x + b @ x)


def violation(B, b, radius, x, multiplier):
    """How much the conditions of optimality are violated, relative to the size of the terms."""
    gradient = np.linalg.norm(B, 2) * radius + np.linalg.norm(b) or 1.0
    residual = (B @ x + multiplier * x + b / 2) / gradient
    share = np.linalg.norm(x / radius)
    lowest = np.linalg.eigvalsh(B)[0] + multiplier
    return max(
        np.linalg.norm(residual),  # stationary
        share - 1,  # in the ball
        -multiplier / gradient * radius,
        multiplier / gradient * radius * abs(1 - share**2),  # complementary
        -lowest / gradient * radius,  # B + μI ⪰ 0
    )


# All cases, by the conditions of optimality.


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_conditions_of_optimality(family):
    for seed in range(105):  # 14 families in 7 dimensions, 1,470 instances
        rng = np.random.default_rng([FAMILIES.index(family), seed])
        d = (1, 2, 3, 4, 6, 9, 14)[seed % 7]
        B, b, radius = instance(family, d, rng)
        ours = minimize_quadratic_ball(B, b, radius=radius)
        scale = max(abs(ours.value), size(B, b, radius))
        assert ours.certificate == "dual"
        assert 0 < ours.gap <= 1e-10 * scale + 1e-270
        np.testing.assert_array_equal(ours.points[0], ours.point)
        assert np.linalg.norm(ours.point) <= radius * (1 + 3e-16)
        for x in ours.points:
            assert violation(B, b, radius, x, ours.multiplier) < 1e-13 * d
            assert abs(evaluate(B, b, x) - ours.value) <= 1e-13 * d * scale


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_points_violate_the_conditions(family):
    # The negative control of the test above: what is moved, reflected, or only a local minimum.
    rng = np.random.default_rng(0)
    B, b, radius = instance(family, 4, rng)
    ours = minimize_quadratic_ball(B, b, radius=radius)
    moved = ours.point + 1e-6 * radius * rng.normal(size=4)
    if family != "both zero":
        assert violation(B, b, radius, moved, ours.multiplier) > 1e-8
    else:
        assert violation(B, b, radius, 1.001 * ours.point, 0.0) > 1e-8
    below = 0.99 * ours.multiplier - 0.01 * size(B, b, radius) / radius**2 - 1e-3 * (not B.any())
    assert violation(B, b, radius, ours.point, below) > 1e-8


def test_local_minimum_violates_the_conditions():
    # -x² + x/2 on [-1, 1] has a local minimum at 1, with the multiplier 3/4, and the global one at -1.
    B, b = np.array([[-1.0]]), np.array([0.5])
    assert violation(B, b, 1.0, np.array([1.0]), 0.75) > 0.1
    ours = minimize_quadratic_ball(B, b)
    assert ours.point.tolist() == [-1.0]
    assert (ours.value, ours.multiplier) == (-1.5, 1.25)


# The gap.


def exact_dual(B, b, radius, multiplier):
    """Dual value -μr² - b'(B + μI)⁻¹b/4 in exact arithmetic, or None unless B + μI ≻ 0."""
    d = len(b)
    M = [[Fraction(float(v)) for v in row] for row in B]
    rest = [Fraction(float(v)) for v in b]
    value = -multiplier * Fraction(float(radius)) ** 2
    for i in range(d):
        M[i][i] += multiplier
    for i in range(d):  # Gauss: positive pivots are positive definiteness
        if M[i][i] <= 0:
            return None
        value -= rest[i] ** 2 / M[i][i] / 4
        for j in range(i + 1, d):
            factor = M[j][i] / M[i][i]
            M[j] = [a - factor * c for a, c in zip(M[j], M[i], strict=True)]
            rest[j] -= factor * rest[i]
    return value


@pytest.mark.parametrize("family", FAMILIES)
def test_gap_is_enough_in_exact_arithmetic(family):
    for seed, d in itertools.product(range(4), (1, 2, 3)):
        rng = np.random.default_rng([FAMILIES.index(family), seed, d])
        B, b, radius = instance(family, d, rng)
        ours = minimize_quadratic_ball(B, b, radius=radius)
        # Weak duality holds at every multiplier, so the best of some next to the one found will do.
        step = Fraction(size(B, b, radius) / radius**2) or Fraction(1)
        shifts = [Fraction(0), *(step / 2**k for k in range(46, 60, 2)), step / 2**1000]
        duals = [exact_dual(B, b, radius, Fraction(ours.multiplier) + shift) for shift in shifts]
        dual = max(value for value in duals if value is not None)
        assert Fraction(ours.value) - Fraction(ours.gap) <= dual
        # And the value is the value, to a part of the gap.
        x = [Fraction(float(v)) for v in ours.point]
        value = sum(
            x[i] * (sum(Fraction(float(B[i, j])) * x[j] for j in range(d)) + Fraction(float(b[i])))
            for i in range(d)
        )
        assert abs(value - Fraction(ours.value)) <= Fraction(ours.gap)


def test_gap_covers_any_point_and_any_multiplier():
    rng = np.random.default_rng(0)
    ratios = []
    for family, _ in itertools.product(FAMILIES[:-1], range(20)):
        B, b, radius = instance(family, 4, rng)
        best = minimize_quadratic_ball(B, b, radius=radius).value
        problem = trust_region.from_array(B, b, radius)
        lowest = np.linalg.eigvalsh(problem.matrix)[0]
        x = rng.normal(size=4)
        x *= problem.rho * rng.random() / np.linalg.norm(x)
        mu = abs(rng.normal())
        value, gap = problem.gap(x, mu, lowest + mu, np.linalg.norm(problem.matrix))
        value, gap = (math.ldexp(v, problem.value_unit) for v in (value, gap))
        assert value - gap <= best + 1e-12 * size(B, b, radius)
        ratios.append((value - best) / gap)
    assert np.median(ratios) > 0.05  # and is not idle


# Semidefinite programs.


def relaxation(B, b, radius):
    """Value of the relaxation min <B, X> + b'x over [[X, x], [x', 1]] ⪰ 0, tr X ≤ r²."""
    d = len(b)
    Y = cp.Variable((d + 1, d + 1), PSD=True)
    objective = cp.Minimize(cp.trace(B @ Y[:d, :d]) + b @ Y[:d, d])
    limits = [Y[d, d] == 1, cp.trace(Y[:d, :d]) <= radius**2]
    return cp.Problem(objective, limits).solve(cp.CLARABEL)


def paper_dual(B, b, radius, *, signed):
    """Value of the paper's dual: max -t - μr² over [[B + μI, b/2], [b'/2, t]] ⪰ 0, and μ ≥ 0 where `signed`."""
    d = len(b)
    corner = np.diag(np.append(np.zeros(d), 1.0))
    bordered = np.block([[B, b[:, None] / 2], [b[None] / 2, np.zeros((1, 1))]])
    mu, t = cp.Variable(nonneg=signed), cp.Variable()
    matrix = bordered + mu * (np.eye(d + 1) - corner) + t * corner
    return cp.Problem(cp.Maximize(-t - mu * radius**2), [matrix >> 0]).solve(cp.CLARABEL)


@pytest.mark.parametrize("family", FAMILIES[:-1])
def test_semidefinite_programs(family):
    for d in (2, 7):
        B, b, radius = instance(family, d, np.random.default_rng(d))
        scale = size(B, b, radius) or 1.0
        B, b, radius = radius**2 * B / scale, radius * b / scale, 1.0  # the solver likes this size
        ours = minimize_quadratic_ball(B, b, radius=radius)
        assert relaxation(B, b, radius) == pytest.approx(ours.value, abs=1e-6)
        assert paper_dual(B, b, radius, signed=True) == pytest.approx(ours.value, abs=1e-6)


def test_dual_needs_a_sign():
    # Without μ ≥ 0, as the paper has it, the dual is that of the sphere: wrong for a minimum inside.
    B, b = np.diag([1.0, 2.0]), np.array([0.2, 0.0])
    inside = minimize_quadratic_ball(B, b)
    assert inside.value == pytest.approx(-0.01, rel=1e-12)
    assert inside.multiplier == 0.0
    assert paper_dual(B, b, 1.0, signed=False) == pytest.approx(1.0 - 0.2, abs=1e-6)
    assert paper_dual(B, b, 1.0, signed=True) == pytest.approx(-0.01, abs=1e-6)


# Hand-made cases.


def test_hard_case_in_closed_form():
    # λ = (-2, 1, 3), h ⟂ e₁: x₂ = -h₂/3, x₃ = -h₃/5, and x₁ = ± what is left of the sphere.
    B, b = np.diag([1.0, -2.0, 3.0]), np.array([0.6, 0.0, 1.0])
    ours = minimize_quadratic_ball(B, b)
    rest = np.array([-0.1, 0.0, -0.1])
    left = np.sqrt(1 - rest @ rest)
    points = ours.points[np.argsort(ours.points[:, 1])]
    up = np.array([0.0, left, 0.0])
    np.testing.assert_allclose(points, [rest - up, rest + up], atol=1e-15)
    assert ours.multiplier == pytest.approx(2.0, rel=1e-15)
    assert ours.value == pytest.approx(-2 - 0.03 - 0.05, rel=1e-14)


def test_border_of_the_hard_case_has_one_minimiser():
    # At the pole the other components fill the ball exactly.
    ours = minimize_quadratic_ball(np.diag([-1.0, 1.0]), [0.0, 4.0])
    assert ours.points.shape == (1, 2)
    np.testing.assert_allclose(ours.point, [0.0, -1.0], atol=1e-7)
    # Beyond, μ is right of the pole.
    ours = minimize_quadratic_ball(np.diag([-1.0, 1.0]), [0.0, 8.0])
    np.testing.assert_allclose(ours.points, [[0.0, -1.0]], atol=1e-15)
    assert ours.multiplier == pytest.approx(3.0)


@pytest.mark.parametrize("exponent", [1, 4, 7, 10, 13])
def test_small_component_chooses_the_side(exponent):
    component = 10.0**-exponent
    ours = minimize_quadratic_ball(np.diag([-1.0, 1.0, 2.0]), [component, 0.5, 0.5])
    assert len(ours.points) == 1
    assert ours.point[0] < -0.9
    mirrored = minimize_quadratic_ball(np.diag([-1.0, 1.0, 2.0]), [-component, 0.5, 0.5])
    np.testing.assert_allclose(mirrored.point, ours.point * [-1, 1, 1], rtol=1e-13)


def test_number_of_minimisers():
    rng, families = np.random.default_rng(0), ("indefinite", "definite", "interior", "hard")
    for d in (2, 3, 8):
        for family in (*families, "B = 0", "both zero"):
            count = 2 if family in ("hard", "both zero") else 1
            B, b, radius = instance(family, d, rng)
            ours = minimize_quadratic_ball(B, b, radius=radius)
            assert ours.points.shape == (count, d), family
            if count == 2:
                assert np.linalg.norm(ours.points[0] - ours.points[1]) > 1e-3 * radius
        lowest = minimize_quadratic_ball(np.diag(np.arange(d) - 1.0), np.zeros(d))
        np.testing.assert_allclose(np.abs(lowest.points), np.eye(d)[[0, 0]], atol=1e-15)
        repeated = minimize_quadratic_ball(-np.eye(d), np.zeros(d))
        np.testing.assert_allclose(repeated.points[0], -repeated.points[1])


def test_zero_and_one_dimension():
    assert minimize_quadratic_ball([[0]], [0]).points.tolist() == [[1.0], [-1.0]]
    assert minimize_quadratic_ball([[0.0]], [2.0], radius=3.0).point.tolist() == [-3.0]
    inside = minimize_quadratic_ball([[2.0]], [1.0])
    assert (inside.point.tolist(), inside.value, inside.multiplier) == ([-0.25], -0.125, 0.0)


def test_scaling_by_powers_of_two_is_exact():
    B, b, _ = instance("indefinite", 6, np.random.default_rng(0))
    ours = minimize_quadratic_ball(B, b)
    for value, length in itertools.product((-500, -3, 0, 400), (-250, 0, 200)):
        scaled = minimize_quadratic_ball(
            np.ldexp(B, value - 2 * length), np.ldexp(b, value - length), radius=2.0**length
        )
        np.testing.assert_array_equal(scaled.point, np.ldexp(ours.point, length))
        assert scaled.value == math.ldexp(ours.value, value)
        assert scaled.gap == math.ldexp(ours.gap, value)


def test_out_of_the_floating_range():
    with pytest.raises(ValueError, match="`matrix` and `vector` must be smaller"):
        minimize_quadratic_ball(-1e200 * np.eye(2), np.zeros(2), radius=1e100)
    assert minimize_quadratic_ball(np.eye(1), [1e200], radius=1e-200).multiplier == math.inf
    lost = minimize_quadratic_ball(np.eye(1), [1e-200])  # the value is -1e-400/4
    assert lost.value == 0.0
    assert lost.gap > 0


def test_hundreds_of_dimensions():
    # Diagonal, so that the answer is known; in the hard case.
    d = 600
    values = np.append(np.linspace(-1, 1, d - 1), -1.5)
    rest = np.append(np.random.default_rng(0).normal(size=d - 1), 0.0)
    rest *= 0.8 / np.linalg.norm(rest)
    ours = minimize_quadratic_ball(np.diag(values), -2 * (values + 1.5) * rest)
    assert ours.value == pytest.approx(-1.5 - np.sum((values + 1.5) * rest**2), abs=1e-12)
    assert ours.gap < 1e-10
    assert ours.multiplier == pytest.approx(1.5, abs=1e-12)
    np.testing.assert_allclose(np.sort(ours.points[:, -1]), [-0.6, 0.6], atol=1e-12)


# Input.


def test_input_is_left_alone():
    B, b, _ = instance("indefinite", 5, np.random.default_rng(0))
    ours = minimize_quadratic_ball(B, b)
    for array in (B, b):
        array.flags.writeable = False
    again = minimize_quadratic_ball(B, b)
    np.testing.assert_array_equal(again.point, ours.point)
    for matrix in (B.tolist(), np.asfortranarray(B)):
        other = minimize_quadratic_ball(matrix, b.tolist())
        np.testing.assert_allclose(other.point, ours.point, rtol=1e-13)
    integers = minimize_quadratic_ball(np.array([[0, 1], [1, 0]]), np.array([1, 0], dtype=np.int8))
    assert integers.point.dtype == np.float64


def test_rounding_of_symmetry_is_forgiven():
    B, b, _ = instance("indefinite", 5, np.random.default_rng(0))
    skewed = B.copy()
    skewed[0, 1] *= 1 + 1e-10
    ours = minimize_quadratic_ball(skewed, b)
    assert ours.value == pytest.approx(minimize_quadratic_ball(B, b).value, rel=1e-9)
    assert evaluate(skewed, b, ours.point) == pytest.approx(ours.value, rel=1e-14)


@pytest.mark.parametrize(
    "matrix, vector, radius, error, message",
    [
        (np.ones((2, 3)), [1, 2], 1, ValueError, "`matrix` must be square, got shape"),
        (np.ones((0, 0)), [], 1, ValueError, "`matrix` must not be empty, got"),
        (np.ones(3), [1, 2, 3], 1, ValueError, "`matrix` must be 2-D, got ndim=1"),
        ([[1, 2], [3, 4]], [1, 2], 1, ValueError, "symmetric, got entries that differ by 0.25 of"),
        ([[1, np.nan], [np.nan, 4]], [1, 2], 1, ValueError, "`matrix` must be finite, got NaN"),
        ([[1, 1j], [-1j, 4]], [1, 2], 1, TypeError, "`matrix` must hold real numbers, got dtype"),
        (np.eye(2), [1, 2, 3], 1, ValueError, "`vector` must have length 2, got 3"),
        (np.eye(2), [1, np.inf], 1, ValueError, "`vector` must be finite, got NaN or infinity"),
        (np.eye(2), [1, 2], 0, ValueError, "`radius` must be positive, got 0"),
        (np.eye(2), [1, 2], np.inf, ValueError, "`radius` must be finite, got inf"),
    ],
)
def test_bad_input(matrix, vector, radius, error, message):
    with pytest.raises(error, match=message):
        minimize_quadratic_ball(matrix, vector, radius=radius)
