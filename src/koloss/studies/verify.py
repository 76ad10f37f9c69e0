"""`verify`: play a study again from its first event, and see that everything is as it was recorded.

Last digits differ from one BLAS, processor or version to another. Where a learner decides by a comparison, they may decide: a coin
between two actions, a tie between two forecasts, the end of an epoch. Whether they could is found by trying: the values of the
last few hundred calls are moved by far less than anybody can measure, and the study is replayed with them.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from koloss.core.snapshot import state_from_bytes
from koloss.errors import LossOutOfBounds, SnapshotError
from koloss.learners import Decision, Decisions
from koloss.learners.base import Learner
from koloss.studies.platform import PLATFORM
from koloss.studies.state import PolicyMissing, State, copied
from koloss.studies.store import KINDS, Event, Snapshot, Store, check_findable, open_store

MOST = 100
"""Most problems or differences that are listed; all are counted."""

TOLERANCE = 1e-6
"""Numbers that differ by no more than this, relative to the larger, differ by rounding. Measured between kernels of OpenBLAS: 1e-9 at most."""

FLOOR = 1e-12
"""Numbers that differ by no more than this differ by rounding, too: what is zero here may be anything that small elsewhere."""

NOISES = (1e-12, 1e-10, 1e-8, 1e-6)
"""By which values are moved, in units of their range. The least comes first: where a forecast hangs on the difference of nearly
equal numbers, rounding does more than where it does not."""

TRIES = 8
"""Replays with values that were moved by each of these."""

BEFORE = 256
"""Calls before an event whose values are moved, at the least; fewer where the study is younger."""

Facts = list[dict[str, Any]]
Test = Callable[[State, Any], bool]


class _Departed(Exception):
    """A replay went another way than was recorded, and it is to be seen whether rounding explains it."""


@dataclass
class Report:
    """What a replay of a study's log has found. As data (`to_dict`) it is fit for JSON, as text a few lines."""

    name: str
    events: int = 0
    decisions: int = 0
    problems: list[str] = field(default_factory=list)  # what cannot be
    differences: list[str] = field(default_factory=list)  # what rounding explains
    counted: dict[str, int] = field(default_factory=lambda: {"problems": 0, "differences": 0})
    snapshots: list[int] = field(default_factory=list)  # events after which one is as replayed
    platforms: list[str] = field(default_factory=list)  # those that events were written on
    facts: dict[str, Any] = field(default_factory=dict)  # what the store says of itself

    @property
    def ok(self) -> bool:
        """Whether the history proves itself."""
        return not self.counted["problems"]

    def to_dict(self) -> dict[str, Any]:
        """A plain dict, fit for JSON."""
        return {"ok": self.ok, **asdict(self)}

    def add(self, where: str, what: str) -> None:
        """Write down a problem or a difference."""
        self.counted[where] += 1
        if len(getattr(self, where)) < MOST:
            getattr(self, where).append(what)

    def __str__(self) -> str:
        verdict = "as recorded" if self.ok else f"{self.counted['problems']} problems"
        lines = [f"{self.name}: {self.events} events, {self.decisions} decisions: {verdict}"]
        lines += [f"  {problem}" for problem in self.problems]
        if self.counted["differences"]:
            other = f"differ here by rounding ({PLATFORM})"
            lines.append(f"  {self.counted['differences']} {other}; what was recorded counts")
            lines += [f"    {difference}" for difference in self.differences]
        lines += [f"  snapshot after event {seq}: as replayed" for seq in self.snapshots]
        lines += [f"  {warning}" for warning in self.facts.get("warnings", [])]
        return "\n".join(lines)


