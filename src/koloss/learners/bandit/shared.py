"""`SharedExp2`: Algorithm 1 where every loss teaches all contexts (theory F6), and `Alone`, where there is one context."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from koloss.learners.bandit.contexts import PairsEngine
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.loss_range import centred
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn
from koloss.learners.reading import Reader
from koloss.learners.waiting import Late

Floats = NDArray[np.float64]


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


class SharedExp2(Exp2):
    """Algorithm 1 on pairs: the context is given, and the action drawn.

    The law of contexts is the engine's, or add-one frequencies of those seen where it is "counted". Where contexts come "in turn"
    epochs are whole periods. Where designs change every context takes part in an estimate by its own share 1 - γ_c, so that each
    has a θ of its own.
    """

    engine: PairsEngine

    def __init__(self, engine: Any, rates: Any, *, horizon: int | None, batch: int) -> None:
        super().__init__(engine, rates, horizon=horizon, batch=batch)
        C, K = engine.shape
        if engine.changes:
            self.theta = np.zeros((C, engine.problem.rank))
        if self.credit is not None:
            self.credit = np.zeros(C * K)
        self.seen = np.zeros(C, dtype=np.int64)  # decisions in each context
        self.masses = np.zeros(
            C
        )  # Σ of the weights of all estimates, where each context has its own
        self.turn = np.zeros(C, dtype=np.int64)  # decisions of the current epoch in each context
        self.broken = 0  # periods in which contexts did not come as often as said

    def frequencies(self) -> Floats:
        """μ̂: how often each context has come, as if it had come once before."""
        counts = self.seen + 1.0
        law: Floats = counts / counts.sum()
        return law

    def _redesign(self) -> None:
        """A new design, where contexts are counted and the number of the round has doubled since the last one."""
        t = self.made + 1
        if self.engine.manner == "counted" and t >= 2 * self.engine.first:
            self.engine = self.engine.redesigned(self.frequencies(), 1 << (t.bit_length() - 1))

    def _law(self, eta: float, gamma: float, rng: Any, nu: float = 0.0) -> Any:
        mu = self.frequencies() if self.engine.manner == "counted" else None
        return self.engine.law(self.theta, self.credit, eta, gamma, rng, nu, mu)

    def new_epoch(self, rng: Any, *, at_once: bool, part: Any = None) -> Epoch:
        epoch = super().new_epoch(rng, at_once=at_once)
        epoch.weight = 1.0  # those of the contexts are in its law
        return epoch

    def draw_in(self, rows: Any, rng: Any) -> tuple[Epoch, Drawn]:
        """An action for a context, or one for each of several contexts; these are an epoch of their own.

        The law is made without a look at the contexts that it is for (assumption K).
        """
        single, epoch = isinstance(rows, int), self.epoch
        begins = not single or self.is_over()
        if begins:
            self._redesign()
            epoch = self.new_epoch(rng, at_once=not single and len(rows) > 1)
        assert epoch is not None
        drawn = self.engine.draw_in(epoch.law, rows, rng)
        if begins:
            self._end_period()
        self._take(epoch, len(drawn.keys))
        if single:
            self.seen[rows] += 1
            self.turn[rows] += 1
        else:
            came = np.bincount(rows, minlength=len(self.seen))
            self.seen += came
            self.turn += came
        return epoch, drawn

    def _end_period(self) -> None:
        """Whether the contexts of the epoch that is over made a whole period."""
        if self.made and self.engine.manner == "in turn":
            said = np.round(self.batch * self.engine.law_of_contexts)
            self.broken += bool(np.any(self.turn != said))
        self.turn[:] = 0

    @property
    def is_broken(self) -> bool:
        """Whether contexts have not come in whole periods, the current one included."""
        said = np.round(self.batch * self.engine.law_of_contexts)
        return self.broken > 0 or bool(np.any(self.turn > said))

    def _has_drifted(self, epoch: Epoch) -> bool:
        if self.engine.manner == "in turn":
            return False
        return super()._has_drifted(epoch)

    # Where designs change each context has its own share of an estimate (theory F6.4, F6.5).

    @property
    def _is_one(self) -> bool:
        """Whether all contexts have one θ."""
        return self.theta.ndim == 1

    def _add(self, epoch: Epoch, estimate: Floats, count: int) -> None:
        if self._is_one:
            super()._add(epoch, estimate, count)
        else:
            self._add_to_each(epoch.law.weights, estimate, count, epoch.law.bonus)

    def _add_to_each(self, weights: Floats, estimate: Floats, count: int, bonus: Any) -> None:
        self.theta += weights[:, None] * estimate
        self.masses += count * weights
        if self.credit is not None:
            self.credit += count * np.repeat(weights, len(self.engine.points)) * bonus

    def condensed(self, epoch: Epoch, keys: Sequence[Any]) -> list[Late] | None:
        late = super().condensed(epoch, keys)
        if late is None or self._is_one:
            return late
        weights = epoch.law.weights
        return [Late(one.number, np.concatenate([weights, one.numbers])) for one in late]

    @property
    def late_length(self) -> int:
        m, C = self.engine.problem.rank, len(self.seen)
        bonuses = 0 if self.credit is None else len(self.credit)
        return 4 + m + bonuses + (0 if self._is_one else C)

    def _learn_late(self, late: Late, loss: float) -> None:
        if self._is_one:
            super()._learn_late(late, loss)
            return
        C, m = self.theta.shape
        weights, numbers = late.numbers[:C], late.numbers[C:]
        value = centred(self.range.admitted((loss,))[0], float(numbers[1]), float(numbers[3]))
        self._add_to_each(weights, numbers[4 : m + 4] * value, 1, numbers[m + 4 :])
        self.mass += 1.0
        self.level += float(numbers[1])
        self.heard += 1
        self.late += 1
        self.range.hear((loss,))

    # What is known.

    def ahead(self) -> Self:
        """The player of the next single decision: itself, or where that begins an epoch a copy that has a design for it."""
        if not self.is_over():
            return self
        player = copy.copy(self)
        player._redesign()
        return player

    def outlook(self) -> Floats:
        """Probability of every action in the next single decision, for all contexts: an array of shape (C, K)."""
        player = self.ahead()
        if player is self:
            assert self.epoch is not None
            return self.engine.by_action(self.epoch.law.p.copy())
        eta, gamma = player.rates_now()
        p = player.engine.mixture(self.theta, self.credit, eta, gamma)
        return player.engine.by_action(p)

    def outlook_in(self, c: int) -> Floats:
        """Probability of every action in the next single decision, in a context."""
        p: Floats = self.outlook()[c]
        return p

    def values(self) -> Floats:
        """Estimated mean loss of every action in every context."""
        masses = np.full(len(self.seen), self.mass) if self._is_one else self.masses
        scores = self.engine.scores(self.theta).reshape(self.engine.shape)
        means: Floats = scores / np.maximum(masses, 1.0)[:, None] + self.engine.center
        return means

    def recommend_in(self, c: int) -> Recommendation:
        """The best action by the estimates, in a context."""
        values = self.values()[c]
        index = int(np.argmin(values))
        loss = self.engine.sign * float(values[index])
        if self.engine.slots is not None:
            index = int(self.engine.slots[c, index])
        return Recommendation(index, self.engine.points[index], loss, "estimated")

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name).copy() for name in ("seen", "masses", "turn")}
        return {**super().to_dict(), **counts, "broken": self.broken}

    @classmethod
    def from_dict(cls, engine: Any, data: Reader, horizon: int | None) -> SharedExp2:
        exp2 = super().from_dict(engine, data, horizon)
        assert isinstance(exp2, SharedExp2)
        shape = exp2.seen.shape
        exp2.seen = data.array("seen", shape, 0, exp2.made, whole=True)
        if exp2.seen.sum() != exp2.made:
            data.refuse("seen", "must add up to the decisions made", exp2.seen)
        exp2.masses = data.array("masses", shape, 0, exp2.heard * (1 + 1e-9))
        exp2.turn = data.array("turn", shape, 0, whole=True)
        if np.any(exp2.turn > exp2.seen):
            data.refuse("turn", "must not be more than what was seen", exp2.turn)
        exp2.broken = data.count("broken", 0, exp2.epochs)
        return exp2
