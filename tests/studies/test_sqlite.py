"""Studies in a file of SQLite's: what is particular to it, beside the contract of all stores."""

from __future__ import annotations

import gc
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from os import _exit as exit_at_once
from pathlib import Path

import pytest

from koloss.errors import StoreError, StudyNotFound
from koloss.studies import Event, Snapshot, sqlite
from koloss.studies.sql import PAGE
from koloss.studies.sqlite import ABOUT, BY_REQUEST, UNBIND, SQLiteStore
from koloss.testing import StoreContract
from koloss.testing.stores import append
from tests.support import inside
from tests.support.forks import in_fork

BEGINNING = [Event(1, "created", micros=0)]


class TestContract(StoreContract):
    @pytest.fixture
    def connect(self, tmp_path):
        return lambda: SQLiteStore(tmp_path / "studies.db")


@pytest.fixture
def store(tmp_path):
    store = SQLiteStore(tmp_path / "a.db", durability="process")
    store.create("a", BEGINNING)
    yield store
    store.close()


def numbers(store, name="a"):
    return [event.seq for event in store.events(name, limit=10**6)]


# Files.


def test_reading_makes_no_file(tmp_path):
    store = SQLiteStore(tmp_path / "a.db")
    assert store.names() == []
    assert store.facts()["bytes"] == 0
    with pytest.raises(StudyNotFound):
        store.events("a")
    with pytest.raises(StudyNotFound):
        append(store, "a")
    with pytest.raises(StoreError, match="there is no such file yet"):
        store.backup(tmp_path / "b.db")
    store.close()
    assert os.listdir(tmp_path) == []
    store.create("a", BEGINNING)
    assert SQLiteStore(tmp_path / "a.db").names() == ["a"]


def test_the_log_is_gone_when_all_have_closed(store, tmp_path):
    other = SQLiteStore(tmp_path / "a.db")
    append(other, "a")
    store.close()
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-shm", "a.db-wal", "a.db.lock"]
    other.close()
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.lock"]


def test_a_store_that_nobody_refers_to_is_closed(tmp_path):
    store = SQLiteStore(tmp_path / "a.db")
    store.create("a", BEGINNING)
    del store
    gc.collect()
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.lock"]


@pytest.mark.slow
def test_a_store_that_nobody_has_closed_is_closed_when_the_interpreter_ends(tmp_path):
    program = (
        "import sys\nfrom koloss.studies import Event, open_store\n"
        "store = open_store(f'sqlite:///{sys.argv[1]}')\n"
        "store.create('a', [Event(1, 'created', micros=0)])\n"
        "store.itself = store\n"  # so that it lives until the last moment
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.db"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.lock"]


def test_a_store_that_nobody_refers_to_is_closed_when_others_are_no_longer_busy(store, tmp_path):
    other = SQLiteStore(tmp_path / "a.db")
    with store.transaction("a") as log:
        del other
        gc.collect()
        log.append([Event(2, "asked", micros=0)])
    store.close()
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db.lock"]
    assert numbers(store) == [1, 2]


@pytest.mark.parametrize("path", ["none/a.db", "file/a.db"])
def test_no_such_folder(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"there is no folder|Not a directory"):
        SQLiteStore(tmp_path / path)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_in_the_place_of_the_file(tmp_path):
    with pytest.raises(StoreError, match="unable to open database file"):
        SQLiteStore(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"a,b\n1,2\n", bytes(range(256)) * 20, b"SQLite format 3\0" * 300],
    ids=["table", "bytes", "begins like one"],
)
def test_a_file_that_is_no_database(tmp_path, content):
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=re.escape(str(path))):
        SQLiteStore(path)
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "a.db").touch()
    store = SQLiteStore(tmp_path / "a.db")
    assert store.names() == []
    store.create("a", BEGINNING)
    assert numbers(store) == [1]


