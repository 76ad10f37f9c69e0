"""Bounds with contexts: each by a second derivation, one context against none, and games against a learner written here."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from koloss.guarantees import bandit, contexts, insured, promises
from koloss.guarantees.anytime import anytime_terms
from koloss.guarantees.bandit import BanditProblem, Ridge, psi
from tests.support.clauses import marks

GAME = BanditProblem(6000, 24, 24.02, 0.5, 0.0, math.log(25))
NEAR = replace(GAME, epsilon=0.004, bonus=True)  # the error of the features is paid for
RIDGE = replace(NEAR, constant=True, ridge=Ridge(1e-3, 1, 15.0, 4.0, 0.02, 0.1))
PLAYED = promises.Game(-0.5, 0.5)


def promised(problem, rates, n, batch=1, whole=0):
    at_once = {"made": whole, "at_once": whole, "longest_at_once": whole}
    comparator = problem.log_prior, {}
    return promises.fixed(problem, rates, n, n, batch, comparator, PLAYED, promises.Played(**at_once))  # fmt: skip


# Theorem F6.


@pytest.mark.parametrize("epsilon", [0.0, 0.004])
def test_theorem_f6_is_its_box(epsilon):
    """The formula of the theorem, from the numbers of a design, without a `BanditProblem`."""
    problem = replace(GAME, epsilon=epsilon, bonus=epsilon > 0)
    n, L, m, log_K = 6000, 0.5, 24, math.log(25)
    eta, gamma, R = 0.008, 0.05, 310.0
    game, rates = contexts.with_design(problem, eta, gamma, R)
    kappa = eta * (L * R + epsilon * math.sqrt(R))
    assert rates.kappa == pytest.approx(kappa)
    box = 2 * L * gamma * n + psi(kappa) * eta * (L + epsilon) ** 2 * m * n + log_K / eta
    box += n * (2 * epsilon + epsilon * (1 + math.sqrt(m)))
    promise = contexts.independent(promised(game, rates, n), 8)
    assert sum(promise.terms.values()) == pytest.approx(box)
    assert promise.statement == "Theorem F6" + (" with bonuses (B2)" if epsilon else "")


def test_theorem_f6_with_a_ridge_is_its_box():
    problem = replace(RIDGE, constant=False)
    eta, gamma, R, L, eps = 0.008, 0.05, 280.0, 0.5, 0.004
    ridge = problem.ridge
    game, rates = contexts.with_design(problem, eta, gamma, R)
    g, b, e, d = math.sqrt(R), ridge.bias, ridge.spread, ridge.dimension
    largest = min(math.hypot(b, eps) * g, ridge.head_error * (1 + g) + eps * g)
    kappa = eta * (L * R + largest)
    S2 = ((L + eps) ** 2 + b**2) * d
    if e <= b**2 * d / ((L + eps) ** 2 + b**2):
        S2 = ((L + eps) * math.sqrt(d - e) + b * math.sqrt(e)) ** 2
    box = gamma * 6000 + psi(kappa) * eta * S2 * 6000 + math.log(25) / eta
    box += 6000 * (b * (math.sqrt(e) + min(0.5, math.sqrt(e))) + eps * (3 + math.sqrt(d)))
    assert sum(promised(game, rates, 6000).terms.values()) == pytest.approx(box)


def test_the_bound_is_two_point_nine_times_the_root():
    """Corollary of F6 at κ = 2; and rates found by another optimiser are no better."""
    problem = replace(GAME, leverage=24.0)
    rates = bandit.tune(problem)
    best = sum(problem.terms(rates.learning_rate, rates.kappa).values())
    root = 0.5 * math.sqrt(24 * 6000 * math.log(25))
    assert best == pytest.approx(2 * math.sqrt((math.e**2 + 1) / 4) * root, rel=1e-6)

    def total(x):
        return sum(NEAR.terms(*np.exp(x)).values())

    rates = bandit.tune(NEAR)
    found = minimize(total, np.log([0.01, 1.0]), method="Nelder-Mead", options={"xatol": 1e-9})
    own = sum(NEAR.terms(rates.learning_rate, rates.kappa).values())
    assert own == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("problem", [GAME, NEAR, RIDGE], ids=["plain", "bonus", "ridge"])
def test_one_context_has_the_numbers_of_none(problem):
    rates = bandit.tune(problem)
    R = contexts.reach(problem, rates)
    game, own = contexts.with_design(problem, rates.learning_rate, problem.leverage / R, R)
    assert own.kappa == pytest.approx(rates.kappa, rel=1e-12)
    plain = problem.terms(rates.learning_rate, rates.kappa)
    for name, value in game.terms(own.learning_rate, own.kappa).items():
        assert value == pytest.approx(plain[name], rel=1e-12)
    promise = promised(problem, rates, 6000)
    assert contexts.independent(promise, 1) is promise


def test_one_learner_for_one_context_has_the_numbers_of_none():
    for problem in (GAME, NEAR, replace(NEAR, constant=True), replace(GAME, epsilon=0.01)):
        alone = contexts.separate([problem], [1.9], 3000, 3000.0)
        assert dict(alone.terms) == pytest.approx(
            {k: v for k, v in anytime_terms([(1, problem)], 1.9, 3000).items() if k != "range"}
        )  # fmt: skip


def test_where_all_explore_the_bound_is_trivial():
    game, rates = contexts.with_design(NEAR, 0.01, 1.0, 1e9)
    promise = promised(game, rates, 6000)
    assert rates.exploration == 1
    assert promise.terms["exploration"] == pytest.approx(6000)
    assert promise.total == 6000
    assert math.isfinite(sum(promise.terms.values()))


def test_what_theorem_f6_says_it_assumes():
    rates = bandit.tune(GAME)
    promise = contexts.independent(promised(GAME, rates, 6000), 8)
    assert marks(promise)["drawn"] is marks(promise)["before"] is None
    assert promise.valid
    assert promise.comparator == "mapping"
    whole = contexts.independent(promised(GAME, rates, 6000, 8, whole=8), 8)
    assert "whole contexts" in marks(whole)
    assert whole.theorems == ("F6", "B3w")
    assert whole.statement == "Theorem F6 over Theorem B3w (whole epochs)"
    late = promised(replace(GAME, delay=1), replace(rates, kappa=0.5), 6000)
    assert "late contexts" in marks(contexts.independent(late, 8))


def test_what_is_not_proved_is_not_printed_as_proved():
    rates = bandit.tune(GAME)
    promise = promised(GAME, rates, 6000)
    for other in (
        replace(promise, regret="hindsight"),
        replace(promise, unit="ρ"),
        replace(promise, terms={**promise.terms, "sampling": 1.0}),
    ):
        assert other.proved
        assert not contexts.independent(other, 2).proved


# One learner per context.


def test_one_learner_per_context_in_the_worst_order(rng):
    """No split of the rounds has a larger sum of the learners' own bounds; equal games have the closed form."""
    games = [replace(NEAR, rank=m, leverage=1.001 * m, constant=m > 3) for m in (2, 4, 7)]
    n, kappas = 2000, [2.0, 1.8, 1.7]
    bound = sum(contexts.separate(games, kappas, n, float(n)).terms.values())
    largest = 0.0
    for share in rng.dirichlet(np.ones(3), size=300):
        counts = np.maximum(np.round(share * n), 1)
        counts[0] += n - counts.sum()
        if counts[0] < 1:
            continue
        each = zip(games, kappas, counts, strict=True)
        total = sum(sum(anytime_terms([(1, g)], k, int(c)).values()) for g, k, c in each)
        largest = max(largest, total)
    assert 0.95 * bound < largest <= bound
    same = [replace(GAME, leverage=24.0)] * 5
    total = sum(contexts.separate(same, [2.0] * 5, n, float(n)).terms.values())
    assert total == pytest.approx(4.0965 * 0.5 * math.sqrt(n * math.log(25) * 5 * 24), rel=1e-4)
    nothing = replace(GAME, log_prior=0.0)
    assert sum(contexts.separate([nothing] * 2, [1.0] * 2, n, 1.0).terms.values()) == 0


