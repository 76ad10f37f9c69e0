"""Studies in a file of SQLite's when things go wrong: a full disk, a torn log, interrupts, many processes at once."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

from koloss.errors import CommitUnknown, StoreError
from koloss.studies import Event, Snapshot
from koloss.studies.sqlite import SQLiteStore
from koloss.testing.stores import append, exit_code, fork
from tests.support import inside
from tests.support.forks import in_fork

resource = pytest.importorskip("resource", reason="this system has no limits on files")


@pytest.fixture
def store(tmp_path):
    store = SQLiteStore(tmp_path / "a.db", durability="process")
    store.create("a", [Event(1, "created", micros=0)])
    yield store
    store.close()


def numbers(store):
    return [event.seq for event in store.events("a", limit=10**6)]


def is_whole(store):
    with closing(sqlite3.connect(store.path)) as db:
        return db.execute("pragma integrity_check").fetchall() == [("ok",)]


# A full disk.


def test_no_room_for_another_page(store):
    append(store, "a")
    (pages,) = inside.database(store).execute("pragma page_count").fetchone()
    inside.database(store).execute(f"pragma max_page_count = {pages}")

    def fill():
        with store.transaction("a") as log:
            log.append([Event(3, "asked", micros=0)])
            log.bind("undone", 0)
            log.save_snapshot(Snapshot(3, bytes(100_000)))

    with pytest.raises(StoreError, match="full") as caught:
        fill()
    assert not isinstance(caught.value, CommitUnknown)
    with store.transaction("a") as log:  # by another connection, which has no such limit
        assert (log.last, log.decision_of("undone")) == (2, None)
        log.append([Event(3, "asked", micros=0)])
    assert numbers(store) == [1, 2, 3]
    assert is_whole(store)


@pytest.mark.parametrize("room", [0, 1, 24, 4000, 4120, 4121, 8240, 12_000, 16_479, 16_480])
def test_the_log_cannot_grow_in_the_middle_of_a_commit(store, room):
    """As on a full disk, the system writes a part of it: `room` bytes, where four pages would need 16,480."""

    def add():
        with store.transaction("a") as log:
            log.append([Event(log.last + 1, "asked", 0, log.last, f"r{log.last}")])

    def work():
        add()
        size = os.path.getsize(f"{store.path}-wal") + room
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        error = None
        try:
            add()
        except StoreError as caught:
            error = caught
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        added = numbers(store)
        add()
        return type(error), added, numbers(store)

    failed = room < 16_480
    kind, added, after = in_fork(work)
    assert kind is (StoreError if failed else type(None))
    assert added == [1, 2, 3][: 2 if failed else 3]
    assert after == numbers(store) == [*added, len(added) + 1]
    assert is_whole(store)


class Failing:
    """A connection on which one statement fails, before it does anything."""

    def __init__(self, db, statement, code):
        self._db, self._statement, self._code = db, statement, code

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, statement, *values):
        if statement == self._statement:
            error = sqlite3.OperationalError("simulated")
            error.sqlite_errorcode = self._code
            raise error
        return self._db.execute(statement, *values)


@pytest.mark.parametrize(
    "statement, code, kind",
    [
        ("begin immediate", sqlite3.SQLITE_BUSY, StoreError),
        ("begin immediate", sqlite3.SQLITE_IOERR_READ, StoreError),
        ("commit", sqlite3.SQLITE_BUSY, StoreError),
        ("commit", sqlite3.SQLITE_FULL, StoreError),
        ("commit", sqlite3.SQLITE_IOERR_WRITE, StoreError),
        ("commit", sqlite3.SQLITE_IOERR_FSYNC, CommitUnknown),
        ("commit", sqlite3.SQLITE_IOERR_SHMMAP, CommitUnknown),
    ],
)
def test_a_statement_that_fails(store, statement, code, kind):
    inside.database(store, Failing(inside.database(store), statement, code))
    with pytest.raises(StoreError, match=r"a\.db: simulated") as caught:
        append(store, "a")
    assert type(caught.value) is kind
    assert numbers(store) == [1]
    append(store, "a")
    assert numbers(store) == [1, 2]


def test_what_is_erased_is_committed_where_the_log_cannot_be_cut(store, caplog):
    with store.transaction("a") as log:
        log.bind("somebody", 0)
    failing = "pragma wal_checkpoint(truncate)", sqlite3.SQLITE_IOERR
    inside.database(store, Failing(inside.database(store), *failing))
    with store.transaction("a") as log:
        assert log.forget_subject("somebody") == 1
    assert "what was erased is still in the log (simulated)" in caplog.text
    with store.transaction("a") as log:
        assert log.decision_of("somebody") is None


# A torn log.


@pytest.fixture
def written(tmp_path):
    """A database as a crash leaves it: the file, the log, and how long the log was after each transaction."""
    store = SQLiteStore(tmp_path / "written.db")
    store.create("a", [Event(1, "created", micros=0)])
    inside.database(store).execute("pragma wal_checkpoint(truncate)").fetchall()
    sizes = []
    for k in range(2, 42):
        with store.transaction("a") as log:
            log.append([Event(k, "asked", k, k, f"r{k}", {"p": k / 7})])
            log.bind(f"s{k % 5}", k)
            if k % 10 == 0:
                log.save_snapshot(Snapshot(k, bytes(9000)))
        sizes.append(os.path.getsize(f"{store.path}-wal"))
    content = store.path.read_bytes()
    with open(f"{store.path}-wal", "rb") as file:
        log = file.read()
    assert len(log) == sizes[-1]
    assert sorted(set(sizes)) == sizes
    store.close()
    return content, log, np.array(sizes)


def restored(folder, content, log):
    path = folder / "torn.db"
    path.write_bytes(content)
    for suffix in ("-shm", "-wal"):
        (folder / f"torn.db{suffix}").unlink(missing_ok=True)
    (folder / "torn.db-wal").write_bytes(log)
    return SQLiteStore(path)


def check_restored(store, kept):
    """Of the 40 transactions there are just so many, and the study goes on."""
    assert numbers(store) == list(range(1, kept + 2))
    assert all(event.data == {"p": event.seq / 7} for event in store.events("a", after=1))
    with store.transaction("a") as log:
        assert log.last == kept + 1
        for k in range(max(2, kept - 3), kept + 2):
            assert log.decision_of(f"s{k % 5}") == k
            assert [event.seq for event in log.by_request(f"r{k}")] == [k]
        assert log.by_request(f"r{kept + 2}") == []
        log.append([Event(kept + 2, "told", micros=100)])
    snapshots = list(range(10, kept + 2, 10))[::-1][:2]
    assert [snapshot.seq for snapshot in store.snapshots("a")] == snapshots
    store.close()
    assert is_whole(store)
    assert numbers(store) == list(range(1, kept + 3))


@pytest.mark.slow
def test_a_log_that_ends_anywhere(tmp_path, written):
    content, log, sizes = written
    cuts = np.random.default_rng(1).integers(0, len(log) + 1, size=20)
    for cut in [0, 31, 32, sizes[3] - 1, sizes[3], sizes[3] + 1, len(log), *cuts]:
        check_restored(restored(tmp_path, content, log[:cut]), kept=int(np.sum(sizes <= cut)))


@pytest.mark.slow
def test_a_log_with_a_wrong_byte(tmp_path, written):
    content, log, sizes = written
    rng = np.random.default_rng(2)
    for place in rng.integers(0, len(log), size=20):
        wrong = bytearray(log)
        wrong[place] ^= rng.integers(1, 256)
        check_restored(restored(tmp_path, content, bytes(wrong)), kept=int(np.sum(sizes <= place)))


def test_a_log_that_is_lost(tmp_path, written):
    """The control: without the log there is nothing of it."""
    content, _, _ = written
    check_restored(restored(tmp_path, content, b""), kept=0)


# Interrupts.


def test_an_interrupt_while_waiting_for_a_turn(store):
    ready, tell = os.pipe()

    def hold():
        with SQLiteStore(store.path).transaction("a"):
            os.write(tell, b".")
            time.sleep(60)

    child = fork(hold)
    os.read(ready, 1)

    def stop(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            append(store, "a")
    finally:
        signal.signal(signal.SIGALRM, former)
    os.kill(child, signal.SIGKILL)
    exit_code(child)
    os.close(ready)
    os.close(tell)
    done = threading.Thread(target=append, args=(store, "a"))
    done.start()
    done.join()
    assert numbers(store) == [1, 2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment(store):
    """Whatever was interrupted was done or not, as a whole, and the next one goes on."""
    rng = np.random.default_rng(3)

    def stop(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, stop)
    done = stopped = 0
    try:
        for _ in range(200):
            try:
                # And again after a second: Python ignores what is raised while it clears away an object.
                signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-6, 4e-4)), 1.0)
                while True:
                    with store.transaction("a") as log:
                        log.append([Event(log.last + k, "asked", 0, done) for k in (1, 2, 3)])
                    done += 1
            except KeyboardInterrupt:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    seen = numbers(store)
    assert stopped == 200
    assert seen == list(range(1, len(seen) + 1))
    assert (len(seen) - 1) % 3 == 0
    # Of what was interrupted some may have been committed, of what was not everything is there.
    assert done <= (len(seen) - 1) // 3 <= done + stopped
    assert {event.decision for event in store.events("a", after=1, limit=10**6)} >= set(range(done))


# Many processes.


@pytest.mark.slow
def test_of_three_processes_none_is_kept_from_its_turns(store):
    """All go on until each has had twenty: how many the others have had meanwhile is up to the scheduler, within reason."""
    ready, tell = os.pipe()
    begin, go = os.pipe()

    def work(k):
        mine = SQLiteStore(store.path)
        os.write(tell, b".")
        os.read(begin, 1)
        turns, last = Counter(), 1
        while min(turns[j] for j in range(3)) < 20 and last < 50_000:
            with mine.transaction("a") as log:
                seen = log.events(last, 10**6)
                turns.update(event.decision for event in seen)
                turns[k] += 1
                last = log.last + 1
                log.append([Event(last, "asked", 0, k)])

    children = [fork(lambda k=k: work(k)) for k in range(3)]
    for _ in children:
        os.read(ready, 1)
    os.write(go, b"...")
    assert [exit_code(child) for child in children] == [0, 0, 0]
    for end in (ready, tell, begin, go):
        os.close(end)
    turns = Counter(event.decision for event in store.events("a", after=1, limit=10**6))
    assert min(turns[k] for k in range(3)) >= 20, turns
