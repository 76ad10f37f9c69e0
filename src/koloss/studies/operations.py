"""What can be done to a study in a transaction: each writes its events and gives an answer, or the same answer again."""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from koloss.core.arrays import as_int
from koloss.errors import AlreadyTold, RequestConflict, StudyPaused, UnknownDecision
from koloss.learners import Decision, Decisions
from koloss.studies.platform import PLATFORM
from koloss.studies.settings import as_choice, as_key, as_plain
from koloss.studies.state import State
from koloss.studies.store import Event, Transaction

REFUSABLE = ("handed over", "re-armed", "changed")
"""Kinds of events that are refused by applying them, which then changes nothing."""


@dataclass
class Turn:
    """A transaction, the state up to it, and its time."""

    state: State
    log: Transaction
    micros: int
    changing: bool = False  # whether something has been begun that must not be left half done

    def event(self, kind: str, decision: int | None = None, **data: Any) -> Event:
        """One to be appended."""
        return Event(0, kind, self.micros, decision, None, data)

    def do(self, events: list[Event], request: str | None = None, made: Any = None) -> None:
        """Apply events and append them; decisions that were `made` are not drawn again.

        Of all that can happen only what an operator does may still be refused here.
        """
        state = self.state
        if len(events) > 1:
            events[0].data["batch"] = len(events)
        if state.platform != PLATFORM:
            events[0].data["platform"] = PLATFORM
        group = [
            replace(event, seq=state.seq + k, request=request)
            for k, event in enumerate(events, start=1)
        ]
        self.changing |= group[0].kind not in REFUSABLE
        state.apply(group, made)
        self.changing = True
        self.log.append(group)
        self.changing = False

    def expire(self) -> None:
        """Let leases run out."""
        state, default = self.state, self.state.settings.default
        due = state.overdue(self.micros)
        if not due:
            return
        silent = [i for i in due if i not in state.held]
        self.log.unbind([i for i in due if i in state.sticky])
        data = {} if default is None else {"value": default}
        if silent:
            self.do([self.event("expired", i, **data) for i in silent])
        if state.settings.release:
            ready = [i for i in due if i in state.held]
            if ready:
                self.do([self.event("released", ids=ready)])


@dataclass(eq=False)
class Operation(abc.ABC):
    """Something that a caller waits for."""

    request: str | None = None
    generated: bool = field(default=False, init=False)  # whether the key is ours
    tried: bool = field(default=False, init=False)
    answer: Any = field(default=None, init=False)
    error: BaseException | None = field(default=None, init=False)
    done: bool = field(default=False, init=False)
    committing: bool = field(default=False, init=False)  # whether it may have been committed
    # Set where it is done, and where it is the first of those that wait and nobody carries them out.
    woken: threading.Event = field(default_factory=threading.Event, init=False)

    @property
    def before_leases(self) -> bool:
        """Whether it is carried out before leases run out."""
        return False

    def fail(self, error: BaseException) -> None:
        """It has failed, as others may have by the same error; each raises its own."""
        try:
            own = copy(error).with_traceback(error.__traceback__)
            own.__cause__ = error.__cause__
        except TypeError:  # one that cannot be copied
            own = error
        self.end(None, own)

    def end(self, answer: Any, error: BaseException | None) -> None:
        """It is done, and whoever waits for it can go on."""
        self.answer, self.error, self.done = answer, error, True
        self.woken.set()

    def carry_out(self, turn: Turn) -> Any:
        """Do it, or give the answer that its request got before."""
        # A key that was made for this call is in no log before the call is tried again.
        fresh, self.tried = self.generated and not self.tried, True
        if self.request is not None and not fresh:
            before = turn.log.by_request(self.request)
            if before:
                if not self.is_same(before):
                    what = f"{before[0].kind!r}, event {before[0].seq}"
                    raise RequestConflict(
                        f"`request` must be a new key for another request, got {self.request!r} of {what}"
                    )
                return self.again(turn, before)
        return self.run(turn)

    @abc.abstractmethod
    def run(self, turn: Turn) -> Any:
        """Do it."""

    @abc.abstractmethod
    def is_same(self, events: Sequence[Event]) -> bool:
        """Whether it is what was asked for when these were written."""

    def again(self, turn: Turn, events: Sequence[Event]) -> Any:
        """The answer that it had."""
        return None


