"""A PostgreSQL server for each process that tests, and what the tests of the store on it do again and again."""

from __future__ import annotations

import contextlib
import importlib.util

import pytest

from koloss.errors import StoreError
from koloss.studies.store import Event, open_store
from tests.support.server import Proxy, Server, find_binaries

FIRST = [Event(1, "created", micros=1, data={"settings": {}})]


def add(store, name="prices", request=None):
    """One more event, in a transaction of its own."""
    with store.transaction(name) as log:
        log.append(
            [Event(log.last + 1, "asked", micros=log.last + 1, decision=log.last, request=request)]
        )
        return log.last


def numbers(store, name="prices"):
    return [event.seq for event in store.events(name)]


def failure(store, body):
    """The error that a transaction ends with."""

    def attempt():
        with store.transaction("prices") as log:
            body(log)

    with pytest.raises(StoreError) as raised:
        attempt()
    return raised.value


@pytest.fixture(scope="session")
def server():
    """A running server; skipped where there is none to run, or nothing to talk to it with."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server (Debian: apt-get install postgresql)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("no psycopg (pip install 'koloss[postgres]')")
    running = Server(binaries)
    yield running
    running.stop()


@pytest.fixture
def schema(server):
    """Name of an empty schema."""
    with server.schema() as name:
        yield name


@pytest.fixture
def postgres_url(server, schema):
    """Where an empty schema is, with its secret."""
    return server.url(schema)


@pytest.fixture
def proxy(server):
    """A proxy in front of the server."""
    between = Proxy(server.port)
    yield between
    between.close()


@pytest.fixture
def store(postgres_url):
    """A store on PostgreSQL, with the study "prices"."""
    with contextlib.closing(open_store(postgres_url)) as store:
        store.create("prices", FIRST)
        yield store


@pytest.fixture
def distant(server, schema, store, proxy):
    """The same studies as in `store`, by a proxy."""
    with contextlib.closing(open_store(server.url(schema, port=proxy.port))) as distant:
        yield distant
