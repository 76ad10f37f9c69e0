"""From settings to the engines of the stages, of each context one to watch a policy with, and to the robust learner (theory F6.11).

The robust learner behind a policy is exponential weights that are tuned when they first play, and sleep while the policy does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from koloss.core.snapshot import kept
from koloss.guarantees import insured
from koloss.guarantees.contexts import horizons
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.pairs import scale_in
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.waiting import Late


@kept
@dataclass(eq=False)
class Robust:
    """Its engine, tuned to all rounds or to those of a context, and `exp2`, once it has played."""

    engine: PointsEngine
    horizon: int | None
    batch: int
    hull: LossRange | None = None  # the range heard in all contexts; None where there are no others
    exp2: Exp2 | None = None

    def __post_init__(self) -> None:
        self._restored()

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

    @property
    def heard_range(self) -> tuple[float, float] | None:
        """The range heard in all contexts, where it is theirs."""
        return None if self.hull is None else (self.hull.heard_low, self.hull.heard_high)

    def gain(self, law: Epoch | Late, key: int, loss: float, best: int, mean: Floats) -> float:
        """What another action would have gained in a round, by the estimate of its loss; `mean` are those of the forecast."""
        engine: Any = self.engine  # or one of its tunings: they have the same features
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


def engines_of(settings: InsuredSettings) -> list[tuple[PointsEngine, Robust]]:
    """Of every context, those with the same kernel the same; without contexts there is one.

    Where nothing speaks for another one, the robust learner has the engine with which the policy is watched.
    With a horizon that of a context is such that a round of the robust learner costs as much in all: n m_c log K_c / Σ m_e log K_e.
    """
    n, C = settings.horizon, settings.stages
    share = n if n is None or C == 1 else max(1, round(n / C))
    likes, made = _alike(settings), {}
    for c in sorted(set(likes)):
        own = [settings.watched_in(c), settings.robust_in(c)][: 2 - settings.shares_engine]
        made[c] = [points_engine(replace(one, horizon=share), trial=c > 0) for one in own]
    if share == n:
        rounds = [n] * C
    else:
        robust = [made[c][-1] for c in likes]
        kappas = [one.rates.kappa for one in robust]
        rounds = list(horizons([one.problem for one in robust], kappas, n or 0))
        for c, engines in made.items():
            if rounds[c] != share:
                made[c] = [one.retuned(rounds[c] or 1) for one in engines]
    batches = {
        c: choose_batch(settings.robust_in(c), own[-1].problem, own[-1].rows)
        for c, own in made.items()
    }
    hull = None if C == 1 else made[likes[0]][-1].loss_range()
    return [(made[c][0], Robust(made[c][-1], rounds[c], batches[c], hull)) for c in likes]


def _alike(settings: InsuredSettings) -> list[int]:
    """For every context the first one with the same kernel on actions."""
    first: dict[float, int] = {}
    rows, kernel = [], settings.robust_kernel
    _, ground = settings.grounded(settings.kernel if kernel is None else kernel)
    for c in range(settings.stages):
        scale = 1.0 if settings.contexts is None else scale_in(ground, c)
        rows.append(c if scale is None else first.setdefault(scale, c))
    return rows
