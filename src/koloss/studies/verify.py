"""`verify`: play a study again from its first event, and see that everything is as it was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from koloss.errors import SnapshotError
from koloss.learners import Decision, Decisions
from koloss.studies.events import KINDS, Event
from koloss.studies.log import Snapshot, Store
from koloss.studies.names import check_findable
from koloss.studies.platform import PLATFORM
from koloss.studies.state import PolicyMissing, State, copied
from koloss.studies.stores import open_store
from koloss.studies.worker import PAGE

MOST = 100
"""Most problems or differences that are listed; all are counted."""


@dataclass
class Report:
    """What a replay of a study's log has found. As data (`to_dict`) it is fit for JSON, as text a few lines."""

    name: str
    events: int = 0
    decisions: int = 0
    problems: list[str] = field(default_factory=list)  # what cannot be
    differences: list[str] = field(default_factory=list)  # draws that would have been others here
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
            other = f"would have differed here ({PLATFORM})"
            lines.append(f"  {self.counted['differences']} draws {other}; what was recorded counts")
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
        `ok` where the history proves itself. Draws that would have been others are problems where all was written on a platform
        like this one (processor, NumPy, SciPy, Koloss), and differences where it was not: last digits differ, and what was
        recorded counts.

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
        _Replay(report, copied(policy), kept).run(_all_events(opened, name))
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

    def __init__(self, report: Report, policy: Any, snapshots: dict[int, Snapshot]) -> None:
        self.report, self.policy, self.snapshots = report, policy, snapshots
        self.state: State | None = None
        self.micros = 0

    def run(self, events: Iterator[Event]) -> None:
        group: list[Event] = []
        for event in events:
            self.check_order(event)
            group.append(event)
            if len(group) == group[0].data.get("batch", 1):
                try:
                    self.replay(group)
                except PolicyMissing:  # which says nothing of the history
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
        else:
            self.check_lawful(self.state, group)
            drawn = self.state.apply(group)
            if drawn is not None:
                self.check_drawn(group, drawn)
        platform = self.state.platform
        if platform not in self.report.platforms:
            self.report.platforms.append(platform)
        if group[-1].seq in self.snapshots:
            self.check_snapshot(self.state, self.snapshots[group[-1].seq])

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

    def check_drawn(self, group: list[Event], drawn: Decision | Decisions) -> None:
        """Decisions as they were recorded, beside what is drawn now."""
        report = self.report
        report.decisions += len(group)
        for event, one in zip(
            group, [drawn] if isinstance(drawn, Decision) else drawn, strict=True
        ):
            if event.decision != one.id:
                report.add("problems", f"event {event.seq}: decision {event.decision} is {one.id}")
                continue
            data = event.data
            pairs = [
                ("index", data.get("index"), one.index),
                ("probability", data.get("p"), one.probability),
                ("epoch", data["epoch"], one.epoch),
            ]
            if "action" in data:
                pairs.append(("action", data["action"], one.action.tolist()))
            for name, recorded, now in pairs:
                if recorded != now:
                    what = f"event {event.seq}: {name} is {recorded}, and {now} when replayed"
                    report.add(self.where(), what)
        index = group[0].data.get("index")
        if index is not None and self.state is not None:
            self.check_rows(group, len(self.state.learner.actions))

    def check_rows(self, group: list[Event], count: int) -> None:
        """Rows and probabilities that can be."""
        for event in group:
            index, p = event.data["index"], event.data["p"]
            if not (0 <= index < count and 0 < p <= 1 + 1e-9):
                self.report.add("problems", f"event {event.seq}: row {index} of {count} with {p}")

    def where(self) -> str:
        """Whether what differs is a problem, or rounding may explain it."""
        return "problems" if self.report.platforms == [PLATFORM] else "differences"

    def check_snapshot(self, state: State, snapshot: Snapshot) -> None:
        """A snapshot that says what the replay says."""
        where = f"snapshot after event {snapshot.seq}"
        try:
            State.from_bytes(state.created, snapshot, copied(self.policy))
        except SnapshotError as error:
            self.report.add("problems", f"{where}: {error}")
            return
        if state.to_bytes() == snapshot.content:
            self.report.snapshots.append(snapshot.seq)
        else:
            self.report.add(self.where(), f"{where}: it is not what the replay says")
