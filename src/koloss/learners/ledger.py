"""Decisions as they are handed out, and the ledger of those that wait for their losses."""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from koloss.actions import SpacePoints
from koloss.core.arrays import as_int, shown
from koloss.core.snapshot import kept
from koloss.errors import UnknownDecision
from koloss.learners.waiting import Batch, Entry, L, Late, Waiting

DEEPEST = 8
"""Most lists within lists that name decisions."""

# What is handed out.


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One action to take, with what is needed to learn from its loss at any time later."""

    id: int  # from 0; enough to `tell` by
    action: NDArray[np.float64]  # shape (d,)
    index: int | None  # row of the action in a finite set
    probability: float | None  # with which it was drawn, on a finite set
    epoch: int  # in which it was drawn
    learner: str  # mark of the learner that made it
    params: dict[str, Any] | None = None  # the action by names, where actions are those of a Space

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, fit for JSON."""
        return {
            "id": self.id,
            "action": self.action.tolist(),
            **({} if self.params is None else {"params": self.params}),
            "index": self.index,
            "probability": self.probability,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Several decisions made at once, the fields of `Decision` as arrays."""

    id: NDArray[np.int64]
    action: NDArray[np.float64]
    index: NDArray[np.int64] | None
    probability: NDArray[np.float64] | None
    epoch: NDArray[np.int64]
    learner: str
    all_params: Sequence[dict[str, Any]] | None = field(default=None, repr=False)  # of a Space

    @property
    def params(self) -> list[dict[str, Any]] | None:
        """The actions by names, where they are those of a Space."""
        if self.all_params is None or self.index is None:
            return None
        return [dict(self.all_params[row]) for row in self.index.tolist()]

    def __len__(self) -> int:
        return len(self.id)

    @overload
    def __getitem__(self, k: int) -> Decision: ...

    @overload
    def __getitem__(self, k: slice) -> Decisions: ...

    def __getitem__(self, k: int | slice) -> Decision | Decisions:
        index = None if self.index is None else self.index[k]
        probability = None if self.probability is None else self.probability[k]
        ids, action, epoch, mark = self.id[k], self.action[k], self.epoch[k], self.learner
        if isinstance(k, slice):
            return Decisions(ids, action, index, probability, epoch, mark, self.all_params)
        row = None if index is None else int(index)
        p = None if probability is None else float(probability)
        named = self.all_params
        params = None if named is None or row is None else dict(named[row])
        return Decision(int(ids), action, row, p, int(epoch), mark, params)

    def __iter__(self) -> Iterator[Decision]:
        return (self[k] for k in range(len(self)))


Told = Decision | Decisions | int | Mapping[str, Any] | Sequence[Any]
"""Whatever names decisions: one, a batch, an id, params of a Space, or a sequence of these."""


# What stands between the two.


class Drawn(NamedTuple):
    """Actions drawn and not yet entered: of one decision, or the same as arrays for several."""

    keys: Any  # a sequence, also an array
    action: NDArray[np.float64]
    index: Any
    probability: Any
    contexts: Any = (
        None  # rows of their contexts, a sequence as long as `keys`, where there are any
    )


def new_mark() -> str:
    """A mark that no other learner has."""
    return uuid.uuid4().hex


@kept
class Ledger(Generic[L]):
    """Decisions that wait for their losses, the laws they were drawn from, and counts over the whole game."""

    mark: str  # by which a learner knows its own decisions again
    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after others that came between their decision and them
    longest_delay: int = 0  # most such losses
    total_delay: int = 0  # sum of their numbers
    forgotten: int = 0  # decisions whose losses are not waited for any more
    current: Any = None  # the latest law
    opened: deque[int]  # first ids of the latest laws, which are kept whole
    held: dict[int, Any]  # losses told and not yet used, by id
    _turns: list[int]  # a heap of their ids, and of some that are gone
    _waiting: Waiting[L]

    def __init__(self) -> None:
        self.mark = new_mark()
        self.opened, self.held, self._turns, self._waiting = deque(), {}, [], Waiting()
        self.name(None, None)

    def name(self, points: SpacePoints | None, slots: NDArray[np.int64] | None) -> None:
        """The actions, where they have params, and those of pairs, where contexts allow some."""
        self.points, self.slots = points, slots

    def _restored(self) -> None:
        self.name(None, None)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, i: object) -> bool:
        return i in self._waiting

    def __iter__(self) -> Iterator[Entry[L]]:
        return iter(self._waiting)

    def entry(self, i: int) -> Entry[L]:
        """A decision that waits, by its id."""
        return self._waiting.entry(i)

    @property
    def unheard(self) -> int:
        """Decisions whose losses have not been heard, forgotten ones among them."""
        return len(self._waiting) + self.forgotten

    @property
    def longest_wait(self) -> int:
        """Most losses heard between a decision and its own, or until now where that has not come."""
        return max([self.longest_delay, *(self.heard - entry.heard for entry in self)])

    @property
    def awaited(self) -> int:
        """Decisions whose losses have not been told and are waited for."""
        return len(self._waiting) - len(self.held)

    def enter(self, law: L | None, keys: Sequence[Any], contexts: Any = None) -> int:
        """Enter decisions drawn from a law; the id of the first. The law before shrinks to what late losses need."""
        if law is not self.current:
            if self.current is not None:
                self.current.shrink()
            self.current = law
            if law is not None:
                self.opened.append(self.made)
        first, count = self.made, len(keys)
        if count == 1:
            context = None if contexts is None else int(contexts[0])
            self._waiting.add(Entry(first, law, keys[0], self.heard, context))
        else:
            self._waiting.add(Batch(first, law, keys, self.heard, contexts))
        self.made = first + count
        return first

    def condense(
        self, whole: int, small: Callable[[L, Sequence[Any]], Sequence[Any] | None]
    ) -> None:
        """Keep the latest laws whole, and of those before only what late losses need.

        `small(law, keys)` gives what is kept for each decision of a law that waits, or None where the law itself takes
        less room.
        """
        while len(self.opened) > whole:
            first = self.opened.popleft()
            entries = self._waiting.between(first, self.opened[0])
            if not entries or (law := entries[0].law) is None or isinstance(law, Late):
                continue
            laws = small(law, [entry.key for entry in entries])
            if laws is not None:
                for entry, one in zip(entries, laws, strict=True):
                    self._waiting.change(entry._replace(law=one))

    def correct(self, first: int, keys: Sequence[Any]) -> None:
        """Put what was recorded of the latest decisions, from `first` on, in the place of what was drawn."""
        batch = self._waiting.batch(first)
        if batch is not None:
            drawn: Any = batch.keys
            recorded: Any = np.array(keys) if isinstance(drawn, np.ndarray) else keys
            batch.keys = recorded
        else:
            self._waiting.change(self.entry(first)._replace(key=keys[0]))

    def find(self, decision: Told, name: str = "decision") -> Sequence[Entry[L]]:
        """Entries of decisions that are this learner's and outstanding; changes nothing."""
        known: Sequence[Entry[L]] | None
        if (
            type(decision) is Decision and decision.learner == self.mark
        ):  # the lane for single calls
            entry = self._waiting.single(decision.id)
            if entry is not None and decision.id not in self.held:
                return (entry,)
        elif type(decision) is Decisions and decision.learner == self.mark and not self.held:
            known = self._batch_of(decision.id)
            if known is not None:
                return known
        ids = self.ids(decision, name)
        if len(ids) > 1 and len(set(ids)) < len(ids):
            raise UnknownDecision(f"`{name}` must not repeat an id, got one twice")
        try:
            if self.held:
                for i in self.held.keys() & ids:
                    raise KeyError(i)
            known = self._waiting.batch(ids[0]) if ids else None
            if isinstance(known, Batch) and ids == list(known.ids):
                return known
            return [self.entry(i) for i in ids]
        except KeyError as error:
            i = error.args[0]
            fate = "told already or forgotten" if self.forgotten else "told already"
            what = fate if 0 <= i < self.made else "never made"
            message = f"`{name}` must be outstanding, got {i}, which was {what}"
            raise UnknownDecision(message) from None

    def _batch_of(self, ids: Any) -> Batch[L] | None:
        """What was entered at once, where these are the ids of all of it and all wait."""
        if type(ids) is not np.ndarray or ids.ndim != 1 or ids.dtype != np.int64 or len(ids) < 2:
            return None
        batch = self._waiting.batch(ids.item(0))
        if batch is None or batch.size != len(ids):
            return None
        same = ids == np.arange(batch.first, batch.first + batch.size)
        return batch if np.count_nonzero(same) == batch.size else None

    def ids(
        self, decision: Told, name: str = "decision", depth: int = 0, taken: set[int] | None = None
    ) -> list[int]:
        """Ids of a decision, a batch, an id, params, or a sequence of any of these; foreign ones are refused.

        `taken` are ids that params have been found to mean.
        """
        if isinstance(decision, (Decision, Decisions)):
            if decision.learner != self.mark:
                got = "got one of another learner"
                raise UnknownDecision(f"`{name}` must be one of this learner's, {got}")
            return [decision.id] if isinstance(decision, Decision) else decision.id.tolist()
        if isinstance(decision, (bool, np.bool_, float, str, bytes)):
            raise TypeError(f"`{name}` must be a Decision or its id, got {decision!r}")
        if isinstance(decision, (int, np.integer)):
            return [int(decision)]
        if (ids := _as_ids(decision)) is not None:
            return ids
        taken = set() if taken is None else taken
        if isinstance(decision, Mapping) and self.points is not None:
            return [self._with_params(decision, self.points, taken, name)]
        if depth > DEEPEST:
            raise TypeError(f"`{name}` must be nested at most {DEEPEST} deep, got more")
        try:
            if isinstance(decision, (Mapping, Set)):  # without an order, or with more than ids
                raise TypeError
            items = list(decision)
        except TypeError as error:
            kind = type(decision).__name__
            raise TypeError(f"`{name}` must be a Decision or its id, got {kind}") from error
        return [i for item in items for i in self.ids(item, name, depth + 1, taken)]

    def _with_params(
        self, params: Mapping[str, Any], points: SpacePoints, taken: set[int], name: str
    ) -> int:
        """The oldest decision with these params that waits for its loss and is not taken."""
        wanted = points[points.find(params)].tobytes()
        for entry in self:
            i, key = entry.id, entry.key
            row = key if key >= 0 else ~key  # explored, in the insured learner
            if self.slots is not None:
                row = self.slots.item(row)
            row %= len(points)  # of the pair of a context and an action
            if i not in taken and i not in self.held and points[row].tobytes() == wanted:
                taken.add(i)
                return i
        rule = "must be outstanding, or the params of a decision that is"
        raise UnknownDecision(f"`{name}` {rule}, got {shown(dict(params))}, which none has")

    def settle(self, entries: Sequence[Entry[L]]) -> None:
        """Strike out decisions whose losses are told together, and count how late they were."""
        if type(entries) is Batch and entries.left is None:
            self._waiting.remove_batch(entries)
            self._hear(entries.size, self.heard - entries.heard)
        else:
            heard = self.heard
            for entry in entries:
                self._waiting.remove(entry.id)
                self._hear(1, heard - entry.heard)
        if self.held:
            for entry in entries:
                self.held.pop(entry.id, None)

    def _hear(self, count: int, delay: int) -> None:
        """So many losses were heard, with so many others between each and its decision."""
        if delay:
            self.late += count
            self.total_delay += count * delay
            self.longest_delay = max(self.longest_delay, delay)
        self.heard += count

    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        """Wait no more for some decisions, or for all with an id below `before`; how many there were."""
        if (ids is None) == (before is None):
            raise ValueError("give `ids` or `before`, one of the two")
        if ids is not None:
            gone = [entry.id for entry in self.find(ids, "ids")]
        else:
            limit = as_int("before", before, minimum=0)
            before_it = itertools.takewhile(lambda entry: entry.id < limit, self)
            gone = [entry.id for entry in before_it if entry.id not in self.held]
        for i in gone:
            self._waiting.remove(i)
        self.forgotten += len(gone)
        return len(gone)

    # Losses that are told before they may be used.

    def keep(self, entries: Sequence[Entry[L]], losses: Sequence[Any]) -> None:
        """Hold losses back."""
        for entry, loss in zip(entries, losses, strict=True):
            self.held[entry.id] = float(loss)
            heapq.heappush(self._turns, entry.id)

    def hand_back(self, entries: Sequence[Entry[L]]) -> None:
        """Losses of these that are still held have not been told after all."""
        for entry in entries:
            self.held.pop(entry.id, None)

    def due(self, hold: int) -> tuple[Entry[L], Any] | None:
        """The oldest decision with a loss that is held and after which `hold` others were made, with the loss."""
        turns = self._turns
        while turns and turns[0] not in self.held:
            heapq.heappop(turns)
        if not turns or turns[0] + hold >= self.made:
            return None
        return self.entry(turns[0]), self.held[turns[0]]


def _as_ids(decision: Any) -> list[int] | None:
    """Ids in an array of whole numbers; None where it is something else."""
    if type(decision) is np.ndarray and decision.ndim == 1 and decision.dtype.kind in "iu":
        ids: list[int] = decision.tolist()
        return ids
    return None
