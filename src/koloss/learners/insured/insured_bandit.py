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

A stage is whoever plays for a while: a policy under watch (`watched`), or the robust learner, exponential weights that sleep in
between (`robust`). One ledger and one generator serve them all. This file is the walk of the stages; `state` has the parts of a
game and its snapshots, `operated` what an operator sees and does, and `contextual` the game with several contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet, Contexts
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.designs import Design
from koloss.errors import NoDistribution
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.exp2 import Epoch
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.subsets import NONE_ADDED, Bools
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.base import refuse_extras
from koloss.learners.insured import contextual
from koloss.learners.insured.diagnostics import Alarm
from koloss.learners.insured.exploration import Exploration, Floats, lowest
from koloss.learners.insured.forecast import forecaster_for
from koloss.learners.insured.growing import Growth
from koloss.learners.insured.operated import Operated
from koloss.learners.insured.policies import UserPolicy, check_given, make_policy
from koloss.learners.insured.rounds import Round
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.watched import Watched
from koloss.learners.ledger import Drawn
from koloss.learners.losses import read_losses
from koloss.learners.sharing import locked
from koloss.learners.waiting import Entry, Late, keys_of
from koloss.proxy import Proxy


@kept
class InsuredBandit(Operated):
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
        `ask(context=...)`. Contexts with `weights` are drawn independently by these, and estimates are shared; without weights
        they may come in any order, and each is watched by itself. A policy of yours has `propose(context)` and
        `hear(index, loss, context)`.
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
        batch = choose_batch(settings.robust, robust.problem, robust.rows)
        self._policy = make_policy(settings.policy, settings.deviations, len(engine.points))
        self._prepare(engine, robust, batch)
        self._growth = growth
        if growth is not None:
            self._name_actions()
            self._offer(growth.first, NONE_ADDED)
        if settings.absent:
            offered = self._roster.without(np.array(settings.absent))
            self._offer(offered, NONE_ADDED)
        if self._is_short:
            self._take_over("short")

    # Who plays.

    def _take_over(self, reason: str) -> None:
        """The robust learner plays in place of the policy."""
        self._sound(self.settings.policy_name, reason, "robust")
        self._stage = self._wake()
        self._chances.stopped(self.ledger.heard)

    def _re_arm(self, reason: str) -> None:
        """Let the policy play again."""
        self._sound("robust", reason, self.settings.policy_name)
        self._stage, self._paused = self._last, False
        self._last.begin()

    def _sound(self, name: str, reason: str, successor: str) -> None:
        """Write down who stops playing, and why."""
        made, rho = self.ledger.made, self._units.width
        regret, budget = self._account.used * rho, self._last.allowance.budget(made + 1) * rho
        self.alarms.append(Alarm(made, name, reason, regret, successor, budget))

    # Ask and tell.

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Any, Drawn]:
        if self._game is not None:
            return self._game.draw(count, context, allowed, self._rng, self._recorded)
        if self.settings.contexts is not None:  # one is none, but it must be the one
            context = self._no_context(context, count)
        refuse_extras(context, None)
        stage, size = self._stage, count or 1
        if allowed is not None and self.settings.shares is not None:
            raise ValueError("`allowed` must be left out where there are `shares`")
        mask = None if allowed is None else self._asked_for(self._allowed(allowed))
        if isinstance(stage, Watched):
            among = None if mask is None else self._explored_among(mask)
            drawn = stage.draw(count, self._rng, self.ledger, among)
            if not isinstance(drawn, str):
                played = drawn[0]
                law = played.distribution() if played.choice is None else played.choice
                self._pending.draw(law, size)
                self._counts.draw(size, self._account.outstanding - 1, mask is not None)
                return drawn
            if drawn == "open":
                self._counts.sat_out += size
            else:
                self._take_over(drawn)
        return self._draw_robust(count, mask)

    def _draw_robust(self, count: int | None, mask: Bools | None) -> tuple[Any, Drawn]:
        """Actions of the robust learner; and what the policy would have played is put down."""
        exp2, size = self._wake(), count or 1
        self._counts.masked += 0 if mask is None else size
        if mask is None and self._may_return:
            first = self.ledger.made
            best = lowest(self._forecaster.mean, self._account.offered)
            self._chances.put_down(range(first, first + size), best)
        awake = self._roster.among(None) if mask is None else mask
        epoch, actions = exp2.draw(count, self._rng, awake)
        self._pending.draw(to_numpy(epoch.law.p), size)
        return epoch, actions

    def _explored_among(self, mask: Bools) -> Exploration:
        """How a policy explores in a request among some of the actions."""
        return self._masks.find(mask, self.engine, self._roster.changes)

    def _asked_for(self, allowed: Bools | None) -> Bools | None:
        """Which of the actions on offer may be chosen in a request; None where all of these may."""
        mask = self._roster.among(allowed)
        return None if mask is None or (mask == self._roster.offered).all() else mask

    def _limits(self) -> tuple[float, float]:
        return self._units.hull.limits

    def _read(self, entries: Sequence[Entry[Any]], loss: Any) -> Sequence[Any]:
        low, high = self._units.hull.limits
        return read_losses(loss, len(entries), low, high, self.engine.sign)

    def _admit(self, entry: Entry[Any], loss: float) -> None:
        loss = self._units.hull.admitted(loss)
        if self._game is not None:
            self._game.admit(entry, float(loss))
            return
        stage = self._stage
        if isinstance(stage, Watched) and isinstance(stage.policy, UserPolicy):
            told = self.engine.sign * float(loss)
            stage.policy.hear(entry.key if entry.key >= 0 else ~entry.key, told)

    def _learn(self, law: Any, entries: Sequence[Entry[Any]], losses: Sequence[Any]) -> None:
        if self._game is not None:
            self._game.learn(law, entries, losses, self.ledger.made)
            return
        units = self._units
        if not units.learned:
            units.hull.hear(losses)
            losses = units.hull.admitted(losses)
        if not isinstance(law, Round):
            self._learn_robust(law, entries, losses)
            return
        (entry,), stage, loss = entries, self._last, float(losses[0])
        if units.learned:
            self._hear_range(loss, law)
        y = (loss - units.center) / units.width
        index = entry.key if entry.key >= 0 else ~entry.key
        self._forecaster.update(index, y)
        self._pending.open(law.choice, index, entry.heard)
        self._counts.late += self.ledger.heard - 1 > entry.heard
        reason = stage.learn(law, entry.key, y, self.ledger)
        if reason is not None and self._stage is stage:
            self._take_over(reason)
        if units.learned:
            self._last.low, self._last.high = units.heard
        if self._growth is not None:
            self._growth.look(self)

    def _learn_robust(
        self, law: Epoch | Late, entries: Sequence[Entry[Any]], losses: Sequence[Any]
    ) -> None:
        """Losses of the robust learner: the forecasts of the policies hear them, too."""
        robust, units = self._robust, self._units
        self._counts.robust_late += len(entries) * robust.is_overdue(law)
        for entry, loss in zip(entries, losses, strict=True):
            self._forecaster.update(entry.key, (float(loss) - units.center) / units.width)
            self._pending.open(None, entry.key, entry.heard)
            best = self._chances.chosen.pop(entry.id, None)
            if best is not None:
                mean = self._forecaster.mean
                gain = robust.gain(law, entry.key, float(loss), best, mean)
                self._chances.compare(gain / units.width)
        robust.learn(law, keys_of(entries), losses)
        if self._deserves_a_chance():
            self._re_arm("forecast")
        if self._growth is not None:
            self._growth.look(self)

    def _hear_range(self, loss: float, law: Round) -> None:
        """Learn where losses are: what was heard so far is brought into the new unit."""
        factor = self._units.hear(loss)
        if factor is None:
            return
        self._forecaster.rescale(factor)
        self._account.rescale(factor)
        self._last.rescale(factor)
        laws = [law, self.ledger.current, *(entry.law for entry in self.ledger)]
        for one in {id(one): one for one in laws if isinstance(one, Round)}.values():
            one.prediction = one.prediction * factor

    def _deserves_a_chance(self) -> bool:
        """Whether the policy's forecast has done better than the robust learner, and its budget is not used up."""
        if not self._may_return:
            return False
        budget = self._last.allowance.budget(self.ledger.made + 1)
        room = budget - 1 - self._account.used
        return self._chances.deserved(self.ledger.heard, room, self._first.largest)

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
        if not isinstance(stage, Watched):
            return stage.outlook(self._roster.among(None))
        p = stage.outlook(self.ledger)
        if not isinstance(p, str):
            return p
        exp2 = self._robust.exp2 or self._robust.fresh(self.ledger.made)
        return exp2.outlook(self._roster.among(None))

    # Snapshots.

    @classmethod
    def from_state(cls, state: Any, *, policy: Any = None) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken, or a `SnapshotError` where it is damaged.

        Where the policy is your own, `policy` is the object that takes its place. If it
        has `restore(state)`, that is called with what the policy's `state()` gave, where it had one.
        """
        learner = super().from_state(state)
        check_given(learner.settings.policy_name, policy)
        if policy is not None and not isinstance(policy, str):
            owner: Any = learner._policy if learner._game is None else learner._game.play.policy
            owner.give(policy)
        return learner
