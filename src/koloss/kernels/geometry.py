"""How far the features of an action set reach: what the full-information bounds need to know of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss._arrays import to_numpy
from koloss.actions import ActionSet, Ball, Points
from koloss.kernels import Posynomial, Quadratic

EXACT_PAIRS = 4096
"""Up to so many points, all pairs are compared."""


def feature_radius(kernel: Any, actions: ActionSet) -> float:
    """𝒢 = sup ‖Φ(a)‖ over the actions."""
    if isinstance(actions, Points):
        return math.sqrt(float(np.max(to_numpy(kernel.diag(actions.X)))))
    return math.sqrt(float(kernel.bound(actions)))


def feature_diameter(kernel: Any, actions: ActionSet) -> float:
    """Upper bound on the largest ‖Φ(x) - Φ(y)‖ over the actions: a loss of norm G has range G times this.

    Exact on up to 4,096 points, for quadratics on the ball, for linear and for stationary kernels.

    Examples
    --------
    >>> import koloss as kl
    >>> round(feature_diameter(kl.Quadratic(), kl.Ball(3)), 4), round(3 / 2**0.5, 4)
    (2.1213, 2.1213)
    """
    if isinstance(actions, Points) and len(actions) <= EXACT_PAIRS:
        return _largest_pair(kernel, to_numpy(actions.X))
    if isinstance(kernel, Quadratic) and isinstance(actions, Ball):
        return _quadratic_ball(actions)
    size = feature_radius(kernel, actions)
    angle = 2.0  # nothing known of ⟨Φ(x), Φ(y)⟩
    if isinstance(kernel, Posynomial) and not is_signed(actions):
        angle = math.sqrt(2)  # it is not negative
    try:
        reach = float(kernel.modulus(actions.diameter(), actions))
    except (AttributeError, TypeError, ValueError):  # none, or a slope that is infinite at the edge
        reach = math.inf
    return min(angle * size, reach)


def is_signed(actions: ActionSet) -> bool:
    """Whether some action may have a negative coordinate."""
    if isinstance(actions, Points):
        return float(np.min(to_numpy(actions.X))) < 0
    return bool(np.min(getattr(actions, "lower", -1.0)) < 0)


def _largest_pair(kernel: Any, X: Any) -> float:
    diagonal, best = to_numpy(kernel.diag(X)), 0.0
    for start in range(0, len(X), 512):
        rows = slice(start, start + 512)
        squared = (
            diagonal[rows, None] + diagonal[None, start:] - 2 * to_numpy(kernel(X[rows], X[start:]))
        )
        best = max(best, float(np.max(squared)))
    return math.sqrt(best)


def _quadratic_ball(ball: Ball) -> float:
    """With |x| = |y| = r and c = x'y: ‖Φ(x) - Φ(y)‖² = 2(r⁴ + r²) - 2c² - 2c, largest at c = -1/2 if it can be."""
    r = ball.radius
    if ball.dimension >= 2:
        c = -min(0.5, r * r)
        return math.sqrt(2 * (r**4 + r**2) - 2 * c * c - 2 * c)
    # On the line x = r and y = -t: (r² - t²)² + (r + t)², stationary at 2t(r - t) = 1.
    inner = (r - math.sqrt(r * r - 2)) / 2 if r * r > 2 else r
    return math.sqrt(max((r * r - t * t) ** 2 + (r + t) ** 2 for t in (r, inner)))
