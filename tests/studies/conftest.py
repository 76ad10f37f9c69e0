"""Fixtures of studies on PostgreSQL."""

from tests.support.postgres import distant, postgres_url, proxy, schema, server, store

__all__ = ["distant", "postgres_url", "proxy", "schema", "server", "store"]