@dataclass(eq=False)
class Ask(Operation):
    """Make decisions, or find the one that a subject has."""

    count: int | None = None
    context: Any = None
    allowed: Any = None
    choice: Any = None  # `allowed` as it is written down
    subject: str | None = None

    def run(self, turn: Turn) -> Decision | Decisions:
        state = turn.state
        if state.paused:
            raise StudyPaused("this study is paused and makes no decisions until it is resumed")
        subject = None if self.subject is None else state.settings.subject(self.subject)
        if subject is not None:
            decision = turn.log.decision_of(subject)
            if decision is not None and decision in state.sticky:
                if self.request is not None and not self.generated:
                    turn.do([turn.event("repeated", decision)], self.request)
                return answer(state, turn.log.about(decision)[:1], None)
        made = state.learner.ask(self.count, context=self.context, allowed=self.allowed)
        turn.changing = True
        events = _asked(turn, made)
        if self.count is not None:
            events[0].data["batch"] = self.count  # one, too: its context is a list of one
        for name, value in (("context", self.context), ("allowed", self.choice)):
            if value is not None:
                events[0].data[name] = value
        if subject is not None:
            events[0].data["sticky"] = True
            turn.log.bind(subject, int(made.id))
        turn.do(events, self.request, made)
        return made

    def is_same(self, events: Sequence[Event]) -> bool:
        first = events[0]
        if first.kind == "repeated":
            return self.subject is not None
        data = first.data
        theirs = (data.get("context"), data.get("allowed"), bool(data.get("sticky")))
        mine = (self.context, self.choice, self.subject is not None)
        return (first.kind, len(events)) == ("asked", self.count or 1) and theirs == mine

    def again(self, turn: Turn, events: Sequence[Event]) -> Any:
        if events[0].kind == "repeated":
            assert events[0].decision is not None
            events = turn.log.about(events[0].decision)[:1]
        return answer(turn.state, events, self.count)


def asking(count: Any, context: Any, subject: Any, request: Any, allowed: Any) -> Ask:
    """What a caller asks for, if it can be asked."""
    if count is not None:
        count = as_int("count", count, minimum=1)
        if subject is not None:
            raise ValueError(f"`count` must be left out beside a `subject`, got {count}")
    return Ask(
        request=as_key(request),
        count=count,
        context=as_plain("context", context),
        allowed=allowed,
        choice=None if allowed is None else as_choice(allowed),
        subject=subject,
    )


def _asked(turn: Turn, made: Decision | Decisions) -> list[Event]:
    """Events of decisions that were made."""
    ledger = turn.state.learner.ledger
    events = []
    for one in [made] if isinstance(made, Decision) else made:
        key = ledger.entry(one.id).key
        data: dict[str, Any] = {"index": one.index, "p": one.probability, "epoch": one.epoch}
        data = {name: value for name, value in data.items() if value is not None}
        if one.index is None or turn.state.grows:
            data["action"] = one.action.tolist()
        plain = key.tolist() if isinstance(key, np.ndarray) else int(key)
        if plain not in (data.get("index"), data.get("action")):
            data["key"] = plain
        events.append(turn.event("asked", one.id, **data))
    return events


def answer(state: State, events: Sequence[Event], count: int | None) -> Decision | Decisions:
    """Decisions as they were handed out."""
    learner = state.learner

    def column(name: str, dtype: Any = None) -> Any:
        there = name in events[0].data
        return np.array([event.data[name] for event in events], dtype) if there else None

    index, action = column("index", np.int64), column("action")
    if action is None:
        action = np.array(learner.actions[index])
    ids = np.array([event.decision for event in events], dtype=np.int64)
    mark, epochs = learner.ledger.mark, column("epoch", np.int64)
    made = Decisions(ids, action, index, column("p"), epochs, mark, learner.params)
    return made if count is not None else made[0]


