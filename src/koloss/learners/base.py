"""The contract of all learners: ask, tell, and what stands between the two.

    decision = learner.ask()            a law is made or kept, an action drawn from it, and the decision entered in the ledger
    learner.tell(decision, loss)        found in the ledger, read, then learned from: nothing can fail in between

*Settings* are what the user said. The *ledger* has the decisions that wait for their losses, each with the law that it was
drawn from, so that a loss can come at any time and in any order. A learner adds how it draws (`_draw`), how it reads a loss
(`_read`), what it makes of one (`_learn`), what is proved (`_proved`), and its state (`_save`, `_load`).

Losses, never rewards: smaller is better.
"""

from __future__ import annotations

import abc
import functools
import math
import os
import reprlib
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, fields
from typing import (
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from koloss import _html
from koloss._arrays import as_float, as_int, as_points, to_numpy
from koloss._plain import Plain
from koloss._random import LEARNERS, as_generator, generator_from_dict, generator_to_dict
from koloss.actions import ActionSet
from koloss.errors import ForkedLearner, LossOutOfBounds, NoDistribution, UnknownDecision
from koloss.guarantees import Guarantee
from koloss.learners.reading import Reader
from koloss.learners.snapshots import seal, unseal

MOST_DECISIONS = 10_000_000
"""Most decisions of one call of `ask`."""

MOST_COORDINATES = 100_000_000
"""Most coordinates of their actions."""

FEWEST_WHOLE, MOST_WHOLE, WHOLE_NUMBERS = 16, 512, 2**20
"""Laws that are kept whole after they are over: so many, as far as their matrices have no more numbers than these."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Several decisions made at once, the fields of `Decision` as arrays."""

    id: NDArray[np.int64]
    action: NDArray[np.float64]
    index: NDArray[np.int64] | None
    probability: NDArray[np.float64] | None
    epoch: NDArray[np.int64]
    learner: str

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
            return Decisions(ids, action, index, probability, epoch, mark)
        row = None if index is None else int(index)
        p = None if probability is None else float(probability)
        return Decision(int(ids), action, row, p, int(epoch), mark)

    def __iter__(self) -> Iterator[Decision]:
        return (self[k] for k in range(len(self)))


Told = Decision | Decisions | int | Sequence[Any]
"""Whatever names decisions: one, a batch, an id, or a sequence of these."""


@dataclass(frozen=True)
class Recommendation:
    """The best action so far."""

    index: int | None  # its row in a finite set
    action: NDArray[np.float64]
    loss: float  # its mean so far: estimated under bandit feedback, exact with full information
    certificate: str  # of its being the best: "estimated", "exhaustive", "dual" or "local only"


# Decisions that wait for their losses.


class Law(Protocol):
    """What decisions are drawn from."""

    number: int  # of the epoch or the stage that it belongs to

    @property
    def together(self) -> bool:
        """Whether losses of its decisions that are told at once are learned from at once."""

    def shrink(self) -> None:
        """Keep only what late losses need."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""


L = TypeVar("L", bound=Law)


class Late:
    """What is left of a law for one decision, long after: the numbers that its loss needs."""

    __slots__ = ("number", "numbers")

    together: ClassVar[bool] = False

    def __init__(self, number: int, numbers: NDArray[np.float64]) -> None:
        self.number, self.numbers = number, numbers

    def shrink(self) -> None:
        """There is no less."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; a ledger keeps the numbers of all of these in one array."""
        return {"number": self.number, "numbers": self.numbers}


class Entry(NamedTuple, Generic[L]):
    """A decision that waits for its loss."""

    id: int
    law: L | None  # None with full information
    key: Any  # what the learner keeps of the action: a row, a point
    heard: int  # losses heard when it was made


class Batch(Sequence[Entry[L]]):
    """Decisions entered together, as one object; an entry is made when somebody looks at it."""

    def __init__(self, first: int, law: L | None, keys: Sequence[Any], heard: int) -> None:
        self.first, self.law, self.keys, self.heard = first, law, keys, heard

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, k: Any) -> Any:
        return Entry(self.first + k, self.law, self.keys[k], self.heard)


def keys_of(entries: Sequence[Entry[Any]]) -> Sequence[Any]:
    """What the learner keeps of the actions of some decisions."""
    return entries.keys if isinstance(entries, Batch) else [entry.key for entry in entries]


class Drawn(NamedTuple):
    """Actions drawn and not yet entered: of one decision, or the same as arrays for several."""

    keys: Any  # a sequence, also an array
    action: NDArray[np.float64]
    index: Any
    probability: Any


