"""Actions as users name them: by their rows, or the params of a `Space`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, SpacePoints
from koloss.core.arrays import shown

Bools = NDArray[np.bool_]


def rows_of(name: str, given: Any, actions: ActionSet) -> list[int] | None:
    """Rows of actions that are given by their params, one dict or a list of them; None where they are not."""
    several = [given] if isinstance(given, Mapping) else given
    if not isinstance(several, (list, tuple)) or not several:
        return None
    if not all(isinstance(one, Mapping) for one in several):
        return None
    if not isinstance(actions, SpacePoints):
        rule = "must be rows where the actions are not those of a Space"
        raise TypeError(f"`{name}` {rule}, got {shown(given)}")
    return [actions.find(one) for one in several]


def as_allowed(allowed: Any, actions: ActionSet, count: int) -> Bools | None:
    """Which of so many actions may be chosen: truth values, rows, or params; None where all may."""
    rows = rows_of("allowed", allowed, actions)
    rule = f"must be {count} truth values, or rows, or params"
    try:
        if isinstance(allowed, np.ma.MaskedArray):  # of which some values are none
            raise TypeError
        given = np.asarray(allowed if rows is None else rows)
    except (TypeError, ValueError):  # ragged
        raise TypeError(f"`allowed` {rule}, got {shown(allowed)}") from None
    if given.ndim == 1 and given.size == 0:
        raise ValueError("`allowed` must leave an action, got none")
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise TypeError(f"`allowed` {rule}, got {shown(allowed)}")
    if given.dtype.kind == "b":
        if len(given) != count:
            raise ValueError(f"`allowed` must have {count} truth values, got {len(given)}")
        mask: Bools = given.copy()
    else:
        outside = (given < 0) | (given >= count)
        if outside.any():
            got = given[outside][0]
            raise ValueError(f"`allowed` must have rows from 0 to {count - 1}, got {got}")
        mask = np.zeros(count, dtype=bool)
        mask[given] = True
        if mask.sum() < len(given):  # zeros and ones may be meant as truth values
            raise ValueError(f"`allowed` must not repeat a row, got {shown(allowed)}")
    if not mask.any():
        raise ValueError("`allowed` must leave an action, got none")
    return None if mask.all() else mask


def as_indices(actions: Any, count: int) -> NDArray[np.int64] | None:
    """Rows of a finite set, if that is what was given."""
    try:
        rows = np.asarray(actions)
    except (TypeError, ValueError):  # ragged: no rows, and no points either
        return None
    if rows.ndim > 1 or rows.dtype.kind not in "iu":
        return None
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError(f"`actions` must be rows from 0 to {count - 1}, got {actions!r}")
    return rows.astype(np.int64)
