"""A stage: what one context has for itself; without contexts there is one (theory F5, F6.11).

A policy under watch (`watched`), with its account, exploration and bets, and the robust learner that plays in its place (`engines`),
with the evidence for a second chance. Estimates use features and design of the actions of this context alone, so that a loss moves
no account but its own. What stages share is the policy, its forecast of all pairs of a context and an action, and what is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from koloss.core import linalg
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import kept
from koloss.guarantees import insured
from koloss.learners.bandit.exp2 import Epoch, Exp2
from koloss.learners.bandit.per_context import Turn
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.subsets import Bools, Roster, Rows
from koloss.learners.base import Recommendation
from koloss.learners.insured.account import Account, Allowance, Units
from koloss.learners.insured.engines import Robust
from koloss.learners.insured.evidence import Alarm, Bets, Chances
from koloss.learners.insured.exploration import (
    Exploration,
    Floats,
    Round,
    explore,
    explore_masked,
    lowest,
)
from koloss.learners.insured.forecast import Forecaster, Local, Place
from koloss.learners.insured.pending import Pending
from koloss.learners.insured.policies import BUILT_IN, BuiltIn, UserPolicy
from koloss.learners.insured.settings import InsuredSettings
from koloss.learners.insured.watched import Watched
from koloss.learners.ledger import Drawn, Ledger
from koloss.learners.waiting import Entry, Late, keys_of


@kept
@dataclass(slots=True)
class Counts:
    """What has happened in a stage that a promise or an operator asks for."""

    late: int = 0  # losses of policies before which others were heard since the decision
    crowd: int = 0  # most decisions of policies that were open beside one just made
    robust_late: int = 0  # losses of the robust learner that came after its next decision
    at_once: int = 0  # decisions of policies that were drawn at once
    longest_at_once: int = 0
    sat_out: int = 0  # rounds that policies left to the robust learner without being stopped
    masked: int = 0  # decisions made among some of the actions


@kept
@dataclass(eq=False)
class Stage:
    """Who plays in a context, and how the policy's account stands there."""

    settings: InsuredSettings
    place: Place
    engine: PointsEngine  # of the features with which the policy is watched
    robust: Robust
    forecaster: Forecaster  # of all pairs
    pending: Pending  # what is in flight, of all pairs
    units: Units
    alarms: list[Alarm]  # of all stages
    made: int = 0  # decisions of this context
    heard: int = 0  # losses
    paused: bool = False  # whether the operator has stopped the policy, who lets it play again
    masks: dict[int, Exploration] = field(default_factory=dict)  # of requests among some actions
    chances: Chances = field(default_factory=Chances)
    counts: Counts = field(default_factory=Counts)
    policy: BuiltIn | UserPolicy = field(init=False)
    is_short: bool = field(init=False)  # whether there is nothing to insure
    warm_up: int = field(init=False)  # rounds on trust
    account: Account = field(init=False)
    roster: Roster = field(init=False)
    last: Watched = field(init=False)  # the policy under watch
    playing: Watched | Exp2 = field(init=False)

    def __post_init__(self) -> None:
        settings, place, engine = self.settings, self.place, self.engine
        problem, horizon, least = engine.problem, self.robust.horizon, settings.budget
        if isinstance(settings.policy, str):
            self.policy = BUILT_IN[settings.policy](settings.deviations, place)
        else:
            context = () if place.alone else (place.shown,)
            self.policy = UserPolicy(settings.policy, place.actions, context)
        self.is_short = insured.is_pointless(problem, horizon, least)
        self.warm_up = 0 if horizon else insured.warm_up(problem, least)
        if engine.learned and problem.log_prior > 0:  # some of the range should be heard first
            self.warm_up = max(self.warm_up, 2 * problem.rank)
        features = linalg.in_columns(engine.features)
        first = Exploration(1, features, engine.weights, engine.shares)
        self.account = Account(len(engine.points), engine.shares)
        self.roster = Roster(len(engine.points))
        debt, unit = settings.planned_delay or None, insured.scale(problem, 1)
        limits = least, settings.premium, unit, horizon, self.warm_up
        allowance = Allowance(*limits, None, debt, engine.learned)
        cap = insured.largest_leverage(problem, allowance.budget(1), horizon)
        allowance = replace(allowance, cap=cap)
        seen = self.forecaster if place.alone else Local(self.forecaster, place, engine)
        shared = allowance, self.account, self.pending
        self.last = Watched(engine.points, self.policy, seen, first, *shared)
        if self.units.learned:
            self.last.low, self.last.high = self.units.heard
        self.playing = self.last

    @property
    def mean(self) -> Floats:
        """The forecast of the actions here."""
        mean: Floats = self.last.forecaster.mean
        return mean

    @property
    def budget(self) -> float:
        """Estimated regret that may be reached once one more decision has been made."""
        return self.last.allowance.budget(self.made + 1)

    # Who plays.

    def take_over(self, reason: str, now: int) -> None:
        """The robust learner plays in place of the policy, once so many decisions have been made."""
        self._sound(self.settings.policy_name, reason, "robust", now)
        self.playing = self.robust.wake(self.made)
        self.chances.stopped(self.heard)

    def re_arm(self, reason: str, now: int) -> None:
        """Let the policy play again."""
        self._sound("robust", reason, self.settings.policy_name, now)
        self.playing, self.paused = self.last, False
        self.last.bets = Bets()  # evidence against it is gathered anew

    def _sound(self, name: str, reason: str, successor: str, now: int) -> None:
        """Write down who stops playing, and why."""
        rho = self.units.width
        regret, budget = self.account.used * rho, self.budget * rho
        where = () if self.place.alone else (self.place.context, str(self.place.shown))
        self.alarms.append(Alarm(now, name, reason, regret, successor, budget, *where))

    @property
    def is_watched(self) -> bool:
        """Whether the policy plays."""
        return self.playing is self.last

    @property
    def may_return(self) -> bool:
        """Whether the policy may play again on evidence."""
        built_in = isinstance(self.policy, BuiltIn) and not self.units.learned
        return built_in and not (self.is_watched or self.is_short or self.paused)

    def _deserves_a_chance(self) -> bool:
        """Whether the policy's forecast has done better than the robust learner, and its budget is not used up."""
        if not self.may_return:
            return False
        room = self.budget - 1 - self.account.used
        return self.chances.deserved(self.heard, room, self.last.first.largest)

    # Ask.

    def draw(
        self, count: int | None, rng: Any, ledger: Ledger[Any], ids: Iterable[int], mask: Any = None
    ) -> tuple[Any, Drawn]:
        """Actions from one law, for decisions that will have these ids; with a mask among some of the actions on offer."""
        law, drawn = self._draw(count, rng, ledger, ids, mask)
        self.made += count or 1
        return law, drawn if self.place.alone else self.place.drawn(drawn)

    def _draw(
        self, count: int | None, rng: Any, ledger: Ledger[Any], ids: Iterable[int], mask: Any
    ) -> tuple[Any, Drawn]:
        size = count or 1
        if self.playing is self.last:
            among = None
            if mask is not None:
                among = explore_masked(self.engine, mask, self.roster.changes, self.masks)
            drawn = self.last.draw(count, rng, self.made, among)
            if not isinstance(drawn, str):
                played = drawn[0]
                law = played.distribution() if played.choice is None else played.choice
                self.pending.draw(law if self.place.alone else self.place.among_pairs(law), size)
                counts = self.counts
                counts.crowd = max(counts.crowd, self.account.outstanding - 1)
                counts.masked += 0 if mask is None else size
                if size > 1:
                    counts.at_once += size
                    counts.longest_at_once = max(counts.longest_at_once, size)
                return drawn
            if drawn == "open":
                self.counts.sat_out += size
            else:
                self.take_over(drawn, ledger.made)
        return self._draw_robust(count, rng, ids, mask)

    def _draw_robust(
        self, count: int | None, rng: Any, ids: Iterable[int], mask: Bools | None
    ) -> tuple[Any, Drawn]:
        """Actions of the robust learner; and what the policy would have played is put down."""
        exp2, size = self.robust.wake(self.made), count or 1
        self.counts.masked += 0 if mask is None else size
        if mask is None and self.may_return:
            self.chances.put_down(ids, lowest(self.mean, self.account.offered))
        awake, before = self.roster.among(None) if mask is None else mask, exp2.epoch
        epoch, actions = exp2.draw(count, rng, awake)
        if before is not None and before is not epoch:
            before.shrink()
        self.pending.draw(self.place.among_pairs(to_numpy(epoch.law.p)), size)
        return epoch, actions

    def asked_for(self, allowed: Bools | None) -> Bools | None:
        """Which of the actions on offer may be chosen in a request; None where all of these may."""
        if allowed is None:
            return None
        mask = self.roster.among(allowed)
        return None if mask is None or (mask == self.roster.offered).all() else mask

    # Tell.

    def learn(
        self,
        law: Round | Epoch | Late,
        entries: Sequence[Entry[Any]],
        losses: Sequence[Any],
        ledger: Ledger[Any],
    ) -> None:
        """Learn from losses of a law of this stage."""
        self.heard += len(entries)
        if not isinstance(law, Round):
            self._learn_robust(law, entries, losses, ledger.made)
            return
        (entry,), place, units = entries, self.place, self.units
        key, choice, y = entry.key, law.choice, (float(losses[0]) - units.center) / units.width
        pair = key if key >= 0 else ~key
        if not self.place.alone:
            key, choice = place.local(key), place.among_pairs(choice)
        self.forecaster.update(pair, y)
        self.pending.open(choice, pair, entry.heard)
        self.counts.late += ledger.heard - 1 > entry.heard
        reason = self.last.learn(law, key, y, self.made)
        if reason is not None and self.is_watched:
            self.take_over(reason, ledger.made)

    def _learn_robust(
        self, law: Epoch | Late, entries: Sequence[Entry[Any]], losses: Sequence[Any], now: int
    ) -> None:
        """Losses of the robust learner: the forecasts of the policies hear them, too."""
        robust, units, place, exp2 = self.robust, self.units, self.place, self.robust.exp2
        assert exp2 is not None
        self.counts.robust_late += len(entries) * exp2.is_late(law)
        keys = place.locals(keys_of(entries))
        for entry, key, loss in zip(entries, keys, losses, strict=True):
            self.forecaster.update(place.pair(key), units.inside(float(loss)))
            self.pending.open(None, place.pair(key), entry.heard)
            best = self.chances.chosen.pop(entry.id, None)
            if best is not None:
                gain = robust.gain(law, key, float(loss), best, self.mean)
                self.chances.compare(gain / units.width)
        exp2.learn(law, keys, losses)
        if self._deserves_a_chance():
            self.re_arm("forecast", now)

    def end_epoch(self) -> None:
        """Have the robust learner play by what is known now in the next round."""
        exp2 = self.robust.exp2
        if exp2 is not None and exp2.epoch is not None and not exp2.epoch.over:
            exp2.epoch.shrink()

    def drop(self, law: Any, before: int) -> None:
        """The loss of a decision of this law is not waited for any more."""
        choice = law.choice if isinstance(law, Round) else None
        self.pending.drop(self.place.among_pairs(choice), before)

    def condensed(self, law: Any, keys: Sequence[Any]) -> Sequence[Any] | None:
        """What late losses of a law need, for each of its decisions."""
        if isinstance(law, Round):
            return law.condensed(keys)
        assert self.robust.exp2 is not None
        return self.robust.exp2.condensed(law, keys)

    # Actions that come and go.

    def allowing(self, rows: Rows) -> Rows:
        """Those of some actions that the context allows."""
        contexts = self.settings.contexts
        masks = None if contexts is None else contexts.allowed
        return rows if masks is None else rows[masks[self.place.context][rows]]

    def exploring(self, offered: Bools) -> Exploration:
        """How to explore if other actions were offered from now on."""
        return explore(self.engine, offered, self.last.designs + 1, self.roster.changes + 1)

    def offer(self, offered: Bools, added: Rows, first: Exploration) -> None:
        """Other actions are offered from now on; must not fail."""
        self.policy.offer(offered)
        self.roster.offer(offered)
        self.account.offer(offered, added, self.roster.changes)
        self.last.offer(first)
        self.chances.chosen.clear()
        if self.robust.exp2 is not None and len(added):
            self.robust.exp2.add(added)

    # What it knows.

    def outlook(self) -> Floats:
        """Probability of every action in the next single decision."""
        p: Any = self.last.outlook(self.made) if self.is_watched else "robust"
        if not isinstance(p, str):
            return p  # type: ignore[no-any-return]
        exp2 = self.robust.exp2 or self.robust.fresh(self.made)
        return exp2.outlook(self.roster.among(None))

    def recommend(self) -> Recommendation:
        """The best action so far by the estimates of who plays."""
        if isinstance(self.playing, Exp2):
            return self.playing.recommend(self.roster.among(None))
        mean, units = self.mean, self.units
        index = lowest(mean, self.account.offered)
        loss = self.engine.sign * (float(mean[index]) * units.width + units.center)
        return Recommendation(index, self.engine.points[index], loss, "estimated")


