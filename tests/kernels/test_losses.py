"""Losses: the contract of every family, what is particular to one, and how families refuse to mix."""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss import kernels
from koloss.core.arrays import to_numpy

D = 2
CENTERS = np.array([[0.5, 1.0], [1.5, 0.7], [0.8, 2.0]])
TABLE = [[1, 0.5], [-1, 2], [0, 1], [2, 0]]


def gauss(x, y):
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * 0.8**2))


def cubic(x, y):
    return (sum(a * b for a, b in zip(x, y, strict=True)) + 1) ** 3


def quadratic(v):
    """Matrix, upper triangle first, and vector."""
    return np.array([[v[0], v[1]], [v[1], v[2]]]), np.array(v[3:])


@dataclass(frozen=True)
class Family:
    """A family of losses, built from a list of numbers in which it is linear."""

    name: str
    kernel: kl.Kernel
    size: int
    make: Callable[[Any], kl.Loss]  # from `size` numbers
    value: Callable[[Any, Any], float]  # of the numbers and a point, by definition
    gram: Any  # inner products of the elements that belong to the unit vectors


def expansion(kernel, formula):
    return {
        "kernel": kernel,
        "size": 3,
        "make": lambda v: kl.KernelLoss(kernel, CENTERS, v),
        "value": lambda v, x: np.dot(v, [formula(x, z) for z in CENTERS.tolist()]),
        "gram": np.array([[formula(y, z) for z in CENTERS.tolist()] for y in CENTERS.tolist()]),
    }


FAMILIES = [
    Family("linear", kl.Linear(), 2, kl.LinearLoss, np.dot, np.eye(2)),
    Family(
        "quadratic",
        kl.Quadratic(),
        5,
        lambda v: kl.QuadraticLoss(*quadratic(v)),
        lambda v, x: np.dot(v, [x[0] ** 2, 2 * x[0] * x[1], x[1] ** 2, x[0], x[1]]),
        np.diag([1, 2, 1, 1, 1]),  # the entry off the diagonal occurs twice
    ),
    Family(
        "posynomial",
        kl.Posynomial(TABLE),
        4,
        lambda v: kl.PosynomialLoss(kl.Posynomial(TABLE), v),
        lambda v, x: sum(c * x[0] ** p * x[1] ** q for c, (p, q) in zip(v, TABLE, strict=True)),
        np.eye(4),
    ),
    Family("gaussian", **expansion(kl.Gaussian(0.8), gauss)),
    Family("cubic", **expansion(kl.Polynomial(3), cubic)),
    Family(
        "sum",
        **expansion(kl.Polynomial(3) + kl.Gaussian(0.8), lambda x, y: cubic(x, y) + gauss(x, y)),
    ),
]
OWN_FORM = {"linear": kl.LinearLoss, "quadratic": kl.QuadraticLoss, "posynomial": kl.PosynomialLoss}

FINITE = [f for f in FAMILIES if f.kernel.feature_dimension(D) is not None]
every = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def points(size, rng):
    return rng.uniform(0.3, 2.0, (size, D))


def numbers(family, rng):
    return rng.uniform(-2, 2, family.size)


def test_every_loss_of_the_library_has_a_family():
    concrete = {kind for kind in kl.Loss.kinds().values() if kind.__module__.startswith("koloss.")}
    assert concrete == {type(family.make(np.ones(family.size))) for family in FAMILIES}
    assert concrete == {kind for name, kind in kl.Loss.kinds().items() if name in kernels.__all__}


@every
def test_values_are_the_definition(family, rng):
    v, X = numbers(family, rng), points(9, rng)
    loss = family.make(v)
    assert loss.dimension == D
    values = loss(X)
    assert values.shape == (9,)
    expected = [family.value(v.tolist(), x) for x in X.tolist()]
    assert_allclose(values, expected, rtol=1e-11, atol=1e-12)
    assert_allclose(loss(X.tolist()), values)


