"""An insured learner with contexts: from its settings to who plays, and what `InsuredBandit` asks of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from koloss.actions import Contexts
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.learners.bandit.doubts import short_cost
from koloss.learners.bandit.pairs import (
    in_context,
    pair_kernel,
    pairs_of,
    scale_in,
    without_contexts,
)
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import points_engine
from koloss.learners.base import Recommendation
from koloss.learners.insured.context_policies import ContextPolicy
from koloss.learners.insured.forecast import Forecaster, forecaster_for
from koloss.learners.insured.in_turn import Own
from koloss.learners.insured.per_context import ContextRound, PerContext
from koloss.learners.insured.plans import (
    Kind,
    Plan,
    plan_in_turn,
    plan_segments,
)
from koloss.learners.insured.policies import BUILT_IN
from koloss.learners.insured.segments import Floats
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.ledger import Drawn
from koloss.learners.waiting import Entry

KINDS: tuple[Kind, ...] = ("one by one", "together", "in any order")
"""How policies are watched."""


@kept
@dataclass(eq=False)
class ContextGame:
    """Contexts, pairs, the plan of the game and its play."""

    contexts: Contexts
    points: Floats  # (K, d), the actions
    engine: PointsEngine  # of all pairs
    plan: Plan
    play: PerContext

    @property
    def width(self) -> float:
        """ρ, that of the range of the losses."""
        return self.engine.high - self.engine.low

    @property
    def center(self) -> float:
        """Of the range."""
        return self.engine.center

    @property
    def sign(self) -> int:
        """-1 where rewards are told."""
        return self.engine.sign

    @property
    def kind(self) -> Kind:
        """How the policy is watched."""
        return self.plan.numbers.kind

    @property
    def epsilon(self) -> float:
        """Error of the features, in the units of the losses."""
        return self.plan.epsilon * self.width

    @property
    def size(self) -> str:
        """How large it is, and what a refresh may cost."""
        C, K, m = *self.play.shape, self.plan.rank
        return f"{C:,} contexts, {K:,} points, {m:,} features, {short_cost(C * K, m)} per refresh"

    def shown(self, context: int) -> Any:
        """A context as it was given: its label, its params or its coordinates."""
        return shown(self.contexts, context)

    def draw(
        self,
        count: int | None,
        context: Any,
        allowed: Any,
        rng: Any,
        recorded: Sequence[int] = (),
    ) -> tuple[ContextRound, Drawn]:
        """Actions for one context, or one for each of several."""
        if allowed is not None:
            raise ValueError("`allowed` must be left out where a policy is insured with `contexts`")
        if count is None:
            row = self.contexts.find(context)
            return self.play.draw([row], rng, self.points, recorded, single=True)
        rows = self.contexts.find_all(context, count).tolist()
        return self.play.draw(rows, rng, self.points, recorded, single=False)

    def admit(self, entry: Entry[Any], loss: float) -> None:
        """Let a policy of the user's hear a loss."""
        policy = self.play.policy
        if isinstance(policy, ContextPolicy) and self.play.hears():
            index = entry.key if entry.key >= 0 else ~entry.key
            assert entry.context is not None
            policy.hear(index, self.sign * loss, entry.context)

    def learn(
        self, law: ContextRound, entries: Sequence[Entry[Any]], losses: Any, made: int
    ) -> None:
        """Learn from losses, once so many decisions have been made."""
        for entry, loss in zip(entries, losses, strict=True):
            self.play.learn(law, entry, (float(loss) - self.center) / self.width, made)

    def recommend(self, context: Any) -> Recommendation:
        """The best action for a context so far, by the estimates."""
        c = self.contexts.find(context)
        index = self.play.best(c)
        loss = float(self.play.forecaster.mean[c * len(self.points) + index])
        told = self.sign * (loss * self.width + self.center)
        return Recommendation(index, self.points[index], told, "estimated")

    # Who plays.

    def hand_over(self, context: Any, made: int) -> None:
        """Stop the policy, in one context or in all."""
        if context is not None and not self.play.watch.one_by_one:
            raise ValueError(
                f"`context` must be left out: these contexts are watched {self.kind} and handed over at once"
            )
        rows = range(len(self.contexts)) if context is None else [self.contexts.find(context)]
        self.play.hand_over([c for c in rows if self.play.watch.watched[c]], "operator", made)

    def re_arm(self, context: Any, made: int) -> None:
        """Let the policy play again, in one context or in all that were handed over; each has another budget."""
        if not self.play.watch.one_by_one:
            raise ValueError(
                f"`re_arm` must be left alone: these contexts are watched {self.kind}, and stay handed over"
            )
        rows = range(len(self.contexts)) if context is None else [self.contexts.find(context)]
        if not self.plan.short:
            for c in rows:
                if self.play.robust.awake[c]:
                    self.play.give_back(c, made)

    def _restored(self) -> None:
        if isinstance(self.play.policy, ContextPolicy):
            self.play.policy.shown = lambda context: shown(self.contexts, context)