def test_fixed_rates_of_the_horizon_in_the_worst_order(rng):
    """Every split of the rounds costs at most the bound, which is that of one game with the features of all contexts."""
    games = [replace(NEAR, rank=m, leverage=1.001 * m, constant=m > 3) for m in (2, 4, 7)]
    n, kappas = 2000, [2.0, 1.8, 1.7]
    rounds = contexts.horizons(games, kappas, n)
    assert abs(sum(rounds) - n) <= 2
    etas = [
        bandit.fixed_rate(game, kappa, own)
        for game, kappa, own in zip(games, kappas, rounds, strict=True)
    ]
    bound = sum(contexts.separate(games, kappas, n, float(n), etas).terms.values())
    each = list(zip(games, etas, kappas, strict=True))

    def total(counts):
        own = zip(each, counts, strict=True)
        return sum(sum(g.terms(e, k, rounds=int(c)).values()) for (g, e, k), c in own)

    splits = rng.multinomial(n, rng.dirichlet(np.ones(3), size=300))
    totals = [total(counts) for counts in [*splits, *(n * np.eye(3))]]
    assert 0.999 * bound < max(totals) <= bound * (1 + 1e-12)
    # Without errors and for like designs a round costs as much in each context, so that every split does.
    games = [replace(GAME, rank=m, leverage=1.001 * m) for m in (2, 4, 7)]
    rounds = contexts.horizons(games, [2.0] * 3, 13 * 100)
    assert rounds == [200, 400, 700]
    etas = [bandit.fixed_rate(g, 2.0, own) for g, own in zip(games, rounds, strict=True)]
    bound = sum(contexts.separate(games, [2.0] * 3, 1300, 1300.0, etas).terms.values())
    closed = 2 * 0.5 * math.sqrt((1.001 + psi(2.0)) * 13 * 1300 * math.log(25))
    assert bound == pytest.approx(closed)
    each = list(zip(games, etas, [2.0] * 3, strict=True))
    for counts in ([1300, 0, 0], [0, 0, 1300], [433, 433, 434]):
        assert total(counts) == pytest.approx(closed)
    # Negative control: with the rates of an equal share some split costs more.
    even = [bandit.fixed_rate(g, 2.0, 433) for g in games]
    each = list(zip(games, even, [2.0] * 3, strict=True))
    assert total([0, 0, 1300]) > 1.05 * closed
    nothing = replace(GAME, log_prior=0.0)
    assert contexts.separate([nothing] * 2, [1.0] * 2, n, 1.0, [1.0] * 2).total == 0


