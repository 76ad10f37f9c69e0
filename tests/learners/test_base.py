"""The parts of the contract by themselves: the ledger, settings, losses that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.errors import LossOutOfBounds, UnknownDecision
from koloss.learners.ledger import Decision, Ledger
from koloss.learners.losses import read_losses
from koloss.learners.settings import Settings


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


def test_ledger_keeps_contexts():
    ledger, law = Ledger(), Stage(1)
    ledger.enter(law, "ab", np.array([3, 5]))
    ledger.enter(law, "c", (7,))
    assert [entry.context for entry in ledger] == [3, 5, 7]


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


# Settings.


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """Settings of no learner."""

    weight: Any = 1.0
    parts: Any = None


POINTS, KERNEL = kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5)


def own(**settings):
    return Own(**{"actions": POINTS, "kernel": KERNEL, "horizon": 10} | settings)


def test_settings_are_read_from_a_constructor():
    class Thing:
        def __init__(self, actions, kernel, *, horizon=5, weight=1.0, parts=None):
            self.settings = Own.of(locals())

    assert Thing(POINTS, KERNEL, weight=3.0).settings == own(horizon=5, weight=3.0)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"actions": [[0.0]]}, "`actions` must be an ActionSet, got list"),
        ({"kernel": 3.0}, "`kernel` must be a Kernel, or have k.* got float"),
        ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
        ({"horizon": 1.5}, "`horizon` must be an integer"),
    ],
)
def test_settings_that_all_learners_check(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        own(**settings)


def test_settings_as_text_leave_out_defaults():
    written = "Points([[0.0], [1.0]]), Gaussian(bandwidth=0.5)"
    assert own().describe("Own") == f"Own({written}, horizon=10)"
    shown = own(horizon=None, weight=np.ones(2), parts=["a"]).describe("Own")
    assert shown == f"Own({written}, horizon=None, weight=array([1., 1.]), parts=('a',))"
    assert own(weight=1.0).is_default("weight")
    assert not own(weight=1).is_default("weight")  # another type
    assert not own(weight=np.ones(3)).is_default("weight")


# Losses that are numbers.


def test_losses_are_one_per_decision_and_in_the_interval():
    assert list(read_losses([0, 1, 0.5], 3, 0.0, 1.0)) == [0.0, 1.0, 0.5]
    assert list(read_losses(1 + 1e-12, 1, 0.0, 1.0)) == [1 + 1e-12]  # rounding
    assert list(read_losses([], 0, 0.0, 1.0)) == []
    with pytest.raises(LossOutOfBounds, match=r"`loss` must be in \[-1, 2\], got 3"):
        read_losses([0.0, 3.0], 2, -1.0, 2.0)
    for wrong in ([0.1], [0.1] * 3, [[0.1, 0.2]], 0.5):
        with pytest.raises(ValueError, match="`loss` must have 2 entries, one per decision, got"):
            read_losses(wrong, 2, 0.0, 1.0)
    for wrong in ([0.1, [0.2]], [0.1, True], [np.ma.masked, 0.1], ["0.1", "0.2"], {0.1, 0.2}):
        with pytest.raises(TypeError, match="`loss` must be a number"):
            read_losses(wrong, 2, 0.0, 1.0)
