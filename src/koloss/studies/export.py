"""The decisions of a study as a table: CSV by the standard library, Parquet by pyarrow.

The log is read twice, in pages: what became of each decision first, of which seventeen bytes are kept, then the decisions
themselves in their order. Events that come in the meantime are left out of both.
"""

from __future__ import annotations

import csv
import io
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from koloss._version import __version__
from koloss.actions import Float, Int, Parameter, Space, SpacePoints
from koloss.core.files import replacing
from koloss.studies.store import Event

if TYPE_CHECKING:
    from koloss.studies.study import Study

__all__ = ["export"]

ROW_GROUP = 50_000
"""Rows of a Parquet file that are written together."""

STATUS = ("outstanding", "expired", "default", "held", "told", "unused")
"""What became of a decision, see `export`."""

_EXPIRED, _DEFAULT, _HELD, _TOLD, _UNUSED = range(1, 6)

Row = dict[str, Any]


def export(study: Study, path: str | Path) -> int:
    """Write the decisions of a study to a file, whole or not at all.

    Parameters
    ----------
    study : Study
    path : str or Path
        Ends in .csv, or in .parquet, which needs pyarrow (`koloss[parquet]`). A file that is there is replaced.

    Returns
    -------
    int
        Number of decisions.

    Notes
    -----
    One row per decision, in the order in which they were made. The columns:

    - `time` of the decision, in UTC, and its `id`;
    - `context`, where there are any: text as it is, anything else as JSON;
    - `action`, a list of coordinates (JSON in CSV), or where actions have params one column for each parameter, under its name, or as
      `action.NAME` where that is the name of another column; empty where the parameter does not matter;
    - `index`, the row of the action in a finite set, and the `probability` with which it was drawn;
    - `value` in the study's units, and `late_by`, how many seconds after the decision it came;
    - `status`: "outstanding"; "expired", the lease has run out and a value is still welcome; "default", the lease has run out and the
      study's default value, which is shown, was counted; "held", told and not used before the lease has run out; "told"; "unused", told
      after the default was counted.
    """
    path = Path(path)
    writers = {".csv": _write_csv, ".parquet": _write_parquet}
    if path.suffix.lower() not in writers:
        raise ValueError(f"`path` must end in .csv or .parquet, got {str(path)!r}")
    learner, settings = study._worker.look(lambda state: (state.learner, state.settings))
    about = {"study": study.name, "goal": settings.goal, "unit": settings.unit}
    table = Table(learner, {**about, "koloss": __version__})
    fates = _Fates(study.store.stream(study.name))
    with replacing(path) as file:
        rows = table.rows(islice(study.store.stream(study.name), fates.last), fates)
        return writers[path.suffix.lower()](file, table, rows)


