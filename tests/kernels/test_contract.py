"""The contract of every kernel: what holds for all of them, written once."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

import koloss as kl
from koloss import kernels
from koloss.core.arrays import to_numpy
from koloss.errors import NoFiniteFeatures
from koloss.kernels import Kernel

D = 3  # coordinates of every point in this file


# Second computations: K(x, y) for two lists of numbers, written without the library.


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def distance(x, y):
    return math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(x, y, strict=True)))


def matern(shape, nu, lengthscale):
    return lambda x, y: shape(math.sqrt(2 * nu) * distance(x, y) / lengthscale)


def each(formula, lengths):
    """A formula on coordinates that are divided by their lengths first."""

    def scaled(x):
        return [a / length for a, length in zip(x, lengths, strict=True)]

    return lambda x, y: formula(scaled(x), scaled(y))


def bessel(nu, lengthscale):
    scale = 2 ** (1 - nu) / special.gamma(nu)
    return matern(lambda z: scale * z**nu * special.kv(nu, z) if z else 1.0, nu, lengthscale)


def periodic(lengthscale, period):
    def formula(x, y):
        total = sum(math.sin(math.pi * (a - b) / period) ** 2 for a, b in zip(x, y, strict=True))
        return math.exp(-2 * total / lengthscale**2)

    return formula


def posynomial(table):
    def formula(x, y):
        return math.fsum(
            math.prod(a**p for a, p in zip(x, row, strict=True))
            * math.prod(b**p for b, p in zip(y, row, strict=True))
            for row in table
        )

    return formula


def gaussian(bandwidth):
    return lambda x, y: math.exp(-(distance(x, y) ** 2) / (2 * bandwidth**2))


def mixed(length, hamming, shared, smooth):
    """Of a number, a choice, and a number that is inactive where it is negative."""

    def formula(x, y):
        near = smooth([x[0] / length], [y[0] / length]) * math.exp(-hamming * (x[1] != y[1]))
        if x[2] < 0 or y[2] < 0:
            return near * (1.0 if max(x[2], y[2]) < 0 else math.sqrt(shared))
        return near * (shared + (1 - shared) * smooth([x[2] / length], [y[2] / length]))

    return formula


def mapped(x):
    """Of three intervals onto [-1, 1]; the second is a point."""
    return [2 * (x[0] + 1) / 3 - 1, 0.0, 2 * (x[2] - 0.5) / 0.25 - 1]


def in_units_of(x):
    return [x[0] / 3, x[1] / 2, x[2] / 0.25]


three_halves = matern(lambda z: (1 + z) * math.exp(-z), 1.5, 0.8)
five_halves = matern(lambda z: (1 + z + z * z / 3) * math.exp(-z), 2.5, 0.8)


@dataclass(frozen=True)
class Case:
    """A kernel, its formula, and where it is defined."""

    name: str
    kernel: Kernel
    formula: Callable[[Any, Any], float]
    features: int | None  # length of the feature vector in D dimensions
    positive: bool = False  # defined for positive coordinates alone
    finite: bool = False  # defined on points alone, without a gradient

    def points(self, size, rng):
        X = rng.uniform(-1.5, 1.5, (size, D))
        return 0.5 + np.abs(X) if self.positive else X

    def box(self):
        return kl.Box([0.5, 0.7, 0.4], [1.5, 2.0, 0.9] if self.positive else [0.8, 2.0, 0.9])

    def signed_box(self):
        return self.box() if self.positive else kl.Box([-1.5, -0.5, 0.2], [0.5, 0.5, 0.9])

    @property
    def is_exact_on_balls(self):
        return not isinstance(self.kernel, kl.Posynomial | kernels.Rescaled)

    def action_sets(self):
        points = kl.Points(self.points(40, np.random.default_rng(7)))
        if self.finite:
            return [points]
        part = kl.PositiveBall(D, 1.3, [0.2, 0.05, 0.9])
        sets = [self.box(), self.signed_box(), part, points]
        return sets if self.positive else [*sets, kl.Ball(D, 1.3)]


PARAMETERS = ("number", "choice", "conditional number")
WHOLE = [[2, 0, 1], [0, 3, 0], [1, 1, 1], [0, 0, 0]]
MIXED = [[1.5, -2, 0.25], [-0.5, 0, 1], [0, 0, -1]]

CASES = [
    Case("linear", kl.Linear(), dot, 3),
    Case("quadratic", kl.Quadratic(), lambda x, y: dot(x, y) ** 2 + dot(x, y), 9),
    Case("affine", kl.Polynomial(1), lambda x, y: dot(x, y) + 1, 4),
    Case("cubic", kl.Polynomial(3, offset=0.5), lambda x, y: (dot(x, y) + 0.5) ** 3, 20),
    Case("square", kl.Polynomial(2, offset=0.0), lambda x, y: dot(x, y) ** 2, 6),
    Case("gaussian", kl.Gaussian(0.7), gaussian(0.7), None),
    Case("gaussian-each", kl.Gaussian([0.7, 2.0, 0.4]), each(gaussian(1.0), [0.7, 2.0, 0.4]), None),
    Case("matern-each-7/2", kl.Matern(3.5, [0.7, 2.0, 0.4]), each(bessel(3.5, 1.0), [0.7, 2.0, 0.4]), None),
    Case("matern-each-0.8", kl.Matern(0.8, (0.7, 2.0, 0.4)), each(bessel(0.8, 1.0), [0.7, 2.0, 0.4]), None),
    Case(
        "product-each",
        kl.Linear() * kl.Gaussian([0.7, 2.0, 0.4]),
        lambda x, y: dot(x, y) * each(gaussian(1.0), [0.7, 2.0, 0.4])(x, y),
        None,
    ),
    Case("white", kl.White(), lambda x, y: float(x == y), None, finite=True),
    Case(
        "nugget",
        kl.Gaussian(0.7) + 0.01 * kl.White(),
        lambda x, y: gaussian(0.7)(x, y) + 0.01 * (x == y),
        None,
        finite=True,
    ),
    Case(
        "mixed",
        kl.Mixed(PARAMETERS, lengths=0.6, hamming=0.8, shared=0.3),
        mixed(0.6, 0.8, 0.3, gaussian(1.0)),
        None,
        finite=True,
    ),
    Case(
        "mixed-matern",
        kl.Mixed(PARAMETERS, lengths=0.6, hamming=0.8, smoothness=2.5),
        mixed(0.6, 0.8, 0.5, matern(lambda z: (1 + z + z * z / 3) * math.exp(-z), 2.5, 1.0)),
        None,
        finite=True,
    ),
    Case("exponential", kl.Matern(0.5, 0.8), matern(lambda z: math.exp(-z), 0.5, 0.8), None),
    Case("matern-3/2", kl.Matern(1.5, 0.8), three_halves, None),
    Case("matern-5/2", kl.Matern(2.5, 0.8), five_halves, None),
    Case("matern-7/2", kl.Matern(3.5, 0.8), bessel(3.5, 0.8), None),
    Case("matern-0.8", kl.Matern(0.8, 0.6), bessel(0.8, 0.6), None),
    Case("matern-1", kl.Matern(1.0, 0.6), bessel(1.0, 0.6), None),
    Case("matern-3.3", kl.Matern(3.3, 1.1), bessel(3.3, 1.1), None),
    Case("periodic", kl.Periodic(0.9), periodic(0.9, 2 * math.pi), None),
    Case("periodic-2", kl.Periodic(1.2, period=2.0), periodic(1.2, 2.0), None),
    Case("posynomial", kl.Posynomial(MIXED), posynomial(MIXED), 3, positive=True),
    Case("posynomial-whole", kl.Posynomial(WHOLE), posynomial(WHOLE), 4),
    Case("sum", kl.Linear() + kl.Gaussian(0.7), lambda x, y: dot(x, y) + gaussian(0.7)(x, y), None),
    Case(
        "sum-finite",
        kl.Quadratic() + kl.Polynomial(2),
        lambda x, y: dot(x, y) ** 2 + dot(x, y) + (dot(x, y) + 1) ** 2,
        19,
    ),
    Case(
        "product",
        kl.Polynomial(2) * kl.Periodic(0.9),
        lambda x, y: (dot(x, y) + 1) ** 2 * periodic(0.9, 2 * math.pi)(x, y),
        None,
    ),
    Case(
        "product-finite",
        kl.Posynomial(MIXED) * kl.Linear(),
        lambda x, y: posynomial(MIXED)(x, y) * dot(x, y),
        9,
        positive=True,
    ),
    Case(
        "rescaled",
        kernels.Rescaled(kl.Polynomial(2), (-1.0, 2.0, 0.5), (3.0, 0.0, 0.25)),
        lambda x, y: (dot(mapped(x), mapped(y)) + 1) ** 2,
        10,
    ),
    Case(
        "rescaled-powers",
        kernels.Rescaled(kl.Posynomial(MIXED), (0.0,) * 3, (3.0, 2.0, 0.25), centred=False),
        lambda x, y: posynomial(MIXED)(in_units_of(x), in_units_of(y)),
        3,
        positive=True,
    ),
    Case("scaled", 2.5 * kl.Quadratic(), lambda x, y: 2.5 * (dot(x, y) ** 2 + dot(x, y)), 9),
    Case(
        "nested",
        0.5 * (kl.Linear() + 3.0 * kl.Gaussian(0.7)) * (kl.Linear() + kl.Polynomial(1)),
        lambda x, y: 0.5 * (dot(x, y) + 3 * gaussian(0.7)(x, y)) * (2 * dot(x, y) + 1),
        None,
    ),
]  # fmt: skip


def over(keep):
    """The test for every case that is kept."""
    return pytest.mark.parametrize("case", [*filter(keep, CASES)], ids=lambda case: case.name)


every = over(lambda case: True)


def feature_distances(case, X, Y):
    """‖Φ(x_i) - Φ(y_i)‖ by the formula, pair by pair."""
    k = case.formula
    squares = [k(x, x) + k(y, y) - 2 * k(x, y) for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    return np.sqrt(np.maximum(squares, 0.0))


def test_every_kernel_of_the_library_is_among_the_cases():
    concrete = {kind for kind in Kernel.kinds().values() if kind.__module__.startswith("koloss.")}
    assert concrete == {type(case.kernel) for case in CASES}
    public = {kind for name, kind in Kernel.kinds().items() if name in kernels.__all__}
    assert concrete == public


@every
def test_gram_and_diagonal_are_the_formula(case, rng):
    X, Y = case.points(7, rng), case.points(5, rng)
    expected = [[case.formula(x, y) for y in Y.tolist()] for x in X.tolist()]
    assert_allclose(case.kernel(X, Y), expected, rtol=1e-11, atol=1e-13)
    assert_allclose(case.kernel.diag(X), np.diag(case.kernel(X)), rtol=1e-12)
    assert_allclose(case.kernel.diag(X), [case.formula(x, x) for x in X.tolist()], rtol=1e-12)


@every
def test_gram_is_symmetric_and_positive_semidefinite(case, rng):
    X = case.points(12, rng)
    line = X[0] + np.linspace(0, 1, 5)[:, None] * (X[1] - X[0])
    X = np.concatenate([X, X[:4], line])
    gram = case.kernel(X)
    assert_allclose(gram, gram.T, rtol=1e-13, atol=1e-14)
    spectrum = np.linalg.eigvalsh(gram)
    assert spectrum[0] >= -1e-12 * spectrum[-1]
    assert spectrum[-1] > 0
    # Duplicates have the same rows.
    assert_allclose(gram[12:16], gram[:4], rtol=1e-12, atol=1e-13)


@every
def test_one_argument_means_both_and_lists_are_points_too(case, rng):
    X = case.points(6, rng)
    assert_allclose(case.kernel(X), case.kernel(X, X.copy()), rtol=1e-13, atol=1e-14)
    assert case.kernel(X[:4], X[:3]).shape == (4, 3)
    assert case.kernel(X[:1]).shape == (1, 1)
    X = [[1, 2, 3], [2, 1, 1]]
    assert_allclose(case.kernel(X), case.kernel(np.asarray(X, dtype=float)), rtol=1e-15)
    assert_allclose(case.kernel(np.asarray(X)), case.kernel(X), rtol=1e-15)


@every
def test_arguments_are_left_alone(case, rng):
    X, Y, w = case.points(4, rng), case.points(3, rng), np.array([1.0, -2.0, 0.5])
    before = X.copy(), Y.copy(), w.copy()
    case.kernel(X, Y), case.kernel.diag(X), case.finite or case.kernel.gradient(X, Y, w)
    if case.features is not None:
        case.kernel.features(X)[:] = 0.0
    for now, then in zip((X, Y, w), before, strict=True):
        assert_array_equal(now, then)


@over(lambda case: case.features is not None)
def test_features_give_the_gram_matrix(case, rng):
    X, Y = case.points(8, rng), case.points(5, rng)
    phi, psi = case.kernel.features(X), case.kernel.features(Y)
    expected = [[case.formula(x, y) for y in Y.tolist()] for x in X.tolist()]
    assert_allclose(phi @ psi.T, expected, rtol=1e-10, atol=1e-11)
    assert phi.shape == (8, case.features)
    assert case.kernel.feature_dimension(D) == case.features


@over(lambda case: case.features is None)
def test_no_finite_features_is_said(case, rng):
    assert case.kernel.feature_dimension(D) is None
    with pytest.raises(NoFiniteFeatures, match="no finite feature map; build one with kernel_pca"):
        case.kernel.features(case.points(2, rng))


@over(lambda case: not case.finite)
def test_gradient_against_finite_differences(case, rng):
    X, Y = case.points(5, rng), case.points(4, rng)
    k, h = case.kernel, 1e-5
    expected = np.stack([(k(X + e, Y) - k(X - e, Y)) / (2 * h) for e in np.eye(D) * h], axis=2)
    scale = np.abs(expected).max()
    full = k.gradient(X, Y)
    assert full.shape == (5, 4, D)
    assert_allclose(full, expected, rtol=1e-6, atol=1e-8 * scale)
    for w in (rng.standard_normal(4), rng.standard_normal((5, 4))):
        summed = np.einsum("ijk,ij->ik", expected, np.broadcast_to(w, (5, 4)))
        for weights in (w, w.tolist()):
            assert_allclose(k.gradient(X, Y, weights), summed, rtol=1e-6, atol=1e-7 * scale)


@over(lambda case: not case.finite)
def test_gradient_with_respect_to_itself(case, rng):
    X = case.points(4, rng)
    if case.name == "exponential":
        with pytest.raises(ValueError, match="has no gradient where the two points coincide"):
            case.kernel.gradient(X)
        return
    assert_allclose(case.kernel.gradient(X), case.kernel.gradient(X, X.copy()), atol=1e-13)
    summed = case.kernel.gradient(X).sum(axis=1)
    assert_allclose(case.kernel.gradient(X, weights=np.ones(4)), summed, atol=1e-11)


def candidates(actions, rng):
    """Many random points of a set, its boundary and its corners."""
    X = actions.sample(4000, rng)
    if isinstance(actions, (kl.Ball, kl.PositiveBall)):
        boundary = actions.project(100 * rng.standard_normal((4000, D)))
        ends = np.diag(actions.bounds()[1] if isinstance(actions, kl.Ball) else [0.0] * D)
        return np.concatenate([X, boundary, actions.project(ends)])
    if isinstance(actions, kl.Box):
        corners = np.array(list(itertools.product(*zip(actions.lower, actions.upper, strict=True))))
        return np.concatenate([X, corners])
    return np.asarray(actions.X)


@pytest.mark.slow
@every
def test_bound_is_never_below_a_random_search(case, rng):
    for actions in case.action_sets():
        X = candidates(actions, rng)
        best = max(case.formula(x, x) for x in X.tolist())
        bound = case.kernel.bound(actions)
        assert bound >= best * (1 - 1e-12), actions
        if isinstance(actions, kl.Points):
            assert bound <= best * (1 + 1e-12)


@over(lambda case: not isinstance(case.kernel, kernels.Sum | kernels.Product))
def test_bound_of_a_single_kernel_is_attained(case, rng):
    for actions in case.action_sets():
        if isinstance(actions, (kl.Ball, kl.PositiveBall)) and not case.is_exact_on_balls:
            continue  # an upper bound there; see test_posynomial and test_positive_ball
        best = max(case.formula(x, x) for x in candidates(actions, rng).tolist())
        assert case.kernel.bound(actions) <= best * (1 + 1e-9), actions


@pytest.mark.slow
@every
def test_lipschitz_and_modulus_are_never_exceeded(case, rng):
    for actions in case.action_sets():
        X = candidates(actions, rng)
        X = X[rng.permutation(len(X))[:400]]
        if isinstance(actions, kl.Points):
            Y = X[rng.permutation(len(X))]
        else:  # near and far
            share = rng.uniform(0.02, 1.0, (len(X), 1)) ** 2
            Y = X + share * (actions.sample(len(X), rng) - X)
        apart = np.linalg.norm(X - Y, axis=1)
        X, Y, apart = X[apart > 1e-3], Y[apart > 1e-3], apart[apart > 1e-3]
        moved = feature_distances(case, X, Y)
        assert len(moved) > 20
        assert np.all(moved <= case.kernel.lipschitz(actions) * apart * (1 + 1e-7))
        moduli = np.array([case.kernel.modulus(float(r), actions) for r in apart])
        assert np.all(moved <= moduli * (1 + 1e-7))
        assert case.kernel.modulus(0.0, actions) == 0.0


@over(lambda case: case.name in {"linear", "quadratic", "affine", "cubic", "square"})
def test_lipschitz_constant_of_dot_products_is_approached_at_the_boundary(case, rng):
    ball = kl.Ball(D, 1.3)
    x = ball.project(100 * rng.standard_normal((1, D)))
    y = x * (1 - 1e-4)
    ratio = feature_distances(case, x, y)[0] / np.linalg.norm(x - y)
    assert 0.999 * case.kernel.lipschitz(ball) <= ratio


@over(lambda case: case.name[:6] in {"gaussi", "period"} or case.name[-3:] in {"5/2", "7/2", "3.3"})
def test_lipschitz_constant_of_stationary_kernels_is_approached_nearby(case):
    shortest = 2 if "each" in case.name else 0
    x, y = np.zeros((1, D)), 1e-3 * np.eye(D)[[shortest]]
    ratio = feature_distances(case, x, y)[0] / 1e-3
    assert 0.99 * case.kernel.lipschitz(kl.Ball(D)) <= ratio


@pytest.mark.slow
@over(lambda case: not case.finite)
def test_modulus_of_a_cell_is_never_exceeded_and_never_above_that_of_its_diagonal(case, rng):
    box = case.signed_box()
    lower, upper = box.bounds()
    for share in (0.05, 0.5, 1.0):
        widths = share * (upper - lower) * [1.0, 0.2, 0.6]
        X = box.project(box.sample(300, rng))
        Y = box.project(X + widths * rng.choice([-1.0, 0.3, 1.0], X.shape))
        limit = case.kernel.cell_modulus(widths.tolist(), box)
        assert np.all(feature_distances(case, X, Y) <= limit * (1 + 1e-7) + 1e-9)
        diagonal = float(np.linalg.norm(widths))
        assert limit <= case.kernel.modulus(diagonal, box) * (1 + 1e-12)


@over(lambda case: case.name.startswith(("gaussian", "exponential", "matern")))
@pytest.mark.parametrize("r", [0.01, 0.3, 1.0, 2.0])
def test_modulus_of_stationary_kernels_is_attained(case, r):
    shortest = 2 if "each" in case.name else 0
    x, y = np.zeros((1, D)), r * np.eye(D)[[shortest]]
    assert_allclose(case.kernel.modulus(r, kl.Ball(D)), feature_distances(case, x, y)[0], rtol=1e-8)


@every
def test_is_a_frozen_value(case):
    kernel = case.kernel
    twin = eval(repr(kernel), vars(kernels).copy())
    assert twin == kernel
    assert hash(twin) == hash(kernel)
    assert repr(twin) == repr(kernel)
    assert {kernel: 1}[twin] == 1
    assert sum(kernel == other.kernel for other in CASES) == 1
    field = next((f.name for f in dataclasses.fields(kernel)), "anything")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(kernel, field, 1.0)


@every
def test_survives_json(case, rng):
    data = json.loads(json.dumps(case.kernel.to_dict()))
    twin = Kernel.from_dict(data)
    assert twin == case.kernel
    assert type(twin) is type(case.kernel)
    X = case.points(3, rng)
    assert_array_equal(twin(X), case.kernel(X))


# Arrays of other libraries.


def given_back(result, xp, dtype, expected, rtol):
    assert array_api_compat.array_namespace(result) is xp
    assert result.dtype == dtype
    scale = max(float(np.max(np.abs(expected))), 1e-300)
    assert_allclose(to_numpy(result), expected, rtol=rtol, atol=rtol * scale)


@every
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_arrays_keep_their_kind_and_type(case, precision, xp, rng):
    dtype, rtol = getattr(xp, precision), {"float32": 5e-6, "float64": 1e-13}[precision]
    X, Y = (case.points(n, rng).astype(precision) for n in (6, 4))
    weights = rng.standard_normal(4).astype(precision)
    A, B, w = (xp.asarray(v) for v in (X, Y, weights))
    k, X, Y, weights = case.kernel, *(v.astype(float) for v in (X, Y, weights))

    for result, expected in [
        (k(A, B), k(X, Y)),
        (k(A), k(X)),
        (k(A, Y), k(X, Y)),  # NumPy's follow the first argument
        (k.diag(A), k.diag(X)),
    ]:
        given_back(result, xp, dtype, expected, rtol)
    if not case.finite:
        given_back(k.gradient(A, B), xp, dtype, k.gradient(X, Y), 10 * rtol)
    for these in () if case.finite else (w, weights, np.broadcast_to(weights, (6, 4))):
        given_back(k.gradient(A, B, these), xp, dtype, k.gradient(X, Y, weights), 10 * rtol)
    if case.features is not None:
        given_back(k.features(A), xp, dtype, k.features(X), rtol)
    assert k.bound(kl.Points(A)) == pytest.approx(k.bound(kl.Points(X)), rel=rtol)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_high_dimension_keeps_kind_and_type(precision, xp, rng):
    dtype, rtol = getattr(xp, precision), {"float32": 1e-5, "float64": 1e-12}[precision]
    X = rng.standard_normal((5, 20)).astype(precision)
    Y = np.concatenate([X[:2], X[2:4] + np.float32(2**-10)])
    lengths = 2.0 ** rng.uniform(0, 2, 20)
    both = (2.0, lengths)
    for k in [kl.Gaussian(s) for s in both] + [kl.Matern(nu, s) for nu in (0.5, 1.2) for s in both]:
        expected = k(X.astype(float), Y.astype(float))
        result = k(xp.asarray(X), xp.asarray(Y))
        given_back(result, xp, dtype, expected, rtol)
        assert to_numpy(result)[0, 0] == to_numpy(result)[1, 1] == 1.0
