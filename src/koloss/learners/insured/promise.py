"""What is promised of an insured learner, given the game so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koloss.guarantees import Guarantee, contexts, insured, promises
from koloss.learners.bandit.exp2 import Epoch, among_some, prove, within_shares
from koloss.learners.bandit.realised import (
    bias_of,
    check,
    estimated_regrets,
    missing_cost,
    unseen,
)
from koloss.learners.insured.stage import Stage
from koloss.learners.waiting import Late

if TYPE_CHECKING:
    from koloss.learners.insured.state import InsuredState


def prove_insured(learner: InsuredState, rounds: int) -> Guarantee:
    """What is proved for so many rounds; nothing of those with masks."""
    promise = _proved(learner, rounds)
    masked = sum(stage.counts.masked for stage in learner._stages)
    return promises.masked(promise, masked) if masked else promise


def _proved(learner: InsuredState, rounds: int) -> Guarantee:
    """Theorem I1 with the robust learner's bound, for so many rounds; with contexts Theorem F6.11."""
    ledger, settings, engine = learner.ledger, learner.settings, learner.engine
    played = [_played(learner, stage) for stage in learner._stages]
    lateness = _lateness(learner, rounds, played)
    insurable = [stage for stage in learner._stages if not stage.is_short]
    if not insurable:  # the robust learners alone: what waits costs as much as what never comes
        played = [_alone(*pair) for pair in zip(learner._stages, played, strict=True)]

    def bound(stage: Stage, seen: promises.Played, halvings: int, rounds: int) -> Guarantee:
        robust, hull = stage.robust.tuned(halvings), learner._units.hull
        promise = prove(
            robust, robust.rates, stage.robust.batch, rounds, settings.horizon, seen, hull
        )
        exp2 = stage.robust.exp2
        totals = None if exp2 is None else exp2.totals
        if totals is None and not stage.roster.changes:
            return promise
        return among_some(promise, robust, totals, stage.roster.among(None))

    if settings.has_contexts:
        each = [bound(*pair, 0, rounds) for pair in zip(learner._stages, played, strict=True)]
        last = _added(learner, each, rounds)
    elif insurable:
        (stage,), (seen,) = learner._stages, played
        last = insured.largest(
            lambda halvings, n: bound(stage, seen, halvings, n), rounds, settings.horizon
        )
    else:
        last = bound(learner._stages[0], played[0], 0, rounds)
    if not insurable:
        return within_shares(last, learner.robust)
    promise = insured.guarantee(
        [insured.Part(one.engine.problem, one.robust.horizon, one.warm_up) for one in insurable],
        last,
        width=engine.high - engine.low,
        share=settings.budget,
        premium=settings.premium if engine.learned else None,
        lateness=lateness,
        made=ledger.made,
        own=settings.policy_name == "own",
        alarms=[str(alarm) for alarm in learner.alarms],
    )
    promise = within_shares(promise, learner.robust)
    if learner._growth is not None:
        promise = learner._growth.note(promise)
    return promise.of_rewards() if engine.sign < 0 else promise


def _added(learner: InsuredState, each: Sequence[Guarantee], rounds: int) -> Guarantee:
    """The robust learners' bounds together, whatever the order of the contexts."""
    engines = [stage.robust.engine for stage in learner._stages]
    numbers = None
    if learner.settings.horizon is None and engines[0].problem.log_prior > 0:
        games, kappas = [one.problem for one in engines], [one.rates.kappa for one in engines]
        numbers = contexts.separate(games, kappas, rounds, each[0].trivial)
    late = any(stage.counts.late or stage.counts.robust_late for stage in learner._stages)
    return contexts.added(each, numbers, late=late or learner._most_open > 0)


