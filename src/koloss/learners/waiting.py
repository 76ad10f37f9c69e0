"""Decisions that wait for their losses, each with the law that it was drawn from.

Decisions made at once are one record as long as they are told at once: `ask(100_000)` and `tell` of all of them enter one record
and take one away. A record comes apart when somebody tells, forgets or condenses a part of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from koloss.core.snapshot import Vector, kept


class Law(Protocol):
    """What decisions are drawn from."""

    number: int  # of the epoch or the stage that it belongs to

    @property
    def together(self) -> bool:
        """Whether losses of its decisions that are told at once are learned from at once."""

    def shrink(self) -> None:
        """Keep only what late losses need."""


L = TypeVar("L", bound=Law)


@kept
class Late:
    """What is left of a law for one decision, long after: the numbers that its loss needs."""

    __slots__ = ("number", "numbers")

    together: ClassVar[bool] = False
    number: int
    numbers: Vector

    def __init__(self, number: int, numbers: NDArray[np.float64]) -> None:
        self.number, self.numbers = number, numbers

    def shrink(self) -> None:
        """There is no less."""


@kept
class Entry(NamedTuple, Generic[L]):
    """A decision that waits for its loss."""

    id: int
    law: L | None  # None with full information
    key: Any  # what the learner keeps of the action: a row, a point
    heard: int  # losses heard when it was made
    context: int | None = None  # row of its context, where there are contexts


@kept
class Batch(Sequence[Entry[L]]):
    """Decisions entered together, as one object; an entry is made when somebody looks at it."""

    __slots__ = ("contexts", "first", "heard", "keys", "law", "left", "size")
    first: int
    law: L | None
    keys: Sequence[Any]
    heard: int
    contexts: Any  # one for each, or None
    size: int
    left: (
        dict[int, Entry[L] | None] | None
    )  # ids that still wait, with an entry where it has changed; None as long as all do and none has

    def __init__(
        self, first: int, law: L | None, keys: Sequence[Any], heard: int, contexts: Any = None
    ) -> None:
        self.first, self.law, self.keys, self.heard = first, law, keys, heard
        self.contexts = contexts
        self.size = len(keys)
        self.left = None

    def _restored(self) -> None:
        if self.size != len(self.keys):  # which would be gone through
            raise ValueError(f"a batch must have {len(self.keys)} decisions, got {self.size}")

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, k: Any) -> Any:
        context = None if self.contexts is None else int(self.contexts[k])
        return Entry(self.first + k, self.law, self.keys[k], self.heard, context)

    @property
    def ids(self) -> range:
        """Of all that were entered."""
        return range(self.first, self.first + self.size)

    def entry(self, i: int) -> Entry[L]:
        """One that waits, by its id."""
        changed = None if self.left is None else self.left[i]
        return self[i - self.first] if changed is None else changed

    def apart(self) -> dict[int, Entry[L] | None]:
        """Those that wait, one by one."""
        if self.left is None:
            self.left = dict.fromkeys(self.ids)
        return self.left


def keys_of(entries: Sequence[Entry[Any]]) -> Sequence[Any]:
    """What the learner keeps of the actions of some decisions."""
    return entries.keys if type(entries) is Batch else [entry.key for entry in entries]


@kept
class Waiting(Generic[L]):
    """Entries by their ids, in the order in which they were made."""

    __slots__ = ("_count", "_firsts", "_records")
    _records: dict[int, Entry[L] | Batch[L]]  # a batch by its first id
    _firsts: list[int]  # those of the batches, in order
    _count: int

    def __init__(self) -> None:
        self._records, self._firsts, self._count = {}, [], 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, i: object) -> bool:
        return isinstance(i, (int, np.integer)) and self._record(int(i)) is not None

    def __iter__(self) -> Iterator[Entry[L]]:
        for record in self._records.values():
            if isinstance(record, Entry):
                yield record
            else:
                yield from map(record.entry, record.ids if record.left is None else record.left)

    def single(self, i: int) -> Entry[L] | None:
        """The entry of a decision that was made by itself and waits."""
        record = self._records.get(i)
        return record if type(record) is Entry else None

    def batch(self, first: int) -> Batch[L] | None:
        """Decisions made at once, from this one on, all of which wait."""
        record = self._records.get(first)
        return record if type(record) is Batch and record.left is None else None

    def entry(self, i: int) -> Entry[L]:
        """A decision that waits, by its id."""
        record = self._record(i)
        if record is None:
            raise KeyError(i)
        return record if isinstance(record, Entry) else record.entry(i)

    def _record(self, i: int) -> Entry[L] | Batch[L] | None:
        """What holds a decision, if it waits."""
        record = self._records.get(i)
        if type(record) is Entry:
            return record
        place = bisect_right(self._firsts, i)
        if place == 0:
            return None
        batch = self._records[self._firsts[place - 1]]
        assert isinstance(batch, Batch)
        return batch if i in (batch.ids if batch.left is None else batch.left) else None

    def add(self, record: Entry[L] | Batch[L]) -> None:
        """Enter one decision, or several made at once; their ids are above all others."""
        if isinstance(record, Entry):
            self._records[record.id] = record
            self._count += 1
        else:
            self._records[record.first] = record
            self._firsts.append(record.first)
            self._count += record.size

    def change(self, entry: Entry[L]) -> None:
        """Put an entry into the place of the one with its id."""
        record = self._record(entry.id)
        if isinstance(record, Batch):
            record.apart()[entry.id] = entry
        else:
            self._records[entry.id] = entry

    def remove(self, i: int) -> None:
        """Strike out a decision that waits."""
        if self.single(i) is not None:
            del self._records[i]
            self._count -= 1
            return
        batch = self._record(i)
        assert isinstance(batch, Batch)
        left = batch.apart()
        del left[i]
        self._count -= 1
        if not left:
            self._drop(batch)

    def remove_batch(self, batch: Batch[L]) -> None:
        """Strike out decisions made at once, all of which wait."""
        self._count -= batch.size
        self._drop(batch)

    def _drop(self, batch: Batch[L]) -> None:
        del self._records[batch.first], self._firsts[bisect_left(self._firsts, batch.first)]

    def between(self, first: int, end: int) -> list[Entry[L]]:
        """Those with ids from `first` on and below `end`, no batch being partly among them."""
        records = self._records
        if len(records) < end - first:
            found = [i for i in records if first <= i < end]
        else:
            found = [i for i in range(first, end) if i in records]
        entries: list[Entry[L]] = []
        for i in found:
            record = records[i]
            if type(record) is Entry:
                entries.append(record)
            elif type(record) is Batch:
                entries += map(record.entry, record.ids if record.left is None else record.left)
        return entries
