"""Copies of a learner in forked processes: they are noticed, and can become learners of their own."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import koloss as kl
from koloss.errors import ForkedLearner, UnknownDecision
from tests.support import inside
from tests.support.cases import LEARNERS, POINTS
from tests.support.forks import in_fork

needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")


def make(**settings):
    settings = {"horizon": 400, "loss_range": (0, 1), "rng": 0} | settings
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **settings)


def indices(learner, count=40):
    return [learner.ask().index for _ in range(count)]


@pytest.mark.slow
@needs_forks
def test_every_learner_notices_and_can_go_on(case):
    learner = case.make()
    waiting = learner.ask()

    def work():
        errors = []
        calls = (learner.ask, lambda: learner.tell(waiting, case.loss(waiting.action, 0)))
        for call in (*calls, lambda: learner.forget(waiting)):
            try:
                call()
            except ForkedLearner as error:
                errors.append(str(error).partition(" is a fork of ")[0])
        learner.state()  # a snapshot can be taken
        learner.reseed()
        learner.tell(waiting.id, case.loss(waiting.action, 0))
        mine = learner.ask()
        learner.tell(mine, case.loss(mine.action, 1))
        return errors, mine

    errors, theirs = in_fork(work)
    assert errors == ["this process"] * 3
    with pytest.raises(UnknownDecision, match="one of another learner"):
        learner.tell(theirs, case.loss(theirs.action, 1))
    learner.tell(waiting, case.loss(waiting.action, 0))


@pytest.mark.process
@needs_forks
def test_children_of_children():
    def child():
        made_here = make()
        made_here.ask()
        return type(in_fork(made_here.ask)), type(in_fork(lambda: make().ask()))

    assert in_fork(child) == (ForkedLearner, kl.learners.Decision)


@pytest.mark.process
@needs_forks
def test_a_learner_that_another_thread_was_changing_is_not_used():
    learner = make()
    held, done = threading.Event(), threading.Event()

    def hold():
        with inside.lock(learner):
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    answer = in_fork(learner.reseed)
    done.set()
    thread.join()
    assert isinstance(answer, ForkedLearner)
    assert "another thread was changing this learner" in str(answer)


# Copies, in any process.


@pytest.mark.parametrize(
    "name", ["bandit", "bandit, ball", "exp weights, points", "leader, points"]
)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_has_the_same_coins_until_it_is_reseeded(name, copied):
    learner = LEARNERS[name].make()
    learner.ask()  # on a ball more are drawn ahead
    same, other, again = copied(learner), copied(learner), copied(learner)
    other.reseed(1)
    again.reseed(np.int64(1))
    actions = [
        [one.ask().action.tolist() for _ in range(20)] for one in (learner, same, other, again)
    ]
    assert actions[0] == actions[1] != actions[2] == actions[3]


def test_reseeding_gives_decisions_a_new_mark_and_forgets_none():
    learner = make()
    before, kept = learner.ask(), learner.ask()
    learner.reseed(5)
    with pytest.raises(UnknownDecision, match="one of another learner"):
        learner.tell(before, 0.5)
    learner.tell(before.id, 0.5)
    learner.tell(learner.ask(), 0.5)
    assert learner.diagnostics.outstanding == 1
    again = kl.BanditExpWeights.from_state(learner.state())
    again.tell(kept.id, 0.5)
    assert indices(again) == indices(learner)


def test_a_bad_seed_changes_nothing():
    learner, same = make(), make()
    decision = learner.ask()
    same.ask()
    for bad in (-1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="`rng` must be a seed"):
            learner.reseed(bad)
    learner.tell(decision, 0.5)
    same.tell(0, 0.5)
    assert indices(learner) == indices(same)
