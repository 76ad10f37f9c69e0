"""Local minima from many starts at once: for losses that no oracle can prove anything about.

From every start, projected gradient steps with the step sizes of Barzilai and Borwein and a line search that lets the
loss rise for a few steps (spectral projected gradients; Birgin, Martínez and Raydan 2000, SIAM J. Optim. 10). All
starts take their steps together: one evaluation of the loss and one of its gradient for all of them.

The starts are chosen from a pool of uniform points, to which the centres of a kernel expansion are added: those with
no lower point among their neighbours (as in Rinnooy Kan and Timmer 1987, Math. Programming 39). So every valley that
the pool has found is searched, and no valley often.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss._arrays import as_int, as_points, to_numpy
from koloss._random import as_generator
from koloss.kernels import Loss
from koloss.oracles.base import Minimum

STARTS = 64
"""Starts at most, where no number is given; the pool has sixteen times as many points."""

FINALISTS = 8
"""Rows that are followed to the end, once all have come close to theirs."""

MEMORY = 8
"""Steps over which the loss may rise."""


def multistart(
    loss: Loss, actions: Any, *, starts: Any = None, rng: Any = None, steps: int = 500
) -> Minimum:
    """Best of many local minima of a loss with a gradient. Nothing is proved: `gap` is infinite.

    The starts are so many at most (64), chosen from a pool that `rng` draws, or given as an array of shape (n, d).

    Examples
    --------
    >>> import koloss as kl
    >>> wells = kl.KernelLoss(kl.Gaussian(0.3), [[-0.5], [0.5]], [-1.0, -1.1])
    >>> best = multistart(wells, kl.Box([-1.0], [1.0]), rng=0)
    >>> best.point.round(3).tolist(), round(best.value, 4), best.certificate
    ([0.496], -1.1039, 'local only')
    """
    if loss.dimension != actions.dimension:
        raise ValueError(
            f"`loss` must have the dimension of the actions, {actions.dimension}, got {loss.dimension}"
        )
    steps = as_int("steps", steps, minimum=1)
    if starts is None or isinstance(starts, (int, np.integer)):
        count = STARTS if starts is None else as_int("starts", starts, minimum=1)
        X = _choose(loss, actions, count, as_generator(rng))
    else:
        starts = to_numpy(as_points("starts", starts, dimension=actions.dimension))
        X = actions.project(starts.astype(np.float64))
    slopes = np.linalg.norm(_slopes(loss, X), axis=1)
    steepest = float(slopes[np.isfinite(slopes)].max(initial=0.0))
    # A step of this size along the steepest gradient crosses the set.
    unit = actions.diameter() / steepest if steepest > 0 else 0.0
    X, values = descend(loss, actions, X, unit, min(steps, 100), 1e-5)
    X = X[np.argsort(values, kind="stable")[:FINALISTS]]
    X, values = descend(loss, actions, X, unit, steps, 1e-9)
    best = int(np.argmin(values))
    return Minimum(X[best], float(values[best]), math.inf, "local only")


def descend(
    loss: Loss, actions: Any, X: Any, unit: float, steps: int, tolerance: float
) -> tuple[Any, Any]:
    """Where projected gradient steps from the rows of X end, and the losses there.

    A row is done when a step of size `unit` would not move it by `tolerance` diameters, or where the loss has no
    gradient.
    """
    X, G = X.copy(), _slopes(loss, X)
    best, lowest = X.copy(), _values(loss, X)
    width = actions.diameter()
    size = np.full(len(X), 0.1 * unit)
    recent = np.tile(lowest, (MEMORY, 1))
    rows = np.flatnonzero(np.isfinite(G).all(axis=1))
    for i in range(steps):
        target = actions.project(X[rows] - unit * G[rows]) if len(rows) else X[rows]
        rows = rows[np.abs(target - X[rows]).max(axis=1, initial=0.0) > tolerance * width]
        if len(rows) == 0:
            break
        x, g = X[rows], G[rows]
        D = actions.project(x - size[rows, None] * g) - x
        y, values = _search(loss, x, D, np.sum(g * D, axis=1), recent[:, rows].max(axis=0))
        moved = np.isfinite(values)
        rows, x, g, y, values = rows[moved], x[moved], g[moved], y[moved], values[moved]
        new = _slopes(loss, y) if len(rows) else g
        # Barzilai and Borwein: |s|² / s'z with s the step and z the change of the gradient; long where it curves down.
        s, z = y - x, new - g
        length, bend = np.sum(s * s, axis=1), np.sum(s * z, axis=1)
        ratio = length / np.where(bend > 0, bend, 1.0)
        size[rows] = np.clip(np.where(bend > 0, ratio, 10 * unit), 1e-10 * unit, 10 * unit)
        X[rows], G[rows], recent[i % MEMORY, rows] = y, new, values
        lower = values < lowest[rows]
        best[rows[lower]], lowest[rows[lower]] = y[lower], values[lower]
        rows = rows[np.isfinite(new).all(axis=1)]
    return best, lowest


def _search(loss: Loss, x: Any, D: Any, slope: Any, ceiling: Any) -> tuple[Any, Any]:
    """The longest of the steps D, D/2, D/4, ... with a loss well below the ceiling; infinite where there is none."""
    y, reached = x.copy(), np.full(len(x), np.inf)
    length, pending = 1.0, np.arange(len(x))
    ceiling = ceiling + 1e-15 * np.abs(ceiling)  # rounding is no rise
    for _ in range(20):
        trial = x[pending] + length * D[pending]
        values = _values(loss, trial)
        fine = values <= ceiling[pending] + 1e-4 * length * slope[pending]
        y[pending[fine]], reached[pending[fine]] = trial[fine], values[fine]
        pending = pending[~fine]
        if len(pending) == 0:
            break
        length /= 2
    return y, reached


def _choose(loss: Loss, actions: Any, count: int, rng: np.random.Generator) -> Any:
    """Points of a pool with no lower point among their neighbours, the lowest first."""
    from scipy.spatial import KDTree

    pool = actions.sample(16 * count, rng)
    landmarks = loss.landmarks()
    if len(landmarks):
        pool = np.concatenate([actions.project(landmarks.astype(np.float64)), pool])
    values = _values(loss, pool)
    neighbours = min(2 * actions.dimension + 1, 33, len(pool))
    _, near = KDTree(pool).query(pool, k=[*range(1, neighbours + 1)])
    valleys = np.flatnonzero(values <= values[near].min(axis=1))
    return pool[valleys[np.argsort(values[valleys], kind="stable")[:count]]]


def _values(loss: Loss, X: Any) -> Any:
    return np.asarray(to_numpy(loss(X)), dtype=np.float64)


def _slopes(loss: Loss, X: Any) -> Any:
    """Gradients; rows of NaN where there is none: at a kink, or at the edge of a power's domain."""
    try:
        return np.asarray(to_numpy(loss.gradient(X)), dtype=np.float64)
    except ValueError:
        if len(X) == 1:
            return np.full(X.shape, np.nan)
        return np.concatenate([_slopes(loss, X[i : i + 1]) for i in range(len(X))])
