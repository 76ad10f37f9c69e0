"""Learners, policies and losses that several tests of the insured learner play."""

from __future__ import annotations

import numpy as np

import koloss as kl

POINTS = kl.Points(np.random.default_rng(5).random((30, 2)))
POLICIES = ("ucb", "thompson")


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
