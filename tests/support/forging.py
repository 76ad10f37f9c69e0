"""Snapshots that were changed by somebody who knows how to seal them again."""

from __future__ import annotations

import copy

from koloss.core import snapshot

MISSING = object()
"""In the place of a value: nothing."""


def forged(state, path, value):
    """The state with another value at a place like "learner.ledger.Ledger.made", or with nothing there, sealed again."""
    *outer, last = path.split(".")
    state = holder = copy.copy(state)
    for key in outer:  # what is on the way is copied, the rest shared
        place = int(key) if isinstance(holder, list) else key
        holder[place] = holder = copy.copy(holder[place])
    last = int(last) if isinstance(holder, list) else last
    if value is MISSING:
        del holder[last]
    else:
        holder[last] = value(holder[last]) if callable(value) else value
    return sealed(state)


def sealed(state):
    """The state with a digest that fits."""
    rest = {k: v for k, v in state.items() if k != "digest"}
    return {**rest, "digest": snapshot._digest(rest)}
