"""The state of an insured learner: its stages, what they share, and snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

import numpy as np

from koloss.actions import Contexts
from koloss.guarantees import bandit
from koloss.learners.bandit.apart import Turn
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.placing import restored
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.saved import check_awake
from koloss.learners.bandit.subsets import NONE_ADDED, Bools, Rows
from koloss.learners.base import Learner
from koloss.learners.insured.account import Account
from koloss.learners.insured.chances import Chances
from koloss.learners.insured.diagnostics import Alarm, alarm_from_dict
from koloss.learners.insured.engines import Engines
from koloss.learners.insured.exploration import Exploration, Floats
from koloss.learners.insured.forecast import Forecaster, forecaster_from
from koloss.learners.insured.growing import FirstLook, GrowingEngine, Growth
from koloss.learners.insured.landmarks import GrownForecaster
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.places import Place
from koloss.learners.insured.policies import UserPolicy, check_given, make_policy
from koloss.learners.insured.robust import Robust
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.stage import Counts, Stage
from koloss.learners.insured.units import Units
from koloss.learners.reading import Reader, plain
from koloss.learners.sharing import locked
from koloss.learners.waiting import Late


class InsuredState(Learner[InsuredSettings, Any]):
    """An insured learner as far as its state goes: a stage for each context, on one forecast."""

    feedback = "bandit"
    settings_type = InsuredSettings

    engine: PointsEngine  # of the features with which policies are watched, in the first context
    _most_open = 0  # most decisions of all contexts that waited when another one was made
    _stages: list[Stage]  # one for each context, and one where there are none
    _units: Units
    _forecaster: Forecaster  # of all pairs of a context and an action
    _pairs: PointsEngine | None = None  # their features, where there are several contexts
    _pending: Pending  # what is in flight
    _growth: Growth | None = None  # where the set grows

    # While a snapshot is read: the policy given for it, and the explorations of each stage.
    _replacement: Any
    _explorations: list[dict[int, Exploration]]

    def _prepare(self, engines: Sequence[Engines], policy: Any) -> None:
        """The stages of a game; the forecast has been made."""
        settings, first = self.settings, engines[0].watched
        self.engine, self._units = first, Units(first)
        ranks = [one.watched.problem.rank for one in engines]
        self.rank, self.epsilon = sum(ranks), max(one.watched.problem.epsilon for one in engines)
        kind = FirstLook if settings.in_play else Pending
        self._pending = kind(self._forecaster)
        self.alarms: list[Alarm] = []
        self._stages = []
        C, K = len(engines), len(first.points)
        hull = None if C == 1 else engines[0].robust.loss_range()
        for c, (engine, robust, horizon, batch) in enumerate(engines):
            shown = None if C == 1 else _shown(settings.contexts, c)
            place = Place(c, C, K, shown)
            stage = Stage(
                settings,
                place,
                engine,
                Robust(robust, horizon, batch, hull),
                make_policy(policy, settings.deviations, place),
                self._forecaster,
                self._pending,
                self._units,
                self.alarms,
            )
            self._stages.append(stage)

    def _name_actions(self) -> None:
        if self._growth is not None:
            self._growth.name(self)
            return
        super()._name_actions()
        self.ledger.slots = None  # keys are those of pairs

    def __repr__(self) -> str:
        many = f"{len(self._stages):,} contexts, " if self.settings.has_contexts else ""
        return f"{super().__repr__()}  # {many}{self.robust.size}"

    @property
    def actions(self) -> Floats:
        return self.engine.points

    @property
    def rates(self) -> bandit.Rates:
        """η, γ and κ of the robust learner for all rounds; with contexts that of the first."""
        return self.robust.rates

    @property
    @locked
    def robust(self) -> PointsEngine:
        """The engine of the robust learner, tuned to all rounds; with contexts that of the first, tuned to its share of them."""
        return self._stages[0].robust.engine

    @property
    @locked
    def batch(self) -> int:
        """Most rounds in an epoch of the robust learner."""
        return self._stages[0].robust.batch

    # Laws that wait for late losses.

    def _stage_of(self, entry: Any) -> Stage:
        """The stage that a decision was made in."""
        return self._stages[entry.context or 0]

    def _law_of(self, entry: Any) -> Any:
        """The law of its stage that a decision was drawn from."""
        law = entry.law
        return law.epochs[entry.context] if isinstance(law, Turn) else law

    def _laws(self) -> Iterator[tuple[Stage, Any]]:
        """Every law that a loss may come for, with its stage; some more than once."""
        if self.ledger.current is not None:
            yield from self._parts(self.ledger.current, 0)
        for entry in self.ledger:
            yield from self._parts(entry.law, entry.context or 0)

    def _parts(self, law: Any, context: int) -> Iterator[tuple[Stage, Any]]:
        """Those of a law: one for each context that came in a call."""
        if isinstance(law, Turn):
            yield from ((self._stages[c], one) for c, one in law.epochs.items())
        else:
            yield self._stages[context], law

    def _late_lengths(self) -> tuple[int, ...]:
        awake = (stage.robust.exp2 for stage in self._stages)
        return tuple({one.late_length for one in awake if one is not None})

    def _condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        if not isinstance(law, Turn):
            return self._stages[0].condensed(law, keys)
        small = []
        for key in keys:
            c = (key if key >= 0 else ~key) // len(self.actions)
            stage, own = self._stages[c], law.epochs[c]
            (one,) = stage.condensed(own, [stage.place.local(key)]) or (own,)
            small.append(one if isinstance(one, Late) else Turn(law.number, {c: one}))
        return small

    def _law_from_dict(self, data: Reader) -> Round | Epoch | Turn:
        if not data.has_key("epochs"):
            return self._own_from_dict(data, 0)
        contexts = data.array("contexts", (None,), 0, len(self._stages) - 1, whole=True).tolist()
        parts = data.parts("epochs")
        if len(parts) != len(contexts) or len(set(contexts)) < len(contexts) or not contexts:
            data.refuse("epochs", "must be one for each context", len(parts))
        laws: dict[int, Any] = {
            c: self._own_from_dict(part, c) for c, part in zip(contexts, parts, strict=True)
        }
        return Turn(data.count("number", 1), laws)

    def _own_from_dict(self, data: Reader, context: int) -> Round | Epoch:
        """A law of a stage."""
        if data.has_key("choice"):
            size = 1.0 if self._units.learned else 0.5
            return Round.from_dict(data, self._explorations[context], size)
        exp2 = self._stages[context].robust.exp2
        if exp2 is None:
            data.refuse("law", "must be of a stage that has been played", "exp2")
        return exp2.law_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> list[int]:
        N = len(self.actions) * len(self._stages)
        keys: list[int] = data.array(name, (count,), -N, N - 1, whole=True).tolist()
        return keys

    # Actions that come and go.

    def _offer(self, changes: Sequence[tuple[Stage, Bools, Rows]]) -> None:
        """Other actions are offered from now on, in some stages."""
        firsts = [stage.exploring(offered) for stage, offered, _ in changes]
        for stage, offered, _ in changes:
            if isinstance(stage.policy, UserPolicy):
                stage.policy.announce(offered)
        # Nothing can fail from here on.
        for (stage, offered, added), first in zip(changes, firsts, strict=True):
            if isinstance(stage.policy, UserPolicy):
                stage.policy.offer(offered)
            stage.offer(offered, added, first)

    def _allowing(self, rows: Rows) -> Iterator[tuple[Stage, Rows]]:
        """Every stage that allows some of these actions, with those that it allows."""
        contexts = self.settings.contexts
        masks = None if contexts is None else contexts.allowed
        for c, stage in enumerate(self._stages):
            here = rows if masks is None else rows[masks[c][rows]]
            if len(here):
                yield stage, here

    def _withdraw(self, gone: Rows) -> None:
        """Offer these actions no more."""
        self._offer(
            [(one, one.roster.without(here), NONE_ADDED) for one, here in self._allowing(gone)]
        )

    # Snapshots.

    def _save(self) -> dict[str, Any]:
        engines = {id(one): one for one in self._engines()}
        order = {key: k for k, key in enumerate(engines)}
        policy = self._stages[0].policy
        laws: dict[int, list[Any]] = {id(stage): [] for stage in self._stages}
        for stage, law in self._laws():
            laws[id(stage)].append(law)
        state = {
            "engines": [one.to_dict() for one in engines.values()],
            "stages": [_stage_to_dict(stage, order, laws[id(stage)]) for stage in self._stages],
            "pairs": None if self._pairs is None else self._pairs.to_dict(),
            "forecaster": self._forecaster.state(),
            "policy": {"own": policy.state()} if isinstance(policy, UserPolicy) else None,
            "pending": self._pending.state(),
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "hull": self._units.to_dict(),
            "most_open": self._most_open,
        }
        if self._growth is not None:
            state["growth"] = self._growth.to_dict()
        return state

    def _engines(self) -> Iterator[PointsEngine]:
        for stage in self._stages:
            yield stage.engine
            yield stage.robust.engine

    def _welcome(self) -> None:
        check_given(self.settings.policy_name, self._replacement)

    def _load(self, data: Reader) -> None:
        settings = self.settings
        kind = GrowingEngine if settings.in_play else PointsEngine
        made = []
        parts, stages = data.parts("engines"), data.parts("stages")
        if len(stages) != settings.stages:
            data.refuse("stages", f"must be a list of {settings.stages}", len(stages))
        which = [stage.array("engines", (2,), 0, len(parts) - 1, whole=True) for stage in stages]
        for k, part in enumerate(parts):
            c = next((c for c, pair in enumerate(which) if k in pair), 0)
            own = settings.watched_in(c) if k == which[c][0] else settings.robust_in(c)
            made.append(restored(kind.from_dict(part, own), part))
        engines = []
        for (k, j), stage in zip(which, stages, strict=True):
            horizon = stage.count("horizon", 1) if stage.has("horizon") else None
            engines.append(Engines(made[k], made[j], horizon, stage.count("batch", 1)))
        self._growth = _growth(settings, *engines[0][:2], data)
        said, first = data.part("forecaster"), engines[0].watched
        if not settings.has_contexts:
            data.nothing("pairs")
        if self._growth is not None:
            kernel = self._growth.forecast_kernel
            self._forecaster = GrownForecaster.restored(kernel, first.points, said)
        elif settings.has_contexts:
            self._pairs = PointsEngine.from_dict(data.part("pairs"), settings.pairs)
            self._forecaster = forecaster_from(settings.forecast_kernel, self._pairs, said)
        else:
            self._forecaster = forecaster_from(settings.forecast_kernel, first, said)
        self._prepare(engines, self._given(data))
        self._units.load(data, "hull")
        self._most_open = data.count("most_open")
        self.alarms[:] = [alarm_from_dict(one) for one in data.parts("alarms")]
        self._pending = type(self._pending).from_state(self._forecaster, data.part("pending"))
        self._explorations = []
        for one, part in zip(self._stages, stages, strict=True):
            one.pending = one.last.pending = self._pending
            self._explorations.append(_load_stage(one, part))

    def _given(self, data: Reader) -> Any:
        """The policy of a snapshot: the library's by name, the user's from what was given."""
        name = self.settings.policy_name
        if name != "own":
            data.nothing("policy")
            return name
        own = data.part("policy").raw("own")
        policy = UserPolicy(self._replacement, 1)
        policy.restore(own)
        return policy.policy

    def _check(self, data: Reader) -> None:
        del self._replacement, self._explorations
        latest, K, several = self.ledger.current, len(self.actions), self.settings.has_contexts
        for entry in self.ledger:
            context = (entry.key if entry.key >= 0 else ~entry.key) // K
            if several and entry.context != context:
                data.refuse("ledger.contexts", "must be those of the pairs", entry.context)
            if isinstance(entry.law, Turn) != several and not isinstance(entry.law, Late):
                data.refuse("ledger.laws", "must be of contexts, or without", None)
            if isinstance(self._law_of(entry), Epoch) and entry.key < 0:
                data.refuse("ledger.keys", "must be rows where the robust learner plays", -1)
        if isinstance(latest, Round) and latest.choice is None and latest.law is None:
            data.refuse("ledger.current", "must have a law to be drawn from", None)
        for stage, law in self._laws():
            exp2 = stage.robust.exp2
            if isinstance(law, Epoch) and exp2 is not None and (several or law is latest):
                exp2.epoch = law if law.number == exp2.epochs else exp2.epoch
        for stage in self._stages:
            if stage.robust.exp2 is not None:
                stage.robust.exp2.check(data)
        check_awake(data, self.ledger)
        super()._check(data)


def _shown(contexts: Contexts | None, context: int) -> Any:
    """A context as it was given: its label, its params or its coordinates."""
    assert contexts is not None
    if contexts.labels is not None:
        return contexts.labels[context]
    if contexts.points is not None:
        return dict(contexts.points.params[context])
    return contexts.X[context]


def _stage_to_dict(stage: Stage, order: dict[int, int], laws: Sequence[Any]) -> dict[str, Any]:
    """What changes in a stage, with the numbers of its engines."""
    exp2, watched = stage.robust.exp2, stage.last
    kept = [law.exploration for law in laws if isinstance(law, Round)]
    kept += [watched.exploration, stage.first]
    explorations = {one.number: one for one in kept}
    roster, robust, policy = stage.roster, stage.robust, stage.policy
    engines = [order[id(stage.engine)], order[id(robust.engine)]]
    return {
        "engines": np.array(engines, dtype=np.int64),
        "horizon": robust.horizon,
        "batch": robust.batch,
        **plain(stage, "made", "heard", "paused"),
        "explorations": [one.to_dict() for n, one in explorations.items() if n > 1],
        "first": stage.first.number,
        "watched": watched.to_dict(),
        "counts": list(astuple(stage.counts)),
        "chances": stage.chances.to_dict(),
        "account": stage.account.to_dict(),
        "roster": plain(roster, "offered", "changes") if roster.changes else None,
        "exp2": None if exp2 is None else exp2.to_dict(),
        "sleeps": exp2 is not None and stage.playing is not exp2,
        "policy": {"next": policy.next} if isinstance(policy, UserPolicy) else None,
    }


def _load_stage(stage: Stage, data: Reader) -> dict[int, Exploration]:
    """Take back what `_stage_to_dict` gave; its explorations by their numbers."""
    engine, robust, N = stage.engine, stage.robust, len(stage.engine.points)
    data.fill(stage, "made", "heard", "paused")
    counts = data.items("counts", len(fields(Counts)))
    stage.counts = Counts(*(counts.count(str(k)) for k in range(len(fields(Counts)))))
    stage.chances = Chances.from_dict(data.part("chances"), N)
    stage.account = stage.last.account = Account.from_dict(data.part("account"), N, engine.shares)
    if isinstance(stage.policy, UserPolicy):
        stage.policy.load(data.part("policy"))
    else:
        data.nothing("policy")
    if data.has("roster"):
        said = data.part("roster")
        said.fill(stage.roster, "offered", "changes")
        if not (stage.roster.offered.any() and stage.roster.changes):
            said.refuse("offered", "must hold an action, of an era after the first", None)
        stage.account.offered = offered = stage.roster.offered
        if isinstance(stage.policy, UserPolicy):
            stage.policy.announce(offered)
            stage.policy.offer(offered)
        if isinstance(stage.forecaster, GrownForecaster):
            stage.forecaster.watch(engine.features, offered)
    era, m = stage.roster.changes, engine.features.shape[1]
    kept = [
        Exploration.from_dict(one, N, m, era, engine.features) for one in data.parts("explorations")
    ]
    explorations = {one.number: one for one in (*kept, stage.first)}
    number = data.count("first", 1)
    if number not in explorations or explorations[number].era != era:
        data.refuse("first", "must be among the explorations, and of the latest era", number)
    stage.first = stage.last.first = explorations[number]
    stage.last.load(data.part("watched"), explorations)
    if stage.units.learned:
        stage.last.low, stage.last.high = stage.units.heard
    sleeps, n = data.flag("sleeps"), robust.horizon
    if data.has("exp2"):
        said = data.part("exp2")
        tuned = robust.engine_for(None if n is None else said.count("horizon", 1, n))
        robust.exp2 = exp2 = Exp2.from_dict(tuned, said, n)
        if robust.hull is not None:
            robust.hull.__dict__.update(exp2.range.__dict__)
            exp2.range = robust.hull
        if not sleeps:
            stage.playing = exp2
    elif stage.is_short:
        data.refuse("exp2", "must be there where there is nothing to insure", None)
    return explorations


def _growth(
    settings: InsuredSettings, engine: PointsEngine, robust: PointsEngine, data: Reader
) -> Growth | None:
    """How the set grows, where it does."""
    if not settings.in_play:
        return None
    engines = [engine] if robust is engine else [engine, robust]
    return Growth.from_dict(settings, data.part("growth"), engines)
