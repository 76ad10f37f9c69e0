"""What a space is declared by: names with parameters, and when each of them matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koloss.actions.values import Parameter, as_text
from koloss.core.arrays import shown


def declared(parameters: Any, named: Mapping[str, Any]) -> dict[str, Parameter]:
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


def ordered(parameters: Mapping[str, Parameter]) -> tuple[str, ...]:
    """Names such that conditions are on those before, checked."""
    for name, parameter in parameters.items():
        for parent, values in (parameter.when or {}).items():
            if parent not in parameters:
                among = ", ".join(parameters)
                raise ValueError(f"`when` of {name!r} must name one of {among}, got {parent!r}")
            if parameters[parent].count is None:
                rule = "must be on a parameter with finitely many values"
                raise ValueError(
                    f"`when` of {name!r} {rule}, got {parent!r}: {parameters[parent]!r}"
                )
            for value in values:
                try:
                    parameters[parent].check(parent, value)
                except (TypeError, ValueError) as error:
                    raise ValueError(f"`when` of {name!r} can never hold: {error}") from error
    order: list[str] = []
    while len(order) < len(parameters):
        ready = [
            n for n, p in parameters.items() if n not in order and set(p.when or {}) <= set(order)
        ]
        if not ready:
            circle = ", ".join(repr(n) for n in parameters if n not in order)
            raise ValueError(f"`when` must not lead back to where it began, as among {circle}")
        order += ready
    return tuple(order)


Needs = dict[str, frozenset[int]]
"""Names with the numbers that their values must have."""


def needs_of(parameters: Mapping[str, Parameter], order: Sequence[str]) -> dict[str, Needs]:
    """When each parameter matters, the conditions of those that its condition is on included."""
    needs: dict[str, Needs] = {}
    for name in order:
        merged: Needs = {}
        for parent, values in (parameters[name].when or {}).items():
            checked = [parameters[parent].check(parent, v) for v in values]
            numbers = frozenset(parameters[parent].number(v) for v in checked)
            for other, allowed in [(parent, numbers), *needs[parent].items()]:
                merged[other] = merged.get(other, allowed) & allowed
        for other, allowed in merged.items():
            if not allowed:
                rule = f"can never hold: no value of {other!r} is left"
                raise ValueError(f"`when` of {name!r} {rule}")
        needs[name] = merged
    return needs


def matching(
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
