"""What rounding may have done: numbers that are as good as equal, and replays that went another way.

Last digits differ from one BLAS, processor or version to another. Where a learner decides by a comparison, they may decide: a coin
between two actions, a tie between two forecasts, the end of an epoch. Whether they could is found by trying: the values of the
last few hundred calls are moved by far less than anybody can measure, and the study is replayed with them.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from koloss.errors import LossOutOfBounds
from koloss.learners import Decision, Decisions
from koloss.studies.state import State
from koloss.studies.store import Event

TOLERANCE = 1e-6
"""Numbers that differ by no more than this, relative to the larger, differ by rounding. Measured between kernels of OpenBLAS: 1e-9 at most."""

FLOOR = 1e-12
"""Numbers that differ by no more than this differ by rounding, too: what is zero here may be anything that small elsewhere."""

NOISES = (1e-12, 1e-10, 1e-8, 1e-6)
"""By which values are moved, in units of their range. The least comes first: where a forecast hangs on the difference of nearly
equal numbers, rounding does more than where it does not."""

TRIES = 8
"""Replays with values that were moved by each of these."""

BEFORE = 256
"""Calls before an event whose values are moved, at the least; fewer where the study is younger."""


def is_near(one: Any, other: Any) -> bool:
    """Whether two pieces of plain data are the same but for rounding: whole numbers and texts are equal, arrays as a whole near.

    Digests, which change with every digit, are passed over.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = one.keys() - {"digest"}
        same = names == other.keys() - {"digest"}
        return same and all(is_near(one[name], other[name]) for name in names)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) == len(other) and all(type(x) is float for x in (*one, *other)):
            return _are_near(np.array(one), np.array(other))
        return len(one) == len(other) and all(map(is_near, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype.kind != "f" or other.dtype.kind != "f":
            return one.dtype == other.dtype and np.array_equal(one, other)
        return one.shape == other.shape and _are_near(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return _are_near(np.array(one), np.array(other))
    return type(one) is type(other) and bool(one == other)


def _are_near(one: Any, other: Any) -> bool:
    sure = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~sure], other[~sure], equal_nan=True):
        return False
    largest = max(np.abs(one[sure]).max(initial=0.0), np.abs(other[sure]).max(initial=0.0))
    return bool(np.abs(one[sure] - other[sure]).max(initial=0.0) <= TOLERANCE * largest + FLOOR)


class Neighbours:
    """Replays of the latest calls with values that were moved a little."""

    def __init__(self) -> None:
        self._parts: list[tuple[State, list[Sequence[Event]]]] = []  # states, and calls since

    def before(self, state: State) -> None:
        """Remember the state at which a call comes, now and then."""
        if not self._parts or len(self._parts[-1][1]) >= BEFORE:
            self._parts = [*self._parts[-1:], (copy.deepcopy(state), [])]

    def add(self, group: Sequence[Event]) -> None:
        """Take note of a call."""
        self._parts[-1][1].append(group)

    def __iter__(self) -> Iterator[tuple[State, Decision | Decisions | None]]:
        """States after the latest call, with what it would have drawn."""
        begin, groups = self._parts[0][0], [group for _, part in self._parts for group in part]
        for noise, seed in itertools.product(NOISES, range(TRIES)):
            state, rng, drawn = copy.deepcopy(begin), np.random.default_rng(seed), None
            try:
                for group in groups:
                    moves = noise * rng.uniform(-1, 1, len(group))
                    drawn = state.apply(_moved(state, group, moves))
            except Exception:  # a history that is not ours does anything to a learner
                continue
            yield state, drawn


def _moved(state: State, group: Sequence[Event], moves: Any) -> Sequence[Event]:
    """Events of a call with values moved, in units of their range, as far as the learner can be told them."""
    if group[0].kind not in ("told", "expired"):
        return group
    low, high = state.learner.limits
    width = high - low if math.isfinite(high - low) else 0.0
    if group[0].kind == "expired":  # for which one value is told
        moves[:] = moves[0]
    moved = []
    for event, move in zip(group, moves.tolist(), strict=True):
        value = event.data.get("value")
        if value is not None:
            by = move * max(abs(value), width)
            value = next((v for v in (value + by, value - by) if _can_be_told(state, v)), value)
            event = replace(event, data={**event.data, "value": value})  # noqa: PLW2901
        moved.append(event)
    return moved


def _can_be_told(state: State, value: float) -> bool:
    try:
        state.settings.read(state.learner, value, 1)
    except LossOutOfBounds:
        return False
    return True