@every
def test_inner_products_and_norms(family, rng):
    v, w = numbers(family, rng), numbers(family, rng)
    a, b = family.make(v), family.make(w)
    assert_allclose(a.inner(b), v @ family.gram @ w, rtol=1e-11, atol=1e-11)
    assert_allclose(a.norm(), math.sqrt(v @ family.gram @ v), rtol=1e-11)
    assert family.make(np.zeros(family.size)).norm() == 0.0
    assert isinstance(a.inner(b), float)
    assert isinstance(a.norm(), float)


@every
def test_embedding(family, rng):
    X, Y, w = points(5, rng), points(7, rng), rng.standard_normal(5)
    loss, v = family.kernel.embed(X, w), rng.standard_normal(7)
    other = family.kernel.embed(Y, v)
    assert_allclose(loss.inner(other), w @ family.kernel(X, Y) @ v, rtol=1e-10)
    assert_allclose(other.inner(loss), loss.inner(other), rtol=1e-12)
    assert type(loss) is OWN_FORM.get(family.name, kl.KernelLoss)
    assert_allclose(loss(Y), family.kernel(Y, X) @ w, rtol=1e-10, atol=1e-10)
    assert_allclose(loss.norm(), math.sqrt(w @ family.kernel(X) @ w), rtol=1e-9)
    # without weights they are ones; one point may be a vector or a list
    assert_allclose(family.kernel.embed(X)(Y), family.kernel(Y, X).sum(axis=1), rtol=1e-10)
    for point in (X[0], X[0].tolist(), X[:1]):
        assert_allclose(family.kernel.embed(point)(Y), family.kernel(Y, X[:1])[:, 0], rtol=1e-10)
    size = math.sqrt(family.kernel.diag(X[:1])[0])
    assert_allclose(family.kernel.embed(X[0]).norm(), size, rtol=1e-12)


@every
def test_cauchy_schwarz(family, rng):
    X = points(200, rng)
    sizes = np.sqrt(family.kernel.diag(X))
    for _ in range(20):
        loss = family.make(numbers(family, rng))
        assert np.all(np.abs(loss(X)) <= loss.norm() * sizes * (1 + 1e-10))
    # It follows from the reproducing property,
    inner = [family.kernel.embed(x).inner(loss) for x in X[:8]]
    assert_allclose(loss(X[:8]), inner, rtol=1e-11, atol=1e-12)
    # and holds with equality for a multiple of Φ(x) at x.
    loss = -3.0 * family.kernel.embed(X[0])
    assert_allclose(abs(loss(X[:1])[0]), loss.norm() * sizes[0], rtol=1e-10)


@every
def test_gradient_against_finite_differences(family, rng):
    X, loss, h = points(6, rng), family.make(numbers(family, rng)), 1e-5
    differences = np.stack([(loss(X + e) - loss(X - e)) / (2 * h) for e in np.eye(D) * h], axis=1)
    gradient = loss.gradient(X)
    assert gradient.shape == (6, D)
    assert_allclose(gradient, differences, rtol=1e-6, atol=1e-7 * np.abs(differences).max())


# What a kernel says of its losses.


@every
def test_the_family_is_asked_of_the_kernel(family, rng):
    loss = family.make(numbers(family, rng))
    assert family.kernel.loss_family is type(loss) is OWN_FORM.get(family.name, kl.KernelLoss)
    assert loss.kernel == family.kernel
    assert family.kernel.own_loss(loss) is loss.own_form() is loss
    for other in (f for f in FAMILIES if f.name != family.name):
        foreign = other.make(np.ones(other.size))
        error = ValueError if type(foreign) is type(loss) else TypeError
        with pytest.raises(error, match=r"`loss` must be (a|one of) "):
            family.kernel.own_loss(foreign)


@every
def test_an_expansion_has_the_form_of_its_kernel(family, rng):
    X, w = points(4, rng), rng.standard_normal(4)
    expansion = kl.KernelLoss(family.kernel, X, w)
    assert_array_equal(expansion.landmarks(), X)
    for own in (expansion.own_form(), family.kernel.own_loss(expansion)):
        assert own == family.kernel.embed(X, w)
    assert expansion.own_form().is_expansion == (family.name not in OWN_FORM)


