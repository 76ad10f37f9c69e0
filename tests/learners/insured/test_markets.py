"""Markets that mean no harm: noise alone stops nobody."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import koloss as kl
from tests.learners.insured.games import make
from tests.learners.insured.inside import resumed

ROUNDS = 4000
PRICES = np.linspace(1, 3, 41)
SOLD = np.exp(-((PRICES / 2) ** 2))


@functools.cache
def fresh():
    return make(kl.Points(PRICES[:, None]), kl.Gaussian(0.5), horizon=ROUNDS).state()


def market(seed, other):
    """The learner after a market in which every customer buys or not; its regret over that of random prices."""
    learner, rng, regret = resumed(fresh(), seed), np.random.default_rng(other), 0.0
    best = np.max(PRICES * SOLD) / 3
    for _ in range(ROUNDS):
        decision = learner.ask()
        price = PRICES[decision.index]
        learner.tell(decision, 1 - price * (rng.random() < SOLD[decision.index]) / 3)
        regret += best - price * SOLD[decision.index] / 3
    return learner, regret / (ROUNDS * (best - np.mean(PRICES * SOLD) / 3))


@pytest.mark.slow
def test_the_market_of_the_readme():
    learner, share = market(0, 1)
    assert learner.alarms == []
    assert learner.diagnostics.playing == "ucb"
    assert share < 0.5
    best = learner.recommend().index
    assert PRICES[best] * SOLD[best] > 0.95 * np.max(PRICES * SOLD)


@pytest.mark.slow
def test_other_markets_end_with_the_policy_in_charge():
    shares = []
    for seed in range(6):
        learner, share = market(100 + seed, 200 + seed)
        assert learner.diagnostics.playing == "ucb"
        shares.append(share)
    assert np.mean(shares) < 0.5


@pytest.mark.slow
def test_negative_control_jumps_of_all_the_room(monkeypatch):
    # What kept this market from ending well before: one loss could use all of the room.
    monkeypatch.setattr("koloss.learners.insured.watched.JUMP", 1.0)
    assert any(market(100 + seed, 200 + seed)[0].alarms for seed in range(12))
