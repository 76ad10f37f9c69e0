"""What the log of a study says: a learner, the decisions that are waited for, and what has been counted.

    state = State.begin(created)          from the first event
    state.apply(group)                    event by event; those of one call together, as the learner was asked or told them

Whoever applies the same events has the same state: live, in a replay, and in the process next to this one.
"""

from __future__ import annotations

import base64
import copy
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self

import numpy as np

from koloss.core.snapshot import seal, state_from_bytes, state_to_bytes, unseal
from koloss.errors import SnapshotError, StoreError
from koloss.learners import BanditExpWeights, Decision, Decisions, InsuredBandit
from koloss.learners.base import Learner
from koloss.learners.ledger import new_mark
from koloss.studies.settings import StudySettings, change
from koloss.studies.store import EPOCH, KINDS, Event, Snapshot

FORMAT = 1
"""Form of the events written here; those of a later one are refused."""

LEARNERS: dict[str, type[Learner[Any, Any]]] = {
    kind.__name__: kind for kind in (BanditExpWeights, InsuredBandit)
}


class PolicyMissing(TypeError):
    """The learner of a study has a policy of its user's, which was not given again."""


def created(
    learner: Learner[Any, Any], settings: StudySettings, micros: int, platform: str
) -> Event:
    """The first event of a study."""
    content = base64.b64encode(state_to_bytes(_on_its_own(learner))).decode()
    data = {
        "format": FORMAT,
        "learner": type(learner).__name__,
        "platform": platform,
        "settings": settings.to_dict(),
        "state": content,
    }
    return Event(1, "created", micros, data=data)


def _on_its_own(learner: Learner[Any, Any]) -> dict[str, Any]:
    """A learner's state under a mark of its own, or a study would take decisions of the learner's other copies for its own."""
    state, kind = learner.state(), type(learner).__name__
    if len(learner.ledger):  # whose decisions may still be told
        return state
    data = unseal(kind, state)
    data["identity"] = data["learner"]["ledger"]["Ledger"]["mark"] = new_mark()
    return seal(kind, data)


def copied(policy: Any) -> Any:
    """A policy of one's own as it is now; each state has one, since what fails is thrown away and made again."""
    try:
        return copy.deepcopy(policy)
    except Exception as error:
        kind = type(policy).__name__
        raise TypeError(
            f"`policy` must be one that copy.deepcopy can copy, got a {kind}: {error}"
        ) from error


def without_secrets(event: Event) -> Event:
    """The first event without the key of the subjects, and without the learner's arrays."""
    data = {name: value for name, value in event.data.items() if name != "state"}
    data["settings"] = {k: v for k, v in data["settings"].items() if k != "key"}
    return replace(event, data=data)


