"""A PostgreSQL server that is killed, and connections that are cut at the worst moment."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import koloss as kl
from koloss.errors import CommitUnknown, StoreError
from koloss.studies import postgres_connections
from koloss.studies.store import Event, open_store
from tests.support import inside
from tests.support.postgres import FIRST, add, failure, numbers
from tests.support.studies import bandit, kinds, loss_of

# A commit whose answer is lost.


@pytest.mark.parametrize("cut, found", [("before", [1, 2]), ("after", [1, 2, 3])])
def test_a_lost_answer_is_not_taken_for_either(store, distant, proxy, cut, found):
    assert distant.may_lose_answers
    assert add(distant) == 2
    proxy.cut = cut
    with pytest.raises(CommitUnknown, match="may have happened or not"):
        add(distant, request="key")
    assert proxy.cuts == 1
    assert numbers(store) == found
    # The store goes on over another connection, and can look.
    with distant.transaction("prices") as log:
        assert [event.seq for event in log.by_request("key")] == found[2:]
    assert add(distant) == len(found) + 1


@pytest.mark.parametrize("cut, found", [("before", []), ("after", ["other"])])
def test_a_study_whose_creation_was_not_answered_exists_or_not(store, distant, proxy, cut, found):
    proxy.cut = cut
    with pytest.raises(CommitUnknown):
        distant.create("other", FIRST)
    assert store.names() == [*found, "prices"]


def test_a_connection_lost_before_the_commit_is_a_plain_failure(store, distant, proxy):
    """A control for the two above: not every loss is an unknown commit."""

    def body(log):
        log.append([Event(2, "paused", micros=2)])
        proxy.cut_all()
        log.events(after=0)

    error = failure(distant, body)
    assert not isinstance(error, CommitUnknown)
    assert "nothing was committed" in str(error)
    assert numbers(store) == [1]
    assert add(distant) == 2


def test_one_broken_connection_of_two_stops_nobody(server, schema, store, distant, proxy):
    """Two machines: one loses its network in the middle of a transaction, and the lock with it."""

    def body(log):
        log.append([Event(2, "paused", micros=2)])
        proxy.broken = True
        proxy.cut_all()
        assert add(store) == 2  # would wait for ever if the lock were still held
        log.append([Event(3, "resumed", micros=3)])

    assert not isinstance(failure(distant, body), CommitUnknown)
    proxy.broken = False
    assert add(distant) == 3
    assert [event.kind for event in distant.events("prices")] == ["created", "asked", "asked"]


def test_a_server_that_does_not_come_back_is_an_error(distant, proxy, monkeypatch):
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.2)
    proxy.broken = True
    proxy.cut_all()
    with pytest.raises(StoreError, match="nothing was committed"):
        distant.names()


def test_a_statement_that_failed_is_not_committed_over(store):
    """COMMIT after an error is answered by ROLLBACK, which is no error of PostgreSQL's."""

    def body(log):
        log.append([Event(2, "paused", micros=2)])
        with contextlib.suppress(StoreError):
            log.events(after="one")

    assert str(failure(store, body)).endswith("nothing was committed: ROLLBACK")
    assert numbers(store) == [1]
    assert add(store) == 2


# The server.


def test_the_server_is_killed_and_comes_back(server, store):
    assert add(store) == 2
    server.kill()
    with ThreadPoolExecutor() as threads:
        found = threads.submit(numbers, store)  # waits until it is there again
        server.start()
    assert found.result() == [1, 2]

    def body(log):
        log.append([Event(3, "paused", micros=3)])
        server.kill()
        server.start()
        log.append([Event(4, "resumed", micros=4)])

    assert not isinstance(failure(store, body), CommitUnknown)
    assert add(store) == 3


def test_a_study_goes_on_after_the_server_was_killed(server, postgres_url):
    alone = bandit()
    with kl.Study.create(postgres_url, "others", learner=bandit()) as study:
        for k in range(6):
            decision, expected = study.ask(), alone.ask()
            if k % 3 == 2:
                server.kill()
                server.start()
            for one, made in ((study, decision), (alone, expected)):
                one.tell(made, loss_of(made.action))
            assert (decision.id, decision.index) == (expected.id, expected.index)
        assert kinds(study) == ["created", *["asked", "told"] * 6]


