"""The types of a spec, read from its tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from koloss.core.toml import Source, only

_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false", "object": "a table", "array": "an array"}  # fmt: skip


def decode(
    kind: type[Any],
    data: dict[str, Any],
    source: Source,
    tables: Mapping[tuple[str, ...], type[Struct]],
) -> Any:
    """The types of a spec, or an error in words that point at the line and the key; `tables` are the types inside `kind`."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
    keys = tuple(int(key) if key.isdigit() else key for key in re.findall(r"\w+", place))
    value: Any = data
    for key in keys:
        value = value[key]
    where = f"[{'.'.join(key for key in keys if isinstance(key, str))}]" if keys else "the file"
    if absent := re.search("missing required field `(.*)`", problem):
        raise source.error(keys, f"`{absent[1]}` is missing in {where}")
    if "unknown field" in problem:
        table = tables.get(tuple(key for key in keys if isinstance(key, str)), kind)
        only(value, table.__struct_fields__, keys, where if keys else "a spec", source)
    if limit := re.search("([<>])(=?) ?([0-9]+)", problem.replace(" ", "")):
        rule = "most" if limit[1] == "<" else "least"
        rule = f"at {rule} {int(limit[3]):,}" if limit[2] else "positive"
        raise source.error(keys, f"must be {rule}, got {value}")
    expected = re.search("Expected `([a-z]+)", problem)
    words = _WORDS.get(expected[1], expected[1]) if expected else problem
    raise source.error(keys, f"must be {words}, got {value!r}")
