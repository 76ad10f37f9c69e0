"""What parameters have in common: values as plain data, positions of them, conditions."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import as_float, shown
from koloss.core.plain import Plain


class Parameter(Plain, abc.ABC):
    """One named part of a `Space`. Where it has finitely many values, they are numbered from 0."""

    when: dict[str, tuple[Any, ...]] | None
    """Values of other parameters for which this one matters; None: always."""

    count: int | None
    """Number of values; None: a continuum."""

    @abc.abstractmethod
    def check(self, name: str, value: Any) -> Any:
        """The value as plain data, or an error that names the parameter."""

    @abc.abstractmethod
    def number(self, value: Any) -> int:
        """The number of a value that has been checked."""

    @abc.abstractmethod
    def value(self, number: int) -> Any:
        """The value with this number."""

    def position(self, numbers: NDArray[Any]) -> NDArray[np.float64]:
        """Positions of the values with these numbers."""
        return np.asarray(numbers, dtype=float) / max(self._last, 1)

    def nearest(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        """Numbers of the values nearest to these positions."""
        numbers = np.rint(np.asarray(positions, dtype=float) * self._last)
        return self._clipped(numbers)

    def _clipped(self, numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        clipped: NDArray[np.int64] = np.clip(numbers, 0, self._last).astype(np.int64)
        return clipped

    def encode(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Positions of values that have been checked."""
        return self.position(np.array([self.number(v) for v in values], dtype=np.int64))

    def decode(self, positions: NDArray[Any]) -> list[Any]:
        """Values at the nearest positions there are."""
        return [self.value(i) for i in self.nearest(positions).tolist()]

    def snap(self, positions: NDArray[Any]) -> NDArray[np.float64]:
        """Nearest positions there are."""
        return self.position(self.nearest(positions))

    def quantile(self, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Positions of values that are spread evenly where `uniform` is over [0, 1)."""
        return self.position(np.minimum(np.floor(uniform * (self._last + 1)), self._last))

    is_nominal: ClassVar[bool] = False
    """Whether its values have no order, so that none can stand for another."""

    def grid(
        self, step: float, whole: bool, limit: float
    ) -> tuple[NDArray[np.float64] | None, float]:
        """Some of the positions, and half a step or less, as far as any other is from them at most.

        A `whole` grid has all positions; one of more than `limit` is None.
        """
        if whole or (self._last + 1) * step <= 1:
            numbers = np.arange(self._last + 1) if self._last < limit else None
        else:
            numbers = self._some(step) if 1 / step < limit else None
        if numbers is None:
            return None, 0.0
        positions = self.position(numbers)
        gaps = np.diff(positions)[
            np.diff(numbers) > 1
        ]  # a value left out is in the middle at worst
        return positions, min(float(gaps.max(initial=0.0)), step) / 2

    def _some(self, step: float) -> NDArray[np.int64]:
        """Numbers of values that leave out none by more than half a step."""
        stride = max(math.floor(step * self._last), 1)
        return np.unique(np.append(np.arange(0, self._last, stride), self._last))

    @property
    def _last(self) -> int:
        """Number of the last value."""
        assert self.count is not None
        return self.count - 1

    def parts(self) -> dict[str, Any]:
        when = None if self.when is None else tuple(self.when.items())
        parts = super().parts() | {"when": when}
        return {k: v for k, v in parts.items() if v is not None and v is not False}

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, "when"):  # which is set last
            raise AttributeError(f"`{name}` of {self!r} cannot be changed: make another one")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameter):
            return NotImplemented
        return type(self) is type(other) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> Any:
        return identity(tuple(self.parts().items()))

    def __repr__(self) -> str:
        parts = self.parts()
        if self.when is not None:
            parts["when"] = {
                k: v[0] if len(v) == 1 and not isinstance(v[0], tuple) else list(v)
                for k, v in self.when.items()
            }
        first = [repr(parts.pop(k)) for k in ("low", "high") if k in parts]
        if "values" in parts:
            first = [repr(list(parts.pop("values")))]
        rest = [f"{k}={v!r}" for k, v in parts.items()]
        return f"{type(self).__name__}({', '.join(first + rest)})"


DEEPEST = 20
"""Tuples within tuples of a value."""


def plain(name: str, value: Any, depth: int = 0) -> Any:
    """A value as plain data: None, True, False, a finite number, text, or a tuple of these."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return as_text(name, str.__str__(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return as_float(name, value)
    if isinstance(value, (list, tuple)):
        if depth == DEEPEST:
            raise ValueError(f"`{name}` must be nested at most {DEEPEST} deep, got more")
        return tuple(plain(name, v, depth + 1) for v in value)
    rule = "must be None, True, False, numbers, text or tuples of these"
    raise TypeError(f"`{name}` {rule}, got {shown(value)}")


def as_text(name: str, value: Any) -> str:
    """Text that can be written."""
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be text, got {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"`{name}` must be text that can be written, got {value!r}") from error
    return value


def identity(value: Any) -> Any:
    """What tells plain values apart: True and 1 are two, 1 and 1.0 one."""
    if isinstance(value, tuple):
        return tuple(map(identity, value))
    return (isinstance(value, bool), value)


def as_values(name: str, values: Any) -> tuple[Any, ...]:
    """Several values, in the order given."""
    if isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable):
        raise TypeError(f"`{name}` must be a list of values, got {shown(values)}")
    found = tuple(plain(name, v) for v in values)
    if not found:
        raise ValueError(f"`{name}` must not be empty")
    return found


def as_condition(when: Any) -> dict[str, tuple[Any, ...]] | None:
    """Names of parameters with the values that they must have; a list, tuple or set has several."""
    if when is None:
        return None
    if not isinstance(when, (Mapping, list, tuple)):
        raise TypeError(f"`when` must map names to values, got {shown(when)}")
    try:
        pairs = dict(when)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`when` must map names to values, got {shown(when)}") from error
    if not pairs:
        raise ValueError("`when` must name a parameter, got none")
    condition = {}
    for name, values in pairs.items():
        if isinstance(values, (list, tuple, range, Set)):
            several = sorted(values, key=repr) if isinstance(values, Set) else values
        else:
            several = [values]
        condition[as_text("when", name)] = as_values("when", several)
    return condition
