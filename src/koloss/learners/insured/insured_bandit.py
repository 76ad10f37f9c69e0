"""Any policy, insured: good in kind weather, safe in foul.

A policy of your choice plays. A small share of the rounds explores, by a design, so that the regret of the policy can be
estimated without bias whatever it does. While the estimate stays within a budget the policy goes on; on evidence that it is
being beaten, exponential weights take over until the policy deserves another chance. In the worst case the regret is at most

    (1 + trigger + premium) B(n),   B(n) = ρ √(c m n log N),

for every policy (Theorem I1 of the theory pages; with contexts F6.11). A round:

1. the policy proposes an action, or a law over actions, knowing what is in flight;
2. the share γ of exploration is at least such that no outcome of the round, if it is heard at once, takes the estimated regret
   beyond the budget; where that is more than a half, the policy is stopped;
3. with probability γ explore, otherwise play what was proposed;
4. when the loss is heard, early or late, add the unbiased estimate of all losses to the account of the policies, with a weight
   that keeps it within the budget.

Any rule may stop a policy early and let it play again: the account is one for the whole game, and the bound holds for every such
rule. The rule here bets on "exploration does better than the policy", and stops at long odds.

A stage is what one context has for itself, and without contexts there is one: a policy under watch (`watched`), and the robust
learner, exponential weights that sleep while the policy plays (`robust`). One ledger, one generator and one forecast serve them all.
This file finds the stage of a context, asks it and tells it; `stage` is the walk of a round, `state` has snapshots, and `operated` what
an operator sees and does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from koloss.actions import ActionSet, Contexts
from koloss.core.snapshot import kept
from koloss.designs import Design
from koloss.kernels.base import KernelLike
from koloss.learners.bandit.apart import Turn
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.subsets import NONE_ADDED
from koloss.learners.bandit.tuning import choose_batch
from koloss.learners.base import refuse_extras
from koloss.learners.insured.engines import Robust, engines_of
from koloss.learners.insured.exploration import Round
from koloss.learners.insured.forecast import forecaster_for
from koloss.learners.insured.growing import Growth
from koloss.learners.insured.operated import Operated
from koloss.learners.insured.places import in_order
from koloss.learners.insured.policies import UserPolicy, check_given
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.ledger import Drawn
from koloss.learners.losses import read_losses
from koloss.learners.waiting import Entry
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
            batch = choose_batch(settings.robust, robust.problem, robust.rows)
            engines = [(engine, Robust(robust, settings.horizon, batch))]
        else:
            engines = engines_of(settings)
            pairs = engines[0][0]
            if settings.has_contexts:
                pairs = points_engine(settings.pairs, trial=True)
            self._forecaster = forecaster_for(settings.forecast_kernel, pairs)
        self._prepare(engines)
        self._open()

    def _open(self) -> None:
        """What is offered before the first round, and where the robust learner plays from the start."""
        settings = self.settings
        masks = None if settings.contexts is None else settings.contexts.allowed
        if self._growth is not None:
            self._name_actions()
            self._offer([(self._stages[0], self._growth.first, NONE_ADDED)])
        if masks is not None:
            self._offer([(self._stages[c], mask, NONE_ADDED) for c, mask in enumerate(masks)])
        if settings.absent:
            self._withdraw(np.array(settings.absent))
        for stage in self._stages:
            if stage.is_short:
                stage.take_over("short", 0)

    # Ask and tell.

    def _draw(self, count: int | None, context: Any, allowed: Any) -> tuple[Any, Drawn]:
        made, contexts = self.ledger.made, self.settings.contexts
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
            (stage,), mine = self._stages, range(made, made + (count or 1))
            return stage.draw(count, self._rng, self.ledger, mine, stage.asked_for(allowed))
        ids_in: dict[int, list[int]] = {}
        for k, c in enumerate(rows):
            ids_in.setdefault(c, []).append(made + k)
        masks = {c: self._stages[c].asked_for(allowed) for c in ids_in}
        for c in ids_in:  # which may fail: before anything changes
            self._stages[c].look()
        turn, drawn = Turn(made + 1, {}), []
        for c, ids in ids_in.items():
            size = None if count is None else len(ids)
            law, one = self._stages[c].draw(size, self._rng, self.ledger, ids, masks[c])
            if isinstance(law, Round):
                law.shrink()  # nothing more is drawn from it
            turn.epochs[c] = law
            drawn.append(one)
        self._most_open = max(self._most_open, len(self.ledger) + (count or 1) - 1)
        if count is None:
            return turn, drawn[0]
        return turn, in_order(drawn, [i - made for ids in ids_in.values() for i in ids])

    def _limits(self) -> tuple[float, float]:
        return self._units.hull.limits

    def _read(self, entries: Sequence[Entry[Any]], loss: Any) -> Sequence[Any]:
        low, high = self._units.hull.limits
        return read_losses(loss, len(entries), low, high, self.engine.sign)

    def _admit(self, entry: Entry[Any], loss: float) -> None:
        policy = self._stages[entry.context or 0].policy
        if isinstance(policy, UserPolicy) and any(stage.is_watched for stage in self._stages):
            loss = self.engine.sign * float(self._units.hull.admitted(loss))
            key = self._stage_of(entry).place.local(entry.key)
            policy.hear(key if key >= 0 else ~key, loss)
            if self.settings.has_contexts:
                for stage in self._stages:
                    stage.policy.forget()  # type: ignore[union-attr]

    def _learn(self, law: Any, entries: Sequence[Entry[Any]], losses: Sequence[Any]) -> None:
        units, stage = self._units, self._stages[entries[0].context or 0]
        if isinstance(law, Turn):
            law = law.epochs[stage.place.context]
        if not units.learned:
            units.hull.hear(losses)
            losses = units.hull.admitted(losses)
        elif isinstance(law, Round):
            self._hear_range(float(losses[0]), law)
        before = self._robust_range if units.learned else None
        stage.learn(law, entries, losses, self.ledger)
        if units.learned:
            for one in self._stages:
                one.last.low, one.last.high = units.heard
                if one is not stage and self._robust_range != before:
                    one.end_epoch()
        if self._growth is not None:
            self._growth.look(self)

    @property
    def _robust_range(self) -> Any:
        """What the robust learners have heard of the range."""
        hull = self._stages[0].robust.hull
        return None if hull is None else (hull.heard_low, hull.heard_high)

    def _hear_range(self, loss: float, law: Round) -> None:
        """Learn where losses are: what was heard so far is brought into the new unit."""
        factor = self._units.hear(loss)
        if factor is None:
            return
        self._forecaster.rescale(factor)
        for stage in self._stages:
            stage.rescale(factor)
        laws = [law, *(one for _, one in self._laws() if isinstance(one, Round))]
        for one in {id(one): one for one in laws}.values():
            one.prediction = one.prediction * factor

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
            first, *others = (stage.policy for stage in learner._stages)
            first.give(policy)  # type: ignore[union-attr]
            for other in others:
                other.policy = policy  # type: ignore[union-attr]
        return learner