def shown(contexts: Contexts, context: int) -> Any:
    """A context as it was given: its label, its params or its coordinates."""
    if contexts.labels is not None:
        return contexts.labels[context]
    if contexts.points is not None:
        return dict(contexts.points.params[context])
    return contexts.X[context]


def pairs_settings(settings: InsuredSettings) -> BanditSettings:
    """Settings of a game on pairs of a context and an action.

    In any order a `rank` is that of the features of each context; pairs are forecast with as many as seem good.
    """
    robust = settings.robust
    if settings.ordered == "any":
        robust = replace(robust, rank="auto")
    pairs = pairs_of(*settings.grid)
    kernel = pair_kernel(robust)
    return without_contexts(robust, actions=pairs, kernel=kernel, ridge=0.0, bonus=True)


def begin(settings: InsuredSettings) -> ContextGame:
    """A game with several contexts."""
    pairs = pairs_settings(settings)
    engine = points_engine(pairs)
    forecaster = forecaster_for(pairs.kernel, engine)
    rounds, rho = settings.horizon, engine.high - engine.low
    trigger, premium = settings.trigger, settings.premium
    contexts, actions = settings.grid
    C, K = len(contexts), len(actions)
    assert rounds is not None
    if settings.ordered == "independent":
        features = np.ascontiguousarray(engine.features).reshape(C, K, -1)
        law, epsilon = np.array(contexts.weights), engine.problem.epsilon / rho
        plan = plan_segments(features, law, epsilon, rounds, trigger, premium)
    else:
        owns, epsilon = own_features(settings.robust, -(-rounds // C))
        plan = plan_in_turn(owns, epsilon / rho, rounds, trigger, premium)
    game = _game(settings, engine, forecaster, plan, settings.policy)
    if plan.short:
        game.play.hand_over(range(C), "short", 0)
    return game


def own_features(settings: BanditSettings, rounds: int) -> tuple[list[Own], float]:
    """Features of every context by itself, for so many rounds, and their largest error; alike kernels have the same."""
    made: dict[float, Own] = {}
    owns, errors = [], []
    for c in range(len(settings.contexts)):  # type: ignore[arg-type]
        scale = scale_in(settings, c)
        own = None if scale is None else made.get(scale)
        if own is None:
            alone = in_context(settings, c, horizon=rounds, ridge=0.0, bonus=True)
            engine = points_engine(alone, trial=True)
            own = Own(np.array(engine.features, order="F"), np.array(engine.weights))
            errors.append(engine.problem.epsilon)
            if scale is not None:
                made[scale] = own
        owns.append(own)
    return owns, max(errors)


def _game(
    settings: InsuredSettings,
    engine: PointsEngine,
    forecaster: Forecaster,
    plan: Plan,
    policy: Any,
) -> ContextGame:
    contexts, actions = settings.grid
    points = np.array(to_numpy(actions.X), dtype=float)
    points.flags.writeable = False  # decisions hand out views of it

    def seen(context: int) -> Any:
        return shown(contexts, context)

    watched: Any
    if settings.policy_name != "own":
        watched = BUILT_IN[settings.policy_name](settings.width)
    else:
        watched = ContextPolicy(policy, len(points), seen)
    rho = engine.high - engine.low
    play = PerContext(plan.watch, plan.robust, watched, forecaster, width=rho)
    return ContextGame(contexts, points, engine, plan, play)
