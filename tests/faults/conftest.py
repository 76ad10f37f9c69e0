"""Fixtures of studies on PostgreSQL, for those tests that kill it."""

from tests.support.postgres import distant, postgres_url, proxy, schema, server, store

__all__ = ["distant", "postgres_url", "proxy", "schema", "server", "store"]
