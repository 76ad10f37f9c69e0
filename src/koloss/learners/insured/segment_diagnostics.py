"""What the insured learner tells its operator where there are contexts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from koloss.learners.insured.diagnostics import REASONS
from koloss.learners.insured.forecast import Trusted
from koloss.learners.insured.per_context import HandOver

if TYPE_CHECKING:
    from koloss.learners.insured.state import InsuredState

SHOWN = 20
"""Most segments that the text has a line for; those that were handed over come first."""


@dataclass(frozen=True)
class Segment:
    """One context: who plays in it, and how its account stands. Regrets are in the units of the losses."""

    context: Any  # its label or coordinates
    rounds: int  # decisions for it
    playing: str  # the policy, "robust", or "exploration" where it is too rare for anything else
    explored: int  # actions explored
    exploration: float  # share of its rounds that explore
    estimated_regret: float  # of the policy there; as it was when it was stopped
    budget: float | None  # of its own; None where there is one for all
    handed_over: int | None  # decisions made when the policy was stopped last
    reason: str | None  # why

    def __str__(self) -> str:
        account = f"estimated regret {self.estimated_regret:.4g}"
        if self.budget is not None:
            account += f" of {self.budget:.4g}"
        text = f"{self.context}: {self.playing} plays, {self.rounds} rounds, {self.explored} explored, {account}"
        if self.handed_over is not None and self.playing == "robust":
            text += f"; since round {self.handed_over}: {REASONS[self.reason or 'budget']}"
        return text


@dataclass(frozen=True)
class SegmentDiagnostics:
    """What an operator needs to see, as text a short report."""

    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions still waiting for their losses
    kind: str  # how policies are watched: "one by one", "together" or "in any order"
    estimated_regret: float  # of the policy, in all contexts
    budget: float  # what it may reach
    segments: tuple[Segment, ...]
    explored: int  # actions explored where the policy plays
    premium: float  # what exploring has cost there: losses of explored actions less the policy's mean loss in their context
    alarms: tuple[HandOver, ...]  # when and why the policy was stopped, or played again
    trusted: Trusted  # the regression that is trusted
    estimated_losses: NDArray[np.float64]  # (C, K): predicted loss of every pair
    told: str = field(default="losses", repr=False)  # or rewards

    @property
    def contexts(self) -> NDArray[np.int64]:
        """Decisions made in each context."""
        return np.array([one.rounds for one in self.segments])

    def __str__(self) -> str:
        robust = sum(one.playing == "robust" for one in self.segments)
        lines = [f"{len(self.segments)} contexts, {robust} of them handed over"]
        lines[0] += f"; {self.rounds} rounds, {self.outstanding} {self.told} outstanding"
        lines.append(
            f"  estimated regret {self.estimated_regret:.4g}, budget {self.budget:.4g} ({self.kind}); "
            f"explored {self.explored} actions at a premium of {self.premium:.4g}"
        )
        lines.append(f"  trusted: {self.trusted}")
        order = sorted(self.segments, key=lambda one: one.playing != "robust")
        lines += [f"  {one}" for one in order[:SHOWN]]
        if len(order) > SHOWN:
            lines.append(f"  and {len(order) - SHOWN} more")
        return "\n".join(lines)


def diagnose_segments(learner: InsuredState) -> SegmentDiagnostics:
    """What there is to see of an insured learner with contexts."""
    game, ledger = learner._game, learner.ledger
    assert game is not None
    play, contexts, rho = game.play, game.contexts, game.width
    watch, used = play.watch, play.watch.used * rho
    own, budgets = watch.one_by_one, watch.budgets * rho
    latest = {one.context: one for one in play.passed if not one.back}
    segments = []
    for c in range(len(contexts)):
        playing = learner.settings.policy_name
        if not watch.watched[c]:
            playing = "robust" if play.robust.awake[c] else "exploration"
        stopped = latest.get(c)
        segments.append(
            Segment(
                context=game.shown(c),
                rounds=int(play.rounds[c]),
                playing=playing,
                explored=int(play.explored[c]),
                exploration=play.side(c).rate(c),
                estimated_regret=float(used[c]),
                budget=float(budgets[c]) if own and playing != "exploration" else None,
                handed_over=None if stopped is None else stopped.round,
                reason=None if stopped is None else stopped.reason,
            )
        )
    budget = sum(one.budget or 0.0 for one in segments) if own else float(budgets[0])
    forecast = play.forecaster.mean.reshape(play.shape)
    return SegmentDiagnostics(
        rounds=ledger.made,
        heard=ledger.heard,
        outstanding=ledger.awaited,
        kind=game.kind,
        estimated_regret=float(used.sum()),
        budget=budget,
        segments=tuple(segments),
        explored=int(play.heard[1].sum()),
        premium=play.premium_paid * rho,
        alarms=tuple(play.passed),
        trusted=play.forecaster.chosen,
        estimated_losses=game.sign * (forecast * rho + game.center),
        told="rewards" if game.sign < 0 else "losses",
    )
