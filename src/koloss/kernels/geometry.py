"""How far the features of an action set reach: what the full-information bounds need to know of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points
from koloss.core.arrays import SIZES, to_numpy
from koloss.errors import NotPositiveDefinite
from koloss.kernels.base import Kernel, KernelLike

EXACT_PAIRS = 4096
"""Up to so many points, all pairs are compared."""


def feature_radius(kernel: KernelLike, actions: ActionSet) -> float:
    """𝒢 = sup ‖Φ(a)‖ over the actions; a compact set needs a `Kernel`.

    Refused where 𝒢² is so small or so large that the numbers of a bound would not be.
    """
    try:
        if isinstance(actions, Points):
            size = float(np.max(to_numpy(kernel.diag(actions.X))))
        else:
            size = kernel.bound(actions)  # type: ignore[attr-defined]
    except OverflowError:
        size = math.inf
    if size < 0:
        raise NotPositiveDefinite(
            f"`kernel` must be positive semidefinite, got K(a, a) = {size:.6g}", eigenvalue=size
        )
    if size != 0 and not SIZES[0] <= size <= SIZES[1]:
        rule = f"must have sup K(a, a) between {SIZES[0]:.6g} and {SIZES[1]:.6g} on the actions"
        raise ValueError(f"`kernel` {rule}, got {size:.6g}; use other units, or scale the kernel")
    return math.sqrt(size)


def feature_diameter(kernel: KernelLike, actions: ActionSet) -> float:
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
    size = feature_radius(kernel, actions)
    if not isinstance(kernel, Kernel):
        return 2 * size
    exact = kernel._feature_diameter(actions)
    if exact is not None:
        return exact
    angle = math.sqrt(2) if kernel._is_nonnegative(actions) else 2.0
    try:
        reach = kernel.modulus(actions.diameter(), actions)
    except (TypeError, ValueError):  # none, or a slope that is infinite at the edge
        reach = math.inf
    return min(angle * size, reach)


def _largest_pair(kernel: KernelLike, X: NDArray[Any]) -> float:
    diagonal, best = to_numpy(kernel.diag(X)), 0.0
    for start in range(0, len(X), 512):
        rows = slice(start, start + 512)
        gram = to_numpy(kernel(X[rows], X[start:]))
        best = max(best, float(np.max(diagonal[rows, None] + diagonal[None, start:] - 2 * gram)))
    return math.sqrt(best)
