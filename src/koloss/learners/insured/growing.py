"""A set of points that grows in the middle of the game around what is promising, where a net would explode.

Play begins on a scrambled Sobol' set, which stays. At times fixed beforehand new points enter as actions that are added do: most from
clouds around the best actions of the forecast, which shrink with time, a few from anywhere; the least promising of those that
entered earlier are withdrawn. What must be known beforehand is not the points but how many *slots* there are for them, the
features and their error. A slot counts from the round in which a point takes it; which point that is may depend on all losses heard.
The estimates of F5 are unbiased given what was heard, which includes the point, so that the bounds of its Section 8 hold for slots.

A point enters only if the features, fixed at the beginning, miss no more of it than the error ε that the guarantee has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points, Space, SpacePoints
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.errors import RankUnreachable
from koloss.guarantees import Guarantee
from koloss.guarantees.base import note
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.subsets import Bools
from koloss.learners.bandit.tuning import choose_batch, is_exact
from koloss.learners.insured.bandwidths import Key
from koloss.learners.insured.engines import Robust
from koloss.learners.insured.exploration import Floats, lowest
from koloss.learners.insured.landmarks import (
    Explicit,
    GrownForecaster,
    History,
    Landmarks,
    learn_lengths,
)
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.stage import offer_in
from koloss.proxy import Proxy, exact_features, pivoted_cholesky

if TYPE_CHECKING:
    from koloss.learners.insured.insured_bandit import InsuredBandit
    from koloss.learners.insured.settings import InsuredSettings


from koloss.actions import Ball
from koloss.errors import NetTooLarge

FIRST, EVERY, FACTOR = 32, 25, 1.125
"""Losses before the set grows for the first time; then after so many more, or so many times as many."""

INSURED = 36
"""Features of the insurance, unless more are asked for."""

ALIKE = 1e-5
"""How far features made anew may be from those of the first points, which are of size 1: rounding, in units far from zero."""

ROOM = 0.1
"""By how much √r of a newcomer may exceed that of the first points."""


class Plan(NamedTuple):
    """How many points there will be."""

    most: int  # in play
    lasting: int  # of the first set, all game long
    newcomers: int  # each time
    times: int  # that the set grows

    @classmethod
    def of(cls, settings: InsuredSettings) -> Plan:
        """Half of the points last, or those of a space that were given; an eighth is new each time."""
        most, horizon, actions = settings.in_play or 0, settings.horizon or 0, settings.actions
        times, due = 0, FIRST
        while due < horizon:
            times, due = times + 1, following(due)
        lasting = len(actions) if isinstance(actions, SpacePoints) else most // 2
        return cls(most, lasting, most // 8, times)

    @property
    def slots(self) -> int:
        """Rows for all points that may ever enter."""
        return self.lasting + self.newcomers * self.times


def following(due: int) -> int:
    """Losses at which the set grows next."""
    return max(due + EVERY, math.ceil(FACTOR * due))


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class GrowingEngine(PointsEngine):
    """The engine of a set that grows: points that enter later may have larger leverages under the first design."""

    def placed(self, rows: Any, X: Floats, features: Floats) -> GrowingEngine:
        """With points in rows that had none."""
        points, all_features = self.points.copy(), self.features.copy(order="F")
        points[rows], all_features[rows] = X, features
        return replace(self, points=points, features=all_features)


def _proxy(kernel: Any, actions: ActionSet, points: Points, rank: Any) -> Proxy:
    """Few features, for all that may enter; their error is certified for the first points."""
    size = getattr(kernel, "feature_dimension", lambda _: None)(actions.dimension)
    few, whole = INSURED if rank == "auto" else rank, Points(points.X)
    if size is not None and size <= few:
        made = exact_features(kernel, whole)
    else:
        try:
            made = pivoted_cholesky(kernel, whole, rank=min(few, len(whole)))
        except RankUnreachable as end:
            if rank != "auto" or end.rank == 0:
                raise
            made = pivoted_cholesky(kernel, whole, rank=end.rank)
    return replace(made, actions=actions, points=points)


def _growing(engine: PointsEngine, more: float) -> PointsEngine:
    """An engine whose features may be off by so many times as much, for points that enter later."""
    values = {name: value for name, value in engine.__dict__.items() if name[0] != "_"}
    values["problem"] = replace(engine.problem, epsilon=more * engine.problem.epsilon)
    return GrowingEngine(**values).retuned(engine.problem.rounds)


def _with_constant(landmarks: Landmarks | Explicit, X: Floats) -> Floats:
    return np.column_stack([landmarks(X), np.ones(len(X))])


@kept
class FirstLook(Pending):
    """What is in flight; until the set grows for the first time its points are looked at one by one, whatever is heard."""

    @property
    def is_blind(self) -> bool:
        return self.heard < FIRST

    def most_wanting(self, offered: Any = None) -> int:
        """The first of those played least."""
        assert isinstance(self.forecaster, GrownForecaster)
        flights = self.forecaster.history.counts + self.proposed[-1] + self.laws[-1]
        return lowest(flights, offered)


@kept
@dataclass(eq=False)
class Growth:
    """The state of a set that grows: its slots, the map to features, and when it grows next."""

    settings: InsuredSettings
    landmarks: Landmarks | Explicit  # of the insurance's features
    whitening: tuple[Floats, ...]  # from these and a constant to those of each engine
    limit: float  # largest r(x) of a newcomer
    filled: int = 0  # slots taken
    due: int = FIRST  # losses at which the set grows next

    def __post_init__(self) -> None:
        self.filled = self.plan.lasting

    @property
    def plan(self) -> Plan:
        """How many points there will be."""
        return Plan.of(self.settings)

    @classmethod
    def begin(
        cls, settings: InsuredSettings, rng: Any
    ) -> tuple[PointsEngine, Robust, GrownForecaster, Growth]:
        """The engine of the policies' insurance, the robust learner, forecasts, and how the set will grow."""
        actions, plan = settings.actions, Plan.of(settings)
        if isinstance(actions, SpacePoints):
            first, radius = to_numpy(actions.X), actions.covering_radius
        else:
            first = sobol(actions, plan.lasting, rng)
            radius = covering_radius(actions, first)
        # Slots that are free hold copies of the first points, and are not offered.
        X = np.resize(first, (plan.slots, actions.dimension))
        points = Points(X, covering_radius=radius)
        kernel = settings.watched_in(0).kernel
        proxy = _proxy(kernel, actions, points, settings.rank)
        limit = 0.0
        landmarks: Landmarks | Explicit
        if is_exact(proxy):
            landmarks = Explicit.of(kernel, first)
        else:
            landmarks = Landmarks.among(kernel, first, proxy.rank)
            limit = (1 + ROOM) ** 2 * float(np.max(to_numpy(proxy.residual)))
        engines = [
            _growing(points_engine(replace(said, proxy=proxy, rank=proxy.rank)), 1 + ROOM)
            for said in (settings.watched_in(0), settings.robust_in(0))[
                : 2 - settings.shares_engine
            ]
        ]
        raw = _with_constant(landmarks, X)
        whitening: tuple[Any, ...] = tuple(
            np.linalg.lstsq(raw, one.features, rcond=None)[0] for one in engines
        )
        for one, T in zip(engines, whitening, strict=True):
            off = float(np.abs(raw @ T - one.features).max())
            if off > ALIKE:
                rule = "must have features that can be told apart where the actions are"
                got = f"{kernel!r}, off by {off:.2g}; move the actions nearer to zero"
                raise ValueError(f"`robust_kernel` {rule}, got {got}")
        growth = cls(settings, landmarks, whitening, limit)
        key: Key = (0,) * actions.dimension
        offered = growth.first
        history = History(plan.slots)
        forecaster = GrownForecaster.of(settings.forecast_kernel, X, offered, history, key, None)
        forecaster.watch(engines[0].features, offered)
        batch = choose_batch(settings.robust_in(0), engines[-1].problem, engines[-1].rows)
        robust = Robust(engines[-1], settings.horizon, batch)
        return engines[0], robust, forecaster, growth

    @property
    def first(self) -> Bools:
        """The slots of the first set."""
        return np.arange(self.plan.slots) < self.plan.lasting

    # Growing.

    def grow(self, learner: InsuredBandit) -> None:
        """Let new points enter, and withdraw the least promising of those that entered before."""
        stage = learner._stages[0]
        engine, robust, former = learner.engine, learner.robust, learner._forecaster
        assert isinstance(engine, GrowingEngine)
        assert isinstance(robust, GrowingEngine)
        assert isinstance(former, GrownForecaster)
        heard = learner.ledger.heard
        self.due = following(max(self.due, heard))
        if self.filled == self.plan.slots:
            return
        kernel, history, X = self.settings.forecast_kernel, former.history, engine.points
        offered = stage.roster.offered
        key = learn_lengths(kernel, X, history, former.key)
        forecaster = GrownForecaster.of(kernel, X, offered, history, key, former)
        width = stage.policy.width  # type: ignore[union-attr]
        shrunk = 1 - (1 - SHRUNK) * min(heard / (self.settings.horizon or 1), 1.0)
        cloud = Cloud(self.settings.region, forecaster, width, RADIUS * shrunk, learner._rng)
        new = cloud.newcomers(X, offered, self.plan.newcomers)
        if len(new):  # of which the features miss no more than the guarantee says
            new = new[self.landmarks.residual(new) <= self.limit]
        if not len(new):
            return
        rows = np.arange(self.filled, min(self.filled + len(new), self.plan.slots))
        new = new[: len(rows)]
        raw = _with_constant(self.landmarks, new)
        placed = [
            one.placed(rows, new, raw @ T)
            for one, T in zip((engine, robust), self.whitening, strict=False)
        ]
        forecaster.enter(rows, new)
        offered = self._offered(offered, rows, forecaster, width)
        forecaster.watch(placed[0].features, offered)
        # Nothing can fail from here on.
        self.filled += len(rows)
        learner.engine = stage.engine = placed[0]
        learner._forecaster = stage.forecaster = stage.last.forecaster = forecaster
        learner._pending.follow(forecaster)
        stage.last.points = placed[0].points
        stage.robust.place(placed[-1])
        learner._name_actions()
        offer_in([(stage, offered, rows)])

    def _offered(
        self, offered: Bools, rows: Any, forecaster: GrownForecaster, width: float
    ) -> Bools:
        """The first set, the newcomers, and of the others those with the smallest confidence bounds."""
        offered = offered.copy()
        offered[rows] = False
        others = np.flatnonzero(offered & ~self.first)
        room = self.plan.most - self.plan.lasting - len(rows)
        if len(others) > room:
            score = (forecaster.mean - width * forecaster.deviation)[others]
            offered[others[np.argsort(score, kind="stable")[room:]]] = False
        offered[rows] = True
        return offered

    def name(self, learner: InsuredBandit) -> None:
        """Name the points where they are those of a Space; those that are new are decoded."""
        space, X = self.settings.region, learner.engine.points
        if not isinstance(space, Space):
            return
        named, before = SpacePoints(space, X=X), learner.ledger.points
        if before is None or len(before) != len(X):
            learner._params = named.params
        else:
            rows = np.flatnonzero((before.X != X).any(axis=1)).tolist()
            params = dict(zip(rows, space.decode(X[rows]), strict=True)) if rows else {}
            learner._params = [params.get(k, one) for k, one in enumerate(learner._params or [])]
        learner.ledger.name(named, None)

    # What is promised.

    def note(self, promise: Guarantee) -> Guarantee:
        """What a reader should know of a promise against all actions."""
        plan, net = self.plan, promise.terms.get("net", 0.0)
        inside = min(sum(promise.terms.values()) - net, promise.trivial)
        notes = (
            note("growing points", inside=inside, lasting=plan.lasting, most=plan.most, slots=plan.slots),
            note("growing net", net=net, lasting=plan.lasting),
            note("growing kernel", kernel=repr(self.settings.robust_kernel)),
        )  # fmt: skip
        assumptions = tuple(  # the set grows by losses that were heard
            replace(one, holds=True) if one.key == "offered" else one for one in promise.assumptions
        )
        return replace(promise, assumptions=assumptions, remarks=(*promise.remarks, *notes))


