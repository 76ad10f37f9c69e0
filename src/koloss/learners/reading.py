"""Snapshots read with suspicion: every value is checked as it is taken.

A digest shows damage, not intent: a snapshot that was changed can be sealed again. So what is read must have the type, shape and
size that the learner relies on, and must be finite; whatever is not is a `SnapshotError` that names its place. Values that are
legal one by one are not compared with each other: such a snapshot may make a learner that plays oddly.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from koloss.errors import PolicyError, SnapshotError

T = TypeVar("T")

MOST = 2**62
"""Largest count."""

LARGEST, SMALLEST = 1e120, 1e-120
"""Sizes of what is multiplied and divided by: the products of a round are still numbers."""

FARTHEST = 1e152
"""Largest coordinate: its square is still a number."""

ROUNDING = 1e-6
"""Probabilities add up to 1 but for this."""


def shown(value: Any) -> str:
    """A value in a few words, whatever it is."""
    try:
        return reprlib.repr(value)
    except Exception:  # an integer of thousands of digits, an object that cannot be shown
        return f"a value of type {type(value).__name__}"


def plain(thing: Any, *names: str) -> dict[str, Any]:
    """Attributes as plain data for a snapshot, arrays copied."""
    values = {name: getattr(thing, name) for name in names}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            values[name] = value.astype(np.int64) if value.dtype == bool else value.copy(order="K")
    return values


class Reader:
    """A part of a snapshot.

    Examples
    --------
    >>> data = Reader({"heard": 3, "theta": np.zeros(2)})
    >>> data.count("heard"), data.array("theta", (2,)).tolist()
    (3, [0.0, 0.0])
    >>> data.array("theta", (3,))
    Traceback (most recent call last):
        ...
    koloss.errors.SnapshotError: `theta` in `state` must have shape (3,), got (2,)
    """

    def __init__(self, data: Any, place: str = "", whole: Reader | None = None) -> None:
        self._data, self._place = data, place
        self._whole: Reader = self if whole is None else whole
        self._taken: set[str] = set()
        self._parts: list[Reader] = []
        self._latest = (self, "")  # where the reading is
        if not isinstance(data, Mapping):
            self.refuse("", "must be a mapping", data)

    def refuse(self, name: str, rule: str, got: Any) -> NoReturn:
        """Say what is wrong with a value."""
        raise SnapshotError(f"`{self._name(name)}` in `state` {rule}, got {shown(got)}")

    def _name(self, name: str) -> str:
        return ".".join(filter(None, (self._place, name)))

    @contextmanager
    def suspicion(self) -> Iterator[None]:
        """Whatever goes wrong in here is put down to the snapshot, but for what a policy of the user's does."""
        try:
            yield
        except (SnapshotError, PolicyError, MemoryError):
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            part, name = self._whole._latest
            near = f"at `{part._name(name)}`, or for what was read before it"
            raise SnapshotError(
                f"`state` must be intact, got one that fails {near}: {what}"
            ) from error

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        unknown = set(self._data) - self._taken
        if unknown:
            self.refuse(
                "", "must have no other keys than those of its kind", sorted(map(str, unknown))
            )
        for part in self._parts:
            part.finish()

    # Values.

    def raw(self, name: str) -> Any:
        """A value as it is."""
        self._whole._latest = (self, name)
        self._taken.add(name)
        try:
            return self._data[name]
        except KeyError:
            message = f"`{self._name(name)}` in `state` must be there, got nothing"
            raise SnapshotError(message) from None

    def has_key(self, name: str) -> bool:
        """Whether there is such a key."""
        return name in self._data

    def has(self, name: str) -> bool:
        """Whether a value is there, and not None."""
        return self.raw(name) is not None

    def nothing(self, *names: str) -> None:
        """Values that must be None."""
        for name in names:
            if self.has(name):
                self.refuse(name, "must be None", self.raw(name))

    def part(self, name: str) -> Reader:
        """A mapping inside."""
        return self._part(name, self.raw(name))

    def _part(self, name: str, value: Any) -> Reader:
        self._parts.append(Reader(value, self._name(name), self._whole))
        return self._parts[-1]

    def sequence(self, name: str, length: int | None = None) -> Sequence[Any]:
        """A list, of so many items."""
        value = self.raw(name)
        if not isinstance(value, (list, tuple)) or (length is not None and len(value) != length):
            self.refuse(name, f"must be a list{'' if length is None else f' of {length}'}", value)
        return value

    def parts(self, name: str) -> list[Reader]:
        """Mappings in a list."""
        return [self._part(f"{name}[{k}]", v) for k, v in enumerate(self.sequence(name))]

    def items(self, name: str, length: int | None = None) -> Reader:
        """A list, as a reader of its items by their numbers, as text."""
        items = self.sequence(name, length)
        return self._part(name, {str(k): item for k, item in enumerate(items)})

    def __len__(self) -> int:
        return len(self._data)

    def count(self, name: str, least: int = 0, most: int = MOST) -> int:
        """A whole number."""
        value = self.raw(name)
        if type(value) is not int or not least <= value <= most:
            self.refuse(name, f"must be a whole number from {least} to {most}", value)
        return value

    def number(
        self,
        name: str,
        least: float = -math.inf,
        most: float = math.inf,
        *,
        positive: bool = False,
        finite: bool = True,
    ) -> float:
        """A number, finite unless told."""
        value = self.raw(name)
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        good = good and abs(value) <= (1e308 if finite else math.inf)  # NaN is not
        if not good or not least <= value <= most or (positive and value < SMALLEST):
            kind = "a positive" if positive else "a finite" if finite else "a"
            self.refuse(name, f"must be {kind} number from {least:.6g} to {most:.6g}", value)
        number: float = value
        return number

    def flag(self, name: str) -> bool:
        """True or False."""
        value = self.raw(name)
        if not isinstance(value, bool):
            self.refuse(name, "must be True or False", value)
        return value

    def word(self, name: str, among: Sequence[str] | None = None) -> str:
        """Some text, or one of a few words."""
        value = self.raw(name)
        if not isinstance(value, str) or (among is not None and value not in among):
            rule = "text" if among is None else f"one of {', '.join(map(repr, among))}"
            self.refuse(name, f"must be {rule}", value)
        return value

    def record(self, kind: type[T], /, least: float = -math.inf, **known: Any) -> T:
        """A dataclass of numbers from the least, truth values and words, by their declared types; what is known is not read."""

        def number(name: str) -> float:
            return self.number(name, least)

        read: dict[str, Callable[[str], Any]] = {
            "bool": self.flag, "int": self.count, "float": number, "str": self.word
        }  # fmt: skip
        values = dict(known)
        for field in fields(kind):  # type: ignore[arg-type]
            declared, _, optional = str(field.type).partition(" | ")
            there = self.has(field.name)
            if field.name not in known:
                values[field.name] = read[declared](field.name) if there or not optional else None
        return kind(**values)

    def fill(self, thing: Any, *names: str, least: float = -LARGEST) -> None:
        """Set attributes to what `plain` has kept of them: of the type and the shape that they have now, numbers from the least."""
        for name in names:
            setattr(thing, name, self._like(name, getattr(thing, name), least))

    def _like(self, name: str, now: Any, least: float) -> Any:
        if isinstance(now, bool):
            return self.flag(name)
        if isinstance(now, int):
            return self.count(name)
        if isinstance(now, float):
            return self.number(name, least)
        if now.dtype == bool:
            return self.flags(name, len(now))
        whole, columns = now.dtype.kind == "i", now.ndim > 1 and now.flags.f_contiguous
        least = max(least, 0) if whole else least
        return self.array(name, now.shape, least, whole=whole, order="F" if columns else None)

    # Arrays, always copies.

    def array(
        self,
        name: str,
        shape: tuple[int | None, ...],
        least: float = -LARGEST,
        most: float = LARGEST,
        *,
        whole: bool = False,
        order: Literal["C", "F"] | None = None,
    ) -> NDArray[Any]:
        """An array of numbers in a range, of a shape in which None stands for any length."""
        value = self.raw(name)
        if not isinstance(value, np.ndarray):
            self.refuse(name, "must be an array", value)
        if value.dtype.newbyteorder("=") != (np.int64 if whole else np.float64):
            self.refuse(
                name, f"must hold {'integers' if whole else 'floats'} of 64 bits", value.dtype
            )
        same = value.ndim == len(shape) and all(
            n is None or n == m for n, m in zip(shape, value.shape, strict=True)
        )
        if not same:
            wanted = str(shape).replace("None", "any")
            self.refuse(name, f"must have shape {wanted}", value.shape)
        if value.size:
            low, high = value.min(), value.max()
            if not (least <= low and high <= most):  # NaN is not
                limits = f"from {least:.6g} to {most:.6g}"
                self.refuse(name, f"must hold numbers {limits}", [float(low), float(high)])
        copied: NDArray[Any] = np.array(
            value, dtype=np.int64 if whole else float, order=order or "K"
        )
        return copied

    def flags(self, name: str, length: int) -> NDArray[np.bool_]:
        """Truth values, kept as zeros and ones."""
        flags: NDArray[np.bool_] = self.array(name, (length,), 0, 1, whole=True) == 1
        return flags

    def distribution(self, name: str, length: int | None) -> NDArray[np.float64]:
        """Probabilities."""
        p = self.array(name, (length,), 0.0, 1.0 + ROUNDING)
        if not abs(p.sum() - 1) <= ROUNDING:
            self.refuse(name, "must add up to 1", float(p.sum()))
        return p

    def cumulative(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Cumulative sums of probabilities, the last one 1."""
        sums: NDArray[np.float64] = self.array(name, shape, 0.0, 1.0)
        if np.any(sums[..., -1] != 1):
            self.refuse(name, "must end with 1", sums[..., -1])
        return sums

    def factor(self, name: str, size: int) -> NDArray[np.float64]:
        """A Cholesky factor, lower triangular and in Fortran order."""
        factor = self.array(name, (size, size), order="F")
        if not np.all(factor.diagonal() >= SMALLEST):
            self.refuse(name, "must have a positive diagonal", float(factor.diagonal().min()))
        return factor
