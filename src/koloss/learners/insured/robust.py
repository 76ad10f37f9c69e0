"""The robust learner behind the policies: exponential weights that are tuned when they first play, and sleep while a policy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from koloss.core.snapshot import kept
from koloss.guarantees import insured
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.insured.exploration import Floats
from koloss.learners.waiting import Late


@kept
class Robust:
    """Its engine, tuned to all rounds or to those of a context, and `exp2`, once it has played."""

    horizon: int | None
    batch: int
    exp2: Exp2 | None = None
    engine: PointsEngine
    hull: LossRange | None  # the range heard in all contexts; None where there are no others

    def __init__(
        self, engine: PointsEngine, horizon: int | None, batch: int, hull: LossRange | None = None
    ) -> None:
        self.horizon, self.batch, self.hull = horizon, batch, hull
        self.place(engine)

    def place(self, engine: PointsEngine) -> None:
        """Have this engine from now on."""
        self.engine = engine
        self._restored()
        if self.exp2 is not None:
            self.exp2.engine = self.engine_for(self.exp2.horizon)

    def _restored(self) -> None:
        self._tuned = {0: self.engine}  # for a horizon halved so many times

    def tuned(self, halvings: int) -> PointsEngine:
        """The engine tuned to the horizon, halved so many times."""
        if halvings not in self._tuned:
            assert self.horizon is not None
            self._tuned[halvings] = self.engine.retuned(
                insured.halved(self.horizon, halvings), self.batch
            )
        return self._tuned[halvings]

    def fresh(self, made: int) -> Exp2:
        """Exponential weights from scratch, tuned to the rounds that remain or up to twice as many.

        There are few tunings, so that a promise can look at all. They may sleep while a policy plays, and go on after that. With other
        contexts there is one tuning: nobody knows how many rounds remain in each (theory F6.11).
        """
        remain = self.horizon
        if self.hull is None and remain is not None:
            remain = max(remain - made, 1)
        exp2 = Exp2(self.engine_for(remain), horizon=remain, batch=self.batch)
        exp2.range = exp2.range if self.hull is None else self.hull
        return exp2

    def engine_for(self, remain: int | None) -> PointsEngine:
        """The engine for so many rounds that remain."""
        horizon, halvings = self.horizon, 0
        if horizon is None or remain is None:
            return self.engine
        while insured.halved(horizon, halvings + 1) >= remain and horizon > 1 << halvings:
            halvings += 1
        return self.tuned(halvings)

    def wake(self, made: int) -> Exp2:
        """Play, for the first time or again."""
        if self.exp2 is None:
            self.exp2 = self.fresh(made)
        return self.exp2

    def end_epoch(self) -> None:
        """Play by what is known now in the next round."""
        if self.exp2 is not None and self.exp2.epoch is not None and not self.exp2.epoch.over:
            self.exp2.epoch.shrink()

    # Losses.

    def is_overdue(self, law: Epoch | Late) -> bool:
        """Whether losses come too late for Lemma F5.3: it has drawn again, or an action of the round has begun anew."""
        assert self.exp2 is not None
        return self.exp2.is_late(law)

    def learn(self, law: Epoch | Late, keys: Any, losses: Sequence[Any]) -> None:
        """Learn from losses of its own."""
        assert self.exp2 is not None
        self.exp2.learn(law, keys, losses)

    def gain(self, law: Epoch | Late, key: int, loss: float, best: int, mean: Floats) -> float:
        """What another action would have gained in a round, by the estimate of its loss; `mean` are those of the forecast."""
        assert self.exp2 is not None
        engine: Any = self.exp2.engine
        if isinstance(law, Late):
            m = engine.problem.rank
            center, direction = float(law.numbers[1]), law.numbers[4 : m + 4]
        else:
            engine, center = law.engine, law.center
            direction = engine.estimate(law.law, key, 1.0)
        phi = engine.features[best]
        if engine.shares is not None:  # it would have been played as far as they allow
            phi = engine.shares.admit(best, -mean) @ engine.features
        return (loss - center) * (1 - float(phi @ direction))
