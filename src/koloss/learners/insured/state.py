"""The state of an insured learner: its stages, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from koloss.actions import Contexts
from koloss.guarantees import bandit
from koloss.learners.bandit.apart import Turn
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.subsets import NONE_ADDED, Bools, Rows
from koloss.learners.base import Learner
from koloss.learners.insured.account import Units
from koloss.learners.insured.engines import Robust
from koloss.learners.insured.evidence import Alarm
from koloss.learners.insured.exploration import Floats
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.growing import FirstLook, Growth
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.places import Place
from koloss.learners.insured.policies import UserPolicy, make_policy
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.stage import Stage
from koloss.learners.sharing import locked
from koloss.learners.waiting import Late


class InsuredState(Learner[InsuredSettings, Any]):
    """An insured learner as far as its state goes: a stage for each context, on one forecast."""

    feedback = "bandit"
    settings_type = InsuredSettings

    settings: InsuredSettings
    engine: PointsEngine  # of the features with which policies are watched, in the first context
    alarms: list[Alarm]
    _most_open: int = 0  # most decisions of all contexts that waited when another one was made
    _stages: list[Stage]  # one for each context, and one where there are none
    _units: Units
    _forecaster: Forecaster  # of all pairs of a context and an action
    _pending: Pending  # what is in flight
    _growth: Growth | None = None  # where the set grows

    def _prepare(self, engines: Sequence[tuple[PointsEngine, Robust]]) -> None:
        """The stages of a game; the forecast has been made."""
        settings, (first, _) = self.settings, engines[0]
        self.engine, self._units = first, Units(first)
        problems = [engine.problem for engine, _ in engines]
        self.rank, self.epsilon = sum(p.rank for p in problems), max(p.epsilon for p in problems)
        kind = FirstLook if settings.in_play else Pending
        self._pending, self.alarms, self._stages = kind(self._forecaster), [], []
        C, K = len(engines), len(first.points)
        for c, (engine, robust) in enumerate(engines):
            place = Place(c, C, K, None if C == 1 else _shown(settings.contexts, c))
            stage = Stage(
                settings,
                place,
                engine,
                robust,
                make_policy(settings.policy, settings.deviations, place),
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
        self.ledger.name(self.ledger.points, None)  # keys are those of pairs

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

    def state(self) -> dict[str, Any]:
        with self._lock:
            policy = self._stages[0].policy
            if isinstance(policy, UserPolicy):
                policy.keep()
            return super().state()


def _shown(contexts: Contexts | None, context: int) -> Any:
    """A context as it was given: its label, its params or its coordinates."""
    assert contexts is not None
    if contexts.labels is not None:
        return contexts.labels[context]
    if contexts.points is not None:
        return dict(contexts.points.params[context])
    return contexts.X[context]
