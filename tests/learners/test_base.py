"""The ledger by itself, and requests for which a learner has no use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import koloss as kl
from koloss.errors import UnknownDecision
from koloss.learners.ledger import Decision, Ledger


@dataclass(eq=False)
class Stage:
    """A law that counts how often it is asked to shrink."""

    number: int
    together: bool = True
    shrunk: int = 0

    def shrink(self):
        self.shrunk += 1


def decision(ledger, i):
    return Decision(i, np.zeros(1), None, None, 0, ledger.mark)


# The ledger.


def test_ledger_enters_finds_and_settles():
    ledger, first, second = Ledger(), Stage(1), Stage(2)
    ids = ledger.enter(first, "ab"), ledger.enter(first, "c"), ledger.enter(second, "d")
    assert ids == (0, 2, 3)
    assert (first.shrunk, second.shrunk, ledger.current) == (1, 0, second)
    assert (ledger.made, len(ledger), ledger.unheard) == (4, 4, 4)
    assert "".join(f"{e.id}{e.key}{e.law.number} " for e in ledger) == "0a1 1b1 2c1 3d2 "
    mixed = ledger.find([3, decision(ledger, 0), [np.int64(2)]])
    assert [entry.key for entry in mixed] == ["d", "a", "c"]
    ledger.settle(ledger.find([0, 1]))
    assert (ledger.heard, ledger.late, len(ledger)) == (2, 0, 2)
    ledger.enter(second, "e")
    ledger.settle(ledger.find(3))
    assert (ledger.late, ledger.total_delay, ledger.longest_delay) == (1, 2, 2)
    ledger.settle(ledger.find(4))
    assert (ledger.late, ledger.total_delay, ledger.longest_delay) == (2, 3, 2)


def test_ledger_names_what_is_wrong():
    ledger = Ledger()
    ledger.enter(None, [None] * 3)
    ledger.settle(ledger.find(0))
    for told, message in [
        (0, "got 0, which was told already$"),
        (3, "got 3, which was never made"),
        (-1, "got -1, which was never made"),
        ([1, 1], "must not repeat an id"),
        (decision(Ledger(), 1), "got one of another learner"),
    ]:
        with pytest.raises(UnknownDecision, match=message):
            ledger.find(told)
    ledger.forget(1)
    with pytest.raises(UnknownDecision, match="got 1, which was told already or forgotten"):
        ledger.find(1)
    for told in (True, np.True_, 1.0, "1", b"1", None, object()):
        with pytest.raises(TypeError, match="`decision` must be a Decision or its id, got"):
            ledger.find(told)


def test_whoever_has_no_use_for_a_context_says_so():
    learner = kl.BanditExpWeights(kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=10, rng=0)
    before = learner.state()["digest"]
    with pytest.raises(ValueError, match="`context` must be left out by a learner without `cont"):
        learner.ask(context=0)
    assert learner.state()["digest"] == before


@pytest.mark.parametrize("kind", [kl.ConditionalGradient, kl.FollowTheRegularizedLeader])
def test_whoever_plays_all_actions_says_so(kind):
    learner = kind(kl.Points([[0.0], [1.0]]), kernel=kl.Gaussian(0.5), horizon=10, rng=0)
    before = learner.state()["digest"]
    with pytest.raises(ValueError, match="`allowed` must be left out: this learner chooses among"):
        learner.ask(2, allowed=[0])
    assert learner.state()["digest"] == before
