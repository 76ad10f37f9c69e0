"""A policy insured without a range: what is heard takes its place."""

from __future__ import annotations

import math

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees import insured
from tests.learners.insured.games import POINTS, kind, make
from tests.learners.insured.inside import is_robust, law_of, stage_of
from tests.support import inside
from tests.support.clauses import remarks
from tests.support.hostile import game

SIZE = len(POINTS.X)


def learned(**settings):
    return make(loss_range="learn", **settings)


def jumping(t):
    """Smooth losses, far from zero, a hundred times as large from round 300 on."""
    return 40 + (100 if t > 300 else 1) * kind(t) * (1 + (t % 3 == 0))


def chase(learner, scale):
    """Losses against the action that is most likely, smooth, at the sizes of the round."""
    X = np.asarray(POINTS.X)

    def loss(t):
        place = X[int(np.argmax(learner.distribution))]
        return 7 + scale(t) * np.exp(-np.sum((X - place) ** 2, axis=1) / (2 * 0.4**2))

    return loss


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("game", ["jumping", "chase"])
def test_every_path_stays_within_what_is_charged(game):
    """Estimates, by hand in the units of the losses; predictions in what was heard; the largest estimated regret."""
    learner = learned(horizon=3000)
    loss = jumping if game == "jumping" else chase(learner, lambda t: 1.0 + 30 * (t > 150))
    B = insured.scale(learner.engine.problem, 3000)
    D, R, warm_up = 1.25 * B, 0.75 * B, 2 * learner.rank
    S, A, heard, largest = np.zeros(SIZE), 0.0, [], 0.0
    for t in range(500):
        values, decision = loss(t), learner.ask()
        if is_robust(learner):
            break
        law, i = law_of(learner, decision), decision.index
        M = law.prediction * inside.units(learner).width + inside.units(learner).center
        y = values[i]
        assert law.counted is (t >= warm_up)
        if law.counted:
            low, high = min(heard), max(heard)
            assert M.min() >= low - 1e-9 * (high - low)
            assert M.max() <= high + 1e-9 * (high - low)
            p, W = law.distribution(), law.exploration.features
            k = W @ np.linalg.solve(W.T @ (p[:, None] * W), W[i])
            assert np.einsum("ij,ji->i", W, np.linalg.solve(W.T @ (p[:, None] * W), W.T)).max() <= R * (1 + 1e-9)  # fmt: skip
            S, A = S + M + k * (y - M[i]), A + y
            excess = max(low - y, y - high, 0.0)
            charged = D * (high - low) + excess * (1 + R)
            assert A - S.min() <= charged * (1 + 1e-9)
            largest = max(largest, (A - S.min()) / charged)
        learner.tell(decision, y)
        heard.append(y)
        if law.counted and not learner.alarms:
            stage = stage_of(learner)
            raw = (
                stage.total * inside.units(learner).width
                + stage.heard * inside.units(learner).center
            )
            np.testing.assert_allclose(raw, S, rtol=1e-6, atol=1e-6 * np.ptp(heard))
    assert largest > 0.02
    assert t > warm_up


def test_hostile_losses_end_the_stage_and_the_regret_is_within_the_bound():
    learner = learned(horizon=1500)
    loss = chase(learner, lambda t: 1.0 if t < 400 else 50.0)
    played = game(learner, lambda t, p: loss(t), 1500)
    assert learner.alarms
    assert is_robust(learner)
    assert played.in_hindsight <= learner.guarantee().total * played.width


def test_terms_of_the_bound():
    learner = learned(horizon=4000)
    promise, problem = learner.guarantee(), learner.engine.problem
    B = insured.scale(problem, 4000)
    alone = kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), horizon=4000, loss_range="learn")
    robust = alone.guarantee().terms
    assert promise.unit == "ρ"
    assert promise.regret == "pseudo"
    assert promise.terms["budget"] == pytest.approx(1.25 * B)
    assert promise.terms["warm-up"] == 2 * learner.rank
    assert promise.terms["range"] == pytest.approx(1 + 0.75 * B + robust["range"])
    assert promise.valid
    assert remarks(promise)["range"] == {"heard": "nothing"}
    assert promise.seen is None
    for t in range(60):
        decision = learner.ask()
        learner.tell(decision, 3.0 + t % 2)
    assert remarks(learner.guarantee())["range"] == {"heard": "1"}
    assert learner.guarantee().seen == 1
    assert learner.guarantee().proved


@pytest.mark.usefixtures("patient")
def test_equal_losses_are_no_alarm():
    learner = learned()
    for _ in range(200):
        learner.tell(learner.ask(), -5.0)
    assert learner.alarms == []
    assert learner.diagnostics.estimated_regret == 0
    assert math.isclose(learner.recommend().loss, -5.0)
