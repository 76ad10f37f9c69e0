"""Snapshots that were changed by somebody who knows how to seal them again."""

from __future__ import annotations

import copy

from koloss.learners import snapshots

MISSING = object()
"""In the place of a value: nothing."""


def forged(state, path, value):
    """The state with another value at a place like "ledger.laws.0.eta", or with nothing there, sealed again."""
    state = copy.deepcopy(state)
    *outer, last = path.split(".")
    holder = state
    for key in outer:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    last = int(last) if isinstance(holder, list) else last
    if value is MISSING:
        del holder[last]
    else:
        holder[last] = value(holder[last]) if callable(value) else value
    return sealed(state)


def sealed(state):
    """The state with a digest that fits."""
    rest = {k: v for k, v in state.items() if k != "digest"}
    return {**rest, "digest": snapshots._digest(rest)}
