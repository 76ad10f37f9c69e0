"""What the insured learner tells its operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from koloss.learners.bandit.diagnostics import BanditDiagnostics
from koloss.learners.insured.forecast import Trusted
from koloss.learners.reading import Reader


@dataclass(frozen=True)
class Alarm:
    """The end of a policy's stage."""

    round: int  # decisions made before it
    policy: str
    reason: str  # "budget", "evidence", "open", "operator" or "short"
    estimated_regret: float  # in the units of the losses
    successor: str  # who plays on: the next policy, or "robust"

    def __str__(self) -> str:
        why, successor = REASONS[self.reason], self.successor
        after = f"after {self.round} rounds" if self.round else "before the first round"
        if self.policy == "robust":
            return f"{after} the policy {successor!r} plays again: {why}"
        return f"{after} the policy {self.policy!r} was stopped: {why}; {successor} plays on"


REASONS = {
    "budget": "its estimated regret left no room for another round",
    "evidence": "exploration did better than it",
    "open": "too many of its decisions waited for their losses",
    "forecast": "its forecast did better than the robust learner",
    "operator": "by hand",
    "short": "there is nothing to insure: one action, or too few rounds",
}
"""Why a stage ends, in words."""


def alarm_from_dict(data: Reader, names: Sequence[str]) -> Alarm:
    """An alarm in a snapshot of a game with these policies."""
    return Alarm(
        round=data.count("round"),
        policy=data.word("policy", (*names, "robust")),
        reason=data.word("reason", tuple(REASONS)),
        estimated_regret=data.number("estimated_regret"),
        successor=data.word("successor", (*names, "robust")),
    )


@dataclass(frozen=True)
class InsuredDiagnostics:
    """What an operator needs to see, as text a short report. Losses and regrets are in the units of the losses."""

    playing: str  # the policy in play, or "robust"
    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions still waiting for their losses
    estimated_regret: float | None  # of the policy, unbiased; None once the robust learner plays
    band: tuple[float, float] | None  # two deviations around it, by its own steps; not proved
    budget: float | None  # estimated regret that the stage may reach
    distance: float | None  # budget less estimated regret
    exploration: float  # share of exploration that the next round needs at least
    explored: int  # actions explored in this stage
    premium: float  # what exploring has cost in it: losses of explored actions less the policy's mean loss
    suspicious: bool  # whether the policy has done no better than exploration of late; then more is explored
    evidence: float  # that exploration does better than the policy: wealth of bets on it, over what ends the stage
    trusted: Trusted  # discount, bandwidth and noise of the regression that is trusted
    skipped: float  # losses of this stage that came too late to be counted, in parts
    alarms: tuple[Alarm, ...]  # when and why policies were stopped
    estimated_losses: NDArray[np.float64]  # predicted loss of every action
    robust: BanditDiagnostics | None = None  # of the robust learner once it plays
    told: str = field(default="losses", repr=False)  # or rewards

    def __str__(self) -> str:
        waiting = f"{self.outstanding} {self.told} outstanding"
        lines = [f"{self.playing} plays, {self.rounds} rounds, {waiting}"]
        if self.estimated_regret is not None and self.band is not None:
            lines.append(
                f"  estimated regret {self.estimated_regret:.4g} (band {self.band[0]:.4g} to {self.band[1]:.4g}), "
                f"{self.distance:.4g} below its budget of {self.budget:.4g}"
            )
            lines.append(
                f"  explored {self.explored} actions at a premium of {self.premium:.4g}; evidence against the policy "
                f"{self.evidence:.2g} of 1{', suspicious' if self.suspicious else ''}"
            )
        lines.append(f"  trusted: {self.trusted}")
        lines += [f"  {alarm}" for alarm in self.alarms]
        return "\n".join(lines)
