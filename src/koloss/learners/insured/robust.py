"""The robust learner behind the policies: exponential weights that are tuned when they first play, and sleep while a policy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from koloss.guarantees import bandit, insured
from koloss.learners.bandit.exp2 import Epoch
from koloss.learners.bandit.masks import Masked, learn_among
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.insured.account import Account
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.roster import NOBODY, Bools, Roster
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.specialists import Offered, Specialists, offer
from koloss.learners.waiting import Late


class Robust:
    """Its engine, tuned to all rounds, and `exp2`, once it has played."""

    def __init__(self, settings: InsuredSettings, engine: PointsEngine, batch: int) -> None:
        self.horizon, self.design, self.batch = settings.horizon, settings.design, batch
        self.exp2: Specialists | None = None
        self.place(engine)

    def place(self, engine: PointsEngine) -> None:
        """Have this engine from now on."""
        self.engine = engine
        self._tuned = {0: engine}  # for a horizon halved so many times

    def tuned(self, halvings: int) -> PointsEngine:
        """The engine tuned to the horizon, halved so many times."""
        if halvings not in self._tuned:
            assert self.horizon is not None
            self._tuned[halvings] = self.engine.retuned(
                insured.halved(self.horizon, halvings), self.batch
            )
        return self._tuned[halvings]

    def fresh(self, made: int, roster: Roster, account: Account) -> Specialists:
        """Exponential weights from scratch, tuned to the rounds that remain or up to twice as many.

        There are few tunings, so that a promise can look at all. They may sleep while a policy plays, and go on after that.
        """
        engine, horizon = self.engine, self.horizon
        if horizon is not None:
            remain = max(horizon - made, 1)
            halvings = 0
            while insured.halved(horizon, halvings + 1) >= remain and horizon > 1 << halvings:
                halvings += 1
            engine, horizon = self.tuned(halvings), remain
        exp2 = Specialists(engine, engine.rates, horizon=horizon, batch=self.batch)
        exp2.born = account.born
        if roster.era:
            exp2.offer(*self.offered(exp2, roster.offered), NOBODY, roster.era, set())
        return exp2

    def wake(self, made: int, roster: Roster, account: Account) -> Specialists:
        """Play, for the first time or again."""
        if self.exp2 is None:
            self.exp2 = self.fresh(made, roster, account)
            roster.price = max(roster.price, self.exp2.price)
        return self.exp2

    def offered(self, exp2: Specialists, offered: Bools) -> tuple[Offered, bandit.Rates]:
        """Engine and rates where other actions are offered."""
        t = exp2.made + 1 if self.horizon is None else None
        return offer(self.engine, offered, self.design, exp2.rates, t)

    # Losses.

    def is_overdue(self, law: Epoch | Late | Masked) -> bool:
        """Whether losses come too late for Lemma F5.3: it has drawn again, or an epoch was cut short."""
        exp2 = self.exp2
        assert exp2 is not None
        if isinstance(law, Masked):
            return law.number < exp2.epochs
        over = isinstance(law, Late) or law.over
        if law.number == exp2.epochs == exp2.cut:
            return not exp2.is_exact(law.number)
        return over and (law.number < exp2.epochs or self.batch > 1)

    def learn(self, law: Epoch | Late | Masked, keys: Any, losses: Sequence[Any]) -> None:
        """Learn from losses of its own."""
        exp2 = self.exp2
        assert exp2 is not None
        if not isinstance(law, Masked):
            exp2.learn(law, keys, losses)
            return
        mixed = learn_among(exp2, law, keys, losses)
        if isinstance(exp2.engine, Offered):
            exp2.mixed += mixed

    def gain(self, law: Epoch | Late, key: int, loss: float, best: int, mean: Floats) -> float:
        """What another action would have gained in a round, by the estimate of its loss; `mean` are those of the forecast."""
        assert self.exp2 is not None
        engine, m = self.exp2.engine, len(self.exp2.theta)
        assert isinstance(engine, PointsEngine)
        if isinstance(law, Late):
            center, direction = float(law.numbers[1]), law.numbers[4 : m + 4]
        else:
            center, direction = law.center, engine.estimate(law.law, key, 1.0)
        phi = engine.features[best]
        if engine.shares is not None:  # it would have been played as far as they allow
            phi = engine.shares.admit(best, -mean) @ engine.features
        return (loss - center) * (1 - float(phi @ direction))
