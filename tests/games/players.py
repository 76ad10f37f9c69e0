"""Jobs for the tests of the store, in a module so that other processes find them."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import koloss as kl
from koloss.games.play import Match
from koloss.games.store import Job

POINTS = kl.Points([[0.0], [1.0]])


def job(number=0, **changes):
    """A short game; `trouble` is in its arguments."""
    plain = Job("tests.games.players:make", "coin", "leader", number, rounds=20, seed=3)
    return replace(plain, **changes)


def make(job, mine, theirs):
    trouble = job.arguments.get("trouble", "")
    if trouble == "error":
        raise RuntimeError("no luck")
    if trouble == "death":
        os._exit(1)
    if trouble == "death once" and not Path(job.carried).exists():
        Path(job.carried).touch()  # it has happened
        os._exit(1)
    if trouble in ("sleep", "no other thread"):
        Path(job.carried).write_text(str(os.getpid()))
        if trouble == "sleep":
            time.sleep(60)
        re.match("(a+)+$", 60 * "a" + "b")  # years, in which no other thread runs
    learner = kl.ExpWeights(POINTS, kernel=kl.Linear(), horizon=job.rounds, rng=mine)
    return Match(learner, kl.games.Random(kl.Linear(), POINTS, rng=theirs), job.rounds)


def square(number):
    if number < 0:
        raise ValueError("negative")
    if number == 13:
        os._exit(1)
    return number**2
