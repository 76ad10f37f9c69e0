"""The insured bound: its scale, budgets, warm-up and bias by hand, and the lemma by enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from koloss.guarantees import Guarantee, insured
from koloss.guarantees.bandit import BanditProblem, tune
from koloss.guarantees.base import clause, note
from tests.support.clauses import clause_of, marks, remarks

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


THEIRS = {"exploration": 1.0, "variance": 2.0, "prior": 3.0, "bias": 4.0, "delay": 5.0}
ASSUMED = (clause("range", "so far", low=0.0, high=3.0), clause("rounds", True, horizon=1000), clause("coin"))  # fmt: skip


def robust(terms=THEIRS, more=(), rounds=800):
    """What the robust learner promises, of losses within 3."""
    said = (note("growing kernel", kernel="so"),)
    return Guarantee(("B3",), rounds, dict(terms), 3.0 * rounds, (*ASSUMED, *more), remarks=said)


def promise(last=None, made=900, **changes):
    """The insured promise in a game of losses within 3, with an error of 0.01, and seven rounds on trust."""
    known = {f.name for f in fields(insured.Lateness)}
    lateness = {name: changes.pop(name) for name in known & set(changes)}
    settings = {"width": 3.0, "share": 1.75}
    settings |= {"own": False, "alarms": ["stopped"], "made": made} | changes
    problem = replace(GAME, epsilon=0.01, loss_bound=1.5)
    part = insured.Part(problem, settings.pop("horizon", 1000), 7)
    late = insured.Lateness(**{"overdraft": math.inf, "heard": 1} | lateness)
    return insured.guarantee([part], last or robust(), lateness=late, **settings)


@pytest.mark.parametrize("horizon", [1000, None])
def test_terms_by_hand(horizon):
    problem = replace(GAME, epsilon=0.01, loss_bound=1.5)
    B = math.sqrt((10 + (math.e**2 - 3) / 4 * 10) * (horizon or 800) * math.log(200))
    bias = 0.01 * 800 * (1 + math.sqrt(1.75 * B))  # the budget is more than a twentieth of B allows
    assert insured.bias(problem, 1.75 * B, horizon, 800) == pytest.approx(bias)
    expected = {"budget": 3 * 1.75 * B, "bias": 4 + bias, "unheard": 12, "warm-up": 21}
    found = promise(horizon=horizon, crowd=4)
    assert found.terms == pytest.approx(expected | {"robust learner": 6, "delay": 5})
    assert found.theorems == ("I1", "B3")
    assert list(remarks(found)) == ["alarm", "early", "growing kernel"]
    # What waits is counted, and no more of it than the overdraft.
    assert promise(crowd=4, overdraft=3).terms["unheard"] == 9


def test_what_the_robust_learner_assumes_is_assumed():
    assert promise().assumptions == ASSUMED
    late = promise(robust(more=(clause("missing"),)), crowd=4)
    assert late.assumptions == (*ASSUMED, clause("unopened"))


# What is printed where losses come late (theory F5, the table of cases).


def test_case_1_nothing_late():
    before = marks(promise(made=700))
    assert before["at once"] is None
    assert len(before) == 4
    assert len(marks(promise())) == 3  # all rounds are over
    assert promise().proved
    assert promise().terms["unheard"] == 0


def test_case_2_the_losses_of_policies_late():
    during = promise(made=700, crowd=4, policy=2)
    assert during.proved
    assert during.terms["robust learner"] == 6
    said = marks(during)
    assert said["unopened"] is None
    assert "robust in time" in said
    assert clause_of(during, "crowd").numbers == {"crowd": 4}
    assert "at once" not in said
    # Within the overdraft any number may wait, and at the end nothing is to come.
    assert "crowd" not in marks(promise(made=700, crowd=4, overdraft=4))
    assert len(marks(promise(crowd=4))) == 4
    assert "policy" in marks(promise(crowd=4, own=True))


def test_case_3_a_delay_that_was_declared():
    theirs = (clause("in time", delay=6), clause("oblivious"), clause("arrival"))
    last = robust(more=theirs)
    found = promise(last, made=700, delay=6, crowd=6, overdraft=6)
    assert found.terms["unheard"] == 3 * 6
    assert found.proved
    said = marks(found)
    assert said["unopened"] is said["in the end"] is None
    assert not {"oblivious", "arrival"} & set(said)  # they are more than is needed
    # In time: nobody knows before a loss was received, nor of those to come, nor of those that were never received.
    assert said["in time"] == "so far"
    assert clause_of(found, "in time").numbers == {"delay": 6}
    assert marks(promise(last, made=700, delay=6, crowd=6, heard=0))["in time"] is None
    assert marks(promise(last, delay=6, crowd=6))["in time"] is True
    assert marks(promise(last, delay=6, crowd=6, missing=1))["in time"] == "so far"
    broken = promise(last, made=700, delay=6, crowd=6, kept=False)
    assert marks(broken)["in time"] is False
    assert not broken.valid
    # Its losses are within the declared delay, however many came after its next decision.
    assert promise(last, made=700, delay=6, crowd=6, robust=50).proved
    assert not promise(last, made=700, delay=6, crowd=6, robust=50, kept=False).proved
    assert not promise(last, made=700, delay=6, crowd=6, whole=True).proved
    assert "no use" not in remarks(found)
    hopeless = promise(robust(THEIRS | {"delay": 3000.0}), made=700, delay=6, crowd=6)
    assert hopeless.is_trivial
    assert remarks(hopeless)["no use"] == {"delay": 6}


def test_case_3_losses_that_are_held_back():
    last = robust(more=(clause("in time", delay=6),))
    held = promise(last, made=700, delay=6, hold=6, crowd=6)
    said = marks(held)
    assert said["told in time"] == "so far"
    assert clause_of(held, "told in time").numbers == {"hold": 6}
    assert said["unused"] is None
    assert not {"in time", "unopened"} & set(said)  # when they are told may depend on anything
    assert "unopened" in marks(promise(last, made=700, delay=9, hold=6, crowd=9))


@pytest.mark.parametrize("horizon", [1000, None])
def test_case_4_late_and_not_declared(horizon):
    found = promise(made=700, horizon=horizon, crowd=3, robust=2, robust_rounds=300)
    assert not found.proved
    assert remarks(found)["robust late"] == {"count": 2}
    said = marks(found)
    assert said["robust in time from now on"] is said["unopened"] is None
    if horizon is None:  # no bound covers it but counting
        assert found.terms["robust learner"] == 900
        assert "delay" not in found.terms
    else:  # B(n) and what its late losses cost
        assert (found.terms["robust learner"], found.terms["delay"]) == (6, 5)
    few = promise(horizon=horizon, crowd=3, robust=2, robust_rounds=4)  # 12 in place of 15
    assert few.terms["robust learner"] == 12
    assert "delay" not in few.terms
    assert few.terms["budget"] == promise(horizon=horizon).terms["budget"]


def test_case_5_never_told():
    assert marks(promise(missing=1, crowd=4))["missing"] is None
    assert marks(promise(missing=1))["missing"] is None
    assert "missing" not in marks(promise(crowd=4))


def test_a_learned_range_does_not_cover_what_is_late():
    settings = {"premium": 0.5, "horizon": 1000}
    assert promise(**settings).proved
    for late in ({"crowd": 1}, {"policy": 1}, {"robust": 1}):
        found = promise(**settings, **late)
        assert not found.proved
        assert "range late insured" in remarks(found)


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
