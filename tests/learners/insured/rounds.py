"""Explorations, stages and rounds on a few actions, for tests of one policy under watch."""

from __future__ import annotations

import math

import numpy as np

import koloss as kl
from koloss.designs import barycentric_spanner, john_design, uniform_design, whiten
from koloss.learners.insured.account import Account, Allowance
from koloss.learners.insured.evidence import Bets
from koloss.learners.insured.exploration import Exploration
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import Ucb
from koloss.learners.insured.watched import JUMP, Watched

N, M = 14, 4
DESIGNS = {"john": john_design, "spanner": barycentric_spanner, "uniform": uniform_design}


def raw_features(seed=0, *, correlated=False):
    """Features with a constant, whitened by nothing yet."""
    rng = np.random.default_rng(seed)
    if correlated:  # smooth bumps on a line: neighbours nearly equal
        x = np.linspace(0, 1, N)
        return kl.kernel_pca(kl.Gaussian(0.4), kl.Points(x[:, None]), rank=M).features + 1.0
    return np.column_stack([rng.normal(size=(N, M - 1)), np.ones(N)])


def make_exploration(design="john", seed=0, *, correlated=False):
    features = raw_features(seed, correlated=correlated)
    weighed = DESIGNS[design](features)
    white = np.asfortranarray(whiten(features, weighed).features)
    return Exploration(1, white, np.asarray(weighed.weights))


def make_stage(exploration=None, *, cap=math.inf, budget=1e9, kind=Watched):
    """A policy under watch, whose losses are entered within a budget; those of rounds are given to what is tested."""
    first = exploration or EXPLORATIONS["john"]
    unit = budget / math.sqrt(1000)
    allowance = Allowance(1.0, 0.5, unit, 1000, 0, cap, overdraft=math.inf)
    points, forecaster = np.arange(N)[:, None], Forecaster(first.features)
    return kind(points, Ucb(0.3), forecaster, first, allowance, Account(N), Pending(forecaster))


class Fixed(Watched):
    """Explores a share that is given."""

    share = 0.1

    def rate_needed(self, choice, budget, exploration=None, weight=1.0):
        return self.share * JUMP


class Known:
    """A forecast without doubt."""

    def __init__(self, mean):
        self.mean, self.deviation = np.asarray(mean, dtype=float), np.zeros(len(mean))


def hear(stage, played, index, y, *, explored=False):
    """A stage hears the loss of a round that it has drawn; why it ends, if it does."""
    if played.counted:
        stage.account.draw()
    return stage.learn(played, ~index if explored else index, y, 0)


def redesigned(seed=0, *, correlated=False):
    """An exploration with prices that differ a lot."""
    gaps = np.random.default_rng(seed).exponential(30.0, size=N)
    first = make_exploration(seed=seed, correlated=correlated)
    return first.priced(2, 1 + (gaps - gaps.min()) / 24)


EXPLORATIONS = {
    "john": make_exploration(),
    "spanner": make_exploration("spanner", 1),
    "uniform": make_exploration("uniform", 2),
    "correlated": make_exploration(correlated=True),
    "redesigned": redesigned(),
    "redesigned, correlated": redesigned(3, correlated=True),
}


def laws(seed=0):
    rng = np.random.default_rng(seed)
    return [np.eye(N)[3], np.ones(N) / N, rng.dirichlet(np.full(N, 0.2)), rng.dirichlet(np.ones(N))]


def round_of(place, proposal, rate, prediction=None):
    """A round with this share of exploration, made by a stage that asks for no more and no less."""
    stage = make_stage(place, kind=Fixed)
    stage.share, stage.bets = rate, Bets(explored_rounds=1, explored_mean=1.0)  # no suspicion
    return stage.next_round(proposal, np.zeros(N) if prediction is None else prediction, 1e9)


def all_estimates(played):
    """k(a, b) for all pairs, as the round has it."""
    return np.stack([played.estimates(b) for b in range(N)], axis=1)


def by_inversion(place, p):
    """k(a, b) for all pairs, from the covariance itself."""
    W = place.features
    return W @ np.linalg.inv(W.T @ (p[:, None] * W)) @ W.T
