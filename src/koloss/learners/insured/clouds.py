"""Points of a continuous set: a first one that is even, and later ones where a forecast is promising."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Ball, Space
from koloss.core.arrays import to_numpy
from koloss.errors import NetTooLarge
from koloss.learners.insured.landmarks import GrownForecaster

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CENTRES, SWEEPS, POOL = 8, 3, 512
"""A cloud is around so many of the best by their mean, and as many by their confidence bound; sweeps, and points in each."""

RADIUS, SHRUNK = 0.3, 0.1
"""Deviation of a cloud, in bandwidths, at the beginning; and what is left of it at the end."""

MOVED, REDRAWN, CROSSED = 0.7, 0.2, 0.2
"""Share of coordinates that move; of points with a coordinate or two drawn anew instead; of points between two of the best."""

GRID = 4096
"""Points of the grid by which a covering radius is certified."""


def sobol(actions: ActionSet, count: int, rng: Any) -> Floats:
    """The beginning of a scrambled Sobol' sequence in a box, or taken to a ball."""
    from scipy.special import ndtri
    from scipy.stats import qmc

    d, ball = actions.dimension, isinstance(actions, Ball)
    sequence = qmc.Sobol(d + ball, seed=np.random.default_rng(int(rng.integers(2**63))))
    u = sequence.random_base2(max(count - 1, 0).bit_length())[:count]
    if not ball:
        lower, upper = actions.bounds()
        return actions.project(lower + u * (upper - lower))  # type: ignore[attr-defined, no-any-return]
    directions = ndtri(np.clip(u[:, :d], 1e-12, 1 - 1e-12))
    lengths = np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    scaled: Floats = directions / lengths * actions.radius * u[:, d:] ** (1 / d)  # type: ignore[attr-defined]
    return scaled


def covering_radius(actions: ActionSet, X: Floats) -> float:
    """No action is farther than this from a row of X: the largest distance from a grid, and how far actions are from that."""
    from scipy.spatial import KDTree

    spacing, grid = actions.diameter(), None
    while True:
        try:
            grid = actions.net(spacing, max_bytes=GRID * actions.dimension * 8)
        except NetTooLarge:
            break
        spacing *= 0.9
    if grid is None:
        return actions.diameter()
    farthest = float(KDTree(X).query(to_numpy(grid.X))[0].max())
    return min(farthest + grid.covering_radius, actions.diameter())


class Cloud:
    """Where new points may enter: around the best by a forecast, and anywhere."""

    def __init__(
        self, actions: ActionSet, forecaster: GrownForecaster, width: float, radius: float, rng: Any
    ) -> None:
        self.actions, self.forecaster, self.width, self.rng = actions, forecaster, width, rng
        lower, upper = actions.bounds()
        if isinstance(actions, Space):  # below zero is what does not matter
            lower = np.maximum(lower, 0.0)
        sides, kernel = upper - lower, forecaster.landmarks.kernel
        lengths = getattr(kernel, "length_scales", lambda _: None)(len(sides))
        self.scales = radius * (sides / 2 if lengths is None else np.minimum(lengths, sides))

    def newcomers(self, X: Floats, offered: Bools, count: int) -> Floats:
        """So many points at most: in each sweep some of the smallest bounds, some of the smallest means; the rest are anywhere."""
        by_bound, by_mean = max(count // 5, 1), max(count // 10, 1)
        at = np.flatnonzero(offered)
        mean, bound = self._scores(X[at])
        centres = X[at[_both(mean, bound, CENTRES, CENTRES)]]
        found = []
        for sweep in range(SWEEPS):
            pool = self._around(centres, self.scales * 0.5**sweep)
            mean, bound = self._scores(pool)
            best = _both(bound, mean, by_bound, by_mean)
            found.append(pool[best])
            centres = pool[best[: 2 * CENTRES]]
        rest = max(count - SWEEPS * (by_bound + by_mean), 1)
        found.insert(0, to_numpy(self.actions.sample(rest, self.rng)))
        points = np.concatenate(found)
        if isinstance(self.actions, Space):  # as their params say, to the last bit
            points = self.actions.encode(self.actions.decode(points))
        known = {row.tobytes() for row in X}
        fresh = {row.tobytes(): row for row in points + 0.0 if row.tobytes() not in known}
        return np.array(list(fresh.values())[:count]).reshape(-1, X.shape[1])

    def _scores(self, X: Floats) -> tuple[Floats, Floats]:
        mean, deviation = self.forecaster.predict(X)
        return mean, mean - self.width * deviation

    def _around(self, centres: Floats, scales: Floats) -> Floats:
        """Points near some: moved, with a coordinate or two drawn anew, or with coordinates of another one."""
        rng, d = self.rng, centres.shape[1]
        X = np.repeat(centres, -(-POOL // len(centres)), axis=0)
        anywhere = to_numpy(self.actions.sample(len(X), rng))
        if isinstance(self.actions, Space):  # what begins to matter may have any value
            X = np.where(X < 0, rng.random(X.shape), X)
        steps = rng.standard_normal(X.shape) * scales
        moved = X + steps * (rng.random(X.shape) < MOVED)
        kind, coins = rng.random(len(X)), rng.random(X.shape)
        drawn = np.where(coins < 1.5 / d, anywhere, X)
        others = centres[rng.integers(len(centres), size=len(X))]
        crossed = np.where(coins < 0.5, others, X)
        moved[kind < REDRAWN] = drawn[kind < REDRAWN]
        between = (kind >= REDRAWN) & (kind < REDRAWN + CROSSED)
        moved[between] = crossed[between]
        return self._inside(moved)

    def _inside(self, X: Floats) -> Floats:
        """The nearest actions."""
        if isinstance(self.actions, Space):
            return self.actions.rows(np.clip(X, 0.0, np.nextafter(1.0, 0.0)))
        inside: Floats = self.actions.project(X)  # type: ignore[attr-defined]
        return inside


def _both(one: Floats, other: Floats, first: int, second: int) -> NDArray[np.int64]:
    """Rows of the smallest values of one, then of the other, none twice."""
    rows = [
        *np.argsort(one, kind="stable")[:first].tolist(),
        *np.argsort(other, kind="stable")[:second].tolist(),
    ]
    return np.array(list(dict.fromkeys(rows)))
