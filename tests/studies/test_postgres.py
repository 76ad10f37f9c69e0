"""Studies on a real PostgreSQL server: its tables, its settings, threads, forks and secrets."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from functools import partial

import pytest

from koloss.errors import StoreError, StudyNotFound
from koloss.studies import postgres, postgres_connections
from koloss.studies.postgres import PostgresTransaction
from koloss.studies.sql import PAGE
from koloss.studies.sqlite import make_tables
from koloss.studies.store import FORMAT, Event, open_store
from koloss.testing import StoreContract
from tests.support import inside
from tests.support.forks import in_fork
from tests.support.postgres import FIRST, add, failure, numbers


class TestContract(StoreContract):
    @pytest.fixture
    def connect(self, postgres_url):
        return lambda: open_store(postgres_url)


# Tables.


def test_tables_are_made_with_the_first_study_and_not_before(server, schema, postgres_url):
    with contextlib.closing(open_store(postgres_url)) as store, server.connect(schema) as admin:
        count = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
        assert store.names() == []
        for look in (store.events, store.snapshots, partial(add, store)):
            with pytest.raises(StudyNotFound):
                look("prices")
        assert admin.execute(count, [schema]).fetchone() == (0,)
        store.create("prices", FIRST)
        assert admin.execute(count, [schema]).fetchone() == (5,)


@pytest.mark.parametrize("versions", [[FORMAT + 1], [], [FORMAT, FORMAT]])
def test_another_format_is_refused(server, schema, store, postgres_url, versions):
    with server.connect(schema) as admin:
        admin.execute("DELETE FROM koloss_format")
        for version in versions:
            admin.execute("INSERT INTO koloss_format VALUES (%s)", [version])
    with pytest.raises(StoreError, match=f"formats up to {FORMAT}"):
        open_store(postgres_url)


def test_two_writers_of_one_event_cannot_both_be_right(server, schema, store):
    """The key (study, seq) and the number of the last event each stand in the way of somebody who took no lock."""
    with server.connect(schema) as rogue:
        rogue.execute(
            "INSERT INTO koloss_events SELECT id, 2, 'asked', 2, 0, NULL, '{}' FROM koloss_studies"
        )
        with pytest.raises(StoreError, match="koloss_events_pkey"):
            add(store)
        rogue.execute("DELETE FROM koloss_events WHERE seq = 2")

    def body(log):
        inside.answers(log, "UPDATE koloss_studies SET last = 7 RETURNING last")
        log.append([Event(2, "paused", micros=2)])

    assert "does not end with event 1" in str(failure(store, body))
    assert add(store) == 2


@pytest.mark.slow
def test_a_long_history_is_read_by_its_index(server, schema, store):
    """Pages and keys are found without a look at the rest: no scan, no sort."""
    with server.connect(schema) as admin:
        admin.execute(
            "INSERT INTO koloss_events SELECT id, n, 'asked', n, n, 'key' || n, '{}' "
            "FROM koloss_studies, generate_series(2, 20000) AS n"
        )
        admin.execute("ANALYZE koloss_events")
        cases = {
            "koloss_events_pkey": (PAGE, [1, 19000, 100]),
            "koloss_events_request": (PostgresTransaction.by_request_sql, [1, "key500"]),
            "koloss_events_decision": (PostgresTransaction.about_sql, [1, 500]),
        }
        for index, (statement, values) in cases.items():
            plan = str(admin.execute("EXPLAIN " + statement.replace("?", "%s"), values).fetchall())
            assert index in plan
            assert "Seq Scan" not in plan


def test_a_backup_is_of_one_moment(store, tmp_path, monkeypatch):
    """Although others go on between one table and the next."""

    def slowly(tables):
        for table in tables:
            yield table
            add(store)

    monkeypatch.setattr(postgres, "TABLES", slowly(postgres.TABLES))
    store.backup(tmp_path / "copy.db")
    assert numbers(store) == [1, 2, 3, 4, 5]
    with contextlib.closing(open_store(f"sqlite:///{tmp_path / 'copy.db'}")) as copy:
        assert numbers(copy) == [1]
        assert add(copy) == 2


def test_a_backup_that_fails_leaves_nothing(distant, proxy, tmp_path, monkeypatch):
    monkeypatch.setattr(postgres, "make_tables", lambda copy: make_tables(copy) or proxy.cut_all())
    with pytest.raises(StoreError, match="reading postgresql://"):
        distant.backup(tmp_path / "copy.db")
    assert [*tmp_path.iterdir()] == []
    assert add(distant) == 2


def test_there_is_no_backup_of_nothing(postgres_url, tmp_path):
    store = open_store(postgres_url)
    with contextlib.closing(store), pytest.raises(StoreError, match="nothing to back up"):
        store.backup(tmp_path / "copy.db")
    assert [*tmp_path.iterdir()] == []


# Threads and forks.


def test_a_thread_does_not_wait_for_itself(store):
    with (
        store.transaction("prices"),
        pytest.raises(StoreError, match="already"),
        store.transaction("prices"),
    ):
        pass
    assert add(store) == 2


def sessions(store):
    """Process ids of the server's for this store's connections."""
    return {connection.info.backend_pid for connection in store._connections._open}


@pytest.mark.slow
def test_a_fork_opens_its_own_connection_and_leaves_its_parents_alone(store):
    before = sessions(store)

    def child():
        left = sessions(store)
        return left, add(store), sessions(store)

    left, last, own = in_fork(child)
    assert left == set()
    assert last == 2
    assert own
    assert not own & before
    assert add(store) == 3
    assert sessions(store) == before  # over the same connection: the child has not ended it


@pytest.mark.slow
def test_a_fork_in_the_middle_of_a_transaction_commits_nothing(store):
    with store.transaction("prices") as log:
        log.append([Event(2, "paused", micros=2)])

        def child():
            log.append([Event(3, "resumed", micros=3)])

        error = in_fork(child)
        assert isinstance(error, StoreError)
        assert "forked" in str(error)
    assert numbers(store) == [1, 2]


# Secrets.


@pytest.mark.parametrize(
    "wrong", ["secret", "host", "database", "encoding", "slash", "at", "query"]
)
def test_a_secret_is_never_said(server, caplog, monkeypatch, wrong):
    caplog.set_level(logging.DEBUG)
    secret = "hush-4711"
    url = {
        "secret": server.url(secret=secret),
        "host": f"postgresql://me:{secret}@127.0.0.1:1/prices?connect_timeout=2",
        "database": server.url().replace("/postgres?", "/nowhere?"),
        "encoding": f"postgresql://me:%zz{secret}@127.0.0.1/prices",
        "slash": f"postgresql://me:/{secret}@127.0.0.1/prices",
        "at": f"postgresql://me:@{secret}@127.0.0.1/prices",
        "query": f"postgresql://127.0.0.1/prices?{secret}=1",
    }[wrong]
    with pytest.raises((StoreError, ValueError)) as raised:
        open_store(url)
    said = str(raised.value) + repr(raised.value) + caplog.text
    for hidden in (secret, server.password):
        assert hidden not in said
        report = traceback.TracebackException.from_exception(raised.value)
        assert hidden not in "".join(report.format())
    if wrong in ("secret", "host", "database"):
        assert "postgresql://" in said  # what can be said is


def test_the_driver_would_have_said_it():
    """A control for the one above: what is read wrongly is quoted by libpq."""
    psycopg = pytest.importorskip("psycopg")
    with pytest.raises(psycopg.Error, match="hush-4711"):
        psycopg.connect("postgresql://me:%zzhush-4711@127.0.0.1/prices")


def test_what_is_shown_of_a_store_has_no_secret(server, store, caplog):
    caplog.set_level(logging.DEBUG)
    assert store.url == f"postgresql://koloss@127.0.0.1:{server.port}/postgres"
    for shown in (store.url, repr(store), str(store.facts()), repr(vars(store)), caplog.text):
        assert server.password not in shown
    with pytest.raises(StudyNotFound) as raised:
        store.events("other")
    assert server.password not in str(raised.value)


@pytest.mark.parametrize(
    "url, shown",
    [
        ("postgresql://me:hush@host:5433/prices?sslmode=require&sslpassword=hush", "postgresql://me@host:5433/prices?sslmode=require"),
        ("postgresql:///prices?host=/run/postgresql&password=hush", "postgresql:///prices?host=%2Frun%2Fpostgresql"),
        ("postgresql://me:hush@a:1,b:2/prices", "postgresql://me@/prices?host=a%2Cb&port=1%2C2"),
        ("postgresql://me:hush@[::1]/prices", "postgresql://me@[::1]/prices"),
        ("postgres://m%40e:h%40ush@host/", "postgresql://m%40e@host/"),
    ],
)  # fmt: skip
def test_urls_without_their_secrets(url, shown):
    pytest.importorskip("psycopg")
    assert postgres_connections.Connections(url).url == shown


def test_without_the_driver_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"koloss\[postgres\]"):
        open_store("postgresql://me:hush@host/prices")
