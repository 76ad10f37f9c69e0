"""The one place where tests look into the bandit learner."""

from __future__ import annotations


def algorithm(learner):
    """Algorithm 1 itself, an `Exp2`, whose names are public: θ, the epoch in play, the law of the next decision."""
    return learner._exp2
