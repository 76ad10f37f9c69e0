"""The G-optimal design: Kiefer and Wolfowitz' conditions, a log-det program, and features made to be awkward."""

from __future__ import annotations

import importlib
import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import koloss as kl
from koloss.errors import DesignNotConverged
from tests.support.designs import leverages


def check(features, tolerance=1e-3, rank=None, accuracy=1e-7):
    """Everything that makes a design G-optimal up to the tolerance; returns the design."""
    design = kl.john_design(features, tolerance=tolerance)
    m, w = design.rank, design.weights
    assert m == (features.shape[1] if rank is None else rank)
    assert w.shape == (len(features),)
    assert np.all(w >= 0)
    assert w.sum() == pytest.approx(1, abs=1e-12)
    g = leverages(features, w)
    assert g.max() == pytest.approx(design.max_leverage, rel=accuracy)
    assert m * (1 - accuracy) <= g.max() <= m * (1 + tolerance) * (1 + accuracy)
    assert design.gap == pytest.approx(design.max_leverage / m - 1)
    assert design.gap <= tolerance
    # Σ_a w(a) g(a) = m: points with weight have leverage near m, the largest there is.
    assert w @ g == pytest.approx(m, rel=accuracy)
    assert_array_equal(design.support, np.flatnonzero(w))
    assert m <= len(design.support) <= m * (m + 1) // 2 + 1
    return design


def log_det(features, weights):
    return np.linalg.slogdet(features.T @ (weights[:, None] * features))[1]


def proxy_features(X):
    return kl.pivoted_cholesky(kl.Gaussian(0.4), kl.Points(X), tolerance=0.03).features


SETS = {
    "normal": lambda rng: rng.normal(size=(60, 4)),
    "cauchy": lambda rng: rng.standard_cauchy(size=(80, 3)),
    "simplex": lambda rng: rng.dirichlet(np.ones(4), size=50),
    "monomials": lambda rng: np.vander(np.linspace(-1, 1, 41), 4),
    "cube": lambda rng: np.array(list(itertools.product([-1.0, 1.0], repeat=4))),
    "binary": lambda rng: np.array(list(itertools.product([0.0, 1.0], repeat=4)))[1:],
    "scalars": lambda rng: rng.normal(size=(20, 1)),
    "proxy": lambda rng: proxy_features(rng.uniform(size=(120, 2))),
}


@pytest.fixture(params=SETS)
def features(request, rng):
    return SETS[request.param](rng)


class TestOptimality:
    """On features of all kinds, at a loose and at the tightest tolerance."""

    @pytest.mark.parametrize("tolerance", [1.0, 0.3, 1e-2, 1e-3, 1e-6])
    def test_kiefer_wolfowitz(self, features, tolerance):
        check(features, tolerance)

    @pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
    def test_determinant_against_a_convex_solver(self, features, tolerance):
        design = kl.john_design(features, tolerance=tolerance)
        m = design.rank
        # Round coordinates, for the solver's sake; differences of log det stay the same.
        scaled = math.sqrt(len(features)) * np.linalg.qr(features)[0]
        w = cp.Variable(len(scaled), nonneg=True)
        objective = cp.Maximize(cp.log_det(scaled.T @ cp.diag(w) @ scaled))
        problem = cp.Problem(objective, [cp.sum(w) == 1])
        problem.solve(solver=cp.CLARABEL)
        assert problem.status == "optimal"
        ours, theirs = log_det(scaled, design.weights), float(problem.value)
        # Weak duality: log det* - log det Σ(w) ≤ m log(max leverage / m).
        assert theirs - ours <= m * math.log1p(tolerance) + 1e-5
        assert ours - theirs <= 1e-5

    def test_a_handful_of_rounds_is_enough(self, features):
        kl.john_design(features, tolerance=1e-6, max_rounds=30)


class TestKnownDesigns:
    """Where the optimum is known by hand."""

    def test_fifth_point_of_the_counterexample_gets_no_weight(self):
        # Theory A3: (.7, .7) is extreme, and the best action for w = -(1, 1), but no contact point.
        features = np.array([[1, 0], [-1, 0], [0, 1], [0, -1], [0.7, 0.7]])
        design = check(features, 1e-6)
        assert 4 not in design.support
        assert_allclose([design.weights[:2].sum(), design.weights[2:4].sum()], 0.5, atol=1e-6)
        assert leverages(features, design.weights)[4] == pytest.approx(1.96, rel=1e-5)

    def test_as_many_actions_as_dimensions(self, rng):
        assert_allclose(check(np.eye(7), 1e-6).weights, 1 / 7, rtol=1e-6)
        design = check(rng.normal(size=(6, 6)) @ np.diag(10.0 ** np.arange(6)), 1e-6)
        assert_allclose(design.weights, 1 / 6, rtol=1e-5)

    @pytest.mark.parametrize("degree", [1, 2, 3, 5])
    def test_polynomials_on_an_interval(self, degree):
        # Guest: equal weights at ±1 and the zeros of P_n', the derivative of Legendre's polynomial.
        zeros = np.polynomial.legendre.Legendre.basis(degree).deriv().roots().real
        nodes = np.sort(np.concatenate([[-1.0, 1.0], zeros]))
        x = np.sort(np.concatenate([nodes, np.linspace(-0.99, 0.99, 200)]))
        design = check(np.polynomial.legendre.legvander(x, degree), 1e-6)
        for node in nodes:
            near = np.abs(x - node) < 0.03
            assert design.weights[near].sum() == pytest.approx(1 / (degree + 1), abs=2e-3)

    def test_outliers_take_the_weight_of_a_dimension_each(self, rng):
        features = rng.normal(size=(100, 3))
        features[[7, 30, 81]] = 1e6 * np.eye(3)
        design = check(features, 1e-6)
        assert design.support.tolist() == [7, 30, 81]
        assert_allclose(design.weights[design.support], 1 / 3, rtol=1e-6)
        features = rng.normal(size=(100, 4))
        features[13] *= 1e8
        design = check(features, 1e-6, accuracy=1e-5)
        assert design.weights[13] == pytest.approx(1 / 4, rel=1e-4)


def circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def icosahedron():
    golden = (1 + math.sqrt(5)) / 2
    corners = [(0, s, t * golden) for s in (-1, 1) for t in (-1, 1)]
    X = np.array([np.roll(c, k) for c in corners for k in range(3)])
    return X / np.linalg.norm(X[0])


class TestSphere:
    """Theory B5: for Φ(x) = (xx', x) the uniform distribution on the sphere is G-optimal."""

    @pytest.mark.parametrize("X", [circle(7), icosahedron()], ids=["circle", "icosahedron"])
    def test_uniform_on_a_spherical_four_design(self, X, rng):
        d = X.shape[1]
        m = d * (d + 3) // 2
        phi = kl.Quadratic().features
        assert kl.uniform_design(phi(X)).max_leverage == pytest.approx(m, rel=1e-12)
        inside = kl.Ball(d).sample(300, rng)
        both, weights = np.vstack([X, inside]), np.zeros(len(X) + 300)
        weights[: len(X)] = 1 / len(X)
        r2 = np.sum(both**2, axis=1)
        assert_allclose(leverages(phi(both), weights), d * (d + 1) / 2 * r2**2 + d * r2, rtol=1e-9)
        # So the solver cannot do better, and has nothing to put inside.
        design = check(phi(both), 1e-6)
        assert design.support.max() < len(X)

    def test_whole_circle(self):
        assert len(check(circle(1000), 1e-6).support) <= 4


def test_caratheodory_keeps_the_covariance(rng):
    reduce = importlib.import_module("koloss.designs.working_set").caratheodory
    rows = rng.normal(size=(50, 3))
    w = rng.dirichlet(np.ones(50))
    keep, fewer = reduce(rows, w)
    assert len(keep) <= 7
    assert np.all(fewer > 0)
    assert fewer.sum() == pytest.approx(1)
    reduced = rows[keep].T @ (fewer[:, None] * rows[keep])
    assert_allclose(reduced, rows.T @ (w[:, None] * rows), atol=1e-12)


def turned(rng, conditioning):
    Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    X = rng.normal(size=(70, 4))
    return X @ Q @ np.diag(np.geomspace(1, conditioning, 4)) @ rng.normal(size=(4, 4)), X


def scaled(rng, scale, columns):
    X = rng.normal(size=(60, 4))
    return X * scale * np.array(columns), X


def deficient(rng, rank):
    X = rng.normal(size=(50, rank)) @ rng.normal(size=(rank, 6))
    return X, np.linalg.svd(X, full_matrices=False)[0][:, :rank]


def dependent(rng):
    X = rng.normal(size=(30, 2))
    return np.column_stack([X, np.zeros(30), 2 * X[:, 0]]), X


def near(rng, distance):
    """Columns that differ by little still span two dimensions, and each gets its share."""
    X = rng.normal(size=(40, 3))
    return np.column_stack([X[:, :2], X[:, 0] + distance * X[:, 2]]), X


def on_sphere(rng, m, n):
    X = rng.normal(size=(n, m))
    return X / np.linalg.norm(X, axis=1, keepdims=True), None


def fourier(rng):
    x = 2 * np.pi * np.arange(90)[:, None] / 90
    return kl.mercer_features(kl.Periodic(0.5), kl.Points(x), rank=9).features, None


