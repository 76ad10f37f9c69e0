"""Strategies for plain data with something else in its place, sealed again, and for files with wrong bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import numpy as np

from koloss.errors import KolossError, UnknownDecision
from tests.support.cases import Case
from tests.support.forging import sealed
from tests.support.strategies import short

DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]

NAN, INF = math.nan, math.inf

VALUES: list[Any] = [
    *(None, True, "", "seed", "2", b"2", 2 + 3j, object(), DEEP, 10**5000, -(10**30), 2**63),
    *(NAN, INF, -INF, 1e308, -1e308, 5e-324, -1, -0.5, 0, 0.0, 7, 2.5),
    *([], [0.5], {}, {"kind": "Gaussian", "bandwidth": NAN}, {"kind": "Nothing"}, {1: 2}),
    *({"__array__": "array0"}, {"described": "x"}, {"described": 3}, {"plain": {}}, {"tuple": 3}),
    *({"plain": {"kind": "Linear"}}, {"plain": {"kind": "Ball", "dimension": 3}}, {"array": 1}),
    *(np.zeros(0), np.zeros(3), np.zeros((2, 2)), np.array(NAN), np.array([object()])),
    *(np.array(["a"]), np.zeros(3, dtype=complex), np.zeros((0, 10**6))),
    *("test", "default_rng", "Generator", "__doc__", "random", "PCG32", 4, 1, "x" * 10**6),
]
"""What takes the place of each leaf and each branch of a state."""

PLAIN = [value for value in VALUES if not isinstance(value, np.ndarray)]


class Change:
    """Another value at a place of a state; an empty list in the place of the value takes the place away."""

    def __init__(self, path: tuple[Any, ...], new: list[Any]) -> None:
        self.path, self.new = path, new

    def __repr__(self) -> str:
        place = ".".join(map(str, self.path))
        if not self.new:
            return f"{place} removed"
        (new,) = self.new
        return f"{place} = {'[[[...]]]' if new is DEEP else short(new)}"

    def on(self, state: Any) -> Any:
        """The state with this change; the same where another change has taken the place away."""
        try:
            return self._put(state, self.path)
        except (KeyError, IndexError, TypeError, ValueError):
            return state

    def _put(self, value: Any, path: tuple[Any, ...]) -> Any:
        key, *rest = path
        copied = dict(value) if isinstance(value, dict) else list(value)
        if rest:
            copied[key] = self._put(value[key], tuple(rest))
        elif self.new:
            copied[key] = self.new[0]
        else:
            del copied[key]
        return copied


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf and every branch, but for long lists, of which the ends stand for all."""
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, (list, tuple)):
        for k in range(len(value)) if len(value) <= 4 else (0, len(value) - 1):
            yield from places(value[k], (*path, k))


@st.composite
def spoiled(draw: Any, array: np.ndarray) -> Any:
    """An array with other numbers, another shape, or another type."""
    ways = [
        *(-array, array * 0, array[:-1], array[None], np.concatenate([array, array])),
        *(array.T[::-1].T, array.tolist(), array.astype(complex), array.astype(object)),
        array.astype("S8"),
    ] if array.ndim else [-array, array[None], array.tolist(), array.astype(object)]  # fmt: skip
    bad: tuple[Any, ...] = (-1, -(2**40), 2**40, 2**63 - 1)
    if array.dtype.kind == "f":
        ways += [array.astype(np.float32), array.astype(int), array.astype(">f8")]
        bad = (NAN, INF, -INF, 1e308, -1e308, 1e160)
    way = draw(st.integers(0, len(ways) + len(bad) - 1))
    if way < len(ways):
        return ways[way]
    changed = array.copy()
    if changed.size:
        changed.reshape(-1)[draw(st.integers(0, changed.size - 1))] = bad[way - len(ways)]
    return changed


@st.composite
def changes(draw: Any, state: Any, plain: bool = False) -> list[Change]:
    """One change of a state, or two, each at a place of its own; `plain`: without arrays."""
    values = PLAIN if plain else VALUES
    known = [(path, value) for path, value in places(state) if path]
    found = []
    for _ in range(draw(st.integers(1, 2))):
        path, value = known[draw(st.integers(0, len(known) - 1))]
        way = draw(st.integers(0, 5))
        if way == 0:
            found.append(Change(path, []))
        elif way == 1 and isinstance(value, dict):
            found.append(Change((*path, "more"), [0]))
        elif way in (1, 2, 3) and isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            found.append(Change(path, [draw(spoiled(value))]))
        elif way in (1, 2, 3) and isinstance(value, (int, float)) and not isinstance(value, bool):
            near = (value + 1, value - 1, -value, value * 2, float(value), value * 1e12)
            found.append(Change(path, [near[draw(st.integers(0, 5))]]))
        else:
            found.append(Change(path, [values[draw(st.integers(0, len(values) - 1))]]))
    return found


def forged(state: Any, made: list[Change]) -> Any:
    """The state with these changes, and the digest that belongs to it where it can have one."""
    for change in made:
        state = change.on(state)
    try:
        return sealed(state)
    except (TypeError, ValueError, RecursionError):
        return state


@st.composite
def wrong_bytes(draw: Any, content: bytes) -> bytes:
    """A file with wrong bits, cut off at either end, or with something put into it."""
    at = draw(st.integers(0, len(content) - 1))
    way = draw(st.sampled_from(["bit", "bit", "bit", "bit", "end", "zeros", "beginning", "more"]))
    if way == "bit":
        return (
            content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        )
    if way == "end":
        return content[:at]
    if way == "zeros":
        return content[:at] + bytes(len(content) - at)
    if way == "beginning":
        return content[at:]
    return content[:at] + draw(st.binary(min_size=1, max_size=100)) + content[at:]


@np.errstate(all="ignore")
def plays(case: Case, learner: Any) -> None:
    """A learner that was loaded makes decisions, hears late losses and new ones, and knows its bound, or says why not in an error of ours.

    Numbers that were forged may overflow, and it may play oddly.
    """
    try:
        for t in range(3):
            decision = learner.ask(**case.asked(t))
            learner.tell(decision, case.loss(decision.action, t))
            for late in range(5 * t, 5 * t + 5):
                with suppress(UnknownDecision):
                    learner.tell(late, case.loss(np.zeros(len(decision.action)), late))
        if case.finite and "contexts" not in case.settings:
            _ = learner.distribution, learner.recommend()
        learner.guarantee()
        str(learner.diagnostics), learner.state()
    except (KolossError, ValueError, TypeError) as error:
        if not isinstance(error, KolossError) and "`" not in str(error):
            raise
