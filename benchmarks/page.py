"""The page of the documentation that says what was measured: docs/benchmarks.md, made from benchmarks/results.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import GROUPS
from benchmarks.aims import AIMS
from benchmarks.tables import Table, escaped, markdown, text

KEPT = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

BUSY = 0.5
"""Load per core, before or after, from which on a machine is said to have been busy."""

HEAD = """\
# Benchmarks

<!-- Made by `python -m benchmarks` from benchmarks/results.json: change neither by hand. -->

Every figure is a ratio within one run: contestants take turns, so that noise hits all of them. A number with two others in
brackets is a median with its quartiles. Times are CPU times of one thread unless the figure waits for a disk or for other
processes, where a wall clock is used.

`make bench` measures everything again and writes this page; `python -m benchmarks designs` measures one group,
`python -m benchmarks --show designs` prints all tables of a group, of which the figures below are a few cells. `--full` has the largest sizes as well.
Groups were not all measured in one run: compare ratios, not times.
"""


def load(path: Path = KEPT) -> dict[str, Any]:
    """What was measured, by benchmark."""
    kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return kept


def write_page() -> Path:
    PAGE.write_text(render(load()), encoding="utf-8")
    return PAGE


def render(results: dict[str, Any]) -> str:
    """The page as Markdown."""
    parts = [HEAD, _aims(results), _machines(results)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def group_of(part: str) -> str:
    """The group that a part belongs to."""
    return next(group for group, parts in GROUPS.items() if part in parts)


def _machines(results: dict[str, Any]) -> str:
    """Each machine once, with the benchmarks that ran on it."""
    groups: dict[str, list[str]] = {}
    for name, found in results.items():
        groups.setdefault(_machine(found["machine"]), []).append(name)
    lines = ["## The machine", ""]
    for said, names in groups.items():
        which = "Everything" if len(groups) == 1 else ", ".join(names)
        loads = [load for name in names for load in _loads(results[name]["machine"])]
        # Peers may bring a BLAS of their own.
        kinds = {kind for name in names for kind in results[name]["machine"]["BLAS"].split(", ")}
        blas = ", ".join(sorted(kinds))
        lines.append(f"- {which}: {said}; {blas}; load {min(loads):.1f} to {max(loads):.1f}.")
    busy = [name for name, found in results.items() if is_busy(found["machine"])]
    if busy:
        which = "all of them" if len(busy) == len(results) else ", ".join(busy)
        lines += [
            "",
            (
                f"The machine had other work while these ran: {which}. CPU times and ratios of contestants in turn suffer little; caches that are "
                "shared, and what waits for others, do."
            ),
        ]
    return "\n".join(lines)


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {machine[key]}" for name, key in _VERSIONS.items())
    threads = "one thread" if machine["BLAS threads"] == 1 else f"{machine['BLAS threads']} threads"
    where = f"{machine['processor']} with {machine['cores']} cores, {machine['system']}"
    if "device" in machine:
        where += f", {machine['device']}"
    return f"{machine['day']}, {where}; {versions}; BLAS with {threads}"


_VERSIONS = {"Python": "python", "NumPy": "numpy", "SciPy": "scipy"}


def _loads(machine: dict[str, Any]) -> tuple[float, float]:
    return machine["load before"], machine["load after"]


def is_busy(machine: dict[str, Any]) -> bool:
    """Whether others had work for more of the machine than the benchmark itself, which takes one core."""
    return max(_loads(machine)) - 1 > BUSY * machine["cores"]


def _aims(results: dict[str, Any]) -> str:
    table = Table("Aims", ["figure", "measured", "aim", "met", "group"])
    short = []
    for aim in AIMS:
        cell = aim.find(results)
        met = None if cell is None else aim.is_met(cell)
        word = {True: "yes", False: "no", None: "not measured"}[met]
        table.add(
            aim.figure,
            "-" if cell is None else text(cell),
            aim.wanted,
            word,
            group_of(aim.benchmark),
        )
        if met is False:
            short.append(
                f"- **{escaped(aim.figure)}**, {text(cell)}, aim {aim.wanted}. {aim.reason}"
            )
    lines = ["## Figures and aims", "", markdown(table), "", "## What falls short, and why", ""]
    lines += short or ["Nothing does."]
    return "\n".join(lines)