# Policies under watch.


@pytest.mark.parametrize("anytime", [False, True])
def test_insured_contexts_are_their_box(anytime):
    """Theorem F6.11: budgets of the shares of the horizon add up to (β + δ)B; without a horizon Cauchy and Schwarz leave the same."""
    n, C = 6000, 3
    games = [replace(NEAR, rank=m, leverage=1.001 * m) for m in (3, 5, 8)]
    own = contexts.horizons(games, [2.0] * C, n)
    rates = [bandit.fixed_rate(g, 2.0, one) for g, one in zip(games, own, strict=True)]
    last = contexts.separate(games, [2.0] * C, n, float(n), None if anytime else rates)
    parts = [insured.Part(g, None if anytime else h, 7) for g, h in zip(games, own, strict=True)]
    late = insured.Lateness(crowd=4, overdraft=100.0, heard=1)
    settings = {"width": 1.0, "share": 1.25, "made": 9, "own": False, "alarms": []}
    promise = insured.guarantee(parts, last, lateness=late, **settings)
    B = math.sqrt((1.001 + psi(2.0)) * 16 * n * math.log(25))
    assert promise.terms["budget"] == pytest.approx(1.25 * B, rel=1e-3)
    assert promise.terms["unheard"] == C * 4
    assert promise.terms["warm-up"] == C * 7
    units = [part.scale(n) for part in parts]
    each = [insured.bias(g, 1.25 * u, p.horizon, n) for g, u, p in zip(games, units, parts, strict=True)]  # fmt: skip
    assert promise.terms["bias"] == pytest.approx(max(each) + last.terms["bias"])
    assert promise.theorems[0] == "F6.11 insured"
    assert promise.comparator == "mapping"
    splits = np.random.default_rng(3).multinomial(n, np.full(C, 1 / C), size=50)
    splits = [[n, 0, 0], [0, 0, n], *splits.tolist()]
    if anytime:  # no split has larger budgets
        spent = [
            sum(1.25 * insured.scale(g, k) for g, k in zip(games, s, strict=True)) for s in splits
        ]
        assert max(spent) <= promise.terms["budget"]


