"""Who plays: the learners, each reading like its box in the paper."""

from koloss.learners.bandit_exp_weights import BanditExpWeights
from koloss.learners.base import Decision, Decisions, load_state, save_state

__all__ = ["BanditExpWeights", "Decision", "Decisions", "load_state", "save_state"]
