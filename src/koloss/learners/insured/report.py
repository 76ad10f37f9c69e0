"""What the insured learner tells its operator, and what is promised of it, given the game so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.guarantees import Guarantee, contexts, insured, promises
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import Epoch, Exp2, among_some, prove, within_shares
from koloss.learners.bandit.realised import (
    bias_of,
    check,
    estimated_regrets,
    missing_cost,
    unseen,
)
from koloss.learners.insured.evidence import CHANCE, ROOM, Alarm
from koloss.learners.insured.forecast import Trusted
from koloss.learners.insured.stage import Stage
from koloss.learners.waiting import Late

if TYPE_CHECKING:
    from koloss.learners.insured.insured_bandit import InsuredBandit


@dataclass(frozen=True)
class SecondChance:
    """What is known of a policy that waits for its second chance."""

    gain: float  # what its forecast would have saved since it was stopped, by the robust learner's estimates
    deviations: float  # the same in deviations of its noise
    needed: float  # deviations that let it play again
    rest: int  # losses still to be heard before that
    room: float  # what its budget has left
    least: float  # and must have

    def __str__(self) -> str:
        rest = f", once {self.rest} more are heard" if self.rest else ""
        return (
            f"stopped, it would have saved {self.gain:.4g} ({self.deviations:.2g} deviations; a second chance at "
            f"{self.needed:g}{rest}, with room of {self.room:.4g} where {self.least:.4g} is needed)"
        )


@dataclass(frozen=True)
class InsuredDiagnostics:
    """What an operator needs to see, as text a short report. Losses and regrets are in the units of the losses."""

    playing: str  # the policy in play, or "robust"
    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions still waiting for their losses
    held: int  # losses told and not yet used (`hold`)
    estimated_regret: float  # of the policy, as far as losses were heard: without bias, but for what was not counted, at its worst
    band: tuple[float, float]  # two deviations around it, by its own steps; not proved
    budget: float  # estimated regret that may be reached
    distance: float  # budget less estimated regret
    deviations: float  # by how many deviations of its noise some action's account is below the budget, at least
    open: int  # policies' decisions that wait, each of which may cost the range
    overdraft: float  # how many may beyond what the budget has room for
    exploration: float  # share of exploration that the next round needs at least
    explored: int  # actions explored in this stage
    premium: float  # what exploring has cost in it: losses of explored actions less the policy's mean loss
    suspicious: bool  # whether the policy has done worse than exploration of late, beyond noise; then more is explored
    evidence: float  # that exploration does better than the policy: wealth of bets on it, over what ends the stage
    skipped: (
        float  # losses of this stage that were not counted, in parts: for want of room, or of need
    )
    sat_out: int  # rounds that the robust learner played because too many waited
    trusted: Trusted  # the regression that is trusted: how fast it forgets, its bandwidth and noise
    alarms: tuple[Alarm, ...]  # when and why policies were stopped, or played again
    estimated_losses: NDArray[np.float64]  # predicted loss of every action
    chance: SecondChance | None = None  # while the robust learner plays in place of a policy
    robust: BanditDiagnostics | None = None  # of the robust learner while it plays
    told: str = field(default="losses", repr=False)  # or rewards
    context: Any = None  # in which this is, where there are several

    def __str__(self) -> str:
        waiting = f"{self.outstanding} {self.told} outstanding"
        if self.held:
            waiting += f", {self.held} held back"
        low, high = self.band
        near = f": {self.deviations:.2g} deviations" if math.isfinite(self.deviations) else ""
        lines = [f"{self.playing} plays, {self.rounds} rounds, {waiting}"]
        lines.append(
            f"  estimated regret {self.estimated_regret:.4g} (band {low:.4g} to {high:.4g}), "
            f"{self.distance:.4g} below its budget of {self.budget:.4g}{near}"
        )
        lines.append(
            f"  explored {self.explored} actions at a premium of {self.premium:.4g}; evidence against the policy "
            f"{self.evidence:.2g} of 1{', suspicious' if self.suspicious else ''}"
        )
        if self.open or self.skipped or self.sat_out:
            lines.append(
                f"  {self.open} of the policy's {self.told} are open, {self.skipped:.4g} were not counted, "
                f"{self.sat_out} rounds were left to the robust learner"
            )
        lines.append(f"  trusted: {self.trusted}")
        if self.chance is not None:
            lines.append(f"  {self.chance}")
        lines += [f"  {alarm}" for alarm in self.alarms]
        return "\n".join(lines)


def diagnose_stage(learner: InsuredBandit, stage: Stage) -> InsuredDiagnostics:
    """What there is to see of an insured learner, or of one of its contexts."""
    watched, ledger, forecaster = stage.last, learner.ledger, stage.forecaster
    rho, center = stage.units.width, stage.units.center
    account, budget = stage.account, stage.budget
    alone = stage.place.alone
    robust = chance = None
    if isinstance(stage.playing, Exp2):
        robust = diagnose(stage.playing, stage.playing.made - stage.playing.heard)
    if stage.may_return:
        least, heard = ROOM * stage.last.first.largest, stage.heard
        gain, score = stage.chances.gain * rho, stage.chances.deviations
        rest, room = stage.chances.rest(heard), (budget - 1 - account.used) * rho
        chance = SecondChance(gain, score, CHANCE, rest, room, least * rho)
    estimate = account.used * rho
    spread = 2 * rho * account.deviation
    shown = stage.place.shown
    waiting = [one.id for one in ledger if learner._stage_of(one) is stage]
    held = sum(i in ledger.held for i in waiting)
    return InsuredDiagnostics(
        playing="robust" if robust else learner.settings.policy_name,
        rounds=stage.made,
        heard=stage.heard,
        outstanding=len(waiting) - held,
        held=held,
        estimated_regret=estimate,
        band=(estimate - spread, estimate + spread),
        budget=budget * rho,
        distance=budget * rho - estimate,
        deviations=account.deviations(budget),
        open=account.outstanding,
        overdraft=watched.allowance.debt(stage.made + 1),
        exploration=robust.exploration if robust else watched.exploration_now(stage.made),
        explored=watched.explored,
        premium=watched.premium_paid * rho,
        suspicious=robust is None and watched.suspicious,
        evidence=watched.bets.evidence,
        skipped=watched.skipped,
        sat_out=stage.counts.sat_out,
        trusted=forecaster.chosen,
        alarms=tuple(one for one in learner.alarms if alone or one.context == stage.place.context),
        estimated_losses=stage.engine.sign * (stage.mean * rho + center),
        chance=chance,
        robust=robust,
        told="rewards" if stage.engine.sign < 0 else "losses",
        context=shown,
    )


SHOWN = 20
"""Most contexts that the text has a part for; those that were handed over come first."""


@dataclass(frozen=True)
class ContextDiagnostics:
    """What an operator needs to see of a learner with contexts; as text, a short report."""

    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions still waiting for their losses
    segments: tuple[InsuredDiagnostics, ...]  # of every context
    alarms: tuple[Alarm, ...]  # when, where and why policies were stopped, or played again
    trusted: Trusted  # the regression that is trusted
    told: str = field(default="losses", repr=False)  # or rewards

    @property
    def contexts(self) -> NDArray[np.int64]:
        """Decisions made in each context."""
        return np.array([one.rounds for one in self.segments])

    @property
    def estimated_losses(self) -> NDArray[np.float64]:
        """Predicted loss of every action in every context, of shape (C, K)."""
        return np.array([one.estimated_losses for one in self.segments])

    @property
    def estimated_regret(self) -> float:
        """Of the policies, in all contexts."""
        return math.fsum(one.estimated_regret for one in self.segments)

    @property
    def budget(self) -> float:
        """What it may reach."""
        return math.fsum(one.budget for one in self.segments)

    @property
    def explored(self) -> int:
        """Actions explored where the policy plays."""
        return sum(one.explored for one in self.segments)

    @property
    def premium(self) -> float:
        """What that has cost."""
        return math.fsum(one.premium for one in self.segments)

    def __str__(self) -> str:
        robust = sum(one.playing == "robust" for one in self.segments)
        lines = [f"{len(self.segments)} contexts, {robust} of them handed over"]
        lines[0] += f"; {self.rounds} rounds, {self.outstanding} {self.told} outstanding"
        lines.append(
            f"  estimated regret {self.estimated_regret:.4g}, budgets {self.budget:.4g}; "
            f"explored {self.explored} actions at a premium of {self.premium:.4g}"
        )
        lines.append(f"  trusted: {self.trusted}")
        order = sorted(self.segments, key=lambda one: one.playing != "robust")
        lines += [
            f"  {one.context}: {one.playing} plays, {one.rounds} rounds, {one.explored} explored, "
            f"estimated regret {one.estimated_regret:.4g} of {one.budget:.4g}"
            for one in order[:SHOWN]
        ]
        if len(order) > SHOWN:
            lines.append(f"  and {len(order) - SHOWN} more")
        lines += [f"  {alarm}" for alarm in self.alarms]
        return "\n".join(lines)


def diagnose_insured(learner: InsuredBandit) -> InsuredDiagnostics | ContextDiagnostics:
    """What there is to see of an insured learner; with contexts of each of them."""
    if not learner.settings.has_contexts:
        return diagnose_stage(learner, learner._stages[0])
    ledger = learner.ledger
    return ContextDiagnostics(
        rounds=ledger.made,
        heard=ledger.heard,
        outstanding=ledger.awaited,
        segments=tuple(diagnose_stage(learner, stage) for stage in learner._stages),
        alarms=tuple(learner.alarms),
        trusted=learner._forecaster.chosen,
        told="rewards" if learner.engine.sign < 0 else "losses",
    )


def prove_insured(learner: InsuredBandit, rounds: int) -> Guarantee:
    """What is proved for so many rounds; nothing of those with masks."""
    promise = _proved(learner, rounds)
    masked = sum(stage.counts.masked for stage in learner._stages)
    return promises.masked(promise, masked) if masked else promise


def _proved(learner: InsuredBandit, rounds: int) -> Guarantee:
    """Theorem I1 with the robust learner's bound, for so many rounds; with contexts Theorem F6.11."""
    ledger, settings, engine = learner.ledger, learner.settings, learner.engine
    played = [_played(learner, stage) for stage in learner._stages]
    lateness = _lateness(learner, rounds, played)
    insurable = [stage for stage in learner._stages if not stage.is_short]
    if not insurable:  # the robust learners alone: what waits costs as much as what never comes
        played = [
            replace(seen, late=one.counts.robust_late, unheard=one.made - one.heard)
            for one, seen in zip(learner._stages, played, strict=True)
        ]

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


