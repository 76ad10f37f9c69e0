"""Losses that are numbers, as they are told."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import as_float
from koloss.errors import LossOutOfBounds

FARTHEST = sys.float_info.max
"""The end of an interval that has none."""

LARGEST, SMALLEST = 1e120, 1e-120
"""Sizes of what is multiplied and divided by: the products of a round are still numbers."""

ROUNDING = 1e-6
"""Numbers are the same but for this."""


def read_losses(
    loss: Any, count: int, low: float, high: float, sign: int = 1, name: str = "loss"
) -> Sequence[float]:
    """Finite losses within the interval that was promised, one per decision; where `sign` is -1, rewards are told.

    Text, bytes, truth values, masked values and time differences are not losses.
    """
    if sign < 0:
        rewards = read_losses(loss, count, -high, -low, name=name)
        return [-rewards[0]] if count == 1 else -np.asarray(rewards)  # type: ignore[return-value]
    if count == 1 and type(loss) is float and low <= loss <= high:
        return (loss,)  # the lane for single calls
    if count > 1 and _are_within(loss, count, low, high):
        return loss  # type: ignore[no-any-return]  # the lane for batches
    losses = _as_numbers(loss, name)
    if losses.size != count or losses.ndim > 1:
        got = f"shape {losses.shape}"
        raise ValueError(f"`{name}` must have {count} entries, one per decision, got {got}")
    losses = losses.reshape(-1)
    if not np.all(np.isfinite(losses)):
        raise ValueError(f"`{name}` must be finite, got {loss!r}")
    rule, width = f"in [{low:.6g}, {high:.6g}]", high - low
    if high >= FARTHEST:
        rule, width = f"at least {low:.6g}", abs(low)
    elif low <= -FARTHEST:
        rule, width = f"at most {high:.6g}", abs(high)
    slack = 1e-9 * width
    outside = losses[(losses < low - slack) | (losses > high + slack)]
    if outside.size:
        raise LossOutOfBounds(f"`{name}` must be {rule}, got {outside[0]:.6g}")
    return losses.tolist() if count == 1 else losses  # type: ignore[return-value]


def _are_within(loss: Any, count: int, low: float, high: float) -> bool:
    """Whether it is an array of so many losses, all within the interval; where one is no number, so is the smallest."""
    if type(loss) is not np.ndarray or loss.dtype != np.float64 or loss.shape != (count,):
        return False
    return bool(low <= np.minimum.reduce(loss) and np.maximum.reduce(loss) <= high)


def _as_numbers(loss: Any, name: str) -> NDArray[np.float64]:
    if isinstance(loss, Sequence) and not isinstance(loss, (str, bytes, bytearray, memoryview)):
        loss = list(loss)
    members = loss if isinstance(loss, list) else [loss]
    if not any(map(_is_no_number, members)):
        try:
            array = np.asarray(loss)
        except (TypeError, ValueError):  # ragged
            array = np.array("")
        if array.dtype.kind in "iuf":
            return array.astype(float, copy=False)
        if array.dtype.kind == "O":  # fractions, decimals, integers beyond 64 bits
            return np.array([as_float(name, one) for one in array.flat]).reshape(array.shape)
    got = reprlib.repr(loss)
    raise TypeError(f"`{name}` must be a number or an array of numbers, got {got}")


def _is_no_number(one: Any, depth: int = 0) -> bool:
    """Whether it would become a number in an array, and is none: a truth value, a masked one."""
    if isinstance(one, (list, tuple)):
        return depth > 1 or any(_is_no_number(part, depth + 1) for part in one)
    truth = isinstance(one, (bool, np.bool_)) or getattr(one, "dtype", None) == np.bool_
    return truth or isinstance(one, np.ma.MaskedArray)
