"""What the bandit learner tells its operator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from koloss.learners.bandit.exp2 import Exp2
from koloss.learners.bandit.per_context import PerContext
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.bandit.realised import estimated_regret

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BanditDiagnostics:
    """What an operator may want to see; as text a short report."""

    epoch: int  # epochs opened
    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions whose losses are waited for
    late: int  # losses heard after their epoch
    learning_rate: float  # η of the current epoch
    exploration: float  # γ of the current epoch
    drift: float  # how far weights have moved since the epoch began: no log-weight rose by more
    entropy: float  # of the next law, in nats; on a ball of q, relative to the uniform one
    max_leverage: float  # max_a φ(a)'Σ⁻¹φ(a) of the current epoch; on a ball its bound G/γ
    # Mean loss of every action, of shape (C, N) with contexts; None on a ball (`estimated_loss(X)`).
    estimated_losses: Floats | None
    # One draw of what bounds the regret on average (theory R), no bound for this game; None where it is not known.
    estimated_regret: float | None = None
    told: str = field(default="losses", repr=False)  # or rewards
    contexts: NDArray[np.int64] | None = None  # decisions in each, where there are contexts

    def __str__(self) -> str:
        lines = [
            f"{self.rounds} rounds in {self.epoch} epochs, {self.outstanding} {self.told} outstanding, {self.late} came late",
            f"  learning rate {self.learning_rate:.4g}, exploration {self.exploration:.4g}, entropy {self.entropy:.4g}",
        ]
        if self.estimated_losses is not None:
            low, high = self.estimated_losses.min() + 0.0, self.estimated_losses.max() + 0.0
            lines.append(f"  estimated {self.told} from {low:.4g} to {high:.4g}")
        if self.estimated_regret is not None:
            what = "one draw of what bounds the regret on average"
            lines.append(f"  estimated regret {self.estimated_regret:.4g} ({what})")
        if self.contexts is not None and len(self.contexts) > 1:
            low, high = int(self.contexts.min()), int(self.contexts.max())
            lines.append(f"  {len(self.contexts)} contexts, each seen from {low} to {high} times")
        return "\n".join(lines)


def diagnose(
    player: Exp2 | PerContext, outstanding: int, awake: NDArray[np.bool_] | None = None
) -> BanditDiagnostics:
    """What is going on in a game of exponential weights, some of whose actions are awake; in all contexts, where there are any."""
    engine, epoch = player.engine, player.epoch
    eta, gamma = player.rates_now() if epoch is None else (epoch.eta, epoch.gamma)
    drift = max_leverage = 0.0
    if epoch is not None:
        assert isinstance(player, Exp2)
        drift = epoch.anchor_drift if epoch.over else player.drift(epoch)
    estimated_losses = None
    if isinstance(engine, PointsEngine):
        p = player.outlook(awake)
        entropy = -float(np.sum(player.frequencies * p * np.log(np.where(p > 0, p, 1.0))))
        estimated_losses = engine.sign * player.values()
        if epoch is not None:
            max_leverage = float(np.max(epoch.engine.leverages(epoch.law)))
    else:
        assert isinstance(player, Exp2)
        entropy = engine.entropy(player.next_law())  # type: ignore[attr-defined]  # of a ball
        if epoch is not None:
            max_leverage = engine.problem.leverage / epoch.gamma
    return BanditDiagnostics(
        epoch=player.epochs,
        rounds=player.made,
        heard=player.heard,
        outstanding=outstanding,
        late=player.late,
        learning_rate=eta,
        exploration=gamma,
        drift=drift,
        entropy=entropy,
        max_leverage=max_leverage,
        estimated_losses=estimated_losses,
        estimated_regret=estimated_regret(player.each),
        told="rewards" if engine.sign < 0 else "losses",
        contexts=player.counts,
    )
