"""Processes that are killed with signal 9 in the middle of asks and tells, four at a time."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from tests.faults.chaos.clients import DEATHS
from tests.faults.chaos.history import Attempt
from tests.faults.chaos.trials import Site, trial

AT_ONCE = 4


def kill(site: Site, rng: np.random.Generator, size: int, threads: int = 1, **said: object) -> None:
    """Until so many are dead; each successor sends again what the dead have left unknown under a key."""
    site.create()
    crew = site.crew(rng, threads=threads, **said)
    due: dict[int, float] = {}
    left: list[Attempt] = []
    while crew.kills < size:
        for _, unknown in crew.ended():
            left += unknown
        while len(crew.alive) < AT_ONCE and crew.kills + len(crew.alive) < size:
            crew.start(again=left, death=str(rng.choice(DEATHS)))
            left = []
        now = time.monotonic()
        for process, client in crew.alive.items():
            if client.death != "outside" or not client.journal.exists():
                continue
            if now > due.setdefault(process, now + rng.uniform(0, 0.1)):
                os.kill(process, signal.SIGKILL)
        if crew.broken:
            break
        time.sleep(0.002)
    crew.start(again=left)  # and what is left at the end
    site.row.faults = crew.kills
    site.judge(crew)
    site.row.note = f"{crew.in_call} in the middle of a call"


@trial("kill -9", quick=24, full=300)
def kill_plain(site: Site, rng: np.random.Generator, size: int) -> None:
    kill(site, rng, size)


@trial("kill -9, leases and defaults", quick=16, full=200, lease=0.1, default=0.5)
def kill_with_leases(site: Site, rng: np.random.Generator, size: int) -> None:
    kill(site, rng, size, durability="process")


@trial("kill -9, three threads each, windows", quick=16, full=300, lease=0.1, release="window")
def kill_threads(site: Site, rng: np.random.Generator, size: int) -> None:
    kill(site, rng, size, threads=3)


@trial("kill -9, PostgreSQL", quick=16, full=200, store="postgresql", lease=0.5, default=0.5)
def kill_clients_of_a_server(site: Site, rng: np.random.Generator, size: int) -> None:
    kill(site, rng, size)