def verify(store: str | Store, name: str, *, policy: Any = None) -> Report:
    """Replay a study from its first event: every decision, action and probability is to be as recorded.

    Parameters
    ----------
    store : URL or Store
    name : str
    policy : object, optional
        In the place of a policy of your own, as for `Study.open`; without it such a study cannot be replayed, which is a `TypeError`.

    Returns
    -------
    Report
        `ok` where the history proves itself. What differs by rounding is a difference and no problem: numbers that agree to
        1e-6 of their size or to 1e-12, and decisions that other last digits would have led to. What was recorded counts then.

    Notes
    -----
    The replay takes every recorded action for the one that was played. Where its own draw, probability or epoch is another by more
    than rounding, the study is replayed up to there with values that were moved by 1e-12 to 1e-6 of their range. If they lead to what
    was recorded, the comparison was as good as a tie; and if only they lead to what follows, the replay goes on from there.

    A history that was written on another platform (`Report.platforms`: BLAS and its kernels, NumPy and its instructions,
    SciPy, Koloss) is held to the same, with four exceptions. Where moved values lead anywhere but to what was recorded, last
    digits decide, and draws from there on are differences. On a ball and with Thompson sampling draws go by eigenvectors, whose signs
    are up to the BLAS: there only the platform of the writer can prove draws. Another version of Koloss may play otherwise: what departs from its play
    is a difference. And snapshots, of which the draws after them are compared in any case, may have been written otherwise.

    Examples
    --------
    >>> import tempfile
    >>> import koloss as kl
    >>> learner = kl.BanditExpWeights(
    ...     kl.Points([[0.0], [1.0]]), kl.Gaussian(0.5), horizon=100, loss_range=(0, 1), rng=0
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = f"sqlite:///{folder}/shop.db"
    ...     with kl.Study.create(store, "prices", learner=learner) as study:
    ...         study.tell(study.ask(3), [0.5, 0.25, 0.75])
    ...     report = kl.studies.verify(store, "prices")
    >>> report.ok, report.events, report.decisions
    (True, 7, 3)
    """
    check_findable(name)
    opened = open_store(store)
    try:
        report = Report(name, facts=opened.facts())
        kept = {snapshot.seq: snapshot for snapshot in opened.snapshots(name)}
        try:
            _Replay(report, copied(policy), kept).run(opened.stream(name))
        except _Departed:  # once more, and this time with what it takes to explain it
            report = Report(name, facts=report.facts)
            _Replay(report, copied(policy), kept, Neighbours()).run(opened.stream(name))
        return report
    finally:
        if opened is not store:
            opened.close()