def realise_insured(learner: InsuredState) -> Guarantee:
    """The estimated regret of the rounds so far: the accounts, what is open, and what the robust learners estimate of their own (theory R)."""
    stages, settings, hull = learner._stages, learner.settings, learner._units.hull
    lacking = {
        "after actions were added or withdrawn": any(one.roster.changes for one in stages),
        "after requests among some of the actions": any(one.counts.masked for one in stages),
    }
    for where, lacks in lacking.items():
        if lacks:
            raise ValueError(f"`realised` must be False {where}")
    made, rho = learner.ledger.made, learner._units.width
    promise = _proved(learner, max(made, 1))
    estimate = missing = bias = 0.0
    for stage in stages:
        account, own, horizon = stage.account, stage.made, stage.robust.horizon
        problem, robust = stage.engine.problem, stage.robust.exp2
        estimates = rho * account.total
        missing += rho * (account.outstanding + min(stage.warm_up, own))
        budget = settings.budget * insured.scale(problem, horizon or max(own, 1))
        error = insured.bias(problem, budget, horizon, own)
        bias += error * (rho if learner._units.learned else 1.0)
        if robust is not None:
            check(robust)
            estimates = estimates + estimated_regrets(robust)
            missing += missing_cost(robust)
            bias += robust.made * bias_of(robust)
        estimate += float(estimates.max())
    return promises.realised(
        promise,
        made,
        estimate=estimate,
        missing=missing,
        bias=bias,
        excess=hull.beyond,
        within=unseen(hull, learner.engine.sign),
        width=rho,
    )


def _waiting(learner: InsuredState, stage: Stage) -> list[Any]:
    """Laws of the robust learner of a stage that losses may come for, one for each."""
    laws = (learner._law_of(one) for one in learner.ledger if learner._stage_of(one) is stage)
    return [law for law in laws if isinstance(law, (Late, Epoch))]


def _played(learner: InsuredState, stage: Stage) -> promises.Played:
    """What the bound of the robust learner needs to know of the game so far."""
    robust, counts, ledger = stage.robust.exp2, stage.counts, learner.ledger
    longest, played = ledger.longest_wait, promises.Played()
    if robust is not None:
        laws = _waiting(learner, stage)
        overdue = sum(map(stage.robust.is_overdue, laws))
        forgotten = robust.made - robust.heard - len(laws)
        # What waits will be heard in time, where that was promised.
        delay = learner.settings.planned_delay
        unheard = forgotten + (0 if delay else len(laws) - overdue)
        played = replace(robust.played(longest, unheard), late=counts.robust_late + overdue)
    return replace(
        played,
        made=ledger.made,
        heard=ledger.heard,
        at_once=counts.at_once + played.at_once,
        longest_at_once=max(counts.longest_at_once, played.longest_at_once),
        longest_delay=longest,
    )


def _alone(stage: Stage, played: promises.Played) -> promises.Played:
    """The same where nothing is insured."""
    unheard = stage.made - stage.heard
    return replace(played, late=stage.counts.robust_late, unheard=unheard)


def _lateness(
    learner: InsuredState, rounds: int, played: Sequence[promises.Played]
) -> insured.Lateness:
    """What came late, in any of the stages."""
    stages, ledger, settings = learner._stages, learner.ledger, learner.settings
    delay, made = settings.planned_delay, ledger.made
    longest = ledger.longest_wait
    counts = [stage.counts for stage in stages]
    robust = [stage.robust.exp2.made for stage in stages if stage.robust.exp2 is not None]
    return insured.Lateness(
        delay=delay,
        hold=settings.hold,
        crowd=max(delay, *(one.crowd for one in counts)),
        overdraft=max(stage.last.allowance.debt(rounds) for stage in stages),
        policy=sum(one.late for one in counts) + learner._most_open,
        robust=sum(one.late for one in played),
        robust_rounds=min(sum(robust) + max(rounds - made, 0), rounds) if robust else 0,
        kept=longest <= delay,
        whole=any(one.at_once for one in played),
        missing=ledger.awaited + ledger.forgotten,
        heard=ledger.heard,
    )
