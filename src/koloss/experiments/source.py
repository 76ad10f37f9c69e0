"""The text of a spec: read, parsed and looked through, and where in it a key stands, so that an error can point at its line."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from koloss.core.text import hidden, printable
from koloss.errors import KolossError

MOST_BYTES = 10_000_000
"""Of a file."""

DEEPEST = 32
"""Tables and arrays inside each other, and parts of a key."""

LONGEST_WORD = 1000
"""Characters of a key or a number."""

LONGEST_MESSAGE = 600
"""Of an error, in characters: what was got may be as long as the file."""

_HEADER = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\-]+)\s*=(.*)$")
_INNER = re.compile(r"[{,]\s*([A-Za-z0-9_\-]+)\s*=")
_STRING = r'"(?:[^"\\\n]++|\\[^\n])*+"?|' + r"'[^'\n]*+'?"
_LONG_STRING = r'"""(?:[^"\\]++|\\.|"(?!""))*+"*|' + r"'''(?:[^']++|'(?!''))*+'*"
_WORD = rf"(?:[\w+-]++|{_STRING})"
_TOKEN = re.compile(
    rf"{_LONG_STRING}|#[^\n]*+|[\[\]{{}}\n]|{_WORD}(?:[ \t]*+\.[ \t]*+{_WORD})*+", re.DOTALL
)
"""What a text is made of, as far as its size goes: strings, comments, brackets, and words with dots between them."""


class SpecError(KolossError, ValueError):
    """A mistake in a spec."""

    def __init__(self, path: str, line: int, key: str, problem: str) -> None:
        if len(problem) > LONGEST_MESSAGE:
            problem = f"{problem[: LONGEST_MESSAGE - 100]} … {problem[-100:]}"
        where = f"{path}, line {line}" if line else path
        super().__init__(f"{where}: {key + ': ' if key else ''}{problem}")
        self.path = path  # of the file
        self.line = line  # from 1; 0 where it is the file as a whole
        self.key = key  # with the tables it is in
        self.problem = problem  # what is wrong with it

    def __reduce__(self) -> tuple[Any, ...]:
        return SpecError, (self.path, self.line, self.key, self.problem)


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
        return SpecError(self.path, lines.get(near, 1), printable(".".join(words)), message)

    def beside(self, name: str) -> Path:
        """The file that a spec calls so."""
        return Path(self.path).parent / name

    def outside(self, name: str) -> Path | None:
        """Where a file is, links followed, that is not in the folder of the spec; None for one that is."""
        folder = Path(self.path).parent.resolve()
        try:
            path = (folder / name).resolve()
        except RuntimeError:  # links in a circle
            path = folder / name
        return None if path.is_relative_to(folder) else path


def read_text(path: Path) -> str:
    """The text of a file of a reasonable size, in UTF-8 with or without a mark at its beginning.

    A file that is not there, or may not be read, is an `OSError`.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would make us wait
        raise SpecError(str(path), 0, "", "must be a file, got a folder, a pipe or a device")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise SpecError(str(path), 0, "", f"must have at most {MOST_BYTES:,} bytes, got more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The mark at the beginning is not counted in the place of the error.
        start = error.start + len(data) - len(error.object)
        line, byte = data.count(b"\n", 0, start) + 1, data[start]
        problem = f"must be text in UTF-8, got the byte 0x{byte:02x}"
        raise SpecError(str(path), line, "", problem) from error


def read_toml(source: Source) -> dict[str, Any]:
    """The tables of a text, in which there are strings, numbers and truth values and nothing else."""
    _measure(source)
    try:
        data = tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"^(.*) \(at line (\d+)", str(error), re.DOTALL)
        last = source.text.count("\n") + 1
        message, line = (where[1], int(where[2])) if where else (str(error), last)
        message = message.removesuffix(" (at end of document)")
        raise SpecError(source.path, line, "", message[:1].lower() + message[1:]) from error
    for keys, value in _leaves(data):
        if problem := _unfit(keys, value):
            raise source.error(keys, problem)
    return data


def _measure(source: Source) -> None:
    """Refuse what would take the parser more time or stack than a spec is worth."""
    line, depth = 1, 0
    for token in _TOKEN.finditer(source.text):
        text = token[0]
        depth = max(depth + (text in "[{") - (text in "]}"), 0)
        if depth > DEEPEST:
            problem = f"tables and arrays must be at most {DEEPEST} deep, got more"
            raise SpecError(source.path, line, "", problem)
        if len(text) > DEEPEST and not text.startswith(('"""', "'''", "#")):
            parts = re.sub(_STRING, "", text).split(".")
            if len(parts) > DEEPEST:
                problem = f"a key must have at most {DEEPEST} parts, got {len(parts):,}"
                raise SpecError(source.path, line, "", problem)
            if (longest := max(map(len, parts))) > LONGEST_WORD:
                problem = f"a number or a key must have at most {LONGEST_WORD:,} characters"
                raise SpecError(source.path, line, "", f"{problem}, got {longest:,}")
        line += text.count("\n")


def _leaves(data: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All that is in no table and no array of its own, with its keys; each key itself, too."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*keys, key), part) for key, part in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((*keys, k), part) for k, part in reversed(list(enumerate(value)))]
        else:
            yield keys, value


def _unfit(keys: tuple[Any, ...], value: Any) -> str:
    """What is wrong with a value wherever it stands; nothing, if nothing is."""
    if any(isinstance(key, str) and hidden(key) for key in keys):
        return "must be a key without control characters"
    match value:
        case str() if hidden(value, lines=len(keys) == 1):
            return f"must have no control characters, got {value!a}"
        case float() if not isfinite(value):
            return f"must be finite, got {value}"
        case int() if not -(2**63) <= value < 2**63:
            return "must be a number of at most 64 bits, got one with more"
        case date() | time():
            return f"must be a string, a number or true or false, got the date or time {value}"
    return ""


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
