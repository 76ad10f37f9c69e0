"""Linear losses on balls, boxes and positive balls, in closed form; convex quadratic losses, proved by linear ones.

A convex loss lies above its tangents: ℓ(a) ≥ ℓ(x) + ∇ℓ(x)'(a - x) for every action a. The right side is linear in a, and
its least value over the set has a closed form, so every point x comes with a lower bound (the Frank-Wolfe gap).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.actions import Ball, Box, PositiveBall
from koloss.core.arrays import roundoff, to_numpy
from koloss.kernels import LinearLoss, QuadraticLoss
from koloss.oracles.base import Minimum
from koloss.oracles.multistart import descend

ROUNDING = 2.0**-50
"""A few roundings, allowed for in every sum of d products."""


def linear_minimizer(vector: Any, actions: Ball | Box | PositiveBall) -> Any:
    """Action where vector'a is smallest, an array of shape (d,).

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> linear_minimizer(np.array([1.0, -2.0]), kl.Box([0, 0], [3, 5])).tolist()
    [0.0, 5.0]
    """
    w = vector
    if isinstance(actions, Box):
        return np.where(w > 0, actions.lower, actions.upper)
    # On the positive part of the sphere the point is max(lower, -s w), the projection of a point on the sphere.
    pull = -w if isinstance(actions, Ball) else np.maximum(-w, 0.0)
    size = float(np.abs(pull).max())
    if size == 0:
        return np.zeros(len(w)) if isinstance(actions, Ball) else np.asarray(actions.lower)
    pull = pull / size
    return actions.project(actions.radius / np.linalg.norm(pull) * pull[None])[0]


def minimize_linear(loss: LinearLoss, actions: Ball | Box | PositiveBall, **_: Any) -> Minimum:
    """Minimum of a linear loss; the gap is an allowance for rounding.

    Examples
    --------
    >>> import koloss as kl
    >>> best = minimize_linear(kl.LinearLoss([-1.0, 2.0]), kl.PositiveBall(2, lower=0.6))
    >>> best.point.round(9).tolist()
    [0.8, 0.6]
    """
    w = to_numpy(loss.vector).astype(np.float64)
    x = linear_minimizer(w, actions)
    size = float(np.linalg.norm(w)) * actions.norm_bound()
    return Minimum(x, float(w @ x), ROUNDING * len(w) * size, "dual")


def minimize_convex_quadratic(loss: QuadraticLoss, actions: Box | PositiveBall) -> Minimum:
    """Minimum of a quadratic loss with a positive semidefinite matrix (to rounding).

    On a box by an interior-point method, with a gap near rounding. On a positive ball by projected gradients, and the
    gap says how far they came: 1e-6 of the loss or less, as a rule.

    Examples
    --------
    >>> import koloss as kl
    >>> bowl = kl.QuadraticLoss([[1.0, 0.0], [0.0, 2.0]], [-6.0, -4.0])
    >>> best = minimize_convex_quadratic(bowl, kl.Box([0, 0], [2, 2]))
    >>> best.point.round(9).tolist(), round(best.value, 9), best.gap < 1e-9
    ([2.0, 1.0], -10.0, True)
    """
    A, b = to_numpy(loss.matrix).astype(np.float64), to_numpy(loss.vector).astype(np.float64)
    spectrum, convex = _spectrum(loss)
    lowest = float(spectrum[0])
    if not convex:
        raise ValueError(f"`loss` must be convex, got an eigenvalue of {lowest:.6g} of its matrix")
    if spectrum[-1] <= 0:
        return minimize_linear(LinearLoss(b), actions)
    if isinstance(actions, Box):
        x = _box_quadratic(A, b, np.asarray(actions.lower), np.asarray(actions.upper))
    else:
        start = actions.project(np.linalg.lstsq(2 * A, -b, rcond=None)[0][None])
        x = descend(loss, actions, start, 0.5 / float(spectrum[-1]), 1000, 1e-12)[0][0]
    g, width = 2 * (A @ x) + b, actions.diameter()
    drop = max(float(g @ (x - linear_minimizer(g, actions))), 0.0)
    # An eigenvalue a rounding below zero bends the loss below its tangent.
    drop += max(-lowest, 0.0) * width**2
    sizes = np.abs(x) @ np.abs(A) @ np.abs(x) + np.abs(b) @ np.abs(x) + np.linalg.norm(g) * width
    gap = drop + ROUNDING * len(b) * float(sizes)
    return Minimum(x, float(x @ A @ x + b @ x), gap, "dual")


def is_convex(loss: QuadraticLoss) -> bool:
    """Whether the matrix of a quadratic loss has no negative eigenvalue, beyond the rounding of its type."""
    return _spectrum(loss)[1]


def _spectrum(loss: QuadraticLoss) -> tuple[Any, bool]:
    spectrum = np.linalg.eigvalsh(to_numpy(loss.matrix).astype(np.float64))
    slack = max(1e-12, 16 * len(spectrum) * roundoff(loss.matrix))
    return spectrum, bool(spectrum[0] >= -slack * np.abs(spectrum).max())


def _box_quadratic(A: Any, b: Any, lower: Any, upper: Any, steps: int = 60) -> Any:
    """Minimiser of x'Ax + b'x on a box, A ⪰ 0, by a primal-dual interior-point method."""
    x = (lower + upper) / 2
    free = upper > lower
    if not np.any(free):
        return x
    H, b = 2 * A[np.ix_(free, free)], b[free] + 2 * A[np.ix_(free, ~free)] @ x[~free]
    low, high, y = lower[free], upper[free], x[free]
    n, S = len(y), np.concatenate([y - low, high - y])
    mu = 0.1 * float(np.abs(H @ y + b) @ (high - low)) / len(S)
    goal = 1e-16 * mu
    Z = mu / S  # multipliers of the lower and of the upper ends
    for _ in range(steps if mu > 0 else 0):
        pull, weights = mu / S, Z / S
        M = H + np.diag(weights[:n] + weights[n:])
        try:
            dy = np.linalg.solve(M, -(H @ y + b - pull[:n] + pull[n:]))
        except np.linalg.LinAlgError:
            break
        dS = np.concatenate([dy, -dy])
        dZ = pull - Z - weights * dS
        shrink = max(float((-dS / S).max()), float((-dZ / Z).max()), 1e-300)
        length = min(1.0, 0.99 / shrink)
        y, Z = y + length * dy, Z + length * dZ
        S = np.concatenate([y - low, high - y])
        mu = 0.1 * float(S @ Z) / len(S)
        if mu < goal or not S.min() > 0:
            break
    x[free] = np.clip(y, low, high)
    return x
