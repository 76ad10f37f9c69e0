"""Contexts, params and some of the actions, in all ways in which they can be given; and what is none of these."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import koloss as kl
from torture.extremes import short

SPACE = kl.Space(
    method=kl.Choice(["lru", "lfu", "random"]),
    size=kl.Int(8, 512, log=True),
    level=kl.Ordinal([1, 2, 3]),
    flag=kl.Choice([False, True, None]),
    depth=kl.Int(1, 4, when={"method": "lru"}),
    decay=kl.Float(0.01, 1.0, log=True, when={"method": ["lfu", "lru"], "flag": True}),
    step=kl.Float(0.0, 1.0, step=0.1),
)
ACTIONS = SPACE.points(24)


def forms_of(contexts: kl.Contexts, row: int) -> dict[str, Any]:
    """One context, in all ways in which it can be given."""
    if contexts.labels is not None:
        given = contexts.labels[row]
        other = np.str_(given) if isinstance(given, str) else np.int64(given)
        return {"a label": given, "a NumPy label": other}
    x = contexts.X[row]
    ways = {"a row": row, "a NumPy row": np.int64(row), "coordinates": x, "a list": x.tolist()}
    if contexts.points is not None:
        named = contexts.points.params[row]
        ways |= {"params": named, "params in another order": dict(reversed(named.items()))}
    return ways


BAD_CONTEXTS: dict[str, Any] = {
    **{repr(x): x for x in ("nobody", "", "A", b"a", True, False, np.True_, 1j, -1, 99, 0.5, 1.5)},
    **{repr(x): x for x in (math.nan, math.inf, np.float64("nan"), np.datetime64("2020"), int)},
    "nothing": None,
    "beyond 64 bits": 10**400,
    "beyond floats": [10**400],
    "an object": object(),
    "no list": [],
    "a list of nothing": [None, None],
    "a dict": {},
    "unknown params": {"nobody": 1},
    "params of NaN": {"x": math.nan, "y": 0.5},
    "params outside": {"x": 2.0, "y": 0.5},
    "params of another kind": {"day": "week", "hour": "6"},
    "what does not matter": {"day": "end", "hour": 6},
    "a set": {0},
    "a slice": slice(1),
    "a generator": (x for x in [0.5, 0.5]),
    "masked": np.ma.masked,
    "complex coordinates": np.array([0.5 + 1j, 0.5]),
    "flags": np.array([True, False]),
    "texts": ["0.5", "0.5"],
    "too many coordinates": [0.5] * 9,
    "a table": np.zeros((2, 2)),
    "not finite": [math.nan, 0.5],
    "outside": [7.0, -8.0],
    "ragged": [[0.5], [0.5, 0.5]],
}


def bad_batches(good: list[Any]) -> dict[str, Any]:
    """What is no sequence of contexts, one for each of several decisions."""
    ways: dict[str, Any] = {"too few": good[1:], "too many": [*good, good[0]], "nothing": None}
    ways |= {"one": good[0], "a set": {0, 1}, "a dict": {0: good[0]}, "a generator": iter(good)}
    ways |= {"text": "abc"[: len(good)], "a number": 3, "an array of no dimension": np.array(1)}
    for what, bad in BAD_CONTEXTS.items():
        ways[f"{what} among good ones"] = [*good[1:], bad]
    return ways


def forms_of_mask(mask: Any, points: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Some actions, in all ways in which they can be given."""
    rows = rng.permutation(np.flatnonzero(mask))
    ways = {"truth values": mask, "a list of them": mask.tolist(), "NumPy's": list(mask)}
    ways |= {"rows": rows.tolist(), "an array of rows": rows, "a tuple": tuple(rows.tolist())}
    ways |= {"small integers": rows.astype(np.int16), "unsigned": rows.astype(np.uint64)}
    if points is not None:
        ways["params"] = [points[row] for row in rows]
        ways |= {"one dict": points[rows[0]]} if len(rows) == 1 else {}
    return ways


def bad_masks(count: int, available: Any) -> dict[str, Any]:
    """What leaves no action, or says nothing of actions."""
    bad: dict[str, Any] = {
        "none": np.zeros(count, dtype=bool),
        "no rows": [],
        "too short": np.ones(count - 1, dtype=bool),
        "too long": [True] * (count + 1),
        "floats": np.ones(count),
        "NaN": [math.nan] * count,
        "zeros and ones": [0, 1] * (count // 2),
        "a table": np.ones((count, 1), dtype=bool),
        "a row that is none": [0, count],
        "a negative row": [-1],
        "a row twice": [1, 1],
        "beyond 64 bits": [10**400],
        "text": "all",
        "texts": ["0", "1"],
        "an object": object(),
        "a number": 1,
        "True": True,
        "a set": {0, 1},
        "a generator": iter([0, 1]),
        "ragged": [[0], [0, 1]],
        "a dict": {0: True},
        "rows and params": [0, {}],
        "params of nobody": [{"nobody": 1}],
        "dates": np.array(["2020"], dtype="M8[D]"),
        "nothing among rows": [0, None],
        "masked": np.ma.array([True] * count, mask=[True] * count),
    }
    if not available.all():
        bad["what is not on offer"] = ~available
    return bad


def bad_params(good: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is no action of `SPACE`, made of one that is."""
    yield "nothing", {}
    yield "one more", good | {"more": 1}
    yield "a name that is a number", good | {1: 1}
    yield "a surrogate as a name", good | {"\ud800": 1}
    for name, now in good.items():
        yield f"without {name}", {k: v for k, v in good.items() if k != name}
        yield f"{name} in capitals", {k.upper() if k == name else k: v for k, v in good.items()}
        for value in (
            "nobody",
            "",
            b"lru",
            math.nan,
            math.inf,
            -1,
            10**400,
            1j,
            object(),
            [1],
            {},
            np.zeros(2),
        ):
            yield f"{name} = {short(value)}", good | {name: value}
        if now is not None:
            yield f"{name} = None", good | {name: pick_none(name)}
    if good["method"] == "random":
        yield "what does not matter", good | {"depth": 2}
    yield "True for 1", good | {"level": True}
    yield "1 for True", good | {"flag": 1}
    yield "text for a number", good | {"size": "8"}
    yield "half", good | {"size": 8.5}
    yield "between steps", good | {"step": 0.05}


def pick_none(name: str) -> Any:
    """None, or what is none where None is a value."""
    return "None" if name == "flag" else None
