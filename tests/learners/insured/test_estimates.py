"""Estimates by enumeration, the law that is announced, diagnostics, and looking without touching."""

from __future__ import annotations

import math

import numpy as np
import pytest

from koloss.guarantees import insured
from koloss.learners.insured.watched import JUMP, USUAL, Watched
from tests.learners.insured.games import POLICIES, Always, kind, make, play
from tests.learners.insured.inside import (
    is_robust,
    law_of,
    resumed,
    stage_of,
    with_overdraft,
    worst_loss,
)
from tests.support import inside
from tests.support.statistics import agrees, by_counts, differs

# Estimates through the learner.


@pytest.fixture
def in_full(monkeypatch):
    """Every loss that there is room for is counted in full."""
    monkeypatch.setattr(Watched, "enough", lambda *_: 1.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("policy", [*POLICIES, "own action", "own law"])
@pytest.mark.parametrize("rounds", [0, 25, 250])
def test_unbiased_by_enumeration(policy, rounds, rng, in_full):
    # Every action that the next round may draw, with its probability (with Thompson sampling: after its draw).
    own = {"own action": Always(3), "own law": Always(np.arange(30) / 435)}.get(policy, policy)
    learner = make(policy=own)
    play(learner, kind, rounds)
    decision = learner.ask()
    law = law_of(learner, decision)
    p = law.distribution()
    assert decision.probability == pytest.approx(p[decision.index])
    losses = learner.engine.features @ rng.normal(size=learner.engine.problem.rank)
    losses = 0.5 + 0.5 * losses / np.abs(losses).max()
    state, before = learner.state(), stage_of(learner).total
    mean = np.zeros(30)
    for index in np.flatnonzero(p > 0):
        again = resumed(state, policy=own)
        other = again.ledger.enter(law_of(again, decision), [int(index)])
        again.tell(other, float(losses[index]))
        mean += p[index] * (stage_of(again).total - before)
    np.testing.assert_allclose(mean, losses - 0.5, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("policy", ["ucb", "own law"])
def test_draws_follow_the_law_that_is_announced(policy):
    own = Always(np.arange(30) / 435) if policy == "own law" else policy
    learner = with_overdraft(make(policy=own), 20_000)
    play(learner, kind, 60)
    announced = learner.distribution
    single = learner.ask()
    assert single.probability == pytest.approx(announced[single.index], rel=1e-12)
    learner.tell(single, 0.5)
    count = 20_000
    batch = learner.ask(count)
    p = law_of(learner, batch[0]).distribution()
    assert p.sum() == pytest.approx(1)
    np.testing.assert_allclose(batch.probability, p[batch.index])
    counts = np.bincount(batch.index, minlength=30)
    assert counts[p == 0].sum() == 0
    assert agrees(by_counts(counts, p))
    assert differs(by_counts(counts, np.roll(p, 1)))  # negative control


@pytest.mark.slow
def test_the_law_of_thompson_sampling_is_near_its_draws():
    learner = make(policy="thompson", width=1.0)
    play(learner, kind, 12)
    p, state, count = learner.distribution, learner.state(), 600
    assert p.sum() == pytest.approx(1)
    shares = np.zeros(30)
    for seed in range(count):
        shares[resumed(state, seed).ask().index] += 1 / count
    # 256 draws against 600: total variation of equal laws on some ten actions stays below 0.25
    assert np.abs(shares - p).sum() / 2 < 0.25
    assert np.abs(np.roll(shares, 3) - p).sum() / 2 > 0.25


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("policy", ["ucb"])
def test_diagnostics_against_a_log_of_the_game(policy, in_full):
    learner = make(policy=policy, loss_range=(-1, 3))
    Phi, rho, center = learner.engine.features, 4.0, 1.0
    S, A, variance = np.zeros(30), 0.0, np.zeros(30)
    losses = {True: [], False: []}  # of explored actions, and of the policy's
    rng = np.random.default_rng(3)
    for _ in range(120):
        p, M = learner.distribution, (learner.diagnostics.estimated_losses - center) / rho
        M = M / max(1.0, 2 * np.abs(M).max())
        decision = learner.ask()
        explored = learner.ledger.find(decision)[0].key < 0
        loss = float(-1 + 4 * kind(0)[decision.index] + rng.uniform(-0.3, 0.3))
        learner.tell(decision, loss)
        losses[explored].append(loss)
        y = (loss - center) / rho
        k = Phi @ np.linalg.solve(Phi.T @ (p[:, None] * Phi), Phi[decision.index])
        S, A = S + M + k * (y - M[decision.index]), A + y
        variance += (k * (y - M[decision.index])) ** 2
    seen, best = learner.diagnostics, int(S.argmin())
    assert (seen.playing, seen.rounds, seen.heard, seen.outstanding) == (policy, 120, 120, 0)
    regret = rho * (A - S.min())
    assert seen.estimated_regret == pytest.approx(regret, rel=1e-7)
    spread = 2 * rho * math.sqrt(variance[best])
    assert seen.band == pytest.approx((regret - spread, regret + spread), rel=1e-6)
    budget = 1.25 * rho * insured.scale(learner.engine.problem, 1000)
    assert seen.budget == pytest.approx(budget)
    assert seen.distance == pytest.approx(budget - regret)
    assert seen.explored == len(losses[True])
    assert seen.premium == pytest.approx(sum(losses[True] - np.mean(losses[False])))
    assert seen.alarms == ()
    assert seen.robust is None
    best = learner.recommend()
    assert best.index == np.argmin(seen.estimated_losses)
    assert best.loss == pytest.approx(seen.estimated_losses.min())


@pytest.mark.usefixtures("patient")
def test_exploration_is_the_smallest_that_the_rule_allows(in_full):
    # Bisection on the rule itself, with exact kernels, against the share that is played.
    learner = make()
    play(learner, kind, 200)
    stage, budget = stage_of(learner), learner.diagnostics.budget
    assert not stage.suspicious
    place, choice = stage.exploration, int(np.argmax(learner.distribution))
    room = budget - 1 - inside.account(learner).total
    deviation = math.sqrt((stage.noise + 2.5) / (stage.heard + 10))
    share = min(1.0, JUMP / min(1.0, USUAL * deviation))  # that a usual loss may use

    def fits(gamma):
        p = gamma * place.weights
        p[choice] += 1 - gamma
        W = place.features
        k = np.abs(W @ np.linalg.inv(W.T @ (p[:, None] * W)) @ W[p > 0].T).max(axis=1)
        return np.all(k <= share * room)

    low, high = 1e-9, 0.5
    assert fits(high)
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    cap = place.largest / stage.cap(budget) / share
    played = law_of(learner, learner.ask()).rate
    needed = max(high, cap)
    assert needed * (1 - 1e-6) <= played <= 1.02 * needed


# Looking.


@pytest.mark.usefixtures("patient")
def test_the_law_before_an_alarm_is_that_of_the_successor():
    alarms = 0
    for seed in range(6):
        learner = make(horizon=400, rng=seed, trigger=0.3, premium=0.3)
        while not is_robust(learner) and learner.ledger.made < 380:
            p = learner.distribution
            decision = learner.ask()
            if learner.alarms:
                np.testing.assert_allclose(p, learner.distribution)  # of the same epoch
                assert decision.probability == pytest.approx(p[decision.index])
                assert learner.alarms[-1].reason == "budget"
                alarms += 1
                break
            learner.tell(decision, worst_loss(learner, decision))
    assert alarms > 0
