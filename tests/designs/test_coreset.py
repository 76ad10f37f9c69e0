"""Designs of many actions, from a coreset and in blocks, against brute force and against designs without either."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

import koloss as kl
from koloss.core.arrays import to_numpy
from koloss.core.linalg import SHARE
from koloss.designs import base, coreset, john
from koloss.designs.coreset import support_limit
from koloss.errors import DesignNotConverged, RankUnreachable
from tests.support.designs import leverages

N = SHARE + 5_000


def normal(rng, m=5):
    return rng.normal(size=(N, m))


def rare(rng):
    """One action of all, and neither a long one nor one that is looked at first, has the last direction."""
    X = rng.normal(size=(N, 4))
    X[:, 3] = 0
    X[45_678] = [0.01, 0.0, 0.0, 1e-6]
    return X


SETS = {
    "normal": (normal, 5),
    "float32": (lambda rng: normal(rng).astype(np.float32), 5),
    "cauchy": (lambda rng: rng.standard_cauchy(size=(N, 3)), 3),
    "sphere": (lambda rng: normal(rng, 4) / np.linalg.norm(normal(rng, 4), axis=1)[:, None], 4),
    "monomials": (lambda rng: np.vander(np.linspace(-1, 1, N), 5), 5),
    "duplicates": (lambda rng: np.repeat(rng.normal(size=(20, 3)), N // 20 + 1, axis=0), 3),
    "rank deficient": (lambda rng: normal(rng, 3) @ rng.normal(size=(3, 5)), 3),
    "a column of zeros": (lambda rng: normal(rng, 3) * [1.0, 0.0, 1.0], 2),
    "squares that are no numbers": (lambda rng: normal(rng, 3) * [1e-200, 1e200, 1.0], 3),
    "a rare direction": (rare, 4),
}


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("name", SETS)
def test_certified_on_all_actions(name, tolerance, rng):
    make, rank = SETS[name]
    features = make(rng)
    design = kl.john_design(features, tolerance=tolerance)
    assert design.rank == rank
    assert design.weights.dtype == features.dtype
    assert design.weights.sum(dtype=float) == pytest.approx(1, abs=1e-6)
    assert np.all(design.weights >= 0)
    assert rank <= len(design.support) <= rank * (rank + 1) // 2 + 1
    g = leverages(features, design.weights)
    assert g.max() == pytest.approx(design.max_leverage, rel=1e-9)
    assert design.gap <= tolerance
    # The certificate is no empty word: with a tenth of the weight elsewhere it is another.
    wrong = 0.9 * np.asarray(design.weights, dtype=float)
    wrong[design.support[0]] += 0.1
    assert leverages(features, wrong).max() > (1 + 2 * tolerance) * rank


def test_the_same_design_as_without_a_coreset(rng, monkeypatch):
    features = normal(rng)
    design = kl.john_design(features, tolerance=1e-6)
    monkeypatch.setattr(john, "SHARE", 10**9)
    whole = kl.john_design(features, tolerance=1e-6)
    assert_allclose(design.weights, whole.weights, atol=1e-5)
    assert design.max_leverage == pytest.approx(whole.max_leverage, rel=1e-6)


def test_a_coreset_that_stays_large_ends_as_well(rng, monkeypatch):
    # On a sphere every action may be in an optimal design: nothing is ruled out, and offenders join instead.
    monkeypatch.setattr(coreset, "CORESET", 256)
    X = normal(rng, 6)
    X /= np.linalg.norm(X, axis=1)[:, None]
    design = kl.john_design(X, tolerance=1e-6)
    assert leverages(X, design.weights).max() <= 6 * (1 + 1e-6)


def test_one_thread_and_two_give_the_same_bits(rng):
    features = normal(rng, 8)
    designs = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            designs.append((kl.john_design(features), kl.uniform_design(features)))
    for one, two in zip(*designs, strict=True):
        assert_array_equal(one.weights, two.weights)
        assert one.max_leverage == two.max_leverage


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_whiten_in_blocks_and_whole(rng, monkeypatch, precision):
    features = normal(rng).astype(precision)
    weights = np.zeros(N)
    weights[rng.choice(N, 50, replace=False)] = rng.dirichlet(np.ones(50))
    blocked = kl.whiten(features, weights)
    assert blocked.features.dtype == blocked.transform.dtype == precision
    white = blocked.features.astype(float)
    accuracy = 1e-12 if precision is np.float64 else 1e-5
    assert_allclose(white.T @ (weights[:, None] * white), np.eye(5), atol=accuracy)
    monkeypatch.setattr(base, "SHARE", 10**9)
    lengths = np.sum(kl.whiten(features, weights).features.astype(float) ** 2, axis=1)
    assert_allclose(np.sum(white**2, axis=1), lengths, rtol=1e3 * accuracy)


def test_rows_are_what_they_stand_for(rng):
    features = normal(rng).astype(np.float32)
    transform = rng.normal(size=(5, 3))
    some = base.Rows(features, transform)
    Z = features.astype(float) @ transform
    assert_allclose(some.take([3, 70_000]), Z[[3, 70_000]], rtol=1e-12)
    assert_allclose(some.lengths(), np.sum(Z**2, axis=1), rtol=1e-12)
    matrix = rng.normal(size=(3, 2))
    assert_allclose(some.lengths(matrix), np.sum((Z @ matrix) ** 2, axis=1), atol=1e-9)
    assert_allclose(some.product(), Z, rtol=1e-5, atol=1e-5)
    for weights in (rng.dirichlet(np.ones(N)), np.eye(1, N, 70_000)[0]):  # of all, and of few
        assert_allclose(some.covariance(weights), (Z.T * weights) @ Z, atol=1e-12)


@pytest.mark.parametrize("ratio", [1.0, 1e-7])
def test_coordinates_are_round(rng, ratio):
    # By a Cholesky factor, and by a QR factorisation where columns are nearly dependent.
    X = normal(rng, 3)
    features = np.column_stack([X[:, :2], X[:, 0] + ratio * X[:, 2]])
    Z = features @ base.coordinates(features)
    assert_allclose(Z.T @ Z, np.eye(3), atol=1e-6)


def test_refuses_what_the_others_refuse():
    with pytest.raises(RankUnreachable, match="must not vanish"):
        kl.john_design(np.zeros((N, 2)))
    tiny = np.ones((N, 2))
    tiny[:, 1] = 1e-305
    with pytest.raises(ValueError, match="size 1e-300 at least, got 1e-305"):
        kl.john_design(tiny)


def test_not_converged_carries_its_gap(rng, monkeypatch):
    monkeypatch.setattr(coreset, "CORESET", 64)
    features = normal(rng, 8)
    with pytest.raises(DesignNotConverged, match="`max_rounds` must exceed 1") as info:
        kl.john_design(features, tolerance=1e-6, max_rounds=1)
    assert info.value.gap > 1e-6


def test_array_libraries(xp, rng):
    features = normal(rng, 3)
    design = kl.john_design(xp.asarray(features))
    assert_allclose(to_numpy(design.weights), kl.john_design(features).weights, atol=1e-6)
    white = kl.whiten(xp.asarray(features), design).features
    lengths = np.sum(to_numpy(white) ** 2, axis=1)
    assert lengths.max() == pytest.approx(design.max_leverage, rel=1e-9)


class TestSupportLimit:
    """Harman and Pronzato: actions below the limit are in no optimal design, whatever design the leverages are of."""

    @staticmethod
    def wronged(limit, trials=200):
        """Over random sets and designs: how often an action of the optimum would be ruled out."""
        rng, wrong = np.random.default_rng(1), 0
        for _ in range(trials):
            m = int(rng.integers(2, 6))
            X = rng.normal(size=(40, m))
            best = kl.john_design(X, tolerance=1e-6).weights
            mixed = rng.uniform() ** 2
            g = leverages(X, (1 - mixed) * best + mixed * rng.dirichlet(np.ones(40)))
            gap = g.max() / m - 1
            wrong += bool(np.any(g[best > 1e-4] < m * limit(gap, m) * (1 - 1e-6)))
        return wrong

    def test_no_action_of_the_optimum_is_ruled_out(self):
        assert self.wronged(support_limit) == 0

    def test_a_limit_that_is_higher_rules_some_out(self):
        assert self.wronged(lambda gap, m: 1 - max(gap, 0) / 20, trials=40) > 0

    @pytest.mark.parametrize("m", [2, 10, 60])
    @pytest.mark.parametrize("factor", [1.1, 2.0, 5.0])
    def test_a_basis_with_too_much_weight_on_one(self, m, factor):
        # Every vector of a basis is in the optimal design, the one of smallest leverage as well.
        first = min(factor / m, 0.9)
        smallest, largest = 1 / first, (m - 1) / (1 - first)
        assert smallest >= m * support_limit(largest / m - 1, m)
        # With ε relative to m the formula says otherwise, where neither is small.
        if m >= 10 and factor >= 2:
            assert smallest < m * support_limit((largest / m - 1) / m, m)

    def test_ends(self):
        assert support_limit(0.0, 5) == 1
        assert 0.2 < support_limit(10.0, 5) < 0.3  # towards 1/m
