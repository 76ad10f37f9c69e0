"""Learners, policies and losses that several tests of the insured learner play."""

from __future__ import annotations

import numpy as np

import koloss as kl
from koloss.learners.insured.watched import Watched

LEVEL = 1e-6
"""False-alarm level of every statistical test here; seeds are fixed."""

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))
POLICIES = ("ucb", "thompson", "optimistic")


def make(actions=POINTS, kernel=None, **settings):
    settings = {"horizon": 1000, "loss_range": (0, 1), "rng": 0} | settings
    return kl.InsuredBandit(actions, kernel or kl.Gaussian(0.4), **settings)


class Always:
    """One proposal, whatever happens; keeps what it hears."""

    def __init__(self, proposal):
        self.proposal, self.heard = proposal, []

    def propose(self):
        return self.proposal

    def hear(self, index, loss):
        self.heard.append((index, loss))


class Calls(Always):
    """Proposals made by a function of how many there have been, this one included."""

    def __init__(self, function):
        super().__init__(function)
        self.count = 0

    def propose(self):
        self.count += 1
        return self.proposal(self.count)


class Remembers:
    """Plays through the rows, from where its snapshot was taken."""

    def __init__(self):
        self.at = 0

    def propose(self):
        self.at += 1
        return self.at % 30

    def hear(self, index, loss):
        self.at += index

    def state(self):
        return {"at": self.at}

    def restore(self, state):
        self.at = state["at"]


def kind(t):
    """A smooth loss within [0.1, 0.9], the same in every round."""
    X = np.asarray(POINTS.X)
    return 0.1 + 0.8 * np.clip(np.sum((X - X[7]) ** 2, axis=1), 0, 1)


def play(learner, losses, rounds, start=0):
    """Indices that were played against losses(t), told at once."""
    played = []
    for t in range(start, start + rounds):
        decision = learner.ask()
        learner.tell(decision, float(losses(t)[decision.index]))
        played.append(decision.index)
    return played


def worst_loss(learner, decision):
    """The loss, at an end of the range, that raises the estimated regret most."""
    low, high = learner.engine.low, learner.engine.high
    (entry,) = learner.ledger.find(decision)
    stage, law = stage_of(learner), entry.law
    if not isinstance(stage, Watched) or law.number != stage.number or not law.counted:
        return high
    index, M = decision.index, law.prediction
    k = law.estimates(index)
    after = [stage.paid + y - np.min(stage.total + M + k * (y - M[index])) for y in (-0.5, 0.5)]
    return low if after[0] > after[1] else high


def hold(promise):
    """Which assumptions of a guarantee hold, by their text."""
    return {assumption.text: assumption.holds for assumption in promise.assumptions}


# What a learner does not show.


def stage_of(learner):
    """The stage in play: a policy under watch, or exponential weights."""
    return learner._stage


def is_robust(learner):
    return not isinstance(stage_of(learner), Watched)


def law_of(learner, decision):
    """What a decision that is outstanding was drawn from."""
    return learner.ledger.find(decision)[0].law


def digest(learner):
    return learner.state()["digest"]


def goes_on(learner, losses=kind, rounds=30):
    """Whether the learner of a snapshot plays on exactly as the learner itself does."""
    again = resumed(learner.state())
    same = play(again, losses, rounds) == play(learner, losses, rounds)
    return same and digest(again) == digest(learner)


def resumed(state, seed=None, policy=None):
    """The learner of a snapshot, with random numbers of its own where there is a seed."""
    learner = kl.InsuredBandit.from_state(state, policy=policy)
    if seed is not None:
        learner._rng = np.random.default_rng(seed)
    return learner
