"""Finitely many actions of a `Space`: all combinations, a Sobol' set, a grid, or the user's own list."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import expanded
from koloss.actions.parameters import identity
from koloss.actions.points import Points
from koloss.core.arrays import as_points, shown, to_numpy
from koloss.core.random import as_generator

if TYPE_CHECKING:
    from koloss.actions.space import Space

INACTIVE = -1.0
"""Coordinate of a parameter that does not matter."""

ENUMERATED = 2**16
"""Combinations that are tried one by one where there is a constraint."""

TRIALS = 2**14
"""Draws after which a constraint that hardly ever holds is refused."""

LEAST_SHARE = 1e-3
"""Share of draws for which a constraint must hold."""

GRID = 2**14
"""Points of the grid by which the covering radius of a Sobol' set is bounded."""


class SpacePoints(Points):
    """Finitely many actions of a `Space`, as its `points` gives them.

    Parameters
    ----------
    space : Space
    params : list of dicts
        What each action is: by default what the rows of X decode to.
    X : array of shape (N, d)
        The same as rows of numbers: by default as the space encodes them.
    covering_radius, covering_widths
        As for `Points`, where these stand for the whole space.

    Examples
    --------
    >>> import koloss as kl
    >>> points = kl.Space(threads=kl.Int(1, 3), fast=kl.Choice([False, True])).points()
    >>> len(points), points.params[3], points[3].tolist()
    (6, {'threads': 2, 'fast': True}, [0.5, 1.0])
    >>> points.find({"threads": 2, "fast": True})
    3
    """

    def __init__(
        self,
        space: Space,
        params: Sequence[Mapping[str, Any]] | None = None,
        *,
        X: Any = None,
        covering_radius: float = 0.0,
        covering_widths: Sequence[float] | None = None,
    ) -> None:
        if not hasattr(space, "encode"):
            raise TypeError(f"`space` must be a Space, got {shown(space)}")
        self.space = space
        if params is None and X is None:
            raise TypeError("`params` must be given where `X` is not, got None")
        self._params = None if params is None else space.check(params)
        if X is None:
            X = space.encode(self._params or [])
        elif self._params is not None:
            X, encoded = to_numpy(as_points("X", X)), space.encode(self._params)
            if X.shape != encoded.shape or not np.allclose(X, encoded, rtol=0, atol=1e-9):
                raise ValueError("`X` must be what `space` encodes `params` to, got other numbers")
        super().__init__(X, covering_radius=covering_radius, covering_widths=covering_widths)
        self._rows: dict[bytes, int] | None = None

    @property
    def params(self) -> list[dict[str, Any]]:
        """What each action is; not to be changed."""
        if self._params is None:
            self._params = self.space.decode(self.X)
        return self._params

    def find(self, params: Mapping[str, Any]) -> int:
        """Row of the action with these params."""
        if self._rows is None:
            rows = [row.tobytes() for row in self.X]
            self._rows = {rows[k]: k for k in reversed(range(len(rows)))}  # of equal ones the first
        row = self._rows.get(self.space.encode([params])[0].tobytes())
        if row is None:
            raise ValueError(f"`params` must be one of the {len(self)} actions, got {params!r}")
        return row

    def discretisation(self, kernel: Any) -> float:
        """How far Φ of any action of the space is from that of the nearest of these at most.

        For losses of norm W in the space of the kernel, the best of these actions is at most W times this worse than the best of
        the space. It is the largest distance from Φ of a grid, plus what the kernel's `cell_modulus` says of its cells: an upper
        bound, which holds with constraints, too, and is coarse in many dimensions.

        Examples
        --------
        >>> import koloss as kl
        >>> space = kl.Space(method=kl.Choice(["lru", "lfu"]), rate=kl.Float(0.001, 1.0, log=True))
        >>> [round(space.points(n).discretisation(kl.Mixed(space)), 2) for n in (16, 64, 256)]
        [0.25, 0.06, 0.02]
        """
        if not hasattr(kernel, "cell_modulus"):
            raise TypeError(f"`kernel` must be a Kernel, got {shown(kernel)}")
        found = finest_grid(self.space)
        if found is None:
            return float(2 * math.sqrt(kernel.bound(self.space)))
        grid, halves = found
        own, farthest = kernel.diag(self.X), 0.0
        for start in range(0, len(grid), 1024):
            rows = grid[start : start + 1024]
            squared = kernel.diag(rows)[:, None] + own - 2 * kernel(rows, self.X)
            farthest = max(farthest, float(squared.min(axis=1).max()))
        return math.sqrt(farthest) + float(kernel.cell_modulus(halves, self.space))

    def parts(self) -> dict[str, Any]:
        # Values without names: those that matter, in the order of the columns.
        values = tuple(tuple(p.values()) for p in self.params)
        return super().parts() | {"params": values}

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Self:
        try:
            space, values = parts.pop("space"), parts.pop("params")
            X = to_numpy(as_points("X", parts["X"], dimension=space.dimension))
            names = [[n for n, x in zip(space.names, row, strict=True) if x >= 0] for row in X]
            if list(map(len, names)) != list(map(len, values)):
                rule = "must be those that matter in each row of `X`"
                raise ValueError(f"`params` {rule}, got others")
            params = [dict(zip(n, p, strict=True)) for n, p in zip(names, values, strict=True)]
            return cls(space, params, **{**parts, "X": X})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{error}, in {cls.__name__}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpacePoints):
            return False if isinstance(other, Points) else NotImplemented
        mine = (self.space, self.params)
        return mine == (other.space, other.params) and bool(super().__eq__(other))

    __hash__ = None

    def __repr__(self) -> str:
        return f"SpacePoints({len(self)} of {self.space!r})"

    def _subset(self, index: list[int], covering_radius: float) -> SpacePoints:
        params = None if self._params is None else [self._params[k] for k in index]
        return SpacePoints(self.space, params, X=self.X[index], covering_radius=covering_radius)


