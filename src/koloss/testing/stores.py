"""The contract of a store of studies, as tests: what it keeps, and what it does for threads and processes."""

from __future__ import annotations

import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koloss.errors import StoreError, StudyExists, StudyNotFound
from koloss.studies import Event, Snapshot, Store, open_store

Connect = Callable[[], Store]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")

AWKWARD = ["", " ", "'; drop table koloss_events; --", "%s ? $1 :x {}", "Ünïcödé 🎲", "a" * 5000]
"""Texts that a careless statement of SQL stumbles over."""


class Stop(Exception):
    """Ends a transaction in the middle."""


class StoreContract:
    """What every store must do. Derive a class of tests from it, and override the fixture `connect`.

    All tests are for all stores: one that cannot pass one of them does not keep the promises of a study.

    Examples
    --------
    In a file of tests, for a store of your own::

        class TestMyStore(StoreContract):
            @pytest.fixture
            def connect(self, tmp_path):
                return lambda: MyStore(tmp_path / "studies")
    """

    @pytest.fixture
    def connect(self) -> Connect:
        """A function that opens one and the same store, empty before, each time by a connection of its own."""
        raise NotImplementedError("override the fixture `connect`")

    @pytest.fixture
    def store(self, connect: Connect) -> Any:
        """The store, with the study "a" that has been created, and nothing else."""
        store = connect()
        store.create("a", [Event(1, "created", micros=0)])
        yield store
        store.close()

    # Studies.

    def test_a_new_store_is_empty(self, connect: Connect) -> None:
        store = connect()
        assert store.names() == []
        store.close()

    def test_names_are_sorted(self, store: Store) -> None:
        for name in ("b", "B", "a.b", "a-b", "_a", "10", "9"):
            store.create(name, [Event(1, "created", micros=0)])
        assert store.names() == sorted(["a", "b", "B", "a.b", "a-b", "_a", "10", "9"])

    def test_a_study_that_is_not_there(self, store: Store) -> None:
        for name in ("b", "A", *AWKWARD):
            for use in (store.events, store.snapshots, lambda name: append(store, name)):
                with pytest.raises(StudyNotFound):
                    use(name)
        assert store.names() == ["a"]

    def test_a_study_is_created_once(self, store: Store, connect: Connect) -> None:
        append(store, "a")
        for again in (store, connect()):
            with pytest.raises(StudyExists):
                again.create("a", [Event(1, "created", micros=9)])
            again.close()
        assert [event.micros for event in store.events("a")] == [0, 0]

    @pytest.mark.parametrize("name", [*AWKWARD, "a b", "a/b", "..", "a\n", "é", "a" * 101])
    def test_a_name_that_a_study_cannot_have(self, store: Store, name: str) -> None:
        with pytest.raises(ValueError, match="`name` must"):
            store.create(name, [Event(1, "created", micros=0)])
        assert store.names() == ["a"]

    def test_what_cannot_be_created_is_not_there(self, store: Store) -> None:
        for events in (
            [Event(2, "created", micros=0)],
            [Event(1, "created", micros=0), Event(3, "asked", micros=0)],
            [Event(1, "created", micros=0, data={"loss": float("nan")})],
        ):
            with pytest.raises(ValueError, match=r"events|JSON"):
                store.create("b", events)
        assert store.names() == ["a"]
        store.create("b", [Event(1, "created", micros=0)])

    # Events.

    def test_events_are_read_as_they_were_written(self, store: Store, connect: Connect) -> None:
        data: list[dict[str, Any]] = [
            {},
            {"p": 0.1 + 0.2, "least": 5e-324, "most": -1.7976931348623157e308, "zero": -0.0},
            {"whole": 2**80, "nothing": None, "yes": True, "list": [[1, 2.0], []], "in": {"": ""}},
            {text: text for text in AWKWARD},
            {"NUL": "\0", "surrogate": "\ud800"},
        ]
        written = [
            Event(k + 2, kind, 2**53 + k, decision, request, data[k])
            for k, (kind, decision, request) in enumerate(
                [
                    ("asked", 0, None),
                    ("told", 2**60, "key"),
                    ("paused", None, "Ünïcödé 🎲"),
                    ("handed over", None, AWKWARD[2]),
                    ("changed", 7, "a" * 200),
                ]
            )
        ]
        with store.transaction("a") as log:
            log.append(written)
            assert log.events(after=1) == written
        for reader in (store, connect()):
            read = reader.events("a", after=1)
            assert read == written
            assert [event.text for event in read] == [event.text for event in written]  # -0.0, 2.0
            reader.close()

    def test_events_come_in_pages(self, store: Store) -> None:
        with store.transaction("a") as log:
            log.append([Event(k, "asked", k, k) for k in range(2, 1203)])

            def pages(read: Callable[..., Sequence[Event]]) -> list[list[int]]:
                asked = [(0, 3), (1, 1), (1200, 5), (1202, 5), (5, 0), (1201, 10**6)]
                return [[event.seq for event in read(after, limit)] for after, limit in asked]

            first = [[1, 2, 3], [2], [1201, 1202], [], [], [1202]]
            assert pages(log.events) == first
            assert len(log.events(0)) == 1000
        assert pages(lambda after, limit: store.events("a", after, limit)) == first
        assert len(store.events("a")) == 1000

    @pytest.mark.parametrize("numbers", [[1], [3], [2, 2], [2, 4], [3, 2], [0], [-1]], ids=str)
    def test_events_are_numbered_without_gaps(self, store: Store, numbers: list[int]) -> None:
        with store.transaction("a") as log:
            with pytest.raises(ValueError, match="`events` must be numbered on from 2"):
                log.append([Event(number, "asked", micros=0) for number in numbers])
            assert log.last == 1
            log.append([])
            log.append([Event(2, "told", micros=0)])
            assert log.last == 2
        assert [event.kind for event in store.events("a")] == ["created", "told"]
        with store.transaction("a") as log, pytest.raises(ValueError, match="JSON"):
            log.append([Event(3, "asked", micros=0, data={"loss": float("nan")})])
        with store.transaction("a") as log:  # which was committed without it
            assert log.last == 2

    def test_studies_are_apart(self, store: Store) -> None:
        store.create("b", [Event(1, "created", micros=0)])
        for name, kind in (("a", "asked"), ("b", "paused")):
            with store.transaction(name) as log:
                log.append([Event(2, kind, 0, 5, "same")])
                log.save_snapshot(Snapshot(2, kind.encode()))
                log.bind("subject", 5 if name == "a" else 6)
        with store.transaction("b") as log:
            assert [event.kind for event in log.by_request("same")] == ["paused"]
            assert [event.kind for event in log.about(5)] == ["paused"]
            assert log.decision_of("subject") == 6
            assert log.forget_subject("subject") == 1
        with store.transaction("a") as log:
            log.unbind([6])
            assert log.decision_of("subject") == 5
        assert [snapshot.content for snapshot in store.snapshots("a")] == [b"asked"]

    def test_events_by_request_and_by_decision(self, store: Store) -> None:
        keys = [None, "x", "x", "y", None, "x", *AWKWARD]
        events = [Event(k + 2, "asked", 0, k % 3, key) for k, key in enumerate(keys)]
        with store.transaction("a") as log:
            log.append(events)
        with store.transaction("a") as log:
            for key in ("x", "y", *AWKWARD):
                assert log.by_request(key) == [event for event in events if event.request == key]
            assert log.by_request("z") == log.by_request("X") == []
            for decision in range(4):
                expected = [event for event in events if event.decision == decision]
                assert log.about(decision) == expected

    # Transactions.

    @pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, StoreError])
    def test_what_is_not_committed_is_undone(
        self, store: Store, error: type[BaseException], connect: Connect
    ) -> None:
        with store.transaction("a") as log:
            log.append([Event(2, "asked", 0, 0, "r")])
            log.bind("kept", 0)
            log.save_snapshot(Snapshot(2, b"kept"))

        def fail() -> None:
            with store.transaction("a") as log:
                log.append([Event(3, "asked", 0, 1, "undone")])
                log.save_snapshot(Snapshot(3, b"undone"))
                log.bind("undone", 1)
                log.forget_subject("kept")
                raise error

        with pytest.raises(error):
            fail()
        for reader in (store, connect()):
            assert [event.seq for event in reader.events("a")] == [1, 2]
            assert reader.snapshots("a") == [Snapshot(2, b"kept")]
            with reader.transaction("a") as log:
                assert (log.last, log.by_request("undone")) == (2, [])
                assert (log.decision_of("undone"), log.decision_of("kept")) == (None, 0)
            reader.close()

    def test_a_transaction_that_is_over(self, store: Store) -> None:
        with store.transaction("a") as log:
            pass
        uses: list[Callable[[], Any]] = [
            lambda: log.append([Event(2, "asked", micros=0)]),
            lambda: log.bind("late", 0),
            lambda: log.events(0),
        ]
        for use in uses:
            with pytest.raises(StoreError):
                use()
        assert len(store.events("a")) == 1

    # Snapshots and subjects.

    def test_two_snapshots_are_kept(self, store: Store, connect: Connect) -> None:
        contents = [b"", bytes(range(256)), os.urandom(300_000), b"newest"]
        assert store.snapshots("a") == []
        kept: list[Snapshot] = []
        for seq, content in enumerate(contents, start=2):
            with store.transaction("a") as log:
                log.append([Event(seq, "asked", micros=0)])
                log.save_snapshot(Snapshot(seq, content))
            kept = [Snapshot(seq, content), *kept][:2]
            assert store.snapshots("a") == kept
        with store.transaction("a") as log:
            log.save_snapshot(Snapshot(5, b"another"))  # of the same event
        other = connect()
        assert other.snapshots("a") == [Snapshot(5, b"another"), kept[1]]
        other.close()

    def test_a_snapshot_of_what_has_not_happened(self, store: Store) -> None:
        with store.transaction("a") as log:
            for seq in (0, 2):
                with pytest.raises(ValueError, match=r"`snapshot\.seq` must be from 1 to 1"):
                    log.save_snapshot(Snapshot(seq, b""))
        assert store.snapshots("a") == []

    def test_subjects_have_decisions(self, store: Store) -> None:
        with store.transaction("a") as log:
            for k, subject in enumerate(AWKWARD):
                assert log.decision_of(subject) is None
                log.bind(subject, k)
            log.bind("second", 2)
            log.bind("moved", 4)
            log.bind("moved", 2**60)
        with store.transaction("a") as log:
            assert [log.decision_of(subject) for subject in AWKWARD] == list(range(len(AWKWARD)))
            assert log.decision_of("moved") == 2**60
            log.unbind([])
            log.unbind([0, 2, 99])
        with store.transaction("a") as log:
            found = [log.decision_of(subject) for subject in (*AWKWARD, "second", "moved")]
            assert found == [None, 1, None, 3, 4, 5, None, 2**60]
            assert (log.forget_subject(AWKWARD[1]), log.forget_subject(AWKWARD[1])) == (1, 0)
            assert log.decision_of(AWKWARD[1]) is None

    # For operators.

    def test_what_is_committed_outlives_the_store(self, store: Store, connect: Connect) -> None:
        append(store, "a")
        store.close()
        store.close()
        other = connect()
        assert len(other.events("a")) == 2
        other.close()
        append(store, "a")  # it opens again by itself
        assert len(store.events("a")) == 3

    def test_facts(self, store: Store) -> None:
        facts = store.facts()
        assert json.loads(json.dumps(facts)) == facts
        assert facts["durability"] in ("power", "process")
        assert all(isinstance(warning, str) for warning in facts["warnings"])
        assert "://" in store.url
        assert isinstance(store.may_lose_answers, bool)

    def test_a_backup_is_a_store_in_a_file(self, store: Store, tmp_path: Path) -> None:
        store.create("b", [Event(1, "created", 3, data={"x": 0.1})])
        with store.transaction("a") as log:
            log.append([Event(k, "asked", k, k, f"r{k}") for k in range(2, 1500)])
            log.save_snapshot(Snapshot(7, bytes(range(256))))
            log.bind("somebody", 4)
        path = tmp_path / "backup.db"
        store.backup(path)
        append(store, "a")
        with pytest.raises(FileExistsError):
            store.backup(path)
        copy = open_store(f"sqlite:///{path}")
        assert copy.names() == ["a", "b"]
        assert copy.events("a", limit=2000) == store.events("a", limit=1499)
        assert copy.events("b") == store.events("b")
        assert copy.snapshots("a") == store.snapshots("a")
        with copy.transaction("a") as log:
            assert (log.last, log.decision_of("somebody")) == (1499, 4)
            log.append([Event(1500, "told", micros=0)])
        copy.close()

    # Threads and processes.

    def test_others_do_not_see_what_is_not_committed(self, store: Store, connect: Connect) -> None:
        seen: list[int] = []
        # Whether it waits for the end of the transaction is the store's own affair.
        reading = threading.Thread(target=lambda: seen.append(len(connect().events("a"))))
        with suppress(Stop), store.transaction("a") as log:
            log.append([Event(2, "asked", micros=0)])
            reading.start()
            reading.join(timeout=0.1)
            raise Stop
        reading.join()
        assert seen == [1]

    def test_threads_take_turns_at_one_store(self, store: Store) -> None:
        together([lambda k=k: repeat(store, k, 10) for k in range(4)])  # type: ignore[misc]
        check_turns(store, 4, 10)

    def test_threads_take_turns_by_connections_of_their_own(
        self, store: Store, connect: Connect
    ) -> None:
        together([lambda k=k: repeat(connect(), k, 10) for k in range(4)])  # type: ignore[misc]
        check_turns(store, 4, 10)

    def test_threads_create_one_study_once(self, connect: Connect) -> None:
        made: list[int] = []

        def create(k: int) -> None:
            with suppress(StudyExists):
                connect().create("new", [Event(1, "created", micros=k)])
                made.append(k)

        together([lambda k=k: create(k) for k in range(4)])  # type: ignore[misc]
        store = connect()
        assert [event.micros for event in store.events("new")] == made
        store.close()

    @needs_fork
    def test_processes_take_turns(self, store: Store, connect: Connect) -> None:
        children = [fork(lambda k=k: repeat(connect(), k, 10)) for k in range(3)]  # type: ignore[misc]
        repeat(store, 3, 10)
        assert [exit_code(child) for child in children] == [0, 0, 0]
        check_turns(store, 4, 10)

    @needs_fork
    def test_a_process_that_is_killed_leaves_nothing_behind(self, store: Store) -> None:
        def work() -> None:
            with store.transaction("a") as log:
                log.append([Event(2, "asked", micros=0)])
                log.bind("dead", 0)
                os.kill(os.getpid(), signal.SIGKILL)

        assert exit_code(fork(work)) == -signal.SIGKILL
        with store.transaction("a") as log:  # nobody has to break its lock
            assert (log.last, log.decision_of("dead")) == (1, None)

    @needs_fork
    def test_what_a_fork_commits_stays(self, store: Store, connect: Connect) -> None:
        """The child has its parent's store, and goes on after the parent has closed it."""
        begin, go = os.pipe()
        seen, tell = os.pipe()

        def work() -> None:
            append(store, "a")
            os.write(tell, b".")
            os.read(begin, 1)
            append(store, "a")
            os.kill(os.getpid(), signal.SIGKILL)

        append(store, "a")
        child = fork(work)
        os.read(seen, 1)
        store.close()
        os.write(go, b".")
        assert exit_code(child) == -signal.SIGKILL
        for end in (begin, go, seen, tell):
            os.close(end)
        for reader in (store, connect()):
            assert [event.seq for event in reader.events("a")] == [1, 2, 3, 4]
            reader.close()

    def test_a_backup_while_in_use(self, store: Store, tmp_path: Path, connect: Connect) -> None:
        """Of what was committed before it began all is there, of each transaction all or nothing."""
        ended = threading.Event()

        def work() -> None:
            writer = connect()
            while not ended.is_set():
                with writer.transaction("a") as log:
                    log.append([Event(log.last + k, "asked", micros=0) for k in range(1, 8)])
            writer.close()

        working = threading.Thread(target=work)
        working.start()
        try:
            for k in range(3):
                before = store.events("a", after=0, limit=10**6)
                store.backup(tmp_path / f"{k}.db")
                copy = open_store(f"sqlite:///{tmp_path / f'{k}.db'}")
                copied = copy.events("a", limit=10**6)
                copy.close()
                assert copied[: len(before)] == before
                assert [event.seq for event in copied] == list(range(1, len(copied) + 1))
                assert len(copied) % 7 == 1
        finally:
            ended.set()
            working.join()


# Threads and processes that use a store.


def append(store: Store, name: str, by: int | None = None) -> None:
    """One event more, in a transaction of its own."""
    with store.transaction(name) as log:
        log.append([Event(log.last + 1, "asked", 0, by)])


def repeat(store: Store, by: int, times: int) -> None:
    """So many events by one worker, who closes the store at the end."""
    for _ in range(times):
        append(store, "a", by)
    store.close()


def check_turns(store: Store, workers: int, times: int) -> None:
    """As many events as were appended, one after another, and of each worker as many as it said."""
    events = store.events("a", after=1)
    assert [event.seq for event in events] == list(range(2, 2 + workers * times))
    assert sorted(event.decision or 0 for event in events) == sorted([*range(workers)] * times)


def together(works: Sequence[Callable[[], None]]) -> None:
    """Each in a thread of its own; the first error that one of them raises."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result()


def fork(work: Callable[[], None]) -> int:
    """The id of a fork of this process that does something and exits with 0, or fails and exits with 1."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """With what a fork ends; of one that was killed, the signal with a minus."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