HUGE, MIXED = [1e-9, 1e9, 1.0, 1e5], [1.0, 1e20, 1e-20, 1e5]
AWKWARD = {
    **{f"turned, {c:g}": (lambda rng, c=c: turned(rng, c), 4, 1e-4) for c in (1, 1e3, 1e6)},
    **{
        f"columns {columns} times {s:g}": (lambda rng, s=s, c=columns: scaled(rng, s, c), 4, 1e-7)
        for s in (1e-200, 1e-30, 1.0, 1e30, 1e200)  # also where their squares are no numbers
        for columns in (HUGE, MIXED)
    },
    **{f"rank {k}": (lambda rng, k=k: deficient(rng, k), k, 1e-7) for k in (1, 2, 4)},
    "zero and dependent columns": (dependent, 2, 1e-7),
    **{
        f"nearly dependent, {d:g}": (lambda rng, d=d: near(rng, d), 3, 1e-15 / d**2 + 1e-6)
        for d in (1e-3, 1e-6, 1e-9)
    },
    "one action": (lambda rng: (np.array([[3.0, -4.0]]), None), 1, 1e-7),
    "one dimension": (lambda rng: (np.array([[0.5], [-2.0], [1.0], [0.0]]), None), 1, 1e-7),
    "fewer actions than features": (lambda rng: (rng.normal(size=(3, 8)), None), 3, 1e-7),
    "zero actions": (lambda rng: (np.vstack([np.zeros((3, 2)), np.eye(2)]), None), 2, 1e-7),
    "duplicates": (lambda rng: (np.repeat(rng.normal(size=(12, 3)), 20, axis=0), None), 3, 1e-7),
    "nearly equal": (
        lambda rng: (np.repeat(np.eye(3), 10, axis=0) + 1e-9 * rng.normal(size=(30, 3)), None),
        *(3, 1e-7),
    ),
    # Every reweighting with Σ = I/m is optimal; Carathéodory's number of them is enough.
    **{
        f"{n} on a sphere": (lambda rng, m=m, n=n: on_sphere(rng, m, n), m, 1e-7)
        for m, n in ((2, 400), (3, 300), (5, 301))
    },
    "Fourier features of a grid": (fourier, 9, 1e-7),
    # 5,000 actions, of which a few dozen matter: the certificate is over all of them.
    "many": (lambda rng: (rng.normal(size=(5000, 8)), None), 8, 1e-7),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_features(name, rng):
    """Dependent ones are reduced, not jittered; designs do not depend on the coordinates."""
    make, rank, accuracy = AWKWARD[name]
    X, same = make(rng)
    design = check(X, 1e-6, rank=rank, accuracy=accuracy)
    if same is not None:
        assert_allclose(design.weights, kl.john_design(same, tolerance=1e-6).weights, atol=1e-4)


def test_below_rounding_is_no_dimension(rng):
    X = rng.normal(size=(40, 2))
    close = np.column_stack([X, X[:, 0] * (1 + 1e-16 * rng.normal(size=40))])
    assert kl.john_design(close).rank == 2


def test_the_same_features_have_the_same_design(rng):
    X = rng.normal(size=(50, 3))
    designs = [kl.john_design(X, tolerance=1e-6) for _ in range(2)]
    assert_array_equal(designs[0].weights, designs[1].weights)


SHAPES = {
    "normal": lambda X, rng: X,
    "sphere": lambda X, rng: X / np.linalg.norm(X, axis=1, keepdims=True),
    "lattice": lambda X, rng: np.vstack([np.eye(X.shape[1]), rng.integers(-2, 3, size=X.shape)]),
    "cauchy": lambda X, rng: rng.standard_cauchy(size=X.shape),
    "scaled rows": lambda X, rng: X * 10 ** rng.uniform(-4, 4, size=(len(X), 1)),
    "scaled columns": lambda X, rng: X * 10 ** rng.uniform(-12, 12, size=X.shape[1]),
}
finite = st.floats(-100, 100).map(lambda x: round(x, 2))


@given(
    rows=st.integers(1, 5).flatmap(
        lambda m: st.lists(st.lists(finite, min_size=m, max_size=m), min_size=1, max_size=14)
    ),
    tolerance=st.sampled_from([1e-6, 1e-3, 0.5]),
)
def test_any_small_set_of_features_has_a_design(rows, tolerance):
    X = np.array(rows)
    if not X.any():
        return
    scaled = X / np.maximum(np.linalg.norm(X, axis=0), 1e-300)
    singular = np.linalg.svd(scaled, compute_uv=False)
    if np.any((singular > 1e-16) & (singular < 1e-6)):
        return  # near-dependence is tested above: there the second computation is the weaker one
    check(X, tolerance, rank=int(np.sum(singular >= 1e-6)), accuracy=1e-4)


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 8),
    n=st.integers(1, 120),
    shape=st.sampled_from(sorted(SHAPES)),
)
def test_random_features_of_many_shapes(seed, m, n, shape):
    rng = np.random.default_rng(seed)
    X = SHAPES[shape](rng.normal(size=(max(n, m), m)), rng)
    design = kl.john_design(X, tolerance=1e-6)
    assert design.rank == m
    assert m * (1 - 1e-9) <= design.max_leverage <= m * (1 + 1e-6)
    assert len(design.support) <= m * (m + 1) // 2 + 1


def test_not_converged_carries_its_gap(rng):
    X = rng.normal(size=(3000, 6))
    with pytest.raises(DesignNotConverged, match=r"must exceed 1 .* got as far as") as info:
        kl.john_design(X, tolerance=1e-6, max_rounds=1)
    assert 1e-6 < info.value.gap < 10


def test_repr_tells_what_matters(rng):
    design = kl.john_design(np.eye(3))
    assert repr(design) == "<Design by G-optimal design: 3 of 3 actions, rank 3, max leverage 3>"
    assert design.approximation is None
