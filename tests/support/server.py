"""A PostgreSQL server of the tests' own, and a proxy that cuts its connections at the worst moment.

The server is Debian's, on a folder that is thrown away. It refuses to be root, so root starts it as somebody else; only
the server: the tests stay who they are.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

USER = "koloss"
PATIENCE = 600  # seconds for what takes a second or two


def find_binaries() -> Path | None:
    """The folder of `initdb` and `postgres`: one on the path, or the newest of Debian's."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(debian, key=lambda place: float(place.parent.name), reverse=True)
    found = (
        place for place in places if (place / "initdb").exists() and (place / "postgres").exists()
    )
    return next(found, None)


def roomy_memory() -> str | None:
    """A folder in memory, where a server spends no time on its disk and outlives what kills it all the same."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage("/dev/shm").free > 1 << 29:
            return "/dev/shm"
    return None  # where temporary folders are


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A server that can be killed and started again; each schema of it is an empty database to a store."""

    def __init__(
        self, binaries: Path, place: str | None = None, settings: Sequence[str] = ()
    ) -> None:
        self.binaries, self.settings = binaries, settings  # these in the place of the tests' own
        self.password = f"s3cret-{secrets.token_hex(8)}"
        self.folder = Path(tempfile.mkdtemp(prefix="koloss-postgres-", dir=place or roomy_memory()))
        self.data = self.folder / "data"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        if owner := self._owner():
            for path in (self.folder, password_file):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        command = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password_file}"]
        command += ["--encoding=UTF8", "--locale=C", "--no-sync", "--wal-segsize=1"]
        command.append(f"--username={USER}")
        initdb = self._begin("initdb", *command, "-D", self.data)
        if initdb.wait(PATIENCE):
            raise RuntimeError(f"initdb failed: {self.log}")
        self.start()

    @staticmethod
    def _owner() -> pwd.struct_passwd | None:
        """Whom the server runs as where the tests run as root."""
        if os.geteuid():
            return None
        with contextlib.suppress(KeyError):
            return pwd.getpwnam("postgres")
        return pwd.getpwnam("nobody")

    def _begin(self, program: str, *arguments: object) -> subprocess.Popen[bytes]:
        # However the tests end, nothing of theirs goes on; so it must not be started by a thread that ends before they do.
        leash = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        owner = self._owner()
        identity = (
            {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
        )
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [*leash, self.binaries / program, *map(str, arguments)],
                cwd=self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **identity,
            )

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def start(self) -> None:
        """Start, and wait until it answers; what is left of a killed one may need a moment to go."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            settings = [f"-p{self.port}", f"-k{self.folder}", "-clisten_addresses=127.0.0.1"]
            settings += ["-cmax_connections=40", "-cshared_buffers=16MB", "-cautovacuum=off"]
            settings += [f"-c{setting}" for setting in self.settings]  # the last word counts
            self.process = self._begin("postgres", "-D", self.data, *settings)
            while self.process.poll() is None and time.monotonic() < until:
                with contextlib.suppress(OSError), self.connect():
                    return
                time.sleep(0.02)
            time.sleep(0.1)
        raise RuntimeError(f"the server does not start: {self.log}")

    def connect(self, schema: str = "public"):
        """A plain connection, for what a store would not do."""
        import psycopg

        try:
            return psycopg.connect(self.url(schema), autocommit=True, connect_timeout=60)
        except psycopg.OperationalError as error:
            raise ConnectionError("no server") from error

    def kill(self) -> None:
        """As if the power had gone: the server has no time to do anything."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(
        self, schema: str = "public", *, port: int | None = None, secret: str | None = None
    ) -> str:
        """Where a schema of it is, possibly by a proxy or with a wrong secret."""
        login = f"{USER}:{secret or self.password}@127.0.0.1:{port or self.port}"
        return f"postgresql://{login}/postgres?options=-csearch_path%3D{schema}"

    @contextlib.contextmanager
    def schema(self) -> Iterator[str]:
        """An empty schema, which is to its user what a database would be, and made faster."""
        name = f"koloss_{os.getpid()}_{next(self._numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        yield name
        with self.connect() as connection:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


class Proxy:
    """Passes everything on between clients and a server, until it is told to cut.

    `cut = "before"` cuts when a client says COMMIT, which the server never hears; "after" lets the server commit, and cuts when
    it says so, which the client never hears. Both cut one connection, once. `broken` refuses and cuts everything.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.cut: str | None = None
        self.cuts = 0
        self.broken = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self.broken:
                client.close()
                continue
            pair = client, socket.create_connection(("127.0.0.1", self.target))
            self._pairs.append(pair)
            said = (
                threading.Event()
            )  # that this client has said COMMIT, and should not hear the answer
            for source, sink in (pair, pair[::-1]):
                passing = threading.Thread(
                    target=self._pass, args=(source, sink, pair, said), daemon=True
                )
                passing.start()

    def _pass(self, source, sink, pair, said) -> None:
        from_client = source is pair[0]
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if from_client and self.cut and b"COMMIT\0" in data:
                    how, self.cut = self.cut, None
                    self.cuts += 1
                    if how == "before":
                        break
                    said.set()
                elif not from_client and said.is_set():
                    break
                sink.sendall(data)
        self._end(pair)

    @staticmethod
    def _end(pair) -> None:
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut_all(self) -> None:
        """Cut every connection, now."""
        for pair in self._pairs:
            self._end(pair)

    def close(self) -> None:
        # A thread that waits in `accept` goes on waiting where its socket is only closed.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()
        for end in itertools.chain.from_iterable(self._pairs):
            end.close()
