"""What a study promises to many: threads, forks, processes, and stores that fail."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from os import _exit as exit_at_once
from typing import Any

import numpy as np
import pytest

import koloss as kl
from koloss.errors import CommitUnknown, PolicyError, StoreError, StudyExists
from koloss.studies import worker
from koloss.studies.operations import Tell, asking
from koloss.studies.state import State
from tests.support import inside
from tests.support.forks import in_fork
from tests.support.memory import MemoryStore
from tests.support.recorded import LEARNERS, allowed_of, context_of
from tests.support.studies import (
    Deaf,
    bandit,
    created,
    insured,
    kinds,
    loss_of,
    same,
    with_a_bit_flipped,
)

PATIENCE = 600
"""Seconds for what takes none, on a machine that is busy with something else."""


def once(error: BaseException) -> Callable[[], None]:
    """A fault that happens the first time."""
    left = [error]

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


# Threads.


def together(study: kl.Study, store: MemoryStore, works: list[Callable[[], Any]]) -> list[Any]:
    """What calls answer, or the errors that they raise, all of which wait while a first one is committed."""
    answers: list[Any] = [None] * len(works)
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        store.before_commit = lambda: None
        begun.set()
        go.wait(PATIENCE)

    def call(k: int) -> None:
        try:
            answers[k] = works[k]()
        except BaseException as error:
            answers[k] = error

    store.before_commit = hold
    threads = [threading.Thread(target=study.ask)]
    threads[0].start()
    assert begun.wait(PATIENCE)
    for k in range(len(works)):
        threads.append(threading.Thread(target=call, args=(k,)))
        threads[-1].start()
        while len(inside.queue(inside.worker(study))) <= k:  # in this order
            pass
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    return answers


def test_calls_that_wait_are_committed_together() -> None:
    study, store, _ = created()
    first = study.ask()
    before = store.commits
    works = [lambda: study.tell(first, 0.5), *[study.ask] * 5, lambda: study.ask(3)]
    answers = together(study, store, works)
    assert store.commits == before + 2  # the one that they waited for, and theirs
    assert answers[0] is None
    assert [made.id for made in answers[1:6]] == [2, 3, 4, 5, 6]
    assert answers[6].id.tolist() == [7, 8, 9]
    assert kl.studies.verify(store, "prices").ok


def test_whoever_has_an_answer_does_not_wait_for_the_next_commit() -> None:
    study, store, _ = created()
    begun, permits = threading.Semaphore(0), threading.Semaphore(0)
    answered = [threading.Event(), threading.Event()]

    def slow() -> None:
        begun.release()
        assert permits.acquire(timeout=PATIENCE)

    def ask_twice(k: int) -> None:
        study.ask()
        answered[k].set()
        study.ask()

    store.before_commit = slow
    threads = [threading.Thread(target=study.ask)]
    threads[0].start()
    assert begun.acquire(timeout=PATIENCE)
    for k in range(2):
        threads.append(threading.Thread(target=ask_twice, args=(k,)))
        threads[-1].start()
        while len(inside.queue(inside.worker(study))) <= k:
            time.sleep(0.001)
    permits.release()
    assert begun.acquire(timeout=PATIENCE)  # the commit of both
    permits.release()
    assert begun.acquire(timeout=PATIENCE)  # that of one who came back at once, or of both
    both = [event.wait(PATIENCE) for event in answered]
    permits.release(3)
    for thread in threads:
        thread.join(PATIENCE)
    assert both == [True, True]
    assert kinds(study).count("asked") == 5


def test_a_call_that_is_refused_fails_alone() -> None:
    study, store, _ = created()
    works = [study.ask, lambda: study.tell(99, 0.5), lambda: study.ask(context="?"), study.ask]
    answers = together(study, store, works)
    found = " ".join(type(answer).__name__ for answer in answers)
    assert found == "Decision UnknownDecision ValueError Decision"
    assert kinds(study).count("asked") == 3
    assert kl.studies.verify(store, "prices").ok


def test_a_policy_that_fails_spoils_nothing_for_others() -> None:
    study, store, _ = created(insured(policy=Deaf()))
    made = study.ask(3)
    works = [lambda k=k: study.tell(made[k], (0.1, 0.95, 0.2)[k]) for k in range(3)]  # type: ignore[misc]
    answers = together(study, store, [*works, study.ask])
    assert answers[0] is answers[2] is None
    assert isinstance(answers[1], PolicyError)
    assert isinstance(answers[3], kl.Decision)
    assert kinds(study).count("told") == 2
    assert kl.studies.verify(store, "prices", policy=Deaf()).ok


def test_many_threads_get_decisions_of_their_own() -> None:
    study, store, _ = created()
    seen: list[int] = []

    def work() -> None:
        for _ in range(15):
            made = study.ask()
            seen.append(made.id)
            study.tell(made, loss_of(made.action))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(seen) == list(range(90))
    assert kinds(study).count("told") == 90
    assert kl.studies.verify(store, "prices").ok


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_interrupted_leaves_the_others_calls_to_them() -> None:
    study, store, clock = created()
    study.ask()
    tick = clock.__call__
    interrupt = once(KeyboardInterrupt())
    calls = []

    def interrupted() -> float:
        calls.append(1)
        if len(calls) == 2:  # in the transaction of those that waited
            interrupt()
        return tick()

    inside.worker(study)._clock = interrupted
    answers = together(study, store, [study.ask] * 3)
    found = " ".join(sorted(type(answer).__name__ for answer in answers))
    assert found == "Decision Decision KeyboardInterrupt"
    assert kinds(study).count("asked") == 4
    assert kl.studies.verify(store, "prices").ok


def test_an_interrupt_between_commit_and_answer_leaves_the_others_in_doubt() -> None:
    study, store, _ = created()
    study.ask()
    works = [study.ask, lambda: study.ask(request="key"), study.ask]
    count = [0]

    def interrupted() -> None:
        count[0] += 1
        if count[0] == 2:  # that of those that waited
            raise KeyboardInterrupt

    store.after_commit = interrupted
    answers = together(study, store, works)
    names = sorted(type(answer).__name__ for answer in answers)
    assert "KeyboardInterrupt" in names
    assert "CommitUnknown" in names
    assert kinds(study).count("asked") == 5  # nothing was done twice
    if isinstance(answers[1], kl.Decision):  # unless it was the one that was interrupted
        assert answers[1].id == 3
    assert kl.studies.verify(store, "prices").ok


def test_what_an_interrupted_thread_has_begun_is_thrown_away() -> None:
    study, store, _ = created()
    study.tell(study.ask(), 0.5)
    store.before_commit = once(KeyboardInterrupt())  # the learner has drawn, nothing is committed
    with pytest.raises(KeyboardInterrupt):
        study.ask(5)
    learner = bandit()
    learner.tell(learner.ask(), 0.5)
    one, other = study.ask(), learner.ask()
    assert (one.id, one.index, one.probability) == (other.id, other.index, other.probability)
    assert kl.studies.verify(store, "prices").ok


class Counting:
    """Proposes one row after the other, and fails when it is told to."""

    broken = False

    def __init__(self) -> None:
        self.asked = 0

    def propose(self) -> int:
        self.asked += 1
        if Counting.broken:
            raise OSError("no connection")
        return self.asked % 6

    def hear(self, index: int, loss: float) -> None:
        pass


def test_a_policy_that_fails_to_propose_is_as_it_was_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    study, store, _ = created(insured(policy=Counting()))
    alone = insured(policy=Counting())
    assert study.ask().index == alone.ask().index
    monkeypatch.setattr(Counting, "broken", True)
    with pytest.raises(PolicyError, match="no connection"):
        study.ask()  # which the policy has counted
    monkeypatch.setattr(Counting, "broken", False)
    for _ in range(5):
        assert study.ask().index == alone.ask().index
    assert kl.studies.verify(store, "prices", policy=Counting()).ok


def test_operations_that_look_alike_are_each_carried_out() -> None:
    """Whoever has the mutex need not be the first who waits; what others want may be equal, or cannot be compared."""
    study, _, _ = created()
    mine = inside.worker(study)
    asks = [asking(None, None, None, None, None) for _ in range(3)]
    for ask in asks:
        mine.enqueue(ask)
    inside.queue(mine).remove(asks[0])  # an interrupted thread has had it; the first of three
    ids = [mine.finish(ask).answer.id for ask in reversed(asks)]
    assert sorted(ids) == [0, 1, 2]
    study.ask(3)
    value = np.array([0.5, 0.5])
    tells = [Tell(decision=np.array(ids), value=value) for ids in ([0, 1], [2, 3])]
    for tell in tells:
        mine.enqueue(tell)
    for tell in reversed(tells):
        mine.finish(tell)
    assert study.status().told == 4


# Stores that fail.


def test_what_was_not_committed_has_not_happened() -> None:
    study, store, _ = created()
    made = study.ask(2)
    study.tell(made[0], 0.5)
    for work in (study.ask, lambda: study.tell(made[1], 0.25), study.pause):
        store.before_commit = once(StoreError("disk full"))
        with pytest.raises(StoreError, match="disk full"):
            work()
    assert kinds(study) == ["created", "asked", "asked", "told"]
    study.tell(made[1], 0.25)
    third = study.ask()
    learner = bandit()
    theirs = learner.ask(2)
    learner.tell(theirs[0], 0.5)
    learner.tell(theirs[1], 0.25)
    other = learner.ask()
    assert (third.index, third.probability) == (other.index, other.probability)
    assert kl.studies.verify(store, "prices").ok


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.0)


class Forgetful(MemoryStore):
    """May lose the answer of a commit."""

    may_lose_answers = True


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("happened", [True, False])
def test_an_unknown_commit_is_looked_for_and_done_once(happened: bool) -> None:
    store = Forgetful()
    study = kl.Study.create(store, "prices", learner=bandit(), labels={"team": "shop"})
    moment = "after_commit" if happened else "before_commit"
    setattr(store, moment, once(CommitUnknown("cut")))
    made = study.ask(2)
    setattr(store, moment, once(CommitUnknown("cut")))
    study.tell(made, [0.1, 0.2])
    setattr(store, moment, once(CommitUnknown("cut")))
    study.pause()
    assert kinds(study) == ["created", "asked", "asked", "told", "told", "paused"]
    assert [event.request for event in study.events(1)][::2] != [None] * 3
    assert kl.studies.verify(store, "prices").ok
    other = kl.Study.open(store, "prices")
    assert same(other.ask(2, request=list(study.events())[1].request), made)


@pytest.mark.usefixtures("impatient")
def test_keys_of_our_own_leave_no_events_where_a_subject_is_asked_for_again() -> None:
    study = kl.Study.create(Forgetful(), "prices", learner=bandit())
    study.ask(subject="ann")
    assert study.ask(subject="ann").id == 0
    assert kinds(study) == ["created", "asked"]


@pytest.mark.usefixtures("impatient")
def test_what_stays_unknown_is_said_to_be() -> None:
    store = Forgetful()
    study = kl.Study.create(store, "prices", learner=bandit())

    def cut() -> None:
        raise CommitUnknown("cut")

    store.before_commit = cut
    with pytest.raises(CommitUnknown):
        study.ask()
    store.before_commit = lambda: None
    assert kinds(study) == ["created"]
    assert study.ask().id == 0


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("happened", [True, False])
def test_a_database_that_comes_back_says_whether_it_happened(happened: bool) -> None:
    store = Forgetful()
    study = kl.Study.create(store, "prices", learner=bandit())
    study.ask()
    moment = "after_commit" if happened else "before_commit"
    faults: list[Exception] = [StoreError("starting up"), StoreError("refused")]
    read = store.events

    def down(*args: Any) -> Any:
        if faults:
            raise faults.pop()
        return read(*args)

    def cut() -> None:
        setattr(store, moment, lambda: None)
        store.events = down  # type: ignore[method-assign]
        raise CommitUnknown("cut")

    setattr(store, moment, cut)
    assert study.ask().id == 1
    assert faults == []
    assert kinds(study).count("asked") == 2


@pytest.mark.parametrize("happened", [True, False])
def test_a_creation_whose_answer_was_lost_is_looked_for(happened: bool) -> None:
    class Lossy(Forgetful):
        def create(self, name: str, events: Any) -> None:
            if happened or self.tried:
                super().create(name, events)
            self.tried, tried = True, self.tried
            if not tried:
                raise CommitUnknown("cut")

        tried = False

    store = Lossy()
    assert kl.Study.create(store, "prices", learner=bandit()).ask().id == 0
    with pytest.raises(StudyExists):
        kl.Study.create(store, "prices", learner=bandit())
    taken = Lossy()
    taken.studies = store.studies  # where another has taken the name meanwhile
    with pytest.raises((StudyExists, CommitUnknown)):
        kl.Study.create(taken, "prices", learner=bandit())


# Snapshots.


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot every 10 events."""
    monkeypatch.setattr(worker, "SNAPSHOT_EVENTS", 10)
    monkeypatch.setattr(worker, "SNAPSHOT_BYTES", 1e9)
    monkeypatch.setattr(worker, "SNAPSHOT_SECONDS", 1e9)


