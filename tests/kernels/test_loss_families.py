"""What is particular to one family of losses, and how families refuse to mix."""

from __future__ import annotations

import itertools
import math
import operator
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl

GAUSSIAN = kl.Gaussian(1.0)


def test_norms_by_hand():
    assert kl.LinearLoss([3, 4]).norm() == 5.0
    loss = kl.QuadraticLoss([[1.0, 2.0], [2.0, -1.0]], [3.0, 0.0])
    assert_allclose(loss.norm() ** 2, 1 + 4 + 4 + 1 + 9)


def test_quadratic_without_a_vector():
    loss = kl.QuadraticLoss([[1.0, 0.5], [0.5, 0.0]])
    assert_array_equal(loss.vector, [0.0, 0.0])
    assert_allclose(loss([[2.0, 1.0]]), [4 + 2])


@pytest.mark.parametrize(
    "precision, skew", [("float64", 1e-12), ("float64", 1e-9), ("float32", 5e-7)]
)
def test_quadratic_forgives_rounding_and_symmetrises(precision, skew):
    matrix = np.array([[1.0, 2.0], [2.0 + skew, 1.0]], dtype=precision)
    loss = kl.QuadraticLoss(matrix)
    assert_array_equal(loss.matrix, loss.matrix.T)
    assert_allclose(loss.matrix, matrix, rtol=2 * skew)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_quadratic_asymmetry_is_judged_by_the_scale(scale):
    assert kl.QuadraticLoss(scale * np.eye(2)).norm() == pytest.approx(scale * math.sqrt(2))
    with pytest.raises(ValueError, match=r"`matrix` must be symmetric, got entries that differ"):
        kl.QuadraticLoss(scale * np.array([[1.0, 2.0], [2.001, 1.0]]))


def test_posynomial_knows_its_sign():
    kernel = kl.Posynomial([[1, 0], [0, 1]])
    assert kl.PosynomialLoss(kernel, [1.0, 0.0]).is_posynomial
    assert not kl.PosynomialLoss(kernel, [1.0, -1e-300]).is_posynomial


def test_posynomial_domain_is_checked():
    loss = kl.PosynomialLoss(kl.Posynomial([[-1, 0.5]]), [1.0])
    for call in (loss, loss.gradient):
        with pytest.raises(ValueError, match=r"`X` must have positive numbers in column 0, got 0"):
            call([[0.0, 1.0]])
        with pytest.raises(ValueError, match=r"must have non-negative numbers in column 1, got -2"):
            call([[1.0, -2.0]])
    with pytest.raises(ValueError, match=r"has no gradient where coordinate 1 is zero"):
        loss.gradient([[1.0, 0.0]])


def test_other_centers_are_joined_and_equal_ones_are_not():
    a = kl.KernelLoss(GAUSSIAN, [[0.0], [1.0]], [1.0, 2.0])
    b = kl.KernelLoss(GAUSSIAN, [[0.0], [1.0]], [0.5, -1.0])
    assert_array_equal((a + b).coefficients, [1.5, 1.0])
    assert_array_equal((a - b).coefficients, [0.5, 3.0])
    assert_array_equal((a + b).centers, a.centers)
    c = kl.KernelLoss(GAUSSIAN, [[2.0]], [4.0])
    assert_array_equal((a - c).centers, [[0.0], [1.0], [2.0]])
    assert_array_equal((a - c).coefficients, [1.0, 2.0, -4.0])


def test_expansion_with_one_centre_twice():
    loss = kl.KernelLoss(GAUSSIAN, [[0.0], [0.0]], [1.0, -1.0])
    assert loss.norm() == 0.0
    assert_array_equal(loss([[0.3]]), [0.0])


def test_sum():
    losses = [kl.LinearLoss([1.0, k]) for k in range(4)]
    assert sum(losses) == kl.LinearLoss([4.0, 6.0])
    with pytest.raises(TypeError):
        1 + losses[0]


