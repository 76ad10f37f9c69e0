"""A table as a file: Parquet, or CSV where pyarrow is not installed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from koloss.core.files import replacing


def write_table(columns: Sequence[str], rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write `path` with the ending .parquet, or .csv; a table of the other kind that is there is removed.

    A column whose values have no type in common has them as JSON.
    """
    data = {name: _column([row[name] for row in rows]) for name in columns}
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        made, other = path.with_suffix(".csv"), path.with_suffix(".parquet")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*data.values(), strict=True))
        with replacing(made) as file:
            file.write(text.getvalue().encode())
    else:
        made, other = path.with_suffix(".parquet"), path.with_suffix(".csv")
        with replacing(made) as file:
            parquet.write_table(pa.table(data), file)
    other.unlink(missing_ok=True)
    return made


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1 or kinds & {list, dict}:
        return [None if value is None else json.dumps(value) for value in values]
    return values