def _added(learner: InsuredBandit, each: Sequence[Guarantee], rounds: int) -> Guarantee:
    """The robust learners' bounds together, whatever the order of the contexts."""
    engines = [stage.robust.engine for stage in learner._stages]
    numbers = None
    if learner.settings.horizon is None and engines[0].problem.log_prior > 0:
        games, kappas = [one.problem for one in engines], [one.rates.kappa for one in engines]
        numbers = contexts.separate(games, kappas, rounds, each[0].trivial)
    late = any(stage.counts.late or stage.counts.robust_late for stage in learner._stages)
    return contexts.added(each, numbers, late=late or learner._most_open > 0)


def realise_insured(learner: InsuredBandit) -> Guarantee:
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


def _played(learner: InsuredBandit, stage: Stage) -> promises.Played:
    """What the bound of the robust learner needs to know of the game so far."""
    robust, counts, ledger = stage.robust.exp2, stage.counts, learner.ledger
    longest, played = ledger.longest_wait, promises.Played()
    if robust is not None:
        waiting = (learner._law_of(one) for one in ledger if learner._stage_of(one) is stage)
        laws = [law for law in waiting if isinstance(law, (Late, Epoch))]
        overdue = sum(map(robust.is_late, laws))
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


def _lateness(
    learner: InsuredBandit, rounds: int, played: Sequence[promises.Played]
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
