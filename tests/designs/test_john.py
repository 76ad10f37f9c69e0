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

    def test_one_action_and_one_dimension(self):
        design = check(np.array([[3.0, -4.0]]), rank=1)
        assert design.weights.tolist() == [1.0]
        assert design.max_leverage == pytest.approx(1)
        design = check(np.array([[0.5], [-2.0], [1.0], [0.0]]), 1e-6)
        assert design.support.tolist() == [1]

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

    def test_simplex_with_interior_points(self, rng):
        inside = rng.dirichlet(np.ones(5), size=40) * rng.uniform(0, 1, size=(40, 1))
        design = check(np.vstack([np.eye(5), inside]), 1e-6)
        assert set(design.support.tolist()) == set(range(5))

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

    @pytest.mark.parametrize("m, n", [(2, 400), (3, 300), (5, 300)])
    def test_points_on_a_sphere_keep_few(self, m, n, rng):
        # Every reweighting with Σ = I/m is optimal; Carathéodory's number of them is enough.
        X = rng.normal(size=(n, m))
        check(X / np.linalg.norm(X, axis=1, keepdims=True), 1e-6)

    def test_whole_circle(self):
        assert len(check(circle(1000), 1e-6).support) <= 4

    def test_fourier_features_of_a_grid(self):
        x = 2 * np.pi * np.arange(90)[:, None] / 90
        proxy = kl.mercer_features(kl.Periodic(0.5), kl.Points(x), rank=9)
        check(proxy.features, 1e-6)


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


class TestCoordinates:
    """Designs do not depend on the coordinates of the features."""

    @pytest.mark.parametrize("conditioning", [1.0, 1e3, 1e6])
    def test_invariant_under_linear_maps(self, rng, conditioning):
        X = rng.normal(size=(70, 4))
        Q, _ = np.linalg.qr(rng.normal(size=(4, 4)))
        A = Q @ np.diag(np.geomspace(1, conditioning, 4)) @ rng.normal(size=(4, 4))
        one = check(X, 1e-6)
        other = check(X @ A, 1e-6, accuracy=1e-4)
        assert_allclose(other.weights, one.weights, atol=1e-3)
        assert other.max_leverage == pytest.approx(one.max_leverage, rel=1e-5)

    @pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e30, 1e200])
    def test_badly_scaled_columns(self, rng, scale):  # also where their squares are no numbers
        X = rng.normal(size=(60, 4))
        one = check(X, 1e-6)
        for columns in ([1e-9, 1e9, 1.0, 1e5], [1.0, 1e20, 1e-20, 1e5]):
            other = check(X * scale * np.array(columns), 1e-6)
            assert_allclose(other.weights, one.weights, atol=1e-6)

    def test_sign_and_order_do_not_matter(self, rng):
        X = rng.normal(size=(50, 3))
        order = rng.permutation(50)
        one = kl.john_design(X, tolerance=1e-6)
        assert_array_equal(one.weights, kl.john_design(X, tolerance=1e-6).weights)
        other = kl.john_design(X[order] * rng.choice([-1.0, 1.0], size=(50, 1)), tolerance=1e-6)
        assert_allclose(other.weights, one.weights[order], atol=1e-5)


class TestDegenerate:
    """Features that do not span their space are reduced, not jittered."""

    @pytest.mark.parametrize("rank", [1, 2, 4])
    def test_rank_deficient(self, rng, rank):
        X = rng.normal(size=(50, rank)) @ rng.normal(size=(rank, 6))
        design = check(X, 1e-6, rank=rank)
        # The same design as in coordinates of the span.
        U = np.linalg.svd(X, full_matrices=False)[0][:, :rank]
        assert_allclose(design.weights, kl.john_design(U, tolerance=1e-6).weights, atol=1e-4)

    def test_zero_and_dependent_columns(self, rng):
        X = rng.normal(size=(30, 2))
        design = check(np.column_stack([X, np.zeros(30), 2 * X[:, 0]]), 1e-6, rank=2)
        assert_allclose(design.weights, kl.john_design(X, tolerance=1e-6).weights, atol=1e-4)

    def test_fewer_actions_than_features(self, rng):
        design = check(rng.normal(size=(3, 8)), rank=3)
        assert_allclose(design.weights, 1 / 3, rtol=1e-3)

    def test_zero_actions_get_nothing(self, rng):
        X = np.vstack([np.zeros((3, 2)), rng.normal(size=(20, 2))])
        assert check(X, 1e-6).support.min() >= 3

    def test_duplicates_share(self, rng):
        X = rng.normal(size=(12, 3))
        many = check(np.repeat(X, 20, axis=0), 1e-6)
        one = kl.john_design(X, tolerance=1e-6)
        assert_allclose(many.weights.reshape(12, 20).sum(axis=1), one.weights, atol=1e-4)

    @pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9])
    def test_nearly_dependent_features(self, rng, distance):
        # Columns that differ by 10⁻⁹ still span two dimensions, and each gets its share.
        X = rng.normal(size=(40, 3))
        near = np.column_stack([X[:, :2], X[:, 0] + distance * X[:, 2]])
        design = check(near, 1e-6, accuracy=1e-15 / distance**2 + 1e-6)
        assert_allclose(design.weights, kl.john_design(X, tolerance=1e-6).weights, atol=1e-4)

    def test_below_rounding_is_no_dimension(self, rng):
        X = rng.normal(size=(40, 2))
        near = np.column_stack([X, X[:, 0] * (1 + 1e-16 * rng.normal(size=40))])
        assert kl.john_design(near).rank == 2

    def test_nearly_equal_actions(self, rng):
        X = np.repeat(rng.normal(size=(8, 3)), 10, axis=0)
        check(X + 1e-9 * rng.normal(size=X.shape), 1e-6)


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


def test_many_actions_enter_through_the_working_set(rng):
    # 5,000 actions, of which a few dozen matter: the certificate is over all of them.
    check(rng.normal(size=(5000, 8)), 1e-6)


def test_not_converged_carries_its_gap(rng):
    X = rng.normal(size=(3000, 6))
    with pytest.raises(DesignNotConverged, match=r"must exceed 1 .* got as far as") as info:
        kl.john_design(X, tolerance=1e-6, max_rounds=1)
    assert 1e-6 < info.value.gap < 10


def test_repr_tells_what_matters(rng):
    design = kl.john_design(np.eye(3))
    assert repr(design) == "<Design by G-optimal design: 3 of 3 actions, rank 3, max leverage 3>"
    assert design.approximation is None