def grouped(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events of one call together; the first of several says how many there are."""
    group: list[Event] = []
    for event in events:
        group.append(event)
        if len(group) == group[0].data.get("batch", 1):
            yield group
            group = []


class State:
    """The state of a study after an event."""

    learner: Learner[Any, Any]
    settings: StudySettings

    def __init__(self, first: Event, policy: Any) -> None:
        form = first.data.get("format")
        if first.kind != "created" or not isinstance(form, int):
            raise StoreError(f"a study must begin with a created event, got {first.kind!r}")
        if form > FORMAT:
            rule = f"this version of Koloss knows formats up to {FORMAT}"
            raise StoreError(f"the format of this study is {form}, and {rule}")
        self.created = first
        self.settings = StudySettings(**first.data["settings"])
        self.kind = LEARNERS[first.data["learner"]]
        self.seq, self.micros = first.seq, first.micros
        self.paused = False
        self.platform: str = first.data["platform"]  # of whoever has written last
        self.counts: Counter[str] = Counter()  # events, and what became of values
        self.waiting: dict[int, int] = {}  # by decision, when its lease runs out
        self.held: dict[int, float] = {}  # values that wait for the end of their lease
        self.sticky: set[int] = set()  # decisions that wait and that a subject has
        self._queue: list[tuple[int, int]] = []  # a heap of leases' ends and decisions
        self._policy = policy

    def begin(self) -> None:
        """Take the learner from the first event."""
        self._restore(state_from_bytes(base64.b64decode(self.created.data["state"])))

    def _restore(self, learner: dict[str, Any]) -> None:
        if self.kind is InsuredBandit:
            made = InsuredBandit.from_state(learner, policy=self._policy)
            if made.settings.policy_name == "own" and self._policy is None:
                raise PolicyMissing(
                    "`policy` must be given: the learner of this study has one of yours"
                )
            self.learner = made
        else:
            self.learner = self.kind.from_state(learner)

    @property
    def restorable(self) -> bool:
        """Whether a snapshot has all: a policy of one's own is in it if it can say and take back its state."""
        policy = self._policy
        if policy is None or isinstance(policy, str):
            return True
        return hasattr(policy, "state") and hasattr(policy, "restore")

    # Snapshots.

    def to_bytes(self) -> bytes:
        """A snapshot, sealed by a digest."""
        return state_to_bytes(seal("Study", self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the learner, and what is waited for."""
        waiting, held = self.waiting, self.held
        return {
            "seq": self.seq,
            "micros": self.micros,
            "settings": self.settings.to_dict(),
            "paused": self.paused,
            "platform": self.platform,
            "counts": dict(self.counts),
            "waiting": np.array(list(waiting.items()), dtype=np.int64).reshape(-1, 2),
            "held_ids": np.array(list(held), dtype=np.int64),
            "held": np.array(list(held.values()), dtype=float),
            "sticky": np.array(sorted(self.sticky), dtype=np.int64),
            "learner": self.learner.state(),
        }

    @classmethod
    def from_bytes(cls, first: Event, snapshot: Snapshot, policy: Any = None) -> Self:
        """The state in a snapshot, or a `SnapshotError` where it is damaged."""
        state = cls(first, policy)
        data = unseal("Study", state_from_bytes(snapshot.content))
        if data.get("seq") != snapshot.seq:
            raise SnapshotError(f"it is of event {data.get('seq')}")
        try:
            state._take(data)
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"it is of another form: {error!r}") from error
        state._restore(data["learner"])
        return state

    def _take(self, data: dict[str, Any]) -> None:
        """What `to_dict` gave, but for the learner."""
        self.seq, self.micros = data["seq"], data["micros"]
        self.settings = StudySettings(**data["settings"])
        self.paused, self.platform = data["paused"], data["platform"]
        self.counts.update(data["counts"])
        self.waiting.update((i, end) for i, end in data["waiting"].tolist())
        self._queue = sorted((end, i) for i, end in self.waiting.items())
        self.held.update(zip(data["held_ids"].tolist(), data["held"].tolist(), strict=True))
        self.sticky.update(data["sticky"].tolist())

    # Events.

    def apply(
        self, group: Sequence[Event], made: Decision | Decisions | None = None
    ) -> Decision | Decisions | None:
        """Do what events of one call say; returns the decisions of an ask, those `made` or what would have been drawn.

        What an operator does may be refused, and then has changed nothing.
        """
        first, drawn = group[0], made
        if first.kind not in KINDS:
            what = f"event {first.seq} is of the kind {first.kind!r}"
            raise StoreError(f"{what}, which this version of Koloss does not know")
        if first.kind == "asked":
            drawn = self._replay(group) if made is None else made
        elif first.kind == "told":
            self._tell(group)
        elif first.kind == "expired":
            self._expire(group)
        elif first.kind == "released":
            ids = first.data["ids"]
            self._hear(ids, [self.held.pop(i) for i in ids])
        elif first.kind == "handed over":
            self.insured.hand_over(context=first.data.get("context"))
        elif first.kind == "re-armed":
            self.insured.re_arm(context=first.data.get("context"))
        elif first.kind == "changed":
            change(self, first.data["setting"], first.data.get("value"))
        elif first.kind in ("paused", "resumed"):
            self.paused = first.kind == "paused"
        for event in group:
            self.counts[event.kind] += 1
            self.platform = event.data.get("platform", self.platform)
            i = event.decision
            if event.kind == "asked" and i is not None:
                if self.settings.lease is not None:
                    self.waiting[i] = event.micros + self.settings.lease
                    heapq.heappush(self._queue, (self.waiting[i], i))
                if event.data.get("sticky"):
                    self.sticky.add(i)
        self.seq, self.micros = group[-1].seq, group[-1].micros
        return drawn

    def _replay(self, group: Sequence[Event]) -> Decision | Decisions:
        data = group[0].data
        keys = [_key(event.data) for event in group]
        count = data.get("batch")
        context, allowed = data.get("context"), data.get("allowed")
        return self.learner.replay(keys, count, context=context, allowed=allowed)

    def _tell(self, group: Sequence[Event]) -> None:
        now = []
        for event in group:
            i, value = event.decision, event.data["value"]
            assert i is not None
            if event.data.get("used") is False:
                self.counts["unused"] += 1
            elif i in self.waiting and self.settings.release:
                self.held[i] = value
            else:
                self.counts["late"] += self.settings.lease is not None and i not in self.waiting
                self._settle(i)
                now.append((i, value))
        if now:
            self._hear([i for i, _ in now], [value for _, value in now])

    def _expire(self, group: Sequence[Event]) -> None:
        ids = [event.decision for event in group if event.decision is not None]
        for i in ids:
            self._settle(i)
        default = group[0].data.get("value")
        if default is not None:
            self.counts["defaulted"] += len(ids)
            if self.settings.release:
                self.held.update(dict.fromkeys(ids, default))
            else:
                self._hear(ids, [default] * len(ids))

    def _settle(self, decision: int) -> None:
        self.waiting.pop(decision, None)
        self.sticky.discard(decision)

    def _hear(self, ids: list[int], values: list[float]) -> None:
        for i in ids:
            self._settle(i)
        self.learner.tell(ids, self.settings.told(values))

    def awaits(self, decision: int | None) -> bool:
        """Whether neither a value nor a default has come for a decision."""
        ledger = self.learner.ledger
        return decision in ledger and decision not in ledger.held and decision not in self.held

    def overdue(self, micros: int) -> list[int]:
        """Decisions whose leases have run out, oldest first."""
        queue, waiting, due = self._queue, self.waiting, []
        while queue and (queue[0][0] <= micros or queue[0][1] not in waiting):
            end, i = heapq.heappop(queue)
            if i in waiting:
                due.append((end, i))
        for one in due:  # they wait until an event says otherwise
            heapq.heappush(queue, one)
        return [i for _, i in due]

    @property
    def at(self) -> datetime:
        """When the newest event happened."""
        return EPOCH + timedelta(microseconds=self.micros)

    @property
    def grows(self) -> bool:
        """Whether the learner's actions change as it learns."""
        return bool(getattr(self.learner.settings, "in_play", None))

    @property
    def insured(self) -> InsuredBandit:
        """The learner, where it has an operator's buttons."""
        if not isinstance(self.learner, InsuredBandit):
            rule = "is for studies of an InsuredBandit"
            raise TypeError(f"this {rule}, got one of a {type(self.learner).__name__}")
        return self.learner


def _key(data: dict[str, Any]) -> Any:
    """What the learner keeps of an action that was recorded."""
    key = next(data[name] for name in ("key", "index", "action") if name in data)
    return np.array(key) if isinstance(key, list) else key
