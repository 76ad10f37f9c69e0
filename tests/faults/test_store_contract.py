"""The contract of a store can fail: stores with one fault each, which some test of it must find."""

from __future__ import annotations

import inspect
import itertools
import threading
from contextlib import contextmanager, nullcontext

import pytest

from koloss.studies import Event
from koloss.studies.sqlite import SQLiteStore, SQLiteTransaction, Turns
from koloss.testing import StoreContract


def cases():
    """The tests of the contract with the arguments that they are marked with."""
    for name, test in inspect.getmembers(StoreContract, inspect.isfunction):
        if name.startswith("test_"):
            marks = [m for m in getattr(test, "pytestmark", []) if m.name == "parametrize"]
            for values in itertools.product(*(mark.args[1] for mark in marks)):
                yield name, dict(zip((mark.args[0] for mark in marks), values, strict=True))


def failures(folder, only):
    """The tests that fail, of those whose names have a word in them."""
    failed = set()
    for k, (name, arguments) in enumerate(cases()):
        if not any(word in name for word in only):
            continue
        place = folder / str(k)
        place.mkdir(parents=True)

        def connect(place=place):
            return SQLiteStore(place / "a.db", durability="process")

        test = getattr(StoreContract(), name)
        wanted = inspect.signature(test).parameters
        try:
            if "store" in wanted:
                arguments["store"] = connect()
                arguments["store"].create("a", [Event(1, "created", micros=0)])
            given = {"connect": connect, "tmp_path": place, **arguments}
            test(**{key: value for key, value in given.items() if key in wanted})
        except (Exception, pytest.fail.Exception):
            failed.add(name)
    return failed


def unnumbered(self, events):
    rows = [(self._study, e.seq, e.kind, e.micros, e.decision, e.request, e.text) for e in events]
    self._connection.executemany("insert into koloss_events values (?, ?, ?, ?, ?, ?, ?)", rows)
    self.last += len(rows)
    self._connection.execute(
        "update koloss_studies set last = ? where id = ?", (self.last, self._study)
    )


def every_snapshot(self, snapshot):
    values = (self._study, snapshot.seq, snapshot.content)
    self._connection.execute("insert or replace into koloss_snapshots values (?, ?, ?)", values)


def requests_of_all_studies(self, request):
    rows = self._connection.execute(
        "select seq, kind, micros, decision, request from koloss_events where request = ?",
        (request,),
    )
    return [Event(*row) for row in rows]


def first_bound(self, subject, decision):
    if self.decision_of(subject) is None:
        values = (self._study, subject, decision)
        self._connection.execute("insert into koloss_subjects values (?, ?, ?)", values)


def in_small_letters(self, name, events):
    return RIGHT_CREATE(self, name.lower(), events)


def over_or_not(self, statement, *values):
    return self._store.execute(self._connection, statement, *values)


@contextmanager
def committed_whatever_happens(self, db):
    db.execute("begin immediate")
    try:
        yield
    finally:
        db.execute("commit")


@contextmanager
def each_statement_by_itself(self, db):
    yield


def copied_file(self, path):
    """As `shutil.copy` does it: without the log."""
    path.write_bytes(self.path.read_bytes())


RIGHT_CREATE = SQLiteStore.create

FAULTS = {
    "numbers are not checked": (SQLiteTransaction, "append", unnumbered, ["numbered", "created"]),
    "all snapshots are kept": (SQLiteTransaction, "save_snapshot", every_snapshot, ["snapshot"]),
    "requests of all studies": (SQLiteTransaction, "by_request", requests_of_all_studies, ["apart"]),
    "the first decision stays": (SQLiteTransaction, "bind", first_bound, ["subjects"]),
    "nothing is forgotten": (SQLiteTransaction, "forget_subject", lambda self, subject: 1, ["subjects", "apart"]),
    "nothing is unbound": (SQLiteTransaction, "unbind", lambda self, decisions: None, ["subjects"]),
    "after its end": (SQLiteTransaction, "_execute", over_or_not, ["over"]),
    "names in small letters": (SQLiteStore, "create", in_small_letters, ["names", "not_there"]),
    "nothing is undone": (SQLiteStore, "_transaction", committed_whatever_happens, ["undone"]),
    "no transactions": (SQLiteStore, "_transaction", each_statement_by_itself, ["undone", "cannot_be_created"]),
    # Not by threads that share a connection, which without turns ends the interpreter.
    "no turns, no transactions": (Turns, "take", None, ["by_connections_of_their_own"]),
    "a backup of the file alone": (SQLiteStore, "backup", copied_file, ["backup"]),
    "a connection is carried over a fork": (Turns, "pause", None, ["fork_commits"]),
    "nothing about warnings": (SQLiteStore, "facts", lambda self: {"durability": "power"}, ["facts"]),
}  # fmt: skip


def meeting(append):
    """Let the first two append only once both have seen where the log ends, which without turns nothing prevents."""
    both, calls = threading.Barrier(2, timeout=600), itertools.count()

    def together(self, events):
        if self._name == "a" and events[0].kind != "created" and next(calls) < 2:
            both.wait()
        append(self, events)

    return together


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, tmp_path, monkeypatch):
    owner, name, replacement, only = FAULTS[fault]
    if fault.startswith("no turns"):
        monkeypatch.setattr(Turns, "take", lambda self, wait=True: nullcontext())
        monkeypatch.setattr(SQLiteStore, "_transaction", each_statement_by_itself)
        monkeypatch.setattr(SQLiteTransaction, "append", meeting(SQLiteTransaction.append))
    elif fault.startswith("a connection"):
        monkeypatch.setattr(Turns, "pause", lambda self: False)
        # The child throws it away, as one reads that it should, and opens another.
        never = property(lambda self: False, lambda self, value: None)
        monkeypatch.setattr(Turns, "inherited", never, raising=False)
    else:
        monkeypatch.setattr(owner, name, replacement)
    assert failures(tmp_path, only)


def test_without_a_fault_none_is_found(tmp_path):
    words = {word for *_, only in FAULTS.values() for word in only}
    assert failures(tmp_path, words) == set()
