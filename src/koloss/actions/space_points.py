"""Finitely many actions of a `Space`: all combinations, a Sobol' set, a grid, or the user's own list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import as_points, shown, to_numpy
from koloss._random import as_generator
from koloss.actions.points import Points

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
    covering_radius : float
        Every action of the space is at most so far from one of these, where they stand for it.

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
        super().__init__(X, covering_radius=covering_radius)
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
            self._rows = {row.tobytes(): k for k, row in enumerate(self.X)}
        row = self._rows.get(self.space.encode([params])[0].tobytes())
        if row is None:
            raise ValueError(f"`params` must be one of the {len(self)} actions, got {params!r}")
        return row

    def parts(self) -> dict[str, Any]:
        # Values without names: those that matter, in the order of the columns.
        values = tuple(tuple(p.values()) for p in self.params)
        return {
            "space": self.space,
            "params": values,
            "X": self.X,
            "covering_radius": self.covering_radius,
        }

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Self:
        try:
            space = parts["space"]
            X = to_numpy(as_points("X", parts["X"], dimension=space.dimension))
            names = [[n for n, x in zip(space.names, row, strict=True) if x >= 0] for row in X]
            if list(map(len, names)) != list(map(len, parts["params"])):
                raise ValueError(
                    "`params` must be those that matter in each row of `X`, got others"
                )
            params = [
                dict(zip(n, p, strict=True)) for n, p in zip(names, parts["params"], strict=True)
            ]
            return cls(space, params, X=X, covering_radius=parts["covering_radius"])
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
        return SpacePoints(self.space, params, X=self._take(index), covering_radius=covering_radius)


def lost(_: dict[str, Any]) -> NoReturn:
    """Stands for a constraint that plain data could not keep."""
    raise ValueError(
        "`where` is a function, which snapshots do not keep: make the Space again, with it"
    )


class Share:
    """For how many trials a constraint has held."""

    def __init__(self) -> None:
        self.trials = self.allowed = 0

    def count(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The same, counted; an error once enough were tried and almost none were allowed."""
        self.trials += len(allowed)
        self.allowed += int(allowed.sum())
        if self.trials >= TRIALS and self.allowed < LEAST_SHARE * self.trials:
            share = f"{self.allowed} of {self.trials:,} draws"
            raise ValueError(
                f"`where` must hold for more than {LEAST_SHARE:.1%} of the space, got {share}"
            )
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
        rows = np.repeat(np.arange(len(X)), sizes)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
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
            raise ValueError(
                f"`where` must hold somewhere, got none of all {combinations:,} combinations"
            )
        if len(X) <= count:
            return SpacePoints(space, X=X)
    X = sobol_rows(space, count, rng, X)
    return SpacePoints(space, X=X, covering_radius=covering_radius(space, X))


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
            raise ValueError(
                f"`count` must be no more than different points are found, got {count}: {got}"
            )
    return np.array(list(found.values())[:count])


def grid_rows(space: Space, step: float, limit: float) -> tuple[NDArray[np.float64] | None, float]:
    """A grid in the space without its constraint, and how far any action is from it at most; None with more than `limit` points.

    Parameters that conditions are on have all their values, so that every action has a point where the same ones matter.
    """
    grids, halves = [], []
    for name, parameter in space.parameters.items():
        whole = parameter.is_nominal or name in space.parents
        grid, half = parameter.grid(step, whole, limit)
        if grid is None:
            return None, 0.0
        grids.append(grid)
        halves.append(half)
    return product(space, grids, limit), float(np.linalg.norm(halves))


def covering_radius(space: Space, X: NDArray[np.float64]) -> float:
    """Upper bound on the distance of any action from the nearest of these rows.

    A distance changes no faster than its argument: it is at most the largest on a grid, plus the radius of the grid.
    """
    from scipy.spatial import KDTree

    for cells in (64, 32, 16, 12, 8, 6, 5, 4, 3, 2, 1):
        grid, radius = grid_rows(space, 1 / cells, GRID)
        if grid is not None:
            farthest = float(KDTree(X).query(grid)[0].max())
            return min(farthest + radius, space.diameter())
    return space.diameter()
