"""TOML files: read, and mistakes in them said with the line and the key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from koloss.core.text import printable
from koloss.errors import AdversaryError, KolossError, SpecError

Keys = tuple[Any, ...]
"""Where something stands: names of tables and of a key, and numbers in arrays."""

LONGEST = 200
"""Characters of a key that an error shows."""

_HEADER = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-]+)\s*=(.*)$")
_INNER = re.compile(r"[{,]\s*([A-Za-z0-9_\-]+)\s*=")


@dataclass(frozen=True)
class Source:
    """Where a spec comes from: its name and its text."""

    path: str
    text: str

    def error(self, keys: Keys, message: str) -> SpecError:
        """The error at a key, or at the nearest table around it that is in the text."""
        lines = _lines(self.text)
        near = next((keys[:k] for k in range(len(keys), 0, -1) if keys[:k] in lines), ())
        words = [f"{k}[{i + 1}]" if isinstance(i, int) else str(k) for k, i in _pairs(keys)]
        where = printable(".".join(words))
        where = where if len(where) <= LONGEST else f"{where[:LONGEST]}..."
        return SpecError(self.path, lines.get(near, 1), where, message)

    def beside(self, name: str) -> Path:
        """The file that a spec calls so."""
        return Path(self.path).parent / name


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with or without a mark at its beginning; one that may not be read is an `OSError`."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The mark at the beginning is not counted in the place of the error.
        start = error.start + len(data) - len(error.object)
        line, byte = data.count(b"\n", 0, start) + 1, data[start]
        problem = f"must be text in UTF-8, got the byte 0x{byte:02x}"
        raise SpecError(str(path), line, "", problem) from error


def read_toml(source: Source) -> dict[str, Any]:
    """The tables of a text."""
    try:
        return tomllib.loads(source.text)
    except (MemoryError, RecursionError):
        pass  # what it holds goes before anything else is done
    except ValueError as error:  # of the syntax, or of a number with thousands of digits
        where = re.search(r"^(.*) \(at line (\d+)", str(error), re.DOTALL)
        last = source.text.count("\n") + 1
        message, line = (where[1], int(where[2])) if where else (str(error), last)
        message = message.removesuffix(" (at end of document)")
        raise SpecError(source.path, line, "", message[:1].lower() + message[1:]) from error
    raise source.error((), "tables, arrays and keys must not be so deep")


def _lines(text: str) -> dict[tuple[Any, ...], int]:
    """Line of every key of a TOML text: tables, keys, and keys of inline tables."""
    numbers: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    counts: dict[tuple[str, ...], int] = {}
    quotes = None  # that a string of several lines ends with
    for number, line in enumerate(text.split("\n"), 1):
        if quotes is not None:
            quotes = None if quotes in line else quotes
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            names = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                counts[names] = counts.get(names, -1) + 1
                numbers.setdefault(names, number)
                names = (*names, counts[names])
            table = names
            numbers.setdefault(table, number)
        elif key:
            keys = (*table, *key[1].split("."))
            numbers.setdefault(keys, number)
            for inner in _INNER.findall(key[2]):
                numbers.setdefault((*keys, inner), number)
            for mark in ('"""', "'''"):
                if key[2].count(mark) % 2:
                    quotes = mark
    return numbers


def _pairs(keys: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Each name with the number that follows it, if one does."""
    return [(k, i) for k, i in pairwise([*keys, None]) if not isinstance(k, int)]


# What stands in it.


def hint(name: str, known: Iterable[str]) -> str:
    """The known name that is meant by another, or all of them."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"


def one_of(kind: Any, names: Iterable[str], keys: Keys, source: Source) -> None:
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


def table_at(value: Any, keys: Keys, source: Source) -> dict[str, Any]:
    """Refuse what is not a table."""
    if not isinstance(value, dict):
        raise source.error(keys, f"must be a table, got {value!r}")
    return value


@contextmanager
def pointing(source: Source, keys: Keys, data: Mapping[str, Any]) -> Iterator[None]:
    """Turn an error of a constructor, which names the argument, into one that points at its line."""
    try:
        yield
    except SpecError:
        raise
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
