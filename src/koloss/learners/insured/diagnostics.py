"""What the insured learner tells its operator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import kept
from koloss.learners.bandit.diagnostics import BanditDiagnostics, diagnose
from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.insured.chances import CHANCE, ROOM
from koloss.learners.insured.forecast import Trusted

if TYPE_CHECKING:
    from koloss.learners.insured.stage import Stage
    from koloss.learners.insured.state import InsuredState


def told_after(rounds: int) -> str:
    """When something happened, in words."""
    return f"after {rounds} rounds" if rounds else "before the first round"


@kept
@dataclass(frozen=True)
class Alarm:
    """A policy was stopped, or plays again."""

    round: int  # decisions made before it
    policy: str
    reason: str  # "budget", "evidence", "operator" or "short"; "forecast" or "operator" for a second chance
    estimated_regret: float  # in the units of the losses
    successor: str  # who plays on: "robust", or the policy
    budget: float  # what the estimated regret could have reached
    context: int | None = None  # the row of the context in which, where there are several, ...
    named: str = ""  # ... and how it was given

    def __str__(self) -> str:
        why, successor = REASONS[self.reason], self.successor
        used = f"estimated regret {self.estimated_regret:.4g} of {self.budget:.4g}"
        where = "" if self.context is None else f" in context {self.named}"
        after = told_after(self.round) + where
        if self.policy == "robust":
            return f"{after} the policy {successor!r} plays again: {why}; {used}"
        return (
            f"{after} the policy {self.policy!r} was stopped: {why}; {used}; {successor} plays on"
        )


REASONS = {
    "budget": "its estimated regret left no room for another round",
    "evidence": "exploration did better than it",
    "forecast": "its forecast did better than the robust learner",
    "operator": "by hand",
    "short": "there is nothing to insure: one action, or too few rounds",
}
"""Why a stage ends, in words."""


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


def diagnose_stage(learner: InsuredState, stage: Stage) -> InsuredDiagnostics:
    """What there is to see of an insured learner, or of one of its contexts."""
    watched, ledger, forecaster = stage.last, learner.ledger, stage.forecaster
    rho, center = stage.units.width, stage.units.center
    account, budget = stage.account, stage.budget
    alone = stage.place.alone
    robust = chance = None
    if isinstance(stage.playing, Exp2):
        robust = diagnose(stage.playing, stage.playing.made - stage.playing.heard)
    if stage.may_return:
        least, heard = ROOM * stage.first.largest, stage.heard
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


def diagnose_contexts(learner: InsuredState) -> ContextDiagnostics:
    """What there is to see of an insured learner with contexts."""
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
