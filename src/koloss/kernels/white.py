"""The white kernel: every action has a loss of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, Namespace, as_float, matching, namespace, take, to_numpy
from koloss.kernels.base import Normalised


@dataclass(frozen=True)
class White(Normalised):
    """White kernel: K(x, y) = 1 where x and y are the same point, otherwise 0.

    Its features are indicators, so every function on a finite set is in its space, and K + ν White, a nugget, allows
    for losses that miss the space of K: a loss of norm W may have a spike of W√ν at a single action. Equal points
    are one action. It is for `Points` alone: on a net of a compact set it has no limit as the net is refined.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.White()([[0.0], [0.5], [0.0]]).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    >>> kl.Gaussian(0.3) + 0.001 * kl.White()
    Gaussian(bandwidth=0.3) + 0.001 * White()
    """

    def _gram(self, X: Array, Y: Array, xp: Namespace) -> Array:
        same = X[:, 0, None] == Y[None, :, 0]
        for i in range(1, X.shape[1]):
            same = same & (X[:, i, None] == Y[None, :, i])
        return xp.astype(same, X.dtype)

    def finite_map(self, points: Points) -> tuple[int, Callable[[Array], Array]]:
        _, first = np.unique(to_numpy(points.X) + 0.0, axis=0, return_index=True)  # -0.0 is 0.0
        distinct = take(points.X, np.sort(first))
        return len(first), lambda X: self._gram(X, matching(distinct, X), namespace(X))

    def _check_actions(self, actions: ActionSet) -> None:
        if not isinstance(actions, Points):
            reason = "White() has no limit as the net of a compact set is refined"
            advice = "lay the net yourself, actions.net(spacing), or leave White() out"
            raise ValueError(f"`actions` must be Points, since {reason}, got {actions!r}; {advice}")

    def _is_nonnegative(self, actions: ActionSet) -> bool:
        return True

    def lipschitz(self, actions: ActionSet) -> float:
        self._check_actions(actions)
        return math.inf

    def modulus(self, distance: float, actions: ActionSet) -> float:
        self._check_actions(actions)
        return math.sqrt(2) if as_float("distance", distance, minimum=0.0) > 0 else 0.0
