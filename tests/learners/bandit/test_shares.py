"""Shares of traffic: the laws within them, projections, designs, and exponential weights that play no others."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import koloss as kl
from koloss.designs import john_design
from koloss.guarantees.bandit import psi
from koloss.learners.bandit.shares import Shares, shared_design
from tests.support import inside
from tests.support.clauses import remarks

POINTS = kl.Points(np.linspace(0, 1, 20)[:, None])
LIMITS = {0: (0.2, 1.0), (3, 4): (0.0, 0.1), tuple(range(10, 20)): (0.1, 0.3)}
SEEDS = st.integers(0, 10**6)


def random_shares(seed, count=9):
    """Groups with limits between which a random law lies; some actions are in none."""
    rng = np.random.default_rng(seed)
    law, order = rng.dirichlet(np.full(count, 0.5)), rng.permutation(count)
    sizes = rng.integers(1, 4, size=4)
    groups = np.split(order, np.cumsum(sizes))[: rng.integers(1, 5)]
    limits = {}
    for rows in groups:
        if len(rows):
            low, high = (
                law[rows].sum() * rng.uniform(0, 1),
                law[rows].sum() + rng.uniform(0.01, 0.4),
            )
            limits[tuple(rows.tolist())] = (float(low), float(min(high, 1)))
    return Shares.of(limits, count), rng


def masses_matrix(shares):
    return np.eye(len(shares.low))[:, shares.group]


def within(shares, law, tolerance=1e-12):
    masses = masses_matrix(shares) @ law
    inside = (masses >= shares.low - tolerance) & (masses <= shares.high + tolerance)
    return bool(inside.all() and law.min() >= 0 and abs(law.sum() - 1) <= tolerance)


def linear(shares, values):
    """The largest r·values by a solver."""
    A = masses_matrix(shares)
    solved = linprog(
        -values,
        A_ub=np.vstack([A, -A]),
        b_ub=np.concatenate([shares.high, -shares.low]),
        A_eq=np.ones((1, len(values))),
        b_eq=[1],
    )
    return -solved.fun


def divergence(p, q):
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


# The class.


@given(SEEDS)
def test_the_best_law_is_that_of_a_linear_programme(seed):
    shares, rng = random_shares(seed)
    values = rng.normal(size=9)
    rows, masses = shares.top(values)
    law = np.zeros(9)
    law[rows] = masses
    assert within(shares, law)
    assert shares.best(values) == pytest.approx(linear(shares, values), abs=1e-9)
    assert law @ values == pytest.approx(shares.best(values))


@pytest.mark.parametrize("seed", range(6))
def test_the_projection_is_that_of_a_convex_programme(seed):
    shares, rng = random_shares(seed)
    q = rng.dirichlet(np.full(9, 0.7)) + 1e-4
    q /= q.sum()
    p, A = cp.Variable(9), masses_matrix(shares)
    limits = [A @ p >= shares.low, A @ p <= shares.high, cp.sum(p) == 1]
    cp.Problem(cp.Minimize(cp.sum(cp.rel_entr(p, q))), limits).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    np.testing.assert_allclose(shares.project(np.log(q)), p.value, atol=1e-5)


@given(SEEDS, st.sampled_from([1.0, 30.0, 3000.0]))
def test_the_projection_is_within_the_shares_and_nearest(seed, scale):
    shares, rng = random_shares(seed)
    log_q = scale * rng.normal(size=9)
    p = shares.project(log_q + 17.0)
    assert within(shares, p)
    np.testing.assert_allclose(p, shares.project(log_q), rtol=1e-9)
    if scale == 1:
        q = np.exp(log_q) / np.exp(log_q).sum()
        r = shares.project(rng.normal(size=9))
        assert divergence(r, q) >= divergence(r, p) + divergence(p, q) - 1e-12  # Pythagoras
        np.testing.assert_allclose(shares.project(np.log(p)), p, rtol=1e-12)


def test_a_projection_in_closed_form():
    shares = Shares.of({0: (0.2, 1), (2, 3): (0, 0.3)}, 4)
    law = shares.project(np.log([0.1, 0.1, 0.2, 0.6]))
    np.testing.assert_allclose(law, [0.35, 0.35, 0.075, 0.225])
    with np.errstate(divide="ignore"):
        law = shares.project(np.log([0.1, 0.9, 0.0, 0.0]))
    np.testing.assert_allclose(law, [0.2, 0.8, 0, 0])
    law = shares.project(np.array([-4000.0, 0.0, -5000.0, -4999.0]))
    np.testing.assert_allclose(law, [0.2, 0.8, 0, 0], atol=1e-300)


@given(SEEDS)
def test_a_single_proposal_keeps_as_much_as_it_may(seed):
    shares, rng = random_shares(seed)
    values, j = rng.normal(size=9), int(rng.integers(9))
    law = shares.admit(j, values)
    assert within(shares, law)
    most = shares.reachable[shares.group[j]]
    assert most == pytest.approx(linear(shares, np.eye(9)[j]))
    assert law[j] == pytest.approx(most)
    # And what is left is as good as can be.
    preferred = values + 1000 * np.eye(9)[j]
    assert law @ preferred == pytest.approx(linear(shares, preferred), rel=1e-9)


@given(SEEDS)
def test_a_proposed_law_is_projected_and_one_within_the_shares_stays(seed):
    shares, rng = random_shares(seed)
    values, q = rng.normal(size=9), rng.dirichlet(np.full(9, 0.7)) + 1e-6
    q /= q.sum()
    inside = shares.project(np.log(q))
    np.testing.assert_allclose(shares.admit(q, values), inside, rtol=1e-9)
    np.testing.assert_allclose(shares.admit(inside, values), inside, rtol=1e-12)


@given(SEEDS)
def test_a_law_that_leaves_groups_out_is_projected_in_the_limit(seed):
    shares, rng = random_shares(seed)
    values, few = rng.normal(size=9), np.where(rng.random(9) < 0.3, rng.random(9), 0.0)
    few[3] = 0.1
    few /= few.sum()
    law, A = shares.admit(few, values), masses_matrix(shares)
    assert within(shares, law)
    there = A @ few > 0
    masses = A @ law
    for i in np.flatnonzero(there):  # as it was, inside each group
        np.testing.assert_allclose(law[shares.group == i] / masses[i], few[shares.group == i] / (A @ few)[i])  # fmt: skip
    for i in np.flatnonzero(~there):  # or the best action
        best = np.where(shares.group == i, values, -np.inf).argmax()
        assert law[best] == masses[i]
    if shares.high[there].sum() + shares.low[~there].sum() > 1.001:
        near = A @ shares.project(np.log((1 - 1e-12) * few + 1e-12 / 9))
        np.testing.assert_allclose(masses, near, atol=1e-6)
    else:  # the others have what these may not, and the best of them first
        filled = np.where(there, shares.high, 0.0)
        assert masses[there] == pytest.approx(shares.high[there], abs=1e-3)
        assert filled.sum() <= 1.001


@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-250, 1e-100])
def test_a_law_with_next_to_nothing_in_a_group(tiny):
    shares = Shares.of({0: (0.2, 1), (2, 3): (0.1, 0.3)}, 4)
    law = shares.admit(np.array([tiny, 1.0, tiny, tiny]), np.arange(4.0))
    assert within(shares, law)
    assert law[[0, 1]] == pytest.approx([0.2, 0.7])


def test_contains():
    shares = Shares.of({0: (0.2, 1), (2, 3): (0, 0.3)}, 4)
    assert shares.contains(np.array([0.2, 0.5, 0.3, 0.0]))
    assert not shares.contains(np.array([0.19, 0.51, 0.3, 0.0]))
    assert not shares.contains(np.array([0.2, 0.49, 0.3, 0.01]))
    np.testing.assert_allclose(shares.reachable, [1, 0.3, 0.8])


# Where to explore.


def leverages(features, weights):
    return np.einsum("ij,ij->i", features @ np.linalg.inv(features.T @ (weights[:, None] * features)), features)  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_design_within_the_shares(seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(30, 4))
    limits = {tuple(range(12)): (0.0, 0.1), 12: (0.2, 1.0), (13, 14): (0.0, 0.05)}
    shares, free = Shares.of(limits, 30), john_design(features)
    design = shared_design(features, free, shares, improve=True)
    assert within(shares, design.weights)
    assert not shares.contains(free.weights)
    largest = leverages(features, design.weights).max()
    assert design.max_leverage == pytest.approx(largest)
    # The determinant is nearly the largest: no law within the shares has a larger mean leverage.
    assert linear(shares, leverages(features, design.weights)) <= 4 * 1.06
    projected = shared_design(features, free, shares, improve=False)
    assert within(shares, projected.weights)
    assert projected.max_leverage > 1.02 * design.max_leverage


def test_a_design_that_is_within_the_shares_stays():
    features = np.random.default_rng(0).normal(size=(30, 4))
    design = john_design(features)
    assert shared_design(features, design, Shares.of({0: (0, 1)}, 30), improve=True) is design


@pytest.mark.slow
@pytest.mark.parametrize("ridge, horizon", [(0.0, 2000), (0.05, 2000), ("auto", 2000), (0.0, None), ("auto", None)])  # fmt: skip
@pytest.mark.parametrize("design", ["john", "spanner", "uniform"])
def test_exploration_is_within_the_shares(ridge, horizon, design):
    settings = {"horizon": horizon, "loss_range": (0, 1), "ridge": ridge, "design": design}
    learner = kl.BanditExpWeights(POINTS, kl.Gaussian(0.3), shares=LIMITS, **settings)
    engine = learner.engine
    assert within(engine.shares, engine.weights)
    free = kl.BanditExpWeights(POINTS, kl.Gaussian(0.3), **settings).engine
    assert free.shares is None
    if ridge == 0:  # without a penalty leverages are squared norms
        assert engine.problem.leverage == pytest.approx(
            float(np.max(np.sum(engine.features**2, axis=1)))
        )
        assert engine.problem.leverage > free.problem.leverage
        rank = engine.features.shape[1]
        covariance = engine.features.T @ (engine.weights[:, None] * engine.features)
        np.testing.assert_allclose(covariance, np.eye(rank), atol=1e-8)


# Exponential weights.

GAMES = {
    "ridge": {},
    "plain": {"ridge": 0.0},
    "bonus": {"ridge": 0.0, "bonus": True},
    "anytime": {"horizon": None},
    "any": {"loss_class": "any"},
    "sampled": {"covariance": "sampled"},
    "learned": {"loss_range": "learn"},
    "prior": {"prior": np.arange(1, 21) / 210},
}


def make(**settings):
    settings = {"horizon": 1000, "loss_range": (0, 1), "shares": LIMITS, "rng": 0} | settings
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.3), **settings)


def loss(decision):
    return (np.asarray(decision.action)[..., 0] - 0.9) ** 2  # the best is in a group with a limit


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_law_is_within_the_shares(game):
    learner = make(**GAMES[game])
    shares = learner.engine.shares
    for t in range(300):
        assert within(shares, learner.distribution)
        count = 7 if t % 50 == 49 else None
        decision = learner.ask(count)
        assert within(shares, learner.ledger.current.law.p)
        learner.tell(decision, loss(decision))
    assert learner.distribution[10:].sum() > (0.2 if game == "plain" else 0.1)


KINDS = [name for name in GAMES if name not in ("any", "learned", "sampled")]


@pytest.mark.parametrize("game", KINDS)
def test_exploration_is_enough_for_the_design_within_the_shares(game):
    """No estimate moves a log-weight by more than κ, and the bound pays for what is explored."""
    learner = make(**GAMES[game])
    for _ in range(60):
        decision = learner.ask()
        learner.tell(decision, loss(decision))
    engine, exp2 = learner.engine, inside.exp2(learner)
    eta, gamma = exp2.rates_now()
    law = exp2.next_law()
    A = engine.features.T @ (law.p[:, None] * engine.features)
    if engine.columns is not None:
        A += engine.columns @ engine.columns.T
    leverage = np.einsum("ij,ij->i", engine.features @ np.linalg.inv(A), engine.features)
    bonus = 0.0 if law.bonus is None else law.bonus
    assert np.max(eta * (0.5 * leverage + bonus)) <= learner.rates.kappa * (1 + 1e-9)
    promise = learner.guarantee(rounds=1000)
    falls = 2 * math.sqrt(61 / 1000) if game == "anytime" else 1.0  # the mean of γ_t, like 1/√t
    assert promise.terms["exploration"] >= 1000 * gamma * falls * (1 - 1e-2)


def test_with_less_exploration_an_estimate_could_move_a_weight_farther():
    engine = make(ridge=0.0, bonus=False).engine
    eta, gamma, kappa = engine.rates.learning_rate, engine.rates.exploration, engine.rates.kappa
    largest = leverages(engine.features, engine.weights).max()
    assert eta * 0.5 * largest / gamma == pytest.approx(kappa)
    free = make(
        ridge=0.0, bonus=False, shares=None
    ).engine  # which explores for the best of all designs
    eta, gamma, kappa = free.rates.learning_rate, free.rates.exploration, free.rates.kappa
    assert eta * 0.5 * largest / gamma > 1.2 * kappa


def test_negative_control_exploration_alone_does_not_keep_the_shares():
    learner = make(ridge=0.0)
    object.__setattr__(learner.engine, "shares", None)
    shares = Shares.of(learner.settings.shares, 20)
    assert not within(shares, learner.distribution)
    for _ in range(300):
        decision = learner.ask()
        learner.tell(decision, loss(decision))
    assert learner.distribution[10:].sum() > 0.4


@pytest.mark.parametrize("seed", range(5))
def test_the_inequality_of_exponential_weights_holds_for_laws_within_the_shares(seed):
    """Σ (q·x - r·x) ≤ KL(r‖u)/η_n + Σ ψ(κ) η_t q·x² for rates that fall, lazily projected (theory F5.8)."""
    shares, rng = random_shares(seed)
    total, cost, second = np.zeros(9), 0.0, 0.0
    for t in range(1, 400):
        eta = 0.3 / math.sqrt(t)
        q = shares.project(-eta * total)
        x = rng.normal(size=9) * 2 + np.where(q > np.median(q), 1.0, 0.0)  # against what is played
        kappa = max(0.0, -eta * x.min())
        cost += q @ x
        second += psi(kappa) * eta * (q @ x**2)
        total += x
    r_value = -shares.best(-total)
    _, masses = shares.top(-total)
    entropy = float(np.sum(masses[masses > 0] * np.log(9 * masses[masses > 0])))
    assert cost - r_value <= entropy / eta + second
    assert entropy <= math.log(9)
    # Negative control: the best action is not a law within the shares, and is missed by more.
    assert cost - total.min() > cost - r_value


# What is said.

BAD = [
    (0.5, TypeError, r"must be \{row or rows: \(low, high\)\}, got 0.5"),
    ({(): (0, 1)}, ValueError, "got an empty group"),
    ({20: (0, 0.5)}, ValueError, "rows up to 19, got 20"),
    ({-1: (0, 0.5)}, ValueError, "must be at least 0, got -1"),
    ({(0, 1): (0, 0.5), 1: (0, 0.5)}, ValueError, "do not overlap, got 1 twice"),
    ({(2, 2): (0, 0.5)}, ValueError, "do not overlap, got 2 twice"),
    ({"a": (0, 0.5)}, TypeError, "must be an integer, got 'a'"),
    ({True: (0, 0.5)}, TypeError, "must be an integer, got True"),
    ({0.5: (0, 0.5)}, TypeError, "must be an integer, got 0.5"),
    ({0: 0.5}, TypeError, r"pairs \(low, high\), got 0.5"),
    ({0: (0.1, 0.2, 0.3)}, ValueError, r"pairs \(low, high\), got"),
    ({0: (0.3, 0.2)}, ValueError, "0 ≤ low ≤ high ≤ 1, got"),
    ({0: (0.1, 1.2)}, ValueError, "0 ≤ low ≤ high ≤ 1, got"),
    ({0: (math.nan, 1)}, ValueError, "must be finite, got nan"),
    ({0: (0.6, 1), 1: (0.5, 1)}, ValueError, "lower limits of at most 1 in all, got 1.1"),
    ({tuple(range(20)): (0, 0.9)}, ValueError, "upper limits of at least 1 in all, got 0.9"),
    ({0: (0, 0)}, ValueError, r"a share of at least 1e-06, got 0 for \[0\]"),
    ({0: (1, 1)}, ValueError, r"a share of at least 1e-06, got 0 for \[1, 2"),
]


@pytest.mark.parametrize("limits, error, message", BAD)
def test_bad_shares(limits, error, message):
    with pytest.raises(error, match=f"`shares`.*{message}"):
        make(shares=limits)


@pytest.mark.parametrize("actions", [kl.Ball(2), kl.Box([0.5, 0.5], [1.0, 1.0])])
def test_shares_are_of_finitely_many_actions(actions):
    with pytest.raises(ValueError, match="`shares` must be of finitely many actions"):
        kl.BanditExpWeights(actions, kl.Gaussian(0.5), horizon=100, shares={0: (0, 0.5)})


def test_how_shares_are_written():
    learner = make(shares={np.int64(0): (0.2, None), range(3, 5): [None, 0.1]})
    assert learner.settings.shares == {0: (0.2, 1.0), (3, 4): (0.0, 0.1)}
    assert "shares={0: (0.2, 1.0), (3, 4): (0.0, 0.1)}" in repr(learner)
    again = kl.BanditExpWeights.from_state(learner.state())
    assert again.settings.shares == learner.settings.shares
    assert make(shares={}).settings.shares is None
    assert "shares" not in repr(make(shares=None))


def test_the_guarantee_says_what_shares_cost():
    promise, free = make().guarantee(), make(shares=None).guarantee()
    # Nobody of rows 3 and 4 can have more than a tenth.
    assert promise.price == pytest.approx(0.9 * 1000)
    assert (promise.comparator, free.comparator) == ("law", "action")
    assert free.price == 0
    whole = min(sum(promise.terms.values()) + promise.price, 1000)
    assert remarks(promise)["shares"] == {"price": promise.price, "whole": whole, "unit": ""}
    assert promise.proved
    low = make(shares={0: (0.05, 1)}, loss_range=(0, 4)).guarantee()
    assert low.price == pytest.approx(0.05 * 1000 * 4)


def test_with_a_delay_the_bound_is_not_proved():
    assert make(delay=3, shares=None).guarantee().proved
    promise = make(delay=3).guarantee()
    assert not promise.proved
    assert "shares late" in remarks(promise)


@pytest.mark.parametrize("kind", [kl.BanditExpWeights, kl.InsuredBandit])
@pytest.mark.parametrize("goal", ["minimize", "maximize"])
def test_random_play_is_compared_with_the_best_law_within_the_shares(kind, goal):
    said = {"horizon": 1000, "loss_range": (0, 1), "goal": goal, "rng": 0}
    learner = kind(POINTS, kl.Gaussian(0.3), shares={tuple(range(10)): (0.4, 1.0)}, **said)
    for _ in range(200):
        decision = learner.ask()
        value = 0.9 if decision.index < 10 else 0.1
        learner.tell(decision, value if goal == "minimize" else 1 - value)
    losses = learner.diagnostics.estimated_losses * (1 if goal == "minimize" else -1)
    halves = [losses[:10].min(), losses[10:].min()]
    best = 0.4 * halves[0] + 0.6 * halves[1] if halves[0] > halves[1] else halves[0]
    assert learner.guarantee().random == pytest.approx(1000 * (losses.mean() - best))
