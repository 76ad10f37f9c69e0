"""Spaces and contexts that are declared in any way, params that name no action: refused by name, or right."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import koloss as kl
from koloss.errors import UnknownDecision
from tests.support.fuzz import fuzzed
from tests.support.strategies import FLOATS, Call, ends_well, few, floats, ints, shown
from tests.support.strategies_requests import (
    ACTIONS,
    HOURS,
    MASKS,
    SPACE,
    WEIGHTS,
    bad_params,
    forms_of,
)
from tests.support.strategies_snapshots import changes

VALUES: list[Any] = [
    *("a", "b", "", "lru", None, True, False, 0, 1, 1.0, -0.0, 2**63, (1, "a"), ("a",), math.nan),
    *(10**400, 1j, b"a", object(), [1, 2], {}, {"a"}, "\ud800", np.float32(0.1), np.int8(3)),
]
PLAIN: list[tuple[str, dict[str, Any]]] = [
    ("Float", {"low": -1e-3, "high": 1e7}),
    ("Float", {"low": 1e-300, "high": 1e300, "log": True}),
    ("Float", {"low": 5e-324, "high": 1e-310}),
    ("Float", {"low": -0.3, "high": 0.71, "step": 0.1}),
    ("Float", {"low": 1e15, "high": 1e15 + 8, "step": 0.5}),
    ("Int", {"low": 1, "high": 10**12, "log": True}),
    ("Int", {"low": -3, "high": 3}),
    ("Int", {"low": 2**53 - 9, "high": 2**53}),
    ("Choice", {"values": ["a", 3, None, True, 1, ("a", 1.5)]}),
    ("Choice", {"values": ["a"]}),
    ("Ordinal", {"values": [1, 2, "a"]}),
]
"""Parameters that can be declared, some of them at the ends of what numbers can do."""


@st.composite
def parameters(draw: Any, names: list[str]) -> Call:
    """A parameter: one that can be declared, or with anything as an argument; some depend on others, themselves, nobody."""
    ends, some = (draw(floats), draw(floats)), draw(st.lists(st.sampled_from(VALUES), max_size=3))
    if draw(st.booleans()):
        ends = tuple(sorted(10 ** draw(st.floats(-9, 9)) for _ in range(2)))
    log, kinds = draw(st.sampled_from([False, True, 1, None, "yes"])), list(PLAIN)
    if draw(st.integers(0, 2)) == 2:
        kinds = [
            ("Float", {"low": ends[0], "high": ends[1], "log": log}),
            ("Float", {"low": 0.0, "high": ends[1], "step": draw(floats)}),
            ("Int", {"low": draw(ints), "high": draw(ints), "log": log}),
            ("Choice", {"values": some}),
            ("Ordinal", {"values": some}),
        ]
    name, given = kinds[draw(st.integers(0, len(kinds) - 1))]
    other, when = draw(st.sampled_from([*names, "nobody"])), None
    if draw(st.integers(0, 4)) == 4:
        ways = [
            *({other: "a"}, {other: ["a", 3]}, {other: 1.0}, {other: [1, 2]}, {}, [], {other: []}),
            *({other: VALUES[draw(st.integers(0, len(VALUES) - 1))]}, {3: "a"}, "a", 3),
            *({"x": "a", "y": "a"}, [(other, "a")], {other: {"a"}}),
        ]
        when = ways[draw(st.integers(0, len(ways) - 1))]
    return Call(name, {**given, "when": when})


@st.composite
def spaces(draw: Any) -> dict[str, Call]:
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    return {name: draw(parameters(names)) for name in names}


@fuzzed(few=60, cases=4_000)
@given(spaces(), shown(few))
def test_spaces(parts, count):
    """Each is refused, or makes a space that draws, and whose params are its own again."""

    def act() -> Any:
        space = kl.Space({name: call.make() for name, call in parts.items()})
        X, points = space.sample(9, rng=1), space.points(*count.given)
        for rows in (X, points.X[:20]):
            params = space.decode(rows)
            again = space.encode(params)
            assert np.allclose(again, rows, rtol=0, atol=1e-9)
            assert space.decode(again) == params
            assert space.contains(again).all()
        assert kl.ActionSet.from_dict(space.to_dict()) == space
        return [*space.bounds(), X, points, points.discretisation(kl.Mixed(space))]

    ends_well(act)


@fuzzed(few=30, cases=3_000)
@given(changes(json.loads(json.dumps(SPACE.to_dict())), plain=True))
def test_forged_spaces(made):
    data = json.loads(json.dumps(SPACE.to_dict()))
    for change in made:
        data = change.on(data)

    def act() -> Any:
        space = kl.ActionSet.from_dict(data)
        return [space.bounds(), space.sample(3, rng=1)]

    ends_well(act)


@pytest.mark.slow
@fuzzed(few=2, cases=30)
@given(st.integers(0, 98), st.integers(0, len(ACTIONS) - 1))
def test_params_that_name_no_action_are_refused(seed, row):
    """By the space, its points, and learners, which are as before."""
    settings = {"loss_range": (0, 1), "horizon": 60, "rng": seed}
    kinds = (kl.BanditExpWeights, kl.InsuredBandit)
    learners = [kind(ACTIONS, kl.Mixed(SPACE), **settings) for kind in kinds]
    waiting, good = [learner.ask(3) for learner in learners], ACTIONS.params[row]
    digests = [learner.state()["digest"] for learner in learners]
    for what, bad in bad_params(good):
        calls = [partial(SPACE.encode, bad), partial(SPACE.points, [good, bad])]
        calls.append(partial(ACTIONS.find, bad))
        for learner, batch in zip(learners, waiting, strict=True):
            calls += [
                partial(learner.tell, bad, 0.5),
                partial(learner.tell, [batch[0], bad], [0.5, 0.5]),
                partial(learner.forget, bad),
                partial(learner.ask, allowed=bad),
                partial(learner.ask, 2, allowed=[good, bad]),
                partial(learner.probability, [good, bad]),
            ]
        for call in calls:
            with pytest.raises((ValueError, TypeError, UnknownDecision), match="`"):
                call()
        assert [learner.state()["digest"] for learner in learners] == digests, what


DECLARED: list[Any] = [
    *(["a", "b", "c"], [1, 2, 3], [[0.0], [0.5], [1.0]], HOURS, HOURS.points(), SPACE, "abc", [], [[]]),
    *(None, 3, ["a", "a"], [True, 2], [1.0, 2.0], ["a", 1, None], [[math.nan]], [[1.0], [1.0]]),
    *([[1e308], [-1e308]], [[5e-324], [0.0]], np.zeros((0, 2))),
]  # fmt: skip
SHARES: list[Any] = [
    *(None, WEIGHTS, [1, 0, 0], [0.5, 0.5], [math.nan] * 3, "abc", [1e-300, 0.5, 0.5]),
    *([number] * 3 for number in FLOATS),
]
ALLOWED: list[Any] = [
    *(None, MASKS, ~MASKS, MASKS[0], np.zeros((3, 3)), [[1, 0]] * 3, [[2, 0]] * 3),
    *([[math.nan]] * 3, "abc", [[1], [1, 0], [1]]),
]


@fuzzed(few=60, cases=3_000)
@given(*(st.integers(0, len(values) - 1) for values in (DECLARED, SHARES, ALLOWED)))
def test_contexts(declared, shares, allowed):
    def act() -> Any:
        given = {"weights": SHARES[shares], "allowed": ALLOWED[allowed]}
        contexts = kl.Contexts(DECLARED[declared], **given)
        repr(contexts)
        for row in range(len(contexts)):
            assert all(contexts.find(form) == row for form in forms_of(contexts, row).values())
        return [contexts.X, contexts.weights, contexts.slots(30) if allowed == 1 else 0.0]

    ends_well(act)