LOSSES = [
    kl.LinearLoss([1.0, 2.0]),
    kl.QuadraticLoss(np.eye(2)),
    kl.PosynomialLoss(kl.Posynomial([[1, 1]]), [1.0]),
    kl.KernelLoss(GAUSSIAN, [[0.0, 0.0]], [1.0]),
]
OPERATIONS = [operator.add, operator.sub, lambda a, b: a.inner(b)]


@pytest.mark.parametrize("operation", OPERATIONS, ids=["add", "subtract", "inner"])
def test_families_do_not_mix(operation):
    for a, b in itertools.permutations(LOSSES, 2):
        kinds = f"{type(a).__name__} and {type(b).__name__}"
        with pytest.raises(TypeError, match=f"losses of two families do not mix: {kinds}"):
            operation(a, b)


@pytest.mark.parametrize("operation", OPERATIONS, ids=["add", "subtract", "inner"])
def test_dimensions_do_not_mix(operation):
    pairs = [
        (kl.LinearLoss([1.0]), kl.LinearLoss([1.0, 2.0])),
        (kl.QuadraticLoss(np.eye(1)), kl.QuadraticLoss(np.eye(2))),
        (kl.KernelLoss(GAUSSIAN, [[1.0]], [1.0]), kl.KernelLoss(GAUSSIAN, [[1.0, 2.0]], [1.0])),
    ]
    for a, b in pairs:
        with pytest.raises(ValueError, match=r"losses must have one dimension, got 1 and 2"):
            operation(a, b)


@pytest.mark.parametrize("operation", OPERATIONS, ids=["add", "subtract", "inner"])
def test_kernels_do_not_mix(operation):
    a, b = (kl.KernelLoss(kl.Gaussian(s), [[1.0]], [1.0]) for s in (1.0, 2.0))
    kernels = re.escape("Gaussian(bandwidth=1.0) and Gaussian(bandwidth=2.0)")
    with pytest.raises(ValueError, match=f"losses of two kernels do not mix: {kernels}"):
        operation(a, b)
    a, b = (kl.PosynomialLoss(kl.Posynomial([[p, 0]]), [1.0]) for p in (1, 2))
    with pytest.raises(ValueError, match=r"two kernels do not mix: Posynomial\(.*\) and "):
        operation(a, b)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_other_things_do_not_combine(loss):
    pairs = [(loss, wrong) for wrong in (1.0, "x", None, np.ones(2), kl.Linear())]
    for operation, a, b in [
        *((o, *pair) for o in (operator.add, operator.sub) for pair in pairs),
        *((operator.add, wrong, loss) for _, wrong in pairs),
        (operator.mul, loss, loss),
        (operator.truediv, 1.0, loss),
    ]:
        with pytest.raises(TypeError):
            operation(a, b)
    for wrong in ("2", None, True, 2j, [1.0], np.ones(2), kl.Linear()):
        with pytest.raises(TypeError, match=r"`factor` must be a number, got "):
            loss * wrong
        with pytest.raises(TypeError, match=r"`divisor` must be a number, got "):
            loss / wrong
    with pytest.raises(TypeError, match=r"`factor` must be a number, got array"):
        np.ones(2) * loss
    with pytest.raises(ValueError, match=r"`factor` must be finite, got nan"):
        loss * math.nan
    with pytest.raises(ValueError, match=r"`factor` must be finite, got inf"):
        math.inf * loss
    with pytest.raises(ZeroDivisionError, match=r"a loss cannot be divided by zero"):
        loss / 0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize(
    "X, error, message",
    [
        ([1.0, 2.0], ValueError, "`X` must be 2-D, got ndim=1; for scalar points pass a column"),
        (np.ones((2, 3)), ValueError, "`X` must have 2 columns, got 3"),
        (np.empty((0, 2)), ValueError, "`X` must not be empty, got shape (0, 2)"),
        ([[1.0, math.nan]], ValueError, "`X` must be finite, got NaN or infinity"),
        (None, TypeError, "`X` must be an array of numbers, got None"),
    ],
)
def test_bad_points(loss, X, error, message):
    for call in (loss, loss.gradient):
        with pytest.raises(error, match=re.escape(message)):
            call(X)