def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where states begin from now on: after which event of a snapshot, or 1."""
    places: list[int] = []
    from_bytes, begin = State.from_bytes.__func__, State.begin

    def restored(cls: Any, first: Any, snapshot: Any, policy: Any = None) -> Any:
        state = from_bytes(cls, first, snapshot, policy)
        places.append(state.seq)
        return state

    def afresh(self: State) -> None:
        places.append(1)
        begin(self)

    monkeypatch.setattr(State, "from_bytes", classmethod(restored))
    monkeypatch.setattr(State, "begin", afresh)
    return places


@pytest.mark.usefixtures("often")
def test_a_study_is_opened_from_its_newest_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    study, store, clock = created(lease=50.0, default=0.5)
    for _ in range(30):
        clock.now += 3
        study.tell(study.ask(2)[1], 0.25)
    kept = [snapshot.seq for snapshot in store.snapshots("prices")]
    assert len(kept) == 2
    assert study.status().events - kept[0] < 14
    places = begun(monkeypatch)
    other = kl.Study.open(store, "prices", clock=clock)
    assert places == [kept[0]]
    assert inside.state_of(inside.worker(other)) is not None
    assert inside.state_of(inside.worker(study)) is not None
    assert (
        inside.state_of(inside.worker(other)).to_bytes()
        == inside.state_of(inside.worker(study)).to_bytes()
    )
    clock.now += 30
    one = other.ask()
    report = kl.studies.verify(store, "prices")
    assert report.ok, report
    assert len(report.snapshots) == 2
    assert same(study.ask(subject=None), other.ask()) is False
    assert one.id == 60


@pytest.mark.usefixtures("often")
def test_a_snapshot_has_values_that_are_held_and_decisions_that_subjects_have() -> None:
    study, store, clock = created(lease=50.0, default=0.5, release="window")
    mine = study.ask(subject="ann")
    made = study.ask(8)
    study.tell(made[3], 0.25)
    assert store.snapshots("prices")[0].seq == study.status().events
    other = kl.Study.open(store, "prices", clock=clock)
    assert other.status().held == 1
    assert same(other.ask(subject="ann"), mine)
    clock.now += 50
    other.ask()
    assert [event.data["ids"] for event in other.events() if event.kind == "released"] == [
        list(range(9))
    ]
    assert kl.studies.verify(store, "prices").ok


@pytest.mark.usefixtures("often")
def test_damaged_snapshots_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study, store, _ = created()
    for _ in range(20):
        study.tell(study.ask(), 0.25)
    content = store.studies["prices"]
    newest, older = content.snapshots
    for k, damaged in enumerate((newest, older)):
        content.snapshots[k] = with_a_bit_flipped(damaged)
        places = begun(monkeypatch)
        other = kl.Study.open(store, "prices")
        assert places[-1] == (older.seq if k == 0 else 1)
        assert other.learner.state()["digest"] == study.learner.state()["digest"]
    assert "snapshot" in caplog.text
    content.snapshots[0] = type(newest)(newest.seq, older.content)  # intact, of another event
    places = begun(monkeypatch)
    kl.Study.open(store, "prices")
    assert places[-1] == 1


@pytest.mark.usefixtures("often")
def test_processes_that_live_for_one_call_leave_snapshots_too() -> None:
    study, store, _ = created()
    for _ in range(25):
        kl.Study.open(store, "prices").ask()
    newest = store.snapshots("prices")[0].seq
    assert study.status().events - newest <= 11


def test_large_snapshots_are_made_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SNAPSHOT_EVENTS", 10)
    monkeypatch.setattr(worker, "SNAPSHOT_SECONDS", 1e9)
    counts = []
    for share in (1e9, 400, 100):
        monkeypatch.setattr(worker, "SNAPSHOT_BYTES", share)
        study, store, _ = created()
        saved = []
        keep = type(store.transaction("prices").__enter__()).save_snapshot
        monkeypatch.setattr(
            "tests.support.memory.MemoryTransaction.save_snapshot",
            lambda self, snapshot, saved=saved: saved.append(snapshot),
        )
        for _ in range(60):
            study.ask()
        monkeypatch.setattr("tests.support.memory.MemoryTransaction.save_snapshot", keep)
        counts.append(len(saved))
    assert counts[0] == 6
    assert counts[0] > counts[1] > counts[2]


def test_slow_learners_have_snapshots_by_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr(worker, "SNAPSHOT_SHARE", 1e9)
    study, store, _ = created()
    study.ask()
    study.ask()
    assert [snapshot.seq for snapshot in store.snapshots("prices")] == [3, 2]


@pytest.mark.usefixtures("often")
def test_there_are_no_snapshots_of_a_policy_that_cannot_say_its_state() -> None:
    study, store, _ = created(insured(policy=Deaf()))
    for _ in range(15):
        study.tell(study.ask(), 0.25)
    assert store.snapshots("prices") == []


class Saying(Counting):
    """The same with a state."""

    def state(self) -> dict[str, int]:
        return {"asked": self.asked}

    def restore(self, state: dict[str, int]) -> None:
        self.asked = state["asked"]


@pytest.mark.usefixtures("often")
def test_a_policy_that_cannot_take_its_state_back_hears_everything_again() -> None:
    study, store, _ = created(insured(policy=Saying()))
    for _ in range(15):
        study.tell(study.ask(), 0.25)
    assert len(store.snapshots("prices")) == 2
    other = kl.Study.open(store, "prices", policy=Counting())
    assert inside.state_of(inside.worker(other)) is not None
    assert inside.stage(inside.state_of(inside.worker(other)).learner).policy.policy.asked == 15


@pytest.mark.slow
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("name", LEARNERS)
def test_whoever_goes_on_from_a_snapshot_goes_on_exactly(name: str) -> None:
    """Opened again and again, against one that is never: the same decisions, and snapshots that a replay confirms."""
    study, store, clock = created(LEARNERS[name]())
    alone, waiting, theirs = LEARNERS[name](), [], []
    for k in range(30):
        if k % 7 == 2:
            study = kl.Study.open(store, "prices", clock=clock)
        said = {"context": context_of(alone, k), "allowed": allowed_of(name, k)}
        one, other = study.ask(**said), alone.ask(**said)
        assert np.array_equal(one.action, other.action)
        assert (one.probability, one.epoch) == (other.probability, other.epoch)
        waiting.append(one)
        theirs.append(other)
        if k % 2:
            value = loss_of(waiting[0].action)
            study.tell(waiting.pop(0), value)
            alone.tell(theirs.pop(0), value)
    report = kl.studies.verify(store, "prices")
    assert report.ok, report
    assert len(report.snapshots) == 2


# Forks and processes.


def test_a_fork_reads_what_is_there_and_goes_on(tmp_path: Any) -> None:
    study = kl.Study.create(f"sqlite:///{tmp_path}/shop.db", "prices", learner=bandit())
    first = study.ask()

    def work() -> tuple[int, int]:
        study.tell(first, 0.5)
        return study.ask().id, study.ask().id

    assert in_fork(work) == (1, 2)
    assert study.ask().id == 3
    assert in_fork(work).__class__.__name__ == "AlreadyTold"
    assert kl.studies.verify(study.store, "prices").ok
    study.close()


def test_a_fork_in_the_middle_of_another_threads_call_is_not_stuck(tmp_path: Any) -> None:
    study = kl.Study.create(f"sqlite:///{tmp_path}/shop.db", "prices", learner=bandit())
    study.ask()
    with inside.worker(study)._mutex:  # which nobody gives back in the child
        pid = os.fork()
        if pid == 0:
            inside.queue(inside.worker(study)).clear()
            exit_at_once(0 if study.ask().id == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert study.ask().id == 2
    study.close()
