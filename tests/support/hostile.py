"""Games of losses on finitely many actions: what is paid in them, and adversaries that know the player's law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support import inside


@dataclass
class Game:
    """What was paid."""

    mean: float  # by the laws that decisions were drawn from
    paid: float  # by the decisions
    total: Any  # by each action
    width: float  # largest loss of all less the smallest

    @property
    def regrets(self):
        """Of the laws against every action."""
        return self.mean - self.total

    @property
    def in_hindsight(self):
        return self.paid - float(self.total.min())


def game(
    learner: Any,
    losses: Callable[[int, Any], Any],
    rounds: int,
    *,
    count: int | None = None,
    late: int = 0,
    coins: Any = None,
    each: Callable[[], None] = lambda: None,
) -> Game:
    """Play against `losses(t, p)` of all actions, p being the law of the next decision.

    Decisions are single or batches of `count`, and each is told after `late` others; with `coins` losses are 0 or 1, and these
    are their means. `each` is called after every request.
    """
    found = Game(0.0, 0.0, np.zeros(len(learner.actions)), 0.0)
    low, high, waiting = math.inf, -math.inf, []
    for t in range(0, rounds, count or 1):
        p = learner.distribution
        loss = np.asarray(losses(t, p), dtype=float)
        decision = learner.ask(count)
        each()
        values = told = loss[decision.index]
        if coins is not None:
            told = (coins.random(values.shape) < values).astype(float)
        waiting.append((decision, told if learner.feedback == "bandit" else loss))
        if len(waiting) > late:
            learner.tell(*waiting.pop(0))
        found.mean += float(p @ loss) * (count or 1)
        found.paid += float(np.sum(values))
        found.total += loss * (count or 1)
        low, high = min(low, loss.min()), max(high, loss.max())
    for one in waiting:
        learner.tell(*one)
    found.width = high - low
    return found


class Losses:
    """Losses of a class on points, centred at ½: of a norm ball, or W Φ(y)."""

    def __init__(self, kernel, X, norm, hull):
        self.K = np.asarray(kernel(X, X))
        self.norm, self.hull = norm, hull
        self.root = np.linalg.cholesky(self.K + 1e-9 * np.eye(len(X)))

    def fit(self, values):
        """In [0, 1]: a constant is free, and smaller multiples are in the class, too."""
        middle = (values.max() + values.min()) / 2
        width = max(float(values.max() - values.min()), 1.0)
        return 0.5 + (values - middle) / width

    def of(self, direction):
        """W times the function with these coefficients in an orthonormal basis, or their best ±W Φ(y)."""
        if self.hull:
            gains = self.root @ direction  # ⟨Φ(y), direction⟩
            y = int(np.argmax(np.abs(gains)))
            return self.fit(np.sign(gains[y]) * self.norm * self.K[:, y])
        size = np.linalg.norm(direction)
        return self.fit(self.norm * self.root @ direction / max(size, 1e-12))

    def at(self, place, sign):
        """Large at a place, or small."""
        return self.of(sign * self.root.T @ np.eye(len(self.K))[place])


def hiding(learner, losses, target):
    """The loss whose estimate at `target` is farthest above the truth, by the law of the next decision."""
    exp2 = inside.exp2(learner)
    engine, law = exp2.engine, exp2.next_law()
    white = engine.features  # x(a) = φ(a)'A⁻¹ Σ_b p_b φ(b) f(b): linear in f
    weights = np.stack([engine.estimate(law, b, 1.0) for b in range(len(white))])
    response = law.p * (weights @ white[target])  # mean estimate at the target, for each f
    response[target] -= 1.0
    return losses.of(losses.root.T @ response)


HOSTILE = ("hiding", "lure", "predictive", "coins")


def regret_of(learner, losses, name, rounds, rng):
    """Σ p·ℓ against the best action where losses of a class are chosen in one of these ways."""
    target, home = rng.integers(len(losses.K), size=2)
    chosen = {
        "lure": lambda p: losses.at(int(np.argmin(p)), -1),
        "predictive": lambda p: losses.at(int(np.argmax(p)), 1),
        "hiding": lambda p: hiding(learner, losses, target),
    }

    def choose(t, p):
        waits = name == "hiding" and t <= 0.3 * rounds
        return losses.at(home, -1) if waits or name not in chosen else chosen[name](p)

    played = game(learner, choose, rounds, coins=rng if name == "coins" else None)
    return float(played.regrets.max())
