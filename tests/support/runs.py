"""What tests of runs share."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from koloss.games.trace import read_npz

TIMES = {"seconds", "learner_seconds", "round_seconds", "run_seconds"}
TIMES |= {"making", "digest", "machine"}

SPEC = """\
[game]
kernel = {kind = "Linear"}
actions = {kind = "Ball", dimension = 2}
rounds = 12
runs = 2

[adversary]
kind = "random"

[[learner]]
kind = "ExpWeights"
"""
"""A game that is played in a moment."""

HEARING = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
"""For scripts that are sent signals: jobs in the background of a shell, or under `nohup`, are started deaf, and pass that on."""


def numbers(path):
    """What is in results.json or arena.json, without times and the machine."""
    return json.loads(path.read_text("utf-8"), object_hook=without_times)


def without_times(plain):
    return {name: value for name, value in plain.items() if name not in TIMES}


def wait_for(ready, seconds=600):
    """What a function gives, once that is true."""
    for _ in range(20 * seconds):
        if value := ready():
            return value
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def contents(folder):
    """Everything in the files of the runs of a folder that is not a time."""
    runs = {}
    for path in sorted(folder.glob("runs/**/*.npz")):
        plain, arrays = read_npz(path)
        plain = without_times(plain) | {"facts": without_times(plain["facts"])}
        runs[str(path.relative_to(folder))] = plain, {k: a.tobytes() for k, a in arrays.items()}
    return runs


def alive(pid):
    """Whether a process runs; one that has ended and waits to be forgotten does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return _facts(pid)[:1] != ["Z"]


def in_group(group):
    """Processes of a group that run (where /proc tells)."""
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if _facts(pid)[2:3] == [str(group)] and alive(pid)]


def _facts(pid):
    """State, parent, group and so on; nothing where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
