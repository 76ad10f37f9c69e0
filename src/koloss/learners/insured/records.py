"""What the insured learner counts, and what it tells its operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Alarm:
    """The end of a policy's stage.

    Attributes
    ----------
    round : int
        Decisions made before it.
    policy : str
    reason : str
        "budget": its estimated regret left no room for another round; "evidence": exploration did better than it;
        "late loss": one did not fit into the budget any more; "operator": `hand_over` was called; "short": there is nothing
        to insure.
    estimated_regret : float
        In the units of the losses.
    successor : str
        Who plays on: the next policy, or "robust".
    """

    round: int
    policy: str
    reason: str
    estimated_regret: float
    successor: str

    def __str__(self) -> str:
        why = {
            "budget": "its estimated regret left no room for another round",
            "evidence": "exploration did better than it",
            "late loss": "a late loss did not fit into the budget any more",
            "operator": "it was told to hand over",
            "short": "there is nothing to insure: one action, or too few rounds",
        }[self.reason]
        after = f"after {self.round} rounds" if self.round else "before the first round"
        return f"{after} the policy {self.policy!r} was stopped: {why}; {self.successor} plays on"


@dataclass(frozen=True)
class InsuredDiagnostics:
    """What an operator needs to see. Losses and regrets are in the units of the losses.

    Attributes
    ----------
    playing : str
        The policy in play, or "robust".
    rounds, heard, outstanding : int
        Decisions made; losses heard; decisions not heard of.
    estimated_regret : float or None
        Unbiased estimate of the policy's regret in its stage; None once the robust learner plays.
    band : (float, float) or None
        Two standard deviations around it, from the steps that the estimate of its best action has made. Not proved.
    budget : float or None
        Estimated regret that the stage may reach.
    distance : float or None
        Budget less estimated regret.
    exploration : float
        Share of exploration that the next round needs at least.
    explored : int
        Actions explored in this stage.
    premium : float
        What exploring has cost in this stage: losses of explored actions less the policy's mean loss.
    suspicious : bool
        Whether the policy has done no better than exploration of late; then more is explored.
    evidence : float
        That exploration does better than the policy: wealth of bets on it, over what ends the stage.
    trusted : (float, float)
        Discount and ridge of the regression that is trusted.
    dropped : int
        Losses that came after their stage had ended, and were not used.
    alarms : tuple of Alarm
        When and why policies were stopped.
    estimated_losses : array of shape (N,)
        Predicted loss of every action.
    robust : BanditDiagnostics or None
        Those of the robust learner once it plays.
    """

    playing: str
    rounds: int
    heard: int
    outstanding: int
    estimated_regret: float | None
    band: tuple[float, float] | None
    budget: float | None
    distance: float | None
    exploration: float
    explored: int
    premium: float
    suspicious: bool
    evidence: float
    trusted: tuple[float, float]
    dropped: int
    alarms: tuple[Alarm, ...]
    estimated_losses: Any
    robust: Any = None

    def __str__(self) -> str:
        lines = [
            f"{self.playing} plays, {self.rounds} rounds, {self.outstanding} losses outstanding"
        ]
        if self.estimated_regret is not None and self.band is not None:
            lines.append(
                f"  estimated regret {self.estimated_regret:.4g} (band {self.band[0]:.4g} to {self.band[1]:.4g}), "
                f"{self.distance:.4g} below its budget of {self.budget:.4g}"
            )
            lines.append(
                f"  explored {self.explored} actions at a premium of {self.premium:.4g}; evidence against the policy "
                f"{self.evidence:.2g} of 1{', suspicious' if self.suspicious else ''}"
            )
        lines.append(f"  trusted: discount {self.trusted[0]:g}, ridge {self.trusted[1]:g}")
        lines += [f"  {alarm}" for alarm in self.alarms]
        return "\n".join(lines)


@dataclass(slots=True)
class InsuredTally:
    """Counts over the whole game."""

    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after others had been since their action was drawn
    crowd: int = 0  # most decisions that were outstanding when a loss had been heard
    dropped: int = 0  # losses that came after their stage
