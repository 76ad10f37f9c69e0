"""What clients have done: a line when a call begins, and a line when it has ended, in a file that outlives its process."""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from koloss.errors import CommitUnknown, KolossError, StoreError

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"


@dataclass
class Attempt:
    """One call, of which the end may never have been written down."""

    name: str  # of the operation: attempts at the same one share its request key
    what: str  # "ask" or "tell"
    said: dict[str, Any]  # count, subject, request; ids, values, request
    invoked: float
    ended: float = math.inf
    outcome: str = UNKNOWN
    answer: dict[str, Any] | None = None  # of an ask that ended ok: ids, index, p
    error: str = ""
    final: bool = False  # failed by a rule of the study, not by the store
    mark: int | None = None  # what `Journal.mark` said after it had ended


class Journal:
    """The calls of one client. A line is one write, which a kill leaves whole or not there at all."""

    def __init__(self, path: Path, mark: Callable[[], int | None] = lambda: None) -> None:
        self.path, self.mark = path, mark
        self._numbers = itertools.count()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def call(self, what: str, said: dict[str, Any], act: Callable[[], Any]) -> Any:
        """Make a call and write down how it ended; its answer, or None where it has none."""
        number = next(self._numbers)
        name = said.get("request") or f"{self.path.stem}-{number}"
        self._write(number, name=name, what=what, said=said, invoked=time.monotonic())
        end: dict[str, Any] = {"outcome": OK, "answer": None}
        try:
            end["answer"] = act()
        except CommitUnknown as error:
            end.update(outcome=UNKNOWN, error=repr(error))
        except KolossError as error:
            final = not isinstance(error, StoreError)
            end.update(outcome=FAILED, error=repr(error), final=final)
        except Exception as error:  # which the checker calls a fault of ours
            end.update(outcome=UNKNOWN, error=f"unexpected {error!r}")
        self._write(number, **end, ended=time.monotonic(), mark=self.mark())
        return end["answer"]

    def _write(self, number: int, **data: Any) -> None:
        os.write(self._file, json.dumps({"number": number, **data}).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(paths: Iterable[Path]) -> list[Attempt]:
    """The calls in some journals."""
    found: list[Attempt] = []
    for path in paths:
        mine: dict[int, Attempt] = {}
        for line in path.read_text().splitlines():
            data = json.loads(line)
            number = data.pop("number")
            if number not in mine:
                mine[number] = Attempt(**data)
            for name, value in data.items():
                setattr(mine[number], name, value)
        found += mine.values()
    return found
