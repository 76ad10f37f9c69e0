"""Contexts in which only some actions are allowed: masks whose law is known, with the guarantee of Theorem F6."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.learners.bandit.test_contexts import (
    LAWS,
    PRICES,
    learner_of,
    linear_losses,
    mean_change,
    play,
)
from tests.support import inside
from tests.support.statistics import agrees, by_counts, differs

MASKS = np.array([[1, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [0, 1, 1, 0, 0]]) == 1
X = [[0.0], [0.3], [0.6], [1.0]]


def stock(allowed=MASKS, law="skew", **others):
    return kl.Contexts(X, LAWS[law], allowed=allowed, **others)


def forbidden(learner, rounds=200):
    """How often an action was played that is not allowed."""
    coins, bad = np.random.default_rng(2), 0
    for _ in range(rounds):
        c = int(coins.integers(4))
        decision = learner.ask(context=c)
        bad += not MASKS[c, decision.index]
        learner.tell(decision, float(np.cos(decision.action[0] + c) ** 2))
    many = learner.ask(40, context=[0, 1, 2, 3] * 10)
    return bad + int(np.sum(~MASKS[[0, 1, 2, 3] * 10, many.index]))


def test_only_what_is_allowed_is_played():
    assert forbidden(learner_of(stock())) == 0
    assert forbidden(learner_of("skew")) > 20  # negative control: without masks


@pytest.mark.slow
def test_estimates_of_what_is_allowed_are_unbiased():
    learner = learner_of(stock(), bonus=False)
    play(learner, 40)
    learner.ask(context=0)
    losses = linear_losses(learner)
    expected = losses - learner.engine.center
    np.testing.assert_allclose(mean_change(learner, losses, np.array(LAWS["skew"])), expected, atol=1e-9)  # fmt: skip


def test_probabilities_are_those_of_actions_and_draws_follow_them():
    learner = learner_of(stock())
    play(learner, 300)
    laws = np.array([learner.distribution_for(c) for c in range(4)])
    assert np.all(laws[~MASKS] == 0)
    np.testing.assert_allclose(laws.sum(axis=1), 1)
    rows = np.repeat([0, 3], 4000)
    many = learner.ask(8000, context=rows)
    after = inside.exp2(learner).epoch.law.p
    np.testing.assert_allclose(many.probability, learner.engine.by_action(after)[rows, many.index])
    for c in (0, 3):
        counts = np.bincount(many.index[rows == c], minlength=5)
        p = learner.engine.by_action(after)[c]
        assert agrees(by_counts(counts, p))
        assert differs(by_counts(counts, np.roll(p, 1)))
    one = learner.ask(context=3)
    assert one.probability == pytest.approx(learner.distribution_for(3)[one.index])


def test_the_best_of_what_is_allowed_is_recommended():
    learner = learner_of(stock(law="even"), bonus=False)
    coins = np.random.default_rng(0)
    for _ in range(1500):
        decision = learner.ask(context=int(coins.integers(4)))
        learner.tell(decision, float((decision.action[0] - 0.75) ** 2))
    assert [learner.recommend(c).index for c in range(4)] == [4, 3, 3, 2]


def test_the_bound_is_that_of_as_many_actions():
    free, bound = learner_of("skew"), learner_of(stock()).guarantee()
    assert bound.valid
    assert bound.proved
    assert bound.total <= free.guarantee().total * (1 + 1e-6)  # no more features, the same log K
    every = stock(np.ones_like(MASKS))
    assert learner_of(every).guarantee().total == free.guarantee().total
    assert learner_of(every).ask(context=0).index == free.ask(context=0).index


def test_snapshots_and_params():
    space = kl.Space(price=kl.Choice([1, 2, 3, 4, 5]))
    learner = kl.BanditExpWeights(
        space, horizon=500, kernel="auto", loss_range=(0, 1), contexts=stock(), rng=0
    )
    decision = learner.ask(context=2)
    assert decision.params == {"price": 4}
    learner.tell({"price": 4}, 0.5)  # whichever pair stood for it
    assert learner.ledger.heard == 1
    again = kl.BanditExpWeights.from_state(learner.state())
    assert again.settings.contexts == stock()
    assert [again.ask(context=0).index for _ in range(5)] == [learner.ask(context=0).index for _ in range(5)]  # fmt: skip
    waiting = again.ask(context=2)
    again = kl.BanditExpWeights.from_state(again.state())
    again.tell(waiting.params, 0.5)
    assert again.ledger.heard == 2


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: stock(MASKS[:3]), r"`allowed` must be truth values of shape \(4, actions\)"),
        (lambda: stock(MASKS[0]), r"`allowed` must be truth values of shape \(4, actions\)"),
        (lambda: stock(MASKS * 2), r"`allowed` must be truth values of shape \(4, actions\)"),
        (lambda: stock([[1, 0], [1], [1], [1]]), r"`allowed` must be truth values"),
        (lambda: stock(np.eye(4, 5, k=2) == 1), "`allowed` must leave an action in every context, got none in row 3"),
        (lambda: learner_of(stock(MASKS[:, :4])), "`allowed` of `contexts` must have 5 columns.*got 4"),
        (
            lambda: kl.InsuredBandit(PRICES, kl.Gaussian(0.5), horizon=500, loss_range=(0, 1), contexts=stock()),
            "where a policy is insured",
        ),
        (
            lambda: kl.BanditExpWeights(kl.Box([0], [1]), kl.Gaussian(0.5), horizon=500, loss_range=(0, 1), contexts=stock()),
            "`actions` must be Points where `contexts` allow some",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
