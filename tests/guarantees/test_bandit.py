"""The bound of the bandit learner as a pure function, against theory.md's constants and a fine search."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from koloss.guarantees import bandit
from koloss.guarantees.anytime import anytime_terms
from koloss.guarantees.bandit import (
    BanditProblem,
    Ridge,
    anytime_kappa,
    anytime_rate,
    late_cost,
    psi,
    sample_count,
    tune,
)

GAME = BanditProblem(
    100_000, rank=20, leverage=20.0, loss_bound=1.0, epsilon=0.0, log_prior=math.log(500)
)


def bound(problem, eta, kappa, **kind):
    return sum(problem.terms(eta, kappa, **kind).values())


@pytest.mark.parametrize("M", [1e-8, 1e-4, 1e-3, 0.5, 1.0, 2.0, 5.0])
def test_psi_bounds_the_exponential(M):
    x = np.linspace(-M, 5, 10_001)
    assert np.all(np.exp(-x) <= 1 - x + psi(M) * x**2 + 1e-15)
    tight = (math.exp(M) - 1 - M) / M**2 if M > 1e-2 else 0.5 + M / 6
    assert psi(M) == pytest.approx(tight, rel=1e-6)


def test_sharp_constants_of_theorem_a3():
    rates = tune(GAME)
    assert rates.kappa == pytest.approx(2.0, abs=1e-3)
    eta, c = rates.learning_rate, (math.e**2 + 1) / 4
    assert eta == pytest.approx(math.sqrt(GAME.log_prior / (c * 20 * 1e5)), rel=1e-4)
    best = 2 * math.sqrt(c * 20 * 1e5 * GAME.log_prior)
    assert bound(GAME, eta, rates.kappa) == pytest.approx(best, rel=1e-6)
    assert rates.exploration == pytest.approx(rates.learning_rate * 20 / rates.kappa)


def test_closed_form_of_theory_b2_is_not_better():
    problem = replace(GAME, epsilon=2e-3)
    c, kappa, m, n, eps = (math.e**2 + 1) / 4, 2.0, 20, 100_000, 2e-3
    closed = 2 * math.sqrt(c * m * n * problem.log_prior) + 3 * eps * n
    closed += 1.89 * n * (c * kappa * m * eps**2) ** (1 / 3)
    rates = tune(problem)
    assert bound(problem, rates.learning_rate, rates.kappa) <= closed * (1 + 1e-3)


def test_bonus_helps_where_the_error_is_large():
    problem = replace(GAME, epsilon=0.05)
    plain, bonus = tune(problem), tune(replace(problem, bonus=True))
    with_bonus = bound(replace(problem, bonus=True), bonus.learning_rate, bonus.kappa)
    assert with_bonus < 0.8 * bound(problem, plain.learning_rate, plain.kappa)
    expected = 2 * 1.05 * math.sqrt((math.e**2 + 1) / 4 * 20 * 1e5 * GAME.log_prior)
    expected += (3 + math.sqrt(20)) * 5000
    # theory B2 charges L + ε for exploration too, where L is enough
    assert 0.99 * expected <= with_bonus <= expected


def test_variance_of_epochs():
    eta, kappa = 0.001, 1.5
    assert GAME.variance(eta, kappa, 1, whole=False) == pytest.approx(psi(1.5) * 20)
    drift = GAME.variance(eta, kappa, 5, whole=False)
    grow, phi = math.exp(0.2) - (math.exp(0.2) - 1) / 5, (math.exp(0.2) - 1) / 0.2
    assert drift == pytest.approx(psi(1.5) * 20 * grow + phi * (math.sqrt(20 * 2) + 2))
    arms = replace(GAME, arms=True).variance(eta, kappa, 5, whole=False)
    assert arms == pytest.approx(psi(1.5) * 20 * grow + phi * 4)
    short, h = GAME.variance(eta, kappa, 4, whole=False), 0.1
    grow, phi = math.exp(h) - (math.exp(h) - 1) / 4, (math.exp(h) - 1) / h
    assert short == pytest.approx(psi(1.5) * 20 * grow + phi * (math.sqrt(20 * 1.5) + 1.5))
    whole = GAME.variance(eta, kappa, 5, whole=True)
    M = 5 * (eta + psi(1.5) * 1.5 * eta)
    side = 1 + psi(1.5) * math.sqrt(eta * 1.5 * 20)
    assert whole == pytest.approx(psi(1.5) * 20 + psi(M) * 5 * side**2)
    assert whole < drift
    # Whole epochs of one round cost no more than Theorem A3.
    assert GAME.variance(0.01, 2.0, 1, whole=True) == GAME.variance(0.01, 2.0, 1, whole=False)


def test_lemma_of_whole_epochs_by_enumeration(rng):
    # E log q·e^(-ηX) ≤ -ηq·Σmean + η²(ψ(κ)Σ q·v + ψ(M) q·Y²/η²), all b-tuples of actions enumerated.
    N, m, b, L, eta, kappa = 4, 2, 3, 1.0, 0.08, 1.2
    Phi = rng.normal(size=(N, m))
    Phi /= np.sqrt(np.max(np.sum(Phi**2, axis=1)))
    losses = rng.uniform(-L, L, size=(b, N))
    q = rng.dirichlet(np.ones(N))
    gamma = 0.3
    p = (1 - gamma) * q + gamma / N
    inverse = np.linalg.inv(Phi.T @ (p[:, None] * Phi))
    k = Phi @ inverse @ Phi.T
    assert eta * L * np.abs(k).max() <= kappa
    means = np.stack([(p * losses[s]) @ k for s in range(b)])
    v = np.stack([(p * losses[s] ** 2) @ k**2 for s in range(b)])
    left = 0.0
    for actions in np.ndindex(*(N,) * b):
        X = sum(k[:, a] * losses[s, a] for s, a in enumerate(actions))
        left += math.prod(p[a] for a in actions) * math.log(q @ np.exp(-eta * X))
    Y = -eta * means.sum(axis=0) + psi(kappa) * eta**2 * v.sum(axis=0)
    right = q @ Y + psi(float(Y.max())) * (q @ Y**2)
    assert left <= right
    # and the closed form of the last term
    root = 1 + psi(kappa) * eta * L * math.sqrt(float(np.max(np.diag(k))) * m)
    assert q @ Y**2 <= eta**2 * b**2 * L**2 * root**2 / (1 - gamma)


def test_anytime_constants():
    kappa = anytime_kappa(GAME)
    assert kappa == pytest.approx(2.0, abs=1e-3)
    total = sum(anytime_terms([(1, GAME)], kappa, 10_000).values())
    closed = 2 * math.sqrt(2 * (math.e**2 + 1) / 4 * 20 * 10_000 * GAME.log_prior)
    assert total == pytest.approx(closed, rel=1e-6)
    # its terms are what the rates give when summed
    rates = [anytime_rate(GAME, kappa, t) for t in range(1, 10_001)]
    summed = (2 * 20 / kappa + psi(kappa) * 20) * sum(rates) + GAME.log_prior / rates[-1]
    assert 0.98 * total <= summed <= total * (1 + 1e-9)


@pytest.mark.parametrize("n", [3, 50, 3000])
def test_epochs_without_a_horizon_against_sums_over_rounds(n):
    """In round t the rates of round max(1, t - T + 1), at a level of the penalty that may have begun up to T - 1 rounds before."""
    T, kappa, problem = 5, 1.7, replace(GAME, epsilon=1e-3, constant=True)
    later = replace(problem, rank=22, leverage=22.0, epsilon=5e-4)
    later = replace(later, floor=bandit.anytime_constant(problem, kappa))
    for levels in ([(1, problem)], [(1, problem), (33, later)]):
        worst = 0.0
        for t in range(1, n + 1):
            own = []
            for start, game in levels:
                end = next((s - 1 for s, _ in levels if s > start), n)
                for s in range(max(start, t - T + 1), min(end, t) + 1):
                    eta = anytime_rate(game, kappa, s)
                    gamma, g = game.exploration(eta, kappa), math.sqrt(kappa / eta)
                    cost = 2 * gamma + eta * game.variance(eta, kappa, T, whole=False)
                    own.append(cost + game.bracket(math.sqrt(gamma), g))
            worst += max(own)
        last = [game for start, game in levels if start <= n][-1]
        worst += last.log_prior / anytime_rate(last, kappa, n)
        bound = sum(anytime_terms(levels, kappa, n, T).values())
        assert worst <= bound * (1 + 1e-9)
        assert bound <= 1.2 * worst
        assert bound > sum(anytime_terms(levels, kappa, n).values())


def test_sample_count_is_theory_a4():
    problem = replace(GAME, shrink=0.25)
    R = problem.largest_leverage(0.001, 1.0)
    assert sample_count(problem, 0.001, 1.0, 1e-6) == math.ceil(3 * R * 16 * math.log(40 / 1e-6))
    assert problem.exploration(0.001, 1.0) * R == pytest.approx(20)


@pytest.mark.parametrize("b", [3, 12])
def test_rates_are_those_of_the_epochs(b):
    rates, single = tune(GAME, b=b), tune(GAME)
    assert rates.learning_rate < single.learning_rate
    best = bound(GAME, rates.learning_rate, rates.kappa, b=b)
    assert best < bound(GAME, single.learning_rate, single.kappa, b=b)
    # Without errors: C = 2G/κ + ψ(κ)E d + φ(√(d(T - 1)/2) + (T - 1)/2), R = 2L√(C n log N).
    h = 0.1 if b <= 4 else 0.2
    grow, phi = math.exp(h) - math.expm1(h) / b, math.expm1(h) / h
    C = 40 / rates.kappa + psi(rates.kappa) * 20 * grow
    C += phi * (math.sqrt(20 * (b - 1) / 2) + (b - 1) / 2)
    assert best == pytest.approx(2 * math.sqrt(C * GAME.rounds * GAME.log_prior), rel=1e-6)


def test_late_cost():
    phi = (math.exp(0.1) - 1) / 0.1
    one = 4 + psi(2.0) * 2
    reach = math.sqrt(2.0 / 0.01)  # Lḡ, for κ = ηLḡ²
    assert late_cost(GAME, 0.01, 2.0) == pytest.approx(one + phi * 0.01 * reach)
    assert late_cost(GAME, 0.01, 2.0, 3) == pytest.approx(one + 3 * phi * 0.01 * reach)


RIDGE = Ridge(penalty=1e-3, free=3, dimension=14.0, spread=5.0, bias=0.1, head_error=0.4)
GAMES = {
    "exact": GAME,
    "plain": replace(GAME, epsilon=1e-3),
    "large error": replace(GAME, epsilon=0.05),
    "large leverage": replace(GAME, leverage=60.0),
    "short": replace(GAME, rounds=50),
    "bonus": replace(GAME, epsilon=1e-3, bonus=True),
    "delay": replace(GAME, epsilon=1e-3, delay=3),
    "sampled": replace(GAME, epsilon=1e-3, shrink=0.1),
    "ridge": replace(GAME, epsilon=1e-3, ridge=RIDGE, constant=True),
    "ridge and bonus": replace(GAME, epsilon=1e-3, bonus=True, ridge=RIDGE, constant=True),
    "hindsight": replace(GAME, bonus=True, ridge=RIDGE, hindsight=True, learned=True),
}


@pytest.mark.parametrize("name", GAMES)
def test_arrays_are_computed_elementwise(name):
    game, kappas = GAMES[name], np.array([1e-4, 0.3, 2.0])
    etas = np.array([[1e-6], [1e-3], [0.5]])
    for kind in ({}, {"b": 4}, {"b": 4, "whole": True}):
        with np.errstate(over="ignore"):
            found = bound(game, etas, kappas, **kind)
        expected = [
            [bound(game, eta, k, **kind) for k in kappas.tolist()] for eta in etas[:, 0].tolist()
        ]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("b", [1, 12])
@pytest.mark.parametrize("name", GAMES)
def test_no_other_rates_have_a_smaller_bound(name, b):
    game, rng = GAMES[name], np.random.default_rng(0)
    rates = tune(game, b=b)
    eta, kappa = rates.learning_rate, rates.kappa
    least = bound(game, eta, kappa, b=b)
    for width in (1e-3, 0.1, 1.0, 3.0):
        for shift in rng.normal(scale=width, size=(50, 2)):
            other = min(max(kappa * math.exp(shift[1]), 0.0025), 4.0)
            assert bound(game, eta * math.exp(shift[0]), other, b=b) >= least * (1 - 1e-9)
