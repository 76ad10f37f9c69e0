"""The state of an insured learner: its parts, and how a game begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from koloss.core import linalg
from koloss.guarantees import bandit, insured
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.subsets import Roster
from koloss.learners.base import Learner
from koloss.learners.insured.account import Account
from koloss.learners.insured.allowance import Allowance
from koloss.learners.insured.chances import Chances
from koloss.learners.insured.contextual import ContextGame
from koloss.learners.insured.diagnostics import Alarm
from koloss.learners.insured.exploration import Exploration, Floats
from koloss.learners.insured.forecast import Forecaster
from koloss.learners.insured.growing import FirstLook, Growth
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.per_context import ContextRound
from koloss.learners.insured.policies import BuiltIn, UserPolicy
from koloss.learners.insured.promise import Counts
from koloss.learners.insured.robust import Robust
from koloss.learners.insured.roster import Masks
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.units import Units
from koloss.learners.insured.watched import Watched
from koloss.learners.sharing import locked


class InsuredState(Learner[InsuredSettings, Any]):
    """An insured learner as far as its state goes: stages on one account, or a game with contexts."""

    feedback = "bandit"
    settings_type = InsuredSettings

    settings: InsuredSettings
    engine: PointsEngine  # of the features with which policies are watched
    _units: Units
    _game: ContextGame | Any = None  # of several contexts; then there is nothing of what follows
    _policy: BuiltIn | UserPolicy | Any = None
    _forecaster: Forecaster | Any = None
    _growth: Growth | None = None  # where the set grows
    _first: Exploration | Any = None  # how policies explore at first
    _is_short: bool = False
    _warm_up: int = 0
    _account: Account | Any = None
    _pending: Pending | Any = None  # what is in flight
    _roster: Roster | Any = None
    _masks: Masks | Any = None
    _robust: Robust | Any = None
    _chances: Chances | Any = None
    _counts: Counts | Any = None
    _paused: bool = False  # whether the operator has stopped the policy: he lets it play again
    _last: Watched | Any = None  # the policy under watch
    _stage: Watched | Exp2 | Any = None
    alarms: list[Alarm]

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
        self._pending = kind(self._forecaster)
        self._roster, self._masks = Roster(len(engine.points)), Masks()
        self._robust = Robust(self.settings, robust, batch)
        self._chances, self._counts = Chances(), Counts()
        self.alarms = []
        self._stage = self._last = self._watched()

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
        self.alarms = []

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

    def _condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        if isinstance(law, ContextRound):
            return None
        if isinstance(law, Round):
            return law.condensed(keys)
        exp2 = self._robust.exp2
        assert exp2 is not None
        return exp2.condensed(law, keys)

    # Snapshots.

    def state(self) -> dict[str, Any]:
        with self._lock:
            if isinstance(self._policy, UserPolicy):
                self._policy.keep()
            return super().state()
