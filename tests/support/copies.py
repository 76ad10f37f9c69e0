"""Learners that are made once and copied: a design takes a hundred times as long as a copy."""

from __future__ import annotations

import copy

from koloss.core.random import LEARNERS, as_generator
from koloss.learners.ledger import new_mark
from tests.support import inside


def fresh_copy(learner, rng=None):
    """A copy that takes no decision of another's; with a seed as if made with it, where making uses no random numbers."""
    again = copy.deepcopy(learner)
    again.ledger.mark = new_mark()
    if rng is not None:
        inside.coins(again, as_generator(rng, LEARNERS))
    return again
