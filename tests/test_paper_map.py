"""Every row of docs/paper_map.md names symbols that can be imported and tests that exist."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADER = ["paper item", "where in the paper", "symbol", "test", "note"]


@dataclass(frozen=True)
class Row:
    """One line of the map."""

    item: str
    where: str
    symbol: str
    test: str
    note: str


def cells(line: str) -> list[str]:
    """Cells of a line of a Markdown table; none where the line is something else."""
    line = line.strip()
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") else []


def parse(text: str) -> list[Row]:
    """Rows of all the tables with the map's header."""
    rows: list[Row] = []
    inside = False
    for line in text.splitlines():
        parts = cells(line)
        if not parts:
            inside = False
        elif parts == HEADER:
            inside = True
        elif inside and set("".join(parts)) - set("-: "):
            rows.append(Row(*parts))
    return rows


def quoted(cell: str) -> list[str]:
    """Names in backticks, separated by commas."""
    names = re.findall(r"`([^`]+)`", cell)
    if cell != ", ".join(f"`{name}`" for name in names):
        raise ValueError(f"names in backticks, separated by commas, must be all of {cell!r}")
    return names


def resolve(path: str) -> object:
    """Object at a dotted path: the longest importable module, then attributes."""
    parts = path.split(".")
    for size in range(len(parts), 0, -1):
        # A function may shadow the module of its own name, as kernel_pca does: modules come first.
        name = ".".join(parts[:size])
        try:
            found: object = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[size:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(path)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Names of the test functions of a file, those of classes as Class::function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        names += [prefix + f.name for f in inner if isinstance(f, functions)]
    return frozenset(n for n in names if n.rpartition("::")[2].startswith("test"))


def check(row: Row) -> None:
    """Raise where a row is not what it should be."""
    for name, cell in asdict(row).items():
        assert cell, f"`{name}` must not be empty in {row}"
    for path in quoted(row.symbol):
        assert path.startswith("koloss."), f"`symbol` must begin with koloss, got {path}"
        resolve(path)
    assert quoted(row.symbol), f"`symbol` must be given in {row}"
    for path in quoted(row.test):
        file, _, name = path.partition("::")
        assert name in names_in(ROOT / file), f"`test` must exist, got {path}"
    assert quoted(row.test), f"`test` must be given in {row}"


TEXT = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
ROWS = parse(TEXT)
GOOD = Row(
    "Lemma 0", "nowhere", "`koloss.Kernel.bound`", "`tests/test_paper_map.py::test_row`", "-"
)


@pytest.mark.parametrize("row", ROWS, ids=[row.item for row in ROWS])
def test_row(row):
    check(row)


def test_no_row_is_overlooked():
    lines = [line for line in TEXT.splitlines() if cells(line)]
    tables = sum(cells(line) == HEADER for line in lines)
    assert tables > 0
    assert len(ROWS) == len(lines) - 2 * tables
    assert len({(row.item, row.where) for row in ROWS}) == len(ROWS)


def test_items_of_the_paper_are_all_there():
    # Up to Section 2.1, Appendices B and C, Definition 11 and John's theorem; one count for all kinds.
    listed = {int(n) for row in ROWS for n in re.findall(r"^[A-Z][a-z]+ (\d+),", row.item)}
    assert {*range(1, 10), 11, 22, *range(23, 31), 47, 48, 50} <= listed


def test_a_good_row_passes():
    check(GOOD)
    assert parse(
        f"| {' | '.join(HEADER)} |\n| - | - | - | - | - |\n| {' | '.join(astuple(GOOD))} |"
    ) == [GOOD]


@pytest.mark.parametrize(
    "change",
    [
        {"item": ""},
        {"note": ""},
        {"symbol": "koloss.Kernel"},
        {"symbol": "`numpy.linalg.norm`"},
        {"symbol": "`koloss.Kernel.bounds`"},
        {"symbol": "`koloss.nowhere.Kernel`"},
        {"symbol": "`koloss.Kernel`, `koloss.Kernels`"},
        {"test": "none"},
        {"test": "`tests/test_paper_map.py`"},
        {"test": "`tests/test_paper_map.py::check`"},
        {"test": "`tests/test_paper_map.py::test_rows`"},
        {"test": "`tests/test_nowhere.py::test_row`"},
    ],
    ids=str,
)
def test_a_bad_row_fails(change):
    with pytest.raises((AssertionError, AttributeError, ImportError, OSError, ValueError)):
        check(replace(GOOD, **change))