def new_mark() -> str:
    """A mark that no other learner has."""
    return uuid.uuid4().hex


class Ledger(Generic[L]):
    """Decisions that wait for their losses, the laws they were drawn from, and counts over the whole game."""

    def __init__(self, mark: str | None = None) -> None:
        self.mark = mark or new_mark()  # by which a learner knows its own decisions again
        self.made = 0  # decisions
        self.heard = 0  # losses
        self.late = 0  # losses heard after others that came between their decision and them
        self.longest_delay = 0  # most such losses
        self.total_delay = 0  # sum of their numbers
        self.forgotten = 0  # decisions whose losses are not waited for any more
        self.current: L | None = None  # the latest law
        self.opened: deque[int] = deque()  # first ids of the latest laws, which are kept whole
        self._entries: dict[int, Entry[L] | Batch[L]] = {}  # of a batch all ids have the batch

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[L]]:
        return map(self._entry, self._entries)

    def _entry(self, i: int) -> Entry[L]:
        known = self._entries[i]
        return known[i - known.first] if isinstance(known, Batch) else known

    @property
    def unheard(self) -> int:
        """Decisions whose losses have not been heard, forgotten ones among them."""
        return len(self._entries) + self.forgotten

    def enter(self, law: L | None, keys: Sequence[Any]) -> int:
        """Enter decisions drawn from a law; the id of the first. The law before shrinks to what late losses need."""
        if law is not self.current:
            if self.current is not None:
                self.current.shrink()
            self.current = law
            if law is not None:
                self.opened.append(self.made)
        first, count = self.made, len(keys)
        if count == 1:
            self._entries[first] = Entry(first, law, keys[0], self.heard)
        else:
            batch = Batch(first, law, keys, self.heard)
            self._entries.update(dict.fromkeys(range(first, first + count), batch))
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
            ids = [i for i in range(first, self.opened[0]) if i in self._entries]
            entries = [self._entry(i) for i in ids]
            if not entries or (law := entries[0].law) is None or isinstance(law, Late):
                continue
            laws = small(law, [entry.key for entry in entries])
            if laws is not None:
                for entry, one in zip(entries, laws, strict=True):
                    self._entries[entry.id] = entry._replace(law=one)

    def replace_laws(self, replacement: Callable[[L], Any]) -> None:
        """Put other laws into the places of those that decisions wait with."""
        for entry in list(self):
            if entry.law is not None and (law := replacement(entry.law)) is not entry.law:
                self._entries[entry.id] = entry._replace(law=law)

    def find(self, decision: Told, name: str = "decision") -> Sequence[Entry[L]]:
        """Entries of decisions that are this learner's and outstanding; changes nothing."""
        if type(decision) is Decision and decision.learner == self.mark:
            entry = self._entries.get(decision.id)
            if type(entry) is Entry:  # the lane for single calls
                return (entry,)
        ids = self.ids(decision, name)
        if len(ids) > 1 and len(set(ids)) < len(ids):
            raise UnknownDecision(f"`{name}` must not repeat an id, got one twice")
        try:
            known = self._entries[ids[0]] if ids else None
            if isinstance(known, Batch) and self._is_all_of(known, ids):
                return known
            return [self._entry(i) for i in ids]
        except KeyError as error:
            i = error.args[0]
            fate = "told already or forgotten" if self.forgotten else "told already"
            what = fate if 0 <= i < self.made else "never made"
            message = f"`{name}` must be outstanding, got {i}, which was {what}"
            raise UnknownDecision(message) from None

    def _is_all_of(self, batch: Batch[L], ids: list[int]) -> bool:
        everyone = list(range(batch.first, batch.first + len(batch)))
        return ids == everyone and all(map(self._entries.__contains__, ids))

    def ids(self, decision: Told, name: str = "decision", depth: int = 0) -> list[int]:
        """Ids of a decision, a batch, an id, or a sequence of any of these; foreign ones are refused."""
        if isinstance(decision, (Decision, Decisions)):
            if decision.learner != self.mark:
                got = "got one of another learner"
                raise UnknownDecision(f"`{name}` must be one of this learner's, {got}")
            return [decision.id] if isinstance(decision, Decision) else decision.id.tolist()
        if isinstance(decision, (bool, np.bool_, float, str, bytes)):
            raise TypeError(f"`{name}` must be a Decision or its id, got {decision!r}")
        if isinstance(decision, (int, np.integer)):
            return [int(decision)]
        if depth > DEEPEST:
            raise TypeError(f"`{name}` must be nested at most {DEEPEST} deep, got more")
        try:
            if isinstance(decision, (Mapping, Set)):  # without an order, or with more than ids
                raise TypeError
            items = list(decision)
        except TypeError as error:
            kind = type(decision).__name__
            raise TypeError(f"`{name}` must be a Decision or its id, got {kind}") from error
        return [i for item in items for i in self.ids(item, name, depth + 1)]

    def settle(self, entries: Sequence[Entry[L]]) -> None:
        """Strike out decisions whose losses are told together, and count how late they were."""
        if isinstance(entries, Batch):
            self._strike(range(entries.first, entries.first + len(entries)), entries.heard)
            return
        heard = self.heard
        for entry in entries:
            self._strike((entry.id,), entry.heard + self.heard - heard)

    def _strike(self, ids: Sequence[int], heard: int) -> None:
        for i in ids:
            del self._entries[i]
        delay = self.heard - heard
        if delay:
            self.late += len(ids)
            self.total_delay += len(ids) * delay
            self.longest_delay = max(self.longest_delay, delay)
        self.heard += len(ids)

    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        """Wait no more for some decisions, or for all with an id below `before`; how many there were."""
        if (ids is None) == (before is None):
            raise ValueError("give `ids` or `before`, one of the two")
        if ids is not None:
            gone = [entry.id for entry in self.find(ids, "ids")]
        else:
            limit = as_int("before", before, minimum=0)
            gone = [i for i in self._entries if i < limit]
        for i in gone:
            del self._entries[i]
        self.forgotten += len(gone)
        return len(gone)

    # Snapshots.

    _COUNTS: ClassVar = ("made", "heard", "late", "longest_delay", "total_delay", "forgotten")

    def to_dict(self) -> dict[str, Any]:
        """Plain data: each law once, and of each entry its id, the number of its law, its key."""
        entries = list(self)
        laws = {id(e.law): e.law for e in entries if e.law is not None}
        if self.current is not None:
            laws[id(self.current)] = self.current
        late = [law for law in laws.values() if isinstance(law, Late)]
        whole = [law for law in laws.values() if not isinstance(law, Late)]
        place = {id(law): k for k, law in enumerate([*whole, *late])} | {id(None): -1}
        rows, keys = [(e.id, place[id(e.law)], e.heard) for e in entries], [e.key for e in entries]
        return {
            "mark": self.mark,
            **{name: getattr(self, name) for name in self._COUNTS},
            "laws": [law.to_dict() for law in whole],
            "remains": _stacked(late),
            "opened": np.array(self.opened, dtype=np.int64),
            "current": place[id(self.current)],
            "entries": np.array(rows, dtype=np.int64).reshape(-1, 3),
            "keys": None if not keys or keys[0] is None else np.array(keys),
        }

    @classmethod
    def from_dict(
        cls, data: Reader, laws: Sequence[L], keys: Sequence[Any], lengths: Sequence[int]
    ) -> Ledger[L]:
        """The ledger in a snapshot; `laws` are its laws made anew, none with full information, `keys` those of its entries.

        `lengths` are those that what is left of a law may have.
        """
        ledger = cls(data.word("mark"))
        for name in cls._COUNTS:
            setattr(ledger, name, data.count(name))
        ledger._check(data)
        if data.has_key("opened"):  # not in the first snapshots of this format
            ledger.opened.extend(data.array("opened", (None,), 0, whole=True).tolist())
            laws = [*laws, *_unstacked(data.part("remains"), lengths)]
        entries = data.array(
            "entries", (ledger.made - ledger.heard - ledger.forgotten, 3), whole=True
        )
        ids, places, heard = entries.T
        first, last = (0, len(laws) - 1) if laws else (-1, -1)
        good = (ids[1:] > ids[:-1]).all() and (ids >= 0).all() and (ids < ledger.made).all()
        good &= (places >= first).all() and (places <= last).all()
        good &= (heard >= 0).all() and (heard <= np.minimum(ids, ledger.heard)).all()
        if not good:
            rule = "must hold ids in order, numbers of laws and counts that are possible"
            data.refuse("entries", rule, entries.tolist())
        for (i, place, before), key in zip(entries.tolist(), keys, strict=True):
            ledger._entries[i] = Entry(i, laws[place] if laws else None, key, before)
        place = data.count("current", first, last)
        ledger.current = laws[place] if laws else None
        return ledger

    def _check(self, data: Reader) -> None:
        """Refuse counts that contradict each other."""
        late, longest, total = self.late, self.longest_delay, self.total_delay
        if not late <= self.heard <= self.made - self.forgotten:
            counts = [late, self.heard, self.forgotten, self.made]
            data.refuse("made", "must be at least what was heard and forgotten", counts)
        most = max(self.heard - 1, 0)
        if not (max(longest, late) <= total <= late * longest and longest <= most):
            data.refuse("total_delay", "must fit the number of late losses", [late, longest, total])


