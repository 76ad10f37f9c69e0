"""Spaces: parameters that have names and kinds, constraints, and parts that matter only for some values of others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from koloss.actions.base import MAX_NET_BYTES, ActionSet, slack, steps, too_large
from koloss.actions.exchange import read_optuna, write_schema
from koloss.actions.parameters import Parameter, as_text
from koloss.actions.points import Points
from koloss.actions.space_points import (
    ENUMERATED,
    INACTIVE,
    Share,
    SpacePoints,
    all_rows,
    chosen_points,
    grid_rows,
    lost,
    own_points,
)
from koloss.core.arrays import Array, as_count, as_flag, as_float, as_points, shown, to_numpy
from koloss.core.random import as_generator


class Space(ActionSet):
    """Parameters with names and kinds, such as the settings of a program.

    Parameters
    ----------
    parameters : mapping of names to Float, Int, Choice or Ordinal, optional
        By position; for names that are no keywords, and for `where`.
    where : callable, optional
        Constraint: takes the params, a dict without those that do not matter, and says whether they are allowed.
    **named : Float, Int, Choice or Ordinal
        Parameters by name.

    Notes
    -----
    A parameter with `when={"method": "lru"}` matters only where `method` is "lru"; elsewhere it is left out of the params.
    A list means any of several values, several names mean all of them, and a parameter whose condition is on one
    that does not matter does not matter either.

    To kernels an action is a row of numbers, one for each parameter in the order declared: the position in [0, 1] of
    its value (see `Float`, `Int`, `Choice`, `Ordinal`), or -1 where it does not matter. `decode(encode(params))` is
    `params` exactly but for floats without steps. Of these it is within rounding: 4 units in the last place of the larger end, on
    a log scale that many of the value for each factor e from `low` to `high`; and exact for all that `decode`, `sample` and
    `points` have given.

    As plain data, and so in snapshots, a space is kept without the function `where`, which is no data. Such a space knows that it had one:
    it encodes and decodes, and refuses what would need it. The `SpacePoints` that a learner plays are kept whole.

    Examples
    --------
    >>> import koloss as kl
    >>> cache = kl.Space(
    ...     method=kl.Choice(["lru", "random"]),
    ...     threads=kl.Int(1, 8),
    ...     rate=kl.Float(0.001, 1.0, log=True),
    ...     depth=kl.Int(1, 3, when={"method": "lru"}),
    ... )
    >>> X = cache.encode({"method": "random", "threads": 8, "rate": 0.1})
    >>> X.round(3).tolist()
    [[1.0, 1.0, 0.667, -1.0]]
    >>> cache.decode(X)
    [{'method': 'random', 'threads': 8, 'rate': 0.1}]
    >>> len(cache.points(64))
    64
    """

    def __init__(
        self,
        parameters: Mapping[str, Any] | None = None,
        /,
        *,
        where: Callable[[dict[str, Any]], bool] | None = None,
        **named: Any,
    ) -> None:
        rule: object = where  # anything, as far as users go
        if isinstance(rule, Parameter):
            advice = "a parameter of that name goes into a dict"
            raise TypeError(f"`where` must be a function of params: {advice}")
        if where is not None and not callable(where):
            raise TypeError(f"`where` must be a function of params, got {shown(where)}")
        self._parameters = _declared(parameters, named)
        self._columns = tuple(self._parameters.values())
        self.where = where
        self._needs = _needs_of(self._parameters)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, in the order of the columns."""
        return dict(self._parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of the columns."""
        return tuple(self._parameters)

    @property
    def dimension(self) -> int:
        return len(self._parameters)

    @property
    def order(self) -> list[int]:
        """Columns such that conditions are on those before."""
        return [self.names.index(name) for name in self._needs]

    @property
    def parents(self) -> set[str]:
        """Names that conditions are on."""
        return {parent for p in self._columns for parent in p.when or {}}

    # Params and rows of numbers.

    def encode(
        self, params: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> NDArray[np.float64]:
        """Rows of numbers, an array of shape (n, dimension), from one dict of params or several."""
        checked = self.check(params)
        X = np.full((len(checked), self.dimension), INACTIVE)
        for i, (name, parameter) in enumerate(self._parameters.items()):
            rows = [k for k, p in enumerate(checked) if name in p]
            if rows:
                X[rows, i] = parameter.encode([checked[k][name] for k in rows])
        return X

    def check(
        self, params: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """The same params as plain values in the order of the columns, or an error that names what is wrong."""
        several: Any = [params] if isinstance(params, Mapping) else params
        if isinstance(several, (str, bytes)) or not isinstance(several, Sequence):
            raise TypeError(f"`params` must be a dict or a list of dicts, got {shown(params)}")
        if not several:
            raise ValueError("`params` must not be empty")
        return [self._check(p) for p in several]

    def _check(self, params: Any) -> dict[str, Any]:
        values = _as_params(params, self._parameters, self._needs)
        if self.where is not lost and not self._allows(values):
            raise ValueError(f"`params` must be allowed by `where`, got {values!r}")
        return values

    def decode(self, X: Array) -> list[dict[str, Any]]:
        """Params of each row: the values nearest to its numbers, without those that do not matter."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        active = self._active(X)
        room = slack(X)
        outside = active & (np.abs(X - 0.5) > 0.5 + room)
        if outside.any():
            k, i = np.argwhere(outside)[0].tolist()
            rule = f"must be from 0 to 1 where a parameter matters, got {X[k, i]:.6g}"
            raise ValueError(f"`X` {rule} for {self.names[i]!r} in row {k}")
        return self._decode(X, active)

    def _decode(self, X: NDArray[Any], active: NDArray[np.bool_]) -> list[dict[str, Any]]:
        params: list[dict[str, Any]] = [{} for _ in range(len(X))]
        for i, (name, parameter) in enumerate(self._parameters.items()):
            rows = np.flatnonzero(active[:, i])
            for k, value in zip(rows.tolist(), parameter.decode(X[rows, i]), strict=True):
                params[k][name] = value
        return params

    def _active(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which numbers matter, by those that conditions are on."""
        return np.column_stack([self.active(X, i) for i in range(self.dimension)])

    def active(self, X: NDArray[Any], column: int) -> NDArray[np.bool_]:
        """In which rows the parameter of a column matters."""
        active = np.ones(len(X), dtype=bool)
        for name, numbers in self._needs[self.names[column]].items():
            j = self.names.index(name)
            active &= np.isin(self._columns[j].nearest(X[:, j]), list(numbers))
        return active

    def _allows(self, params: dict[str, Any]) -> bool:
        """Whether the constraint holds."""
        if self.where is None:
            return True
        try:
            allowed: object = self.where(dict(params))
        except Exception as error:
            error.add_note(f"in `where` of a Space, for {params!r}")
            raise
        if not isinstance(allowed, (bool, np.bool_)):
            rule = "must return True or False"
            raise TypeError(f"`where` {rule}, got {shown(allowed)} for {params!r}")
        return bool(allowed)

    # What every action set can do.

    def contains(self, X: Array) -> NDArray[np.bool_]:
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        room, active = slack(X), self._active(X)
        inside = np.ones(len(X), dtype=bool)
        for i, parameter in enumerate(self._columns):
            there = np.where(active[:, i], parameter.snap(X[:, i]), INACTIVE)
            inside &= np.abs(X[:, i] - there) <= room
        if self.where is not None:
            rows = np.flatnonzero(inside)
            params = self._decode(X[rows], active[rows])
            inside[rows] = [self._allows(p) for p in params]
        return inside

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest number of every column: from -1 where a parameter may not matter."""
        lower = np.array([0.0 if p.when is None else INACTIVE for p in self._columns])
        upper = np.array([0.0 if p.count == 1 else 1.0 for p in self._columns])
        return lower, upper

    def sample(self, size: int, rng: Any = None) -> NDArray[np.float64]:
        """Independent draws, even along each parameter's scale; with a constraint those for which it holds."""
        rng, size = as_generator(rng), as_count("size", size)
        share = Share()
        kept: list[NDArray[np.float64]] = []
        while share.allowed < size:
            missing = size - share.allowed
            batch = missing if self.where is None else max(2 * missing, 256)
            X = self.rows(rng.random((min(batch, 2**16), self.dimension)))
            X = X[share.count(self.allowed(X))]
            kept.append(X)
        return np.concatenate(kept)[:size]

    def rows(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of the space, without its constraint, from numbers that are uniform over the cube."""
        columns = zip(self._columns, uniform.T, strict=True)
        X = np.column_stack([parameter.quantile(u) for parameter, u in columns])
        return np.where(self._active(X), X, INACTIVE)

    def allowed(self, X: NDArray[np.float64]) -> NDArray[np.bool_]:
        """For which rows of the space, without its constraint, the constraint holds."""
        if self.where is None:
            return np.ones(len(X), dtype=bool)
        return np.array([self._allows(p) for p in self._decode(X, X >= 0)], dtype=bool)

    def points(self, count: Any = None, *, rng: Any = None) -> SpacePoints:
        """Finitely many actions of the space.

        Parameters
        ----------
        count : int or list of params
            All combinations, where they are at most so many; otherwise that many points of a scrambled Sobol' sequence, with a
            constraint its first points for which that holds. By default 1,024. A list of params is taken as it is.
        rng : seed or Generator, optional
            Of the scrambling. By default always the same.

        Returns
        -------
        SpacePoints
            The points, with `params`. All combinations have a covering radius of 0, as has a list. For a Sobol' set it is an
            upper bound: the largest distance from a grid in the space, plus that of the grid.
        """
        if count is None or isinstance(count, (int, np.integer)):
            return chosen_points(self, as_count("count", 1024 if count is None else count), rng)
        if isinstance(count, (str, bytes)) or not isinstance(count, (Mapping, Sequence)):
            rule = "must be a whole number or a list of params"
            raise TypeError(f"`count` {rule}, got {shown(count)}")
        return own_points(self, count)

    def net(self, spacing: float, *, max_bytes: int = MAX_NET_BYTES) -> Points:
        """Grid that covers the space, with all values of a `Choice` and of what conditions are on.

        A constraint has a net where there are at most 65,536 combinations without it; otherwise nothing is known of how
        well the allowed points of a grid cover the others.
        """
        spacing = as_float("spacing", spacing, positive=True)
        if self.where is not None:
            X = all_rows(self, ENUMERATED)
            if X is None:
                reason = "of which a constraint may leave nothing"
                rule = f"must be None for a net, {reason}; take `points`"
                raise ValueError(f"`where` {rule}, got {self.where!r}")
            X = X[self.allowed(X)]
            return SpacePoints(self, X=X).net(spacing, max_bytes=max_bytes)
        step, _ = steps(spacing, self.dimension)
        most = max_bytes / (8 * self.dimension)
        found = grid_rows(self, step, most)
        if found is None:
            raise too_large(spacing, self, most, max_bytes)
        X, halves = found
        radius = math.hypot(*halves)
        return SpacePoints(self, X=X, covering_radius=radius, covering_widths=halves)

    def to_json_schema(self) -> dict[str, Any]:
        """A JSON schema (draft 2020-12) by which others can check params.

        Logarithms, steps, orders and conditions are under the key "x-koloss", conditions also as if and then; the steps of a float are
        nowhere else, so that a validator lets values between them pass. A `where` cannot be written.

        Examples
        --------
        >>> import koloss as kl
        >>> kl.Space(rate=kl.Float(0.001, 1, log=True)).to_json_schema()["properties"]
        {'rate': {'type': 'number', 'minimum': 0.001, 'maximum': 1.0, 'x-koloss': {'log': True}}}
        """
        if self.where is not None:
            rule = "must be None: a function cannot be written as a schema"
            raise ValueError(f"`where` {rule}; kl.Space(space.parameters) is the space without it")
        return write_schema(self._parameters)

    @classmethod
    def from_optuna(cls, distributions: Any) -> Self:
        """The space of a dict of Optuna's distributions, of a trial, or of a study whose trials all have the same.

        Whole numbers in steps become an `Ordinal`.
        """
        return cls(read_optuna(distributions))

    # As plain data and as text.

    def parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"parameters": tuple(self._parameters.items())}
        return parts if self.where is None else parts | {"constrained": True}

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> Self:
        unknown = set(parts) - {"parameters", "constrained"}
        if unknown or "parameters" not in parts:
            raise ValueError(f"a Space has `parameters` and `constrained`, got {sorted(parts)}")
        try:
            pairs = [
                (name, Parameter.from_dict(data)) for name, data in _pairs(parts["parameters"])
            ]
            where = lost if as_flag("constrained", parts.get("constrained", False)) else None
            return cls(dict(pairs), where=where)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error}, in {cls.__name__}") from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Space):
            return NotImplemented
        mine = (list(self._parameters.items()), self.where)
        return mine == (list(other._parameters.items()), other.where)

    def __hash__(self) -> int:
        return hash((tuple(self._parameters.items()), self.where))

    def __repr__(self) -> str:
        items = self._parameters.items()
        if all(
            name.isidentifier() and not iskeyword(name) and name != "where"
            for name in self._parameters
        ):
            text = ", ".join(f"{name}={parameter!r}" for name, parameter in items)
        else:
            text = repr(self._parameters)
        return f"Space({text}{'' if self.where is None else ', where=...'})"


def _pairs(data: Any) -> Iterator[tuple[str, Any]]:
    """Names with parameters, as plain data has them."""
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"`parameters` must be a list of pairs, got {shown(data)}")
    for pair in data:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(f"`parameters` must be pairs of a name and a kind, got {shown(pair)}")
        yield as_text("parameters", pair[0]), pair[1]


def _declared(parameters: Any, named: Mapping[str, Any]) -> dict[str, Parameter]:
    """Parameters by name, from a dict and from keywords."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"`parameters` must map names to parameters, got {shown(parameters)}")
    given: dict[str, Any] = dict(parameters or {})
    for name in named:
        if name in given:
            raise ValueError(f"`{name}` must be given once, got it twice")
    given |= named
    if not given:
        raise ValueError("`parameters` must not be empty")
    for name, parameter in given.items():
        if not as_text("parameters", name):
            raise ValueError("`parameters` must have names that are not empty, got ''")
        if not isinstance(parameter, Parameter):
            rule = "must be a Float, Int, Choice or Ordinal"
            raise TypeError(f"`{name}` {rule}, got {shown(parameter)}")
    return given


# When parameters matter.


Needs = dict[str, frozenset[int]]
"""Names with the numbers that their values must have."""


def _needs_of(parameters: Mapping[str, Parameter]) -> dict[str, Needs]:
    """When each parameter matters, the conditions of those that its condition is on included; these come first."""
    own = {name: _own_needs(name, parameters) for name in parameters}
    needs: dict[str, Needs] = {}
    while len(needs) < len(own):
        ready = [n for n in own if n not in needs and own[n].keys() <= needs.keys()]
        if not ready:
            circle = ", ".join(repr(n) for n in own if n not in needs)
            raise ValueError(f"`when` must not lead back to where it began, as among {circle}")
        for name in ready:
            merged = dict(own[name])
            for parent in own[name]:
                for other, numbers in needs[parent].items():
                    merged[other] = merged.get(other, numbers) & numbers
            for other, numbers in merged.items():
                if not numbers:
                    rule = f"can never hold: no value of {other!r} is left"
                    raise ValueError(f"`when` of {name!r} {rule}")
            needs[name] = merged
    return needs


def _own_needs(name: str, parameters: Mapping[str, Parameter]) -> Needs:
    needs: Needs = {}
    for parent, values in (parameters[name].when or {}).items():
        if parent not in parameters:
            among = ", ".join(parameters)
            raise ValueError(f"`when` of {name!r} must name one of {among}, got {parent!r}")
        other = parameters[parent]
        if other.count is None:
            rule = "must be on a parameter with finitely many values"
            raise ValueError(f"`when` of {name!r} {rule}, got {parent!r}: {other!r}")
        try:
            needs[parent] = frozenset(other.number(other.check(parent, v)) for v in values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`when` of {name!r} can never hold: {error}") from error
    return needs


def _as_params(
    params: Any, parameters: Mapping[str, Parameter], needs: Mapping[str, Needs]
) -> dict[str, Any]:
    """Params as plain values in the order declared, or an error: they must have what matters, and nothing else."""
    if not isinstance(params, Mapping):
        raise TypeError(f"`params` must be a dict or a list of dicts, got {shown(params)}")
    for name in params:
        if name not in parameters:
            among = ", ".join(parameters)
            raise ValueError(f"`params` must have names among {among}, got {name!r}")
    values: dict[str, Any] = {}
    for name, needed in needs.items():  # those that conditions are on come first
        matters = all(
            other in values and parameters[other].number(values[other]) in numbers
            for other, numbers in needed.items()
        )
        if matters and name not in params:
            raise ValueError(f"`params` must have {name!r}, got {shown(dict(params))}")
        if not matters and name in params:
            rule = f"must not have {name!r}, which matters only when {_written(parameters[name])}"
            raise ValueError(f"`params` {rule}, got {shown(dict(params))}")
        if matters:
            values[name] = parameters[name].check(name, params[name])
    return {name: values[name] for name in parameters if name in values}


def _written(parameter: Parameter) -> str:
    """A condition as text."""
    return " and ".join(
        f"{name!r} is {' or '.join(map(repr, values))}"
        for name, values in (parameter.when or {}).items()
    )