@every
def test_coordinates(family, rng):
    size, X = family.kernel.feature_dimension(D), points(6, rng)
    if family.name not in OWN_FORM:
        with pytest.raises(TypeError, match="has no losses by coordinates; use embed"):
            family.kernel.element(np.ones(3))
        return
    w = rng.standard_normal(size)
    loss = family.kernel.element(w)
    assert_allclose(loss(X), family.kernel.features(X) @ w, rtol=1e-12, atol=1e-12)
    assert_allclose(loss.norm(), np.linalg.norm(w), rtol=1e-12)


@every
def test_bumps_and_random_losses_have_their_norm(family, rng):
    x = points(1, rng)
    for norm in (0.7, -2.0):
        bump = family.kernel.bump(x[0], norm)
        assert_allclose(bump.norm(), abs(norm), rtol=1e-9)
        assert_allclose(bump(x), norm * np.sqrt(family.kernel.diag(x)), rtol=1e-9)
    actions = kl.Box([0.3, 0.3], [2.0, 2.0])
    drawn = [family.kernel.random_loss(actions, 0.7, rng) for _ in range(20)]
    assert_allclose([loss.norm() for loss in drawn], 0.7, rtol=1e-9)
    seeds = (np.random.default_rng(3) for _ in range(2))
    again, twin = (family.kernel.random_loss(actions, 0.7, seed) for seed in seeds)
    assert again == twin != drawn[0]
    signs = {np.sign(float(loss([[1.0, 1.0]])[0])) for loss in drawn}
    assert signs == ({1.0} if again.is_one_sided else {-1.0, 1.0})


def test_a_bump_where_the_kernel_vanishes():
    for kernel in (kl.Linear(), kl.Polynomial(2, offset=0.0)):
        assert kernel.bump([0.0, 0.0], -1.0).norm() == 0.0


@every
def test_quadratic_form(family, rng):
    loss, X = family.make(numbers(family, rng)), points(5, rng)
    form = loss.quadratic_form()
    assert (form is None) == (family.name not in ("linear", "quadratic"))
    if form is not None:
        matrix, vector = form
        assert_allclose(np.sum((X @ matrix) * X, axis=1) + X @ vector, loss(X), rtol=1e-12)
        assert len(loss.landmarks()) == 0


# Many losses at once.


@every
@pytest.mark.parametrize("count", [1, 2, 7])
def test_totals(family, count, rng):
    losses = [family.make(numbers(family, rng)) for _ in range(count)]
    X = points(6, rng)
    values = np.array([loss(X) for loss in losses])
    total = kl.Loss.total(losses)
    assert type(total) is type(losses[0])
    assert_allclose(total(X), values.sum(axis=0), rtol=1e-10, atol=1e-10)
    if total.is_expansion:
        assert len(total.coefficients) == len(CENTERS)


@every
def test_tables(family, rng):
    X = points(6, rng)
    uneven = [family.kernel.embed(points(n, rng), rng.standard_normal(n)) for n in (1, 3, 2)]
    for losses in (uneven, uneven[:1], [family.kernel.bump(x) for x in X]):
        table = kl.Loss.table(losses, X)
        assert table.shape == (len(losses), len(X))
        assert_allclose(table, [loss(X) for loss in losses], rtol=1e-10, atol=1e-10)


def test_a_table_may_mix_families_and_kernels_and_a_total_may_not(rng):
    losses, X = [family.make(numbers(family, rng)) for family in FAMILIES], points(4, rng)
    assert_array_equal(kl.Loss.table(losses, X), [loss(X) for loss in losses])
    assert_array_equal(kl.Loss.table(losses[3:], X), [loss(X) for loss in losses[3:]])
    with pytest.raises(TypeError, match="losses of two families do not mix"):
        kl.Loss.total(losses)
    with pytest.raises(ValueError, match="losses of two kernels do not mix"):
        kl.Loss.total(losses[3:])


