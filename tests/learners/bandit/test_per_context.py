"""A player per context does in every context what a learner without contexts does, and says what is proved of it."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from tests.support import inside
from tests.support.clauses import marks

PRICES = kl.Points(np.linspace(0, 1, 5)[:, None])
LABELS = ["new", "regular", "business"]
MASKS = [[1, 1, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0]]
STOCK = kl.Contexts(LABELS, allowed=MASKS)

COMBINATIONS = {
    "plain": ({}, True),
    "no horizon": ({"horizon": None}, True),
    "weights, no horizon": (
        {"horizon": None, "contexts": kl.Contexts(LABELS, weights=[0.5, 0.3, 0.2])},
        True,
    ),
    "epochs": ({"batch": 5}, True),
    "delay": ({"delay": 20}, True),
    "hold": ({"hold": 3}, True),
    "learned range": ({"loss_range": "learn"}, False),
    "learned range, epochs": ({"loss_range": "learn", "batch": 4}, False),
    "widened range": ({"loss_range": (0.3, 0.6), "outside": "widen"}, True),
    "clipped": ({"loss_range": (0, 0.6), "outside": "clip"}, True),
    "shares": ({"shares": {0: (0.1, 0.5), (3, 4): (0, 0.6)}}, True),
    "prior": ({"prior": [0.4, 0.3, 0.1, 0.1, 0.1]}, True),
    "ridge": ({"ridge": 0.01}, True),
    "ridge, no horizon": ({"ridge": 0.01, "horizon": None}, False),
    "hindsight": ({"regret": "hindsight"}, False),
    "sampled": ({"covariance": "sampled"}, False),
    "any losses": ({"loss_class": "any"}, True),
    "design": ({"design": "spanner", "proxy": "exact_features"}, True),
    "rates": ({"learning_rate": 0.1, "exploration_rate": 0.2}, True),
    "rewards": ({"goal": "maximize"}, True),
    "stock": ({"contexts": STOCK}, True),
    "stock, no horizon": ({"contexts": STOCK, "horizon": None}, True),
    "stock, ridge": ({"contexts": STOCK, "ridge": 0.01}, True),
    "stock, any losses": ({"contexts": STOCK, "loss_class": "any"}, True),
    "stock, range, rewards": (
        {"contexts": STOCK, "loss_range": "learn", "goal": "maximize"},
        False,
    ),
    "stock, shares, epochs": ({"contexts": STOCK, "shares": {1: (0, 0.7)}, "batch": 3}, True),
}


def learner_of(horizon=400, **settings):
    said = {"contexts": kl.Contexts(LABELS), "loss_range": (0, 1), "rng": 0} | settings
    return kl.BanditExpWeights(PRICES, kl.Quadratic(), horizon=horizon, **said)


def play(learner, rounds, *, allowed=False, waiting=None, begin=0):
    """What was decided in a game whose losses come up to eleven rounds late, those of a third of the rounds in the end."""
    waiting, made = [] if waiting is None else waiting, []
    for t in range(begin, begin + rounds):
        c = (t * t + t // 7) % 3
        if allowed and t == begin + rounds // 3:
            learner.withdraw([1])
        if allowed and t == begin + rounds // 2:
            learner.add([1])
        among = {"allowed": [0, 2, 3]} if allowed and t % 4 == 0 else {}
        if t % 19 == 0:
            batch = learner.ask(4, context=[LABELS[c], "new", "new", LABELS[c]], **among)
            learner.tell(batch, 0.3 + 0.1 * batch.index)
            made += batch.index.tolist()
        decision = learner.ask(context=LABELS[c], **among)
        made.append((decision.index, decision.probability))
        waiting.append((decision.id, 0.2 + 0.6 * ((decision.index + c + t) % 5) / 4))
        while len(waiting) > t % 12:
            learner.tell(*waiting.pop(0 if t % 3 else -1))
    return made


@pytest.mark.parametrize("allowed", [False, True], ids=["all", "some"])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_combination_plays_late_says_what_is_proved_and_resumes(name, allowed):
    settings, proved = COMBINATIONS[name]
    learner, waiting = learner_of(**settings), []
    first = learner.guarantee()
    assert first.proved == proved
    assert first.comparator == ("mapping law" if "shares" in settings else "mapping")
    assert first.proved or any("not covered" in one for one in first.notes)
    made = play(learner, 100, allowed=allowed, waiting=waiting)
    again = kl.BanditExpWeights.from_state(learner.state())
    left = list(waiting)
    after = play(learner, 100, allowed=allowed, waiting=waiting, begin=100)
    assert after == play(again, 100, allowed=allowed, waiting=left, begin=100)
    assert len({str(one) for one in made}) > 3
    # Batches, late losses and rounds among some of the actions are not covered, and the guarantee says so.
    promise = learner.guarantee()
    assert not promise.proved
    assert str(promise) == str(again.guarantee())
    assert np.isfinite(promise.total)
    assert (
        "with contexts rounds among some of the actions are not covered" in promise.notes
    ) == allowed
    for row, label in enumerate(LABELS):
        law = learner.distribution_for(label)
        assert law.sum() == pytest.approx(1)
        assert law[learner.recommend(label).index] > 0
        if settings.get("contexts") is STOCK:
            assert not law[np.array(MASKS[row]) == 0].any()
    seen = learner.diagnostics
    assert seen.contexts.sum() == seen.rounds == learner.ledger.made
    assert seen.estimated_losses.shape == (3, 5)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_a_copy_that_has_not_begun_plays_like_a_new_learner(name):
    settings, _ = COMBINATIONS[name]
    learner = learner_of(**settings)
    play(learner, 20)
    assert play(learner.replicate(0), 30) == play(learner_of(**settings), 30)


@pytest.mark.parametrize("settings", [{}, {"horizon": None}, {"ridge": 0.01}], ids=str)
def test_a_context_with_a_mask_is_a_learner_of_these_actions(settings):
    said = {"horizon": 400, "loss_range": (0, 1), "rng": 0, "batch": 1} | settings
    if said["horizon"] is None:
        said["ridge"] = 0
    mask = np.array([1, 0, 1, 0, 1], dtype=bool)
    stock = kl.Contexts(["all"], allowed=mask[None])
    learner = kl.BanditExpWeights(PRICES, kl.Linear(), contexts=stock, **said)
    plain = kl.BanditExpWeights(kl.Points(PRICES.X[mask]), kl.Linear(), **said)
    if "ridge" not in settings:  # where a penalty is relative to the features of all
        rates = learner.rates.learning_rate, learner.rates.exploration
        assert rates == pytest.approx(
            (plain.rates.learning_rate, plain.rates.exploration), rel=1e-6
        )
        assert learner.guarantee(rounds=400).total == pytest.approx(plain.guarantee(rounds=400).total, rel=1e-6)  # fmt: skip
    for t in range(60):
        law = learner.distribution_for("all")
        assert not law[~mask].any()
        if "ridge" not in settings:
            np.testing.assert_allclose(law[mask], plain.distribution, rtol=1e-6)
        left, right = learner.ask(context="all"), plain.ask()
        assert np.flatnonzero(mask)[right.index] == left.index or "ridge" in settings
        learner.tell(left, (t + left.index) % 5 / 4)
        plain.tell(right, (t + left.index) % 5 / 4)


def test_late_losses_are_covered_by_a_delay():
    """Where contexts, like losses, do not look at the learner."""
    for delay in (0, 4):
        learner, waiting = learner_of(delay=delay), []
        for t in range(60):
            waiting.append(learner.ask(context=LABELS[t % 2]))
            if t >= 3:
                learner.tell(waiting.pop(0), 0.5)
        promise = learner.guarantee()
        assert promise.proved == (delay > 0)
        assert ("late order" in marks(promise)) == (delay > 0)
        assert ("any order" in marks(promise)) == (delay == 0)


def test_all_contexts_have_one_range():
    learner = learner_of(loss_range="learn")
    for loss, label in ((3.0, "new"), (5.0, "regular"), (4.0, "new")):
        learner.tell(learner.ask(context=label), loss)
    heard = inside.exp2(learner).range
    assert (heard.heard_low, heard.heard_high) == (3.0, 5.0)
    assert all(one.range is heard for one in inside.exp2(learner).each)


def test_players_are_made_when_their_context_first_comes():
    learner = learner_of()
    learner.tell(learner.ask(context="regular"), 0.5)
    learner.distribution_for("business"), learner.diagnostics  # looking makes none
    assert list(inside.exp2(learner).players) == [1]
    assert len({id(one) for one in inside.exp2(learner).engines}) == 1  # alike, and made once


def test_an_action_is_left_in_every_context():
    learner = learner_of(contexts=STOCK)
    with pytest.raises(ValueError, match="`rows` must leave an action in every context"):
        learner.withdraw(3)
    before = learner.state()["digest"]
    with pytest.raises(ValueError, match="`allowed` must leave an action that the context allows"):
        learner.ask(2, context=["new", "business"], allowed=[0, 1])
    assert learner.state()["digest"] == before
