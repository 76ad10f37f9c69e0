"""Bounds with contexts: each by a second derivation, one context against none, and games against a learner written here."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from koloss.guarantees import bandit, contexts, insured_contexts, periods, promises
from koloss.guarantees.bandit import BanditProblem, Ridge, psi

GAME = BanditProblem(6000, 24, 24.02, 0.5, 0.0, math.log(25))
NEAR = replace(GAME, epsilon=0.004, bonus=True)  # the error of the features is paid for
RIDGE = replace(NEAR, constant=True, ridge=Ridge(1e-3, 1, 15.0, 4.0, 0.02, 0.1))
PLAYED = promises.Game(-0.5, 0.5, "")


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
    assert periods.in_turn(promise, 1, 7, 0.0, 1.0) is promise


def test_one_context_has_the_numbers_of_none_elsewhere():
    # One learner per context.
    for problem in (GAME, NEAR, replace(NEAR, constant=True), replace(GAME, epsilon=0.01)):
        alone = contexts.separate([problem], [1.9], 3000, 3000.0)
        assert dict(alone.terms) == pytest.approx(
            {k: v for k, v in bandit.anytime_terms([(1, problem)], 1.9, 3000).items() if k != "range"}
        )  # fmt: skip
    # Counted shares.
    eta, kappa = 0.006, 1.7
    one = contexts.unknown_law(NEAR, eta, kappa, 6000, contexts=1, width=1.0)
    R = kappa / (eta * (0.5 + 0.004))
    rough = replace(NEAR, leverage=24.02)
    terms = rough.terms(eta, kappa, gamma=24.02 / R)
    assert sum(one.terms.values()) == pytest.approx(sum(terms.values()))


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
    texts = [assumption.text for assumption in promise.assumptions]
    assert contexts.DRAWN in texts
    assert contexts.BEFORE in texts
    assert promise.valid
    assert contexts.MAPPING in promise.notes
    whole = contexts.independent(promised(GAME, rates, 6000, 8, whole=8), 8)
    assert contexts.WHOLE_EPOCHS in [assumption.text for assumption in whole.assumptions]
    assert whole.statement == "Theorem F6 over Theorem B3w (whole epochs)"
    late = promised(replace(GAME, delay=1), replace(rates, kappa=0.5), 6000)
    assert contexts.LATE in [one.text for one in contexts.independent(late, 8).assumptions]


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


# Without a horizon.


def test_designs_kept_for_blocks_cost_a_fifth_more_exploration():
    """Sums over rounds, one by one, are below the terms with the enlarged constant, which rates are for."""
    L, m, log_K, kappa = 0.5, 24, math.log(25), 1.9
    wide = replace(GAME, leverage=contexts.BLOCKS * GAME.leverage)
    for n in (1, 100, 1023, 1024, 5000):
        exploring, variance = 0.0, 0.0
        for t in range(1, n + 1):
            eta = bandit.anytime_rate(wide, kappa, t)
            first = 2 ** (t.bit_length() - 1)
            R = kappa / (bandit.anytime_rate(wide, kappa, first) * L)
            gamma = min(1.0, GAME.leverage / R)
            exploring += 2 * L * gamma
            variance += psi(kappa) * eta * L**2 * m * (gamma < 1)
        terms = bandit.anytime_terms([(1, wide)], kappa, n)
        assert exploring <= terms["exploration"] * (1 + 1e-12)
        assert variance <= terms["variance"]
        assert terms["prior"] == pytest.approx(log_K / bandit.anytime_rate(wide, kappa, n))
        c = 2 * 1.2072 * GAME.leverage / m / kappa + psi(kappa)
        assert sum(terms.values()) <= 2 * math.sqrt(2) * L * math.sqrt(c * m * n * log_K) * 1.0001
    assert exploring > 0.95 * terms["exploration"]  # at 5,000 rounds the constant is needed


# Shares that are counted.


def test_theorem_f65_round_by_round():
    n, horizon, count, L, eps, m, eta, kappa = 3000, 4000, 3, 0.5, 0.001, 2, 0.004, 1.8
    problem = replace(NEAR, rounds=horizon, rank=m, leverage=2.002, epsilon=eps)
    iota, total = math.log(2 * count * horizon**2), math.log(25) / eta + 2 * L
    for t in range(1, n + 1):
        N, cost = t - 1, 2 * L
        if N > 0:
            chi = 4.11 * math.sqrt(count * iota / N) + 5.3 * count * iota / N
            zeta, b = 1.12 * (1 + 5 * count * iota / N), eps + L * chi
            R = kappa / (eta * (L + b))
            gamma = 2.002 / R
            own = 2 * L * (gamma + chi * math.sqrt(gamma))
            own += psi(kappa) * eta * zeta**2 * (L + b) ** 2 * m
            own += 2 * eps + b * math.sqrt(zeta) * (1 + math.sqrt(m))
            if R >= 1 and gamma <= 1:
                cost = min(cost, own)
        total += cost
    promise = contexts.unknown_law(problem, eta, kappa, n, contexts=count, width=1.0)
    assert sum(promise.terms.values()) == pytest.approx(total)
    assert not promise.informative  # the constants are large
    beyond = contexts.unknown_law(problem, eta, kappa, 2 * horizon, contexts=count, width=1.0)
    learned = contexts.Counting(problem, eta, kappa, count, 1.0).learns(np.arange(2 * horizon))
    assert beyond.terms["not learned"] == 2 * L * (np.sum(~learned) + 4)
    assert contexts.UNKNOWN in [one.text for one in promise.assumptions]
    with pytest.raises(ValueError, match="must have bonuses"):
        contexts.unknown_law(GAME, eta, kappa, n, contexts=2, width=1.0)


def test_the_rate_for_counted_shares_is_the_best():
    problem = BanditProblem(30_000, 2, 2.0, 0.5, 0.0, math.log(100), bonus=True)
    rates = contexts.tune_unknown_law(problem, 2)

    def total(eta):
        promise = contexts.unknown_law(problem, eta, 2.0, 30_000, contexts=2, width=1.0)
        return sum(promise.terms.values())

    best = total(rates.learning_rate)
    assert all(best <= total(rates.learning_rate * f) for f in (0.5, 0.9, 1.1, 2.0))


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
        total = sum(sum(bandit.anytime_terms([(1, g)], k, int(c)).values()) for g, k, c in each)
        largest = max(largest, total)
    assert 0.95 * bound < largest <= bound
    same = [replace(GAME, leverage=24.0)] * 5
    total = sum(contexts.separate(same, [2.0] * 5, n, float(n)).terms.values())
    assert total == pytest.approx(4.0965 * 0.5 * math.sqrt(n * math.log(25) * 5 * 24), rel=1e-4)
    nothing = replace(GAME, log_prior=0.0)
    assert sum(contexts.separate([nothing] * 2, [1.0] * 2, n, 1.0).terms.values()) == 0


# Periods.


def test_whole_periods_are_their_box():
    """F6.7 (2) from its own formula, with bonuses and a variation of losses within the period."""
    n, e, L, eps, m, eta, R = 4200, 7, 0.5, 0.003 + 0.01, 4, 0.02, 90.0
    problem = BanditProblem(n, m, 4.0, L, 0.003, math.log(4), bonus=True)
    moving = replace(problem, epsilon=problem.epsilon + 0.01)
    gamma = 4.0 / R
    game, rates = contexts.with_design(moving, eta, gamma, R)
    kappa = eta * (L * R + eps * math.sqrt(R))
    M = eta * e * (L + eps + 2 * eps * math.sqrt(R) + psi(kappa) * eta * (L + eps) ** 2 * R)
    Y = L + eps * math.sqrt(m) + psi(kappa) * eta * (L + eps) ** 2 * math.sqrt(R * m)
    box = gamma * n + psi(kappa) * eta * (L + eps) ** 2 * m * n + psi(M) * eta * e * Y**2 * n
    box += math.log(4) / eta + n * (2 * eps + eps * (1 + math.sqrt(m)))
    promise = periods.in_turn(promised(game, rates, n, e, whole=e), 7, e, 0.01, 1.0)
    assert sum(promise.terms.values()) == pytest.approx(box)
    texts = [one.text for one in promise.assumptions]
    assert periods.PERIODS.format(7) in texts
    assert periods.STEADY.format(0.01) in texts
    assert not any("epoch" in text for text in texts)
    odd = periods.in_turn(promised(game, rates, n - 3, e, whole=e), 7, e, 0.01, 1.0)
    assert odd.terms["last period"] == 4


def test_rates_of_periods_are_the_best():
    problem = BanditProblem(4200, 4, 4.0, 0.5, 0.001, math.log(4), bonus=True)
    rates = periods.tune_whole(problem, 7)

    def total(x):
        return sum(problem.terms(*np.exp(x), b=7, whole=True).values())

    own = total(np.log([rates.learning_rate, rates.kappa]))
    found = minimize(total, np.log([0.02, 1.0]), method="Nelder-Mead", options={"xatol": 1e-9})
    assert own == pytest.approx(found.fun, rel=1e-6)


# Policies under watch.


def test_insured_bounds_are_their_boxes():
    rho, n, m, log_K, eps = 1.0, 6000, 24, math.log(25), 0.004
    B = (rho + 2 * eps) * math.sqrt((24.02 + psi(2.0) * m) * n * log_K)
    rates = bandit.tune(NEAR)
    last = contexts.independent(promised(NEAR, rates, n), 8)
    robust = sum(last.terms.values())
    promise = insured_contexts.together(
        NEAR, last, trigger=0.5, premium=0.75, jump=28.0, spread=5.9
    )
    assert sum(promise.terms.values()) == pytest.approx(1.25 * B + eps * n * (1 + 5.9) + robust)
    gamma = insured_contexts.exploration(28.0, 0.75 * insured_contexts.scale(NEAR, n))
    assert rho * (1 + 28.0 / gamma) == pytest.approx(0.75 * B)
    numbers = {"exploiting": 6, "largest": 310.0, "largest_exploiting": 290.0, "explored": 0.07}
    promise = insured_contexts.one_by_one(NEAR, last, budget=0.5, **numbers)
    box = 0.5 * B + rho * 310 + rho / 2 * 7 + eps * n * (1 + math.sqrt(0.07 * 290)) + robust
    assert sum(promise.terms.values()) == pytest.approx(box)
    again = insured_contexts.one_by_one(NEAR, last, budget=0.5, chances=[(0.2, 0.1)], **numbers)
    more = 0.1 * B + rho / 2 * 1.2 + rho * 0.2 * 310
    assert sum(again.terms.values()) == pytest.approx(box + more)
    assert contexts.DRAWN in [one.text for one in promise.assumptions]


def test_insured_bounds_are_multiples_of_the_robust_one():
    """Without error of the features, at the rates of the theorems: (1 + β + δ)B, and (1 + β + 2/log K)B + ρ(|S| + 1)/2."""
    n, log_K, beta, delta = 6000, math.log(25), 0.5, 0.75
    B = math.sqrt((24.02 + psi(2.0) * 24) * n * log_K)
    eta = 2 * log_K / B
    R = 4 / eta
    game, rates = contexts.with_design(GAME, eta, 24.02 / R, R)
    last = contexts.independent(promised(game, rates, n), 8)
    assert sum(last.terms.values()) == pytest.approx(B)
    jump = {"jump": 28.0, "spread": 5.9}
    one = insured_contexts.together(GAME, last, trigger=beta, premium=delta, **jump)
    assert sum(one.terms.values()) == pytest.approx((1 + beta + delta) * B)
    numbers = {"largest": R, "largest_exploiting": R, "explored": 0.05}
    each = insured_contexts.one_by_one(GAME, last, budget=beta, exploiting=6, **numbers)
    assert sum(each.terms.values()) == pytest.approx((1 + beta + 2 / log_K) * B + 3.5)


def test_insured_in_any_order_is_its_box():
    n, eps = 6000, 0.004
    games = [replace(NEAR, rank=m, leverage=1.001 * m) for m in (3, 5)]
    last = contexts.separate(games, [2.0, 2.0], n, float(n))
    promise = insured_contexts.in_any_order(games, last, trigger=0.5, premium=0.75)
    features = 8 * (1.001 + psi(2.0))
    B = math.sqrt(2) * (1 + 2 * eps) * math.sqrt(features * n * math.log(25))
    box = 1.25 * B + n * eps * (1 + math.sqrt(1.001 * 5)) + sum(last.terms.values())
    assert sum(promise.terms.values()) == pytest.approx(box)
    short = insured_contexts.in_any_order(games, replace(last, rounds=2), trigger=0.5, premium=0.1)
    assert not short.informative
    assert insured_contexts.exploration(24.0, 1.0) == math.inf


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
    # The statement for periods covers these losses only with a variation that makes it trivial.
    problem = BanditProblem(1000, 2, 2.0, 0.5, 0.0, math.log(2), bonus=True)
    moving = replace(problem, epsilon=0.5)
    rates = bandit.tune(moving)
    promise = periods.in_turn(promised(moving, rates, 1000, 2, whole=2), 2, 2, 0.5, 1.0)
    assert promise.total >= 1000 / 2
    # And the bound for drawn contexts would be broken by it.
    drawn = contexts.independent(promised(problem, bandit.tune(problem), 1000), 2)
    assert drawn.total < 1000 / 2
    assert next(one for one in drawn.assumptions if one.text == contexts.DRAWN).holds is None
