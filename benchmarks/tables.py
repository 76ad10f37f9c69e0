"""Results as a table: on the terminal (with rich where it is installed) and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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

    def to_dict(self) -> dict[str, object]:
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}


def show(table: Table) -> None:
    """Print a table, numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in table.rows]
    numeric = [
        all(not isinstance(row[k], str) for row in table.rows) for k in range(len(table.columns))
    ]
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


def _text(cell: object) -> str:
    """A number with the digits that can be trusted."""
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return "" if cell is None else str(cell)
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:.3g}"
