"""Disks that are full, logs that are torn, and copies that are made while a study is in use."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from koloss.studies import Event, open_store
from tests.faults.chaos.checks import check
from tests.faults.chaos.history import FAILED, OK, Attempt
from tests.faults.chaos.trials import Site, trial

TORN_BYTES = 1000 * 4120
"""Size of a log below which it has never been copied into the file and begun again: 1,000 pages."""


def size_of(path: str | Path) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def refused(attempts: list[Attempt]) -> int:
    """Calls that failed by the store's fault."""
    return sum(bool(a.error) and not a.final for a in attempts)


@trial("files may not grow, in mid-commit", quick=4, full=40, lease=0.2, default=0.5)
def limit_files(site: Site, rng: np.random.Generator, size: int) -> None:
    """For some of the calls, files have room for a part of what is to be written; `size` is in seconds."""
    site.create()

    @contextmanager
    def around(own: np.random.Generator) -> Iterator[None]:
        if own.random() < 0.3:
            room = size_of(f"{site.path}-wal") + int(own.integers(0, 30_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    crew = site.crew(rng, around=around)
    for _ in range(3):
        crew.start()
    crew.wait(4)
    time.sleep(size)
    site.row.faults = refused(site.judge(crew))
    check_refused(site)


@trial("the disk is full", quick=4, full=40)
def fill_disk(site: Site, rng: np.random.Generator, size: int) -> None:
    """A small disk in memory, which something else fills again and again; `size` is in seconds."""
    disk = site.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    can = shutil.which("mount") is not None
    if not can or subprocess.run(mount, capture_output=True, check=False).returncode:
        site.row.skipped = "no right to mount a small disk"
        return
    try:
        url = f"sqlite:///{disk / 'shop.db'}"
        site.create(url)
        crew = site.crew(rng, url=url)
        for _ in range(3):
            crew.start()
        crew.wait(4)
        until = time.monotonic() + size
        while time.monotonic() < until:
            left = shutil.disk_usage(disk).free - int(rng.integers(0, 40_000))
            with open(disk / "ballast", "wb") as ballast, suppress(OSError):  # less room by now
                os.posix_fallocate(ballast.fileno(), 0, max(left, 1))
            time.sleep(rng.uniform(0.02, 0.2))
            (disk / "ballast").unlink()
            time.sleep(rng.uniform(0.02, 0.1))
        site.row.faults = refused(site.judge(crew, url=url))
        check_refused(site)
    finally:
        # In the end, even where somebody still uses it.
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def check_refused(site: Site) -> None:
    if not site.row.outcomes[FAILED]:
        site.row.problems.append("no call has failed: there was always room")


@trial("a torn log", quick=12, full=150, lease=0.2, default=0.5)
def tear(site: Site, rng: np.random.Generator, size: int) -> None:
    """All are killed at once; of the log there is only the beginning, or a wrong byte in it, as when a disk had lied.

    What is there is what was there after some commit, and all that ended ok before the tear is in it.
    """
    site.create()
    log = f"{site.path}-wal"
    crew = site.crew(rng, mark=lambda: size_of(log))
    for _ in range(3):
        crew.start()
    crew.wait(40)
    for process in crew.alive:
        os.kill(process, signal.SIGKILL)
    attempts = crew.finish()
    content, written = site.path.read_bytes(), Path(log).read_bytes()
    if len(written) >= TORN_BYTES:
        site.row.problems.append("the log was begun again, so that nothing is known of its places")
    truth = restored(site, content, written, "whole")
    for k in range(size):
        place = int(rng.integers(0, len(written)))
        torn = bytearray(written)
        if k % 3:
            del torn[place:]
        else:
            torn[place] ^= int(rng.integers(1, 256))
        found = restored(site, content, bytes(torn), f"torn{k}")
        if found != truth[: len(found)]:
            site.row.problems.append(f"torn at {place}: {len(found)} events are no beginning")
        kept = [a for a in attempts if a.outcome == OK and (a.mark or 0) <= place]
        site.row.problems += missing(kept, found, f"torn at {place}")
        site.row.faults += 1
    site.row.note = f"a log of {len(written):,} bytes"
    site.judge(crew)


def restored(site: Site, content: bytes, written: bytes, name: str) -> list[Event]:
    """The events of a store with such a log, which is proved, and used, on the way."""
    path = site.folder / f"{name}.db"
    path.write_bytes(content)
    Path(f"{path}-wal").write_bytes(written)
    url = f"sqlite:///{path}"
    events = site.events(url)
    site.prove(url, events)
    for end in ("", "-wal", "-shm", ".lock"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    return events


def missing(attempts: list[Attempt], events: list[Event], where: str) -> list[str]:
    """Operations that ended ok and are not in a copy."""
    lost = (problem for problem in check(attempts, events) if "not there" in problem)
    return [f"{where}: {problem}" for problem in lost]


def back_up(site: Site, rng: np.random.Generator, size: int) -> None:
    """Copies are beginnings of the history that prove themselves, and have all that had ended before they were begun."""
    site.create()
    crew = site.crew(rng)
    for _ in range(3):
        crew.start()
    crew.wait(4)
    begun = []
    store = open_store(site.url)
    for k in range(size):
        time.sleep(rng.uniform(0, 0.1))
        begun.append(time.monotonic())
        store.backup(site.folder / f"copy{k}.db")
        site.row.faults += 1
    store.close()
    attempts = site.judge(crew)
    truth = site.events()
    for k, when in enumerate(begun):
        url = f"sqlite:///{site.folder / f'copy{k}.db'}"
        events = site.events(url)
        if events != truth[: len(events)]:
            site.row.problems.append(f"copy {k}: {len(events)} events are no beginning")
        before = [a for a in attempts if a.outcome == OK and a.ended < when]
        site.row.problems += missing(before, events, f"copy {k}")
        site.prove(url, events)


@trial("backed up while in use", quick=4, full=60, lease=0.2, default=0.5)
def back_up_file(site: Site, rng: np.random.Generator, size: int) -> None:
    back_up(site, rng, size)


@trial("backed up while in use, PostgreSQL", quick=3, full=40, store="postgresql")
def back_up_server(site: Site, rng: np.random.Generator, size: int) -> None:
    back_up(site, rng, size)
