"""Designs on pairs of a context and an action: their numbers again by plain inversion, their promises, and shortcuts that fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import qr, solve_triangular

from koloss.designs import john_design
from koloss.designs.contexts import capped_design
from koloss.designs.ridge import Dimensions, ridge_design

C, K = 6, 5


def product_kernel():
    """Gauss on contexts times Gauss on actions, and a constant."""
    x, y = np.linspace(0, 1, C), np.linspace(0, 1, K)
    contexts = np.exp(-((x[:, None] - x) ** 2) / (2 * 0.5**2))
    actions = np.exp(-((y[:, None] - y) ** 2) / (2 * 0.25**2))
    values, vectors = np.linalg.eigh(np.kron(contexts, actions) + 1)
    return (vectors[:, -12:] * np.sqrt(values[-12:])).reshape(C, K, 12)


def features_of(kind):
    same = np.random.default_rng(5).normal(size=(K, 4))
    if kind == "tabular":
        return np.eye(C * K).reshape(C, K, C * K)
    if kind == "blind":  # to the context
        return np.broadcast_to(same, (C, K, 4)).copy()
    if kind == "scaled":
        return np.stack([3.0**c * same for c in range(C)])
    return product_kernel()


KINDS = ["tabular", "blind", "scaled", "product"]
LAWS = {
    "uniform": np.ones(C),
    "tiny": np.r_[1e-6, 1e-4, np.ones(C - 2)],
    "falling": 3.0 ** -np.arange(C),
    "one large": np.r_[1.0, np.full(C - 1, 1e-3)],
}


def shares(name):
    return LAWS[name] / LAWS[name].sum()


def leverages(phi, u, penalty=0.0):
    """φ'(Σ u φφ' + λI)⁻¹φ of every pair by QR with pivots, large rows first: exploration spans many orders of magnitude."""
    rows = phi.reshape(-1, phi.shape[2])
    known = np.sqrt(u.reshape(-1, 1)) * rows
    if penalty:
        known = np.vstack([known, np.sqrt(penalty) * np.eye(rows.shape[1])])
    order = np.argsort(-np.abs(known).max(axis=1), kind="stable")
    _, R, pivots = qr(known[order], mode="economic", pivoting=True)
    white = solve_triangular(R, rows[:, pivots].T, trans="T")
    return np.sum(white**2, axis=0).reshape(u.shape)


def check_numbers(phi, mu, design, penalty=0.0):
    """All that a design says of itself, computed anew."""
    u, w, S = design.exploration, design.discounts, design.exploits
    assert np.all(u >= 0)
    assert np.all(w <= 1)
    assert np.all(w[S] == 1)
    assert np.all(u.sum(axis=1) <= w * mu * (1 + 1e-12))
    np.testing.assert_allclose(design.laws.sum(axis=1), 1)
    np.testing.assert_allclose(design.laws * u.sum(axis=1, keepdims=True), u, atol=1e-15)
    np.testing.assert_allclose(design.shares[S], (u.sum(axis=1) / mu)[S])
    assert np.all(design.shares[~S] == 1)
    G = leverages(phi, u, penalty).max(axis=1)
    R_S, R_O = G[S].max(), np.max(w**2 * G)
    assert design.largest_exploiting == pytest.approx(R_S, rel=1e-6)
    assert design.largest == pytest.approx(np.sqrt(R_S * R_O), rel=1e-6)
    assert design.cost == pytest.approx(u[S].sum() + mu[~S].sum(), rel=1e-12)


@pytest.mark.parametrize("factor", [1.2, 20.0])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_rare_contexts_cost_nothing(kind, law, factor):
    phi, mu = features_of(kind), shares(law)
    m = np.linalg.matrix_rank(phi.reshape(C * K, -1))
    design = capped_design(phi, mu, factor * m)
    check_numbers(phi, mu, design)
    assert design.largest <= factor * m * (1 + 1e-9)
    assert design.cost * design.largest <= 1.0081 * m
    # The identity of Lemma F6.2 at the reach aimed at, up to twice the tolerance.
    S, w, u = design.exploits, design.discounts, design.exploration
    full = u[S].sum() + np.sum((mu / w)[~S])
    known = np.sum(u * leverages(phi, u))
    assert full * factor * m == pytest.approx(known, rel=0.011)
    # A context that comes often enough is never left out.
    dimensions = np.array([np.linalg.matrix_rank(phi[c]) for c in range(C)])
    assert np.all(S[mu >= 1.02 * dimensions / (factor * m)])


@pytest.mark.slow
def test_random_designs(rng):
    """Features that are general, of growing length or unrelated in turned coordinates; shares from equal to 10⁻⁹."""
    for k in range(60):
        contexts, actions = rng.integers(2, 6, size=2)
        m = int(rng.integers(2, min(contexts * actions, 9) + 1))
        phi = rng.normal(size=(contexts, actions, m))
        if k % 3 == 1:
            phi *= 3.0 ** np.arange(contexts)[:, None, None]
        if k % 3 == 2:
            m = contexts * actions
            phi = np.linalg.qr(rng.normal(size=(m, m)))[0].reshape(contexts, actions, m)
        mu = np.maximum(rng.dirichlet(np.full(contexts, rng.choice([0.1, 0.3, 1.0]))), 1e-9)
        mu /= mu.sum()
        reach = m * rng.choice([1.1, 1.5, 3.0, 20.0, 200.0])
        design = capped_design(phi, mu, reach)
        check_numbers(phi, mu, design)
        assert design.largest <= reach * (1 + 1e-9)
        assert design.cost * reach <= 1.0081 * m


def test_without_rare_contexts_it_is_the_design_on_all_pairs():
    phi = product_kernel()
    plain = john_design(phi.reshape(C * K, -1))
    design = capped_design(phi, shares("uniform"), 60.0)
    gamma = plain.max_leverage / 60.0
    np.testing.assert_array_equal(design.exploration.ravel(), gamma * plain.weights)
    assert design.cost == gamma
    assert design.exploits.all()
    check_numbers(phi, shares("uniform"), design)


@pytest.mark.parametrize("reach", [60.0, 3.0])
def test_features_that_do_not_span_their_space(reach):
    phi, mu = features_of("scaled"), shares("falling")
    twice = np.concatenate([phi, phi @ np.ones((4, 2))], axis=2)
    once, design = capped_design(phi, mu, reach), capped_design(twice, mu, reach)
    assert design.cost == pytest.approx(once.cost, rel=0.01)
    assert design.largest == pytest.approx(once.largest, rel=0.01)


@pytest.mark.parametrize("reach", [200.0, 13.0, 5.0])
def test_one_context_is_none_bit_for_bit(reach):
    phi = product_kernel().reshape(1, C * K, -1)
    plain = john_design(phi[0])
    design = capped_design(phi, [1.0], reach)
    np.testing.assert_array_equal(design.laws[0], plain.weights)
    assert design.shares[0] == design.cost == min(1.0, plain.max_leverage / reach)
    columns = np.sqrt(0.01) * np.eye(12)[:, 3:]
    penalised = ridge_design(phi[0], columns, 200.0)
    design = capped_design(phi, [1.0], 200.0, ridge=columns)
    np.testing.assert_array_equal(design.laws[0], penalised.weights)
    assert design.shares[0] == design.cost == penalised.exploration
    assert design.largest == penalised.largest


@pytest.mark.parametrize("kind", KINDS)
def test_a_reach_below_the_dimension_leaves_nothing_to_exploit(kind):
    phi, mu = features_of(kind), shares("falling")
    m = np.linalg.matrix_rank(phi.reshape(C * K, -1))
    design = capped_design(phi, mu, 0.7 * m)
    assert design.cost == 1
    assert not design.exploits.any()
    np.testing.assert_allclose(design.exploration.sum(axis=1), mu)
    assert design.largest == pytest.approx(leverages(phi, design.exploration).max())


def certified(phi, penalty, mu=None):
    """The certificate of the largest dimension, of laws with the shares of the contexts or of any."""
    rows = phi.reshape(C * K, -1)
    curve = np.max(np.sum(rows**2, axis=1)) * np.ones(13)
    every = Dimensions(np.empty((C * K, 0)), rows, curve, unit=penalty, shares=mu)
    for _ in range(60):
        every.improve(penalty)
    return every.certificates.excess(penalty)


@pytest.mark.parametrize("law", ["tiny", "falling"])
@pytest.mark.parametrize("penalty", [1e-3, 0.1])
def test_with_a_ridge_the_cost_is_that_of_the_effective_dimension(penalty, law):
    phi, mu = product_kernel(), shares(law)
    d = certified(phi, penalty, mu)
    assert d < 12
    for reach in (3 * d, 30 * d):
        design = capped_design(phi, mu, reach, ridge=penalty)
        check_numbers(phi, mu, design, penalty)
        assert design.largest <= reach * 1.002
        assert design.cost * reach <= 1.0081 * d


def dimension(phi, mu, p, penalty):
    rows, weights = phi.reshape(-1, phi.shape[2]), (mu[:, None] * p).ravel()
    sigma = rows.T @ (weights[:, None] * rows)
    return np.trace(sigma @ np.linalg.inv(sigma + penalty * np.eye(len(sigma))))


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [1e-4, 1e-2, 1.0])
def test_the_effective_dimension_is_certified_from_above(penalty, rng):
    phi, mu = product_kernel(), shares("falling")
    d = certified(phi, penalty, mu)
    laws = rng.dirichlet(np.full(K, 0.5), size=(300, C))
    assert max(dimension(phi, mu, p, penalty) for p in laws) <= d
    # And it is nearly attained: by steps towards the best answer to the last law.
    p = np.full((C, K), 1 / K)
    rows = phi.reshape(C * K, -1)
    for k in range(2000):
        sigma = rows.T @ ((mu[:, None] * p).ravel()[:, None] * rows)
        inverse = np.linalg.inv(sigma + penalty * np.eye(12))
        slopes = np.sum((rows @ inverse) ** 2, axis=1).reshape(C, K)
        p = (1 - 2 / (k + 3)) * p + 2 / (k + 3) * (slopes == slopes.max(axis=1, keepdims=True))
    assert dimension(phi, mu, p, penalty) >= 0.995 * d
    assert d <= certified(phi, penalty)


# Shortcuts that do not work (F6.2).


def test_cutting_the_plain_design_breaks_the_range_of_others():
    phi, mu = features_of("scaled"), shares("tiny")[::-1].copy()  # long features are rare
    R = 20.0
    plain = john_design(phi.reshape(C * K, -1))
    u = plain.max_leverage / R * np.asarray(plain.weights).reshape(C, K)
    u *= np.minimum(1, mu / np.maximum(u.sum(axis=1), 1e-300))[:, None]
    u += 1e-12  # a little everywhere, for an inverse
    G = leverages(phi, u).max(axis=1)
    exploits = u.sum(axis=1) < 0.9 * mu
    assert G[exploits].max() > 100 * R
    assert capped_design(phi, mu, R).largest <= R


def test_without_discounts_rare_observations_break_the_range():
    phi, mu, R = features_of("tabular"), shares("tiny"), 300.0
    design = capped_design(phi, mu, R)
    u, S = design.exploration, design.exploits
    G = leverages(phi, u).max(axis=1)
    assert np.sqrt(G[S].max() * G.max()) > 10 * R  # all discounts 1
    assert design.largest <= R


def test_dropping_contexts_one_after_the_other_costs_many_times_as_much():
    R, count = 20.0, 8
    mu = np.r_[0.0, np.full(count - 1, 0.99 / R)]
    mu[0] = 1 - mu.sum()
    phi = 3.0 ** np.arange(count)[:, None, None] * np.ones((count, 2, 1))
    left, dropped = list(range(count)), 0.0
    while mu[left[-1]] < 1 / R:  # the longest feature has all of the design
        dropped += mu[left.pop()]
    design = capped_design(phi, mu, R)
    assert design.cost <= 1.01 / R
    assert dropped > 6 * design.cost


@pytest.mark.parametrize(
    "features, law, largest, ridge, words",
    [
        (np.ones((2, 3)), [0.5, 0.5], 10, None, r"`features` must be of shape \(contexts"),
        (np.full((2, 3, 1), np.nan), [0.5, 0.5], 10, None, "`features` must be finite"),
        (np.ones((2, 3, 1)), [1.0, 0.0], 10, None, "`law` must be positive, got a share of 0"),
        (np.ones((2, 3, 1)), [0.5, 0.4], 10, None, "`law` must sum to 1"),
        (np.ones((2, 3, 1)), [0.5, 0.5], 0, None, "`largest` must be positive"),
        (np.ones((2, 3, 1)), [0.5, 0.5], 10, np.ones((2, 2)), "`ridge` must be a number or have 1"),
        (np.ones((2, 3, 1)), [0.5, 0.5], 10, -1.0, "`ridge` must be at least 0"),
    ],
)
def test_bad_input(features, law, largest, ridge, words):
    with pytest.raises(ValueError, match=words):
        capped_design(features, law, largest, ridge=ridge)
