"""Learners, clocks and studies that the tests of studies share."""

from __future__ import annotations

from typing import Any

import numpy as np

import koloss as kl
from koloss.studies.store import Snapshot
from tests.support.memory import MemoryStore

POINTS = kl.Points(np.linspace(0, 1, 6)[:, None])

ARMS = """name = "arms"
kernel = {kind = "Gaussian", bandwidth = 0.5}

[study]
lease = 60
default = 1

[actions]
kind = "Points"
X = [[0.0], [0.5], [1.0]]

[learner]
kind = "BanditExpWeights"
horizon = 100
loss_range = [0, 1]
seed = 3
"""
"""A spec."""


def bandit(**settings: Any) -> kl.BanditExpWeights:
    said = {"horizon": 2000, "loss_range": (0, 1), "rng": 0, **settings}
    return kl.BanditExpWeights(POINTS, kl.Gaussian(0.4), **said)


def insured(**settings: Any) -> kl.InsuredBandit:
    said = {"horizon": 2000, "loss_range": (0, 1), "rng": 0, **settings}
    return kl.InsuredBandit(POINTS, kl.Gaussian(0.4), **said)


class Deaf:
    """A policy that plays one row, and fails to hear losses above a limit."""

    def __init__(self, limit: float = 0.9) -> None:
        self.limit = limit

    def propose(self) -> int:
        return 2

    def hear(self, index: int, loss: float) -> None:
        if loss > self.limit:
            raise OSError("no connection")


class Clock:
    """Seconds since 1970, as a test wants them."""

    def __init__(self, now: float = 1e9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def created(learner: Any = None, **said: Any) -> tuple[kl.Study, MemoryStore, Clock]:
    """A study in memory."""
    store, clock = MemoryStore(), Clock()
    study = kl.Study.create(store, "prices", learner=learner or bandit(), clock=clock, **said)
    return study, store, clock


def loss_of(action: Any) -> float:
    return float(np.clip(np.sum((np.asarray(action) - 0.4) ** 2), 0, 1))


def with_a_bit_flipped(snapshot: Snapshot) -> Snapshot:
    """A snapshot that was damaged in what it says, not in its padding."""
    content = bytearray(snapshot.content)
    content[content.index(b'"made"') + 1] ^= 1
    return Snapshot(snapshot.seq, bytes(content))


def kinds(study: kl.Study) -> list[str]:
    return [event.kind for event in study.events()]


def same(one: Any, other: Any) -> bool:
    """Whether two decisions, or two batches, are the same in all that was handed out."""
    names = ("id", "action", "index", "probability", "epoch", "learner", "params")
    return all(np.array_equal(getattr(one, n), getattr(other, n)) for n in names)
