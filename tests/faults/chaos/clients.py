"""Processes that use a study as hard as they can, write down what they see, and are killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import koloss as kl
from koloss.errors import StoreError
from koloss.studies import Store, open_store, postgres_connections, worker
from koloss.testing.stores import exit_code, fork
from tests.faults.chaos.history import UNKNOWN, Attempt, Journal, read

NAME = "prices"
DEATHS = ("outside", "anywhere", "before", "after")
"""By another process at any time; by its own hand at any call of a function, just before a commit, just after one."""


PATIENCE = 120
"""Seconds for clients to get on, or to come to an end."""


def learner() -> kl.BanditExpWeights:
    points = kl.Points(np.linspace(0, 1, 6)[:, None])
    return kl.BanditExpWeights(points, kl.Gaussian(0.4), horizon=5000, loss_range=(0, 1), rng=3)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Client:
    """What one process is to do."""

    url: str
    journal: Path
    seed: int
    durability: Any = "power"
    threads: int = 1
    death: str | None = None
    clock: Callable[[], float] = time.time
    again: Sequence[Attempt] = ()  # what a predecessor has left unknown, to be sent once more
    mark: Callable[[], int | None] = lambda: None
    around: Callable[[np.random.Generator], Any] = lambda _: nullcontext()  # where calls are made
    patience: float | None = None  # seconds for which a server is waited for

    def run(self, until: Callable[[], bool]) -> None:
        """Use the study until it is time to stop, or until death."""
        # Snapshots often, so that deaths fall into them, too.
        worker.SNAPSHOT_EVENTS, worker.SNAPSHOT_BYTES = 50, 10**9
        if self.patience is not None:
            postgres_connections.PATIENCE = self.patience
        rng = np.random.default_rng(self.seed)
        study = self._open(until)
        if study is None:
            return
        self._plan_death(study.store, rng)
        journal = Journal(self.journal, self.mark)
        for attempt in self.again:
            self._call(study, journal, rng, attempt.what, attempt.said)
        works = [
            threading.Thread(target=self._work, args=(study, journal, own, until))
            for own in rng.spawn(self.threads)
        ]
        for work in works:
            work.start()
        for work in works:
            work.join()
        study.store.close()
        journal.close()

    def _open(self, until: Callable[[], bool]) -> kl.Study | None:
        """The study, as soon as it can be opened; None where that is not before the end."""
        while True:
            try:
                store = open_store(self.url, durability=self.durability)
                return kl.Study.open(store, NAME, clock=self.clock)
            except StoreError:
                if until():
                    return None
                time.sleep(0.05)

    def _work(
        self, study: kl.Study, journal: Journal, rng: np.random.Generator, until: Callable[[], bool]
    ) -> None:
        ids: list[int] = []  # decisions that are not told yet
        while not until():
            what, said = self._choose(rng, ids)
            ids += self._call(study, journal, rng, what, said)

    def _choose(self, rng: np.random.Generator, left: list[int]) -> tuple[str, dict[str, Any]]:
        """A call: with and without keys, batches, subjects, keys and subjects that all clients share, others' decisions."""
        key = f"{self.journal.stem}-{rng.integers(1 << 60):x}" if rng.random() < 0.5 else None
        if rng.random() < 0.5 and left:
            count = min(len(left), int(rng.choice([1, 1, 3])))
            ids = [left.pop(rng.integers(len(left))) for _ in range(count)]
            if rng.random() < 0.1:
                ids = [int(rng.integers(max(ids) + 1))]
            values = rng.random(len(ids)).tolist()
            return "tell", {"ids": ids, "values": values, "request": key}
        said: dict[str, Any] = {"count": None, "subject": None, "request": key}
        way = rng.random()
        if way < 0.25:
            said["count"] = int(rng.integers(1, 5))
        elif way < 0.4:
            said["subject"] = f"visitor-{rng.integers(20)}"
        elif way < 0.5:
            said["request"] = f"common-{rng.integers(1000)}"
        return "ask", said

    def _call(
        self, study: kl.Study, journal: Journal, rng: np.random.Generator, what: str, said: Any
    ) -> list[int]:
        """Make a call, and write it down; decisions that it was given."""

        def act() -> dict[str, Any] | None:
            if what == "tell":
                one = len(said["ids"]) == 1
                ids, values = (said[k][0] if one else said[k] for k in ("ids", "values"))
                study.tell(ids, values, request=said["request"])
                return None
            made = study.ask(said["count"], subject=said["subject"], request=said["request"])
            names = {"ids": made.id, "index": made.index, "p": made.probability}
            return {name: np.atleast_1d(value).tolist() for name, value in names.items()}

        def within() -> dict[str, Any] | None:
            with self.around(rng):
                return act()

        answer = journal.call(what, said, within)
        return [] if answer is None else list(answer["ids"])

    def _plan_death(self, store: Store, rng: np.random.Generator) -> None:
        left = int(rng.integers(1, 12 if self.death in ("before", "after") else 8000))

        def count_down(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                die()

        if self.death == "anywhere":
            threading.setprofile(count_down)
            sys.setprofile(count_down)
        elif self.death in ("before", "after"):
            begin = store.transaction

            @contextmanager
            def transaction(name: str) -> Iterator[Any]:
                with begin(name) as log:
                    yield log
                    if self.death == "before":
                        count_down()
                if self.death == "after":
                    count_down()

            store.transaction = transaction  # type: ignore[method-assign]


class Crew:
    """Clients in processes of their own; each has a journal, and so has whoever takes its place."""

    def __init__(self, folder: Path, rng: np.random.Generator, **said: Any) -> None:
        self.folder, self.rng, self.said = folder, rng, said
        self.alive: dict[int, Client] = {}
        self.journals: list[Path] = []
        self.stop = folder / "stop"
        self.kills = self.in_call = 0
        self.broken: list[str] = []

    def start(self, again: Sequence[Attempt] = (), **said: Any) -> int:
        """Another client; its process."""
        journal = self.folder / f"c{len(self.journals)}.jsonl"
        self.journals.append(journal)
        seed = int(self.rng.integers(1 << 62))
        client = Client(journal=journal, seed=seed, again=again, **{**self.said, **said})
        process = fork(lambda: client.run(self.stop.exists))
        self.alive[process] = client
        return process

    def wait(self, lines: int) -> None:
        """Until each client has written so many, two for each call."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            journals = [client.journal for client in self.alive.values()]
            if all(j.exists() and j.read_bytes().count(b"\n") >= lines for j in journals):
                return
            time.sleep(0.01)
        self.broken.append("the clients do not get on")

    def ended(self) -> Iterator[tuple[Client, list[Attempt]]]:
        """Clients that have ended meanwhile, and what they have left unknown; they are counted."""
        for process in list(self.alive):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                yield self._bury(process, os.waitstatus_to_exitcode(status))

    def _bury(self, process: int, code: int) -> tuple[Client, list[Attempt]]:
        client = self.alive.pop(process)
        attempts = read([client.journal]) if client.journal.exists() else []
        left = [a for a in attempts if a.outcome == UNKNOWN]
        if code == -signal.SIGKILL:
            self.kills += 1
            self.in_call += any(a.ended == np.inf for a in left)
        elif code:
            self.broken.append(f"{client.journal.stem} ended with {code}")
        return client, [a for a in left if a.said["request"]]

    def finish(self) -> list[Attempt]:
        """Let all come to an end, and read what they have done."""
        self.stop.touch()
        until = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < until:
            for _ in self.ended():
                pass
            time.sleep(0.01)
        self.broken += [f"{client.journal.stem} does not end" for client in self.alive.values()]
        self.end()
        self.stop.unlink()
        return read(path for path in self.journals if path.exists())

    def end(self) -> None:
        """Nobody goes on, whatever happens."""
        for process in list(self.alive):
            os.kill(process, signal.SIGKILL)
            self._bury(process, exit_code(process))
