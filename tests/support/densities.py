"""Densities that are hard to sample: on the ball by family and scale, on an interval with their distribution functions."""

from __future__ import annotations

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)

FAMILIES = (
    "random",
    "positive",
    "boundary 0.5",
    "boundary 0.67",
    "interior",
    "hard",
    "near hard",
    "repeated",
)


def hostile(family, d, s, rng):
    """The families of theory B6's table at scale s."""
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    if family in ("random", "positive"):
        A = rng.normal(size=(d, d))
        A = A + A.T if family == "random" else A @ A.T
        return A * s / np.linalg.norm(A, 2), s * u
    if family.startswith("boundary"):
        B = turn @ np.diag(-s * rng.random(d)) @ turn.T
        return B, 2 * (s ** float(family.split()[1]) * np.eye(d) - B) @ u
    if family == "interior":
        B = turn @ np.diag(-s * (0.1 + 0.9 * rng.random(d))) @ turn.T
        return B, -2 * B @ (0.99 * u)
    values = np.sort(rng.uniform(-s, s, d))[::-1]
    values[: 2 if family == "repeated" else 1] = s
    skip = 2 if family == "repeated" else 1
    b = turn[:, skip:] @ rng.normal(size=d - skip) if d > skip else np.zeros(d)
    b = s * b / max(np.linalg.norm(b), 1e-300)
    return turn @ np.diag(values) @ turn.T, b + (turn[:, 0] if family == "near hard" else 0)


def interval_distribution(log_density, lower, upper, marks=()):
    """Distribution function by Gauss quadrature on panels that shrink towards the ends and the marks."""
    width = upper - lower
    away = width * np.geomspace(1e-14, 1, 400)
    edges = np.concatenate([[lower, upper], lower + away, upper - away])
    edges = np.concatenate([edges, *(m + s * away for m in marks for s in (-1, 1))])
    edges = np.unique(np.clip(edges, lower, upper))
    top = log_density(edges).max()

    def integral(a, b):
        t = (a + b)[:, None] / 2 + (b - a)[:, None] / 2 * NODES
        return (b - a) / 2 * (np.exp(log_density(t) - top) @ WEIGHTS)

    cumulative = np.concatenate([[0.0], np.cumsum(integral(edges[:-1], edges[1:]))])

    def distribution(t):
        t = np.asarray(t)
        i = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(edges) - 2)
        return (cumulative[i] + integral(edges[i], t)) / cumulative[-1]

    return distribution
