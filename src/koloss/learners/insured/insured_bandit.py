"""Any policy, insured: good in kind weather, safe in foul.

A policy of your choice plays. A small share of the rounds explores, by a design, so that the regret of the policy can be
estimated without bias whatever it does. While the estimate stays within a budget the policy goes on; on evidence that it is
being beaten, exponential weights take over until the policy deserves another chance. In the worst case the regret is at most

    (1 + trigger + premium) B(n),   B(n) = ρ √(c m n log N),

for every policy (Theorem I1 of the theory pages; with contexts F6.11).

Any rule may stop a policy early and let it play again: the account is one for the whole game, and the bound holds for every such
rule. The rule here bets on "exploration does better than the policy", and stops at long odds.

One ledger, one generator and one forecast serve all contexts, each of which has a `stage` for itself; without contexts there is one.
This file finds the stage of a context, asks it and tells it, and has an operator's controls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet, Contexts
from koloss.core.arrays import as_flag
from koloss.core.snapshot import kept
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee, bandit
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.per_context import Turn
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.subsets import NONE_ADDED, Bools, as_rows
from koloss.learners.base import Learner, Recommendation, refuse_extras
from koloss.learners.insured import report
from koloss.learners.insured.account import Units
from koloss.learners.insured.engines import Robust, engines_of
from koloss.learners.insured.evidence import Alarm
from koloss.learners.insured.exploration import Floats, Round
from koloss.learners.insured.forecast import Forecaster, Place, forecaster_for
from koloss.learners.insured.growing import FirstLook, Growth
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import UserPolicy, check_given
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.stage import Stage, condensed_in, draw_in, offer_in
from koloss.learners.ledger import Drawn, Told
from koloss.learners.losses import read_losses
from koloss.learners.sharing import locked
from koloss.learners.waiting import Entry
from koloss.proxy import Proxy


@kept
class InsuredBandit(Learner[InsuredSettings, Any]):
    """A policy of your choice with the worst-case guarantee of a robust learner behind it, under bandit feedback.

    Parameters
    ----------
    actions : ActionSet
        Finite, or compact: then a net is played. Of a `Space` its `points()` are, and decisions have `params`.
    kernel : Kernel or "auto"
        Or any object with `k(X, Y)` and `k.diag(X)`; "auto" as for `BanditExpWeights`.
    horizon : int or None
        Number n of rounds; None where it is not known.
    loss_range : (float, float) or "learn"
        One interval that holds all losses of all rounds; "learn" where none is known. The guarantee is then a multiple of the
        range, and losses must come before the next decision.
    outside : "raise" or "clip"
        What becomes of a loss outside the interval stated: an error; or one above counts as the high end, as for
        `BanditExpWeights`.
    policy : str or object
        "ucb", "thompson", or an object of your own that has `propose()` and `hear(index, loss)`; see `Policy`.
    trigger, premium : float
        Together the budget of estimated regret, in units of the robust learner's bound B. More of it means less
        exploration and a larger bound.
    width : float or "auto"
        How many deviations "ucb" subtracts, two by default, and by how much "thompson" scales them, one by default. They are
        those of a loss: noise and bandwidth are learned.
    robust_kernel : Kernel, "any" or "auto", optional
        For the insurance, where the policy's `kernel` promises too much: the guarantee is for losses of this kernel, or of any
        kind, and has its features to pay for.
    loss_norm, proxy, rank, design, loss_class, hold, spacing, goal
        As for `BanditExpWeights`, without the class "any".
    delay : int
        Most other losses that are heard between a decision and its loss. Losses may come late without it, too, but then
        nothing is promised for the robust learner's; see the guide.
    absent : sequence of int
        Rows of actions that are not offered yet; see `add` and `withdraw`.
    ridge : float or "auto"
        That of the robust learner, as for `BanditExpWeights`. Policies are watched with features that have no penalty.
    batch : int or "auto"
        Most rounds in an epoch of the robust learner; one without a horizon.
    regret : "pseudo"
        Which regret is bounded; that in hindsight is for `BanditExpWeights`.
    shares : dict, optional
        Least and largest share of traffic, {row or tuple of rows: (low, high)}, as for `BanditExpWeights`; whoever plays.
    contexts, context_kernel : optional
        What is known of a round before an action is chosen, and what contexts have in common, as for `BanditExpWeights`. Then
        `ask(context=...)`. Contexts may come in any order, and each is watched by itself; what they share is the policy and its
        forecast. Their `weights` are not needed. A policy of yours has `propose(context)` and `hear(index, loss, context)`.
    grow : bool, int or "auto"
        Play a box, a ball or a space by a Sobol' set that grows around what is promising, in place of a net: with so many points in play at
        most, 1,024 by default; "auto" in more than three dimensions. The bandwidths of `kernel` are learned for each coordinate, and
        "auto" is the Gaussian kernel of half the range. Without a `robust_kernel` the insurance is for quadratic losses, in more than
        seven dimensions for linear ones.
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

    settings: InsuredSettings
    engine: PointsEngine  # of the features with which policies are watched, in the first context
    alarms: list[Alarm]
    _most_open: int = 0  # most decisions of all contexts that waited when another one was made
    _stages: list[Stage]  # one for each context, and one where there are none
    _units: Units
    _forecaster: Forecaster  # of all pairs of a context and an action
    _pending: Pending  # what is in flight
    _growth: Growth | None = None  # where the set grows

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike | Literal["auto"],
        *,
        horizon: int | None,
        loss_range: tuple[float, float] | Literal["learn"],
        outside: Literal["raise", "clip"] = "raise",
        policy: Any = "ucb",
        trigger: float = 0.5,
        premium: float = 0.75,
        width: float | Literal["auto"] = "auto",
        robust_kernel: KernelLike | Literal["any", "auto"] | None = None,
        loss_norm: float | None = None,
        proxy: str | Proxy | None = None,
        rank: int | Literal["auto"] = "auto",
        design: str | Design = "john",
        batch: int | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        loss_class: Literal["rank-one", "general"] = "general",
        delay: int = 0,
        hold: int = 0,
        absent: Sequence[int] = (),
        spacing: float | None = None,
        goal: Literal["minimize", "maximize"] = "minimize",
        regret: Literal["pseudo", "hindsight"] = "pseudo",
        shares: Any = None,
        contexts: Contexts | None = None,
        context_kernel: KernelLike | Literal["pairs"] | None = None,
        grow: bool | int | Literal["auto"] = False,
        rng: Any = None,
    ) -> None:
        settings = InsuredSettings.of(locals())
        self._begin(settings, rng)
        if settings.in_play:
            engine, robust, self._forecaster, self._growth = Growth.begin(settings, self._rng)
            self._open([(engine, robust)])
            return
        engines = engines_of(settings)
        pairs = engines[0][0]
        if settings.has_contexts:
            pairs = points_engine(settings.pairs, trial=True)
        self._forecaster = forecaster_for(settings.forecast_kernel, pairs)
        self._open(engines)

    def _open(self, engines: Sequence[tuple[PointsEngine, Robust]]) -> None:
        """The stages of a game, what is offered before the first round, and where the robust learner plays from the start."""
        settings, contexts, (first, _) = self.settings, self.settings.contexts, engines[0]
        self.engine, self._units = first, Units(first)
        problems = [engine.problem for engine, _ in engines]
        self.rank, self.epsilon = sum(p.rank for p in problems), max(p.epsilon for p in problems)
        kind = FirstLook if settings.in_play else Pending
        self._pending, self.alarms = kind(self._forecaster), []
        shared = self._forecaster, self._pending, self._units, self.alarms
        C, N = len(engines), len(first.points)
        self._stages = [
            Stage(settings, Place.of(contexts, c, C, N), engine, robust, *shared)
            for c, (engine, robust) in enumerate(engines)
        ]
        if self._growth is not None:
            self._name_actions()
            offer_in([(self._stages[0], self._growth.first, NONE_ADDED)])
        if contexts is not None and contexts.allowed is not None:
            masks = zip(self._stages, contexts.allowed, strict=True)
            offer_in([(stage, mask, NONE_ADDED) for stage, mask in masks])
        if settings.absent:
            self.withdraw(np.array(settings.absent))
        for stage in self._stages:
            if stage.is_short:
                stage.take_over("short", 0)

    # Ask and tell.

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Any, Drawn]:
        contexts = self.settings.contexts
        if allowed is not None and self.settings.shares is not None:
            raise ValueError("`allowed` must be left out where there are `shares`")
        if contexts is None:
            refuse_extras(context, None)
        elif count is None:
            rows = [contexts.find(context)]
        else:
            rows = contexts.find_all(context, count).tolist()
        allowed = None if allowed is None else self._allowed(allowed)
        if len(self._stages) == 1:
            (stage,), made = self._stages, self.ledger.made
            mine = range(made, made + (count or 1))
            return stage.draw(count, self._rng, self.ledger, mine, stage.asked_for(allowed))
        drawn = draw_in(self._stages, rows, count, self._rng, self.ledger, allowed)
        self._most_open = max(self._most_open, len(self.ledger) + (count or 1) - 1)
        return drawn

    def _limits(self) -> tuple[float, float]:
        return self._units.hull.limits

    def _read(self, entries: Sequence[Entry[Any]], loss: Any) -> Sequence[Any]:
        return read_losses(loss, len(entries), *self._limits(), self.engine.sign)

    def _admit(self, entry: Entry[Any], loss: float) -> None:
        stage = self._stage_of(entry)
        if isinstance(stage.policy, UserPolicy) and any(one.is_watched for one in self._stages):
            loss = self.engine.sign * float(self._units.hull.admitted(loss))
            key = stage.place.local(entry.key)
            stage.policy.hear(key if key >= 0 else ~key, loss)
            if self.settings.has_contexts:
                for stage in self._stages:
                    stage.policy.forget()

    def _learn(self, law: Any, entries: Sequence[Entry[Any]], losses: Sequence[Any]) -> None:
        units, stage = self._units, self._stage_of(entries[0])
        if isinstance(law, Turn):
            law = law.epochs[stage.place.context]
        if not units.learned:
            units.hull.hear(losses)
            losses = units.hull.admitted(losses)
        elif isinstance(law, Round):
            self._hear_range(float(losses[0]), law)
        before = stage.robust.heard_range
        stage.learn(law, entries, losses, self.ledger)
        if units.learned:
            for one in self._stages:
                one.last.low, one.last.high = units.heard
                if one is not stage and stage.robust.heard_range != before:
                    one.end_epoch()
        if self._growth is not None and self.ledger.heard >= self._growth.due:
            self._growth.grow(self)

    def _hear_range(self, loss: float, law: Round) -> None:
        """Learn where losses are: what was heard so far is brought into the new unit."""
        factor = self._units.hear(loss)
        if factor is None:
            return
        self._forecaster.rescale(factor)
        for stage in self._stages:
            stage.last.rescale(factor)
        laws = {}
        for one in (law, self.ledger.current, *(entry.law for entry in self.ledger)):
            parts = one.epochs.values() if isinstance(one, Turn) else (one,)
            laws.update({id(part): part for part in parts if isinstance(part, Round)})
        for part in laws.values():
            part.prediction = part.prediction * factor

    # Laws that wait for late losses.

    def _stage_of(self, entry: Any) -> Stage:
        """The stage that a decision was made in."""
        return self._stages[entry.context or 0]

    def _law_of(self, entry: Any) -> Any:
        """The law of its stage that a decision was drawn from."""
        law = entry.law
        return law.epochs[entry.context] if isinstance(law, Turn) else law

    def _condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        if isinstance(law, Turn):
            return condensed_in(self._stages, law, keys)
        return self._stages[0].condensed(law, keys)

    # Who plays.

    def _stage_for(self, context: Any) -> Stage:
        """The stage of a context, as it was given."""
        contexts = self.settings.contexts
        if contexts is None:
            refuse_extras(context, None)
            return self._stages[0]
        return self._stages[contexts.find(context)]

    @locked
    def hand_over(self, *, context: Any = None) -> None:
        """Stop the policy now; the robust learner plays on. The guarantee holds all the same.

        With contexts it is stopped in all of them, or in one.
        """
        for stage in self._stages if context is None else [self._stage_for(context)]:
            if stage.is_watched:
                stage.take_over("operator", self.ledger.made)
                stage.paused = True

    @locked
    def pause(self) -> None:
        """Let the robust learner play until `re_arm()`. The guarantee holds all the same."""
        self.hand_over()
        for stage in self._stages:
            stage.paused = True

    @locked
    def re_arm(self, *, context: Any = None) -> None:
        """Let the policy that was stopped play again, within what is left of its budget.

        The guarantee holds all the same. Nothing happens while a policy plays, or where there is nothing to insure. With contexts
        it plays again in all of them, or in one.
        """
        for stage in self._stages if context is None else [self._stage_for(context)]:
            if not (stage.is_watched or stage.is_short):
                stage.re_arm("operator", self.ledger.made)

    # Actions that come and go.

    @property
    @locked
    def available(self) -> Bools:
        """Which actions are offered now, in some context where there are several."""
        offered: Bools = np.any([stage.roster.offered for stage in self._stages], axis=0)
        return offered

    @locked
    def withdraw(self, rows: Any) -> None:
        """Offer some actions no more, by their rows, or the params of a `Space`. Losses of decisions for them that are still open are used as always.

        The guarantee against the other actions holds all the same, and against these up to now, if when they are withdrawn does
        not depend on actions or losses not yet heard of. With contexts they are withdrawn in all.
        """
        gone = self._rows(rows)
        here = [(one, one.allowing(gone)) for one in self._stages]
        offer_in([(one, one.roster.without(rows), NONE_ADDED) for one, rows in here if len(rows)])

    @locked
    def add(self, rows: Any) -> None:
        """Offer actions that were absent or have been withdrawn, by their rows, or the params of a `Space`.

        The guarantee against them counts from now on. One that was withdrawn before begins anew, and is one more to be compared
        with. With contexts they are added in all that allow them.
        """
        new = self._rows(rows)
        here = [(one, one.allowing(new)) for one in self._stages]
        offer_in([(one, one.roster.including(rows), rows) for one, rows in here if len(rows)])

    def _rows(self, rows: Any) -> Any:
        """Rows of actions that come or go."""
        self.settings.check_roster()
        return as_rows("rows", rows, len(self.actions), self.settings.actions)

    @locked
    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        waited = list(self.ledger)
        count = super().forget(ids, before=before)
        wait = {entry.id for entry in self.ledger}
        for entry in waited:
            if entry.id not in wait:
                self._stage_of(entry).drop(self._law_of(entry), entry.heard)
        return count

    # What is seen.

    @property
    @locked
    def distribution(self) -> Floats:
        """Probability of every action in the next `ask()`.

        With "thompson" it is an estimate from a few hundred draws. A policy of your own is asked for its next proposal,
        which is kept for the next round.
        """
        if self.settings.has_contexts:
            raise NoDistribution(
                "`distribution` is for learners without contexts; with them there is `distribution_for(context)`"
            )
        return self._stages[0].outlook()

    @locked
    def distribution_for(self, context: Any) -> Floats:
        """Probability of every action in the next `ask(context=context)`."""
        if self.settings.contexts is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        return self._stage_for(context).outlook()

    @locked
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates; with contexts, for one of them."""
        return self._named(self._stage_for(context).recommend())

    @property
    @locked
    def diagnostics(self) -> report.InsuredDiagnostics | report.ContextDiagnostics:
        """What an operator needs to see; as text, a short report. With contexts, of each of them."""
        return report.diagnose_insured(self)

    @locked
    def guarantee(
        self, *, rounds: int | None = None, printed: bool | None = None, realised: bool = False
    ) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            To be left out: the paper has no such bound.
        realised : bool, default False
            Of the rounds played so far: the estimated regret, one draw of what bounds the regret on average (theory R).
        """
        if not as_flag("realised", realised):
            return super().guarantee(rounds=rounds, printed=printed)
        for name, value in (("rounds", rounds), ("printed", printed)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must be left out where `realised` is True, got {value!r}"
                )
        return self._beside_random(report.realise_insured(self))

    def _proved(self, rounds: int) -> Guarantee:
        return report.prove_insured(self, rounds)

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

    # Snapshots.

    def state(self) -> dict[str, Any]:
        with self._lock:
            self._stages[0].policy.keep()
            return super().state()

    @classmethod
    def from_state(cls, state: Any, *, policy: Any = None) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken, or a `SnapshotError` where it is damaged.

        Where the policy is your own, `policy` is the object that takes its place. If it
        has `restore(state)`, that is called with what the policy's `state()` gave, where it had one.
        """
        learner = super().from_state(state)
        check_given(learner.settings.policy_name, policy)
        if policy is not None and not isinstance(policy, str):
            first, *others = (stage.policy for stage in learner._stages)
            first.give(policy)  # type: ignore[union-attr]
            for other in others:
                other.policy = policy  # type: ignore[union-attr]
        return learner
