"""Learners: ask for a decision, tell its loss, read the guarantee."""

from typing import TYPE_CHECKING

from koloss.core.snapshot import load_state, save_state
from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.base import Learner, Recommendation
from koloss.learners.ledger import Decision, Decisions

# Half of the files are for learners that a program may not use: they are loaded when they are first named.
if TYPE_CHECKING:
    from koloss.learners.full.conditional_gradient import ConditionalGradient
    from koloss.learners.full.exp_weights import ExpWeights
    from koloss.learners.full.follow_the_leader import FollowTheRegularizedLeader
    from koloss.learners.insured.insured_bandit import InsuredBandit
    from koloss.learners.insured.policies import Policy
else:
    _LAZY = {
        "ConditionalGradient": "koloss.learners.full.conditional_gradient",
        "ExpWeights": "koloss.learners.full.exp_weights",
        "FollowTheRegularizedLeader": "koloss.learners.full.follow_the_leader",
        "InsuredBandit": "koloss.learners.insured.insured_bandit",
        "Policy": "koloss.learners.insured.policies",
    }

    def __getattr__(name):
        import importlib

        if name not in _LAZY:
            raise AttributeError(f"module 'koloss.learners' has no attribute {name!r}")
        globals()[name] = value = getattr(importlib.import_module(_LAZY[name]), name)
        return value


__all__ = [
    "BanditExpWeights",
    "ConditionalGradient",
    "Decision",
    "Decisions",
    "ExpWeights",
    "FollowTheRegularizedLeader",
    "InsuredBandit",
    "Learner",
    "Policy",
    "Recommendation",
    "load_state",
    "save_state",
]