@every
def test_losses_combine_as_their_numbers_do(family, rng):
    """So that they are a vector space, as these are."""
    u, v, w = (numbers(family, rng) for _ in range(3))
    made = 2 * family.make(u) - family.make(v) / 4 + np.float32(0.5) * -family.make(w)
    same, X = family.make(2 * u - v / 4 - w / 2), points(5, rng)
    assert_allclose(made(X), same(X), rtol=1e-10, atol=1e-10)
    assert_allclose(made.norm(), same.norm(), rtol=1e-9)
    assert_allclose(made.inner(family.make(u)), same.inner(family.make(u)), rtol=1e-9)


@every
def test_survives_json_and_compares_by_value(family, rng):
    v, X = numbers(family, rng), points(4, rng)
    loss = family.make(v)
    twin = kl.Loss.from_dict(json.loads(json.dumps(loss.to_dict())))
    assert twin == loss
    assert type(twin) is type(loss)
    assert_array_equal(twin(X), loss(X))
    assert loss == family.make(v.copy())
    assert loss != family.make(v + 1e-9)
    assert loss != "loss"
    assert sum(loss == other.make(np.resize(v, other.size)) for other in FAMILIES) == 1
    with pytest.raises(TypeError):
        hash(loss)
    assert repr(loss).startswith(type(loss).__name__ + "(")


@every
def test_arrays_inside_are_copies_nobody_can_change(family, rng):
    v, X = numbers(family, rng), points(3, rng)
    a, b = family.make(v), family.make(v + 1)
    before = a.to_dict(), b.to_dict()
    a + b, a - b, 2 * a, -a, a / 3, a.inner(b), a(X), a.gradient(X)
    assert (a.to_dict(), b.to_dict()) == before
    for loss in (a, 2 * a, a + b):
        before = loss.to_dict()
        for name, part in arrays(loss).items():
            assert not part.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                getattr(loss, name)[...] = 0.0
        v[:] = 7.0
        assert loss.to_dict() == before


# Arrays of other libraries.


def arrays(loss):
    return {name: part for name, part in loss.parts().items() if hasattr(part, "shape")}


def cast(loss, xp, precision):
    """The loss with arrays of that kind."""
    parts = {name: xp.asarray(a.astype(precision)) for name, a in arrays(loss).items()}
    return type(loss)(**(loss.parts() | parts))


@every
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arrays_keep_their_kind_and_type(family, precision, xp, rng):
    rtol = {"float32": 2e-5, "float64": 1e-12}[precision]
    v, w, X = numbers(family, rng), numbers(family, rng), points(6, rng)
    plain, other = family.make(v), family.make(w)
    loss, second = cast(plain, xp, precision), cast(other, xp, precision)
    A = xp.asarray(X.astype(precision))

    def given_back(result, expected):
        assert array_api_compat.array_namespace(result) is xp
        assert result.dtype == getattr(xp, precision)
        assert_allclose(to_numpy(result), expected, rtol=rtol, atol=rtol * np.abs(expected).max())

    for mine, theirs in [
        (loss, plain),
        (loss + second, plain + other),
        (loss - second, plain - other),
        (2.5 * loss, 2.5 * plain),
        (loss / 3, plain / 3),
        (-loss, -plain),
        (loss + other, plain + other),  # the left one decides
        (family.kernel.embed(A), family.kernel.embed(X)),
    ]:
        for part in arrays(mine).values():
            assert array_api_compat.array_namespace(part) is xp
            assert part.dtype == getattr(xp, precision)
        given_back(mine(A), theirs(X))
        given_back(mine.gradient(A), theirs.gradient(X))
        # an array of its own kind for every caller
        assert isinstance(mine(X), np.ndarray)
        given_back(theirs(A), theirs(X))
    assert loss.norm() == pytest.approx(plain.norm(), rel=10 * rtol)
    assert loss.inner(second) == pytest.approx(plain.inner(other), rel=1e-3, abs=100 * rtol)
    assert loss.inner(other) == pytest.approx(plain.inner(other), rel=1e-3, abs=100 * rtol)
    assert plain.inner(second) == pytest.approx(plain.inner(other), rel=1e-3, abs=100 * rtol)
    twin = kl.Loss.from_dict(json.loads(json.dumps(loss.to_dict())))
    assert twin == loss


