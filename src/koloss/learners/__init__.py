"""Learners: ask for a decision, tell its loss, read the guarantee."""

from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.base import Learner, Recommendation
from koloss.learners.full.conditional_gradient import ConditionalGradient
from koloss.learners.full.exp_weights import ExpWeights
from koloss.learners.full.follow_the_leader import FollowTheRegularizedLeader
from koloss.learners.insured.insured_bandit import InsuredBandit
from koloss.learners.insured.policies import Policy
from koloss.learners.ledger import Decision, Decisions
from koloss.learners.snapshots import load_state, save_state

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