class _Replay:
    """A state that is made again, and what is seen on the way."""

    def __init__(
        self,
        report: Report,
        policy: Any,
        snapshots: dict[int, Snapshot],
        neighbours: Neighbours | None = None,
    ) -> None:
        self.report, self.policy, self.snapshots = report, policy, snapshots
        self.neighbours = neighbours
        self.state: State | None = None
        self.other: State | None = None  # one that values next to those told have led to
        self.lost = False  # whether it has gone another way than was recorded, by rounding
        self.micros = 0

    def run(self, events: Iterator[Event]) -> None:
        group: list[Event] = []
        for event in events:
            self.check_order(event)
            group.append(event)
            if len(group) == group[0].data.get("batch", 1):
                try:
                    self.replay(group)
                except (PolicyMissing, _Departed):  # which say nothing of the history
                    raise
                except Exception as error:  # whatever a log that is not ours does to a learner
                    what = f"event {group[0].seq}: {type(error).__name__}: {error}"
                    self.report.add("problems", f"{what}; the rest cannot be replayed")
                    return
                group = []
        if group:
            self.report.add("problems", f"event {group[0].seq}: the rest of its batch is missing")
        for seq in self.snapshots.keys() - set(self.report.snapshots):
            if seq > self.report.events:
                self.report.add("problems", f"snapshot {seq}: there is no such event")

    def check_order(self, event: Event) -> None:
        """Numbers without gaps, time that does not run backwards, a kind that is known."""
        report, where = self.report, f"event {event.seq}"
        report.events += 1
        if event.seq != report.events:
            report.add("problems", f"{where}: its number should be {report.events}")
            report.events = event.seq
        if event.micros < self.micros:
            report.add("problems", f"{where}: it is before the event that precedes it")
        if event.kind not in KINDS:
            report.add("problems", f"{where}: of an unknown kind, {event.kind!r}")
        self.micros = event.micros

    def replay(self, group: list[Event]) -> None:
        drawn, followed = None, False
        if self.state is None:
            self.state = State(group[0], self.policy)
            self.state.begin()
        else:
            self.check_lawful(self.state, group)
            if self.neighbours is not None:
                self.neighbours.add(self.state, group)
            drawn = self.state.apply(group)
            followed = self.follow(group)
        if self.state.platform not in self.report.platforms:
            self.report.platforms.append(self.state.platform)
        if drawn is not None:
            self.check_drawn(self.state, group, drawn, followed)
        if group[-1].seq in self.snapshots:
            self.check_snapshot(self.state, self.snapshots[group[-1].seq])

    @property
    def is_like_ours(self) -> bool:
        """Whether all was written where last digits are those of here."""
        return self.report.platforms == [PLATFORM]

    def check_lawful(self, state: State, group: list[Event]) -> None:
        """What may happen in this state."""
        kind, add = group[0].kind, self.report.add
        late = dict.fromkeys(state.overdue(group[0].micros))
        for event in group:
            where, i = f"event {event.seq}", event.decision
            if event.kind != kind:
                add("problems", f"{where}: {event.kind!r} in a batch of {kind!r}")
            elif kind == "told":
                state.settings.read(state.learner, event.data["value"], 1)
                if event.data.get("used") is False and state.awaits(i):
                    add("problems", f"{where}: the value of {i} was not used")
            elif kind == "expired" and i not in late:
                add("problems", f"{where}: the lease of {i} had not run out")
        if kind not in ("expired", "released", "handed over") and late:
            oldest = next(iter(late))
            add("problems", f"event {group[0].seq}: the lease of {oldest} had run out before")

    def follow(self, group: list[Event]) -> bool:
        """Whether the other state, where there is one, has drawn what was recorded; else it is given up."""
        if self.other is not None:
            try:
                drawn = self.other.apply(group)
            except Exception:  # the replay itself has gone on
                self.other = None
            else:
                if drawn is not None and not _agree(_recorded(group), _facts(drawn)):
                    self.other = None
        return self.other is not None

    def check_drawn(
        self, state: State, group: list[Event], drawn: Decision | Decisions, followed: bool
    ) -> None:
        """Decisions as they were recorded, next to what is drawn now."""
        report, learner = self.report, state.learner
        recorded, replayed = _recorded(group), _facts(drawn)
        report.decisions += len(group)
        rows = len(learner.actions) if "index" in group[0].data else None
        if rows is None:
            points = np.array([event.data["action"] for event in group], dtype=float)
            possible = learner.actions.contains(points).tolist()
        else:
            several = [event.data for event in group]
            possible = [0 <= one["index"] < rows and 0 < one["p"] <= 1 + 1e-9 for one in several]
        ids = np.atleast_1d(drawn.id).tolist()
        for event, facts, fits, i in zip(group, recorded, possible, ids, strict=True):
            where = f"event {event.seq}"
            if not fits and rows is None:
                what = f"the action {facts['action']} is none of {learner.actions!r}"
                report.add("problems", f"{where}: {what}")
            elif not fits:
                what = f"row {facts['index']} of {rows} with {facts['probability']}"
                report.add("problems", f"{where}: {what}")
            if event.decision != i:
                report.add("problems", f"{where}: decision {event.decision} is {i}")
        verdict = "differences"
        if not _agree(recorded, replayed):
            if followed:  # rounding has decided before, and for good
                self.state, self.other, self.neighbours = self.other, None, Neighbours()
            else:
                self.lost |= not (self.is_like_ours or _can_be_repeated(learner))
                verdict = self.explain(
                    lambda _, made: _agree(recorded, _facts(made)),
                    lambda _, made: _agree(replayed, _facts(made)),
                )
        for event, before, now in zip(group, recorded, replayed, strict=True):
            for name, value in before.items():
                if value != now[name]:
                    what = f"{name} is {value}, and {now[name]} when replayed"
                    kind = "differences" if is_near(value, now[name]) else verdict
                    report.add(kind, f"event {event.seq}: {what}")

    def check_snapshot(self, state: State, snapshot: Snapshot) -> None:
        """A snapshot that says what the replay says."""
        where = f"snapshot after event {snapshot.seq}"
        try:
            State.from_bytes(state.created, snapshot, copied(self.policy))
        except SnapshotError as error:
            self.report.add("problems", f"{where}: {error}")
            return
        content, verdict = state.to_bytes(), "differences"
        if content == snapshot.content:
            self.report.snapshots.append(snapshot.seq)
            return
        kept, now = state_from_bytes(snapshot.content), state_from_bytes(content)
        if is_near(kept, now):
            what = "it is what the replay says, but for rounding"
        elif not self.is_like_ours:  # draws that follow from it are compared in any case
            what = "it is not what the replay says, which keeps its accounts otherwise"
        else:
            what = "it is not what the replay says"
            verdict = self.explain(
                lambda other, _: is_near(kept, state_from_bytes(other.to_bytes())),
                lambda other, _: is_near(now, state_from_bytes(other.to_bytes())),
            )
        self.report.add(verdict, f"{where}: {what}")

    def explain(self, is_recorded: Test, is_replayed: Test) -> str:
        """Whether rounding may have led to what was recorded: then the state that it led to is followed as well.

        On a platform like this one, some values next to those told must lead there. On another it is enough that values next to
        them do not lead where they led here: then last digits decide, and what follows is not known here.
        """
        self.lost |= any(_version(one) != _version(PLATFORM) for one in self.report.platforms)
        if self.lost:
            return "differences"
        if self.report.counted["problems"]:  # of which this may be a consequence
            return "problems"
        if self.neighbours is None:
            raise _Departed
        decided_by_rounding = False
        for state, drawn in self.neighbours:
            if is_recorded(state, drawn):
                self.other = state
                return "differences"
            decided_by_rounding |= not is_replayed(state, drawn)
        self.lost = decided_by_rounding and not self.is_like_ours
        return "differences" if self.lost else "problems"


