"""Where a family of losses meets an action set: which engine of a room is for the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koloss.actions import ActionSet
from koloss.kernels.loss import Loss

Engines = Mapping[tuple[Any, Any], Any]
"""By a family of losses and a kind of set; the first that fits counts."""


def engine_of(engines: Engines, family: type, actions: ActionSet) -> Any:
    """The engine for a family of losses on a set; None where there is none."""
    for (losses, kind), engine in engines.items():
        if issubclass(family, losses) and isinstance(actions, kind):
            return engine
    return None


def engine_for(name: str, engines: Engines, loss: Any, actions: ActionSet) -> Any:
    """The engine for a loss on a set, or a TypeError that lists those there are."""
    engine = engine_of(engines, type(loss), actions)
    if engine is None:
        pairs = ", ".join(f"{family.__name__} on {kind.__name__}" for family, kind in engines)
        given = f"{type(loss).__name__} on {type(actions).__name__}"
        raise TypeError(f"no {name} for {given}; there are: {pairs}")
    return engine


def check_dimension(loss: Loss, actions: ActionSet) -> None:
    """Refuse a loss that is not of the dimension of the actions."""
    if loss.dimension != actions.dimension:
        raise ValueError(
            f"`loss` must have the dimension of the actions, {actions.dimension}, got {loss.dimension}"
        )