def lost(_: dict[str, Any]) -> NoReturn:
    """Stands for a constraint that plain data could not keep."""
    advice = "make the Space again, with it"
    raise ValueError(f"`where` is a function, which snapshots do not keep: {advice}")


class Share:
    """For how many trials a constraint has held."""

    def __init__(self) -> None:
        self.trials = self.allowed = 0

    def count(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The same, counted; an error once enough were tried and almost none were allowed."""
        self.trials += len(allowed)
        self.allowed += int(allowed.sum())
        if self.trials >= TRIALS and self.allowed < LEAST_SHARE * self.trials:
            rule = f"must hold for more than {LEAST_SHARE:.1%} of the space"
            raise ValueError(f"`where` {rule}, got {self.allowed} of {self.trials:,} draws")
        return allowed


def product(
    space: Space, grids: Sequence[NDArray[np.float64]], limit: float
) -> NDArray[np.float64] | None:
    """All rows with positions from these grids, one for each column; None where they are more than `limit`.

    Column by column, those that conditions are on first: what does not matter has one coordinate, -1.
    """
    X = np.full((1, space.dimension), INACTIVE)
    for i in space.order:
        active = space.active(X, i)
        sizes = np.where(active, len(grids[i]), 1)
        if float(sizes.sum()) > limit:
            return None
        rows, place = expanded(sizes)
        X = X[rows]
        X[:, i] = np.where(active[rows], grids[i][place], INACTIVE)
    return X[np.lexsort(X.T[::-1])]


def all_rows(space: Space, limit: int) -> NDArray[np.float64] | None:
    """All combinations, without the constraint; None where they are more than `limit`."""
    grids = []
    for parameter in space.parameters.values():
        if parameter.count is None or parameter.count > limit:
            return None
        grids.append(parameter.position(np.arange(parameter.count)))
    return product(space, grids, limit)


def chosen_points(space: Space, count: int, rng: Any) -> SpacePoints:
    """All combinations that are allowed where they are at most `count`, otherwise a Sobol' set."""
    X = all_rows(space, count if space.where is None else max(count, ENUMERATED))
    if X is not None:
        combinations, X = len(X), X[space.allowed(X)]
        if len(X) == 0:
            got = f"none of all {combinations:,} combinations"
            raise ValueError(f"`where` must hold somewhere, got {got}")
        if len(X) <= count:
            return SpacePoints(space, X=X)
    X = sobol_rows(space, count, rng, X)
    return SpacePoints(space, X=X, covering_radius=covering_radius(space, X))


def own_points(space: Space, params: Any) -> SpacePoints:
    """The user's own list, in which no action is twice."""
    checked = space.check(params)
    first: dict[Any, int] = {}
    for k, p in enumerate(checked):
        j = first.setdefault(identity(tuple(p.items())), k)
        if j != k:
            raise ValueError(f"`params` must be different, got those of row {j} in row {k}")
    return SpacePoints(space, checked)


def sobol_rows(
    space: Space, count: int, rng: Any, everything: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """The first different rows that are allowed in a scrambled Sobol' sequence.

    Where `everything` is known and the sequence keeps coming back to the same, the rest is drawn from it.
    """
    from scipy.stats import qmc

    rng = np.random.default_rng(0) if rng is None else as_generator(rng)
    try:
        engine = qmc.Sobol(space.dimension, scramble=True, rng=rng)
    except TypeError:  # before SciPy 1.15
        engine = qmc.Sobol(space.dimension, scramble=True, seed=rng)
    batch = 1 << max(count - 1, 1).bit_length()
    found: dict[bytes, NDArray[np.float64]] = {}
    share = Share()
    while len(found) < count:
        X = space.rows(engine.random(batch if share.trials == 0 else max(batch, 1024)))
        for row in X[share.count(space.allowed(X))]:
            found.setdefault(row.tobytes(), row)
        if everything is not None and share.trials >= 16 * batch:
            for row in rng.permutation(everything):
                found.setdefault(row.tobytes(), row)
        elif share.trials >= batch / LEAST_SHARE + TRIALS:
            got = f"{len(found)} in {share.trials:,} draws"
            rule = "must be no more than different points are found"
            raise ValueError(f"`count` {rule}, got {count}: {got}")
    return np.array(list(found.values())[:count])


def grid_rows(
    space: Space, step: float, limit: float
) -> tuple[NDArray[np.float64], list[float]] | None:
    """A grid in the space without its constraint, and the half-widths of its cells; None with more than `limit` points.

    Parameters that conditions are on have all their values, so that every action is in the cell of a point where the same ones matter.
    """
    grids, halves = [], []
    for name, parameter in space.parameters.items():
        whole = parameter.is_nominal or name in space.parents
        grid, half = parameter.grid(step, whole, limit)
        if grid is None:
            return None
        grids.append(grid)
        halves.append(half)
    X = product(space, grids, limit)
    return None if X is None else (X, halves)


def finest_grid(space: Space) -> tuple[NDArray[np.float64], list[float]] | None:
    """A grid by which bounds are found; None where even the coarsest has too many points."""
    for n in (512, 128, 64, 32, 16, 12, 8, 6, 5, 4, 3, 2, 1):
        found = grid_rows(space, 1 / n, GRID)
        if found is not None:
            return found
    return None


def covering_radius(space: Space, X: NDArray[np.float64]) -> float:
    """Upper bound on the distance of any action from the nearest of these rows.

    A distance changes no faster than its argument: it is at most the largest on a grid, plus the radius of the grid.
    """
    from scipy.spatial import KDTree

    found = finest_grid(space)
    if found is None:
        return space.diameter()
    grid, halves = found
    farthest = float(KDTree(X).query(grid)[0].max())
    return min(farthest + math.hypot(*halves), space.diameter())