class _Fates:
    """What became of decisions with consecutive ids."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.first: int | None = None  # id of the first one
        self.holds = False  # whether values are held back
        self.values, self.times, self.statuses = array("d"), array("q"), bytearray()
        self.last = 0  # number of the newest event
        for event in events:
            self.hear(event)
            self.last = event.seq

    def __getitem__(self, decision: int) -> tuple[float | None, int, int]:
        """Value, time and status."""
        assert self.first is not None
        k = decision - self.first
        status = self.statuses[k]
        value = self.values[k] if status >= _DEFAULT else None
        return value, self.times[k], status

    def hear(self, event: Event) -> None:
        """Take note of an event."""
        if event.kind == "created":
            self.holds = event.data["settings"].get("release") is not None
        elif event.kind == "asked":
            if self.first is None:
                self.first = event.decision
            self.values.append(0.0)
            self.times.append(0)
            self.statuses.append(0)
        elif event.kind in ("told", "expired"):
            k = self._place(event.decision)
            if k is not None:
                self.statuses[k] = status = self._status(event, self.statuses[k])
                if status >= _DEFAULT:
                    self.values[k], self.times[k] = event.data["value"], event.micros
        elif event.kind == "released":
            for k in map(self._place, event.data["ids"]):
                if k is not None and self.statuses[k] == _HELD:
                    self.statuses[k] = _TOLD

    def _place(self, decision: int | None) -> int | None:
        """Where it stands; None if its learner made it before there was a study."""
        if self.first is None or decision is None or decision < self.first:
            return None
        return decision - self.first

    def _status(self, event: Event, before: int) -> int:
        if event.kind == "expired":
            return _DEFAULT if event.data.get("value") is not None else _EXPIRED
        if event.data.get("used") is False:
            return _UNUSED
        return _HELD if self.holds and before != _EXPIRED else _TOLD


# Columns and rows.


class Table:
    """The columns of a study's decisions."""

    def __init__(self, learner: Any, about: dict[str, str]) -> None:
        self.about = about  # of the study
        points = learner.settings.actions
        self.space: Space | None = points.space if isinstance(points, SpacePoints) else None
        self.params = learner.params
        self.actions = learner.actions
        has_contexts = getattr(learner.settings, "contexts", None) is not None
        before = ["time", "id", *["context"] * has_contexts]
        after = ["index", "probability", "value", "late_by", "status"]
        self.names = {}  # columns of the parameters
        for name in self.space.names if self.space is not None else ():
            self.names[name] = f"action.{name}" if name in (*before, *after, "action") else name
        self.columns = [*before, *(self.names.values() if self.space else ["action"]), *after]

    def rows(self, events: Iterable[Event], fates: _Fates) -> Iterator[Row]:
        """The rows of the decisions."""
        contexts: Iterator[Any] = iter(())  # of the decisions that were made at once
        for event in events:
            if event.kind == "asked":
                data = event.data
                if "context" in data:
                    context = data["context"]
                    contexts = iter(context if "batch" in data else [context])
                yield self._row(event, next(contexts, None), fates)

    def _row(self, event: Event, context: Any, fates: _Fates) -> Row:
        assert event.decision is not None
        value, time, status = fates[event.decision]
        index = event.data.get("index")
        row: Row = {
            "time": event.at,
            "id": event.decision,
            "context": context if context is None or isinstance(context, str) else _json(context),
            "index": index,
            "probability": event.data.get("p"),
            "value": value,
            "late_by": None if value is None else (time - event.micros) / 1e6,
            "status": STATUS[status],
        }
        action = event.data.get("action")
        if self.space is None:
            row["action"] = self.actions[index].tolist() if action is None else action
        else:
            params = self.params[index] if action is None else self.space.decode([action])[0]
            row |= {column: params.get(name) for name, column in self.names.items()}
        return row


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


# Files.


def _write_csv(file: IO[bytes], table: Table, rows: Iterable[Row]) -> int:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.DictWriter(text, table.columns, extrasaction="ignore")
    writer.writeheader()
    count, lists = 0, [] if table.space else ["action"]
    for count, row in enumerate(rows, start=1):  # noqa: B007
        plain = {"time": row["time"].isoformat(timespec="microseconds")}
        plain |= {name: _json(row[name]) for name in lists}
        writer.writerow(row | plain)
    text.flush()
    text.detach()  # the file is closed by whoever has opened it
    return count


def _write_parquet(file: IO[bytes], table: Table, rows: Iterator[Row]) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        message = "a .parquet file needs pyarrow: pip install 'koloss[parquet]'"
        raise ImportError(message) from error
    kinds = {
        "time": pa.timestamp("us", tz="UTC"),
        "action": pa.list_(pa.float64()),
        **dict.fromkeys(("id", "index"), pa.int64()),
        **dict.fromkeys(("context", "status"), pa.string()),
        **dict.fromkeys(("probability", "value", "late_by"), pa.float64()),
    }
    parameters = table.space.parameters if table.space is not None else {}
    mixed = []  # columns whose values have no type in common
    for name, column in table.names.items():
        kind = _kind(parameters[name])
        mixed += [column] if kind == "json" else []
        kinds[column] = getattr(pa, {"json": "string"}.get(kind, kind))()
    schema = pa.schema([(column, kinds[column]) for column in table.columns], metadata=table.about)
    count = 0
    with parquet.ParquetWriter(file, schema) as writer:
        while group := list(islice(rows, ROW_GROUP)):
            for row in group:
                row |= {name: _json(row[name]) for name in mixed if row[name] is not None}
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _kind(parameter: Parameter) -> str:
    """The type of a parameter's values: one of Arrow's, or "json" where they have none in common."""
    if isinstance(parameter, Float):
        return "float64"
    if isinstance(parameter, Int):
        return "int64"
    values: Sequence[Any] = [v for v in parameter.values if v is not None]  # type: ignore[attr-defined]
    kinds = {type(value) for value in values}
    named: list[tuple[set[type], str]] = [
        ({str}, "string"),
        ({bool}, "bool_"),
        ({int}, "int64"),
        ({int, float}, "float64"),
    ]
    return next((name for types, name in named if kinds and kinds <= types), "json")
