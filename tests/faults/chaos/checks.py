"""Whether what clients saw and what the log says can both be true, found in one pass over the log.

Every operation that ended ok is there once, with the answer that was given; one that failed is not there; one that is unknown is
there once or not at all. Nothing is there that nobody asked for, or twice. Decisions are numbered without gaps, values are counted
at most once, and what had ended before something else began is in front of it in the log.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from koloss.studies import Event
from koloss.studies.state import grouped
from tests.faults.chaos.history import FAILED, OK, UNKNOWN, Attempt

SLACK = 1e-4  # seconds by which clocks of two processors may differ


@dataclass
class Operation:
    """All attempts at one thing."""

    what: str
    said: dict[str, Any]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """Ok if any attempt was; failed if none can have done it."""
        outcomes = {attempt.outcome for attempt in self.attempts}
        if OK in outcomes:
            return OK
        final = max((a.invoked for a in self.attempts if a.final), default=-math.inf)
        left = (a.invoked for a in self.attempts if a.outcome == UNKNOWN)
        return UNKNOWN if any(invoked > final for invoked in left) else FAILED

    @property
    def invoked(self) -> float:
        return min(attempt.invoked for attempt in self.attempts)

    @property
    def ended(self) -> float:
        """When it was first known to have happened."""
        return min((a.ended for a in self.attempts if a.outcome == OK), default=math.inf)

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [a.answer for a in self.attempts if a.outcome == OK and a.answer is not None]


def operations(attempts: Iterable[Attempt]) -> dict[str, Operation]:
    """Attempts by what they were at."""
    found: dict[str, Operation] = {}
    for attempt in attempts:
        one = found.setdefault(attempt.name, Operation(attempt.what, attempt.said))
        one.attempts.append(attempt)
    return found


def check(attempts: Sequence[Attempt], events: Iterable[Event]) -> list[str]:
    """What cannot be true, a line each."""
    problems = [f"{a.name}: {a.error}" for a in attempts if a.error.startswith("unexpected")]
    log = _Log(operations(attempts))
    for group in grouped(log.in_order(events)):
        log.enter(group)
    log.finish()
    return problems + log.problems


def done(attempts: Sequence[Attempt], events: Iterable[Event]) -> int:
    """How many of the unknown operations have happened."""
    log = _Log(operations(attempts))
    for group in grouped(log.in_order(events)):
        log.enter(group)
    known = [name for name in log.found if log.operations[name].outcome == UNKNOWN]
    return len(known) + sum(1 for _, group in log.nameless if not log.owner(group))


class _Log:
    """The log as it is read, and who has done what is in it."""

    def __init__(self, known: dict[str, Operation]) -> None:
        self.operations, self.problems = known, list[str]()
        self.seq = self.micros = self.made = 0
        self.asked: dict[int, dict[str, Any]] = {}
        self.told: dict[int, float] = {}
        self.counted: Counter[int] = Counter()
        self.found: dict[str, int] = {}  # operations that are there, and where
        self.nameless: list[tuple[int, list[Event]]] = []  # asks without a key of the clients'
        self.tells = {
            (i, value): name
            for name, one in known.items()
            if one.what == "tell"
            for i, value in zip(one.said["ids"], one.said["values"], strict=True)
        }
        self.newest = -math.inf  # the latest beginning of what was read so far
        self.newest_name = ""
        self.answered: dict[int, list[str]] = defaultdict(list)  # by id, who was given it
        for name, one in known.items():
            for answer in one.answers:
                for i in answer["ids"]:
                    if name not in self.answered[i]:
                        self.answered[i].append(name)

    def add(self, problem: str) -> None:
        self.problems.append(problem)

    def in_order(self, events: Iterable[Event]) -> Iterable[Event]:
        """Numbers without gaps, time that does not run backwards, each decision and value once."""
        for event in events:
            if event.seq != self.seq + 1:
                self.add(f"event {event.seq} follows event {self.seq}")
            if event.micros < self.micros:
                self.add(f"event {event.seq} is before the one that it follows")
            self.seq, self.micros = event.seq, event.micros
            if event.kind == "asked":
                self._enter_decision(event)
            elif event.kind in ("told", "expired"):
                self._enter_value(event)
            yield event

    def _enter_decision(self, event: Event) -> None:
        assert event.decision is not None
        if event.decision in self.asked:
            self.add(f"decision {event.decision} is made twice, again in event {event.seq}")
        elif event.decision != self.made:
            self.add(f"decision {event.decision} follows decision {self.made - 1}")
        self.asked[event.decision] = event.data
        self.made = max(self.made, event.decision + 1)

    def _enter_value(self, event: Event) -> None:
        i = event.decision
        assert i is not None
        if i not in self.asked:
            self.add(f"event {event.seq}: {event.kind} decision {i}, which was not made")
        if event.kind == "told":
            if i in self.told:
                self.add(f"decision {i} is told twice, again in event {event.seq}")
            self.told[i] = event.data["value"]
        self.counted[i] += "value" in event.data and event.data.get("used") is not False
        if self.counted[i] == 2:
            self.add(f"the value of decision {i} is counted twice, again in event {event.seq}")

    def enter(self, group: list[Event]) -> None:
        """Find out whose a group of events is."""
        first = group[0]
        if first.kind == "told":
            self._enter_tell(group)
        elif first.kind == "asked":
            if first.request in self.operations:
                self._enter_operation(str(first.request), group)
            else:
                self.nameless.append((first.seq, group))
                # The decision of a subject may be another's than whoever was given it.
                if not first.data.get("sticky") and (owner := self.owner(group)):
                    self._enter_operation(owner, group)
        elif first.kind == "repeated" and first.request in self.operations:
            self._enter_operation(first.request, group)

    def owner(self, group: list[Event]) -> str | None:
        """Who was given the decisions of an ask without a key, first."""
        names = self.answered.get(group[0].decision or 0, [])
        return min(names, key=lambda name: self.operations[name].ended, default=None)

    def _enter_tell(self, group: list[Event]) -> None:
        names = {self.tells.get((e.decision or 0, e.data["value"])) for e in group}
        name = names.pop()
        if names or name is None:
            self.add(f"event {group[0].seq}: nobody has told decision {group[0].decision} that")
            return
        if [e.decision for e in group] != self.operations[name].said["ids"]:
            self.add(f"event {group[0].seq}: {name} is there in part")
        self._enter_operation(name, group)

    def _enter_operation(self, name: str, group: list[Event]) -> None:
        one, where = self.operations[name], group[0].seq
        if name in self.found:
            self.add(f"{name} is done twice, in events {self.found[name]} and {where}")
        self.found[name] = where
        if one.outcome == FAILED:
            self.add(f"{name} has failed and is there, event {where}: {one.attempts[-1].error}")
        if one.said.get("subject"):
            return  # whoever made the decision of a subject may not have lived to be given it
        ids = [event.decision for event in group]
        if any(answer["ids"] != ids for answer in one.answers):
            self.add(f"{name} was given {one.answers[0]['ids']}, and has made {ids}, event {where}")
        if one.ended + SLACK < self.newest:
            self.add(
                f"{name}, event {where}, ended before {self.newest_name} began, which it follows"
            )
        if one.invoked > self.newest:
            self.newest, self.newest_name = one.invoked, name

    def finish(self) -> None:
        """What should be there and is not; what is there, and who could have done it."""
        for name, one in self.operations.items():
            shared = one.said.get("subject") and not one.said["request"]
            if one.outcome == OK and name not in self.found and not shared:
                self.add(f"{name} ended ok and is not there: {one.said}")
            if one.what == "ask":
                self._check_answers(name, one)
        self._check_shared()
        self._check_nameless()

    def _check_answers(self, name: str, one: Operation) -> None:
        answers = one.answers
        if any(answer != answers[0] for answer in answers):
            self.add(f"{name} was answered in several ways: {answers}")
        for answer in answers[:1]:
            if len(answer["ids"]) != (one.said["count"] or 1):
                self.add(f"{name} was given {len(answer['ids'])} decisions: {one.said}")
            for i, index, p in zip(answer["ids"], answer["index"], answer["p"], strict=True):
                data = self.asked.get(i)
                if data is None:
                    self.add(f"{name} was given decision {i}, which is not there")
                elif (data["index"], data["p"]) != (index, p):
                    self.add(f"{name} was given decision {i} otherwise than the log has it")

    def _check_shared(self) -> None:
        """A decision is handed out once, or again and again to one subject."""
        for i, names in self.answered.items():
            subjects = {self.operations[name].said.get("subject") for name in names}
            if len(names) > 1 and (len(subjects) > 1 or None in subjects):
                self.add(f"decision {i} was handed out to {', '.join(sorted(names))}")

    def _check_nameless(self) -> None:
        """Decisions that nobody was given: as many as asks whose end is unknown could have made."""
        left: Counter[tuple[int, bool]] = Counter()
        for one in self.operations.values():
            if one.what == "ask" and one.outcome == UNKNOWN and not one.said["request"]:
                left[one.said["count"] or 1, one.said["subject"] is not None] += 1
        for where, group in self.nameless:
            if self.owner(group) is None:
                kind = len(group), bool(group[0].data.get("sticky"))
                left[kind] -= 1
                if left[kind] < 0:
                    self.add(f"event {where}: nobody has asked for decision {group[0].decision}")


def replay(learner: Any, events: Iterable[Event], release: bool = False) -> list[str]:
    """The game again by a learner alone, which is asked and told what the log says: does it decide the same?"""
    problems: list[str] = []
    expired: set[int] = set()
    held: dict[int, float] = {}

    def hear(values: dict[int, float]) -> None:
        if values:
            told = list(values.values())
            learner.tell(list(values), told[0] if len(told) == 1 else told)

    for group in grouped(events):
        first = group[0]
        if first.kind == "asked":
            made = learner.ask(first.data.get("batch"))
            for event, one in zip(
                group, [made] if "batch" not in first.data else made, strict=True
            ):
                mine = (one.id, one.index, one.probability)
                theirs = (event.decision, event.data["index"], event.data["p"])
                if mine != theirs:
                    problems.append(
                        f"event {event.seq} is {theirs}, and {mine} for a learner alone"
                    )
        elif first.kind == "told":
            used = {e.decision or 0: e.data["value"] for e in group if "used" not in e.data}
            early = {i: value for i, value in used.items() if release and i not in expired}
            held |= early
            hear({i: value for i, value in used.items() if i not in early})
        elif first.kind == "expired":
            ids = [event.decision or 0 for event in group]
            expired.update(ids)
            if "value" in first.data:
                default = dict.fromkeys(ids, first.data["value"])
                if release:
                    held |= default
                else:
                    hear(default)
        elif first.kind == "released":
            expired.update(first.data["ids"])
            hear({i: held.pop(i) for i in first.data["ids"]})
    return problems