def test_a_child_does_not_keep_its_parents_lock_alive(server, schema, store):
    """A worker is killed in the middle of a transaction; a child of it, which lives on, has a copy of its socket."""
    program = f"""
import os, signal, sys, time
from koloss.studies import open_store
store = open_store({server.url(schema)!r})
with store.transaction("prices"):
    if os.fork() == 0:
        print("locked", flush=True)
        time.sleep(600)
        os._exit(0)
    time.sleep(600)
"""
    worker = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
        start_new_session=True,
    )
    try:
        assert worker.stdout.readline() == b"locked\n"
        worker.kill()
        worker.wait()
        assert add(store) == 2  # would wait for the child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, 9)  # the child is left in the group
        worker.stdout.close()


def test_a_session_ended_by_the_administrator_is_opened_again(server, store):
    def end_sessions():
        with server.connect() as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'koloss'"
            )

    def body(log):
        log.append([Event(2, "paused", micros=2)])
        end_sessions()

    end_sessions()
    assert numbers(store) == [1]
    assert isinstance(failure(store, body), CommitUnknown)  # from here it cannot be known
    assert numbers(store) == [1]


def test_what_the_administrator_limits_is_an_error_like_any_other(server, schema, store):
    """A time limit of the server's for a lock; the connection stays in use."""
    impatient = open_store(server.url(schema) + "%20-clock_timeout%3D20")
    with contextlib.closing(impatient), store.transaction("prices"):
        with pytest.raises(StoreError, match="lock timeout"), impatient.transaction("prices"):
            pass
        assert numbers(impatient) == [1]


def test_settings_that_lose_data_are_said(server, schema, store, caplog):
    assert store.facts()["warnings"] == []
    assert [
        store.facts()[name] for name in ("fsync", "full_page_writes", "synchronous_commit")
    ] == ["on"] * 3
    settings = "fsync", "full_page_writes"
    with server.connect() as admin, caplog.at_level(logging.WARNING, "koloss.studies"):
        try:
            for name in settings:
                admin.execute(f"ALTER SYSTEM SET {name} = off")
            admin.execute("SELECT pg_reload_conf()")
            while admin.execute("SHOW full_page_writes").fetchone() != ("off",):
                pass
            with contextlib.closing(open_store(server.url(schema))) as risky:
                warnings = risky.facts()["warnings"]
        finally:
            for name in settings:
                admin.execute(f"ALTER SYSTEM RESET {name}")
            admin.execute("SELECT pg_reload_conf()")
    assert [warning.split("`")[1] for warning in warnings] == [*settings]
    assert [record.getMessage().split("`")[1] for record in caplog.records] == [*settings]


@pytest.mark.parametrize(
    "durability, default, used, words",
    [
        ("power", "on", "on", []),
        ("power", "off", "on", ["turns it on"]),
        ("power", "remote_write", "remote_write", []),
        ("process", "on", "off", ["durability='process'"]),
    ],
)
def test_commits_wait_for_the_disk_unless_told_otherwise(
    server, schema, store, durability, default, used, words
):
    url = server.url(schema) + f"%20-csynchronous_commit%3D{default}"
    with contextlib.closing(open_store(url, durability=durability)) as other:
        facts = other.facts()
        assert (facts["durability"], facts["synchronous_commit"]) == (durability, default)
        assert len(facts["warnings"]) == len(words)
        assert all(word in warning for word, warning in zip(words, facts["warnings"], strict=True))
        with other.transaction("prices") as log:
            assert inside.answers(log, "SHOW synchronous_commit") == [(used,)]
            assert inside.answers(log, "SHOW transaction_isolation") == [("read committed",)]
            assert int(inside.answers(log, "SHOW tcp_keepalives_idle")[0][0]) == 30
        # Nothing of it stays in the session, which may be another program's next.
        assert inside.reads(other, "SHOW synchronous_commit") == [(default,)]
        assert int(inside.reads(other, "SHOW tcp_keepalives_idle")[0][0]) != 30
