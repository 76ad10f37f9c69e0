"""A PostgreSQL server that dies, lines that are cut between COMMIT and its answer, and a machine whose network comes and goes."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

from tests.faults.chaos.history import UNKNOWN
from tests.faults.chaos.trials import Site, trial
from tests.support.server import Proxy


@trial("the server is killed and restarted", quick=3, full=40, store="postgresql")
def kill_server(site: Site, rng: np.random.Generator, size: int) -> None:
    assert site.server is not None
    site.create()
    crew = site.crew(rng)
    for k in range(4):
        # Half of them are not patient enough to see a server come back.
        crew.start(patience=None if k % 2 else 0.01)
    crew.wait(2)
    for _ in range(size):
        time.sleep(rng.uniform(0.05, 0.4))
        site.server.kill()
        site.server.start()
        site.row.faults += 1
    site.judge(crew)


@trial("a line is cut at COMMIT or at its answer", quick=20, full=300, store="postgresql")
def cut_lines(site: Site, rng: np.random.Generator, size: int) -> None:
    assert site.server is not None
    site.create()
    proxy = Proxy(site.server.port)
    crew = site.crew(rng, url=site.server.url(site.schema, port=proxy.port))
    for _ in range(3):
        crew.start()
    until = time.monotonic() + 60 + size
    while proxy.cuts < size and time.monotonic() < until:
        if proxy.cut is None:
            time.sleep(rng.uniform(0, 0.15))
            proxy.cut = str(rng.choice(["before", "after"]))
        time.sleep(0.001)
    proxy.cut = None
    attempts = crew.finish()
    left = [a for a in attempts if a.outcome == UNKNOWN and a.said["request"]]
    crew.start(again=left)  # whoever was cut off too often to be told
    crew.wait(2 * len(left) + 2)
    site.judge(crew)
    proxy.close()
    site.row.faults = proxy.cuts


@trial("two machines, of which one loses its network", quick=6, full=100, store="postgresql")
def two_machines(site: Site, rng: np.random.Generator, size: int) -> None:
    assert site.server is not None
    site.create()
    proxy = Proxy(site.server.port)
    crew = site.crew(rng)
    sound = crew.start()
    broken = crew.start(url=site.server.url(site.schema, port=proxy.port), patience=0.05)
    crew.wait(2)
    for _ in range(size):
        time.sleep(rng.uniform(0, 0.1))
        if (
            rng.random() < 0.3
        ):  # asleep, perhaps in the middle of a transaction, while the other waits
            asleep = int(rng.choice([sound, broken]))
            os.kill(asleep, signal.SIGSTOP)
            time.sleep(rng.uniform(0, 0.1))
            os.kill(asleep, signal.SIGCONT)
        else:
            proxy.broken = True
            proxy.cut_all()
            time.sleep(rng.uniform(0, 0.3))
            proxy.broken = False
        site.row.faults += 1
    site.judge(crew)
    proxy.close()
