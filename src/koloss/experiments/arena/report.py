"""The arena as tables for the terminal (rich); plain text in a pipe."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from koloss.experiments.arena.ranking import overview, yardstick
from koloss.experiments.results import ArenaResults, Entry
from koloss.report.tables import empty_table, section

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from koloss.experiments.arena.base import Game

FAMILIES = {
    "reported": "Reported games: the insured learner was tuned while its results on these were being looked at",
    "held-out": "Held-out games: nothing was tuned on these",
    "data": "Games from recorded data",
}

Notes = dict[tuple[str, str], list[Entry]]
"""What did not finish, by player and by what happened."""

GAP = 2
"""Spaces between two columns."""

CELL = "mean regret ± standard error (worst run); * smallest mean"


def show_arena(results: ArenaResults, paths: Sequence[Path] = ()) -> None:
    """Print all results: an overview, a table for every family of games, and what failed."""
    from rich.console import Console

    console = Console(highlight=False)
    notes: Notes = {}
    tables = [
        part
        for family, title in FAMILIES.items()
        for part in _family(results, family, title, console, notes)
    ]
    console.print(_overview(results, narrow=console.width < 90))
    for table in tables:
        console.print(table)
    for k, entries in enumerate(notes.values(), start=1):
        console.print(f"[{k}] {failure_text(entries)}", markup=False, soft_wrap=True)
    for spec in results.missing:
        (message, *_) = {run.message for e in results.row(spec.slug) for run in e.failures}
        console.print(f"{spec.slug}: {message}", markup=False, soft_wrap=True)
    for path in paths:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def _overview(results: ArenaResults, *, narrow: bool) -> RenderableType:
    """A line for every player."""
    rows = _tight("player", "done", "best", "median", "worst", "", "a round", left=(0, 5))
    for line in overview(results):
        rows.add_row(
            line.player.slug,
            f"{line.done}/{line.games}",
            str(line.best),
            share_text(line.median),
            share_text(line.worst),
            _head(line.worst_game) if narrow else line.worst_game,
            time_text(line.seconds),
            style="dim" if line.player.full else "",
        )
    unit = yardstick(results, results.games)
    title = (
        f"All games: those done, those with the smallest mean, regret as a share of {unit.words}"
    )
    return section(title, rows)


def _family(
    results: ArenaResults, family: str, title: str, console: Console, notes: Notes
) -> list[RenderableType]:
    """Tables of one family, each as wide as the terminal: players as rows, games as columns."""
    games = [game for game in results.games if game.family == family]
    cells = {game.name: _column(results, game, notes) for game in games}
    slugs = [spec.slug for spec in results.present]
    room = console.width - 2 - max((len(slug) for slug in slugs), default=0)
    blocks: list[list[Game]] = []
    left = -1
    for game in games:
        texts = [*_head(game.name).split("\n"), *cells[game.name]]
        width = GAP + max(len(text) for text in texts)
        if width > left:
            blocks.append([])
            left = room
        blocks[-1].append(game)
        left -= width
    parts = []
    for k, block in enumerate(blocks):
        table = _tight("player", *(_head(game.name) for game in block), left=(0,))
        for i, slug in enumerate(slugs):
            table.add_row(slug, *(_styled(cells[game.name][i]) for game in block))
        parts.append(section(f"{title}\n{CELL}" if k == 0 else "the same, further games", table))
    return parts


def _column(results: ArenaResults, game: Game, notes: Notes) -> list[str]:
    best = results.best(game.name)
    texts = []
    for spec in results.present:
        entry = results.entry(game.name, spec.slug)
        note = 0
        if not entry.finished:
            # What differs in its numbers only is told once.
            key = spec.slug, re.sub(r"[\d,.]+", "", entry.failures[0].message)
            notes.setdefault(key, []).append(entry)
            note = list(notes).index(key) + 1
        texts.append(cell_text(entry, best=spec.slug == best, note=note))
    return texts


def _tight(*columns: str, left: Container[int]) -> Table:
    """An empty table with little room between columns, in which nothing is cut."""
    table = empty_table(*columns, left=left)
    table.padding = (0, 0, 0, GAP - 1)
    for column in table.columns:
        column.overflow = "fold"
    return table


def _head(name: str) -> str:
    return name.replace("-", "-\n", 1) if len(name) > 12 else name


def _styled(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="bold" if text.endswith("*") else "")


# Texts that the page has, too.


def cell_text(entry: Entry, *, best: bool = False, note: int = 0) -> str:
    """Mean, error and worst run, all with the mean's digits; or that it did not finish, and where to read why.

    Examples
    --------
    >>> from koloss.experiments.results import Run
    >>> runs = [Run("g", "p", k, 9, played=9, regret=r) for k, r in enumerate([40.0, 48.0])]
    >>> cell_text(Entry("g", "p", tuple(runs)), best=True)
    '44 ±4 (48) *'
    """
    if entry.finished:
        mean = number(entry.mean)
        digits = len(mean.partition(".")[2])
        error = f" ±{entry.error:.{digits}f}" if math.isfinite(entry.error) else ""
        return f"{mean}{error} ({entry.worst:.{digits}f}){' *' if best else ''}"
    lost = entry.failures
    word = lost[0].status if lost[0].status != "died" else "failed"
    share = "" if len(lost) == len(entry.runs) else f" {len(lost)}/{len(entry.runs)}"
    return f"{word}{share}" + (f" [{note}]" if note else "")


def failure_text(entries: Sequence[Entry]) -> str:
    """What happened in the first run that was not played to the end, how far it was by then, and where else."""
    entry = entries[0]
    lost = entry.failures
    which = f"{len(lost)} of {len(entry.runs)} runs, the first: " if len(entry.runs) > 1 else ""
    so_far = f"; regret so far {number(lost[0].regret)} (partial)" if lost[0].played else ""
    others = [other.game for other in entries[1:]]
    more = f"; likewise in {', '.join(others)}" if others else ""
    message = " ".join(lost[0].message.split())
    return f"{entry.player} in {entry.game}: {which}{message}{so_far}{more}"


def number(value: float) -> str:
    """Two or more digits.

    Examples
    --------
    >>> number(3.14159), number(-27.5), number(12345.6)
    ('3.1', '-28', '12346')
    """
    return f"{value:.0f}" if abs(value) >= 9.95 else f"{value:.1f}"


def time_text(seconds: float) -> str:
    """A time in the unit that suits it.

    Examples
    --------
    >>> time_text(0.00043), time_text(0.0064), time_text(2.0)
    ('430 µs', '6.4 ms', '2.0 s')
    """
    if not math.isfinite(seconds):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            value = seconds / size
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    raise AssertionError


def share_text(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}" if math.isfinite(value) else "–"