CENTRES, SWEEPS, POOL = 8, 3, 512
"""A cloud is around so many of the best by their mean, and as many by their confidence bound; sweeps, and points in each."""

RADIUS, SHRUNK = 0.3, 0.1
"""Deviation of a cloud, in bandwidths, at the beginning; and what is left of it at the end."""

MOVED, REDRAWN, CROSSED = 0.7, 0.2, 0.2
"""Share of coordinates that move; of points with a coordinate or two drawn anew instead; of points between two of the best."""

GRID = 4096
"""Points of the grid by which a covering radius is certified."""


def sobol(actions: ActionSet, count: int, rng: Any) -> Floats:
    """The beginning of a scrambled Sobol' sequence in a box, or taken to a ball."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    d, ball = actions.dimension, isinstance(actions, Ball)
    sequence = qmc.Sobol(d + ball, seed=np.random.default_rng(int(rng.integers(2**63))))
    u = sequence.random_base2(max(count - 1, 0).bit_length())[:count]
    if not ball:
        lower, upper = actions.bounds()
        return actions.project(lower + u * (upper - lower))  # type: ignore[attr-defined, no-any-return]
    directions = ndtri(np.clip(u[:, :d], 1e-12, 1 - 1e-12))
    lengths = np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    scaled: Floats = directions / lengths * actions.radius * u[:, d:] ** (1 / d)  # type: ignore[attr-defined]
    return scaled


def covering_radius(actions: ActionSet, X: Floats) -> float:
    """No action is farther than this from a row of X: the largest distance from a grid, and how far actions are from that."""
    from scipy.spatial import KDTree

    spacing, grid = actions.diameter(), None
    while True:
        try:
            grid = actions.net(spacing, max_bytes=GRID * actions.dimension * 8)
        except NetTooLarge:
            break
        spacing *= 0.9
    if grid is None:
        return actions.diameter()
    farthest = float(KDTree(X).query(to_numpy(grid.X))[0].max())
    return min(farthest + grid.covering_radius, actions.diameter())


class Cloud:
    """Where new points may enter: around the best by a forecast, and anywhere."""

    def __init__(
        self, actions: ActionSet, forecaster: GrownForecaster, width: float, radius: float, rng: Any
    ) -> None:
        self.actions, self.forecaster, self.width, self.rng = actions, forecaster, width, rng
        lower, upper = actions.bounds()
        if isinstance(actions, Space):  # below zero is what does not matter
            lower = np.maximum(lower, 0.0)
        sides, kernel = upper - lower, forecaster.landmarks.kernel
        lengths = getattr(kernel, "length_scales", lambda _: None)(len(sides))
        self.scales = radius * (sides / 2 if lengths is None else np.minimum(lengths, sides))

    def newcomers(self, X: Floats, offered: Bools, count: int) -> Floats:
        """So many points at most: in each sweep some of the smallest bounds, some of the smallest means; the rest are anywhere."""
        by_bound, by_mean = max(count // 5, 1), max(count // 10, 1)
        at = np.flatnonzero(offered)
        mean, bound = self._scores(X[at])
        centres = X[at[_both(mean, bound, CENTRES, CENTRES)]]
        found = []
        for sweep in range(SWEEPS):
            pool = self._around(centres, self.scales * 0.5**sweep)
            mean, bound = self._scores(pool)
            best = _both(bound, mean, by_bound, by_mean)
            found.append(pool[best])
            centres = pool[best[: 2 * CENTRES]]
        rest = max(count - SWEEPS * (by_bound + by_mean), 1)
        found.insert(0, to_numpy(self.actions.sample(rest, self.rng)))
        points = np.concatenate(found)
        if isinstance(self.actions, Space):  # as their params say, to the last bit
            points = self.actions.encode(self.actions.decode(points))
        known = {row.tobytes() for row in X}
        fresh = {row.tobytes(): row for row in points + 0.0 if row.tobytes() not in known}
        return np.array(list(fresh.values())[:count]).reshape(-1, X.shape[1])

    def _scores(self, X: Floats) -> tuple[Floats, Floats]:
        mean, deviation = self.forecaster.predict(X)
        return mean, mean - self.width * deviation

    def _around(self, centres: Floats, scales: Floats) -> Floats:
        """Points near some: moved, with a coordinate or two drawn anew, or with coordinates of another one."""
        rng, d = self.rng, centres.shape[1]
        X = np.repeat(centres, -(-POOL // len(centres)), axis=0)
        anywhere = to_numpy(self.actions.sample(len(X), rng))
        if isinstance(self.actions, Space):  # what begins to matter may have any value
            X = np.where(X < 0, rng.random(X.shape), X)
        steps = rng.standard_normal(X.shape) * scales
        moved = X + steps * (rng.random(X.shape) < MOVED)
        kind, coins = rng.random(len(X)), rng.random(X.shape)
        drawn = np.where(coins < 1.5 / d, anywhere, X)
        others = centres[rng.integers(len(centres), size=len(X))]
        crossed = np.where(coins < 0.5, others, X)
        moved[kind < REDRAWN] = drawn[kind < REDRAWN]
        between = (kind >= REDRAWN) & (kind < REDRAWN + CROSSED)
        moved[between] = crossed[between]
        return self._inside(moved)

    def _inside(self, X: Floats) -> Floats:
        """The nearest actions."""
        if isinstance(self.actions, Space):
            return self.actions.rows(np.clip(X, 0.0, np.nextafter(1.0, 0.0)))
        inside: Floats = self.actions.project(X)  # type: ignore[attr-defined]
        return inside


def _both(one: Floats, other: Floats, first: int, second: int) -> NDArray[np.int64]:
    """Rows of the smallest values of one, then of the other, none twice."""
    rows = [
        *np.argsort(one, kind="stable")[:first].tolist(),
        *np.argsort(other, kind="stable")[:second].tolist(),
    ]
    return np.array(list(dict.fromkeys(rows)))
