"""What a `Space` is declared by: numbers, whole numbers, choices and ordered choices, and when each of them matters.

Each has positions in [0, 1], the coordinates that kernels see: of a number its place between `low` and `high`, of the
i-th of k values i/(k - 1).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import LARGEST, as_flag, as_float, as_int, shown
from koloss.core.plain import Plain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_VALUES = 2**50
"""Most values of a whole number, or of a float with steps: beyond it two of them could have one position."""

LARGEST_LOG = 2**40
"""Largest whole number on a log scale, for the same reason."""

DEEPEST = 20
"""Tuples within tuples of a value."""


class Parameter(Plain, abc.ABC):
    """One named part of a `Space`. Where it has finitely many values, they are numbered from 0."""

    when: dict[str, tuple[Any, ...]] | None  # values of others for which it matters; None: always
    count: int | None  # number of values; None: a continuum
    is_nominal: ClassVar[bool] = False  # whether its values have no order: none stands for another

    @abc.abstractmethod
    def check(self, name: str, value: Any) -> Any:
        """The value as plain data, or an error that names the parameter."""

    @abc.abstractmethod
    def number(self, value: Any) -> int:
        """The number of a value that has been checked."""

    @abc.abstractmethod
    def value(self, number: int) -> Any:
        """The value with this number."""

    def position(self, numbers: NDArray[Any]) -> Floats:
        """Positions of the values with these numbers."""
        return np.asarray(numbers, dtype=float) / max(self._last, 1)

    def nearest(self, positions: NDArray[Any]) -> Ints:
        """Numbers of the values nearest to these positions."""
        return self._clipped(np.asarray(positions, dtype=float) * self._last)

    def _clipped(self, numbers: Floats) -> Ints:
        clipped: Ints = np.clip(np.rint(numbers), 0, self._last).astype(np.int64)
        return clipped

    def encode(self, values: Sequence[Any]) -> Floats:
        """Positions of values that have been checked."""
        return self.position(np.array([self.number(v) for v in values], dtype=np.int64))

    def decode(self, positions: NDArray[Any]) -> list[Any]:
        """Values at the nearest positions there are."""
        return [self.value(i) for i in self.nearest(positions).tolist()]

    def snap(self, positions: NDArray[Any]) -> Floats:
        """Nearest positions there are."""
        return self.position(self.nearest(positions))

    def quantile(self, uniform: Floats) -> Floats:
        """Positions of values that are spread evenly where `uniform` is over [0, 1)."""
        return self.position(np.minimum(np.floor(uniform * (self._last + 1)), self._last))

    def grid(self, step: float, whole: bool, limit: float) -> tuple[Floats | None, float]:
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
        # A value that is left out is in the middle between two at worst.
        gaps = np.diff(positions)[np.diff(numbers) > 1]
        return positions, min(float(gaps.max(initial=0.0)), step) / 2

    def _some(self, step: float) -> Ints:
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


class Float(Parameter):
    """A number from `low` to `high`.

    Parameters
    ----------
    low, high : float
        Ends, both included.
    log : bool
        Whether the logarithm is what counts: positions and draws are even on the log scale.
    step : float, optional
        Only low, low + step, low + 2 step, ... Where the last of them is below `high`, that is `high`.
        Values are those of decimal arithmetic: with steps of 0.1 there is 0.3, and no 0.30000000000000004.
    when : mapping, optional
        Values of other parameters for which this one matters, as in `Space`.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Float(0.001, 1, log=True)
    Float(0.001, 1.0, log=True)
    >>> kl.Float(0, 1, step=0.3)
    Float(0.0, 0.9, step=0.3)
    """

    def __init__(
        self,
        low: float,
        high: float,
        log: bool = False,
        step: float | None = None,
        when: Any = None,
    ) -> None:
        self.low: float = as_float("low", low)
        self.high: float = as_float("high", high)
        _check_ends(self.low, self.high)
        for name, end in (("low", self.low), ("high", self.high)):
            if abs(end) > LARGEST:
                raise ValueError(f"`{name}` must be at most {LARGEST:g} in size, got {end:.6g}")
        self.log = as_flag("log", log)
        if self.log and self.low < 1 / LARGEST:
            rule = "must be positive" if self.low <= 0 else f"must be at least {1 / LARGEST:g}"
            raise ValueError(f"`low` {rule} on a log scale, got {self.low:.6g}")
        self.step = None if step is None else as_float("step", step, positive=True)
        self.count = 1 if self.low == self.high else None
        if self.step is not None:
            self._set_steps(self.step)
        self.when = as_condition(when)

    def _set_steps(self, step: float) -> None:
        if self.log:
            raise ValueError(f"`step` must be None on a log scale, got {step:.6g}")
        last = (Fraction(repr(self.high)) - Fraction(repr(self.low))) // Fraction(repr(step))
        size = max(-self.low, self.high)
        if last >= MOST_VALUES or step < 8 * math.ulp(size):
            raise ValueError(f"`step` must leave values apart, got {step!r} of {size!r}")
        self.count = last + 1
        self.high = self.value(self.count - 1)

    def check(self, name: str, value: Any) -> float:
        number = as_float(name, value)
        size = max(-self.low, self.high)
        near = 4 * math.ulp(size)
        if self.step is not None:
            number = self.value(max(0, min(self.number(number), self._last)))
            near += 1e-9 * self.step
            if abs(number - as_float(name, value)) > near:
                rule = f"from {self.low!r} to {self.high!r} in steps of {self.step!r}"
                raise ValueError(f"`{name}` must be {rule}, got {shown(value)}")
        elif not self.low - near <= number <= self.high + near:
            rule = f"from {self.low!r} to {self.high!r}"
            raise ValueError(f"`{name}` must be {rule}, got {shown(value)}")
        return min(max(number, self.low), self.high)

    def number(self, value: Any) -> int:
        return 0 if self.step is None else round(float(value - self.low) / self.step)

    def value(self, number: int) -> float:
        if self.step is None:
            return self.low
        return float(Decimal(repr(self.low)) + number * Decimal(repr(self.step)))

    def encode(self, values: Sequence[Any]) -> Floats:
        return super().encode(values) if self.count else self._places(np.array(values, dtype=float))

    def decode(self, positions: NDArray[Any]) -> list[float]:
        if self.count:
            return super().decode(positions)
        # Numbers as people write them come back as they were: of all with the same place, one of few digits, or the end.
        places = np.asarray(positions, dtype=float)
        x = self._settled(places)
        short = np.array([self._short(v) for v in x.tolist()])
        at = self._places(short)
        same = ((at == places) | (at == self._places(x))) & (places > 0) & (places < 1)
        values: list[float] = np.where(same, short, x).tolist()
        return values

    def snap(self, positions: NDArray[Any]) -> Floats:
        if self.count:
            return super().snap(positions)
        nearest: Floats = np.clip(np.asarray(positions, dtype=float), 0.0, 1.0)
        return nearest

    def quantile(self, uniform: Floats) -> Floats:
        return super().quantile(uniform) if self.count else self._places(self._settled(uniform))

    def grid(self, step: float, whole: bool, limit: float) -> tuple[Floats | None, float]:
        if self.count:
            return super().grid(step, whole, limit)
        if 1 / step >= limit:
            return None, 0.0
        cells = math.ceil(1 / step * (1 - 1e-12))
        positions = np.unique(self.quantile(np.linspace(0, 1, cells + 1)))
        return positions, float(np.diff(positions).max()) / 2

    def _short(self, x: float) -> float:
        """A number of few digits next to x: 12 on a log scale, else as many as the larger end has in 14."""
        size = max(-self.low, self.high)
        short = float(f"{x:.12g}") if self.log else round(x, 14 - math.ceil(math.log10(size)))
        return min(max(short, self.low), self.high)

    def _settled(self, places: Floats) -> Floats:
        """Values at these places, each of which is the value at its own place.

        x ↦ value(place(x)) is monotone, so that repeating it comes to an end, nearly always at once.
        """
        x = self._values(places)
        for _ in range(100):
            again = self._values(self._places(x))
            if np.array_equal(again, x):
                break
            x = again
        return x

    def _places(self, x: Floats) -> Floats:
        low, width = self.low, self.high - self.low
        if self.log:
            places: Floats = np.log1p((x - low) / low) / math.log1p(width / low)
        else:
            places = (x - low) / width
        return np.minimum(places, 1.0)

    def _values(self, places: Floats) -> Floats:
        low, width = self.low, self.high - self.low
        u = np.clip(places, 0.0, 1.0)
        x = low * np.exp(u * math.log1p(width / low)) if self.log else low + u * width
        return np.where(u == 1.0, self.high, np.clip(x, low, self.high))


class Int(Parameter):
    """A whole number from `low` to `high`.

    Parameters
    ----------
    low, high : int
        Ends, both included.
    log, when
        As for `Float`.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Int(1, 1024, log=True)
    Int(1, 1024, log=True)
    """

    def __init__(self, low: int, high: int, log: bool = False, when: Any = None) -> None:
        far = 10**100  # more than anyone counts
        self.low = as_int("low", low, minimum=-far, maximum=far)
        self.high = as_int("high", high, minimum=-far, maximum=far)
        _check_ends(self.low, self.high)
        self.log = as_flag("log", log)
        if self.log and self.low < 1:
            raise ValueError(f"`low` must be at least 1 on a log scale, got {self.low}")
        if self.log and self.high > LARGEST_LOG:
            raise ValueError(f"`high` must be at most 2**40 on a log scale, got {self.high}")
        self.count = self.high - self.low + 1
        if self.count > MOST_VALUES:
            reason = "so that every value has a position of its own"
            rule = f"must be less than 2**50 above `low`, {reason}"
            raise ValueError(f"`high` {rule}, got {self.count - 1}")
        self.when = as_condition(when)

    def check(self, name: str, value: Any) -> int:
        return as_int(name, value, minimum=self.low, maximum=self.high)

    def number(self, value: Any) -> int:
        return int(value) - self.low

    def value(self, number: int) -> int:
        return self.low + number

    def position(self, numbers: NDArray[Any]) -> Floats:
        if not self.log or self.count == 1:
            return super().position(numbers)
        numbers = np.asarray(numbers, dtype=float)
        places: Floats = np.log1p(numbers / self.low) / self._logs
        return np.minimum(places, 1.0)

    def nearest(self, positions: NDArray[Any]) -> Ints:
        if not self.log:
            return super().nearest(positions)
        places = np.clip(np.asarray(positions, dtype=float), 0.0, 1.0)
        return self._clipped(self.low * np.expm1(places * self._logs))

    def quantile(self, uniform: Floats) -> Floats:
        if not self.log:
            return super().quantile(uniform)
        # Even on the log scale from low - 1/2 to high + 1/2, so that the ends get what is theirs.
        low, high = self.low - 0.5, self.high + 0.5
        numbers = np.rint(low * np.exp(uniform * math.log(high / low))) - self.low
        return self.position(np.clip(numbers, 0, self._last))

    def _some(self, step: float) -> Ints:
        if not self.log:
            return super()._some(step)
        # A value is within a quarter of a step of one of these places, and what is nearest to that place is as near to it.
        return np.unique(self.nearest(np.linspace(0, 1, math.ceil(2 / step) + 1)))

    @property
    def _logs(self) -> float:
        return math.log1p(self._last / self.low)


class Choice(Parameter):
    """One of several values without an order.

    Parameters
    ----------
    values : sequence
        None, True, False, numbers, text, or tuples of these. True and 1 are different values, 1 and 1.0 are not.
    when : mapping, optional
        As for `Float`.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Choice(["lru", "lfu"])
    Choice(['lru', 'lfu'])
    """

    is_nominal = True

    def __init__(self, values: Iterable[Any], when: Any = None) -> None:
        self.values = as_values("values", values)
        self._numbers = {identity(v): i for i, v in enumerate(self.values)}
        if len(self._numbers) < len(self.values):
            twice = next(v for i, v in enumerate(self.values) if self._numbers[identity(v)] != i)
            raise ValueError(f"`values` must be different, got {shown(twice)} twice")
        self.count = len(self.values)
        self.when = as_condition(when)

    def check(self, name: str, value: Any) -> Any:
        try:
            return self.values[self._numbers[identity(plain(name, value))]]
        except (KeyError, TypeError) as error:
            among = ", ".join(map(repr, self.values[:10])) + ", ..." * (len(self.values) > 10)
            raise ValueError(f"`{name}` must be one of {among}, got {shown(value)}") from error

    def number(self, value: Any) -> int:
        return self._numbers[identity(value)]

    def value(self, number: int) -> Any:
        return self.values[number]


class Ordinal(Choice):
    """One of several values in an order, from one end to the other: neighbours are alike. Parameters are those of `Choice`.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.Ordinal(["small", "medium", "large"])
    Ordinal(['small', 'medium', 'large'])
    """

    is_nominal = False


def _check_ends(low: float, high: float) -> None:
    if low > high:
        raise ValueError(f"`low` must not exceed `high`, got {low!r} > {high!r}")


# Values and conditions as plain data.


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