def _stacked(late: Sequence[Late]) -> dict[str, Any]:
    """What is left of laws, as three arrays."""
    rows = [law.numbers for law in late]
    return {
        "number": np.array([law.number for law in late], dtype=np.int64),
        "length": np.array([len(row) for row in rows], dtype=np.int64),
        "numbers": np.concatenate(rows) if rows else np.zeros(0),
    }


def _unstacked(data: Reader, lengths: Sequence[int]) -> list[Any]:
    number = data.array("number", (None,), 0, whole=True)
    length = data.array("length", number.shape, 0, whole=True)
    if not np.isin(length, lengths).all():
        data.refuse("length", f"must hold lengths among {lengths}", length.tolist())
    rows = np.split(data.array("numbers", (int(length.sum()),)), np.cumsum(length)[:-1])
    return [Late(n, row.copy()) for n, row in zip(number.tolist(), rows, strict=False)]


# What was said.


@dataclass(frozen=True)
class Described:
    """In the place of an object that a snapshot cannot hold: its description."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user said, checked once. Each learner has its own, with the parameters of its constructor."""

    actions: ActionSet
    kernel: Any
    horizon: int | None

    former: ClassVar[Mapping[str, str]] = {}
    """Names that settings had before, and what they are called now."""

    named_kernels: ClassVar[tuple[str, ...]] = ()
    """Words that stand for a kernel which the settings choose."""

    def __post_init__(self) -> None:
        kernel = self.kernel
        if not isinstance(self.actions, ActionSet):
            raise TypeError(f"`actions` must be an ActionSet, got {type(self.actions).__name__}")
        by_name = isinstance(kernel, str) and kernel in self.named_kernels
        if not ((callable(kernel) and hasattr(kernel, "diag")) or by_name) and not isinstance(
            kernel, Described
        ):
            got = repr(kernel) if isinstance(kernel, str) else type(kernel).__name__
            raise TypeError(f"`kernel` must be a Kernel, or have k(X, Y) and k.diag(X), got {got}")
        if self.horizon is not None:
            self._set("horizon", as_int("horizon", self.horizon, minimum=1))
        for name, value in self._items():
            if isinstance(value, list):  # which could be changed later
                self._set(name, tuple(value))

    def _set(self, name: str, value: Any) -> None:
        """Replace what was given by what it means, while the settings are checked."""
        object.__setattr__(self, name, value)

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """The settings among a constructor's arguments, `locals()` at its beginning; former names are understood."""
        values = {field.name: arguments[field.name] for field in fields(cls)}
        for old, value in arguments.get("former", {}).items():
            if old not in cls.former:
                learner, there = type(arguments["self"]).__name__, ", ".join(values)
                raise TypeError(f"{learner} has no argument `{old}`; there are {there}, rng")
            name = cls.former[old]
            if not cls._is_default(name, values[name]):
                raise TypeError(f"give `{name}` or `{old}`, its former name, not both")
            values[name] = value
        return cls(**values)

    @classmethod
    def _is_default(cls, name: str, value: Any) -> bool:
        default = getattr(cls, name, MISSING)  # a dataclass keeps defaults as attributes
        return value is default or (type(value) is type(default) and bool(np.all(value == default)))

    def is_default(self, name: str) -> bool:
        """Whether a setting has its default value."""
        return self._is_default(name, getattr(self, name))

    def describe(self, name: str) -> str:
        """Arguments as they would be written, those with defaults left out."""
        (_, actions), (_, kernel), *rest = self._items()
        named = [f"{key}={value!r}" for key, value in rest if not self.is_default(key)]
        return f"{name}({', '.join([repr(actions), repr(kernel), *named])})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot; what has none is described."""
        return {name: _plain(value) for name, value in self._items()}

    @classmethod
    def from_dict(cls, data: Reader) -> Self:
        """The settings in a snapshot, checked again; arrays stay as they were, to the last bit."""
        values = {field.name: _from_plain(data.raw(field.name)) for field in fields(cls)}
        settings = cls(**values)
        for name, value in values.items():
            if isinstance(value, np.ndarray) and isinstance(getattr(settings, name), np.ndarray):
                settings._set(name, value)
        return settings


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Plain):
        return {"plain": value.to_dict(arrays=True)}
    if isinstance(value, (list, tuple)):
        return {"tuple": [_plain(v) for v in value]}
    if isinstance(value, np.ndarray):
        return {"array": value.copy()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return {"described": repr(value)}


def _from_plain(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    ((form, data),) = value.items()
    if form == "tuple" and isinstance(data, (list, tuple)):
        return tuple(_from_plain(v) for v in data)
    if form == "array" and isinstance(data, np.ndarray):
        return np.array(data)
    if form == "described" and isinstance(data, str):
        return Described(data)
    if form != "plain":
        raise ValueError(f"a setting must be plain, a tuple, an array or described, got {form!r}")
    return Plain.from_dict(data)


def _are_of(law: Any, entries: Sequence[Entry[Any]]) -> bool:
    return isinstance(entries, Batch) or all(entry.law is law for entry in entries)


S = TypeVar("S", bound=Settings)
P = ParamSpec("P")
R = TypeVar("R")


def locked(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method that reads several things which `tell` changes: no other thread may tell meanwhile."""

    @functools.wraps(method)
    def alone(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._home != _Forks.count:
            self._take_lock()
            self._lock.release()
        with self._lock:
            return method(self, *args, **kwargs)

    return alone


# The learner.


class _Forks:
    """Forks between the process in which the program began and this one; to compare costs less than to ask for a process's id."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_Forks.add)


class Learner(abc.ABC, Generic[S, L]):
    """Chooses again and again, and is told what each choice cost, or what every choice would have.

    Threads may share a learner: each call is atomic.
    """

    feedback: ClassVar[Literal["bandit", "full"]]
    settings_type: ClassVar[type[Settings]]

    settings: S
    ledger: Ledger[L]
    rank: int | None = None  # number of features, where there are any
    epsilon: float | None = None  # error of the features, where there are any

    def _begin(self, settings: S, rng: Any) -> None:
        """A new game."""
        self.settings, self.ledger = settings, Ledger()
        self._rng = as_generator(rng, LEARNERS)
        self._settle_here()

    def _settle_here(self) -> None:
        """Belong to this process."""
        self._lock, self._home = threading.RLock(), _Forks.count

    # What a learner adds.

    @property
    @abc.abstractmethod
    def actions(self) -> Any:
        """Those in play: an array of shape (N, d) on a finite set, otherwise the set."""

    @abc.abstractmethod
    def _draw(self, count: int | None) -> tuple[L | None, Drawn]:
        """The law of the next decisions, and actions drawn from it; enters nothing."""

    def _drop_ahead(self) -> None:
        """Drop what was drawn for decisions to come, where anything was."""

    @abc.abstractmethod
    def _read(self, entries: Sequence[Entry[L]], loss: Any) -> Sequence[Any]:
        """Losses in the form that is learned from, one per entry, or an error; changes nothing."""

    def _admit(self, entry: Entry[L], loss: Any) -> None:
        """A last chance to refuse a loss that is learned from alone: where others are told of it, who may fail."""

    @abc.abstractmethod
    def _learn(self, law: L | None, entries: Sequence[Entry[L]], losses: Sequence[Any]) -> None:
        """Learn from losses of one law; must not fail. The ledger has settled the entries."""

    @abc.abstractmethod
    def _proved(self, rounds: int) -> Guarantee:
        """What is proved for so many rounds."""

    def _printed(self, rounds: int) -> Guarantee | None:
        """What the paper prints for the same parameters; None where these are not the paper's."""
        return None

    @abc.abstractmethod
    def recommend(self) -> Recommendation:
        """The best action so far."""

    @property
    @abc.abstractmethod
    def diagnostics(self) -> Any:
        """What an operator may want to see: a frozen dataclass, as text a short report."""

    @abc.abstractmethod
    def _save(self) -> dict[str, Any]:
        """What changes during the game, beside settings, ledger and generator."""

    @abc.abstractmethod
    def _load(self, data: Reader) -> None:
        """Take back what `_save` gave, in a learner that has settings and a generator."""

    def _condensed(self, law: L, keys: Sequence[Any]) -> Sequence[Any] | None:
        """What the late losses of single decisions of a law need, for each; None where the law takes less room."""
        return None

    def _late_lengths(self) -> tuple[int, ...]:
        """How many numbers there may be in what is left of a law."""
        return ()

    def _law_from_dict(self, data: Reader) -> L:
        """A law that `to_dict` has made plain."""
        raise TypeError(f"{type(self).__name__} keeps no laws")

    def _keys(self, data: Reader, name: str, count: int) -> Sequence[Any]:
        """What is kept of so many actions, from what a snapshot has under a name."""
        data.nothing(name)
        return [None] * count

    # Ask and tell.

    @overload
    def ask(self, count: None = None) -> Decision: ...

    @overload
    def ask(self, count: int) -> Decisions: ...

    def ask(self, count: int | None = None) -> Decision | Decisions:
        """Draw an action, or `count` of them from one law; at most 10⁷, and 10⁸ coordinates.

        Raises
        ------
        PolicyError
            Where a policy of your own fails: then no decision has been made.
        ForkedLearner
            In a fork of the process that it was made in, before `reseed`.
        """
        if self._home != _Forks.count:
            raise self._forked()
        if count is not None:
            count = self._as_count(count)
        with self._lock:
            law, drawn = self._draw(count)
            ledger = self.ledger
            number = ledger.heard if law is None else law.number
            first = ledger.enter(law, drawn.keys)
            if len(ledger.opened) > FEWEST_WHOLE:
                room = min(MOST_WHOLE, WHOLE_NUMBERS // (self.rank or 1) ** 2)
                ledger.condense(max(FEWEST_WHOLE, room), self._condensed)
        _, action, index, p = drawn
        if count is None:
            return Decision(first, action, index, p, number, ledger.mark)
        ids, numbers = np.arange(first, first + count), np.full(count, number)
        return Decisions(ids, action, index, p, numbers, ledger.mark)

    def _as_count(self, count: Any) -> int:
        """Number of decisions, if they can be made at once."""
        most = min(MOST_DECISIONS, MOST_COORDINATES // self.settings.actions.dimension)
        number = as_int("count", count, minimum=1)
        if number > most:
            raise ValueError(f"`count` must be at most {most}, got {reprlib.repr(number)}")
        return number

    def tell(self, decision: Told, loss: Any) -> None:
        """Learn from the loss of a decision, or the losses of several, in any order and at any time.

        Parameters
        ----------
        decision : Decision, Decisions, id, or a sequence of these
        loss : float, array, Loss, or a sequence of losses
            Smaller is better. Bandit feedback: what the action cost, one number per decision. Full information: the whole
            function, one per decision; on a finite set it may be the array of the losses of all points.

        Raises
        ------
        UnknownDecision
            Told already, never made, or made by another learner.
        LossOutOfBounds
            Outside what was promised.
        PolicyError
            Where a policy of your own fails to hear it. That loss, and those after it, have not been told then.
        ForkedLearner
            In a fork of the process that it was made in, before `reseed`.
        """
        if self._home != _Forks.count:
            raise self._forked()
        if isinstance(loss, Iterator):  # anybody's code, which is not to run while entries are held
            loss = list(loss)
        with self._lock:
            entries = self.ledger.find(decision)
            losses = self._read(entries, loss)
            law = entries[0].law if entries else None
            # Nothing can fail from here on, but for what `_admit` is for.
            if law is not None and law.together and _are_of(law, entries):
                self.ledger.settle(entries)
                self._learn(law, entries, losses)
                return
            for entry, one in zip(entries, losses, strict=True):
                self._admit(entry, one)
                self.ledger.settle((entry,))
                self._learn(entry.law, (entry,), (one,))

    def forget(self, ids: Told | None = None, *, before: int | None = None) -> int:
        """Wait no more for the losses of some decisions, or of all with an id below `before`; how many were outstanding.

        A guarantee counts them as losses that were never heard.
        """
        if self._home != _Forks.count:
            raise self._forked()
        with self._lock:
            return self.ledger.forget(ids, before=before)

    # Copies.

    def reseed(self, rng: Any = None) -> None:
        """Go on as a learner of its own: with other coins, and with decisions that no copy of it takes for its own.

        A copy, be it of a fork, a pickle or a snapshot, has the coins of the original and makes the same decisions. After
        `reseed` it has its own. Decisions that wait for their losses still do and can be told by their ids; told as
        decisions they are refused, as those of the learner that made them.

        Parameters
        ----------
        rng : seed or Generator, optional
            Where the coins come from; by default nobody has them but this learner. A policy of your own keeps its coins.

        Raises
        ------
        ForkedLearner
            Where another thread was changing the learner when the process was forked: what it left is not to be used.

        Examples
        --------
        >>> import copy
        >>> import koloss as kl
        >>> first = kl.BanditExpWeights(
        ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100, rng=0
        ... )
        >>> second = copy.deepcopy(first)
        >>> first.ask(20).index.tolist() == second.ask(20).index.tolist()
        True
        >>> second.reseed(1)
        >>> first.ask(20).index.tolist() == second.ask(20).index.tolist()
        False
        """
        coins = as_generator(rng, LEARNERS)
        self._take_lock()
        try:
            self._drop_ahead()
            self._rng, self.ledger.mark, self._home = coins, new_mark(), _Forks.count
        finally:
            self._lock.release()

    def _take_lock(self) -> None:
        """Take the lock, which nobody gives back in a fork where another thread had it."""
        if not self._lock.acquire(blocking=self._home == _Forks.count):
            raise ForkedLearner(
                "another thread was changing this learner when the process was forked: "
                "make one in this process, or from a snapshot"
            )

    def _forked(self) -> ForkedLearner:
        return ForkedLearner(
            "this process is a fork of the one that this learner was made in and shares its coins and its ledger: "
            "reseed() makes it a learner of its own"
        )

    # What it knows.

    @property
    def distribution(self) -> NDArray[np.float64]:
        """Probability of every action of a finite set in the next `ask()`."""
        raise NoDistribution(
            "`distribution` is for finite sets; a compact one has `log_density` or `mixture`"
        )

    @locked
    def probability(self, actions: Any) -> NDArray[np.float64]:
        """Probability of some actions in the next `ask()`: rows of coordinates, or indices.

        Equal points count together.
        """
        p, points = self.distribution, self.actions
        rows = _as_rows(actions, len(p))
        if rows is not None:
            chosen: NDArray[np.float64] = p[rows]
            return chosen
        X = to_numpy(as_points("actions", actions, dimension=points.shape[1]))
        same = np.all(np.isclose(X[:, None, :], points[None], rtol=1e-12, atol=1e-12), axis=2)
        if not same.any(axis=1).all():
            first = X[np.argmin(same.any(axis=1))]
            raise ValueError(f"`actions` must be actions in play, got {first}")
        together: NDArray[np.float64] = same @ p
        return together

    @locked
    def peek(self, rng: np.random.Generator, count: int = 64) -> tuple[NDArray[Any], NDArray[Any]]:
        """Next actions and their weights, for those who may know the law but not the coin; changes nothing.

        All actions of a finite set; elsewhere `count` draws with the random numbers of `rng`.
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"`rng` must be a Generator, got {type(rng).__name__}")
        return self._peek(rng, self._as_count(count))

    def _peek(self, rng: np.random.Generator, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Next actions and their weights."""
        return self.actions, self.distribution

    @locked
    def guarantee(self, *, rounds: int | None = None, printed: bool | None = None) -> Guarantee:
        """The regret bound, term by term.

        Parameters
        ----------
        rounds : int, optional
            After so many rounds; by default the horizon, or the rounds played where there is none.
        printed : bool, optional
            With the paper's tuning: the bound as the paper prints it (the default), or what is proved for the same
            parameters.
        """
        n = self.settings.horizon or max(self.ledger.made, 1)
        if rounds is not None:
            n = as_int("rounds", rounds, minimum=1)
        if printed is not False:
            theirs = self._printed(n)
            if theirs is not None:
                return theirs
            if printed:
                raise ValueError("`printed` must be left out unless the tuning is the paper's")
        return self._proved(n)

    def __repr__(self) -> str:
        return self.settings.describe(type(self).__name__)

    @locked
    def _repr_html_(self) -> str:
        facts = {
            "kernel": repr(self.settings.kernel),
            "actions": repr(self.settings.actions),
            "horizon": f"{self.settings.horizon:,} rounds" if self.settings.horizon else "none",
            "decisions": f"{self.ledger.made:,} made, the losses of {self.ledger.heard:,} heard",
        }
        if self.rank is not None:
            facts["features"] = f"{self.rank:,}, error at most {self.epsilon or 0:.3g}"
        promise = _html.Safe(self.guarantee()._repr_html_())
        return _html.card(type(self).__name__, _html.facts_table(facts), promise)

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: arrays, numbers and strings, with the generator's state."""
        with self._lock:
            data = {
                "settings": self.settings.to_dict(),
                "ledger": self.ledger.to_dict(),
                "rng": generator_to_dict(self._rng),
                "learner": self._save(),
            }
            return seal(type(self).__name__, data)

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or of another format.
        """
        learner = cls.__new__(cls)
        learner._restore(Reader(cls._completed(unseal(cls.__name__, state))))
        return learner

    @classmethod
    def _completed(cls, state: dict[str, Any]) -> dict[str, Any]:
        """A state from before something could be said, with what was meant then."""
        return state

    def _restore(self, data: Reader) -> None:
        with data.suspicion():
            self.settings = self.settings_type.from_dict(data.part("settings"))  # type: ignore[assignment]
            self._rng = generator_from_dict(data.raw("rng"))
        self._settle_here()
        self._welcome()
        with data.suspicion():
            self._load(data.part("learner"))
            ledger = data.part("ledger")
            laws = [self._law_from_dict(law) for law in ledger.parts("laws")]
            waiting = len(ledger.raw("entries"))
            keys: Sequence[Any] = ()
            if waiting:
                keys = self._keys(ledger, "keys", waiting)
            else:
                ledger.nothing("keys")
            self.ledger = Ledger.from_dict(ledger, laws, keys, self._late_lengths())
            if self.feedback == "bandit" and bool(laws) != bool(self.ledger.made):
                ledger.refuse("laws", "must be there once decisions have been made", laws)
            self._check(data)
            data.finish()

    def _welcome(self) -> None:
        """Check what was given beside the snapshot, now that there are settings."""

    def _check(self, data: Reader) -> None:
        """Refuse parts of a snapshot that contradict each other."""
        if math.isnan(self._proved(max(self.ledger.made, 1)).total):
            data.refuse("learner", "must have a bound that is a number", math.nan)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what belongs to this process."""
        state = self.__dict__.copy()
        del state["_lock"], state["_home"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._settle_here()


def _as_rows(actions: Any, count: int) -> NDArray[np.int64] | None:
    """Rows of a finite set, if that is what was given."""
    try:
        rows = np.asarray(actions)
    except (TypeError, ValueError):  # ragged: no rows, and no points either
        return None
    if rows.ndim > 1 or rows.dtype.kind not in "iu":
        return None
    if rows.size and not 0 <= rows.min() <= rows.max() < count:
        raise ValueError(f"`actions` must be rows from 0 to {count - 1}, got {actions!r}")
    return rows.astype(np.int64)


# Losses that are numbers.


def read_losses(loss: Any, count: int, low: float, high: float, sign: int = 1) -> Sequence[float]:
    """Finite losses within the interval that was promised, one per decision; where `sign` is -1, rewards are told.

    Text, bytes, truth values, masked values and time differences are not losses.
    """
    if sign < 0:
        rewards = read_losses(loss, count, -high, -low)
        return [-rewards[0]] if count == 1 else -np.asarray(rewards)  # type: ignore[return-value]
    if count == 1 and type(loss) is float and low <= loss <= high:
        return (loss,)  # the lane for single calls
    losses = _as_numbers(loss)
    if losses.size != count or losses.ndim > 1:
        got = f"shape {losses.shape}"
        raise ValueError(f"`loss` must have {count} entries, one per decision, got {got}")
    losses = losses.reshape(-1)
    if not np.all(np.isfinite(losses)):
        raise ValueError(f"`loss` must be finite, got {loss!r}")
    slack = 1e-9 * (high - low)
    outside = losses[(losses < low - slack) | (losses > high + slack)]
    if outside.size:
        raise LossOutOfBounds(f"`loss` must be in [{low:.6g}, {high:.6g}], got {outside[0]:.6g}")
    return losses.tolist() if count == 1 else losses  # type: ignore[return-value]


def _as_numbers(loss: Any) -> NDArray[np.float64]:
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
            return np.array([as_float("loss", one) for one in array.flat]).reshape(array.shape)
    got = reprlib.repr(loss)
    raise TypeError(f"`loss` must be a number or an array of numbers, got {got}")


def _is_no_number(one: Any, depth: int = 0) -> bool:
    """Whether it would become a number in an array, and is none: a truth value, a masked one."""
    if isinstance(one, (list, tuple)):
        return depth > 1 or any(_is_no_number(part, depth + 1) for part in one)
    truth = isinstance(one, (bool, np.bool_)) or getattr(one, "dtype", None) == np.bool_
    return truth or isinstance(one, np.ma.MaskedArray)
