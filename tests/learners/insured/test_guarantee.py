"""What the insured learner says of its regret."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import insured
from tests.learners.insured.games import POINTS, kind, make, play
from tests.learners.insured.inside import is_robust, law_of, stage_of, with_overdraft, worst_loss
from tests.support.clauses import marks, remarks


@pytest.mark.parametrize(
    "terms", [{}, {"trigger": 1.0, "premium": 1.0}, {"trigger": 0.25, "premium": 0.5}]
)
def test_bound_in_the_exact_case(terms):
    # ε = 0, τ ≈ 0, epochs of one round: (1 + trigger + premium) B, the robust learner's being B with κ = 2.
    points = kl.Points(np.random.default_rng(2).normal(size=(50, 3)))
    learner = make(points, kl.Linear(), horizon=20_000, batch=1, loss_range=(-1, 2), **terms)
    promise = learner.guarantee()
    c = 1 + (math.e**2 - 3) / 4
    B = 3 * math.sqrt(c * learner.rank * 20_000 * math.log(50))
    share = terms.get("trigger", 0.5) + terms.get("premium", 0.75)
    assert learner.epsilon == 0
    assert promise.terms["bias"] == promise.terms["net"] == 0
    assert promise.terms["budget"] == pytest.approx(share * B, rel=1e-3)
    assert promise.terms["robust learner"] == pytest.approx(B, rel=2e-3)
    assert promise.total == pytest.approx((1 + share) * B, rel=2e-3)
    assert not promise.is_trivial
    assert promise.valid


def test_rounds_of_the_guarantee():
    learner = make(horizon=2000)
    full, half = learner.guarantee(), learner.guarantee(rounds=1000)
    assert (full.rounds, half.rounds) == (2000, 1000)
    assert half.terms["budget"] == full.terms["budget"]  # it may be used at any time
    assert half.terms["bias"] < full.terms["bias"]
    assert half.trivial == 1000
    assert not learner.guarantee(rounds=2001).valid


@pytest.mark.usefixtures("patient")
def test_bias_of_the_features():
    learner = make(rank=5)
    problem = learner.engine.problem
    B = insured.scale(problem, 1000)
    R = max(1.25 * B, (0.05 * B / (problem.epsilon * 1000)) ** 2)
    settings = {"horizon": 1000, "loss_range": (0, 1), "rank": 5}
    robust = kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **settings).guarantee()
    expected = problem.epsilon * 1000 * (1 + math.sqrt(R)) + robust.terms["bias"]
    assert learner.guarantee().terms["bias"] == pytest.approx(expected)
    # and R bounds every leverage that is played
    for _ in range(200):
        decision = learner.ask()
        if is_robust(learner):
            break
        law = law_of(learner, decision)
        p, W = law.distribution(), law.exploration.features
        k = np.einsum("ij,ji->i", W, np.linalg.solve(W.T @ (p[:, None] * W), W.T))
        assert k.max() <= R * (1 + 1e-9)
        learner.tell(decision, worst_loss(learner, decision))


def test_anytime_bound():
    learner = make(horizon=None)
    problem, t0 = learner.engine.problem, learner.guarantee().terms["warm-up"]
    assert insured.scale(problem, t0) * 1.25 >= 1 + 4 * problem.leverage
    play(learner, kind, 300)
    promise = learner.guarantee()
    assert promise.rounds == 300
    assert promise.theorems == ("I1", "B4")
    assert promise.details == ("ridge, bonuses",)
    assert promise.terms["warm-up"] == t0
    assert promise.valid
    for n in (300, 10_000):
        budget = learner.guarantee(rounds=n).terms["budget"]
        assert budget == pytest.approx(1.25 * insured.scale(problem, n))
    longer = make(horizon=None, batch=4).guarantee()
    assert longer.statement.startswith(
        "Theorem I1, then Theorem B4 (anytime), epochs ended by drift"
    )
    assert longer.proved


def test_rounds_on_trust_are_no_more_than_are_charged():
    learner, trusted = make(horizon=None), 0
    t0 = int(learner.guarantee().terms["warm-up"])
    for _ in range(4 * t0):
        decision = learner.ask()
        trusted += not law_of(learner, decision).counted
        learner.tell(decision, 0.4)
    assert trusted == t0
    budget = 1.25 * insured.scale(learner.engine.problem, 4 * t0 + 1)
    assert learner.diagnostics.budget == pytest.approx(budget)


@pytest.mark.usefixtures("patient")
def test_late_losses_of_rounds_on_trust_do_no_harm():
    learner = make(horizon=None)
    waiting = [learner.ask() for _ in range(int(learner.guarantee().terms["warm-up"]))]
    play(learner, kind, 10)  # heard before any of those
    before = stage_of(learner).total.copy()
    for decision in waiting:
        learner.tell(decision, 1.0)
    assert learner.alarms == []
    np.testing.assert_array_equal(stage_of(learner).total, before)
    assert learner.diagnostics.skipped == 0


def test_what_waits_is_charged_up_to_the_overdraft():
    learner, costs = with_overdraft(make(), 5), []
    for _ in range(9):
        learner.ask()
        costs.append(learner.guarantee().terms["unheard"])
    # One has room in the budget; beyond what may wait the budget has room, or the policy sits out.
    assert costs == [0, 1, 2, 3, 4, 5, 5, 5, 5]


@pytest.mark.parametrize("hand_over", [False, True])
def test_more_rounds_than_the_horizon_fail(hand_over):
    learner = make(horizon=100)
    play(learner, kind, 60)
    if hand_over:
        learner.hand_over()
        note = str(learner.alarms[0])
        assert note.startswith(
            "after 60 rounds the policy 'ucb' was stopped: by hand; estimated regret"
        )
        assert remarks(learner.guarantee())["alarm"] == {"alarm": note}
    play(learner, kind, 40)
    assert learner.guarantee().valid
    assert marks(learner.guarantee())["rounds"] is True
    play(learner, kind, 1)
    assert marks(learner.guarantee())["rounds"] is False
    assert not learner.guarantee().valid
