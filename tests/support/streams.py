"""Losses that several tests play, and the regret of learners with a mean action."""

from __future__ import annotations

import math

import numpy as np

import koloss as kl

GAMES = ("random", "biased", "switching", "alternating")


def coefficients(game, t, rounds, m, rng):
    """Unit vectors in feature space: what an adversary plays in round t."""
    if game == "random":
        w = rng.normal(size=m)
    elif game == "biased":
        w = rng.normal(size=m) + 2 * np.eye(m)[0]
    elif game == "switching":
        w = np.eye(m)[(4 * t // rounds) % m] * (-1.0) ** (4 * t // rounds)
    elif game == "constant":
        w = np.eye(m)[0]
    else:
        w = np.eye(m)[0] * (-1.0) ** t
    return w / np.linalg.norm(w)


def quadratic_of(w, d):
    """The loss with these coefficients of the orthonormal features (x_i², √2 x_i x_j, x_i)."""
    A, k = np.zeros((d, d)), 0
    for i in range(d):
        for j in range(i, d):
            A[i, j] = A[j, i] = w[k] if i == j else w[k] / math.sqrt(2)
            k += 1
    return kl.QuadraticLoss(A, w[k:])


def quadratics(game, n, d, seed=0):
    """Losses of norm one, one per round."""
    rng, m = np.random.default_rng(seed), d * (d + 3) // 2
    return [quadratic_of(coefficients(game, t, n, m, rng), d) for t in range(n)]


def on_sphere(N, d):
    """Points in general position."""
    X = np.random.default_rng(5).normal(size=(N, d))
    return kl.Points(X / np.linalg.norm(X, axis=1, keepdims=True))


def bump(rng, kernel):
    """A Gaussian hill or valley somewhere in the unit square."""
    return kl.KernelLoss(kernel, rng.random((1, 2)), [rng.choice([-1.0, 1.0])])


def play(learner, losses, late=0):
    """Σ⟨w_t, X_t⟩ where every loss is told after `late` more decisions, and the sum of the losses."""
    paid, total, waiting = 0.0, None, []
    for loss in losses:
        paid += loss.inner(learner.mean)
        total = loss if total is None else total + loss
        waiting.append((learner.ask(), loss))
        if len(waiting) > late:
            learner.tell(*waiting.pop(0))
    for decision, loss in waiting:
        learner.tell(decision, loss)
    return paid, total


def regret(learner, losses, late=0):
    """Against the best fixed action, which an oracle proves to be so."""
    paid, total = play(learner, losses, late)
    best = kl.oracles.minimize(total, learner.game.actions)
    assert best.certificate != "local only"
    return paid - best.lower_bound
