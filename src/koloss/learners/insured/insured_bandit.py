"""Any policy, insured: good in kind weather, safe in foul.

A policy of your choice plays. A small share of the rounds explores, by a design, so that the regret of the policy can be
estimated without bias whatever it does. While the estimate stays within a budget the policy goes on; on evidence that it is
being beaten, exponential weights take over until the policy deserves another chance. In the worst case the regret is at most

    (1 + trigger + premium) B(n),   B(n) = ρ √(c m n log N),

for every policy (Theorem I1 of the theory pages). A round:

1. the policy proposes an action, or a law over actions, knowing what is in flight;
2. the share γ of exploration is at least such that no outcome of the round, if it is heard at once, takes the estimated regret
   beyond the budget; where that is more than a half, the policy is stopped;
3. with probability γ explore, otherwise play what was proposed;
4. when the loss is heard, early or late, add the unbiased estimate of all losses to the account of the policies, with a weight
   that keeps it within the budget.

Any rule may stop a policy early and let it play again: the account is one for the whole game, and the bound holds for every such
rule. The rule here bets on "exploration does better than the policy", and stops at long odds.

A stage is whoever plays for a while: a policy under watch (`watched`), or `Exp2` itself, which sleeps in between (`specialists`).
One ledger and one generator serve them all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet, Contexts, Space, SpacePoints
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.guarantees import Guarantee, bandit, insured
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.masks import Masked, draw_among, learn_among
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.base import Learner, Recommendation, refuse_extras
from koloss.learners.insured import contextual
from koloss.learners.insured.account import Account
from koloss.learners.insured.chances import Chances
from koloss.learners.insured.context_promise import prove_segments
from koloss.learners.insured.contextual import ContextGame
from koloss.learners.insured.diagnostics import Alarm, InsuredDiagnostics, diagnose_insured
from koloss.learners.insured.exploration import Exploration, Floats, lowest
from koloss.learners.insured.forecast import Forecaster, forecaster_for
from koloss.learners.insured.growing import FirstLook, Growth
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.per_context import ContextRound
from koloss.learners.insured.policies import (
    BuiltIn,
    UserPolicy,
    check_given,
    make_policies,
)
from koloss.learners.insured.promise import prove_insured
from koloss.learners.insured.restoring import check, load, save
from koloss.learners.insured.roster import NOBODY, Bools, Roster, Rows, as_rows, explore
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.segment_diagnostics import SegmentDiagnostics, diagnose_segments
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.specialists import Offered, Specialists, offer
from koloss.learners.insured.watched import Allowance, Watched
from koloss.learners.ledger import Drawn, Entry, Late, Told, keys_of
from koloss.learners.losses import read_losses
from koloss.learners.reading import Reader
from koloss.learners.sharing import locked
from koloss.proxy import Proxy

MASKS_KEPT = 16
"""Explorations among some of the actions that are kept for when they are asked for again."""

MASKED = 2**52
"""Least number of an exploration among some of the actions."""

SITS_OUT = ("open", "dear")
"""Why a policy leaves a round to the robust learner without being stopped."""


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
    policy : str, object, or a sequence of these
        "ucb", "thompson", "optimistic" (exponential weights that follow a prediction), or an object of your own that
        has `propose()` and `hear(index, loss)`; see `Policy`. Several play one after the other, each until it is stopped.
    trigger, premium : float, or one for each policy
        Together the budget of estimated regret, in units of the robust learner's bound B. More of it means less
        exploration and a larger bound. Of one number the first of several policies has half, the next half of the rest, and so
        on; what a policy leaves the next may use.
    width : float or "auto"
        How many deviations "ucb" subtracts, two by default, and by how much "thompson" scales them, one by default. They are
        those of a loss: noise and bandwidth are learned.
    early : bool
        Whether evidence that exploration does better than the policy stops it (heuristic; the bound holds with it).
    exploration_cost : float or (float, int), optional
        Most that exploring may be expected to cost, by the forecast, in a round, or in a block of so many rounds. Where the
        insurance needs more the robust learner plays a round in the policy's place; what that costs is not limited.
    robust_kernel : Kernel, "any" or "auto", optional
        For the insurance, where the policy's `kernel` promises too much: the guarantee is for losses of this kernel, or of any
        kind, and has its features to pay for.
    loss_norm, proxy, rank, design, loss_class, hold, spacing, goal
        As for `BanditExpWeights`, without the class "any".
    delay : int
        Most other losses that are heard between a decision and its loss. Losses may come late without it, too, but then
        nothing is promised for the robust learner's; see the guide.
    overdraft : int or "auto"
        Most decisions of a policy that may wait for their losses beyond those that its budget has room for; each may cost the
        range. By default `delay`, or a quarter of the rounds without one.
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
        `ask(context=...)`, and each context is watched by itself. A policy of yours has `propose(context)` and
        `hear(index, loss, context)`.
    order : "independent" or "any", optional
        Whether contexts are drawn independently by their weights, or come as they like; by default the former where they have
        weights and no period.
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

    _game: ContextGame | None = None  # where there are several contexts
    _forecaster: Forecaster
    _growth: Growth | None = None  # where the set grows

    # While a snapshot is read: the policies given for it, and its explorations.
    _replacements: Any
    _explorations: dict[int, Exploration]

    def __init__(
        self,
        actions: ActionSet,
        kernel: KernelLike | Literal["auto"],
        *,
        horizon: int | None,
        loss_range: tuple[float, float] | Literal["learn"],
        policy: Any = "ucb",
        trigger: Any = 0.5,
        premium: Any = 0.75,
        width: float | Literal["auto"] = "auto",
        early: bool = True,
        exploration_cost: float | tuple[float, int] | None = None,
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
        overdraft: int | Literal["auto"] = "auto",
        absent: Sequence[int] = (),
        spacing: float | None = None,
        goal: Literal["minimize", "maximize"] = "minimize",
        regret: Literal["pseudo", "hindsight"] = "pseudo",
        shares: Any = None,
        contexts: Contexts | None = None,
        context_kernel: KernelLike | Literal["pairs"] | None = None,
        order: Literal["independent", "any"] | None = None,
        grow: bool | int | Literal["auto"] = False,
        rng: Any = None,
        **former: Any,
    ) -> None:
        settings = InsuredSettings.of(locals())
        if settings.has_contexts:
            game = contextual.begin(settings)
            self._begin(settings, rng)
            self._enter(game)
            return
        self._begin(settings, rng)
        if settings.in_play:
            engine, robust, self._forecaster, growth = Growth.begin(settings, self._rng)
        else:
            engine, growth = points_engine(settings.watched), None
            robust = engine if settings.shares_engine else points_engine(settings.robust)
            self._forecaster = forecaster_for(settings.forecast_kernel, engine)
        batch = choose_batch(settings.robust, robust.problem)
        self._policies = make_policies(settings.policies, settings.deviations, len(engine.points))
        self._prepare(engine, robust, batch)
        self._growth = growth
        if growth is not None:
            self._name_actions()
            self._offer(growth.first, NOBODY)
            self._roster.met = growth.first
        if settings.absent:
            offered = self._roster.without(np.array(settings.absent))
            self._offer(offered, NOBODY)
            self._roster.met = offered
        if self._is_short:
            self._end_stage("short")

    def _enter(self, game: ContextGame) -> None:
        """A game with several contexts."""
        self._game, self.engine, self._hull = game, game.engine, game.engine.loss_range()
        self.rank, self.epsilon = game.plan.rank, game.epsilon

    def __repr__(self) -> str:
        size = self.robust.size if self._game is None else self._game.size
        return f"{super().__repr__()}  # {size}"

    def _prepare(self, engine: PointsEngine, robust: PointsEngine, batch: int) -> None:
        """The first stage of a game; `robust` and `batch` are the robust learner's, tuned to all rounds."""
        self.engine, self.robust, self.batch = engine, robust, batch
        self.rank, self.epsilon = engine.problem.rank, engine.problem.epsilon
        problem, horizon, least = engine.problem, self.settings.horizon, self.settings.budgets[0]
        self._width, self._center = engine.high - engine.low, engine.center
        self._hull = engine.loss_range()
        self._is_short = insured.is_pointless(problem, horizon, least)
        self._warm_up = 0 if horizon else insured.warm_up(problem, least)
        if engine.learned and problem.log_prior > 0:  # some of the range should be heard first
            self._warm_up = max(self._warm_up, 2 * problem.rank)
        self._first = Exploration(1, engine.features, engine.weights, engine.shares)
        self.alarms: list[Alarm] = []
        self._late = 0  # losses of policies before which others were heard since the decision
        self._crowd = 0  # most decisions of policies that were open beside one just made
        self._sat_out = 0  # rounds that policies left to the robust learner without being stopped
        self._masked = 0  # decisions made among some of the actions
        self._explored_among: dict[
            bytes, Exploration
        ] = {}  # how policies explored of late in these
        self._paused = False  # whether the operator has stopped the policy: he lets it play again
        self._chances = Chances()
        self._robust_late = 0  # losses of the robust learner that came after its next decision
        self._at_once = self._longest_at_once = 0  # decisions of policies that were drawn at once
        self._retuned = {0: robust}  # the robust learner for a horizon halved so many times
        self._account = Account(len(engine.points), engine.shares)
        kind = FirstLook if self.settings.in_play else Pending
        self._pending: Pending = kind(self._forecaster)  # what is in flight
        self._roster = Roster(len(engine.points))
        self._exp2: Specialists | None = None  # the robust learner, once it has played
        self._last = self._watched(0)  # the latest policy under watch
        self._stage: Watched | Exp2 = self._last

    def _name_actions(self) -> None:
        if self._growth is None:
            super()._name_actions()
        elif isinstance(self.settings.ground, Space):
            named, X = SpacePoints(self.settings.ground, X=self.engine.points), self.engine.points
            before = self.ledger.points
            if before is None or len(before) != len(X):
                self._params = named.params
            else:
                rows = np.flatnonzero((before.X != X).any(axis=1)).tolist()
                params = dict(zip(rows, named.space.decode(X[rows]), strict=True)) if rows else {}
                self._params = [params.get(k, one) for k, one in enumerate(self._params or [])]
            self.ledger.points = named

    @property
    def actions(self) -> Floats:
        return self.engine.points if self._game is None else self._game.points

    @property
    def rates(self) -> bandit.Rates:
        """η, γ and κ of the robust learner for all rounds."""
        return self.robust.rates if self._game is None else self._game.plan.rates

    # Stages in a row.

    def _watched(self, number: int, designs: int = 1) -> Watched:
        """The stage of a policy."""
        settings, problem, horizon = self.settings, self.engine.problem, self.settings.horizon
        share, premium = sum(settings.budgets[: number + 1]), sum(settings.premiums[: number + 1])
        unit = insured.scale(problem, 1)
        allowance = Allowance(share, premium, unit, horizon, self._warm_up, None, settings.early)
        cap = insured.largest_leverage(problem, allowance.budget(1), horizon)
        allowance, policy = replace(allowance, cap=cap), self._policies[number]
        debt = (
            settings.overdraft if settings.overdraft != "auto" else settings.planned_delay or None
        )
        cost, per = settings.costs
        if cost is not None:
            allowance = replace(allowance, cost=cost / self._width, per=per)
        allowance = replace(allowance, learned=self.engine.learned, overdraft=debt)
        points, forecaster = self.engine.points, self._forecaster
        account, first, pending = self._account, self._first, self._pending
        stage = Watched(
            number, points, policy, forecaster, first, allowance, account, designs, pending
        )
        self._show_range(stage)
        return stage

    def _show_range(self, stage: Watched) -> None:
        """Tell a stage where the losses heard are, in its units."""
        hull = self._hull
        if hull.learned:
            ends = (hull.heard_low, hull.heard_high) if hull.known else (self._center, self._center)
            stage.low, stage.high = ((end - self._center) / self._width for end in ends)

    def _hear_range(self, loss: float, law: Any) -> None:
        """Learn where losses are: the first one is the centre, and the width heard is the unit of all that was heard.

        Until losses differ all are zero in any unit.
        """
        hull, before = self._hull, self._width
        if not hull.known:
            self._center = loss
        if not hull.hear([loss]) or hull.heard_low == hull.heard_high:
            return
        self._width = hull.heard_high - hull.heard_low
        factor = before / self._width
        self._forecaster.rescale(factor)
        self._account.rescale(factor)
        self._last.rescale(factor)
        laws = [law, self.ledger.current, *(entry.law for entry in self.ledger)]
        for one in {id(one): one for one in laws if isinstance(one, Round)}.values():
            one.prediction = one.prediction * factor

    def _new_robust(self) -> Specialists:
        """Exponential weights from scratch, tuned to the rounds that remain or up to twice as many.

        There are few tunings, so that `_proved` can look at all. It may sleep while a policy plays, and goes on after that.
        """
        engine, horizon = self.robust, self.settings.horizon
        if horizon is not None:
            remain = max(horizon - self.ledger.made, 1)
            halvings = 0
            while insured.halved(horizon, halvings + 1) >= remain and horizon > 1 << halvings:
                halvings += 1
            engine, horizon = self._robust_for(halvings), remain
        exp2 = Specialists(engine, engine.rates, horizon=horizon, batch=self.batch)
        exp2.born = self._account.born
        if self._roster.era:
            made = self._robust_offered(exp2, self._roster.offered)
            exp2.offer(*made, NOBODY, self._roster.era, set())
        return exp2

    def _robust_offered(self, exp2: Specialists, offered: Bools) -> tuple[Offered, bandit.Rates]:
        """Engine and rates of the robust learner where other actions are offered."""
        t = exp2.made + 1 if self.settings.horizon is None else None
        return offer(self.robust, offered, self.settings.design, exp2.rates, t)

    def _wake(self) -> Specialists:
        """The robust learner."""
        if self._exp2 is None:
            self._exp2 = self._new_robust()
            self._roster.price = max(self._roster.price, self._exp2.price)
        return self._exp2

    # Actions that come and go.

    @property
    @locked
    def available(self) -> Bools:
        """Which actions are offered now."""
        if self._game is not None:
            return np.ones(len(self.actions), dtype=bool)
        return self._roster.offered.copy()

    @locked
    def withdraw(self, rows: Any) -> None:
        """Offer some actions no more, by their rows, or the params of a `Space`. Losses of decisions for them that are still open are used as always.

        The guarantee against the other actions holds all the same, and against these up to now, if when they are withdrawn does
        not depend on actions or losses not yet heard of.
        """
        self.settings.check_roster()
        gone = as_rows("rows", rows, len(self.engine.points), self.settings.actions)
        if len(gone):
            self._offer(self._roster.without(gone), NOBODY)

    @locked
    def add(self, rows: Any) -> None:
        """Offer actions that were absent or have been withdrawn, by their rows, or the params of a `Space`.

        The guarantee against them counts from now on. One that was withdrawn before begins anew, and is one more to be compared
        with.
        """
        self.settings.check_roster()
        new = as_rows("rows", rows, len(self.engine.points), self.settings.actions)
        if len(new):
            self._offer(self._roster.including(new), new)

    def _offer(self, offered: Bools, added: Rows) -> None:
        """Other actions are offered from now on."""
        roster, stage, exp2 = self._roster, self._last, self._exp2
        era, design = roster.era + 1, self.settings.design
        first = explore(self.engine, offered, design, stage.designs + 1, era)
        robust = None if exp2 is None else self._robust_offered(exp2, offered)
        for policy in self._policies:
            if isinstance(policy, UserPolicy):
                policy.offer(offered)
        # Nothing can fail from here on.
        roster.offer(offered, added)
        self._account.offer(offered, added, era)
        self._first = first
        stage.offer(first, added)
        self._chances.chosen.clear()
        if exp2 is not None and robust is not None:
            laws = [self.ledger.current, *(entry.law for entry in self.ledger)]
            heard_of = {law.number for law in laws if isinstance(law, (Epoch, Late))}
            exp2.offer(*robust, added, era, heard_of)
            roster.price = max(roster.price, exp2.price)

    def _robust_for(self, halvings: int) -> PointsEngine:
        """The robust learner tuned to the horizon, halved so many times."""
        if halvings not in self._retuned:
            horizon = self.settings.horizon
            assert horizon is not None
            self._retuned[halvings] = self.robust.retuned(insured.halved(horizon, halvings))
        return self._retuned[halvings]

    def _end_stage(self, reason: str) -> None:
        """Stop the policy in play."""
        stage, names = self._last, self.settings.names
        if stage.number + 1 < len(self._policies) and not self._is_short:
            self._sound(names[stage.number], reason, names[stage.number + 1])
            self._stage = self._last = self._watched(stage.number + 1, stage.designs)
        else:
            self._take_over(reason)

    def _take_over(self, reason: str) -> None:
        """The robust learner plays in place of the policy."""
        self._sound(self.settings.names[self._last.number], reason, "robust")
        self._stage = self._wake()
        self._chances.stopped(self.ledger.heard)

    def _re_arm(self, reason: str) -> None:
        """Let the last policy play again."""
        self._sound("robust", reason, self.settings.names[self._last.number])
        self._stage, self._paused = self._last, False
        self._last.begin()

    def _sound(self, name: str, reason: str, successor: str) -> None:
        """Write down who stops playing, and why."""
        made, rho = self.ledger.made, self._width
        regret, budget = self._account.used * rho, self._last.allowance.budget(made + 1) * rho
        self.alarms.append(Alarm(made, name, reason, regret, successor, budget))

    @locked
    def hand_over(self, *, context: Any = None) -> None:
        """Stop the policy in play now; the next one, or the robust learner, plays on. The guarantee holds all the same.

        With contexts it is stopped in all of them, or in one where they are handed over one at a time.
        """
        if self._game is not None:
            self._game.hand_over(context, self.ledger.made)
            return
        if context is not None:
            refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Watched):
            self._end_stage("operator")
            self._paused = isinstance(self._stage, Exp2)

    @locked
    def pause(self) -> None:
        """Let the robust learner play until `re_arm()`, even if another policy follows. The guarantee holds all the same."""
        if self._game is not None:
            self._game.hand_over(None, self.ledger.made)
            return
        if isinstance(self._stage, Watched):
            self._take_over("operator")
        self._paused = True

    @locked
    def re_arm(self, *, context: Any = None) -> None:
        """Let the policy that was stopped last play again, within what is left of its budget.

        The guarantee holds all the same. Nothing happens while a policy plays, or where there is nothing to insure. With contexts
        it plays again in all of them, or in one, each with another budget, which the guarantee counts.
        """
        if self._game is not None:
            self._game.re_arm(context, self.ledger.made)
            return
        if context is not None:
            refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Exp2) and not self._is_short:
            self._re_arm("operator")

    # Ask and tell.

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Any, Drawn]:
        if self._game is not None:
            return self._game.draw(count, context, allowed, self._rng, self._recorded)
        if self.settings.contexts is not None:  # one is none, but it must be the one
            context = self._no_context(context, count)
        refuse_extras(context, None)
        stage, size = self._stage, count or 1
        mask = None if allowed is None else self._among(allowed)
        while isinstance(stage, Watched):
            among = None if mask is None else self._exploration_among(mask)
            drawn = stage.draw(count, self._rng, self.ledger, among)
            if not isinstance(drawn, str):
                played = drawn[0]
                law = played.distribution() if played.choice is None else played.choice
                self._pending.draw(law, size)
                self._crowd = max(self._crowd, self._account.outstanding - 1)
                self._masked += size if mask is not None else 0
                if size > 1:
                    self._at_once += size
                    self._longest_at_once = max(self._longest_at_once, size)
                return drawn
            if drawn in SITS_OUT:
                self._sat_out += size
                break
            self._end_stage(drawn)
            stage = self._stage
        if mask is not None:
            design, recorded = self.settings.design, self._recorded
            law, actions, p = draw_among(self._wake(), mask, count, self._rng, design, recorded)
            self._pending.draw(p, size)
            self._masked += size
            return law, actions
        if self._may_return:
            first = self.ledger.made
            best = lowest(self._forecaster.mean, self._account.offered)
            self._chances.put_down(range(first, first + size), best)
        epoch, actions = self._wake().draw(count, self._rng, self.ledger)
        self._pending.draw(epoch.law.p, size)
        return epoch, actions

    def _among(self, allowed: Any) -> Bools | None:
        """Which actions may be chosen in a request, of those on offer; None where all of these may."""
        mask, offered = self._allowed(allowed), self._roster.offered
        if mask is None or (mask | ~offered).all():
            return None
        mask = mask & offered
        if not mask.any():
            raise ValueError("`allowed` must leave an action that is available, got none")
        return mask

    def _exploration_among(self, mask: Bools) -> Exploration:
        """How a policy explores in a request among some of the actions; one that was made of late is kept."""
        key = mask.tobytes()
        found = self._explored_among.get(key)
        if found is None or found.era != self._roster.era:
            era, design = self._roster.era, self.settings.design
            # By what it is, so that a learner that has kept it and one that makes it again agree.
            digest = hashlib.sha256(b"%d " % era + key).digest()
            number = MASKED + int.from_bytes(digest[:6], "big")
            found = explore(self.engine, mask, design, number, era, mask)
            if len(self._explored_among) >= MASKS_KEPT:
                self._explored_among.clear()
            self._explored_among[key] = found
        return found

    def _no_context(self, context: Any, count: int | None = None) -> Any:
        """What is left of a context where there is none, or one that has to be named."""
        contexts = self.settings.contexts
        if contexts is None:
            return context
        if count is None:
            contexts.find(context)
        else:
            contexts.find_all(context, count)
        return None

    @property
    def _may_return(self) -> bool:
        """Whether the last policy may play again on evidence."""
        built_in = isinstance(self._last.policy, BuiltIn) and not self._hull.learned
        return built_in and isinstance(self._stage, Exp2) and not (self._is_short or self._paused)

    def _limits(self) -> tuple[float, float]:
        return self._hull.limits

    def _read(self, entries: Sequence[Entry[Any]], loss: Any) -> Sequence[Any]:
        low, high = self._hull.limits
        return read_losses(loss, len(entries), low, high, self.engine.sign)

    def _admit(self, entry: Entry[Any], loss: float) -> None:
        if self._game is not None:
            self._game.admit(entry, float(loss))
            return
        stage = self._stage
        if isinstance(stage, Watched) and isinstance(stage.policy, UserPolicy):
            told = self.engine.sign * float(loss)
            stage.policy.hear(entry.key if entry.key >= 0 else ~entry.key, told)

    def _learn(self, law: Any, entries: Sequence[Entry[Any]], losses: Sequence[Any]) -> None:
        ledger = self.ledger
        if self._game is not None:
            self._game.learn(law, entries, losses, ledger.made)
            return
        if isinstance(law, Late) and not len(law.numbers):  # of format 3, which threw it away
            self._account.enter((float(losses[0]) - self._center) / self._width, None, 0.0)
            self._pending.drop(None, entries[0].heard)
            return
        if isinstance(law, Masked):
            self._learn_among(law, entries, losses)
            return
        if not isinstance(law, Round):
            assert self._exp2 is not None
            self._robust_late += len(entries) * self._is_overdue(law)
            for entry, loss in zip(entries, losses, strict=True):
                self._forecaster.update(entry.key, (float(loss) - self._center) / self._width)
                self._pending.open(None, entry.key, entry.heard)
                self._compare(law, entry, float(loss))
            self._exp2.learn(law, keys_of(entries), losses)
            if self._deserves_a_chance():
                self._re_arm("forecast")
            if self._growth is not None:
                self._growth.look(self)
            return
        key, stage = entries[0].key, self._last
        if self._hull.learned:
            self._hear_range(float(losses[0]), law)
        y = (float(losses[0]) - self._center) / self._width
        index = key if key >= 0 else ~key
        self._forecaster.update(index, y)
        self._pending.open(law.choice, index, entries[0].heard)
        own = law.number == stage.number
        self._late += ledger.heard - 1 > entries[0].heard
        reason = stage.learn(law, key, y, ledger, own)
        if reason is not None and self._stage is stage:
            self._end_stage(reason)
        self._show_range(self._last)
        if self._growth is not None:
            self._growth.look(self)

    def _learn_among(
        self, law: Masked, entries: Sequence[Entry[Any]], losses: Sequence[Any]
    ) -> None:
        """Losses of the robust learner, of requests among some of the actions."""
        exp2 = self._exp2
        assert exp2 is not None
        self._robust_late += len(entries) * self._is_overdue(law)
        for entry, loss in zip(entries, losses, strict=True):
            self._forecaster.update(entry.key, (float(loss) - self._center) / self._width)
            self._pending.open(None, entry.key, entry.heard)
        mixed = learn_among(exp2, law, keys_of(entries), losses)
        if isinstance(exp2.engine, Offered):
            exp2.mixed += mixed
        if self._deserves_a_chance():
            self._re_arm("forecast")

    def _is_overdue(self, law: Epoch | Late | Masked) -> bool:
        """Whether losses of the robust learner come too late for Lemma F5.3: it has drawn again, or an epoch was cut short."""
        exp2 = self._exp2
        assert exp2 is not None
        if isinstance(law, Masked):
            return law.number < exp2.epochs
        over = isinstance(law, Late) or law.over
        if law.number == exp2.epochs == exp2.cut:
            return not exp2.is_exact(law.number)
        return over and (law.number < exp2.epochs or self.batch > 1)

    @locked
    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        waited = list(self.ledger)
        count = super().forget(ids, before=before)
        wait = {entry.id for entry in self.ledger}
        pending = self._pending if self._game is None else self._game.play.pending
        for entry in waited:
            if entry.id not in wait:
                law = entry.law
                choice = law.choice if isinstance(law, (Round, ContextRound)) else None
                pending.drop(choice, entry.heard)
        return count

    def _compare(self, law: Epoch | Late, entry: Entry[Any], loss: float) -> None:
        """What the action put down would have gained, by the robust learner's estimate of its loss."""
        best = self._chances.chosen.pop(entry.id, None)
        if best is None or self._exp2 is None:
            return
        engine, m = self._exp2.engine, len(self._exp2.theta)
        assert isinstance(engine, PointsEngine)
        if isinstance(law, Late):
            center, direction = float(law.numbers[1]), law.numbers[4 : m + 4]
        else:
            center, direction = law.center, engine.estimate(law.law, entry.key, 1.0)
        phi = engine.features[best]
        if engine.shares is not None:  # it would have been played as far as they allow
            phi = engine.shares.admit(best, -self._forecaster.mean) @ engine.features
        share = 1 - float(phi @ direction)
        self._chances.compare((loss - center) * share / self._width)

    def _deserves_a_chance(self) -> bool:
        """Whether the last policy's forecast has done better than the robust learner, and its budget is not used up."""
        if not self._may_return:
            return False
        budget = self._last.allowance.budget(self.ledger.made + 1)
        room = budget - 1 - self._account.used
        return self._chances.deserved(self.ledger.heard, room, self._first.largest)

    def _late_lengths(self) -> tuple[int, ...]:
        if self._game is not None:
            return ()
        return (0,) if self._exp2 is None else (0, *self._exp2.late_lengths)

    def _condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        if isinstance(law, (ContextRound, Masked)):
            return None
        if isinstance(law, Round):
            return law.condensed(keys)
        assert self._exp2 is not None
        return self._exp2.condensed(law, keys)

    # What it knows.

    @property
    @locked
    def distribution(self) -> Floats:
        """Probability of every action in the next `ask()`.

        With "thompson" it is an estimate from a few hundred draws. A policy of your own is asked for its next proposal,
        which is kept for the next round.
        """
        if self._game is not None:
            raise NoDistribution(
                "`distribution` is for learners without contexts; with them there is `distribution_for(context)`"
            )
        stage = self._stage
        while isinstance(stage, Watched):
            p = stage.outlook(self.ledger)
            if not isinstance(p, str):
                return p
            if p in SITS_OUT or stage.number + 1 == len(self._policies):
                return (self._exp2 or self._new_robust()).outlook()
            stage = self._watched(stage.number + 1, stage.designs)
        return stage.outlook()

    @locked
    def distribution_for(self, context: Any) -> Floats:
        """Probability of every action in the next `ask(context=context)`."""
        if self._game is not None:
            return self._game.play.outlook(self._game.contexts.find(context))
        if self.settings.contexts is None:
            raise NoDistribution(
                "`distribution_for` is for learners with contexts; without there is `distribution`"
            )
        self._no_context(context)
        return self.distribution

    @locked
    def recommend(self, context: Any = None) -> Recommendation:
        """The best action so far by the estimates; with contexts, for one of them."""
        if self._game is not None:
            return self._named(self._game.recommend(context))
        refuse_extras(self._no_context(context), None)
        if isinstance(self._stage, Exp2):
            return self._named(self._stage.recommend())
        index = lowest(self._forecaster.mean, self._account.offered)
        loss = float(self._forecaster.mean[index]) * self._width + self._center
        best = self.engine.points[index]
        return self._named(Recommendation(index, best, self.engine.sign * loss, "estimated"))

    @property
    @locked
    def diagnostics(self) -> InsuredDiagnostics | SegmentDiagnostics:
        """What an operator needs to see; as text, a short report. With contexts, of each of them."""
        if self._game is not None:
            return diagnose_segments(self)
        return diagnose_insured(self)

    def _proved(self, rounds: int) -> Guarantee:
        if self._game is not None:
            return prove_segments(self, rounds)
        return prove_insured(self, rounds)

    # Snapshots.

    def _save(self) -> dict[str, Any]:
        return save(self) if self._game is None else self._game.to_dict()

    @classmethod
    def from_state(cls, state: Any, *, policy: Any = None) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken, or a `SnapshotError` where it is damaged.

        Where a policy is your own, `policy` is the object that takes its place, or a sequence with one for each policy. If it
        has `restore(state)`, that is called with what the policy's `state()` gave, where it had one.
        """
        learner = cls.__new__(cls)
        learner._replacements = policy
        learner._restore(cls._opened(state))
        return learner

    def _welcome(self) -> None:
        self._replacements = check_given(self.settings.names, self._replacements)

    def _load(self, data: Reader) -> None:
        if not self.settings.has_contexts:
            load(self, data)
            return
        (policy,), self._replacements = self._replacements, None
        self._enter(ContextGame.from_dict(data, self.settings, policy))

    def _law_from_dict(self, data: Reader) -> Round | Epoch | Masked | ContextRound:
        if self._game is not None:
            return self._game.play.round_from_dict(data)
        if data.has_key("choice"):
            size = 1.0 if self._hull.learned else 0.5
            return Round.from_dict(data, self._explorations, self._last.number, size)
        if self._exp2 is None:
            data.refuse("law", "must be of a stage that has been played", "exp2")
        return self._exp2.law_from_dict(data)

    def _keys(self, data: Reader, name: str, count: int) -> list[int]:
        N = len(self.actions)
        keys: list[int] = data.array(name, (count,), -N, N - 1, whole=True).tolist()
        return keys

    def _check(self, data: Reader) -> None:
        if self._game is not None:
            self._game.check(data, self.ledger)
        else:
            del self._explorations, self._replacements
            check(self, data)
        super()._check(data)
