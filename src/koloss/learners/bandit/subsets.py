"""A law among some of the actions: those of a request, those on offer, those that a context allows.

Actions that may be chosen are *awake*. Among those in A a round is drawn from

    p = (1 - γ) q + γ π,   q(a) ∝ prior(a) exp(-η S(a)) for a in A, zero elsewhere,

where S is what each action has lost by the estimates, and π a design of A alone, in coordinates of the space that Φ(A) spans. With the Σ of
this p the estimate x(a) = φ(a)'Σ⁻¹φ(b) loss, b being drawn, has the loss of a as its mean for every a in A: without a penalty whatever A
is, and with one up to the bias of all rounds. The exploration γ is such that the largest leverage in A is that of other rounds.

Of the others the loss says nothing: Φ(A) may hardly reach them, so that estimates of theirs would have any variance. They sleep, and lose
what those awake lose together, the mix loss -(1/η) log Σ q(a) exp(-η x(a)), which leaves their share of the weight as it is. So every action
is a specialist, and has the bound of Algorithm 1 over the rounds in which it was awake (theory F5, Section 8). An action that is added
begins with the share that its prior has of all weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.designs import whiten
from koloss.designs.base import orthonormal
from koloss.designs.ridge import whiten_ridge
from koloss.learners.bandit.points import ArmsEngine, PointsEngine
from koloss.learners.bandit.ridge import choose_ridge_design
from koloss.learners.bandit.sampled import SampledEngine
from koloss.learners.bandit.tuning import choose_design
from koloss.learners.params import rows_of

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

KEPT = 2**24
"""Most numbers of the features of subsets that are kept for when they come again."""

NONE_ADDED: Rows = np.zeros(0, dtype=np.int64)
"""The rows of no action."""


# Some of the actions as an engine.


class Subset(NamedTuple):
    """Some of the actions, as an engine of their own."""

    engine: PointsEngine  # prior, features and design are zero elsewhere
    price: float  # how many times the exploration of all actions it needs


def subset_of(whole: PointsEngine, awake: Bools) -> Subset:
    """Those actions as an engine; one that was made of late is kept."""
    made, key = whole._subsets, awake.tobytes()  # type: ignore[attr-defined]
    subset: Subset = made.pop(key, None) or _restricted(whole, awake)
    most = max(KEPT // max(subset.engine.features.size, 1), 1)
    for old in list(made)[: max(len(made) + 1 - most, 0)]:
        del made[old]
    made[key] = subset
    return subset


def _restricted(whole: PointsEngine, awake: Bools) -> Subset:
    """Features in coordinates of the space that those awake span, and their own design; with a penalty for the leverages of all actions."""
    N, weights, columns = len(awake), np.zeros(len(awake)), None
    features, shares = np.zeros((N, 1), order="F"), whole.shares
    design = "john" if whole.design == "given" else whole.design
    if shares is not None:
        shares = shares.among(awake[np.isfinite(whole.log_prior)])
    if isinstance(whole, ArmsEngine):
        features, leverage = whole.features, float(awake.sum())
        weights[awake] = 1 / awake.sum()
        if shares is not None:
            weights[awake] = shares.project(np.zeros(int(awake.sum())))
            leverage = float(1 / weights[awake].min())
    else:
        rows = whole.features[awake]
        if not rows.any():  # whatever is played, the loss is known
            weights[awake], columns, leverage = 1 / awake.sum(), np.ones((1, 1)), 0.0
        elif whole.columns is None:
            chosen = choose_design(rows, design, shares)
            white, leverage = whiten(rows, chosen).features, float(chosen.max_leverage)
            weights[awake] = to_numpy(chosen.weights)
            features = _spread(white, awake)
        else:
            # Directions that neither an action has nor the penalty are left out: no estimate depends on them.
            both, _ = orthonormal(np.vstack([rows, whole.columns.T]))
            rows, columns = np.ascontiguousarray(both[: len(rows)]), both[len(rows) :].T
            best = choose_ridge_design(rows, columns, whole.cap, design, shares)
            white, columns = whiten_ridge(rows, columns, best)
            weights[awake], leverage = best.weights, best.exploration * best.largest
            features = _spread(white, awake)
    price = leverage / (whole.leverage or whole.problem.leverage)
    gamma, rates = whole.rates.exploration, whole.rates
    if gamma < 1:
        rates = replace(rates, exploration=min(1.0, price * gamma))
    kind = type(whole) if isinstance(whole, (ArmsEngine, SampledEngine)) else PointsEngine
    log_prior = np.where(awake, whole.log_prior, -math.inf)
    subset = whole.become(
        kind, features=features, columns=columns, weights=weights, rates=rates,
        log_prior=log_prior, leverage=leverage, shares=shares,
    )  # fmt: skip
    return Subset(subset, price)


def own_engine(whole: PointsEngine, awake: Bools) -> PointsEngine:
    """An engine of these actions alone, for whoever has no others: with a bound, a prior and rates of its own."""
    if awake.all():
        return whole
    engine, log_prior = subset_of(whole, awake).engine, np.full(len(awake), -math.inf)
    log_prior[awake] = whole.log_prior[awake] - np.logaddexp.reduce(whole.log_prior[awake])
    leverage = engine.leverage or whole.problem.leverage
    rank = int(awake.sum()) if isinstance(whole, ArmsEngine) else engine.coordinates
    most = max(-float(log_prior[awake].min()), 0.0)
    problem = replace(whole.problem, log_prior=most, leverage=leverage, rank=rank)
    return replace(engine, log_prior=log_prior, problem=problem)


def _spread(white: Any, awake: Bools) -> Floats:
    features = np.zeros((len(awake), white.shape[1]), order="F")
    features[awake] = white
    return features


# What each action has lost.


def mix_loss(log_prior: Floats, eta: float, before: Floats, lost: Floats) -> float:
    """What some actions lose together: -(1/η) log Σ q exp(-η lost), q ∝ prior exp(-η before)."""
    first = log_prior - eta * before
    most = np.max(first, initial=-math.inf)
    if most == -math.inf:  # there are none
        return 0.0
    if eta == 0:
        weights = np.exp(first - most)
        return float(weights @ lost / weights.sum())
    return float((np.logaddexp.reduce(first) - np.logaddexp.reduce(first - eta * lost)) / eta)


@kept
@dataclass(slots=True, eq=False)
class Totals:
    """S of every action, once laws have been among some of them, and what of it is none of its own."""

    lost: Floats  # S, but for what has been learned since the last law was made
    slept: Floats  # what of it are mix losses, ...
    bonus: Floats  # ... and bonuses, that are subtracted
    mass: Floats  # Σ of the weights of estimates that an action has no part in
    level: Floats  # and of these times the centres
    born: Rows  # epochs before the action was added: rounds of these do not count for it
    met: Bools  # which have been awake
    price: float = 1.0  # most exploration, over that of all actions
    renewed: float = 0.0  # prior probability of actions that were added again, each time anew
    revived: int = (
        0  # losses of rounds in which an action was awake that has been added again since
    )

    @classmethod
    def of(cls, count: int, *, met: bool) -> Self:
        """Of so many actions, all or none of which have been awake, with nothing in S yet."""
        lost, slept, bonus, mass, level = np.zeros((5, count))
        born = np.zeros(count, dtype=np.int64)
        return cls(lost, slept, bonus, mass, level, born, np.full(count, met))

    def after(
        self,
        estimates: Floats,
        bonus: Floats | None,
        awake: Bools | None,
        log_prior: Floats,
        eta: float,
        recent: Floats | None = None,
    ) -> Totals:
        """What they are once those awake have lost these estimates, less their bonuses; `recent` is what is not in S yet."""
        x = estimates if bonus is None else estimates - bonus
        given = self.bonus if bonus is None else self.bonus + bonus
        if awake is None:
            return replace(self, lost=self.lost + x, bonus=given)
        before = self.lost if recent is None else self.lost + recent
        mixed = mix_loss(log_prior[awake], eta, before[awake], x[awake])
        return replace(
            self,
            lost=self.lost + np.where(awake, x, mixed),
            slept=self.slept + np.where(awake, 0.0, mixed),
            bonus=np.where(awake, given, self.bonus),
        )

    def begin_anew(
        self, rows: Rows, log_prior: Floats, eta: float, epochs: int, mass: float, level: float
    ) -> None:
        """Let some actions begin with the share of all weights that their prior has, after so many epochs."""
        begin = mix_loss(log_prior, eta, np.zeros(len(self.lost)), self.lost)
        self.lost[rows] = self.slept[rows] = begin
        self.bonus[rows] = 0.0
        self.mass[rows], self.level[rows], self.born[rows] = mass, level, epochs
        again = rows[self.met[rows]]
        self.renewed += float(np.exp(log_prior[again]).sum())
        self.met[again] = False

    def counted(self, awake: Bools | None, number: int) -> Bools | None:
        """The actions that rounds of an epoch count for, of those awake in it; None: all."""
        early = self.born < number
        if (early if awake is None else early | ~awake).all():
            return awake
        return early if awake is None else awake & early

    def miss(self, counted: Bools | None, mass: float, level: float) -> None:
        """Estimates of this weight say nothing of the other actions."""
        if counted is not None:
            self.mass[~counted] += mass
            self.level[~counted] += level


# Actions that come and go.


def as_rows(name: str, rows: Any, count: int, actions: ActionSet | None = None) -> Rows:
    """One row or several of so many actions, none twice; of a `Space` their params will do."""
    named = None if actions is None else rows_of(name, rows, actions)
    try:
        given = np.asarray(rows if named is None else named)
        if given.size == 0:
            given = given.astype(np.int64)
        if given.ndim > 1 or given.dtype.kind not in "iu":
            raise TypeError
    except (TypeError, ValueError):
        raise TypeError(f"`{name}` must be a row or a sequence of rows, got {rows!r}") from None
    given = np.atleast_1d(given)
    outside = (given < 0) | (given >= count)
    if outside.any():
        raise ValueError(f"`{name}` must be rows from 0 to {count - 1}, got {given[outside][0]}")
    if len(np.unique(given)) < len(given):
        raise ValueError(f"`{name}` must not repeat a row, got {rows!r}")
    return given.astype(np.int64)


@kept
class Roster:
    """Which actions are on offer."""

    offered: Bools
    changes: int = 0  # an era lasts from one to the next

    def __init__(self, count: int) -> None:
        self.offered = np.ones(count, dtype=bool)

    def without(self, rows: Rows) -> Bools:
        """Those that are left when some are withdrawn."""
        gone = rows[~self.offered[rows]]
        if len(gone):
            raise ValueError(
                f"`rows` must be available to be withdrawn, got {gone[0]}, which is not"
            )
        left = self.offered.copy()
        left[rows] = False
        if not left.any():
            raise ValueError(f"`rows` must leave an action, got all {len(rows)} that are available")
        return left

    def including(self, rows: Rows) -> Bools:
        """Those that there are when some are added."""
        there = rows[self.offered[rows]]
        if len(there):
            raise ValueError(
                f"`rows` must not be available yet to be added, got {there[0]}, which is"
            )
        more = self.offered.copy()
        more[rows] = True
        return more

    def among(self, allowed: Bools | None) -> Bools | None:
        """Which actions may be chosen in a request; None: all that there are."""
        offered = None if not self.changes or self.offered.all() else self.offered
        if allowed is None or offered is None:
            return offered if allowed is None else allowed
        both: Bools = allowed & offered
        if not both.any():
            raise ValueError("`allowed` must leave an action that is available, got none")
        return both

    def offer(self, offered: Bools) -> None:
        """These are on offer from now on."""
        self.offered, self.changes = offered, self.changes + 1
