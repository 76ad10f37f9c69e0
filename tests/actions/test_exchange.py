"""Spaces of real programs: params that come back, JSON schemas that a validator reads alike; and spaces of Optuna."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import koloss as kl

SPACES = {
    name: kl.ActionSet.from_dict(data)
    for name, data in json.loads(Path(__file__).with_name("spaces.json").read_text("utf-8")).items()
}
every = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


@every
def test_params_of_real_spaces_come_back_exactly(space):
    X = space.sample(300, 1)
    params = space.decode(X)
    assert_array_equal(space.encode(params), X)
    again = json.loads(json.dumps(params))  # as they come from elsewhere: tuples as lists
    assert space.decode(space.encode(again)) == params
    points = space.points(64)
    assert space.decode(points.X) == points.params
    assert np.all(space.contains(points.X))
    assert [points.find(p) for p in points.params] == list(range(64))


@every
def test_a_validator_agrees(space):
    jsonschema = pytest.importorskip("jsonschema")
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


def test_a_schema_written_out():
    space = kl.Space(
        size=kl.Int(1, 64, log=True, when={"policy": ["lru", "lfu"], "fast": True}),
        policy=kl.Ordinal(["none", "lru", "lfu"]),
        fast=kl.Choice([False, True, (1, None)]),
        share=kl.Float(0, 1, step=0.25),
    )
    when = {"policy": ["lru", "lfu"], "fast": [True]}
    size = {"type": "integer", "minimum": 1, "maximum": 64}
    share = {"type": "number", "minimum": 0.0, "maximum": 1.0}
    assert space.to_json_schema() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "size": {**size, "x-koloss": {"log": True, "when": when}},
            "policy": {"enum": ["none", "lru", "lfu"], "x-koloss": {"kind": "ordinal"}},
            "fast": {"enum": [False, True, [1, None]]},
            "share": {**share, "x-koloss": {"step": 0.25}},
        },
        "required": ["policy", "fast", "share"],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {
                    "properties": {name: {"enum": values} for name, values in when.items()},
                    "required": ["policy", "fast"],
                },
                "then": {"required": ["size"]},
                "else": {"properties": {"size": False}},
            }
        ],
        "x-koloss": {"order": ["size", "policy", "fast", "share"]},
    }


def test_a_constraint_cannot_be_written():
    space = kl.Space(a=kl.Int(1, 3), where=lambda p: p["a"] > 1)
    with pytest.raises(ValueError, match="`where` must be None: a function cannot be written"):
        space.to_json_schema()


# Optuna: the package itself where it is installed, and always stand-ins of the same attributes.


def stand_in(kind, /, *bases, **attributes):
    """An object of a class of this name."""
    names = [type(name, (), {}) for name in bases]
    return type(kind, tuple(names), attributes)()


def floats(low, high, log=False, step=None):
    return stand_in("FloatDistribution", low=low, high=high, log=log, step=step)


def ints(low, high, log=False, step=1):
    return stand_in("IntDistribution", low=low, high=high, log=log, step=step)


def choices(*values):
    return stand_in("CategoricalDistribution", choices=values)


EXPECTED = kl.Space(
    rate=kl.Float(1e-5, 0.1, log=True),
    share=kl.Float(0, 0.9, step=0.3),
    depth=kl.Int(1, 64, log=True),
    width=kl.Ordinal([16, 48, 80, 112]),
    method=kl.Choice(["a", None, True, 1.5]),
)


def optunas(floats, ints, choices):
    return {
        "rate": floats(1e-5, 0.1, log=True),
        "share": floats(0.0, 0.9, step=0.3),
        "depth": ints(1, 64, log=True),
        "width": ints(16, 112, step=32),
        "method": choices("a", None, True, 1.5),
    }


def test_distributions():
    distributions = optunas(floats, ints, choices)
    assert kl.Space.from_optuna(distributions) == EXPECTED
    assert kl.Space.from_optuna(SimpleNamespace(distributions=distributions)) == EXPECTED
    trials = [SimpleNamespace(distributions=d) for d in ({}, distributions, distributions)]
    assert kl.Space.from_optuna(SimpleNamespace(trials=trials)) == EXPECTED


def test_distributions_that_are_refused():
    one, other = ({"x": ints(1, high)} for high in (2, 3))

    def study(*distributions):
        return SimpleNamespace(trials=[SimpleNamespace(distributions=d) for d in distributions])

    for source, error, message in [
        (3, TypeError, "`distributions` must be a dict of Optuna's distributions, a trial or a study, got 3"),
        ({"x": 3}, TypeError, "`x` must be a Float-, Int- or CategoricalDistribution, got 3"),
        ({"x": floats(0, 1, log=True)}, ValueError, "`low` must be positive on a log scale, got 0, in 'x'"),
        ({"x": choices("a", "a")}, ValueError, "`values` must be different, got 'a' twice, in 'x'"),
        (study(), ValueError, "`distributions` must be of a study with trials, got one without any"),
        (study(one, other), ValueError, "`distributions` must be the same in all trials of a study; give a Space with `when` otherwise, got two of 'x'"),
        (study(one, one | {"y": ints(1, 2)}), ValueError, "got two of 'y'"),
    ]:  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            kl.Space.from_optuna(source)


def test_optuna_itself():
    optuna = pytest.importorskip("optuna")
    d = optuna.distributions
    distributions = optunas(
        d.FloatDistribution, d.IntDistribution, lambda *values: d.CategoricalDistribution(values)
    )
    space = kl.Space.from_optuna(distributions)
    assert space == EXPECTED
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(50):
        trial = study.ask(distributions)
        params = space.decode(space.encode(trial.params))[0]
        assert params == pytest.approx(trial.params, rel=1e-14)
        study.tell(trial, 0.0)
    assert kl.Space.from_optuna(study) == space
    assert kl.Space.from_optuna(study.trials[0]) == space
    for params in space.points(20).params:  # and Optuna takes ours
        study.enqueue_trial(params)
        assert study.ask(distributions).params == pytest.approx(params, rel=1e-14)
