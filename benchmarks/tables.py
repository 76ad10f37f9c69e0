"""Results as a table: on the terminal (with rich where it is installed), as plain data, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spread:
    """A number that was measured several times: median and quartiles."""

    median: float
    low: float
    high: float


@dataclass
class Table:
    """A benchmark's result: rows of text and numbers under named columns."""

    title: str
    columns: Sequence[str]
    note: str = ""
    rows: list[Sequence[object]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"a row must have {len(self.columns)} cells, got {len(cells)}")
        self.rows.append(cells)

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {name: _plain(cell) for name, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        return {"title": self.title, "note": self.note, "columns": list(self.columns), "rows": rows}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Table:
        table = cls(data["title"], data["columns"], data["note"])
        for row in data["rows"]:
            cells = (row[name] for name in table.columns)
            table.add(*(Spread(**cell) if isinstance(cell, dict) else cell for cell in cells))
        return table

    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [
            all(not isinstance(row[k], str) for row in self.rows) for k in range(len(self.columns))
        ]


def _plain(cell: object) -> object:
    """A cell as plain data, with the digits that can be trusted and two more."""
    if isinstance(cell, Spread):
        return {name: _plain(value) for name, value in asdict(cell).items()}
    return float(f"{cell:.5g}") if isinstance(cell, float) else cell


def markdown(table: Table) -> str:
    """A table of Markdown, numbers to the right, without its title and note."""
    rule = ["---:" if right else "---" for right in table.numeric()]
    rows = [[escaped(text(cell)) for cell in row] for row in table.rows]
    lines = [list(map(escaped, table.columns)), rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(words: str) -> str:
    """Text in which Markdown finds nothing to do."""
    for mark in "\\|*_<$[`":
        words = words.replace(mark, "&lt;" if mark == "<" else f"\\{mark}")
    return words


def show(table: Table) -> None:
    """Print a table, numbers to the right."""
    cells = [[text(cell) for cell in row] for row in table.rows]
    numeric = table.numeric()
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
    except ModuleNotFoundError:
        _show_plain(table, cells, numeric)
        return
    rich = RichTable(box=box.SIMPLE_HEAD, title=table.title, title_justify="left")
    rich.title_style, rich.caption, rich.caption_justify = "bold", table.note or None, "left"
    for name, right in zip(table.columns, numeric, strict=True):
        rich.add_column(name, justify="right" if right else "left")
    for row in cells:
        rich.add_row(*row)
    console = Console()
    if not console.is_terminal:  # a pipe has no width of its own
        console = Console(width=110)
    console.print(rich)


def _show_plain(table: Table, cells: list[list[str]], numeric: list[bool]) -> None:
    widths = [
        max(len(name), *(len(row[k]) for row in cells)) for k, name in enumerate(table.columns)
    ]
    print(table.title)
    for row in [list(table.columns), *cells]:
        print(
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, numeric, strict=True)
            ).rstrip()
        )
    print(table.note)


def text(cell: object) -> str:
    """A number with the digits that can be trusted, and its quartiles where there are some."""
    if isinstance(cell, Spread):
        return f"{text(cell.median)} ({text(cell.low)} to {text(cell.high)})"
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return "" if cell is None else str(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.0f}" if 1000 <= abs(cell) < 1e6 else f"{cell:.3g}"
