"""Adversaries that know the player's law, and losses of a class that stay in [0, 1]."""

from __future__ import annotations

import numpy as np

from tests.support import inside


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

    def random(self, rng):
        return self.of(rng.normal(size=len(self.K)))


def hiding(learner, losses, target):
    """The loss whose estimate at `target` is farthest above the truth, by the law of the next decision."""
    exp2 = inside.exp2(learner)
    engine, law = exp2.engine, exp2.next_law()
    white = engine.features  # x(a) = φ(a)'A⁻¹ Σ_b p_b φ(b) f(b): linear in f
    weights = np.stack([engine.estimate(law, b, 1.0) for b in range(len(white))])
    response = law.p * (weights @ white[target])  # mean estimate at the target, for each f
    response[target] -= 1.0
    return losses.of(losses.root.T @ response)


def game(learner, losses, name, rounds, rng):
    """Play a game; Σ p·ℓ against the best action."""
    N, paid, total = len(losses.K), 0.0, np.zeros(len(losses.K))
    target, home = rng.integers(N, size=2)
    for t in range(rounds):
        p = learner.distribution
        if name == "hiding" and t > 0.3 * rounds:
            loss = hiding(learner, losses, target)
        elif name == "lure":
            dip = losses.root.T @ np.eye(N)[int(np.argmin(p))]
            loss = losses.of(-dip)
        elif name == "predictive":
            loss = losses.of(losses.root.T @ np.eye(N)[int(np.argmax(p))])
        else:
            loss = losses.of(-losses.root.T @ np.eye(N)[home])
        paid += float(p @ loss)
        total += loss
        decision = learner.ask()
        told = float(loss[decision.index])
        if name == "coins":  # the mean is in the class, the losses are 0 or 1
            told = float(rng.random() < told)
        learner.tell(decision, told)
    return paid - float(total.min())