# Of several contexts.


def offer_in(changes: Sequence[tuple[Stage, Bools, Rows]]) -> None:
    """Other actions are offered from now on, in some stages."""
    firsts = [stage.exploring(offered) for stage, offered, _ in changes]
    for stage, offered, _ in changes:
        stage.policy.announce(offered)
    # Nothing can fail from here on.
    for change, first in zip(changes, firsts, strict=True):
        stage, offered, added = change
        stage.offer(offered, added, first)


def draw_in(
    stages: Sequence[Stage],
    rows: Sequence[int],
    count: int | None,
    rng: Any,
    ledger: Ledger[Any],
    allowed: Bools | None,
) -> tuple[Turn, Drawn]:
    """Actions for these contexts, those of each from one law of its stage."""
    ids_in: dict[int, list[int]] = {}
    for k, c in enumerate(rows):
        ids_in.setdefault(c, []).append(ledger.made + k)
    masks = {c: stages[c].asked_for(allowed) for c in ids_in}
    for stage in (stages[c] for c in ids_in):  # whose policies may fail: before anything changes
        if stage.is_watched and isinstance(stage.policy, UserPolicy):
            stage.policy.law(stage.pending, stage.last.offered)
    turn, parts = Turn(ledger.made + 1, {}), []
    for c, ids in ids_in.items():
        size = None if count is None else len(ids)
        law, part = stages[c].draw(size, rng, ledger, ids, masks[c])
        if isinstance(law, Round):
            law.shrink()  # nothing more is drawn from it
        turn.epochs[c] = law
        parts.append(part)
    if count is None:
        return turn, parts[0]
    back = np.argsort([i for ids in ids_in.values() for i in ids])
    keys = np.concatenate([np.asarray(one.keys) for one in parts])[back].tolist()
    action, index, p, contexts = (
        np.concatenate([getattr(one, name) for one in parts])[back]
        for name in ("action", "index", "probability", "contexts")
    )
    return turn, Drawn(keys, action, index, p, contexts)


def condensed_in(stages: Sequence[Stage], turn: Turn, keys: Sequence[Any]) -> Sequence[Any]:
    """What late losses of decisions of several contexts need, for each of them."""
    small = []
    for key in keys:
        c = (key if key >= 0 else ~key) // stages[0].place.actions
        (one,) = stages[c].condensed(turn.epochs[c], [stages[c].place.local(key)]) or (
            turn.epochs[c],
        )
        small.append(one if isinstance(one, Late) else Turn(turn.number, {c: one}))
    return small
