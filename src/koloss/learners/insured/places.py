"""Where the actions of a context are among all pairs of a context and an action, one context after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import kept
from koloss.learners.ledger import Drawn

Floats = NDArray[np.float64]


@kept
@dataclass(frozen=True)
class Place:
    """The row of a context, and how many there are of contexts and actions; without contexts pairs are actions.

    Examples
    --------
    >>> place = Place(context=1, contexts=3, actions=10)
    >>> place.pair(4), place.local(14), place.local(~14) == ~4
    (14, 4, True)
    """

    context: int
    contexts: int
    actions: int
    shown: Any = None  # the context as it was given: its label, its params or its coordinates

    @property
    def alone(self) -> bool:
        """Whether there is no other context."""
        return self.contexts == 1

    @property
    def rows(self) -> slice:
        """Those of its pairs."""
        return slice(self.context * self.actions, (self.context + 1) * self.actions)

    def pair(self, row: int) -> int:
        """The row of a pair."""
        return self.context * self.actions + row

    def local(self, key: int) -> int:
        """The row of an action, or its complement, from that of a pair."""
        start = self.context * self.actions
        return key - start if key >= 0 else key + start

    def locals(self, keys: Sequence[int]) -> Sequence[int]:
        """The same for several."""
        return keys if self.context == 0 else [self.local(key) for key in keys]

    def among_pairs(self, played: Any) -> Any:
        """A row, a law or a mask of actions as one of pairs; where there is none, none."""
        if self.alone or played is None:
            return played
        if isinstance(played, int):
            return self.pair(played)
        spread = np.zeros(self.contexts * self.actions, dtype=played.dtype)
        spread[self.rows] = played
        return spread

    def offered(self, mask: Any) -> Any:
        """The pairs that a policy may propose here, given the actions on offer, or None where all are."""
        return self.among_pairs(np.ones(self.actions, dtype=bool) if mask is None else mask)

    def proposed(self, proposal: Any) -> Any:
        """A row or a law of pairs as one of actions."""
        return proposal - self.rows.start if isinstance(proposal, int) else proposal[self.rows]

    def drawn(self, drawn: Drawn) -> Drawn:
        """Actions with the keys of their pairs."""
        start = self.rows.start
        keys = [key + start if key >= 0 else key - start for key in drawn.keys]
        return drawn._replace(keys=keys, contexts=[self.context] * len(keys))


def in_order(parts: Sequence[Drawn], order: Sequence[int]) -> Drawn:
    """Batches of several contexts as one: the k-th of all that were drawn goes to the place `order[k]`."""
    back = np.argsort(order)
    keys = np.concatenate([np.asarray(one.keys) for one in parts])[back].tolist()
    action, index, p, contexts = (
        np.concatenate([getattr(one, name) for one in parts])[back]
        for name in ("action", "index", "probability", "contexts")
    )
    return Drawn(keys, action, index, p, contexts)
