"""JSON schemas of spaces, and spaces of real programs that are kept as files in them."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl

FILES = sorted((Path(__file__).parent / "spaces").glob("*.json"))
OURS = [path for path in FILES if path.stem != "redis"]  # that one is plain


def read(path):
    return json.loads(path.read_text("utf-8"))


every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
every_own = pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)


def test_the_files_are_there():
    assert [path.stem for path in FILES] == [
        "nginx", "perceptron", "postgresql", "redis", "rocksdb", "xgboost", "zstd"
    ]  # fmt: skip


@every_own
def test_files_are_what_their_spaces_write(path):
    schema = read(path)
    del schema["title"]
    space = kl.Space.from_json_schema(schema)
    assert space.to_json_schema() == schema
    assert list(space.parameters) == schema["x-koloss"]["order"]


@every_file
def test_schemas_lead_back_to_the_same_space(path):
    before = read(path)
    schema = copy.deepcopy(before)
    space = kl.Space.from_json_schema(schema)
    assert schema == before
    written = json.dumps(space.to_json_schema(), sort_keys=True)  # names in another order
    assert kl.Space.from_json_schema(json.loads(written)) == space


@every_file
def test_params_of_real_spaces_come_back_exactly(path):
    space = kl.Space.from_json_schema(read(path))
    X = space.sample(300, 1)
    params = space.decode(X)
    assert_array_equal(space.encode(params), X)
    again = json.loads(json.dumps(params))  # as they come from elsewhere: tuples as lists
    assert space.decode(space.encode(again)) == params
    points = space.points(64)
    assert space.decode(points.X) == points.params
    assert np.all(space.contains(points.X))
    assert [points.find(p) for p in points.params] == list(range(64))


@every_file
def test_a_validator_agrees(path):
    jsonschema = pytest.importorskip("jsonschema")
    space = kl.Space.from_json_schema(read(path))
    schema = space.to_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    params = json.loads(json.dumps(space.decode(space.sample(100, 2))))
    assert all(validator.is_valid(p) for p in params)
    rng = np.random.default_rng(3)
    refused = 0
    for p in params:  # with one name less, or one more with a value from elsewhere
        wrong, other = dict(p), params[rng.integers(len(params))]
        name = space.names[rng.integers(len(space.names))]
        if name in wrong:
            del wrong[name]
        elif name in other:
            wrong[name] = other[name]
        try:
            space.encode(wrong)
        except ValueError:
            refused += 1
            assert not validator.is_valid(wrong)
        else:
            assert validator.is_valid(wrong)
    assert refused > 50


def test_the_plain_file():
    space = kl.Space.from_json_schema(read(FILES[3]))
    assert space == kl.Space(
        maxmemory_mb=kl.Ordinal(range(64, 1025, 64)),
        maxmemory_policy=kl.Choice(["noeviction", "allkeys-lru", "allkeys-lfu", "volatile-ttl"]),
        hz=kl.Int(1, 500),
        appendonly=kl.Choice([False, True]),
        active_defrag_threshold=kl.Float(0.1, 0.5, step=0.1),
        databases=kl.Choice([16]),
        appendfsync=kl.Choice(["no", "everysec", "always"], when={"appendonly": True}),
        maxmemory_samples=kl.Int(1, 64, when={"maxmemory_policy": ["allkeys-lru", "allkeys-lfu"]}),
    )


def schema_of(x, **rest):
    return {"properties": {"x": x}, **rest}


@pytest.mark.parametrize(
    "x, expected",
    [
        ({"type": "integer", "minimum": 1.5, "maximum": 4.0}, kl.Int(2, 4)),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4}, kl.Int(2, 3)),
        ({"type": "integer", "minimum": -5, "exclusiveMinimum": -7, "maximum": 2, "exclusiveMaximum": 2.5}, kl.Int(-5, 2)),
        ({"type": "integer", "minimum": -5, "maximum": 5, "multipleOf": 3}, kl.Ordinal([-3, 0, 3])),
        ({"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 1.0}, kl.Int(1, 9)),
        ({"type": ["number"], "minimum": 0, "maximum": 1}, kl.Float(0, 1)),
        ({"type": "number", "minimum": -1, "maximum": 1, "multipleOf": 0.3}, kl.Float(-0.9, 0.9, step=0.3)),
        ({"enum": ["a", 1, None, True, [1, 2]]}, kl.Choice(["a", 1, None, True, (1, 2)])),
        ({"const": "a", "x-note": "ours says nothing of x-note"}, kl.Choice(["a"])),
        ({"type": "boolean"}, kl.Choice([False, True])),
    ],
)  # fmt: skip
def test_plain_properties(x, expected):
    assert kl.Space.from_json_schema(schema_of(x)) == kl.Space(x=expected)


def test_one_condition_beside_the_properties():
    schema = schema_of(
        {"type": "boolean"},
        **{
            "if": {"properties": {"x": {"const": True}}},
            "then": {"properties": {"y": {"enum": [1, 2]}}},
        },
    )
    expected = kl.Space(x=kl.Choice([False, True]), y=kl.Choice([1, 2], when={"x": True}))
    assert kl.Space.from_json_schema(schema) == expected


NUMBER = {"type": "number", "minimum": 0, "maximum": 1}
CLAUSE = {"if": {"properties": {"x": {"const": 1}}}, "then": {"required": ["y"]}}
TWO = {"x": {"enum": [1, 2]}, "y": {"enum": [1, 2]}}


@pytest.mark.parametrize(
    "schema, error, message",
    [
        ("{}", TypeError, "`schema` must be an object, got '{}'"),
        ({}, ValueError, "`parameters` must not be empty"),
        ({"type": "array"}, ValueError, "`type` of the schema must be 'object', got 'array'"),
        ({"oneOf": []}, ValueError, "`schema` must have keywords that can be read in the schema, got 'oneOf'"),
        ({"properties": [1]}, TypeError, "`properties` must be an object, got [1]"),
        (schema_of(3), TypeError, "`x` must be an object, got 3, in 'x' of the schema"),
        (schema_of(NUMBER, required=["y"]), ValueError, "`required` must be among the properties, got 'y'"),
        (schema_of(NUMBER, **{"x-koloss": {"order": ["y"]}}), ValueError, "`order` must have the names of all properties, got ['y']"),
        (schema_of({"type": "string"}), ValueError, "`properties` must be integers, numbers or booleans with ends, or enums, got {'type': 'string'}, in 'x'"),
        (schema_of({"type": ["integer", "null"], "minimum": 1, "maximum": 2}), ValueError, "`properties` must be integers"),
        (schema_of({"$ref": "#/x"}), ValueError, "`properties` must be integers"),
        (schema_of({"type": "integer", "minimum": 1}), ValueError, "`maximum` is missing, in 'x' of the schema"),
        (schema_of({"type": "number", "maximum": 1}), ValueError, "`minimum` is missing, in 'x'"),
        (schema_of({"type": "integer", "minimum": True, "maximum": 3}), TypeError, "`minimum` must be a number, got True, in 'x'"),
        (schema_of(NUMBER | {"exclusiveMinimum": 0}), ValueError, "`exclusiveMinimum` leaves a number without an end: take minimum, in 'x'"),
        (schema_of(NUMBER | {"not": {"const": 0.5}}), ValueError, "`schema` must have keywords that can be read in a number, got 'not', in 'x'"),
        (schema_of(NUMBER | {"multipleOf": 0}), ValueError, "`multipleOf` must be positive, got 0"),
        (schema_of(NUMBER | {"multipleOf": 0.1, "x-koloss": {"step": 0.1}}), ValueError, "`step` must be left out where there is a multipleOf"),
        (schema_of(NUMBER | {"x-koloss": {"log": True}}), ValueError, "`low` must be positive on a log scale, got 0, in 'x'"),
        (schema_of(NUMBER | {"x-koloss": {"logarithm": True}}), ValueError, "`x-koloss` must have keywords that can be read in a number, got 'logarithm'"),
        (schema_of({"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 0.5}), TypeError, "`multipleOf` must be an integer, got 0.5"),
        (schema_of({"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2, "x-koloss": {"log": True}}), ValueError, "`log` must be false where there is a multipleOf"),
        (schema_of({"type": "integer", "minimum": 1, "maximum": 9, "x-koloss": {"step": 2}}), ValueError, "`step` must be of a number, got 2 of an integer"),
        (schema_of({"type": "integer", "minimum": 0, "maximum": 10**6, "multipleOf": 2}), ValueError, "`step` must leave no more than 65,536 values"),
        (schema_of({"enum": []}), ValueError, "`values` must not be empty, in 'x'"),
        (schema_of({"enum": [{}]}), TypeError, "`values` must be None, True, False"),
        (schema_of({"enum": [1], "minimum": 0}), ValueError, "keywords that can be read in an enum, got 'minimum'"),
        (schema_of({"enum": [1], "x-koloss": {"kind": "list"}}), ValueError, "`kind` must be 'choice' or 'ordinal', got 'list'"),
        (schema_of({"enum": [1], "x-koloss": {"when": {"z": 1}}}), ValueError, "`when` of 'x' must name one of x, got 'z'"),
        ({"properties": TWO, "required": ["y"], "allOf": [CLAUSE]}, ValueError, "`required` must not have 'y', which has a condition"),
        ({"properties": TWO, "allOf": [CLAUSE, CLAUSE]}, ValueError, "`allOf` must have one condition for each, got two for 'y'"),
        ({"properties": TWO, "allOf": [{"anyOf": []}]}, ValueError, "got 'anyOf'"),
        ({"properties": TWO, "allOf": CLAUSE}, TypeError, "`allOf` must be a list"),
        ({"properties": TWO, "allOf": [CLAUSE | {"if": {"properties": {"x": {"minimum": 1}}}}]}, ValueError, "got 'minimum'"),
        ({"properties": TWO, "allOf": [CLAUSE | {"if": {"properties": {"x": {}}}}]}, ValueError, "`if` must give 'x' an enum or a const, got {}"),
        ({"properties": TWO, "allOf": [CLAUSE | {"then": {"properties": {"y": {"enum": [3]}}}}]}, ValueError, "`then` must not declare 'y' again"),
        ({"properties": TWO, "allOf": [CLAUSE | {"else": {"properties": [1]}}]}, TypeError, "`properties` must be an object, got [1]"),
        (schema_of({"enum": [json.loads("[" * 30 + "]" * 30)]}), ValueError, "`values` must be nested at most 20 deep, got more, in 'x'"),
        ({"properties": TWO, "allOf": [CLAUSE | {"else": {"properties": {"y": {"const": 1}}}}]}, ValueError, "`else` must only exclude properties by false"),
        ({"properties": {"x": TWO["x"], "y": TWO["y"] | {"x-koloss": {"when": {"x": 2}}}}, "allOf": [CLAUSE]}, ValueError, "`when` must agree with `if`"),
    ],
)  # fmt: skip
def test_schemas_that_are_refused(schema, error, message):
    with pytest.raises(error, match=re.escape(message)):
        kl.Space.from_json_schema(schema)


def test_a_constraint_cannot_be_written():
    space = kl.Space(a=kl.Int(1, 3), where=lambda p: p["a"] > 1)
    with pytest.raises(ValueError, match="`where` must be None: a function cannot be written"):
        space.to_json_schema()
    schema = kl.Space(space.parameters).to_json_schema()
    again = kl.Space.from_json_schema(schema, where=space.where)
    assert again == space