POSYNOMIAL = kl.Posynomial([[1, 1], [0, 2]])


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: kl.LinearLoss([]), ValueError, "`vector` must not be empty, got length 0"),
        (lambda: kl.LinearLoss([[1.0]]), ValueError, "`vector` must be 1-D, got ndim=2"),
        (lambda: kl.LinearLoss([math.nan]), ValueError, "`vector` must be finite"),
        (lambda: kl.LinearLoss([1j]), TypeError, "`vector` must hold real numbers"),
        (lambda: kl.LinearLoss(["1"]), TypeError, "`vector` must be an array of numbers, got ['1']"),
        (lambda: kl.LinearLoss([1e308]) * 1e9, ValueError, "`vector` must be finite"),
        (lambda: kl.QuadraticLoss([[1.0, 0.0], [0.5, 1.0]]), ValueError, "`matrix` must be symmetric, got entries that differ by 0.5"),
        (lambda: kl.QuadraticLoss(np.ones((2, 3))), ValueError, "`matrix` must be square, got shape (2, 3)"),
        (lambda: kl.QuadraticLoss([1.0]), ValueError, "`matrix` must be 2-D, got ndim=1"),
        (lambda: kl.QuadraticLoss(np.empty((0, 0))), ValueError, "`matrix` must not be empty, got shape (0, 0)"),
        (lambda: kl.QuadraticLoss([[math.inf]]), ValueError, "`matrix` must be finite"),
        (lambda: kl.QuadraticLoss(np.eye(2), [1.0]), ValueError, "`vector` must have length 2, got 1"),
        (lambda: kl.QuadraticLoss(np.eye(2), [1.0, math.nan]), ValueError, "`vector` must be finite"),
        (lambda: kl.KernelLoss(GAUSSIAN, [[1.0]], [1.0, 2.0]), ValueError, "`coefficients` must have length 1, got 2"),
        (lambda: kl.KernelLoss(GAUSSIAN, [1.0], [1.0]), ValueError, "`centers` must be 2-D, got ndim=1; for scalar points pass a column, x[:, None]"),
        (lambda: kl.KernelLoss(GAUSSIAN, [[math.nan]], [1.0]), ValueError, "`centers` must be finite"),
        (lambda: kl.KernelLoss(GAUSSIAN, [[1.0]], [math.nan]), ValueError, "`coefficients` must be finite"),
        (lambda: kl.KernelLoss(np.dot, [[1.0]], [1.0]), TypeError, "`kernel` must be a Kernel, got "),
        (lambda: kl.PosynomialLoss(POSYNOMIAL, [1.0]), ValueError, "`coefficients` must have length 2, got 1"),
        (lambda: kl.PosynomialLoss(GAUSSIAN, [1.0]), TypeError, "`kernel` must be a Posynomial, got Gaussian"),
        (lambda: kl.PosynomialLoss(POSYNOMIAL, [1.0, math.inf]), ValueError, "`coefficients` must be finite"),
    ],
)  # fmt: skip
def test_bad_constructors(make, error, message):
    with pytest.raises(error, match=re.escape(message)), np.errstate(over="ignore"):
        make()


def test_loss_evaluates_on_the_device_of_the_points():
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    X = np.array([[0.5, 1.0], [2.0, 0.3]])
    there = strict.asarray(X, device=device)
    for loss in LOSSES:
        parts = {
            name: part if isinstance(part, kl.Kernel) else strict.asarray(part.copy())
            for name, part in loss.parts().items()
        }
        here = type(loss)(**parts)
        for call, expected in ((here, loss(X)), (here.gradient, loss.gradient(X))):
            result = call(there)
            assert result.device == device
            assert_allclose(np.from_dlpack(result), expected)