GAUSSIAN = kl.Gaussian(1.0)


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


def test_other_centers_are_joined_and_equal_ones_are_not():
    a = kl.KernelLoss(GAUSSIAN, [[0.0], [1.0]], [1.0, 2.0])
    b = kl.KernelLoss(GAUSSIAN, [[0.0], [1.0]], [0.5, -1.0])
    assert_array_equal((a + b).coefficients, [1.5, 1.0])
    assert_array_equal((a - b).coefficients, [0.5, 3.0])
    assert_array_equal((a + b).centers, a.centers)
    c = kl.KernelLoss(GAUSSIAN, [[2.0]], [4.0])
    assert_array_equal((a - c).centers, [[0.0], [1.0], [2.0]])
    assert_array_equal((a - c).coefficients, [1.0, 2.0, -4.0])


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
DIMENSIONS, KERNELS = r"must have one dimension, got 1 and 2", "losses of two kernels do not mix: "
PAIRS = [
    *((a, b, TypeError, f"two families do not mix: {type(a).__name__} and {type(b).__name__}")
      for a, b in itertools.permutations(LOSSES, 2)),
    (kl.LinearLoss([1.0]), kl.LinearLoss([1.0, 2.0]), ValueError, DIMENSIONS),
    (kl.QuadraticLoss(np.eye(1)), kl.QuadraticLoss(np.eye(2)), ValueError, DIMENSIONS),
    (GAUSSIAN.embed([1.0]), GAUSSIAN.embed([1.0, 2.0]), ValueError, DIMENSIONS),
    (GAUSSIAN.embed([1.0]), kl.Gaussian(2.0).embed([1.0]), ValueError,
     f"{KERNELS}{GAUSSIAN!r} and {kl.Gaussian(2.0)!r}"),
    (*(kl.PosynomialLoss(kl.Posynomial([[p, 0]]), [1.0]) for p in (1, 2)), ValueError,
     f"{KERNELS}Posynomial("),
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS, ids=["add", "subtract", "inner"])
def test_what_does_not_mix(operation):
    for a, b, error, message in PAIRS:
        with pytest.raises(error, match=re.escape(message)):
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
        (lambda: kl.LinearLoss([1e308]) * 1e9, ValueError, "`vector` must be finite"),
        (lambda: kl.QuadraticLoss([[1.0, 0.0], [0.5, 1.0]]), ValueError, "`matrix` must be symmetric, got entries that differ by 0.5"),
        (lambda: kl.QuadraticLoss(np.ones((2, 3))), ValueError, "`matrix` must be square, got shape (2, 3)"),
        (lambda: kl.QuadraticLoss(np.eye(2), [1.0]), ValueError, "`vector` must have length 2, got 1"),
        (lambda: kl.KernelLoss(GAUSSIAN, [[1.0]], [1.0, 2.0]), ValueError, "`coefficients` must have length 1, got 2"),
        (lambda: kl.KernelLoss(GAUSSIAN, [1.0], [1.0]), ValueError, "`centers` must be 2-D, got ndim=1; for scalar points pass a column, x[:, None]"),
        (lambda: kl.KernelLoss(np.dot, [[1.0]], [1.0]), TypeError, "`kernel` must be a Kernel, got "),
        (lambda: kl.PosynomialLoss(POSYNOMIAL, [1.0]), ValueError, "`coefficients` must have length 2, got 1"),
        (lambda: kl.PosynomialLoss(GAUSSIAN, [1.0]), TypeError, "`kernel` must be a Posynomial, got Gaussian"),
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
