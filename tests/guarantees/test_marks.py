"""No mark says more than is known: games that plainly break an assumption, and what is printed of it."""

from __future__ import annotations

import numpy as np
import pytest

import koloss as kl
from koloss.guarantees.promises import Played, in_time
from tests.support.clauses import clause_of, marks, remarks

TWO = kl.Points([[0.0], [1.0]])


def bandit(horizon=400, **settings):
    settings = {"loss_class": "any", "loss_range": (0, 1), "rng": 0, **settings}
    return kl.BanditExpWeights(TWO, kl.Gaussian(0.3), horizon=horizon, **settings)


def insured(horizon=400, **settings):
    settings = {"loss_range": (0, 1), "rng": 0, **settings}
    return kl.InsuredBandit(TWO, kl.Gaussian(0.3), horizon=horizon, **settings)


# The range of losses: of those that were never received nobody knows.


@pytest.mark.parametrize("make", [bandit, insured])
def test_a_range_is_never_said_to_hold(make):
    learner = make(horizon=60)
    assert marks(learner.guarantee())["range"] is None
    for _ in range(60):
        learner.tell(learner.ask(), 0.5)
        assert marks(learner.guarantee())["range"] == "so far"
    assert "every loss is in [0, 1] [held so far]" in str(learner.guarantee())


def test_losses_that_nobody_received_may_be_anywhere():
    """One action loses -100 in the last rounds: where it is not played then the bound is false, and no error can say so."""
    n, ended = 400, []
    for seed in range(6):
        learner, regret = bandit(n, rng=seed), 0.0
        for t in range(n):
            losses = (0.0, 1.0) if t < n - 10 else (0.0, -100.0)
            decision = learner.ask()
            if losses[decision.index] < 0:
                with pytest.raises(ValueError, match="must be in"):
                    learner.tell(decision, losses[decision.index])
                break
            learner.tell(decision, losses[decision.index])
            regret += losses[decision.index] - losses[1]
        else:
            promise = learner.guarantee()
            assert clause_of(promise, "range").numbers == {"low": 0.0, "high": 1.0}
            assert marks(promise)["range"] == "so far"
            assert regret > 10 * promise.total
            ended.append(seed)
    assert len(ended) >= 3


def test_with_full_information_a_range_holds_once_every_loss_was_told():
    """There losses are functions, and each is checked at all actions."""
    learner = kl.ExpWeights(TWO, kl.Gaussian(0.3), horizon=5, loss_range=(0, 1), rng=0)
    seen = [marks(learner.guarantee())["width"]]
    for _ in range(5):
        learner.tell(learner.ask(), np.array([0.0, 1.0]))
        seen.append(marks(learner.guarantee())["width"])
    assert seen == [None, *["so far"] * 4, True]


# Delays.


def test_a_decision_that_waits_too_long_is_late_before_its_loss_is_received():
    learner = bandit(delay=1)
    assert marks(learner.guarantee())["in time"] is None
    first = learner.ask()
    learner.tell(learner.ask(), 0.5)
    assert marks(learner.guarantee())["in time"] == "so far"
    learner.tell(learner.ask(), 0.5)  # the second that came before the first one's
    promise = learner.guarantee()
    assert marks(promise)["in time"] is False
    assert not promise.valid
    assert promise.in_words().startswith("No guarantee")
    learner.tell(first, 0.5)
    assert marks(learner.guarantee())["in time"] is False  # it was late, and stays so


def test_a_delay_holds_only_when_all_losses_were_received():
    learner = bandit(horizon=3, delay=2)
    waiting = [learner.ask() for _ in range(3)]
    seen = []
    for decision in waiting:
        seen.append(marks(learner.guarantee())["in time"])
        learner.tell(decision, 0.5)
    assert seen == [None, "so far", "so far"]
    assert marks(learner.guarantee())["in time"] is True
    assert marks(learner.guarantee())["arrival"] is None  # nobody but the user can know


@pytest.mark.parametrize("made, heard, waited, unheard, mark", [
    (0, 0, 0, 0, None),
    (5, 0, 0, 5, None),
    (5, 5, 2, 0, "so far"),
    (10, 9, 2, 1, "so far"),
    (10, 10, 2, 0, True),
    (10, 10, 3, 0, False),
    (5, 0, 3, 5, False),
])  # fmt: skip
def test_the_mark_of_a_delay(made, heard, waited, unheard, mark):
    played = Played(made=made, heard=heard, longest_delay=waited, unheard=unheard)
    assert in_time(2, played, 10) is mark or in_time(2, played, 10) == mark == "so far"


# Losses that are never received.


def test_losses_that_are_received_by_action_break_the_bound_and_a_clause_that_is_printed():
    """The losses of the better action are never told, so that the other one seems to be all there is."""
    n, regrets, promise = 2000, [], None
    for seed in range(3):
        learner, regret = bandit(n, batch=1, rng=seed), 0.0
        for _ in range(n):
            decision = learner.ask()
            loss = (0.0, 0.25)[decision.index]
            regret += loss
            if decision.index == 0:
                learner.forget(decision)
            else:
                learner.tell(decision, loss)
        regrets.append(regret)
        promise = learner.guarantee()
        assert marks(promise)["missing"] is None
    assert np.mean(regrets) > 1.3 * promise.total
    assert "depends neither on the action nor on the loss [yours to know]" in str(promise)


@pytest.mark.parametrize("make", [bandit, insured])
@pytest.mark.parametrize("horizon", [400, None])
def test_missing_losses_are_named_as_soon_as_one_is_missing(make, horizon):
    learner = make(horizon)
    rounds = {} if horizon else {"rounds": 400}
    learner.tell(learner.ask(), 0.5)
    assert "missing" not in marks(learner.guarantee(**rounds))
    learner.forget(learner.ask())
    assert marks(learner.guarantee(**rounds))["missing"] is None


# Shares: against whom.


def test_what_shares_cost_is_added_where_the_comparator_is_one_action():
    learner = bandit(horizon=100_000, shares={(0,): (0.1, 1.0)})
    promise = learner.guarantee()
    assert promise.comparator == "law"
    assert "shares" not in promise.terms
    assert promise.price == pytest.approx(
        0.1 * 100_000
    )  # ρ n (1 - largest share that each can have)
    played = promise.against(oblivious=True)
    assert played.terms == {**promise.terms, "shares": promise.price}
    assert (played.price, played.comparator) == (0, "action")
    assert "shares" in remarks(promise)
    assert "shares" not in remarks(played)
    assert played.against(oblivious=True) == played  # once
