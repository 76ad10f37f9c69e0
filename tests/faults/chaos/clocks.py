"""Clocks that jump, forwards and backwards, another way in every process."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tests.faults.chaos.trials import Site, trial

DAY = 86_400.0


class Jumping:
    """A clock that is set anew now and then."""

    def __init__(self, seed: int) -> None:
        self.rng, self.offset, self.jumps = np.random.default_rng(seed), 0.0, 0

    def __call__(self) -> float:
        if self.rng.random() < 0.2:
            self.offset = float(self.rng.normal() * self.rng.choice([1.0, 60.0, 3600.0, DAY]))
            self.jumps += 1
        return time.time() + self.offset


def jump(site: Site, rng: np.random.Generator, size: int) -> None:
    """Three processes, each with such a clock, until each has made so many calls."""
    site.create()
    crew = site.crew(rng)
    for k in range(3):
        clock = Jumping(k)
        crew.start(clock=clock, mark=lambda clock=clock: clock.jumps)
    crew.wait(2 * size)
    attempts = site.judge(crew)
    jumps: dict[Any, int] = {}
    for attempt in attempts:
        client = attempt.name.split("-")[0] if not attempt.said["request"] else None
        jumps[client] = max(jumps.get(client, 0), attempt.mark or 0)
    jumps.pop(None, None)
    site.row.faults = sum(jumps.values())


@trial("clocks jump, leases and defaults", quick=40, full=500, lease=60.0, default=0.5)
def jump_with_leases(site: Site, rng: np.random.Generator, size: int) -> None:
    jump(site, rng, size)


@trial("clocks jump, windows", quick=40, full=500, lease=60.0, release="window", default=0.5)
def jump_with_windows(site: Site, rng: np.random.Generator, size: int) -> None:
    jump(site, rng, size)
