"""Connections to a PostgreSQL server, which may go away at any moment and come back; their secret stays here."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, Full, LifoQueue
from typing import Any, LiteralString
from urllib.parse import quote, urlencode

from koloss.errors import StoreError

logger = logging.getLogger("koloss.studies")

PATIENCE = 15.0
"""Seconds for which a server that was there before is waited for: one that recovers from a crash needs some."""

IDLE = 4
"""Connections that are kept for the next use."""

DEFAULTS = {
    "connect_timeout": "10",
    "fallback_application_name": "koloss",
    # A server that has vanished without a word, or a network: noticed after a minute, not after two hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""What a URL may say otherwise."""

SHOWN = ("host", "port", "sslmode")
"""What is shown of what follows the question mark of a URL."""


class Connections:
    """Connections to one database. A thread has one to itself while it uses it, and a process those that it has opened."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise StoreError(
                "studies on PostgreSQL need the package psycopg: pip install 'koloss[postgres]'"
            ) from error
        self.psycopg: Any = psycopg
        self._parameters = self._read(url)
        self.url = _without_secrets(self._parameters)
        self._known = False  # whether the server was ever there
        self._idle: LifoQueue[Any] = LifoQueue(IDLE)
        self._open: set[Any] = set()
        _everybody.add(self)
        weakref.finalize(self, _close_all, self._open)

    def __repr__(self) -> str:
        return f"Connections({self.url!r})"

    def _read(self, url: str) -> dict[str, Any]:
        from psycopg.conninfo import conninfo_to_dict

        wrong = ValueError(
            "`url` must be like postgresql://user:secret@host:port/database, got one that cannot be read; "
            "in a name or a secret each of : / ? # [ ] @ % has to be percent-encoded"
        )
        try:
            given = conninfo_to_dict(url)
        except (
            self.psycopg.Error
        ):  # which quotes what it could not read, and that may be the secret
            raise wrong from None
        if any("@" in str(given.get(name)) for name in ("host", "dbname")):
            raise wrong  # a piece of a secret that is not encoded
        return {**DEFAULTS, **given, "client_encoding": "utf8"}

    def error(self, error: Exception, doing: str) -> StoreError:
        """What the driver says, in an error of ours; nothing that could hold the secret."""
        said = " ".join(str(error).split()) or type(error).__name__
        secrets = (value for name, value in self._parameters.items() if "password" in name)
        if any(secret and str(secret) in said for secret in secrets):
            said = type(error).__name__
        return StoreError(f"{doing} {self.url} failed, and nothing was committed: {said}")

    @contextmanager
    def begun(self, *statements: tuple[LiteralString, Sequence[Any]]) -> Iterator[tuple[Any, Any]]:
        """A connection, and the result of the last of some first statements on it.

        Where a connection that was kept has died meanwhile, they are run on another: nothing has happened on the dead one.
        """
        while True:
            connection, fresh = self._take()
            try:
                for statement, values in statements:
                    result = connection.execute(statement.replace("?", "%s"), values or None)
                break
            except self.psycopg.Error as error:
                lost = self.is_lost(connection, error)
                self._discard(connection)
                if fresh or not lost:
                    raise self.error(error, "using") from None
                logger.info("the connection to %s was lost; opening another", self.url)
            except BaseException:
                self._discard(connection)
                raise
        try:
            yield connection, result
        finally:
            self._give_back(connection)

    def execute(self, connection: Any, statement: LiteralString, *values: Any) -> Any:
        """The result of a statement on a connection that is in use."""
        self.check(connection)
        try:
            return connection.execute(statement.replace("?", "%s"), values or None)
        except self.psycopg.Error as error:
            raise self.error(error, "using") from None

    def undo(self, connection: Any) -> None:
        """Roll back; a connection that cannot is closed when it is given back, and the server rolls back by itself."""
        if connection in self._open and not connection.closed:
            with contextlib.suppress(self.psycopg.Error):
                connection.execute("ROLLBACK")

    def check(self, connection: Any) -> None:
        """That a connection was opened by this process."""
        if connection not in self._open:
            raise StoreError(
                f"this process was forked in the middle of a transaction on {self.url}, which is its parent's"
            )

    @staticmethod
    def is_lost(connection: Any, error: Any) -> bool:
        """Whether a connection ended, rather than that the server refused a statement and goes on."""
        refused = error.diag.severity_nonlocalized == "ERROR"
        return not refused or bool(connection.closed) or str(error.sqlstate).startswith("08")

    def _take(self) -> tuple[Any, bool]:
        """A connection, and whether it is new."""
        try:
            return self._idle.get_nowait(), False
        except Empty:
            return self._connect(), True

    def _connect(self) -> Any:
        until = time.monotonic() + PATIENCE
        pause = 0.05
        while True:
            try:
                # Statements are not prepared: what stands between us and the server may give us another session each time.
                connection = self.psycopg.connect(
                    **self._parameters, autocommit=True, prepare_threshold=None
                )
                break
            except self.psycopg.Error as error:
                if not self._known or time.monotonic() + pause > until:
                    raise self.error(error, "connecting to") from None
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
        self._known = True
        self._open.add(connection)
        return connection

    def _give_back(self, connection: Any) -> None:
        """Keep a connection on which nothing is under way; close any other."""
        if connection not in self._open:
            return  # the parent's
        idle = self.psycopg.pq.TransactionStatus.IDLE
        with contextlib.suppress(Full):
            if connection.info.transaction_status == idle:
                self._idle.put_nowait(connection)
                return
        self._discard(connection)

    def _discard(self, connection: Any) -> None:
        if connection in self._open:
            self._open.discard(connection)
            connection.close()

    def close(self) -> None:
        """Close what is not in use."""
        with contextlib.suppress(Empty):
            while True:
                self._discard(self._idle.get_nowait())

    def leave_to_parent(self) -> None:
        """In a fork: let go of the parent's connections without a word to the server, which would end them.

        Their sockets are closed here, all the same: the server would not notice the death of the parent while a child has them.
        """
        nowhere = os.open(os.devnull, os.O_RDWR)
        for connection in self._open:
            with contextlib.suppress(OSError, self.psycopg.Error):
                os.dup2(nowhere, connection.fileno())
        os.close(nowhere)
        _abandoned.extend(self._open)
        self._open.clear()
        self._idle = LifoQueue(IDLE)  # a thread that is not here may have been at it


_everybody: weakref.WeakSet[Connections] = weakref.WeakSet()
_abandoned: list[Any] = []  # for ever: to delete a connection is to close it


def _after_fork() -> None:
    for connections in list(_everybody):
        connections.leave_to_parent()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_after_fork)


def _close_all(connections: set[Any]) -> None:
    while connections:
        connections.pop().close()


def _without_secrets(parameters: dict[str, Any]) -> str:
    """A URL with what of the parameters may be shown."""
    known = {name: str(value) for name, value in parameters.items() if value is not None}
    user = quote(known["user"], safe="") + "@" if "user" in known else ""
    host, port = known.get("host", ""), known.get("port", "")
    in_query = ["sslmode"]
    if "/" in host or "," in host + port:  # a socket, or several servers
        in_query, host, port = list(SHOWN), "", ""
    elif ":" in host:
        host = f"[{host}]"
    query = urlencode([(name, known[name]) for name in in_query if name in known])
    place = host + (f":{port}" if port else "") + "/" + quote(known.get("dbname", ""), safe="")
    return f"postgresql://{user}{place}" + (f"?{query}" if query else "")
