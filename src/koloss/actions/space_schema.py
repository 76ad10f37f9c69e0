"""Spaces as JSON schemas (draft 2020-12) and back.

What a schema has no word for is under the key "x-koloss". In a property: "log" (true), "step" (a number), "kind" ("ordinal", of an
enum), "when" (names to lists of values). In the whole: "order", the names in the order of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from fractions import Fraction
from typing import Any

from koloss.actions.parameters import Choice, Float, Int, Ordinal, ordinal_range
from koloss.actions.values import Parameter, as_condition, as_text, identity
from koloss.core.arrays import as_float, as_int, shown

DRAFT = "https://json-schema.org/draft/2020-12/schema"

OURS = "x-koloss"

NOTES = {"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated"}
"""Keywords that say nothing of values."""

WHOLE = {"type", "properties", "required", "additionalProperties", "unevaluatedProperties", "allOf"}
CLAUSE = {"if", "then", "else"}
RANGE = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


def write_schema(parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The schema of params; steps are under "x-koloss" alone, since "multipleOf" is exact and floats are not."""
    schema: dict[str, Any] = {
        "$schema": DRAFT,
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


def read_schema(schema: Any) -> dict[str, Parameter]:
    """The parameters of a schema of ours, or of a plain one of an object with ranges and enums."""
    _mapping("schema", schema)
    if schema.get("type", "object") != "object":
        raise ValueError(f"`type` of the schema must be 'object', got {shown(schema['type'])}")
    _only("the schema", schema, NOTES | WHOLE | CLAUSE)
    properties = dict(_mapping("properties", schema.get("properties", {})))
    required = _names("required", schema.get("required", []))
    conditions: dict[str, dict[str, Any]] = {}
    clauses = schema.get("allOf", [])
    if not isinstance(clauses, list):
        raise TypeError(f"`allOf` must be a list, got {shown(clauses)}")
    own = {key: schema[key] for key in CLAUSE if key in schema}
    for clause in [*clauses, *([own] if own else [])]:
        _read_clause(_mapping("allOf", clause), properties, required, conditions)
    for name in required:
        if name not in properties:
            raise ValueError(f"`required` must be among the properties, got {name!r}")
    order = _names("order", _mapping(OURS, schema.get(OURS, {})).get("order", list(properties)))
    if sorted(order) != sorted(properties):
        raise ValueError(f"`order` must have the names of all properties, got {shown(order)}")
    return {name: _parameter(name, properties[name], conditions.get(name)) for name in order}


def _read_clause(
    clause: Mapping[str, Any],
    properties: dict[str, Any],
    required: list[str],
    conditions: dict[str, dict[str, Any]],
) -> None:
    """Take up what "if" and "then" say of when parameters matter."""
    _only("a clause of `allOf`", clause, NOTES | CLAUSE)
    condition = _mapping("if", clause.get("if"))
    _only("`if`", condition, NOTES | {"properties", "required", "type"})
    when = {}
    for parent, rule in _mapping("properties", condition.get("properties")).items():
        _only(f"{parent!r} in `if`", _mapping(parent, rule), NOTES | {"enum", "const", "type"})
        if ("enum" in rule) == ("const" in rule):
            raise ValueError(f"`if` must give {parent!r} an enum or a const, got {shown(rule)}")
        when[parent] = rule["enum"] if "enum" in rule else [rule["const"]]
    then = _mapping("then", clause.get("then"))
    _only("`then`", then, NOTES | {"properties", "required"})
    declared = _mapping("properties", then.get("properties", {}))
    for name, inner in declared.items():
        if name in properties and properties[name] is not True:
            raise ValueError(f"`then` must not declare {name!r} again, got {shown(inner)}")
        properties[name] = inner
    otherwise = _mapping("else", clause.get("else", {}))
    _only("`else`", otherwise, NOTES | {"properties"})
    excluded = _mapping("properties", otherwise.get("properties", {}))
    if any(rule is not False for rule in excluded.values()):
        raise ValueError(f"`else` must only exclude properties by false, got {shown(otherwise)}")
    for name in {**dict.fromkeys(_names("required", then.get("required", []))), **declared}:
        if name in required:
            raise ValueError(f"`required` must not have {name!r}, which has a condition")
        if name in conditions:
            raise ValueError(f"`allOf` must have one condition for each, got two for {name!r}")
        conditions[name] = when


def _parameter(name: str, schema: Any, condition: dict[str, Any] | None) -> Parameter:
    try:
        return _read_parameter(_mapping(name, schema), condition)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, in {name!r} of the schema") from error


def _read_parameter(schema: Mapping[str, Any], condition: dict[str, Any] | None) -> Parameter:
    ours = _mapping(OURS, schema.get(OURS, {}))
    when = ours.get("when", condition)
    if "when" in ours:
        when = {k: v if isinstance(v, list) else [v] for k, v in _mapping("when", when).items()}
        if condition is not None and not _same(when, condition):
            raise ValueError(
                f"`when` must agree with `if`, got {shown(when)} and {shown(condition)}"
            )
    kind = schema.get("type")
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if "enum" in schema or "const" in schema:
        _only("an enum", schema, NOTES | {"enum", "const", "type"})
        _only("an enum", ours, {"kind", "when"}, OURS)
        if ours.get("kind", "choice") not in ("choice", "ordinal"):
            raise ValueError(f"`kind` must be 'choice' or 'ordinal', got {shown(ours['kind'])}")
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        return (Ordinal if ours.get("kind") == "ordinal" else Choice)(values, when=when)
    if kind == "boolean":
        _only("a boolean", schema, NOTES | {"type"})
        _only("a boolean", ours, {"when"}, OURS)
        return Choice([False, True], when=when)
    if kind not in ("integer", "number"):
        rule = "must be integers, numbers or booleans with ends, or enums"
        raise ValueError(f"`properties` {rule}, got {shown(dict(schema))}")
    _only(f"a {kind}", schema, NOTES | RANGE | {"type", "format"})
    _only(f"a {kind}", ours, {"log", "step", "when"}, OURS)
    return (_integer if kind == "integer" else _number)(schema, ours, when)


def _integer(schema: Mapping[str, Any], ours: Mapping[str, Any], when: Any) -> Parameter:
    ends = []
    for plain, open_end, sign in (
        ("minimum", "exclusiveMinimum", 1),
        ("maximum", "exclusiveMaximum", -1),
    ):
        found = []  # by the sign, minima both
        if plain in schema:
            found.append(_ceil(plain, schema[plain], sign))
        if open_end in schema:
            whole = _ceil(open_end, schema[open_end], sign)
            found.append(whole + (whole == sign * schema[open_end]))
        if not found:
            raise ValueError(f"`{plain}` is missing")
        ends.append(sign * max(found))
    low, high = ends
    if "step" in ours:
        raise ValueError(f"`step` must be of a number, got {shown(ours['step'])} of an integer")
    step = schema.get("multipleOf", 1)
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    step = as_int("multipleOf", step, minimum=1)
    if step == 1:
        return Int(low, high, log=ours.get("log", False), when=when)
    if ours.get("log", False) is not False:
        raise ValueError(f"`log` must be false where there is a multipleOf, got {ours['log']!r}")
    return ordinal_range(-(-low // step) * step, high, step, when)


def _number(schema: Mapping[str, Any], ours: Mapping[str, Any], when: Any) -> Parameter:
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if key in schema:
            raise ValueError(f"`{key}` leaves a number without an end: take {key[9:].lower()}")
    for key in ("minimum", "maximum"):
        if key not in schema:
            raise ValueError(f"`{key}` is missing")
    low, high = as_float("minimum", schema["minimum"]), as_float("maximum", schema["maximum"])
    step = ours.get("step")
    if "multipleOf" in schema:
        if step is not None:
            raise ValueError("`step` must be left out where there is a multipleOf")
        step = as_float("multipleOf", schema["multipleOf"], positive=True)
        exact = Fraction(repr(step))
        low = float(math.ceil(Fraction(repr(low)) / exact) * exact)
    return Float(low, high, log=ours.get("log", False), step=step, when=when)


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"`{name}` must be an object, got {shown(value)}")
    return value


def _names(name: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"`{name}` must be a list of names, got {shown(value)}")
    return [as_text(name, v) for v in value]


def _only(what: str, given: Mapping[str, Any], known: Set[str], inside: str = "") -> None:
    """Refuse keywords that would be overlooked; those of others, "x-...", say nothing of values."""
    for key in given:
        if key not in known and (inside or not str(key).startswith("x-")):
            rule = f"must have keywords that can be read in {what}"
            raise ValueError(f"`{inside or 'schema'}` {rule}, got {key!r}")


def _ceil(name: str, value: Any, sign: int) -> int:
    """The end of a range of whole numbers, or its negative, rounded towards the inside."""
    as_float(name, value)
    end: int = math.ceil(sign * value)
    return end


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    def told(when: Mapping[str, Any]) -> dict[str, set[Any]]:
        return {name: set(map(identity, vs)) for name, vs in (as_condition(when) or {}).items()}

    return told(left) == told(right)
