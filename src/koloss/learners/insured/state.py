"""The state of an insured learner: its parts, how a game begins, and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, fields
from typing import Any

from koloss.core import linalg
from koloss.guarantees import bandit, insured
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.placing import restored
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.saved import check_awake
from koloss.learners.bandit.subsets import Roster
from koloss.learners.base import Learner
from koloss.learners.insured.account import Account
from koloss.learners.insured.allowance import Allowance
from koloss.learners.insured.chances import Chances
from koloss.learners.insured.contextual import ContextGame
from koloss.learners.insured.diagnostics import Alarm, alarm_from_dict
from koloss.learners.insured.exploration import Exploration, Floats
from koloss.learners.insured.forecast import Forecaster, forecaster_from
from koloss.learners.insured.growing import FirstLook, GrowingEngine, Growth
from koloss.learners.insured.landmarks import GrownForecaster
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.per_context import ContextRound
from koloss.learners.insured.policies import BuiltIn, UserPolicy, check_given, restore_policy
from koloss.learners.insured.promise import Counts
from koloss.learners.insured.robust import Robust
from koloss.learners.insured.roster import Masks
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.units import Units
from koloss.learners.insured.watched import Watched
from koloss.learners.reading import Reader, plain
from koloss.learners.sharing import locked


class InsuredState(Learner[InsuredSettings, Any]):
    """An insured learner as far as its state goes: stages on one account, or a game with contexts."""

    feedback = "bandit"
    settings_type = InsuredSettings

    engine: PointsEngine  # of the features with which policies are watched
    _units: Units
    _game: ContextGame | None = None  # of several contexts; then there is nothing of what follows
    _policy: BuiltIn | UserPolicy
    _forecaster: Forecaster
    _growth: Growth | None = None  # where the set grows

    # While a snapshot is read: the policy given for it, and its explorations.
    _replacement: Any
    _explorations: dict[int, Exploration]

    def _prepare(self, engine: PointsEngine, robust: PointsEngine, batch: int) -> None:
        """The first stage of a game; `robust` and `batch` are the robust learner's, tuned to all rounds."""
        problem, horizon, least = engine.problem, self.settings.horizon, self.settings.budget
        self.engine, self._units = engine, Units(engine)
        self.rank, self.epsilon = problem.rank, problem.epsilon
        self._is_short = insured.is_pointless(problem, horizon, least)
        self._warm_up = 0 if horizon else insured.warm_up(problem, least)
        if engine.learned and problem.log_prior > 0:  # some of the range should be heard first
            self._warm_up = max(self._warm_up, 2 * problem.rank)
        features = linalg.in_columns(engine.features)
        self._first = Exploration(1, features, engine.weights, engine.shares)
        self._account = Account(len(engine.points), engine.shares)
        kind = FirstLook if self.settings.in_play else Pending
        self._pending: Pending = kind(self._forecaster)  # what is in flight
        self._roster, self._masks = Roster(len(engine.points)), Masks()
        self._robust = Robust(self.settings, robust, batch)
        self._chances, self._counts = Chances(), Counts()
        self._paused = False  # whether the operator has stopped the policy: he lets it play again
        self.alarms: list[Alarm] = []
        self._last = self._watched()  # the policy under watch
        self._stage: Watched | Exp2 = self._last

    def _watched(self) -> Watched:
        """The stage of the policy."""
        engine, units = self.engine, self._units
        allowance = Allowance.of(
            self.settings, engine.problem, warm_up=self._warm_up, learned=engine.learned
        )
        stage = Watched(
            engine.points,
            self._policy,
            self._forecaster,
            self._first,
            allowance,
            self._account,
            self._pending,
        )
        if units.learned:
            stage.low, stage.high = units.heard
        return stage

    def _wake(self) -> Exp2:
        """The robust learner, awake."""
        return self._robust.wake(self.ledger.made)

    def _name_actions(self) -> None:
        if self._growth is None:
            super()._name_actions()
        else:
            self._growth.name(self)

    def _enter(self, game: ContextGame) -> None:
        """A game with several contexts."""
        self._game, self.engine, self._units = game, game.engine, Units(game.engine)
        self.rank, self.epsilon = game.plan.rank, game.epsilon

    def __repr__(self) -> str:
        size = self.robust.size if self._game is None else self._game.size
        return f"{super().__repr__()}  # {size}"

    @property
    def actions(self) -> Floats:
        return self.engine.points if self._game is None else self._game.points

    @property
    def rates(self) -> bandit.Rates:
        """η, γ and κ of the robust learner for all rounds."""
        return self.robust.rates if self._game is None else self._game.plan.rates

    @property
    @locked
    def robust(self) -> PointsEngine:
        """The engine of the robust learner, tuned to all rounds."""
        return self._robust.engine

    @property
    @locked
    def batch(self) -> int:
        """Most rounds in an epoch of the robust learner."""
        return self._robust.batch

    # Laws that wait for late losses.

    def _late_lengths(self) -> tuple[int, ...]:
        if self._game is not None:
            return ()
        exp2 = self._robust.exp2
        return () if exp2 is None else exp2.late_lengths

    def _condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        if isinstance(law, ContextRound):
            return None
        if isinstance(law, Round):
            return law.condensed(keys)
        exp2 = self._robust.exp2
        assert exp2 is not None
        return exp2.condensed(law, keys)

    def _law_from_dict(self, data: Reader) -> Round | Epoch | ContextRound:
        if self._game is not None:
            return self._game.play.round_from_dict(data)
        if data.has_key("choice"):
            size = 1.0 if self._units.learned else 0.5
            return Round.from_dict(data, self._explorations, size)
        exp2 = self._robust.exp2
        if exp2 is None:
            data.refuse("law", "must be of a stage that has been played", "exp2")
        return exp2.law_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> list[int]:
        N = len(self.actions)
        keys: list[int] = data.array(name, (count,), -N, N - 1, whole=True).tolist()
        return keys

    # Snapshots.

    def _save(self) -> dict[str, Any]:
        if self._game is not None:
            return self._game.to_dict()
        robust, watched = self._robust.exp2, self._last
        laws = [self.ledger.current, *(entry.law for entry in self.ledger)]
        kept = [law.exploration for law in laws if isinstance(law, Round)]
        kept += [watched.exploration, self._first]
        explorations = {one.number: one for one in kept}
        state = {
            "engine": self.engine.to_dict(),
            "robust": None if self.robust is self.engine else self.robust.to_dict(),
            "batch": self.batch,
            "hull": self._units.to_dict(),
            "forecaster": self._forecaster.state(),
            "policy": self._policy.state() if isinstance(self._policy, UserPolicy) else None,
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "counts": list(astuple(self._counts)),
            "chances": self._chances.to_dict(),
            "paused": self._paused,
            "account": self._account.to_dict(),
            "roster": plain(self._roster, "offered", "changes") if self._roster.changes else None,
            "first": self._first.number,
            "pending": self._pending.state(),
            "watched": watched.to_dict(),
            "explorations": [one.to_dict() for n, one in explorations.items() if n > 1],
            "exp2": None if robust is None else robust.to_dict(),
            "sleeps": robust is not None and self._stage is not robust,
        }
        if self._growth is not None:
            state["growth"] = self._growth.to_dict()
        return state

    def _welcome(self) -> None:
        check_given(self.settings.policy_name, self._replacement)

    def _load(self, data: Reader) -> None:
        if not self.settings.has_contexts:
            self._load_stages(data)
            return
        self._enter(ContextGame.from_dict(data, self.settings, self._replacement))

    def _load_stages(self, data: Reader) -> None:
        """Take back what `_save` gave, of a game without contexts."""
        settings = self.settings
        kind = GrowingEngine if settings.in_play else PointsEngine
        part = data.part("engine")
        engine = restored(kind.from_dict(part, settings.watched), part)
        robust = engine
        if settings.shares_engine:
            data.nothing("robust")
        else:
            part = data.part("robust")
            robust = restored(kind.from_dict(part, settings.robust), part)
        N, m = engine.features.shape
        self._growth = _growth(settings, engine, robust, data)
        if self._growth is None:
            self._forecaster = forecaster_from(
                settings.forecast_kernel, engine, data.part("forecaster")
            )
        else:
            said = data.part("forecaster")
            self._forecaster = GrownForecaster.restored(
                self._growth.forecast_kernel, engine.points, said
            )
        name, given = settings.policy_name, self._replacement
        self._policy = restore_policy(name, settings.deviations, N, given, data)
        self._prepare(engine, robust, data.count("batch", 1))
        self._units.load(data, "hull")
        self.alarms = [alarm_from_dict(one) for one in data.parts("alarms")]
        counts = data.items("counts", len(fields(Counts)))
        self._counts = Counts(*(counts.count(str(k)) for k in range(len(fields(Counts)))))
        self._chances = Chances.from_dict(data.part("chances"), N)
        self._paused = data.flag("paused")
        self._account = Account.from_dict(data.part("account"), N, engine.shares)
        flights = FirstLook if settings.in_play else Pending
        self._pending = flights.from_state(self._forecaster, data.part("pending"))
        if data.has("roster"):
            said = data.part("roster")
            said.fill(self._roster, "offered", "changes")
            if not (self._roster.offered.any() and self._roster.changes):
                said.refuse("offered", "must hold an action, of an era after the first", None)
            self._account.offered = offered = self._roster.offered
            if isinstance(self._policy, UserPolicy):
                self._policy.offer(offered)
            if isinstance(self._forecaster, GrownForecaster):
                self._forecaster.watch(engine.features, offered)
        era = self._roster.changes
        kept = [
            Exploration.from_dict(one, N, m, era, engine.features)
            for one in data.parts("explorations")
        ]
        self._explorations = {one.number: one for one in (*kept, self._first)}
        number = data.count("first", 1)
        if number not in self._explorations or self._explorations[number].era != era:
            data.refuse("first", "must be among the explorations, and of the latest era", number)
        self._first = self._explorations[number]
        self._stage = self._last = self._watched()
        self._last.load(data.part("watched"), self._explorations)
        sleeps = data.flag("sleeps")
        if data.has("exp2"):
            said, n = data.part("exp2"), settings.horizon
            tuned = self._robust.engine_for(None if n is None else said.count("horizon", 1, n))
            self._robust.exp2 = exp2 = Exp2.from_dict(tuned, said, n)
            if not sleeps:
                self._stage = exp2
        elif self._is_short:
            data.refuse("exp2", "must be there where there is nothing to insure", None)

    def _check(self, data: Reader) -> None:
        del self._replacement
        if self._game is not None:
            self._game.check(data, self.ledger)
        else:
            del self._explorations
            self._check_stages(data)
        super()._check(data)

    def _check_stages(self, data: Reader) -> None:
        """Refuse a state whose parts do not fit together."""
        stage, ledger = self._robust.exp2, self.ledger
        latest = ledger.current
        if isinstance(latest, Round) and latest.choice is None and latest.law is None:
            data.refuse("ledger.current", "must have a law to be drawn from", None)
        if stage is not None:
            if isinstance(latest, Epoch):
                stage.epoch = latest
            stage.check(data)
        check_awake(data, ledger)
        if any(isinstance(entry.law, Epoch) and entry.key < 0 for entry in ledger):
            data.refuse("ledger.keys", "must be rows where the robust learner plays", -1)


def _growth(
    settings: InsuredSettings, engine: PointsEngine, robust: PointsEngine, data: Reader
) -> Growth | None:
    """How the set grows, where it does."""
    if not settings.in_play:
        return None
    engines = [engine] if robust is engine else [engine, robust]
    return Growth.from_dict(settings, data.part("growth"), engines)
