"""Hit-and-run on balls, boxes and positive balls: a random direction, the chord of the set, a draw on the chord.

One step from x: choose a direction v that does not depend on x, find the chord {x + t v} ∩ actions in closed
form, and move along it.

- Log density x'Bx + b'x: along the chord it is c t² + s t with c = v'Bv, s = v'(2Bx + b), and t is drawn from
  that density exactly (`quadratic_interval`). Half of the directions are eigenvectors of B, so that a density much
  narrower in some directions than in others is crossed at the pace of its widths: a Gibbs step in the
  coordinates where the density is a product.
- Any other log density: one slice sampling move on the chord (Neal 2003, Figures 3 and 5): a level under the
  density at x, then uniform points of the chord, which shrinks towards x at every miss.

Both leave the density invariant exactly: there is no step size and no discretisation. What remains of the start
fades with the number of steps; `Draws` has the effective sample size and R-hat to judge it by.

Smith (1984), Efficient Monte Carlo procedures for generating points uniformly distributed over bounded regions,
Operations Research 32. Lovász and Vempala (2006), Hit-and-run from a corner, SIAM J. Computing 35.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from koloss.actions import Ball, Box
from koloss.core.arrays import within_floats
from koloss.samplers.box import quadratic_interval
from koloss.samplers.chains import (
    Compact,
    Draws,
    Run,
    Target,
    as_actions,
    as_target,
    free_coordinates,
)

SHRINKAGES = 200
"""Misses after which a slice move stays where it is: the chord is then far below a rounding long."""


@within_floats("`target`, `actions` and `learning_rate`")
def hit_and_run(
    target: Any,
    actions: Compact,
    size: int,
    *,
    learning_rate: float | None = None,
    steps: int = 10,
    chains: int = 64,
    warmup: int | None = None,
    start: Any = None,
    rng: Any = None,
) -> Draws:
    """Draws from a density on a ball, a box or a positive ball by hit-and-run, many chains at once.

    Parameters
    ----------
    target : Loss, pair of arrays (matrix, vector), or callable
        A loss stands for the density ∝ exp(-learning_rate · loss): small losses are likely. A pair (B, b)
        stands for exp(x'Bx + b'x); a callable is a log density, (n, d) -> (n,), up to a constant.
    actions : Ball, Box or PositiveBall
    size : int
        Number of draws.
    learning_rate : float, optional
        Only with a loss; 1 where it is missing.
    steps : int
        Steps of every chain from one draw to the next.
    chains : int
        Chains that run side by side; with chains = size every draw comes from a chain of its own.
    warmup : int
        Steps of every chain before the first draw; 200 d where it is missing. A density that lies at a sharp
        end of the set may need more: see `r_hat`, or use `quadratic_ball`, which needs none.
    start : array of shape (chains, d), optional
        Where the chains begin; uniform points chosen by their density where it is missing.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import koloss as kl
    >>> loss = kl.QuadraticLoss([[1.0, 0.0], [0.0, -1.0]], [0.0, 0.5])
    >>> draws = hit_and_run(loss, kl.Ball(2), 2000, learning_rate=4.0, rng=0)
    >>> draws.points.shape, bool(kl.Ball(2).contains(draws.points).all())
    ((2000, 2), True)
    >>> bool(draws.r_hat.max() < 1.02)
    True
    """
    actions = as_actions(actions)
    goal = as_target(target, learning_rate, actions.dimension)
    burn = 200 * actions.dimension if warmup is None else warmup
    run = Run(goal, actions, (size, steps, chains, burn), start, rng)
    X, move = run.start, Move(goal, actions)
    for _ in range(run.warmup):
        X = move(X, run.rng)
    return run.draws(X, lambda X: move(X, run.rng))


class Move:
    """One hit-and-run step of a population: rows in, rows out, the density left invariant."""

    def __init__(self, target: Target, actions: Compact) -> None:
        self.target, self.actions = target, actions
        self.free = free_coordinates(actions)
        # Directions as long as the sides: the same as round ones in the unit cube.
        self.scale = np.ones(actions.dimension)
        if not isinstance(actions, Ball):
            self.scale = np.asarray(actions.upper) - np.asarray(actions.lower)
        self.axes: Any = None
        if target.quadratic is not None and np.any(self.free):
            B = target.quadratic[0][np.ix_(self.free, self.free)]
            self.axes = np.zeros((len(B), actions.dimension))
            self.axes[:, self.free] = np.linalg.eigh(B)[1].T

    def __call__(self, X: Any, rng: np.random.Generator) -> Any:
        """The population after one step."""
        if not np.any(self.free):
            return X
        V = self._directions(len(X), rng)
        lower, upper = chord(self.actions, X, V)
        if self.target.quadratic is not None:
            B, b = self.target.quadratic
            curvature = np.sum((V @ B) * V, axis=1)
            slope = np.sum(V * (2 * (X @ B) + b), axis=1)
            t = quadratic_interval(curvature, slope, lower, upper, rng=rng)
        else:
            t = self._slice(X, V, lower, upper, rng)
        return self.actions.project(X + t[:, None] * V)

    def _directions(self, n: int, rng: np.random.Generator) -> Any:
        V = rng.standard_normal((n, len(self.scale))) * self.scale
        if self.axes is not None:
            along = rng.random(n) < 0.5
            V[along] = self.axes[rng.integers(len(self.axes), size=int(along.sum()))]
        return V / np.linalg.norm(V, axis=1, keepdims=True)

    def _slice(self, X: Any, V: Any, lower: Any, upper: Any, rng: np.random.Generator) -> Any:
        """One slice sampling move on every chord, by shrinkage."""
        t, lower, upper = np.zeros(len(X)), lower.copy(), upper.copy()
        level = self.target(X) - rng.standard_exponential(len(X))
        pending = np.arange(len(X))
        for _ in range(SHRINKAGES):
            trial = lower[pending] + rng.random(len(pending)) * (upper[pending] - lower[pending])
            values = self.target(self.actions.project(X[pending] + trial[:, None] * V[pending]))
            inside = values > level[pending]
            t[pending[inside]] = trial[inside]
            pending, trial = pending[~inside], trial[~inside]
            if len(pending) == 0:
                break
            lower[pending] = np.where(trial < 0, trial, lower[pending])
            upper[pending] = np.where(trial >= 0, trial, upper[pending])
        return t


def chord(actions: Compact, X: Any, V: Any) -> tuple[Any, Any]:
    """Interval of t, with 0 in it, where x + t v is an action, for rows x of the set and unit directions v.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> lower, upper = chord(kl.Ball(2), np.array([[0.6, 0.0]]), np.array([[0.0, 1.0]]))
    >>> lower.round(12).tolist(), upper.round(12).tolist()
    ([-0.8], [0.8])
    """
    lower, upper = np.full(len(X), -np.inf), np.full(len(X), np.inf)
    if not isinstance(actions, Box):
        along = np.sum(X * V, axis=1)
        across = np.linalg.norm(X - along[:, None] * V, axis=1)
        # (r - h)(r + h) keeps its digits where the chord is short.
        half = np.sqrt(np.maximum((actions.radius - across) * (actions.radius + across), 0.0))
        lower, upper = -along - half, -along + half
    if not isinstance(actions, Ball):
        still = V == 0  # a coordinate that does not move sets no limit
        V = np.where(still, 1.0, V)
        sides = actions.lower, (actions.upper if isinstance(actions, Box) else np.inf)
        ends = np.stack([(np.asarray(side) - X) / V for side in sides])
        lower = np.maximum(lower, np.where(still, -np.inf, ends.min(axis=0)).max(axis=1))
        upper = np.minimum(upper, np.where(still, np.inf, ends.max(axis=0)).min(axis=1))
    return np.minimum(lower, 0.0), np.maximum(upper, 0.0)
