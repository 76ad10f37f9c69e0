"""Plain data with something else in one place, sealed again, and what a learner makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from koloss.errors import SnapshotError
from koloss.learners.reading import shown
from koloss.learners.snapshots import _digest
from tests.support.cases import Case

DEEP: Any = []
for _ in range(100_000):
    DEEP = [DEEP]

NAN, INF = float("nan"), float("inf")

BAD_VALUES: list[Any] = [
    *(None, True, "", "seed", "2", b"2", 2 + 3j, object(), DEEP, 10**5000, -(10**30), 2**63),
    *(NAN, INF, -INF, 1e308, -1e308, 5e-324, -1, -0.5, 0, 0.0, 7, 2.5),
    *([], [0.5], {}, {"kind": "Gaussian", "bandwidth": NAN}, {"kind": "Nothing"}, {1: 2}),
    *({"__array__": "array0"}, {"described": "x"}, {"described": 3}, {"plain": {}}, {"tuple": 3}),
    *({"plain": {"kind": "Linear"}}, {"plain": {"kind": "Ball", "dimension": 3}}, {"array": 1}),
    *(np.zeros(0), np.zeros(3), np.zeros((2, 2)), np.array(NAN), np.array([object()])),
    *(np.array(["a"]), np.zeros(3, dtype=complex), np.zeros((0, 10**6))),
]
"""What takes the place of each leaf and each branch of a state."""


def spoiled(array: np.ndarray, rng: np.random.Generator) -> Iterator[Any]:
    """An array with other numbers, another shape, or another type."""
    yield from (
        array[:-1],
        array[None],
        array.astype(complex),
        array.astype(object),
        array.tolist(),
    )
    yield from (
        np.concatenate([array, array]),
        array.astype("S8"),
        array.T[::-1].T,
        -array,
        array * 0,
    )
    if array.dtype.kind == "f":
        yield from (array.astype(np.float32), array.astype(int), array.astype(">f8"))
    bad = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e160)
    for value in bad if array.dtype.kind == "f" else (-1, -(2**40), 2**40, 2**63 - 1):
        changed = array.copy()
        if changed.size:
            changed.reshape(-1)[rng.integers(changed.size)] = value
        yield changed


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf and every branch, but for long lists, of which some items stand for all."""
    yield path, value
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, (list, tuple)):
        for k in range(len(value)) if len(value) <= 4 else (0, len(value) - 1):
            yield from places(value[k], (*path, k))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same with another value at a place; REMOVED takes a key or an item away."""
    key, *rest = path
    copied = dict(value) if isinstance(value, dict) else list(value)
    if new is REMOVED and not rest:
        del copied[key]
    else:
        copied[key] = replaced(value[key], tuple(rest), new) if rest else new
    return copied


REMOVED = object()


def mutations(state: dict[str, Any], rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """Places of a state, and what is put there."""
    for path, value in places(state):
        if not path:
            continue
        yield path, REMOVED
        if isinstance(value, dict):
            yield (*path, "more"), 0
        if isinstance(value, np.ndarray):
            yield from ((path, new) for new in spoiled(value, rng))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            near = (value + 1, value - 1, -value, value * 2, float(value), value * 1e12)
            yield from ((path, new) for new in near)
        yield from ((path, new) for new in BAD_VALUES)


def reseal(state: Any) -> Any:
    """The same state with the digest that belongs to it, where it can have one."""
    if not isinstance(state, dict) or not {"kind", "version"} <= set(state):
        return state
    rest = {k: v for k, v in state.items() if k != "digest"}
    try:
        return {**rest, "digest": _digest(rest)}
    except (TypeError, ValueError, RecursionError):
        return state


def label(name: str, path: tuple[Any, ...], new: Any) -> str:
    what = "removed" if new is REMOVED else shown(new)
    return f"{name}, {'.'.join(map(str, path))} = {what}"


def outcome(case: Case, state: Any, play: Callable[[Case, Any], str | None]) -> str | None:
    """Whether a state is refused as it should be, or makes a learner that plays; `play` says what is wrong with it."""
    try:
        learner = case.kind.from_state(state)
    except SnapshotError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    try:
        return play(case, learner)
    except Exception as error:
        return f"loads, and then {type(error).__name__}: {str(error)[:200]}"
