"""The insured bound: its scale, budgets, warm-up and bias by hand, and the lemma by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from koloss.guarantees import Assumption, Guarantee, insured
from koloss.guarantees.bandit import BanditProblem, tune

GAME = BanditProblem(
    20_000, rank=10, leverage=10.0, loss_bound=0.5, epsilon=0.0, log_prior=math.log(200)
)


@pytest.mark.parametrize("n", [1, 100, 20_000])
def test_scale_by_hand(n):
    c = 1 + (math.e**2 - 3) / 4
    assert insured.scale(GAME, n) == pytest.approx(math.sqrt(c * 10 * n * math.log(200)))
    assert insured.scale(GAME, 4 * n) == pytest.approx(2 * insured.scale(GAME, n))
    assert insured.scale(replace(GAME, leverage=15.0), n) > insured.scale(GAME, n)


def test_scale_is_the_bound_of_the_robust_learner():
    # At its best rates, without an error: ρ times the scale, for any range and number of rounds.
    for n, L in itertools.product((1000, 20_000), (0.5, 4.0)):
        problem = replace(GAME, rounds=n, loss_bound=L)
        rates = tune(problem)
        total = sum(problem.terms(rates.learning_rate, rates.kappa).values())
        assert total == pytest.approx(2 * L * insured.scale(problem, n), rel=1e-4)


def test_too_short_is_a_share_of_exploration_above_a_half():
    # γ = G/(D - 1): the largest is a half.
    G = GAME.leverage
    for budget in np.linspace(1.5, 100, 400):
        assert insured.is_too_short(GAME, budget) == (G / (budget - 1) >= 0.5)
    assert insured.is_too_short(GAME, 0.5)
    assert insured.is_too_short(GAME, 1.0)


@pytest.mark.parametrize("share", [0.3, 1.25, 4.0])
def test_warm_up_is_the_first_round_with_twice_the_room(share):
    # By search: the first t with D(t) ≥ 1 + 4G.
    t = 1
    while share * insured.scale(GAME, t) < 1 + 4 * GAME.leverage:
        t += 1
    assert insured.warm_up(GAME, share) == t
    assert not insured.is_too_short(GAME, share * insured.scale(GAME, t))
    assert insured.warm_up(replace(GAME, log_prior=0.0), share) == 0  # one action


def test_largest_leverage():
    assert insured.largest_leverage(GAME, 300.0, 1000) == math.inf
    small = replace(GAME, epsilon=1e-6)
    B = insured.scale(small, 1000)
    # ε √R n is a twentieth of B ρ, where that is more than the budget allows.
    R = insured.largest_leverage(small, 300.0, 1000)
    assert 1e-6 * math.sqrt(R) * 1000 == pytest.approx(B / 20)
    large = replace(GAME, epsilon=0.1)
    assert insured.largest_leverage(large, 300.0, 1000) == 300.0
    assert insured.largest_leverage(large, 300.0, None) is None
    # ε is in the units of the losses, all else in units of their range.
    wide = replace(small, loss_bound=5.0, epsilon=1e-5)
    assert insured.largest_leverage(wide, 300.0, 1000) == pytest.approx(R)


def test_bias():
    assert insured.bias(GAME, 300.0, 1000, 1000) == 0
    large = replace(GAME, epsilon=0.1)
    expected = 0.1 * 700 * (1 + math.sqrt(300))
    assert insured.bias(large, 300.0, 1000, 700) == pytest.approx(expected)
    assert insured.bias(large, 300.0, None, 700) == pytest.approx(expected)
    for eps in np.geomspace(1e-9, 1, 40):
        problem = replace(GAME, epsilon=eps)
        D, B = 1.25 * insured.scale(problem, 1000), insured.scale(problem, 1000)
        bias = insured.bias(problem, D, 1000, 1000)
        assert bias <= eps * 1000 + max(eps * 1000 * math.sqrt(D), B / 20) * (1 + 1e-12)


@pytest.mark.parametrize("horizon", [1000, None])
def test_terms_and_assumptions_by_hand(horizon):
    theirs = {"exploration": 1.0, "variance": 2.0, "prior": 3.0, "bias": 4.0, "delay": 5.0}
    texts = ("every loss is in [0, 3]", "at most 1000 rounds", "the weather is fair")
    last = Guarantee("Theorem B", 800, theirs, 2400.0, tuple(map(Assumption, texts)), notes=("so",))
    numbers = {"width": 3.0, "shares": (0.5, 1.25), "crowd": 4, "warm_up": 7, "heard": 1, "late": 0}
    flags = {"own": True, "early": True, "alarms": ["stopped"]}
    problem = replace(GAME, epsilon=0.01, loss_bound=1.5)

    def promise(made, **changes):
        settings = numbers | flags | {"horizon": horizon, "made": made} | changes
        return insured.guarantee(problem, last, **settings)

    B = insured.scale(problem, horizon or 800)
    assert promise(900).terms == pytest.approx(
        {
            "budget": 3 * 1.75 * B,
            "bias": 4 + insured.bias(problem, 1.25 * B, horizon, 800),
            "unheard": 3 * 4 * 2,
            "warm-up": 21,
            "robust learner": 6,
            "delay": 5,
        }
    )
    holds = [assumption.holds for assumption in promise(900).assumptions]
    assert holds == [True, horizon and True, None, None, None, None]
    assert promise(900, heard=0).assumptions[0].holds is None
    if horizon is not None:
        assert promise(1001).assumptions[1].holds is False
    assert len(promise(900, own=False).assumptions) == 5
    assert len(promise(900, crowd=0).assumptions) == 3
    assert len(promise(900, crowd=0, late=1).assumptions) == 6
    assert promise(900).statement == "Theorem I1, then Theorem B"
    assert promise(900, early=False).notes == ("stopped", "so")
    assert "heuristic" in promise(900).notes[1]


Phi = np.column_stack([np.array([-1.0, 0.3, 1.0]), np.ones(3)])


def in_span(losses):
    return (Phi @ np.linalg.lstsq(Phi, losses.T, rcond=None)[0]).T


def enumerate_stage(losses, gamma, choose, threshold):
    """Pseudo-regret of a stage and its mean estimated regret, over all action sequences with their probabilities.

    `choose(history)` is the policy; the stage ends once its estimated regret is above the threshold.
    """
    N, n = len(Phi), len(losses)
    regret, bias, estimate, weight = np.zeros(N), np.zeros(N), 0.0, 0.0

    def go(t, probability, A, S, history):
        nonlocal regret, estimate, weight, bias
        if t == n or A - S.min() > threshold:
            estimate += probability * (A - S.min())
            weight += probability
            return
        j = choose(history)
        p = np.full(N, gamma / N)
        p[j] += 1 - gamma
        k = Phi @ np.linalg.inv(Phi.T @ (p[:, None] * Phi)) @ Phi.T
        bias += probability * (1 + np.sqrt(np.diag(k)))
        M = Phi @ np.array([0.1, -0.05]) * (-1) ** t  # any prediction in the span
        for a in range(N):
            y = losses[t][a]
            regret += probability * p[a] * (y - losses[t])
            go(t + 1, probability * p[a], A + y, S + M + k[:, a] * (y - M[a]), (*history, (a, y)))

    go(0, 1.0, 0.0, np.zeros(N), ())
    assert weight == pytest.approx(1)
    return regret, estimate, bias


def greedy(history):
    """The action with the smallest mean so far, as far as it is known."""
    sums = {a: [y for b, y in history if b == a] for a in range(3)}
    return min(range(3), key=lambda a: np.mean(sums[a]) if sums[a] else 0.0)


@pytest.mark.parametrize("eps", [0.0, 0.08])
@pytest.mark.parametrize("threshold", [0.5, 2.0, math.inf])
def test_lemma_of_validity_by_enumeration(eps, threshold, rng):
    # All 3^5 sequences of actions of an adaptive policy, stopped by its own estimate or not.
    tightest = math.inf
    for _ in range(4):
        inside = in_span(np.clip(rng.uniform(-0.3, 0.3, size=(5, 2)) @ Phi.T, -0.4, 0.4))
        losses = inside + eps * rng.choice([-1.0, 1.0], size=(5, 3))
        regret, estimate, bias = enumerate_stage(losses, 0.4, greedy, threshold)
        slack = estimate + eps * bias - regret
        assert np.all(slack >= -1e-12)
        tightest = min(tightest, float(slack.min()))
    if eps == 0 and threshold == math.inf:
        assert tightest < 0.5  # it is not far from an equality


def test_without_the_jump_the_budget_does_not_bound_the_regret():
    # Negative control for the rule: a stage that ends above a threshold has paid more than that threshold.
    losses = in_span(np.array([[0.5, 0.1, -0.5]] * 5))
    regret, estimate, _ = enumerate_stage(losses, 0.4, lambda history: 0, 0.1)
    assert estimate > 0.1
    assert 0.1 < regret.max() <= estimate + 1e-12
