"""`verify`: play a study again from its first event, and see that everything is as it was recorded."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from koloss.core.snapshot import state_from_bytes
from koloss.errors import SnapshotError
from koloss.learners import Decision, Decisions
from koloss.learners.base import Learner
from koloss.studies.events import KINDS, Event
from koloss.studies.log import Snapshot, Store
from koloss.studies.names import check_findable
from koloss.studies.platform import PLATFORM
from koloss.studies.rounding import Neighbours, is_near
from koloss.studies.state import PolicyMissing, State, copied
from koloss.studies.stores import open_store
from koloss.studies.worker import PAGE

MOST = 100
"""Most problems or differences that are listed; all are counted."""

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
            _Replay(report, copied(policy), kept).run(_all_events(opened, name))
        except _Departed:  # once more, and this time with what it takes to explain it
            report = Report(name, facts=report.facts)
            _Replay(report, copied(policy), kept, Neighbours()).run(_all_events(opened, name))
        return report
    finally:
        if opened is not store:
            opened.close()


def _all_events(store: Store, name: str) -> Iterator[Event]:
    after = 0
    while page := store.events(name, after, PAGE):
        yield from page
        after = page[-1].seq


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
        first = group[0]
        if self.state is None:
            self.state = State(first, self.policy)
            self.state.begin()
            self.note_platform(self.state.platform)
        else:
            self.check_lawful(self.state, group)
            if self.neighbours is not None:
                self.neighbours.before(self.state)
            drawn = self.state.apply(group)
            if self.neighbours is not None:
                self.neighbours.add(group)
            self.note_platform(self.state.platform)
            followed = self.follow(group)
            if drawn is not None:
                self.check_drawn(group, drawn, followed)
        if group[-1].seq in self.snapshots:
            self.check_snapshot(self.state, self.snapshots[group[-1].seq])

    def note_platform(self, platform: str) -> None:
        if platform not in self.report.platforms:
            self.report.platforms.append(platform)

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
        if self.other is None:
            return False
        try:
            drawn = self.other.apply(group)
        except Exception:  # the replay itself has gone on
            self.other = None
            return False
        if drawn is not None and not _agree(group, drawn):
            self.other = None
        return self.other is not None

    def check_drawn(self, group: list[Event], drawn: Decision | Decisions, followed: bool) -> None:
        """Decisions as they were recorded, next to what is drawn now."""
        report = self.report
        report.decisions += len(group)
        index = group[0].data.get("index")
        assert self.state is not None
        learner = self.state.learner
        if index is not None:
            self.check_rows(group, len(learner.actions))
        else:
            self.check_inside(group, learner.actions)
        for event, one in zip(group, _each(drawn), strict=True):
            if event.decision != one.id:
                what = f"event {event.seq}: decision {event.decision} is {one.id}"
                report.add("problems", what)
        found = list(_departures(group, drawn))
        if not found:
            return
        where = "differences"
        if not _agree(group, drawn):
            if followed:  # rounding has decided before, and for good
                assert self.other is not None
                self.state, self.other, self.neighbours = self.other, None, Neighbours()
            else:
                self.lost |= not (self.is_like_ours or _can_be_repeated(learner))
                where = self.explain(
                    lambda _, made: _agree(group, made), lambda _, made: _agree(drawn, made)
                )
        for what, near in found:
            report.add("differences" if near else where, what)

    def check_rows(self, group: list[Event], count: int) -> None:
        """Rows and probabilities that can be."""
        for event in group:
            index, p = event.data["index"], event.data["p"]
            if not (0 <= index < count and 0 < p <= 1 + 1e-9):
                self.report.add("problems", f"event {event.seq}: row {index} of {count} with {p}")

    def check_inside(self, group: list[Event], actions: Any) -> None:
        """Actions that can be, where they are not rows."""
        inside = actions.contains(np.array([event.data["action"] for event in group], dtype=float))
        for event in itertools.compress(group, ~inside):
            what = f"event {event.seq}: the action {event.data['action']} is none of {actions!r}"
            self.report.add("problems", what)

    def check_snapshot(self, state: State, snapshot: Snapshot) -> None:
        """A snapshot that says what the replay says."""
        where = f"snapshot after event {snapshot.seq}"
        try:
            State.from_bytes(state.created, snapshot, copied(self.policy))
        except SnapshotError as error:
            self.report.add("problems", f"{where}: {error}")
            return
        content = state.to_bytes()
        if content == snapshot.content:
            self.report.snapshots.append(snapshot.seq)
            return
        kept, now = state_from_bytes(snapshot.content), state_from_bytes(content)
        if is_near(kept, now):
            what = "it is what the replay says, but for rounding"
            self.report.add("differences", f"{where}: {what}")
            return
        if not self.is_like_ours:  # draws that follow from it are compared in any case
            what = "it is not what the replay says, which keeps its accounts otherwise"
            self.report.add("differences", f"{where}: {what}")
            return
        verdict = self.explain(
            lambda other, _: is_near(kept, state_from_bytes(other.to_bytes())),
            lambda other, _: is_near(now, state_from_bytes(other.to_bytes())),
        )
        self.report.add(verdict, f"{where}: it is not what the replay says")

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


def _departures(
    recorded: list[Event] | Decision | Decisions, drawn: Any
) -> Iterator[tuple[str, bool]]:
    """Where decisions are others than those drawn, and whether by no more than rounding."""
    before = (
        [(f"event {event.seq}", _facts(event)) for event in recorded]
        if isinstance(recorded, list)
        else [("", _facts(one)) for one in _each(recorded)]
    )
    for (where, facts), one in zip(before, _each(drawn), strict=True):
        now = _facts(one)
        for name, value in facts.items():
            if value != now[name]:
                what = f"{where}: {name} is {value}, and {now[name]} when replayed"
                yield what, is_near(value, now[name])


def _agree(recorded: list[Event] | Decision | Decisions, drawn: Any) -> bool:
    """Whether decisions are those drawn, but for rounding."""
    return all(near for _, near in _departures(recorded, drawn))


def _each(drawn: Decision | Decisions) -> Iterable[Decision]:
    return [drawn] if isinstance(drawn, Decision) else drawn


def _facts(one: Event | Decision) -> dict[str, Any]:
    """What is recorded of a decision; its action where it is not a row."""
    if isinstance(one, Decision):
        facts = {"index": one.index, "probability": one.probability, "epoch": one.epoch}
        return {**facts, "action": one.action.tolist()}
    data = one.data
    facts = {"index": data.get("index"), "probability": data.get("p"), "epoch": data["epoch"]}
    return facts | ({"action": data["action"]} if "action" in data else {})