def test_the_database_of_another_program(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table customers (name)")
    content = path.read_bytes()
    with pytest.raises(StoreError, match="database of another program, with the table 'customers'"):
        SQLiteStore(path)
    assert path.read_bytes() == content  # not even its mode of writing is another


@pytest.mark.parametrize("version", [2, 99, 0, "one", None])
def test_a_format_of_later_or_of_nobody(store, version):
    store.close()
    with closing(sqlite3.connect(store.path)) as db, db:
        if version is None:
            db.execute("delete from koloss_format")
        else:
            db.execute("update koloss_format set version = ?", (version,))
    with pytest.raises(StoreError, match=f"its format is {version}, and .* knows formats up to 1"):
        SQLiteStore(store.path)


def test_a_file_that_is_removed_or_replaced_while_in_use(store, tmp_path):
    other = SQLiteStore(tmp_path / "b.db")
    other.create("b", BEGINNING)
    other.close()
    store.close()
    append(store, "a")
    os.replace(tmp_path / "b.db", store.path)
    for suffix in ("-wal", "-shm"):  # they belong to the other, and whoever moves files moves all
        os.remove(f"{store.path}{suffix}")
    with pytest.raises(StoreError, match="removed or replaced while it was in use"):
        append(store, "a")
    assert store.names() == ["b"]  # from here on it is this one
    os.remove(store.path)
    with pytest.raises(StoreError, match="removed or replaced"):
        store.names()
    assert store.names() == []


def test_a_lock_that_is_removed_is_made_again(store):
    with store.transaction("a") as log:
        os.remove(f"{store.path}.lock")
        log.append([Event(2, "asked", micros=0)])
    append(store, "a")
    assert os.path.exists(f"{store.path}.lock")


def test_a_path_with_odd_letters(tmp_path):
    folder = tmp_path / "ä %41 & ;'"
    folder.mkdir()
    store = SQLiteStore(folder / "a%20b [1].db")
    store.create("a", BEGINNING)
    assert sorted(os.listdir(folder))[0] == "a%20b [1].db"
    assert numbers(SQLiteStore(folder / "a%20b [1].db")) == [1]


def test_a_link_is_the_same_store(store, tmp_path):
    (tmp_path / "link.db").symlink_to(store.path)
    linked = SQLiteStore(tmp_path / "link.db")
    with store.transaction("a"), pytest.raises(StoreError, match="in a transaction of this store"):
        linked.names()
    append(linked, "a")
    assert numbers(store) == [1, 2]
    assert not os.path.exists(tmp_path / "link.db.lock")


def as_nobody(work):
    """In a fork that has no rights beyond those of anybody."""

    def dropped():
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return in_fork(dropped)


@pytest.fixture
def public(tmp_path):
    """A folder that everybody can reach; those of pytest are their owner's."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        os.chmod(folder, 0o755)
    return tmp_path


@pytest.mark.process
def test_a_file_that_may_not_be_written(store, public):
    append(store, "a")
    store.close()
    os.chmod(store.path, 0o444)
    os.chmod(f"{store.path}.lock", 0o444)
    os.chmod(public, 0o777)
    error = as_nobody(lambda: append(SQLiteStore(store.path), "a"))
    assert isinstance(error, StoreError)
    assert "readonly" in str(error)
    os.chmod(store.path, 0o644)
    assert numbers(store) == [1, 2]


@pytest.mark.process
def test_a_file_that_two_users_share(store, public):
    """In a folder like /tmp, where everybody may write and nobody remove another's files."""
    append(store, "a")
    for path in (store.path, f"{store.path}.lock"):
        os.chmod(path, 0o666)
    os.chmod(public, 0o1777)
    assert as_nobody(lambda: append(SQLiteStore(store.path), "a")) is None
    assert numbers(store) == [1, 2, 3]


@pytest.mark.process
def test_a_file_that_may_not_be_read(store, public):
    store.close()
    os.chmod(store.path, 0)
    os.chmod(f"{store.path}.lock", 0o444)
    error = as_nobody(lambda: SQLiteStore(store.path).names())
    assert isinstance(error, StoreError)
    assert "unable to open" in str(error)


@pytest.mark.process
def test_a_folder_that_may_not_be_written(public):
    os.chmod(public, 0o555)
    error = as_nobody(lambda: SQLiteStore(public / "a.db").create("a", BEGINNING))
    assert isinstance(error, StoreError)
    assert re.search(r"a\.db\.lock: Permission denied", str(error))
    os.chmod(public, 0o755)
    assert os.listdir(public) == []


# One thread, several stores.


def test_a_transaction_within_another_is_refused(store, tmp_path):
    other = SQLiteStore(tmp_path / "a.db")
    with store.transaction("a") as log:
        for use in (store.names, other.names, lambda: append(store, "a"), store.close):
            with pytest.raises(StoreError, match="this thread is in a transaction of this store"):
                use()
        log.append([Event(2, "asked", micros=0)])
    assert numbers(store) == numbers(other) == [1, 2]


def test_transactions_in_two_files_at_once(store, tmp_path):
    other = SQLiteStore(tmp_path / "b.db")
    other.create("b", BEGINNING)
    with store.transaction("a") as log, other.transaction("b") as second:
        log.append([Event(2, "asked", micros=0)])
        second.append([Event(2, "asked", micros=0)])
    assert numbers(store) == numbers(other, "b") == [1, 2]


# What is kept.


def test_what_is_forgotten_is_in_no_file(tmp_path):
    store = SQLiteStore(tmp_path / "a.db", durability="process")
    store.create("a", BEGINNING)
    with store.transaction("a") as log:
        for k in range(2000):
            log.bind(f"subject {k:06d} of mine", k)
    for start in range(0, 1000, 100):  # pages become empty, and are merged with others
        with store.transaction("a") as log:
            log.unbind(range(start, start + 98))
    with store.transaction("a") as log:
        assert log.forget_subject("subject 001235 of mine") == 1
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    found = {int(number) for number in re.findall(rb"subject (\d{6}) of mine", files)}
    assert found == {k for k in range(2000) if (k >= 1000 or k % 100 >= 98) and k != 1235}


@pytest.mark.parametrize("statement", [BY_REQUEST, ABOUT, UNBIND, PAGE])
def test_what_is_looked_up_is_found_by_an_index(store, statement):
    def plan(statement):
        values = (1,) * statement.count("?")
        rows = inside.database(store).execute(f"explain query plan {statement}", values).fetchall()
        return [row[3] for row in rows]

    with store.transaction("a"):
        (how,) = plan(statement)  # without sorting
        assert re.search(r"^SEARCH .*\(study=\? AND \w+[=>]\?\)$", how)
        # The control: SQLite left to itself.
        left = plan(re.sub(r"indexed by \w+", "", statement))
        assert (left == [how]) == ("from koloss_events indexed" not in statement)


def test_an_event_that_is_damaged_is_named(store):
    append(store, "a")
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("update koloss_events set data = '{\"p\": 0.' where seq = 2")
    with pytest.raises(StoreError, match="event 2 of the study 'a' is damaged"):
        store.events("a")
    assert [event.seq for event in store.events("a", limit=1)] == [1]


def test_facts(store, monkeypatch):
    facts = store.facts()
    assert facts["sqlite_version"] == sqlite3.sqlite_version
    assert (facts["durability"], facts["synchronous"]) == ("process", "NORMAL")
    assert "not a power cut" in facts["warnings"][-1]
    assert facts["bytes"] + facts["wal_bytes"] > 0
    assert facts["wal_bytes"] == os.path.getsize(f"{store.path}-wal")
    store.close()
    safe = SQLiteStore(store.path)
    for version, expected in (((3, 51, 2), 1), ((3, 51, 3), 0), ((3, 52, 0), 0), ((3, 40, 1), 1)):
        monkeypatch.setattr(sqlite.sqlite3, "sqlite_version_info", version)
        warnings = safe.facts()["warnings"]
        assert len(warnings) == expected
        assert all("fixed in 3.51.3" in warning for warning in warnings)
    assert safe.facts()["synchronous"] == "FULL"


# The size of the log.


@pytest.mark.slow
def test_the_log_stays_small_beside_a_reader(store):
    reader = SQLiteStore(store.path)
    largest = 0
    for _ in range(6):
        for _ in range(300):
            append(store, "a")
        seen = 0
        while page := reader.events("a", after=seen, limit=500):
            seen = page[-1].seq
        largest = max(largest, store.facts()["wal_bytes"])
    assert seen == 1801
    assert largest < 1100 * 4200  # a thousand pages, and a transaction


@pytest.mark.slow
def test_the_log_grows_while_another_program_reads(store):
    """The control: what pages are for."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("begin")
        db.execute("select * from koloss_events").fetchone()
        for _ in range(1000):
            append(store, "a")
        assert store.facts()["wal_bytes"] > 1500 * 4200


def test_the_log_is_cut_after_a_large_transaction(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "WAL_BYTES", 1 << 20)
    store = SQLiteStore(tmp_path / "a.db", durability="process")
    store.create("a", BEGINNING)
    with store.transaction("a") as log:
        log.save_snapshot(Snapshot(1, os.urandom(6_000_000)))
    assert store.facts()["wal_bytes"] > 6_000_000
    for _ in range(2):
        append(store, "a")
    assert store.facts()["wal_bytes"] <= 1 << 20


# Forks.


def test_a_fork_in_the_middle_of_a_transaction(store):
    with store.transaction("a") as log:
        log.append([Event(2, "asked", micros=0)])

        def work():
            errors = []
            for use in (lambda: log.events(0), store.names, lambda: SQLiteStore(store.path)):
                try:
                    use()
                except StoreError as error:
                    errors.append(str(error))
            store.close()
            return errors

        errors = in_fork(work)
        assert len(errors) == 3
        assert all(re.search("forked in the middle|in a transaction", error) for error in errors)
    assert numbers(store) == [1, 2]
    assert in_fork(lambda: numbers(store)) == [1, 2]  # between transactions all is well


def test_a_store_that_a_fork_makes_anew_is_refused_as_well(store):
    """What SQLite remembers is the process's, whoever has forgotten it."""
    box = [store]
    with store.transaction("a"):

        def work():
            path = box.pop().path
            gc.collect()
            SQLiteStore(path)

        error = in_fork(work)
    assert isinstance(error, StoreError)


def test_a_fork_without_a_word_to_python(store, monkeypatch):
    append(store, "a")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "_turns", {})
        error = in_fork(lambda: append(store, "a"))
    assert isinstance(error, StoreError)
    assert "without a word to Python" in str(error)
    append(store, "a")
    assert numbers(store) == [1, 2, 3]


def test_a_fork_leaves_files_alone_that_are_closed(store, tmp_path):
    store.close()
    for file in tmp_path.iterdir():
        file.unlink()
    assert in_fork(lambda: os.listdir(tmp_path)) == []


def test_the_end_of_a_transaction_in_a_fork_commits_nothing(store):
    def leave():
        try:
            with store.transaction("a") as log:
                log.append([Event(2, "asked", micros=0)])
                child = os.fork()
                if child == 0:
                    return "in the child"
                os.waitpid(child, 0)
                raise KeyError
        except KeyError:
            return "in the parent"
        except StoreError:
            exit_at_once(0)

    assert leave() == "in the parent"
    assert numbers(store) == [1]
    append(store, "a")


def test_a_fork_waits_for_the_transactions_of_other_threads(store):
    begun, forking = threading.Event(), threading.Event()

    def work():
        with store.transaction("a") as log:
            begun.set()
            forking.wait(0.2)  # nobody sets it: the fork is waiting
            log.append([Event(2, "asked", micros=0)])

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert in_fork(lambda: (append(store, "a"), numbers(store))[1]) == [1, 2, 3]
    thread.join()
    assert numbers(store) == [1, 2, 3]
