"""Spaces in the forms of others: written as JSON schemas (draft 2020-12), read from Optuna's distributions.

What a schema has no word for is under the key "x-koloss". In a property: "log" (true), "step" (a number), "kind" ("ordinal", of an
enum), "when" (names to lists of values). In the schema itself: "order", the names in the order of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from koloss.actions.parameters import Choice, Float, Int, Ordinal, Parameter
from koloss.core.arrays import shown

OURS = "x-koloss"

MOST_STEPS = 2**16
"""Values of whole numbers in steps, which are listed one by one."""


def write_schema(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The schema of params; steps are under "x-koloss" alone, since "multipleOf" is exact and floats are not."""
    schema: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {name: _property(parameter) for name, parameter in parameters.items()},
        "required": [name for name, parameter in parameters.items() if parameter.when is None],
        "additionalProperties": False,
    }
    clauses = [_clause(name, p.when) for name, p in parameters.items() if p.when is not None]
    if clauses:
        schema["allOf"] = clauses
    return schema | {OURS: {"order": list(parameters)}}


def _property(parameter: Parameter) -> dict[str, Any]:
    ours: dict[str, Any] = {}
    if isinstance(parameter, Choice):
        schema: dict[str, Any] = {"enum": _listed(parameter.values)}
        if isinstance(parameter, Ordinal):
            ours["kind"] = "ordinal"
    elif isinstance(parameter, (Float, Int)):
        kind = "integer" if isinstance(parameter, Int) else "number"
        schema = {"type": kind, "minimum": parameter.low, "maximum": parameter.high}
        if parameter.log:
            ours["log"] = True
        if isinstance(parameter, Float) and parameter.step is not None:
            ours["step"] = parameter.step
    else:
        raise TypeError(f"`parameters` must be of the library to be written, got {parameter!r}")
    if parameter.when is not None:
        ours["when"] = {name: _listed(values) for name, values in parameter.when.items()}
    return schema | ({OURS: ours} if ours else {})


def _clause(name: str, when: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """The same as "when" in words of the standard, for those who check params by the schema."""
    values = {parent: {"enum": _listed(allowed)} for parent, allowed in when.items()}
    return {
        "if": {"properties": values, "required": list(when)},
        "then": {"required": [name]},
        "else": {"properties": {name: False}},
    }


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value


def read_optuna(source: Any) -> dict[str, Parameter]:
    """Parameters from a dict of distributions, or from a trial or a study that has them; Optuna is not imported."""
    if hasattr(source, "trials"):
        source = _of_study(source.trials)
    elif hasattr(source, "distributions"):
        source = source.distributions
    if not isinstance(source, Mapping):
        rule = "must be a dict of Optuna's distributions, a trial or a study"
        raise TypeError(f"`distributions` {rule}, got {shown(source)}")
    return {name: _distribution(name, d) for name, d in source.items()}


def _of_study(trials: Any) -> dict[str, Any]:
    """The distributions that all trials share: Optuna does not say on what the others depend."""
    asked = [trial.distributions for trial in trials if trial.distributions]
    if not asked:
        raise ValueError("`distributions` must be of a study with trials, got one without any")
    for distributions in asked[1:]:
        for name in {**asked[0], **distributions}:
            if asked[0].get(name) != distributions.get(name):
                rule = "must be the same in all trials of a study"
                advice = "give a Space with `when` otherwise"
                raise ValueError(f"`distributions` {rule}; {advice}, got two of {name!r}")
    return dict(asked[0])


def _distribution(name: str, distribution: Any) -> Parameter:
    """By its attributes: `choices`, or `low`, `high`, `log` and `step`, of which whole numbers have whole ones."""
    try:
        if hasattr(distribution, "choices"):
            return Choice(distribution.choices)
        if all(hasattr(distribution, part) for part in ("low", "high", "log", "step")):
            low, high, step = distribution.low, distribution.high, distribution.step
            if not all(isinstance(number, Integral) for number in (low, high, step)):
                return Float(low, high, log=distribution.log, step=step)
            if step == 1 or distribution.log:
                return Int(low, high, log=distribution.log)
            values = range(low, high + 1, step)
            if len(values) > MOST_STEPS:
                rule = f"must leave no more than {MOST_STEPS:,} values"
                raise ValueError(f"`step` {rule}, got {len(values)}")
            return Ordinal(values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in {name!r}") from error
    rule = "must be a Float-, Int- or CategoricalDistribution"
    raise TypeError(f"`{name}` {rule}, got {shown(distribution)}")
