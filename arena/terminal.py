"""The arena's tables for the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from arena import ranking
from arena.results import ArenaResults, Entry
from koloss.core.text import Table, printable, short_number
from koloss.report.text import GAP, console, say, section, wrote

CELL = "mean regret ± standard error (worst run); * smallest mean"


def show_arena(results: ArenaResults, paths: Sequence[Path] = ()) -> None:
    """Print all results: an overview, a table for every family of games, and what failed."""
    screen = console()
    notes: dict[tuple[str, str], list[Entry]] = {}

    def cell(entry: Entry, best: bool) -> str:
        if entry.finished or entry.cannot:
            return ranking.cell_text(entry, best=best)
        # What differs in its numbers only is told once.
        key = entry.player, re.sub(r"[\d,.]+", "", entry.failures[0].message)
        notes.setdefault(key, []).append(entry)
        return ranking.cell_text(entry, note=list(notes).index(key) + 1)

    def width(name: str, cells: list[str]) -> int:
        return GAP + max(len(text) for text in (*_in_two_lines(name).split("\n"), *cells))

    for part in results.parts:
        unit, games = ranking.yardstick(part, part.games).words, "All games"
        if len(results.parts) > 1:
            games += " with contexts" if part.games[0].contexts else " without contexts"
        title = (
            f"{games}: those finished, those with the smallest mean, regret as a share of {unit}"
        )
        screen.print(section(title, _overview(part, screen.width)))
    room = screen.width - GAP - max((len(spec.slug) for spec in results.present), default=0)
    for family, heading in ranking.FAMILIES.items():
        tables = ranking.family_tables(results, family, cell, slugs=True, room=room, width=width)
        for k, table in enumerate(tables):
            head = [_in_two_lines(name) for name in table.head]
            title = "further games" if k else f"{heading}\n{CELL}"
            screen.print(section(title, Table(head, table.rows)))
        for line in ranking.remarks(results, family):
            screen.print(f"{printable(line)}\n", markup=False, emoji=False)
    for k, entries in enumerate(notes.values(), start=1):
        say(screen, f"[{k}] {failure_text(entries)}")
    for spec, message in ranking.absent(results).items():
        say(screen, f"{spec.slug}: {message}")
    wrote(screen, paths)


def _overview(results: ArenaResults, width: int) -> Table:
    """The overview, with names of games in two lines where the terminal is narrow."""
    table = ranking.overview_table(results, slugs=True)
    head, rows = [name.replace(" share", "") for name in table.head], table.rows
    if width < 90:
        rows = [(*row[:5], _in_two_lines(row[5]), row[6]) for row in rows]
    return Table(head, rows, table.left)


def _in_two_lines(name: str) -> str:
    return name.replace("-", "-\n", 1) if len(name) > 12 else name


def failure_text(entries: Sequence[Entry]) -> str:
    """What happened in the first run that was not played to the end, how far it was by then, and where else."""
    entry = entries[0]
    lost = entry.failures
    which = f"{len(lost)} of {len(entry.runs)} runs, the first: " if len(entry.runs) > 1 else ""
    so_far = f"; regret so far {short_number(lost[0].regret)} (partial)" if lost[0].played else ""
    others = [other.game for other in entries[1:]]
    more = f"; likewise in {', '.join(others)}" if others else ""
    message = " ".join(lost[0].message.split())
    return f"{entry.player} in {entry.game}: {which}{message}{so_far}{more}"