def test_bounds_of_learners_apart_add_up_as_they_may():
    """What a round costs counts at its dearest, what is due once in a context is a sum, and one learned range is due once."""

    def one(scale, theorem="A3"):
        terms = {
            "exploration": 4 * scale,
            "prior": scale,
            "unheard": 2.0,
            "delay": scale,
            "range": scale,
        }
        return promises.Guarantee((theorem,), 50, terms, 50.0)

    for theorem, delay in (("A3", 3.0), ("B3-delay", 2.0)):
        promise = contexts.added([one(1.0, theorem), one(2.0, theorem)], None, late=False)
        wanted = {"exploration": 8.0, "prior": 3.0, "unheard": 4.0, "delay": delay, "range": 2.0}
        assert promise.terms == wanted
        assert promise.theorems == (("F6.11",) if theorem == "A3" else ("F6.11", "B3-delay"))
    assert set(marks(promise)) == {"any order"}
    assert set(marks(contexts.added([one(1.0)], None, late=True))) == {"late order"}
    nothing = promises.one_action(50)
    assert contexts.added([nothing, nothing], None, late=False) is nothing


# The shared learner in turn: linear regret (F6.7).


def expected_loss_in_turn(n, eta=0.4, gamma=0.1):
    """Expected loss of the shared learner, C = K = 2, φ(c, a) = e_a, contexts in turn, ℓ(a) = 1{a ≠ c}: all paths."""
    total, paths = 0.0, {(0.0, 0.0): 1.0}
    for t in range(n):
        c, following = t % 2, {}
        for S, weight in paths.items():
            q = np.exp(-eta * (np.array(S) - min(S)))
            p = (1 - gamma) * q / q.sum() + gamma / 2  # in both contexts alike
            for a in range(2):
                loss, after = float(a != c), list(S)
                after[a] += loss / p[a]  # A = diag(p)
                total += weight * p[a] * loss
                key = tuple(after)
                following[key] = following.get(key, 0.0) + weight * p[a]
        paths = following
    return total


@pytest.mark.parametrize("n", [2, 4, 8])
def test_in_turn_the_shared_learner_loses_half_of_all_rounds(n):
    """The best mapping loses nothing. So Theorem F6 is false there, and what it assumes is named."""
    regret = expected_loss_in_turn(n)
    assert n / 2 <= regret <= 0.6 * n
    # The bound for drawn contexts would be broken by it.
    problem = BanditProblem(1000, 2, 2.0, 0.5, 0.0, math.log(2), bonus=True)
    drawn = contexts.independent(promised(problem, bandit.tune(problem), 1000), 2)
    assert drawn.total < 1000 / 2
    assert marks(drawn)["drawn"] is None
