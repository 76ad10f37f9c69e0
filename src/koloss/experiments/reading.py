"""What a spec says, read into types and objects: what is wrong with it is said with the line and the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from koloss.errors import AdversaryError, KolossError
from koloss.experiments.source import Source

Keys = tuple[Any, ...]
"""Where something stands: names of tables and of a key, and numbers in arrays."""

_WORDS = {"int": "a whole number", "float": "a number", "str": "a string", "bool": "true or false", "object": "a table", "array": "an array"}  # fmt: skip


def hint(name: str, known: Iterable[str]) -> str:
    """The known name that is meant by another, or all of them."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"


def one_of(kind: str, names: Iterable[str], keys: Keys, source: Source) -> None:
    """Refuse a `kind` that is none of some names."""
    if kind not in names:
        raise source.error((*keys, "kind"), f"must be one of {', '.join(names)}, got {kind!r}")


def only(
    table: Iterable[str], allowed: Iterable[str], keys: Keys, whose: str, source: Source
) -> None:
    """Refuse keys that are not allowed."""
    for key in table:
        if key not in allowed:
            raise source.error((*keys, key), f"is not a key of {whose}; {hint(key, allowed)}")


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


@contextmanager
def pointing(source: Source, keys: Keys, data: Mapping[str, Any]) -> Iterator[None]:
    """Turn an error of a constructor, which names the argument, into one that points at its line."""
    try:
        yield
    except MemoryError as error:
        raise source.error(keys, f"needs more memory than there is: {error}") from error
    except RecursionError as error:
        raise source.error(keys, "must not be so deep") from error
    except AdversaryError as error:
        raise source.error((*keys, "file"), str(error)) from error
    except (TypeError, ValueError, ArithmeticError, OSError, KolossError) as error:
        named = re.match(r"`(\w+)`:? ?(.*)", str(error), re.DOTALL)
        if named and (named[1] in data or named[1] == "kind"):
            raise source.error((*keys, named[1]), named[2]) from error
        raise source.error(keys, str(error)) from error
