"""Until all learners have the contract."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np


def feedback_of(learner: Any) -> str:
    from koloss.learners.full.learner import FullInformation

    default = "full" if isinstance(learner, FullInformation) else "bandit"
    return getattr(learner, "feedback", default)


def rank_of(learner: Any) -> tuple[Any, Any]:
    if hasattr(learner, "rank"):
        return learner.rank, learner.epsilon
    if hasattr(learner, "setup"):
        return int(learner.setup.problem.rank), learner.setup.problem.epsilon
    return None, None


def proved(learner: Any, rounds: int | None) -> Any:
    paper = "printed" in signature(learner.guarantee).parameters
    return learner.guarantee(rounds=rounds, **({"printed": False} if paper else {}))


def peek_at(player: Any, rng: np.random.Generator, count: int = 64) -> Any:
    if hasattr(player, "peek"):
        return player.peek(rng, count)
    if isinstance(player.actions, np.ndarray) and not hasattr(player, "mixture"):
        return player.actions, player.distribution
    copy = type(player).from_state(player.state())
    if hasattr(copy, "mixture"):
        return copy.mixture
    copy._rng = rng
    return copy.ask(count).action, np.full(count, 1 / count)
