"""Who plays: the learners, each reading like its box in the paper."""

from koloss.learners._former import Decision, Decisions, load_state, save_state
from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.full.conditional_gradient import ConditionalGradient
from koloss.learners.full.exp_weights import ExpWeights
from koloss.learners.full.follow_the_leader import FollowTheRegularizedLeader
from koloss.learners.insured.insured_bandit import InsuredBandit
from koloss.learners.insured.policies import Policy

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
