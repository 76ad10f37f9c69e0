"""What is promised of an insured learner, given the game so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from koloss.core.snapshot import kept
from koloss.guarantees import Guarantee, insured, promises
from koloss.learners.bandit.exp2 import Epoch, among_some, prove, within_shares
from koloss.learners.bandit.realised import (
    bias_of,
    check,
    estimated_regrets,
    missing_cost,
    unseen,
)
from koloss.learners.waiting import Late

if TYPE_CHECKING:
    from koloss.learners.insured.state import InsuredState


@kept
@dataclass(slots=True)
class Counts:
    """What has happened in a game that a promise or an operator asks for."""

    late: int = 0  # losses of policies before which others were heard since the decision
    crowd: int = 0  # most decisions of policies that were open beside one just made
    robust_late: int = 0  # losses of the robust learner that came after its next decision
    at_once: int = 0  # decisions of policies that were drawn at once
    longest_at_once: int = 0
    sat_out: int = 0  # rounds that policies left to the robust learner without being stopped
    masked: int = 0  # decisions made among some of the actions

    def draw(self, size: int, others: int, masked: bool) -> None:
        """A policy makes so many decisions at once, beside others that are open."""
        self.crowd = max(self.crowd, others)
        if masked:
            self.masked += size
        if size > 1:
            self.at_once += size
            self.longest_at_once = max(self.longest_at_once, size)


def prove_insured(learner: InsuredState, rounds: int) -> Guarantee:
    """What is proved for so many rounds; nothing of those with masks."""
    promise = _proved(learner, rounds)
    masked = learner._counts.masked
    return promises.masked(promise, masked) if masked else promise


def _proved(learner: InsuredState, rounds: int) -> Guarantee:
    """Theorem I1 with the robust learner's bound, for so many rounds."""
    ledger, settings, engine = learner.ledger, learner.settings, learner.engine
    played, lateness = _seen(learner, rounds)
    if learner._is_short:  # the robust learner alone: what waits costs as much as what never comes
        played = replace(played, late=learner._counts.robust_late, unheard=ledger.unheard)

    def bound(halvings: int, rounds: int) -> Guarantee:
        robust, hull = learner._robust.tuned(halvings), learner._units.hull
        promise = prove(robust, robust.rates, learner.batch, rounds, settings.horizon, played, hull)
        exp2 = learner._robust.exp2
        totals = None if exp2 is None else exp2.totals
        if totals is None and not learner._roster.changes:
            return promise
        return among_some(promise, robust, totals, learner._roster.among(None))

    if learner._is_short:
        return within_shares(bound(0, rounds), learner.robust)
    last = insured.largest(bound, rounds, settings.horizon)
    promise = insured.guarantee(
        engine.problem,
        last,
        horizon=settings.horizon,
        width=engine.high - engine.low,
        share=settings.budget,
        premium=settings.premium if engine.learned else None,
        lateness=lateness,
        warm_up=learner._warm_up,
        made=ledger.made,
        own=settings.policy_name == "own",
        alarms=[str(alarm) for alarm in learner.alarms],
    )
    promise = within_shares(promise, learner.robust)
    if learner._growth is not None:
        promise = learner._growth.note(promise)
    return promise.of_rewards() if engine.sign < 0 else promise


def realise_insured(learner: InsuredState) -> Guarantee:
    """The estimated regret of the rounds so far: the account, what is open, and what the robust learner estimates of its own (theory R)."""
    if learner._game is not None:
        raise ValueError(
            "`realised` must be False with contexts, where `diagnostics` has the accounts"
        )
    lacking = {
        "after actions were added or withdrawn": learner._roster.changes > 0,
        "after requests among some of the actions": learner._counts.masked > 0,
    }
    for where, lacks in lacking.items():
        if lacks:
            raise ValueError(f"`realised` must be False {where}")
    made, rho, account = learner.ledger.made, learner._units.width, learner._account
    promise, horizon = _proved(learner, max(made, 1)), learner.settings.horizon
    estimates, missing = (
        rho * account.total,
        rho * (account.outstanding + min(learner._warm_up, made)),
    )
    budget = learner.settings.budget * insured.scale(
        learner.engine.problem, horizon or max(made, 1)
    )
    bias = insured.bias(learner.engine.problem, budget, horizon, made)
    bias *= rho if learner._units.learned else 1.0
    robust = learner._robust.exp2
    if robust is not None:
        check(robust)
        estimates = estimates + estimated_regrets(robust)
        missing += missing_cost(robust)
        bias += robust.made * bias_of(robust)
    hull = learner._units.hull
    return promises.realised(
        promise,
        made,
        estimate=float(estimates.max()),
        missing=missing,
        bias=bias,
        excess=hull.beyond,
        within=unseen(hull, learner.engine.sign),
        width=rho,
    )


def _seen(learner: InsuredState, rounds: int) -> tuple[promises.Played, insured.Lateness]:
    """What the bounds need to know of the game so far: the robust learner's, and what came late."""
    stage, ledger, settings = learner._robust.exp2, learner.ledger, learner.settings
    counts = learner._counts
    delay, made = settings.planned_delay, ledger.made
    longest = ledger.longest_wait
    played = promises.Played()
    late = forgotten = plays = 0
    if stage is not None:
        laws: list[Any] = [entry.law for entry in ledger if _is_robust(entry.law)]
        overdue = sum(map(learner._robust.is_overdue, laws))
        late, forgotten = counts.robust_late + overdue, stage.made - stage.heard - len(laws)
        # What waits will be heard in time, where that was promised.
        unheard = forgotten + (0 if delay else len(laws) - overdue)
        played = replace(stage.played(longest, unheard), late=late)
        plays = min(stage.made + max(rounds - made, 0), rounds)
    at_once = counts.at_once + played.at_once
    longest_at_once = max(counts.longest_at_once, played.longest_at_once)
    played = replace(
        played, made=made, heard=ledger.heard, at_once=at_once, longest_at_once=longest_at_once
    )
    lateness = insured.Lateness(
        delay=delay,
        hold=settings.hold,
        crowd=max(delay, counts.crowd),
        overdraft=learner._last.allowance.debt(rounds),
        policy=counts.late,
        robust=late,
        robust_rounds=plays,
        kept=longest <= delay,
        whole=at_once > 0,
        missing=ledger.awaited + ledger.forgotten,
        heard=ledger.heard,
    )
    return replace(played, longest_delay=longest), lateness


def _is_robust(law: Any) -> bool:
    """Whether a law is the robust learner's."""
    return isinstance(law, (Late, Epoch))
