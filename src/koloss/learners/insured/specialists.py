"""Exponential weights over actions that come and go: each is a specialist that sleeps while it is not offered (theory F5, Section 8).

With S(a) the sum of what an action has lost by the estimates, those that are offered are played with q(a) ∝ prior(a) exp(-η S(a)).
What was not offered when a round was drawn loses in it what the others lose together, the mix loss

    m = -(1/η) log Σ q(a) exp(-η x(a)),

which leaves its share of the weight as it is. So an action that is added begins with the sum M of all mix losses. One that comes
back begins anew. The rates stay as they were tuned, but for the exploration, which is that of a new design.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import to_numpy
from koloss.designs import Design
from koloss.designs.base import orthonormal
from koloss.designs.ridge import whiten_ridge
from koloss.guarantees import bandit
from koloss.guarantees.bandit import Rates
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.loss_range import centred
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.ridge import choose_ridge_design
from koloss.learners.insured.roster import Bools, explore
from koloss.learners.reading import Reader, plain
from koloss.learners.waiting import Late

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Offered(PointsEngine):
    """The engine of an era: features, zero where an action is not offered, are coordinates of the space that the others span."""

    past: Floats  # (N,): S at the beginning of the era, and what losses of earlier eras have added since
    tuned_rank: int  # number of features for which the rates were tuned

    @property
    def offered(self) -> Bools:
        """The actions of the era."""
        return np.isfinite(self.log_prior)

    def scores(self, theta: Floats) -> Floats:
        return self.features @ theta + self.past

    def best(self, theta: Floats, mass: float) -> tuple[int | None, Floats, float]:
        values = self.values(theta, mass)
        index = int(np.argmin(np.where(self.offered, values, np.inf)))
        return index, self.points[index], float(values[index])

    def rates_at(self, t: int) -> tuple[float, float]:
        tuned, kappa = replace(self.problem, rank=self.tuned_rank), self.rates.kappa
        eta = bandit.anytime_rate(tuned, kappa, t)
        share = self.leverage / tuned.leverage
        return eta, min(1.0, share * tuned.exploration(eta, kappa))

    def plain(self) -> dict[str, Any]:
        """Plain data for a snapshot: what it has beside the engine of all actions."""
        names = ("features", "columns", "weights", "past", "leverage", "level", "offered")
        return plain(self, *names)


def offer(
    whole: PointsEngine, offered: Bools, design: str | Design, rates: Rates, t: int | None
) -> tuple[Offered, Rates]:
    """The engine of those that are offered, and its rates; t is the round where there is no horizon.

    The penalty stays, and η; γ = ηLG/κ has the leverage G of the new design.
    """
    N, eta, kappa, columns = len(offered), rates.learning_rate, rates.kappa, None
    if t is not None:
        whole = whole.at(t)
        schedule, first = whole.schedule, 1
        if schedule is not None and whole.level > schedule.level(1):
            first = schedule.first_round(whole.level)
        eta = bandit.anytime_rate(whole.problem, kappa, first)
    cap = whole.problem.largest_leverage(eta, kappa)
    if whole.columns is None:
        exploration = explore(whole, offered, design, 1, 1)
        features, weights, leverage = exploration.features, exploration.weights, exploration.largest
    else:
        # Directions that neither an action has nor the penalty are left out: no estimate depends on them.
        both, _ = orthonormal(np.vstack([whole.features[offered], whole.columns.T]))
        count = int(offered.sum())
        rows, columns = np.ascontiguousarray(both[:count]), both[count:].T
        chosen = choose_ridge_design(
            rows, columns, cap, "john" if isinstance(design, Design) else design
        )
        white, columns = whiten_ridge(rows, columns, chosen)
        features, weights = np.zeros((N, white.shape[1]), order="F"), np.zeros(N)
        features[offered], weights[offered] = white, chosen.weights
        leverage = chosen.exploration * chosen.largest
    engine = _offered(whole, offered, features, columns, weights, np.zeros(N), leverage)
    return engine, rates if t else replace(rates, exploration=min(1.0, leverage / cap))


def _offered(
    whole: PointsEngine,
    offered: Bools,
    features: Floats,
    columns: Floats | None,
    weights: Floats,
    past: Floats,
    leverage: float,
) -> Offered:
    values = {k: v for k, v in whole.__dict__.items() if k[0] != "_"}
    values |= {
        "features": features,
        "columns": columns,
        "weights": weights,
        "log_prior": np.where(offered, whole.log_prior, -np.inf),
        "problem": replace(whole.problem, rank=features.shape[1]),
        "leverage": leverage,
    }
    return Offered(**values, past=past, tuned_rank=whole.problem.rank)


class Era(NamedTuple):
    """Epochs in which the same actions were offered."""

    number: int  # of the roster's
    first: int  # epochs before it
    engine: PointsEngine

    @property
    def offered(self) -> Bools:
        """Its actions."""
        return np.isfinite(self.engine.log_prior)


class Specialists(Exp2):
    """Algorithm 1 where actions come and go; as long as none does, `Exp2`."""

    born: Any  # era in which each action was added

    def __init__(self, engine: Any, rates: Rates, *, horizon: int | None, batch: int) -> None:
        super().__init__(engine, rates, horizon=horizon, batch=batch)
        self.mixed = 0.0  # M
        self.revived = 0  # losses of rounds in which an action was played that has come back since
        self.cut = 0  # the latest epoch that ended by a change, with one loss open at most
        self.explores = rates.exploration  # γ that was tuned for all actions
        self.eras = [Era(0, 0, engine)]  # those whose epochs may still be heard of; the last is now

    @property
    def latest(self) -> Era:
        """The era of now."""
        return self.eras[-1]

    def era_of(self, number: int) -> Era:
        """The era of an epoch."""
        return next(era for era in reversed(self.eras) if era.first < number or era is self.eras[0])

    def engine_of(self, number: int) -> Any:
        era = self.era_of(number)
        return self.engine if era is self.latest else era.engine

    @property
    def late_lengths(self) -> tuple[int, ...]:
        """How many numbers are needed of an epoch that is over, for one decision, in each era."""
        bonus = 0 if self.credit is None else self.credit.shape[0]
        return tuple(4 + era.engine.problem.rank + bonus for era in self.eras)

    # A change.

    @property
    def price(self) -> float:
        """Exploration over what was tuned for all actions."""
        engine = self.engine
        if self.horizon is not None or not isinstance(engine, Offered):
            return self.rates.exploration / self.explores if self.horizon is not None else 1.0
        return 1.0 if engine.schedule is not None else engine.leverage / engine.problem.leverage

    def offer(
        self, engine: Offered, rates: Rates, added: Any, number: int, heard_of: set[int]
    ) -> None:
        """Play other actions from now on; epochs with these numbers may still be heard of."""
        if self.made and not isinstance(self.engine, Offered):
            everyone = np.ones(len(engine.past), dtype=bool)
            self.mixed = (math.log(len(everyone)) - self._log_total(everyone)) / self._eta
        engine.past[:] = self.engine.scores(self.theta)  # type: ignore[union-attr]
        engine.past[added] = self.mixed
        if self.credit is not None:
            self.credit = np.array(to_numpy(self.credit))  # what is offered is on the host
            self.credit[added] = 0.0
        if self.masks is not None:
            self.masks.begin_anew(added)
        epoch = self.epoch
        if epoch is not None and not epoch.over:
            self.cut = epoch.number if epoch.draws - epoch.heard <= 1 else self.cut
            epoch.shrink()
        kept = {id(era) for era in map(self.era_of, heard_of)}
        self.eras = [era for era in self.eras if id(era) in kept]
        self.eras.append(Era(number, self.epochs, engine))
        self.engine, self.rates, self.epoch = engine, rates, None
        self.theta = np.zeros(engine.problem.rank)
        self.tally = None  # estimates of different eras do not add up

    @property
    def _eta(self) -> float:
        """η of now."""
        return self.rates_now()[0] if self.epoch is None else self.epoch.eta

    def _sums(self) -> Floats:
        """S of every action."""
        return self.sums()

    def _log_total(self, among: Bools) -> float:
        """The logarithm of the weight of some actions."""
        return float(np.logaddexp.reduce(-self._eta * self._sums()[among]))

    def _has_revived(self, era: Era) -> bool:
        """Whether an action of an era has been withdrawn and has come back since."""
        return bool((era.offered & (self.born > era.number)).any())

    def is_exact(self, number: int) -> bool:
        """Whether losses of an epoch that are heard before the next one count as if they had been heard within it."""
        return number == self.cut and not self._has_revived(self.era_of(number))

    # Losses.

    def learn(self, epoch: Epoch | Late, keys: Any, losses: Any) -> None:
        era = self.era_of(epoch.number)
        if era is not self.latest:
            for key, loss in zip(keys, losses, strict=True):
                late = epoch if isinstance(epoch, Late) else self.condensed(epoch, [key])[0]  # type: ignore[index]
                self._learn_across(era, late, loss)
            return
        engine = self.engine
        if not isinstance(engine, Offered):
            super().learn(epoch, keys, losses)
            return
        before = self._log_total(engine.offered)
        super().learn(epoch, keys, losses)
        self._mix(engine, engine.offered, before)

    def _mix(self, engine: Offered, awake: Bools, before: float) -> None:
        """All others lose what those that were awake have lost together."""
        mixed = (before - self._log_total(awake)) / self._eta
        engine.past[~awake] += mixed
        self.mixed += mixed

    def _learn_across(self, era: Era, late: Late, loss: float) -> None:
        """A loss of an era that is over: only actions of that era are awake, withdrawn ones among them."""
        engine, m = self.engine, era.engine.problem.rank
        assert isinstance(engine, Offered)
        awake = era.offered & (self.born <= era.number)
        weight, center, scale, half = late.numbers[:4].tolist()
        direction, bonus = late.numbers[4 : m + 4], late.numbers[m + 4 :]
        x = era.engine.features @ direction * (centred(loss, center, half) * weight)
        if awake.any():  # else all of them have come back since, as others
            before = self._log_total(awake)
            engine.past[awake] += x[awake]
            if self.credit is not None:
                self.credit[awake] += (weight * scale * bonus)[awake]
            self._mix(engine, awake, before)
        self.mass += weight
        self.level += weight * center
        self.heard += 1
        self.late += 1
        self.revived += self._has_revived(era)

    # Snapshots.

    _KEPT: ClassVar = ("mixed", "revived", "cut", "explores")

    def to_dict(self) -> dict[str, Any]:
        eras = [
            {"number": e.number, "first": e.first, **(e.engine.plain() if e.number else {})}  # type: ignore[attr-defined]
            for e in self.eras
        ]
        return {**super().to_dict(), **plain(self, *self._KEPT), "eras": eras}

    @classmethod
    def from_dict(cls, engine: Any, data: Reader, horizon: int | None) -> Specialists:
        """The state in a snapshot, `engine` being that of all actions."""
        eras = [_era_from_dict(engine, one) for one in data.parts("eras")]
        numbers = [(era.number, era.first) for era in eras]
        ordered = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(numbers))
        if not (eras and ordered):
            data.refuse("eras", "must be there, one after the other", numbers)
        exp2 = super().from_dict(eras[-1].engine, data, horizon)
        assert isinstance(exp2, Specialists)
        exp2.eras = eras
        data.fill(exp2, *cls._KEPT)
        return exp2


def _era_from_dict(whole: PointsEngine, data: Reader) -> Era:
    number, first = data.count("number"), data.count("first")
    if number == 0:
        return Era(0, first, whole)
    N = len(whole.points)
    offered = data.flags("offered", N)
    features = data.array("features", (N, None), order="F")
    columns = data.array("columns", (features.shape[1], None)) if data.has("columns") else None
    if (columns is None) != (whole.columns is None):
        data.refuse("columns", "must be there with a penalty alone", columns)
    weights, past = data.distribution("weights", N), data.array("past", (N,))
    level, leverage = data.count("level"), data.number("leverage", positive=True)
    if whole.schedule is not None:
        problem = whole.schedule.problem(whole.problem, whole.rates.kappa, level)
        whole = replace(whole, problem=problem, level=level)
    return Era(number, first, _offered(whole, offered, features, columns, weights, past, leverage))
