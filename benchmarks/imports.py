"""`import koloss` against `import numpy, scipy.linalg`, each in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

from benchmarks.tables import Table

BASE = "numpy, scipy.linalg"
RUNS = 15


def run(full: bool = False) -> list[Table]:
    statements = [BASE, "koloss"]
    seconds = {statement: [] for statement in statements}
    for lap in range(-1, 2 * RUNS if full else RUNS):
        for statement in statements:
            elapsed = _import(statement)
            if lap >= 0:  # the first only fills the caches
                seconds[statement].append(elapsed)
    medians = {statement: median(runs) for statement, runs in seconds.items()}
    table = Table(
        "Import, median of fresh interpreters",
        ["import", "ms", "best ms", f"times {BASE}"],
        "Goal: below 1.5.",
    )
    for statement in statements:
        table.add(
            statement,
            1e3 * medians[statement],
            1e3 * min(seconds[statement]),
            medians[statement] / medians[BASE],
        )
    extra = Table("What koloss imports beyond that, slowest first", ["module", "ms alone"])
    base = _modules(BASE)
    own = {name: ms for name, ms in _modules("koloss").items() if name not in base}
    for name, ms in sorted(own.items(), key=lambda item: -item[1])[:6]:
        extra.add(name, ms)
    extra.add(f"all {len(own)}", sum(own.values()))
    return [table, extra]


def _import(statement: str) -> float:
    """Seconds that an import takes inside a fresh interpreter, without the start of that."""
    code = (
        f"import time; start = time.perf_counter(); import {statement}; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _modules(statement: str) -> dict[str, float]:
    """Milliseconds that every module imported takes by itself."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {statement}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stderr.splitlines()
    found = {}
    for line in lines:
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            found[parts[2].strip()] = int(parts[0]) / 1e3
    return found
