"""Who plays: the learners, each reading like its box in the paper."""

from koloss.learners.bandit_exp_weights import BanditExpWeights
from koloss.learners.base import Decision, Decisions, load_state, save_state
from koloss.learners.conditional_gradient import ConditionalGradient
from koloss.learners.exp_weights import ExpWeights
from koloss.learners.follow_the_leader import FollowTheRegularizedLeader
from koloss.learners.insured_bandit import InsuredBandit
from koloss.learners.insured_policies import Policy

__all__ = [
    "BanditExpWeights",
    "ConditionalGradient",
    "Decision",
    "Decisions",
    "ExpWeights",
    "FollowTheRegularizedLeader",
    "InsuredBandit",
    "Policy",
    "load_state",
    "save_state",
]