@dataclass(eq=False)
class Tell(Operation):
    """Hear what decisions have brought."""

    decision: Any = None
    value: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.decision, Iterator):  # which could not be read again
            self.decision = list(self.decision)
        if isinstance(self.value, Iterator):
            self.value = list(self.value)

    def run(self, turn: Turn) -> None:
        state = turn.state
        ids = self._ids(state)
        values = state.settings.read(state.learner, self.value, len(ids))
        events = []
        for i, value in zip(ids, values, strict=True):
            data = {} if self._is_used(turn, i) else {"used": False}
            events.append(turn.event("told", i, value=value, **data))
        if events:
            turn.changing = True
            turn.log.unbind([i for i in ids if i in state.sticky])
            turn.do(events, self.request)

    def _ids(self, state: State) -> list[int]:
        ledger, decision = state.learner.ledger, self.decision
        single = isinstance(decision, (Decision, Decisions, int))  # which need not be searched for
        ids = ledger.ids(decision, taken=None if single else set(state.held))
        if len(set(ids)) < len(ids):
            raise UnknownDecision("`decision` must not repeat an id, got one twice")
        return ids

    def _is_used(self, turn: Turn, decision: int) -> bool:
        """Whether the learner still waits for the value; False where a default was counted in its place."""
        if turn.state.awaits(decision):
            return True
        made = turn.state.learner.ledger.made
        known = 0 <= decision < made  # a store has no room for any number
        kinds = [event.kind for event in turn.log.about(decision)] if known else []
        if "told" in kinds:
            raise AlreadyTold(
                f"`decision` must be outstanding, got {decision}, which was told already"
            )
        if "expired" in kinds:
            return False
        fate = "told already" if known else "never made"
        raise UnknownDecision(f"`decision` must be outstanding, got {decision}, which was {fate}")

    def is_same(self, events: Sequence[Event]) -> bool:
        if events[0].kind != "told":
            return False
        theirs = [(event.decision, event.data["value"]) for event in events]
        try:
            values = np.ravel(np.asarray(self.value, dtype=float)).tolist()
            named = _named(self.decision)
        except (TypeError, ValueError):
            return False
        mine = [(i, value) for i, value in zip(named, values, strict=False)]
        return len(named) == len(values) == len(theirs) and all(
            value == other and i in (None, j)
            for (i, value), (j, other) in zip(mine, theirs, strict=True)
        )


def _named(decision: Any) -> list[int | None]:
    """Ids of decisions, which need not wait any more; None for params, which could be any's."""
    if isinstance(decision, Decision):
        return [decision.id]
    if isinstance(decision, Decisions):
        return list(decision.id.tolist())
    if isinstance(decision, (int, np.integer)):
        return [int(decision)]
    if isinstance(decision, Mapping):
        return [None]
    return [i for one in decision for i in _named(one)]


@dataclass(eq=False)
class Forget(Operation):
    """Erase what is held of a subject."""

    subject: str = ""

    def run(self, turn: Turn) -> int:
        return turn.log.forget_subject(turn.state.settings.subject(self.subject))

    def is_same(self, events: Sequence[Event]) -> bool:
        return False


@dataclass(eq=False)
class Press(Operation):
    """Something that an operator does."""

    kind: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def before_leases(self) -> bool:
        """A policy that fails to hear a default could not be stopped otherwise."""
        return self.kind == "handed over"

    def run(self, turn: Turn) -> None:
        idle = self.kind in ("paused", "resumed") and turn.state.paused == (self.kind == "paused")
        if idle and (self.request is None or self.generated):  # a key has to be found again
            return
        turn.do([turn.event(self.kind, **self.data)], self.request)

    def is_same(self, events: Sequence[Event]) -> bool:
        return events[0].kind == self.kind and all(
            events[0].data.get(name) == value for name, value in self.data.items()
        )
