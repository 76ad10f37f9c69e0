"""Tables and lines for the terminal (rich): in colour there, plain text in a pipe or a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from koloss.core.text import Table, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

GAP = 2
"""Spaces between two columns."""


def console() -> Console:
    """Standard output."""
    from rich.console import Console

    return Console(highlight=False)


def section(title: str, body: Table | Text, bold: Iterable[int] = ()) -> RenderableType:
    """A bold line, and a table or text below it, set in a little; some rows of the table in bold, too."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    below = _rich_table(body, set(bold)) if isinstance(body, Table) else body
    return Group(
        Text(printable(title, lines=True), style="bold"), Padding(below, (0, 0, 1, 2), expand=False)
    )


def _rich_table(table: Table, bold: set[int]) -> RenderableType:
    """A table with a rule below its head, in which nothing is cut; cells that end with a star are in bold."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    left = set(table.left)
    made = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, GAP - 1))  # fmt: skip
    for k, name in enumerate(table.head):
        made.add_column(
            Text(printable(name, lines=True)),
            justify="left" if k in left else "right",
            overflow="fold",
        )
    for k, row in enumerate(table.rows):
        texts = [
            Text(printable(cell, lines=True), style="bold" if cell.endswith("*") else "")
            for cell in row
        ]
        made.add_row(*texts, style="bold" if k in bold else "")
    return made


def say(screen: Console, text: str) -> None:
    """Print a line as it is, however long, and whatever is in it."""
    screen.print(printable(text), markup=False, emoji=False, soft_wrap=True)


def wrote(screen: Console, paths: Iterable[Path]) -> None:
    """Print the names of files written."""
    for path in paths:
        say(screen, f"wrote {path}")
