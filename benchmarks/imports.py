"""`import koloss` against `import numpy, scipy.linalg`, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial

from benchmarks.tables import Table
from benchmarks.timing import ratio, spread

BASE = "numpy, scipy.linalg"
RUNS = 15


def run(full: bool = False) -> list[Table]:
    with tempfile.TemporaryDirectory(prefix="koloss-bench-") as caches:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": caches}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled files
        python = partial(
            subprocess.run, env=environment, check=True, capture_output=True, text=True
        )
        return [_seconds(python, 2 * RUNS if full else RUNS), _beyond(python)]


def _seconds(python, repeats) -> Table:
    statements = [BASE, "koloss"]
    seconds = {statement: [] for statement in statements}
    for lap in range(-1, repeats):
        for statement in statements:
            elapsed = _import(python, statement)
            if lap >= 0:  # the first only fills the caches
                seconds[statement].append(elapsed)
    table = Table(
        "Import, fresh interpreters",
        ["import", "ms", f"times {BASE}"],
        "CPU time, interpreters in turn, with files that are compiled and cached.",
    )
    for statement, runs in seconds.items():
        table.add(statement, spread([1e3 * one for one in runs]), ratio(runs, seconds[BASE]))
    return table


def _beyond(python) -> Table:
    table = Table("What koloss imports beyond that, slowest first", ["module", "ms alone"])
    base = _modules(python, BASE)
    own = {name: ms for name, ms in _modules(python, "koloss").items() if name not in base}
    for name, ms in sorted(own.items(), key=lambda item: -item[1])[:6]:
        table.add(name, ms)
    table.add(f"all {len(own)}", sum(own.values()))
    return table


def _import(python, statement: str) -> float:
    """Seconds that an import takes inside a fresh interpreter, without the start of that."""
    clock = "time.process_time()"
    code = f"import time; start = {clock}; import {statement}; print({clock} - start)"
    return float(python([sys.executable, "-c", code]).stdout)


def _modules(python, statement: str) -> dict[str, float]:
    """Milliseconds that every module imported takes by itself."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {statement}"]
    found = {}
    for line in python(command).stderr.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            found[parts[2].strip()] = int(parts[0]) / 1e3
    return found
