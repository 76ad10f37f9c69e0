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

from koloss.core.arrays import as_int, as_points, to_numpy
from koloss.core.random import as_generator
from koloss.kernels import Loss
from koloss.kernels.lookup import check_dimension
from koloss.oracles.base import Minimum

STARTS = 64
"""Starts at most, where no number is given; the pool has sixteen times as many points."""

FINALISTS = 8
"""Rows that are followed to the end, once all have come close to theirs."""

TREE = 4
"""Up to this dimension a tree finds neighbours faster than all distances do."""

BLOCK = 64
"""Rows whose distances to a pool fit the cache."""

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
    check_dimension(loss, actions)
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
    best, lowest, g = X.copy(), _values(loss, X), _slopes(loss, X)
    width = actions.diameter()
    # Of the rows that are not done: which they are, where, and their gradients, step sizes and recent losses.
    rows, x, size = np.arange(len(X)), X, np.full(len(X), 0.1 * unit)
    recent = np.tile(lowest[:, None], MEMORY)
    keep = np.isfinite(g).all(axis=1)
    for i in range(steps):
        rows, x, g, size, recent = _kept(keep, rows, x, g, size, recent)
        if len(rows) == 0:
            break
        keep = np.abs(actions.project(x - unit * g) - x).max(axis=1) > tolerance * width
        rows, x, g, size, recent = _kept(keep, rows, x, g, size, recent)
        if len(rows) == 0:
            break
        D = actions.project(x - size[:, None] * g) - x
        y, values = _search(loss, x, D, np.sum(g * D, axis=1), recent.max(axis=1))
        rows, x, g, recent, y, values = _kept(np.isfinite(values), rows, x, g, recent, y, values)
        new = _slopes(loss, y) if len(rows) else g
        # Barzilai and Borwein: |s|² / s'z with s the step and z the change of the gradient; long where it curves down.
        s, z = y - x, new - g
        length, bend = np.sum(s * s, axis=1), np.sum(s * z, axis=1)
        ratio = length / np.where(bend > 0, bend, 1.0)
        size = np.clip(np.where(bend > 0, ratio, 10 * unit), 1e-10 * unit, 10 * unit)
        x, g, recent[:, i % MEMORY] = y, new, values
        lower = values < lowest[rows]
        best[rows[lower]], lowest[rows[lower]] = y[lower], values[lower]
        keep = np.isfinite(new).all(axis=1)
    return best, lowest


def _kept(keep: Any, *arrays: Any) -> tuple[Any, ...]:
    """The rows of each that are kept."""
    return arrays if keep.all() else tuple(array[keep] for array in arrays)


def _search(loss: Loss, x: Any, D: Any, slope: Any, ceiling: Any) -> tuple[Any, Any]:
    """The longest of the steps D, D/2, D/4, ... with a loss well below the ceiling; infinite where there is none."""
    ceiling = ceiling + 1e-15 * np.abs(ceiling)  # rounding is no rise
    y, reached = x + D, np.full(len(x), np.inf)
    length, pending, trial = 1.0, np.arange(len(x)), y
    for _ in range(20):
        values = _values(loss, trial)
        fine = values <= ceiling[pending] + 1e-4 * length * slope[pending]
        if length == 1 and fine.all():  # as nearly always
            return y, values
        y[pending[fine]], reached[pending[fine]] = trial[fine], values[fine]
        pending = pending[~fine]
        if len(pending) == 0:
            break
        length /= 2
        trial = x[pending] + length * D[pending]
    y[pending] = x[pending]
    return y, reached


def _choose(loss: Loss, actions: Any, count: int, rng: np.random.Generator) -> Any:
    """Points of a pool with no lower point among their neighbours, the lowest first."""
    pool = actions.sample(16 * count, rng)
    landmarks = loss.landmarks()
    if len(landmarks):
        pool = np.concatenate([actions.project(landmarks.astype(np.float64)), pool])
    values = _values(loss, pool)
    order = np.argsort(values, kind="stable")
    neighbours = min(2 * actions.dimension + 1, 33, len(pool))
    return pool[order[_valleys(pool[order], values[order], neighbours, count)]]


def _valleys(X: Any, values: Any, neighbours: int, count: int) -> Any:
    """The first `count` rows, in order of increasing values, with no lower value among so many nearest rows, itself one of these.

    That is where so many rows are closer than the nearest lower one: no list of neighbours is needed.
    """
    lower = np.searchsorted(values, values, side="left")  # how many rows are
    if X.shape[1] <= TREE:
        from scipy.spatial import KDTree

        _, near = KDTree(X).query(X, k=[*range(1, neighbours + 1)])
        return np.flatnonzero(near.min(axis=1) >= lower)[:count]
    X = X - X.mean(axis=0)
    squares, twice = np.sum(X * X, axis=1), -2 * X.T
    found: list[int] = []
    for i in range(0, len(X), BLOCK):
        rows = slice(i, i + BLOCK)
        distances = X[rows] @ twice
        distances += squares  # squared, less what is the same for a whole row
        # Lower rows come before: all of the first ones, and some up to the last row of the block.
        first = int(lower[i])
        nearest = distances[:, :first].min(axis=1, initial=np.inf)
        some = distances[:, first : i + BLOCK]
        among = np.arange(first, first + some.shape[1]) < lower[rows, None]
        nearest = np.minimum(nearest, np.where(among, some, np.inf).min(axis=1))
        closer = np.count_nonzero(distances < nearest[:, None], axis=1)
        found += (i + np.flatnonzero(closer >= neighbours)).tolist()
        if len(found) >= count:
            break
    return np.asarray(found[:count], dtype=int)


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
