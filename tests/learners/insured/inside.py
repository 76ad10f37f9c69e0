"""What the insured learner does not show: the stage in play, laws of decisions, the digest of its state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import koloss as kl
from koloss.learners.insured.watched import Watched
from tests.support import inside


def stage_of(learner):
    """The stage in play: a policy under watch, or exponential weights."""
    return inside.stage(learner).playing


def is_robust(learner):
    return not isinstance(stage_of(learner), Watched)


def law_of(learner, decision):
    """What a decision that is outstanding was drawn from."""
    return learner.ledger.find(decision)[0].law


def digest(learner):
    return learner.state()["digest"]


def resumed(state, seed=None, policy=None):
    """The learner of a snapshot, with random numbers of its own where there is a seed."""
    learner = kl.InsuredBandit.from_state(state, policy=policy)
    if seed is not None:
        inside.coins(learner, np.random.default_rng(seed))
    return learner


def with_overdraft(learner, most):
    """The learner with so many decisions that may be open beyond what its budget has room for."""
    stage = inside.latest_stage(learner)
    stage.allowance = replace(stage.allowance, overdraft=most)
    return learner


def worst_loss(learner, decision):
    """The loss, at an end of the range, that raises the estimated regret most."""
    low, high = learner.engine.low, learner.engine.high
    (entry,) = learner.ledger.find(decision)
    stage, law = stage_of(learner), entry.law
    if not isinstance(stage, Watched) or not law.counted:
        return high
    index, M = decision.index, law.prediction
    k = law.estimates(index)
    after = [stage.paid + y - np.min(stage.total + M + k * (y - M[index])) for y in (-0.5, 0.5)]
    return low if after[0] > after[1] else high
