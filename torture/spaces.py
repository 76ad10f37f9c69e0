"""Spaces: declarations that cannot be, data that were tampered with, params that name no action."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import UnknownDecision
from torture.extremes import FLOATS, INTS, pick, short, tried, waits
from torture.forging import BAD_VALUES, mutations, replaced
from torture.forms import ACTIONS, SPACE, bad_params
from torture.trials import Cases, trial

VALUES = [
    "a",
    "b",
    "",
    "lru",
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    2**63,
    (1, "a"),
    ("a",),
    math.nan,
]
VALUES += [10**400, 1j, b"a", object(), [1, 2], {}, {"a"}, "\ud800", np.float32(0.1), np.int8(3)]


# Declarations.


def _kind(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """The name of a kind of parameter and its arguments, of which some may be anything."""
    ends = pick(rng, FLOATS), pick(rng, FLOATS)
    if rng.random() < 0.4:
        ends = tuple(sorted(float(10 ** rng.uniform(-9, 9)) for _ in range(2)))
    some = [pick(rng, VALUES) for _ in range(int(rng.integers(4)))]
    if rng.random() < 0.5:
        some = ["a", "b", 3, None][: int(rng.integers(1, 5))]
    log = pick(rng, [False, False, True, True, 1, None, "yes"])
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("Float", {"low": ends[0], "high": ends[1], "log": log}),
        ("Float", {"low": 0.0, "high": ends[1], "step": pick(rng, FLOATS)}),
        ("Float", {"low": ends[0], "high": ends[1]}),
        ("Int", {"low": pick(rng, INTS), "high": pick(rng, INTS), "log": log}),
        ("Int", {"low": 1, "high": int(rng.integers(1, 9))}),
        ("Choice", {"values": some}),
        ("Ordinal", {"values": some}),
    ]
    return pick(rng, kinds if rng.random() < 0.3 else PLAIN)


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


def _condition(rng: np.random.Generator, names: list[str]) -> Any:
    """What a parameter may be made to depend on: others, itself, nobody."""
    if rng.random() < 0.8:
        return None
    name = pick(rng, [*names, "nobody"])
    return pick(
        rng,
        [
            *(
                {name: "a"},
                {name: ["a", 3]},
                {name: pick(rng, VALUES)},
                {name: 1.0},
                {name: [1, 2]},
            ),
            *(
                {},
                [],
                {name: []},
                {3: "a"},
                "a",
                3,
                {"x": "a", "y": "a"},
                [(name, "a")],
                {name: {"a"}},
            ),
        ],
    )


@trial("spaces: declarations of any kind", quick=30, full=400)
def declarations(rng: np.random.Generator) -> Cases:
    """Each is refused, or makes a space that draws, and whose params are its own again."""
    for _ in range(10):
        names = ["x", "y", "z"][: int(rng.integers(1, 4))]
        parts = {name: (*_kind(rng), _condition(rng, names)) for name in names}
        count = pick(rng, [4, 9, *(n for n in INTS if not waits(n))])
        label = ", ".join(
            f"{n}={p[0]}({short(list(p[1].values()))}, when={short(p[2])})"
            for n, p in parts.items()
        )
        yield tried(f"{label}, {short(count)} points", _declared, parts, count)


def _declared(parts: dict[str, Any], count: Any) -> Any:
    space = kl.Space(
        {n: getattr(kl, kind)(**given, when=when) for n, (kind, given, when) in parts.items()}
    )
    low, high = space.bounds()
    X = space.sample(9, rng=1)
    points = space.points(count)
    for rows in (X, points.X[:20]):
        params = space.decode(rows)
        again = space.encode(params)
        if not np.allclose(again, rows, rtol=0, atol=1e-9):
            raise RuntimeError(f"{params} are {again.tolist()}, not {rows.tolist()}")
        if space.decode(again) != params:
            raise RuntimeError(f"{params} become {space.decode(again)}")
        if not space.contains(again).all():
            raise RuntimeError(f"{params} are not in the space")
    if kl.ActionSet.from_dict(space.to_dict()) != space:
        raise RuntimeError(f"{space.to_dict()} is another space")
    return [low, high, X, points, points.discretisation(kl.Mixed(space))]


@trial("spaces: forged data are refused, or make a space", quick=20, full=300)
def forgeries(rng: np.random.Generator) -> Cases:
    """The data of a space with something else in one place, or in two."""
    data = json.loads(json.dumps(SPACE.to_dict()))
    changes = [(path, new) for path, new in mutations(data, rng) if not isinstance(new, np.ndarray)]
    for _ in range(20):
        forged, label = data, []
        for k in rng.integers(len(changes), size=int(rng.integers(1, 3))).tolist():
            path, new = changes[k]
            try:
                forged = replaced(forged, path, new)
                label.append(f"{'.'.join(map(str, path))} = {_text(new)}")
            except (KeyError, IndexError, TypeError):  # the first has taken that place away
                pass
        yield tried("; ".join(label), _read, forged)


def _text(value: Any) -> str:
    return "[[[...]]]" if value is BAD_VALUES[8] else short(value)


def _read(data: Any) -> Any:
    space = kl.ActionSet.from_dict(data)
    return [space.bounds(), space.sample(3, rng=1)]


# Params.


@trial("spaces: params that name no action are refused", quick=2, full=24)
def params(rng: np.random.Generator) -> Cases:
    """By the space, its points, and learners, which are as before."""
    settings = {"loss_range": (0, 1), "horizon": 60, "rng": int(rng.integers(99))}
    learners = [
        kind(ACTIONS, kl.Mixed(SPACE), **settings)
        for kind in (kl.BanditExpWeights, kl.InsuredBandit)
    ]
    waiting = [learner.ask(3) for learner in learners]
    good = ACTIONS.params[int(rng.integers(len(ACTIONS)))]
    digests = [learner.state()["digest"] for learner in learners]
    for what, bad in bad_params(good):
        calls: dict[str, Callable[[], Any]] = {
            "encode": partial(SPACE.encode, bad),
            "points": partial(SPACE.points, [good, bad]),
            "find": partial(ACTIONS.find, bad),
        }
        for k, (learner, batch) in enumerate(zip(learners, waiting, strict=True)):
            calls |= {
                f"tell {k}": partial(learner.tell, bad, 0.5),
                f"tell {k} of several": partial(learner.tell, [batch[0], bad], [0.5, 0.5]),
                f"forget {k}": partial(learner.forget, bad),
                f"ask {k}": partial(learner.ask, allowed=bad),
                f"ask {k} of several": partial(learner.ask, 2, allowed=[good, bad]),
                f"probability {k}": partial(learner.probability, [good, bad]),
            }
        for call, act in calls.items():
            yield _refused(f"{call}, {what} in {good}", act)
        changed = [learner.state()["digest"] for learner in learners] != digests
        yield f"{what} has changed a learner" if changed else None


def _refused(label: str, act: Callable[[], Any]) -> str | None:
    try:
        got = act()
    except (ValueError, TypeError, UnknownDecision) as error:
        return None if "`" in str(error) else f"{label}: names no argument: {error}"
    except Exception as error:
        return f"{label}: {type(error).__name__}: {error}"
    return f"{label}: was not refused, {short(got)}"
