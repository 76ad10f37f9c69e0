"""The part of the contract of a store that is about several who use it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koloss.errors import StudyExists
from koloss.studies import Event, Store, open_store
from koloss.testing.workers import Stop, append, check_turns, exit_code, fork, repeat, together

Connect = Callable[[], Store]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")


class SharedStore:
    """What a store does for threads and processes; `StoreContract` has the rest."""

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
