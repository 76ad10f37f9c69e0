"""What the bandit learner counts, and what it hands out beside decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recommendation:
    """The best action so far by the estimates; `index` is its row in a finite set."""

    index: int | None
    action: Any
    estimated_loss: float


@dataclass(frozen=True)
class BanditDiagnostics:
    """What an operator may want to see.

    Attributes
    ----------
    epoch, rounds, heard, outstanding, late : int
        Epochs opened; decisions made; losses heard; decisions not heard of; losses heard after their epoch.
    learning_rate, exploration : float
        η and γ of the current epoch.
    drift : float
        Largest rise of a log-weight since the epoch began.
    entropy : float
        Of the distribution that would be drawn from now, in nats. On a ball: of its exponential weights q,
        relative to the uniform distribution, at most 0.
    max_leverage : float
        max_a φ(a)'Σ⁻¹φ(a) of the current epoch; on a ball its bound G/γ.
    estimated_losses : array of shape (N,), or None
        Estimated mean loss of every action, per loss heard. None on a ball, where `estimated_loss(X)` has it.
    """

    epoch: int
    rounds: int
    heard: int
    outstanding: int
    late: int
    learning_rate: float
    exploration: float
    drift: float
    entropy: float
    max_leverage: float
    estimated_losses: Any


@dataclass(slots=True)
class Tally:
    """Counts over the whole game."""

    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after their epoch was over
    longest_delay: int = 0  # most losses heard between a decision and its own
    whole: int = 0  # decisions made in whole epochs
    longest_whole: int = 0
    epochs: int = 0
    mass: float = 0.0  # Σ of the weights of all estimates
