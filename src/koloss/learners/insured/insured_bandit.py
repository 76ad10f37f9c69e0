"""Any policy, insured: good in kind weather, safe in foul.

A policy of your choice plays. A small share of the rounds explores, by a design, so that the regret of the policy can be
estimated without bias whatever it does. While the estimate stays within a budget the policy goes on; at the first evidence that
it is being beaten, exponential weights take over for the rounds that remain. In the worst case the regret is at most

    (1 + trigger + premium) B(n),   B(n) = ρ √(c m n log N),

for every policy (Theorem I1 of the theory pages). A round:

1. the policy proposes an action, or a law over actions;
2. the share γ of exploration is the smallest one with which no outcome of the round takes the estimated regret beyond the budget;
   where that is more than a half, the policy is stopped;
3. with probability γ explore, otherwise play what was proposed;
4. predict, hear the loss, add the unbiased estimate of all losses.

Any rule may stop a policy early: the bound holds for every stopping time. The rule here bets on "exploration does better than
the policy", and stops at long odds.

A stage is whoever plays for a while: a policy under watch (`watched`), and at last `Exp2` itself. One ledger and one generator
serve them all.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet
from koloss.designs import Design
from koloss.guarantees import Guarantee, bandit, insured
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.diagnostics import diagnose
from koloss.learners.bandit.exp2 import Epoch, Exp2, prove, rates_from_dict
from koloss.learners.bandit.points import PointsEngine, points_engine
from koloss.learners.bandit.tuning import choose_batch, choose_rates
from koloss.learners.base import Learner, Recommendation
from koloss.learners.insured.diagnostics import Alarm, InsuredDiagnostics, alarm_from_dict
from koloss.learners.insured.exploration import Exploration, Floats
from koloss.learners.insured.forecast import Forecaster, forecaster_for
from koloss.learners.insured.policies import (
    UserPolicy,
    check_given,
    make_policies,
    restore_policies,
)
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.watched import Allowance, Watched
from koloss.learners.ledger import Drawn, Entry, Late, keys_of
from koloss.learners.losses import read_losses
from koloss.learners.reading import Reader
from koloss.learners.sharing import locked
from koloss.learners.snapshots import unseal
from koloss.proxy import Proxy


class InsuredBandit(Learner[InsuredSettings, Any]):
    """A policy of your choice with the worst-case guarantee of a robust learner behind it, under bandit feedback.

    Parameters
    ----------
    actions : ActionSet
        Finite, or compact: then a net is played.
    kernel : Kernel
        Or any object with `k(X, Y)` and `k.diag(X)`.
    horizon : int or None
        Number n of rounds; None where it is not known.
    loss_range : (float, float)
        One interval that holds all losses of all rounds.
    policy : str, object, or a sequence of these
        "ucb", "thompson", "optimistic" (exponential weights that follow a prediction), or an object of your own that
        has `propose()` and `hear(index, loss)`; see `Policy`. Several play one after the other, each until it is stopped.
    trigger, premium : float, or one for each policy
        Together the budget of estimated regret, in units of the robust learner's bound B. More of it means less
        exploration and a larger bound.
    width : float
        How many deviations "ucb" subtracts, and by how much "thompson" scales them.
    early : bool
        Whether evidence that exploration does better than the policy stops it (heuristic; the bound holds with it).
    loss_norm, proxy, rank, design, loss_class, delay, spacing
        As for `BanditExpWeights`.
    batch : int or "auto"
        Most rounds in an epoch of the robust learner; one without a horizon.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> prices = kl.Points(np.linspace(0, 1, 40)[:, None])
    >>> learner = kl.InsuredBandit(prices, kl.Gaussian(0.3), horizon=3000, loss_range=(0, 1), rng=0)
    >>> paid = 0.0
    >>> for _ in range(3000):
    ...     decision = learner.ask()
    ...     loss = float((decision.action[0] - 0.6) ** 2)
    ...     learner.tell(decision, loss)
    ...     paid += loss
    >>> bool(paid < 30), learner.recommend().action.round(1).tolist(), learner.diagnostics.alarms
    (True, [0.6], ())
    """

    feedback = "bandit"
    settings_type = InsuredSettings

    # While a snapshot is read: the policies given for it, and its explorations.
    _replacements: Any
    _explorations: dict[int, Exploration]

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike,
        *,
        horizon: int | None,
        loss_range: tuple[float, float],
        policy: Any = "ucb",
        trigger: Any = 0.5,
        premium: Any = 0.75,
        width: float = 0.3,
        early: bool = True,
        loss_norm: float | None = None,
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        design: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        loss_class: Literal["rank-one", "general"] = "rank-one",
        delay: int = 0,
        spacing: float | None = None,
        rng: Any = None,
        **former: Any,
    ) -> None:
        settings = InsuredSettings.of(locals())
        engine, robust = points_engine(settings.robust), settings.robust
        rates, batch = choose_rates(robust, engine.problem), choose_batch(robust, engine.problem)
        self._begin(settings, rng)
        self._forecaster = forecaster_for(settings.kernel, engine)
        self._policies = make_policies(settings.policies, settings.width, len(engine.points))
        self._prepare(engine, rates, batch)
        if self._is_short:
            self._end_stage("short")

    def _prepare(self, engine: PointsEngine, rates: bandit.Rates, batch: int) -> None:
        """The first stage of a game; `rates` and `batch` are the robust learner's for all rounds."""
        self.engine, self.rates, self.batch = engine, rates, batch
        self.rank, self.epsilon = engine.problem.rank, engine.problem.epsilon
        problem, horizon, least = engine.problem, self.settings.horizon, min(self.settings.shares)
        self._width = engine.high - engine.low
        self._is_short = insured.is_pointless(problem, horizon, least)
        self._warm_up = 0 if horizon else insured.warm_up(problem, least)
        self._first = Exploration(1, engine.features, engine.weights)
        self.alarms: list[Alarm] = []
        self._late = 0  # losses of a stage that had heard others since the decision
        self._crowd = 0  # most decisions unheard after a loss, or when a policy was stopped
        self._dropped = 0  # losses that came after their stage
        self._strays: list[int] = []  # `ledger.heard` at each loss dropped by the robust learner
        self._robust_delay = 0  # most losses it heard between a decision and its own
        self._last = self._watched(0)  # the latest policy under watch
        self._stage: Watched | Exp2 = self._last

    @property
    def actions(self) -> Floats:
        return self.engine.points

    # Stages in a row.

    def _watched(self, number: int, designs: int = 1) -> Watched:
        """The stage of a policy."""
        settings, problem, horizon = self.settings, self.engine.problem, self.settings.horizon
        share, premium, early = settings.shares[number], settings.premiums[number], settings.early
        unit = insured.scale(problem, 1)
        allowance = Allowance(share, premium, unit, horizon, self._warm_up, None, early)
        cap = insured.largest_leverage(problem, allowance.budget(1), horizon)
        allowance, policy = replace(allowance, cap=cap), self._policies[number]
        points, forecaster = self.engine.points, self._forecaster
        return Watched(number, points, policy, forecaster, self._first, allowance, designs)

    def _after(self, stage: Watched) -> Watched | Exp2:
        """Who plays next: another policy, or exponential weights from scratch, tuned to the rounds that remain."""
        if stage.number + 1 < len(self._policies) and not self._is_short:
            return self._watched(stage.number + 1, stage.designs)
        rates, horizon = self.rates, self.settings.horizon
        if horizon is not None:
            horizon = max(horizon - self.ledger.made, 1)
            rates = bandit.tune(replace(self.engine.problem, rounds=horizon))
        return Exp2(self.engine, rates, horizon=horizon, batch=self.batch)

    def _end_stage(self, reason: str) -> None:
        """Stop the policy in play; losses of its decisions that are outstanding will not count."""
        stage, names = self._stage, self.settings.names
        assert isinstance(stage, Watched)
        if reason != "short":
            self._crowd = max(self._crowd, self.ledger.unheard + (reason == "late loss"))
        over = Late(stage.number, np.zeros(0))  # of its losses nothing will be used
        self.ledger.replace_laws(lambda law: over if isinstance(law, Round) else law)
        self._stage = successor = self._after(stage)
        regret, name = stage.estimated_regret * self._width, "robust"
        if isinstance(successor, Watched):
            self._last, name = successor, names[successor.number]
        self.alarms.append(Alarm(self.ledger.made, names[stage.number], reason, regret, name))

    @locked
    def hand_over(self) -> None:
        """Stop the policy in play now; the next one, or the robust learner, plays on. The guarantee holds all the same."""
        if isinstance(self._stage, Watched):
            self._end_stage("operator")

    # Ask and tell.

    def _draw(self, count: int | None) -> tuple[Any, Drawn]:
        while (drawn := self._stage.draw(count, self._rng, self.ledger)) is None:
            self._end_stage("budget")
        return drawn

    def _read(self, entries: Sequence[Entry[Any]], loss: Any) -> Sequence[Any]:
        return read_losses(loss, len(entries), self.engine.low, self.engine.high)

    def _admit(self, entry: Entry[Any], loss: float) -> None:
        stage = self._stage
        if isinstance(stage, Watched) and isinstance(stage.policy, UserPolicy):
            stage.policy.hear(entry.key if entry.key >= 0 else ~entry.key, float(loss))

    def _learn(self, law: Any, entries: Sequence[Entry[Any]], losses: Sequence[Any]) -> None:
        stage, ledger = self._stage, self.ledger
        if isinstance(law, Epoch) or (isinstance(law, Late) and len(law.numbers)):
            assert isinstance(stage, Exp2)
            if not law.together:
                made_at = entries[0].heard
                strays = len(self._strays) - bisect_right(self._strays, made_at)
                delay = ledger.heard - 1 - made_at - strays
                self._robust_delay = max(self._robust_delay, delay)
            stage.learn(law, keys_of(entries), losses)
            return
        if isinstance(stage, Exp2):
            self._dropped += 1
            self._strays.append(ledger.heard)
            return
        key = entries[0].key
        y = (float(losses[0]) - self.engine.center) / self._width
        self._forecaster.update(key if key >= 0 else ~key, y)
        if law.number != stage.number:
            self._dropped += 1
        else:
            self._late += law.heard != stage.heard
            reason = stage.learn(law, key, y, ledger)
            if reason is not None:
                self._dropped += reason == "late loss"
                self._end_stage(reason)
        self._crowd = max(self._crowd, ledger.unheard)

    def _late_lengths(self) -> tuple[int, ...]:
        return (0, self._stage.late_length) if isinstance(self._stage, Exp2) else (0,)

    def _condensed(self, law: Round | Epoch, keys: Sequence[Any]) -> Sequence[Any] | None:
        if isinstance(law, Round):
            return law.condensed(keys)
        assert isinstance(self._stage, Exp2)
        return self._stage.condensed(law, keys)

    # What it knows.

    @property
    @locked
    def distribution(self) -> Floats:
        """Probability of every action in the next `ask()`.

        With "thompson" it is an estimate from a few hundred draws. A policy of your own is asked for its next proposal,
        which is kept for the next round.
        """
        stage = self._stage
        while isinstance(stage, Watched):
            p = stage.outlook(self.ledger)
            if p is not None:
                return p
            stage = self._after(stage)  # the policy will be stopped: what would its successor do?
        return stage.outlook()

    @locked
    def recommend(self) -> Recommendation:
        """The best action so far by the estimates."""
        if isinstance(self._stage, Exp2):
            return self._stage.recommend()
        index = int(self._forecaster.mean.argmin())
        loss = float(self._forecaster.mean[index]) * self._width + self.engine.center
        return Recommendation(index, self.engine.points[index], loss, "estimated")

    @property
    @locked
    def diagnostics(self) -> InsuredDiagnostics:
        """What an operator needs to see; as text, a short report."""
        stage, ledger, rho, forecaster = self._last, self.ledger, self._width, self._forecaster
        robust = estimate = band = budget = distance = None
        if isinstance(self._stage, Exp2):
            robust = diagnose(self._stage, self._stage.made - self._stage.heard)
        else:
            estimate = stage.estimated_regret * rho
            budget = stage.allowance.budget(ledger.made + 1) * rho
            distance = budget - estimate
            spread = 2 * rho * math.sqrt(float(stage.variance[int(stage.total.argmin())]))
            band = (estimate - spread, estimate + spread)
        discount, ridge, _ = forecaster.terms[forecaster.trusted]
        return InsuredDiagnostics(
            playing="robust" if robust else self.settings.names[stage.number],
            rounds=ledger.made,
            heard=ledger.heard,
            outstanding=len(ledger),
            estimated_regret=estimate,
            band=band,
            budget=budget,
            distance=distance,
            exploration=robust.exploration if robust else stage.exploration_now(ledger.made),
            explored=stage.explored,
            premium=stage.premium_paid * rho,
            dropped=self._dropped,
            suspicious=robust is None and stage.bets.suspicious,
            evidence=stage.bets.evidence,
            trusted=(discount, ridge),
            alarms=tuple(self.alarms),
            estimated_losses=forecaster.mean * rho + self.engine.center,
            robust=robust,
        )

    def _proved(self, rounds: int) -> Guarantee:
        stage, ledger, settings, engine = self._stage, self.ledger, self.settings, self.engine
        played, waiting = bandit.Played(), ledger.unheard
        if isinstance(stage, Exp2):
            played, waiting = stage.played(self._robust_delay, stage.made - stage.heard), 0
        # Tuned to all rounds: what remains after an alarm has a smaller bound.
        last = prove(engine, self.rates, self.batch, rounds, settings.horizon, played)
        if self._is_short:
            return last
        return insured.guarantee(
            engine.problem,
            last,
            horizon=settings.horizon,
            width=self._width,
            shares=settings.shares,
            crowd=max(engine.problem.delay, self._crowd, waiting),
            warm_up=self._warm_up,
            made=ledger.made,
            heard=ledger.heard,
            late=self._late,
            own="own" in settings.names,
            early=settings.early,
            alarms=[str(alarm) for alarm in self.alarms],
        )

    # Snapshots.

    _COUNTS = ("_late", "_crowd", "_dropped", "_robust_delay")

    def _save(self) -> dict[str, Any]:
        stage, watched = self._stage, self._last
        laws = [self.ledger.current, *(entry.law for entry in self.ledger)]
        kept = [law.exploration for law in laws if isinstance(law, Round)] + [watched.exploration]
        explorations = {one.number: one for one in kept}
        return {
            "engine": self.engine.to_dict(),
            "rates": asdict(self.rates),
            "batch": self.batch,
            "forecaster": self._forecaster.state(),
            "root_features": self._forecaster.features,
            "policies": [p.state() if isinstance(p, UserPolicy) else None for p in self._policies],
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "counts": [getattr(self, name) for name in self._COUNTS],
            "strays": list(self._strays),
            "number": watched.number,
            "watched": watched.to_dict(),
            "explorations": [one.to_dict() for n, one in explorations.items() if n > 1],
            "exp2": stage.to_dict() if isinstance(stage, Exp2) else None,
        }

    @classmethod
    def from_state(cls, state: Any, *, policy: Any = None) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken, or a `SnapshotError` where it is damaged.

        Where a policy is your own, `policy` is the object that takes its place, or a sequence with one for each policy. If it
        has `restore(state)`, that is called with what the policy's `state()` gave, where it had one.
        """
        learner = cls.__new__(cls)
        learner._replacements = policy
        learner._restore(Reader(unseal(cls.__name__, state)))
        return learner

    def _welcome(self) -> None:
        self._replacements = check_given(self.settings.names, self._replacements)

    def _load(self, data: Reader) -> None:
        settings = self.settings
        engine = PointsEngine.from_dict(data.part("engine"), settings.robust)
        N, m = engine.features.shape
        features = data.array("root_features", (N, m), order="F")
        self._forecaster = Forecaster.from_state(features, data.part("forecaster"))
        saved = data.items("policies", len(settings.policies))
        given, self._replacements = self._replacements, None
        self._policies = restore_policies(settings.names, settings.width, N, given, saved)
        rates = rates_from_dict(data.part("rates"), settings.horizon)
        self._prepare(engine, rates, data.count("batch", 1))
        self.alarms = [alarm_from_dict(one, settings.names) for one in data.parts("alarms")]
        counts = data.items("counts", len(self._COUNTS))
        for k, name in enumerate(self._COUNTS):
            setattr(self, name, counts.count(str(k)))
        strays = data.items("strays")
        self._strays = [strays.count(str(k)) for k in range(len(strays))]
        kept = [Exploration.from_dict(one, N, m) for one in data.parts("explorations")]
        self._explorations = {one.number: one for one in (*kept, self._first)}
        self._stage = self._last = self._watched(data.count("number", 0, len(settings.names) - 1))
        self._last.load(data.part("watched"), self._explorations)
        if data.has("exp2"):
            self._stage = Exp2.from_dict(engine, data.part("exp2"), settings.horizon)
        elif self._is_short:
            data.refuse("exp2", "must be there where there is nothing to insure", None)

    def _law_from_dict(self, data: Reader) -> Round | Epoch:
        if data.has_key("choice"):
            return Round.from_dict(data, self._explorations, self._last.number)
        if not isinstance(self._stage, Exp2):
            data.refuse("law", "must be of a stage that has been played", "exp2")
        return self._stage.epoch_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> list[int]:
        N = len(self.engine.points)
        keys: list[int] = data.array(name, (count,), -N, N - 1, whole=True).tolist()
        return keys

    def _check(self, data: Reader) -> None:
        del self._explorations, self._replacements
        stage, ledger = self._stage, self.ledger
        latest = ledger.current
        if isinstance(latest, Round) and latest.choice is None and latest.law is None:
            data.refuse("ledger.current", "must have a law to be drawn from", None)
        if isinstance(stage, Exp2):
            if stage.made > ledger.made or stage.heard > ledger.heard:
                data.refuse("learner.exp2", "must have heard no more than all have", stage.heard)
            if isinstance(ledger.current, Epoch):
                stage.epoch = ledger.current
            elif stage.made:
                data.refuse("ledger.current", "must be an epoch of the robust learner", -1)
            stage.check(data)
        if any(isinstance(entry.law, Epoch) and entry.key < 0 for entry in ledger):
            data.refuse("ledger.keys", "must be rows where the robust learner plays", -1)
        if sorted(self._strays) != self._strays or max(self._strays, default=0) > ledger.heard:
            data.refuse("learner.strays", "must be in order, within what was heard", self._strays)
        if self._last.heard > ledger.heard:
            data.refuse("learner.watched.heard", "must be within what was heard", self._last.heard)
        super()._check(data)
