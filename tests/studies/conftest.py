"""A PostgreSQL server for each process that tests."""

from __future__ import annotations

import contextlib
import importlib.util

import pytest

from koloss.studies.stores import open_store
from tests.studies.common_postgres import FIRST
from tests.studies.server import Proxy, Server, find_binaries


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
