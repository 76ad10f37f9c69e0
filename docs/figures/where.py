"""Publish a sweep of random games: python -m docs.figures.where [DIR], where `koloss sweep examples/random_games.toml --out DIR` was run.

Keeps its regrets (docs/assets/random-games.csv), draws three pictures from them, and writes the lists and tables of the guide
between their marks; without DIR, from the regrets that were kept. The tests do the same again, and compare.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.figures import where_pictures, where_table, where_texts

GUIDE = where_table.DOCS / "guide" / "where.md"


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    return _parts(page, name)[1]


def _parts(page: str, name: str) -> tuple[str, str, str]:
    """A page up to a mark, what follows until the next one, and the rest."""
    mark = f"<!-- where: {name} -->\n"
    assert page.count(mark) == 1, name
    before, _, after = page.partition(mark)
    inside, end, rest = after.partition("\n<!-- end -->")
    return before + mark, inside, end + rest


def main() -> None:
    if len(sys.argv) > 1:
        where_table.keep(Path(sys.argv[1]))
    rows = where_table.contested(where_table.load())
    where_pictures.draw(rows, where_table.DOCS / "assets")
    page = GUIDE.read_text("utf-8")
    for name, text in where_texts.texts(rows).items():
        before, _, after = _parts(page, name)
        page = before + text + after
    GUIDE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
