"""What the tests of the store let other processes do, in a module that they find and load quickly (without pytest)."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from os import _exit as exit_at_once
from pathlib import Path

import koloss as kl
from koloss.errors import NetTooLarge
from koloss.games.play import Match
from koloss.games.store import Job

POINTS = kl.Points([[0.0], [1.0]])


def job(number=0, **changes):
    """A short game; `trouble` is in its arguments."""
    plain = Job("tests.support.players:make", "coin", "leader", number, rounds=20, seed=3)
    return replace(plain, **changes)


def make(job, mine, theirs):
    trouble = job.arguments.get("trouble", "")
    if trouble == "error":
        raise RuntimeError("no luck")
    if trouble == "death":
        exit_at_once(1)
    if trouble == "death once" and not Path(job.carried).exists():
        Path(job.carried).touch()  # it has happened
        os.kill(os.getpid(), signal.SIGKILL)
    if trouble == "sleep":
        Path(job.carried).write_text(str(os.getpid()))
        time.sleep(60)
    learner = kl.ExpWeights(POINTS, kernel=kl.Linear(), horizon=job.rounds, rng=mine)
    return Match(learner, kl.games.Random(kl.Linear(), POINTS, rng=theirs), job.rounds)


def square(number):
    if number < 0:
        raise ValueError("negative")
    if number == 13:
        exit_at_once(0)
    return number**2


def abort():
    exit_at_once(1)


def unlucky(seed):
    """A learner, but for the first two runs."""
    if seed.spawn_key[0] == 0:
        raise NetTooLarge("the net would have 3 points", points=3)
    if seed.spawn_key[0] == 1:
        exit_at_once(1)
    return kl.ExpWeights(POINTS, kernel=kl.Linear(), horizon=5, rng=seed)


def adversary(seed):
    return kl.games.Random(kl.Linear(), POINTS, rng=seed)
