"""Deviations with what is in flight against Gaussian processes with hallucinated losses; what proposals may not know."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import koloss as kl
from koloss.learners.insured import pending as module
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.pending import Pending
from tests.learners.insured.inside import resumed
from tests.support import inside
from tests.support.statistics import agrees, by_errors, differs

X = np.random.default_rng(3).random((23, 2))
FEATURES = kl.kernel_pca(kl.Gaussian(0.5), kl.Points(X), rank=8).features
N = len(X)
LAW = np.random.default_rng(4).dirichlet(np.ones(N))


class Flight:
    """Decisions that are made and opened in any order, by a forecaster and by dense matrices."""

    def __init__(self, discounts, seed, *, laws=False):
        self.forecaster = Forecaster(FEATURES, discounts=discounts)
        self.pending = Pending(self.forecaster)
        self.rng, self.laws = np.random.default_rng(seed), laws
        self.waiting = []  # proposal or None, action, losses heard before
        self.opened = []  # action, losses heard before it
        self.heard = 0

    def draw(self, count=1):
        choice = None if self.laws and self.rng.random() < 0.3 else int(self.rng.integers(N))
        self.pending.draw(LAW if choice is None else choice, count)
        for _ in range(count):
            explored = choice is None or self.rng.random() < 0.4
            action = int(self.rng.choice(N, p=LAW)) if explored else choice
            self.waiting.append((choice, action, self.heard))

    def open(self):
        choice, action, before = self.waiting.pop(int(self.rng.integers(len(self.waiting))))
        self.forecaster.update(action, np.sin(5 * X[action, 0]) / 2 + 0.1 * self.rng.normal())
        self.pending.open(choice, action, before)
        self.opened.append((action, self.heard))
        self.heard += 1

    def forget(self):
        choice, _, before = self.waiting.pop(int(self.rng.integers(len(self.waiting))))
        self.pending.drop(choice, before)

    def deviation(self, *, actions=False, halved=False):
        """By Gram matrices. Wrong on purpose: with pending actions, or pending losses that count half."""
        trusted = self.forecaster.regression
        d, ridge = trusted.discount, trusted.ridge
        weights = np.zeros(N)  # losses of one action are as good as one loss with less noise
        for action, before in self.opened:
            weights[action] += d ** (self.heard - before)
        for choice, action, before in self.waiting:
            weight = d ** (self.heard - before) * (0.5 if halved else 1.0)
            if choice is None and not actions:
                weights += weight * LAW
            else:
                weights[action if actions else choice] += weight
        K = FEATURES @ FEATURES.T * trusted.scale  # the prior may have faded
        at = np.flatnonzero(weights)
        cross = K[:, at]
        C = K[np.ix_(at, at)] + np.diag(ridge / weights[at])
        return np.sqrt(trusted.signal * np.diag(K - cross @ np.linalg.solve(C, cross.T)))


DISCOUNTS = {"one": (1.0,), "discounted": (0.9,), "compared": (1.0, 0.98, 0.9)}


@pytest.mark.parametrize("laws", [False, True])
@pytest.mark.parametrize("discounts", DISCOUNTS)
def test_deviations_are_those_of_a_process_that_was_told_all_that_is_in_flight(discounts, laws):
    flight = Flight(DISCOUNTS[discounts], 5, laws=laws)
    flight.draw()
    off_with_actions = off_with_half = 0.0
    for step in range(220):
        coin = flight.rng.random()
        if coin < 0.5 or not flight.waiting:
            flight.draw(1 if coin < 0.45 else 7)
        elif coin < 0.97:
            flight.open()
        else:
            flight.forget()
        if not flight.waiting or step % 3 == 0:  # looked at now and then only
            continue
        deviation = flight.deviation()
        np.testing.assert_allclose(flight.pending.deviation, deviation, rtol=1e-6, atol=1e-9)
        off = np.abs(deviation - flight.deviation(actions=True)).max()
        off_with_actions = max(off_with_actions, off)
        off_with_half = max(off_with_half, np.abs(deviation - flight.deviation(halved=True)).max())
        assert flight.pending.mean is flight.forecaster.mean
    # Negative controls: what is wrong can be told.
    assert off_with_actions > 1e-3
    assert off_with_half > 1e-3


def test_steps_do_not_wear_out():
    # Many drawn and opened actions that were explored: steps up and down, from scratch now and then.
    flight = Flight(DISCOUNTS["one"], 6)
    for _ in range(40):
        flight.draw()
    for _ in range(1500):
        flight.draw()
        flight.open()
        _ = flight.pending.deviation
    np.testing.assert_allclose(flight.pending.deviation, flight.deviation(), rtol=1e-6)


def test_when_nothing_is_in_flight_it_is_the_forecast():
    flight = Flight(DISCOUNTS["compared"], 7, laws=True)
    for _ in range(30):
        flight.draw(3)
        while flight.waiting:
            flight.open()
        np.testing.assert_array_equal(flight.pending.deviation, flight.forecaster.deviation)
        assert not flight.pending.proposed.any()
        assert not flight.pending.laws.any()


def test_laws_in_flight_leave_on_average():
    # The law of one is not kept: what is opened takes the mean of those in flight with it, and the last one all.
    pending = Pending(Forecaster(FEATURES, discounts=(1.0,)))
    other = LAW[::-1].copy()
    pending.draw(LAW)
    pending.draw(other)
    pending.forecaster.update(3, 0.1)
    pending.open(None, 3, 0)
    np.testing.assert_allclose(pending.laws[0], (LAW + other) / 2)


def test_draws_have_the_covariance_of_what_is_in_flight():
    flight = Flight(DISCOUNTS["one"], 8)
    for _ in range(12):
        flight.draw()
    for _ in range(5):
        flight.open()
    drawn = flight.pending.sample(np.random.default_rng(0), 1.0, 40_000)
    # Relative error of a deviation from 40,000 draws: 1/√80,000.
    off = drawn.std(axis=1) / flight.deviation() - 1
    assert agrees(by_errors(off * np.sqrt(80_000)))
    unaware = flight.forecaster.sample(np.random.default_rng(0), 1.0, 40_000)
    off = unaware.std(axis=1) / flight.deviation() - 1
    assert differs(by_errors(off * np.sqrt(80_000)))


# In the learner.


def market(policy="ucb", seed=0, n=4000, **settings):
    prices = kl.Points(np.linspace(0, 1, 20)[:, None])
    return kl.InsuredBandit(
        prices, kl.Gaussian(0.25), horizon=n, loss_range=(0, 1), policy=policy, rng=seed, **settings
    )


def told(learner, decision):
    x, coin = decision.action[0], (decision.id * 0.6180339887) % 1
    learner.tell(decision, float(coin < 0.3 + 0.5 * (x - 0.6) ** 2))


def proposals(learner):
    return [entry.law.choice for entry in learner.ledger]


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_proposals_do_not_depend_on_coins_in_flight(policy, monkeypatch):
    # Two learners that differ in the coins of what is in flight, not in what they have heard nor in the coins to come.
    def pair():
        learner = market(policy, width=2.0)
        for _ in range(40):
            told(learner, learner.ask())
        other = resumed(learner.state())
        kept = copy.deepcopy(inside.coins(learner))
        for one, bits in ((learner, 11), (other, 12)):
            for k in range(30):
                inside.coins(one, np.random.default_rng(1000 * bits + k))
                if policy == "thompson":  # the proposal has a coin of its own, which is no secret
                    law = inside.latest_stage(one).policy.propose(
                        inside.pending(one), inside.latest_stage(one), np.random.default_rng(k)
                    )
                    inside.latest_stage(one).policy.propose = lambda *_, law=law: law
                one.ask()
                if policy == "thompson":
                    del inside.latest_stage(one).policy.propose
            inside.coins(one, copy.deepcopy(kept))
        keys = [[entry.key for entry in one.ledger] for one in (learner, other)]
        assert keys[0] != keys[1]
        for one in (learner, other):
            for _ in range(30):
                one.ask()
        return proposals(learner), proposals(other)

    first, second = pair()
    assert first == second
    assert len(set(first)) > 1

    # Negative control: who counts actions gives the coins away.
    draw = kl.InsuredBandit._draw

    def counting_actions(self, *request):
        before = self._pending.draw
        monkeypatch.setattr(self._pending, "draw", lambda law, size=1: None)
        law, drawn = draw(self, *request)
        monkeypatch.setattr(self._pending, "draw", before)
        self._pending.draw(int(drawn.index))
        return law, drawn

    monkeypatch.setattr(kl.InsuredBandit, "_draw", counting_actions)
    first, second = pair()
    assert first != second


def test_what_waits_is_not_proposed_again_and_again():
    learner = market(width=2.0)
    for _ in range(60):
        learner.ask()
    aware = proposals(learner)
    blind = market(width=2.0)
    for _ in range(60):
        blind._pending = inside.latest_stage(blind).pending = Pending(inside.forecaster(blind))
        blind.ask()
    assert len(set(aware)) >= 8
    assert len(set(proposals(blind))) == 1  # negative control


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_as_long_as_nothing_is_heard_the_middle_is_played_most(policy):
    learner = market(policy, width=2.0)
    for _ in range(1200):
        learner.ask()
    chosen = proposals(learner)
    first, later = chosen[:60], np.bincount(chosen[200:], minlength=20)
    assert len(set(first)) >= 8  # a sweep comes first: everything is in flight before it is enough
    gram = np.exp(-((learner.actions - learner.actions.T) ** 2) / (2 * 0.25**2))
    shares = (gram**2).sum(axis=0) ** module.CENTRAL
    np.testing.assert_allclose(later / 1000, shares / shares.sum(), rtol=0.1, atol=0.002)
    # The first loss ends it.
    told(learner, learner.ask())
    assert not inside.pending(learner).is_blind
    assert inside.pending(market(policy)).is_blind is False