def _can_be_repeated(learner: Learner[Any, Any]) -> bool:
    """Whether the same coins draw the same where last digits differ.

    Neither on a ball nor from a posterior: both go by eigenvectors, whose signs are up to the BLAS.
    """
    policy = getattr(learner.settings, "policy", None)
    return isinstance(learner.actions, np.ndarray) and policy != "thompson"


def _version(platform: str) -> str:
    """Of Koloss."""
    return platform.partition(",")[0]


def _recorded(group: list[Event]) -> Facts:
    """What is recorded of decisions; their actions where they are not rows."""
    names = {"index": "index", "probability": "p", "epoch": "epoch"}
    return [
        {name: event.data.get(key) for name, key in names.items()}
        | ({"action": event.data["action"]} if "action" in event.data else {})
        for event in group
    ]


def _facts(drawn: Decision | Decisions) -> Facts:
    """Of decisions that were drawn."""
    return [
        {"index": one.index, "probability": one.probability, "epoch": one.epoch}
        | {"action": one.action.tolist()}
        for one in ([drawn] if isinstance(drawn, Decision) else drawn)
    ]


def _agree(facts: Facts, others: Facts) -> bool:
    """Whether decisions are the others, but for rounding."""
    return all(
        value == other[name] or is_near(value, other[name])
        for one, other in zip(facts, others, strict=True)
        for name, value in one.items()
    )


# What rounding may have done: numbers that are as good as equal, and replays that went another way.


def is_near(one: Any, other: Any) -> bool:
    """Whether two pieces of plain data are the same but for rounding: whole numbers and texts are equal, arrays as a whole near.

    Digests, which change with every digit, are passed over.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        names = one.keys() - {"digest"}
        same = names == other.keys() - {"digest"}
        return same and all(is_near(one[name], other[name]) for name in names)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) == len(other) and all(type(x) is float for x in (*one, *other)):
            return _are_near(np.array(one), np.array(other))
        return len(one) == len(other) and all(map(is_near, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype.kind != "f" or other.dtype.kind != "f":
            return one.dtype == other.dtype and np.array_equal(one, other)
        return one.shape == other.shape and _are_near(one, other)
    if isinstance(one, float) and isinstance(other, float):
        return _are_near(np.array(one), np.array(other))
    return type(one) is type(other) and bool(one == other)


def _are_near(one: Any, other: Any) -> bool:
    sure = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~sure], other[~sure], equal_nan=True):
        return False
    largest = max(np.abs(one[sure]).max(initial=0.0), np.abs(other[sure]).max(initial=0.0))
    return bool(np.abs(one[sure] - other[sure]).max(initial=0.0) <= TOLERANCE * largest + FLOOR)


class Neighbours:
    """Replays of the latest calls with values that were moved a little."""

    def __init__(self) -> None:
        self._parts: list[tuple[State, list[Sequence[Event]]]] = []  # states, and calls since

    def add(self, state: State, group: Sequence[Event]) -> None:
        """Take note of a call, and now and then of the state at which it comes."""
        if not self._parts or len(self._parts[-1][1]) >= BEFORE:
            self._parts = [*self._parts[-1:], (copy.deepcopy(state), [])]
        self._parts[-1][1].append(group)

    def __iter__(self) -> Iterator[tuple[State, Decision | Decisions | None]]:
        """States after the latest call, with what it would have drawn."""
        if not self._parts:
            return
        begin, groups = self._parts[0][0], [group for _, part in self._parts for group in part]
        for noise, seed in itertools.product(NOISES, range(TRIES)):
            state, rng, drawn = copy.deepcopy(begin), np.random.default_rng(seed), None
            try:
                for group in groups:
                    moves = noise * rng.uniform(-1, 1, len(group))
                    drawn = state.apply(_moved(state, group, moves))
            except Exception:  # a history that is not ours does anything to a learner
                continue
            yield state, drawn


def _moved(state: State, group: Sequence[Event], moves: Any) -> Sequence[Event]:
    """Events of a call with values moved, in units of their range, as far as the learner can be told them."""
    if group[0].kind not in ("told", "expired"):
        return group
    low, high = state.learner.limits
    width = high - low if math.isfinite(high - low) else 0.0
    if group[0].kind == "expired":  # for which one value is told
        moves[:] = moves[0]
    moved = []
    for event, move in zip(group, moves.tolist(), strict=True):
        value = event.data.get("value")
        if value is not None:
            by = move * max(abs(value), width)
            value = next((v for v in (value + by, value - by) if _can_be_told(state, v)), value)
            event = replace(event, data={**event.data, "value": value})  # noqa: PLW2901
        moved.append(event)
    return moved


def _can_be_told(state: State, value: float) -> bool:
    try:
        state.settings.read(state.learner, value, 1)
    except LossOutOfBounds:
        return False
    return True
