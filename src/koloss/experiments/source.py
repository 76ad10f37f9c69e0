"""Where in a TOML file a key stands, so that an error can point at its line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from koloss.errors import KolossError

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-]+)\s*=(.*)$")
_INNER = re.compile(r"[{,]\s*([A-Za-z0-9_\-]+)\s*=")


class SpecError(KolossError, ValueError):
    """A mistake in a spec."""

    def __init__(self, path: str, line: int, key: str, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {key + ': ' if key else ''}{problem}")
        self.path = path  # of the file
        self.line = line  # from 1
        self.key = key  # with the tables it is in
        self.problem = problem  # what is wrong with it


@dataclass(frozen=True)
class Source:
    """Where a spec comes from: its name and its text."""

    path: str
    text: str

    def error(self, keys: tuple[Any, ...], message: str) -> SpecError:
        """The error at a key, or at the nearest table around it that is in the text."""
        lines = _lines(self.text)
        near = next((keys[:k] for k in range(len(keys), 0, -1) if keys[:k] in lines), ())
        words = [f"{k}[{i + 1}]" if isinstance(i, int) else str(k) for k, i in _pairs(keys)]
        return SpecError(self.path, lines.get(near, 1), ".".join(words), message)


def _lines(text: str) -> dict[tuple[Any, ...], int]:
    """Line of every key of a TOML text: tables, keys, and keys of inline tables."""
    numbers: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    counts: dict[str, int] = {}
    quotes = None  # that a string of several lines ends with
    for number, line in enumerate(text.splitlines(), 1):
        if quotes is not None:
            quotes = None if quotes in line else quotes
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header:
            names = tuple(part.strip() for part in header[2].split("."))
            if header[1] == "[[":
                counts[header[2]] = counts.get(header[2], -1) + 1
                numbers.setdefault(names, number)
                names = (*names, counts[header[2]])
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
