"""What a trial is: a site with a study, faults, and a row of the table in the end."""

from __future__ import annotations

import importlib.util
import sqlite3
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss.studies import Event, verify
from tests.faults.chaos.checks import check, done, operations, replay
from tests.faults.chaos.clients import NAME, Crew, learner
from tests.faults.chaos.history import FAILED, OK, UNKNOWN, Attempt
from tests.support.server import Server, find_binaries


@dataclass
class Row:
    """What came of a trial."""

    name: str
    faults: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    done: int = 0  # operations that are unknown and have happened
    events: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""
    skipped: str = ""


@dataclass
class Site:
    """An empty place for a study, and what is found there when the clients have gone."""

    folder: Path
    row: Row
    server: Server | None
    said: dict[str, Any]  # of the study
    schema: str = ""
    crews: list[Crew] = field(default_factory=list)

    @cached_property
    def url(self) -> str:
        if self.server is not None:
            return self.server.url(self.schema)
        return f"sqlite:///{self.folder / 'shop.db'}"

    @property
    def path(self) -> Path:
        return self.folder / "shop.db"

    def create(self, url: str | None = None) -> None:
        kl.Study.create(url or self.url, NAME, learner=learner(), **self.said).close()

    def crew(self, rng: np.random.Generator, **said: Any) -> Crew:
        """Clients of the study, of which there are none yet."""
        self.crews.append(Crew(self.folder, rng, **{"url": self.url, **said}))
        return self.crews[-1]

    def events(self, url: str | None = None) -> list[Event]:
        with kl.Study.open(url or self.url, NAME) as study:
            return list(study.events())

    def judge(self, crew: Crew, *, url: str | None = None) -> list[Attempt]:
        """Let the clients end, and check all that they have done against the log."""
        attempts = crew.finish()
        events = self.events(url)
        row = self.row
        row.outcomes = Counter(one.outcome for one in operations(attempts).values())
        row.done, row.events = done(attempts, events), len(events)
        row.problems += crew.broken + check(attempts, events)
        self.prove(url or self.url, events)
        return attempts

    def prove(self, url: str, events: list[Event]) -> None:
        """A log proves itself, a learner alone would have decided the same, and the study goes on."""
        add = self.row.problems.extend
        add(verify(url, NAME).problems)
        add(replay(learner(), events, release=self.said.get("release") is not None))
        with kl.Study.open(url, NAME) as study:
            study.tell(study.ask(2), [0.25, 0.75])
        with kl.Study.open(url, NAME) as study:
            if study.status().told < 2:
                add(["what was told last is lost"])
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
                found = db.execute("pragma integrity_check").fetchall()
            add([] if found == [("ok",)] else [f"the file is damaged: {found[:3]}"])


@dataclass(frozen=True)
class Trial:
    """One row of the table."""

    name: str
    run: Callable[[Site, np.random.Generator, int], None]
    quick: int  # its size in the short version
    full: int  # and in the long one
    store: str  # "sqlite" or "postgresql"
    said: dict[str, Any]  # of the study


TRIALS: dict[str, Trial] = {}
"""Trials of the subjects that were imported, by name."""


def trial(
    name: str, *, quick: int, full: int, store: str = "sqlite", **said: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a row of the table; `said` are settings of its study."""

    def enter(run: Callable[..., None]) -> Callable[..., None]:
        TRIALS[name] = Trial(name, run, quick, full, store, said)
        return run

    return enter


class Servers:
    """A PostgreSQL server for all trials that want one, started when the first does."""

    def __init__(self) -> None:
        self._server: Server | None = None

    def why_not(self) -> str:
        """Why there is none."""
        if find_binaries() is None:
            return "no PostgreSQL server (Debian: apt-get install postgresql)"
        if importlib.util.find_spec("psycopg") is None:
            return "no psycopg (pip install 'koloss[postgres]')"
        return ""

    def get(self) -> Server:
        if self._server is None:
            binaries = find_binaries()
            assert binaries is not None
            self._server = Server(binaries)
        return self._server

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


def play(one: Trial, servers: Servers, *, seed: int, quick: bool) -> Row:
    """Run one trial; whatever it raises is a problem."""
    row, start = Row(one.name), time.perf_counter()
    rng = np.random.default_rng([seed, zlib.crc32(one.name.encode())])
    if one.store == "postgresql" and (reason := servers.why_not()):
        row.skipped = reason
        return row
    with site_of(one, row, servers) as site:
        try:
            one.run(site, rng, one.quick if quick else one.full)
        except Exception:
            row.problems.append(f"the trial itself: {traceback.format_exc()}")
        finally:
            for crew in site.crews:
                crew.end()
    row.seconds = time.perf_counter() - start
    return row


@contextmanager
def site_of(one: Trial, row: Row, servers: Servers) -> Iterator[Site]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koloss-chaos-")))
        site = Site(folder, row, None, one.said)
        if one.store == "postgresql":
            site.server = servers.get()
            site.schema = stack.enter_context(site.server.schema())
        yield site


def line(row: Row) -> str:
    """A row of the table as text."""
    if row.skipped:
        return f"{row.name:<48}skipped: {row.skipped}"
    counts = (row.faults, *(row.outcomes[k] for k in (OK, FAILED, UNKNOWN)), row.done, row.events)
    numbers = "".join(f"{count:>10,}" for count in counts)
    return f"{row.name:<48}{numbers}{len(row.problems):>10,}{row.seconds:>9.1f}  {row.note}"


COLUMNS = ("faults", "ok", "failed", "unknown", "of it did", "events", "problems")
HEAD = f"{'trial':<48}" + "".join(f"{name:>10}" for name in COLUMNS) + f"{'seconds':>9}"
