"""Actions, spaces and contexts from the tables of a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koloss.actions.base import ActionSet
from koloss.actions.contexts import Contexts
from koloss.actions.parameters import Parameter
from koloss.actions.space import Space
from koloss.actions.space_points import SpacePoints
from koloss.core.arrays import as_float
from koloss.core.toml import Keys, Source, only, pointing


def read_actions(data: Mapping[str, Any], keys: Keys, source: Source) -> ActionSet:
    """The actions of a table: a net of them where it has a `net`; of a Space a number of `points`, or a list of them."""
    data = dict(data)
    if "parameters" in data or data.get("kind") == "Space":
        only(data, ("kind", "parameters", "points"), keys, "a Space", source)
        if data.get("kind", "Space") != "Space":
            raise source.error((*keys, "parameters"), "is a key of a Space alone")
        space = read_space(data.get("parameters"), (*keys, "parameters"), source)
        with pointing(source, keys, data):
            return space.points(_points(data, 1024))
    net = data.pop("net", None)
    with pointing(source, keys, data | {"net": net}):
        actions = ActionSet.from_dict(data)
        return actions if net is None else actions.net(as_float("net", net, positive=True))


def read_space(parameters: Any, keys: Keys, source: Source) -> Space:
    """The space of a table of parameters, each of which is a table with a `kind`."""
    if not isinstance(parameters, dict):
        raise source.error(keys, f"must be a table of parameters, got {parameters!r}")
    made = {}
    for name, one in parameters.items():
        if not isinstance(one, dict):
            raise source.error((*keys, name), f"must be a table with a kind, got {one!r}")
        with pointing(source, (*keys, name), one):
            when = one.get("when")
            # As plain data has it: a table would be taken for something with a kind.
            plain = {"when": tuple(when.items())} if isinstance(when, Mapping) else {}
            made[name] = Parameter.from_dict(one | plain)
    with pointing(source, keys, parameters):
        return Space(made)


def read_contexts(data: Mapping[str, Any], keys: Keys, source: Source) -> Contexts:
    """The contexts of a table: `X`, labels or coordinates, or `parameters`, and their `weights`."""
    only(data, ("X", "parameters", "points", "weights"), keys, "[contexts]", source)
    if ("X" in data) == ("parameters" in data):
        raise source.error(keys, "must have X or parameters, one of them")
    known: Any = data.get("X")
    if "parameters" in data:
        known = read_space(data["parameters"], (*keys, "parameters"), source)
    with pointing(source, keys, data):
        if "points" in data:
            if not isinstance(known, Space):
                raise ValueError("`points` must be left out without parameters")
            known = known.points(_points(data, None))
        return Contexts(known, weights=data.get("weights"))


def space_of(known: ActionSet | Contexts | None) -> Space | None:
    """The space that actions or contexts are of, where they are of one."""
    if isinstance(known, Contexts):
        return space_of(known.points)
    return known.space if isinstance(known, SpacePoints) else None


def _points(data: Mapping[str, Any], usual: Any) -> Any:
    """What `Space.points` is to be called with."""
    points = data.get("points", usual)
    if "points" in data and type(points) is not int and not isinstance(points, list):
        raise TypeError(f"`points` must be a whole number or an array of params, got {points!r}")
    return points
