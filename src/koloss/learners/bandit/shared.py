"""`SharedExp2`: Algorithm 1 where every loss teaches all contexts (theory F6), and `Alone`, where there is one context."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import Rows, kept
from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn

Floats = NDArray[np.float64]


@kept
class Alone(Exp2):
    """One context is no context: `Exp2` as it is."""

    def draw_in(self, rows: Any, rng: Any) -> tuple[Epoch, Drawn]:
        """An action, or several."""
        epoch, drawn = self.draw(None if isinstance(rows, int) else len(rows), rng)
        return epoch, drawn._replace(contexts=np.zeros(len(drawn.keys), dtype=np.int64))

    def outlook_in(self, c: int) -> Floats:
        """Probability of every action in the next single decision."""
        return self.outlook()

    def recommend_in(self, c: int) -> Recommendation:
        """The best action by the estimates."""
        return self.recommend()


@kept
class SharedExp2(Exp2):
    """Algorithm 1 on pairs: the context is given, and the action drawn."""

    engine: PairsEngine
    seen: Rows  # decisions in each context

    def __init__(self, engine: Any, *, horizon: int | None, batch: int) -> None:
        super().__init__(engine, horizon=horizon, batch=batch)
        C, K = engine.shape
        if self.credit is not None:
            self.credit = np.zeros(C * K)
        self.seen = np.zeros(C, dtype=np.int64)

    def draw_in(self, rows: Any, rng: Any) -> tuple[Epoch, Drawn]:
        """An action for a context, or one for each of several contexts; these are an epoch of their own.

        The law is made without a look at the contexts that it is for (assumption K).
        """
        single, epoch = isinstance(rows, int), self.epoch
        if not single or self.is_over():
            epoch = self._new_epoch(rng, None, at_once=not single and len(rows) > 1)
        assert epoch is not None
        drawn = self.engine.draw_in(epoch.law, rows, rng)
        self._take(epoch, len(drawn.keys))
        if single:
            self.seen[rows] += 1
        else:
            self.seen += np.bincount(rows, minlength=len(self.seen))
        return epoch, drawn

    # What is known.

    def outlook(self, awake: Any = None) -> Floats:
        """Probability of every action in the next single decision, for all contexts: an array of shape (C, K)."""
        engine = self.engine
        if not self.is_over():
            assert self.epoch is not None
            return engine.by_action(self.epoch.law.p.copy())
        return engine.by_action(engine.mixture(self.theta, self.credit, *self.rates_now()))

    def outlook_in(self, c: int) -> Floats:
        """Probability of every action in the next single decision, in a context."""
        p: Floats = self.outlook()[c]
        return p

    def values(self) -> Floats:
        """Estimated mean loss of every action in every context."""
        scores = (self.engine.features @ self.theta).reshape(self.engine.shape)
        means: Floats = scores / max(self.mass, 1.0) + self.engine.center
        return means

    def recommend_in(self, c: int) -> Recommendation:
        """The best action by the estimates, in a context."""
        values = self.values()[c]
        index = int(np.argmin(values))
        loss = self.engine.sign * float(values[index])
        if self.engine.slots is not None:
            index = int(self.engine.slots[c, index])
        return Recommendation(index, self.engine.points[index], loss, "estimated")
