"""What every kind of learner decides and promises, kept so that a change of the code which changes results is seen.

A set-up plays a short game through public names and leaves a `Digest`: its decisions, its numbers and its texts. `compare` says by
set-up what moved against the record in `digests.json`. From the root of the repository

    python -m tests.support.digests                    # compare all
    python -m tests.support.digests --only masks       # those with "masks" in their names
    python -m tests.support.digests --write            # renew the record: say in the commit what moved and why

Decisions are compared exactly where the processor is treated like the one of the record by the same library of linear algebra.
Elsewhere a tie may be broken otherwise: then the first decisions are compared, and numbers loosely; and of the set-ups that are
`turned` by rounding (a decomposition may have other signs, a design another support) the guarantees before the game alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from koloss.studies.platform import blas

RECORD = Path(__file__).with_suffix(".json")
FIRST = 20  # decisions that are kept in clear
NUMBER = re.compile(r"(?<![\w.])-?\d+(,\d{3})*(\.\d+)?(e[+-]?\d+)?")
TOLERANCE, SMALL = 1e-9, 1e-9  # relative, and absolute
LOOSE, ROUGH = 1e-6, 1e-4  # on another processor: features err by the root of rounding
PROMISED = ("guarantee", "bound")  # how numbers that are promised begin
LONGEST = 1500  # characters of a text that is kept


@dataclass
class Digest:
    """What is kept of one set-up."""

    decisions: list[Any] = field(default_factory=list)  # rows, or actions where there are no rows
    early: dict[str, float] = field(default_factory=dict)  # numbers before the first decision
    numbers: dict[str, float] = field(default_factory=dict)  # and at the end
    texts: dict[str, str] = field(default_factory=dict)

    def entry(self) -> dict[str, Any]:
        """The same as plain data, as the record has it."""
        hashed = hashlib.sha256(json.dumps(self.decisions).encode()).hexdigest()[:16]
        return {
            "decisions": {
                "count": len(self.decisions),
                "hash": hashed,
                "first": self.decisions[:FIRST],
            },
            "early": {name: _plain(x) for name, x in sorted(self.early.items())},
            "numbers": {name: _plain(x) for name, x in sorted(self.numbers.items())},
            "texts": {name: _written(text) for name, text in sorted(self.texts.items())},
        }

    def say(self, name: str, guarantee: Any, *, early: bool = False) -> None:
        """Put down a guarantee: its total, its terms and its text."""
        numbers = self.early if early else self.numbers
        numbers[f"{name}: total"] = guarantee.total
        numbers[f"{name}: trivial"] = guarantee.trivial
        for term, value in guarantee.terms.items():
            numbers[f"{name}: {term}"] = value
        numbers[f"{name}: valid"] = float(guarantee.valid)
        if not early:
            self.texts[name] = masked(str(guarantee))

    def summarise(self, name: str, p: Any, *, early: bool = False) -> None:
        """Put down a law over actions by four numbers."""
        p = np.asarray(p, dtype=float).ravel()
        numbers = self.early if early else self.numbers
        positive = p[p > 0]
        numbers[f"{name}: entropy"] = float(-(positive * np.log(positive)).sum())
        numbers[f"{name}: largest"] = float(p.max())
        numbers[f"{name}: smallest"] = float(p.min())
        numbers[f"{name}: mean row"] = float(p @ np.arange(len(p)))


def _plain(x: Any) -> float | str:
    x = float(x)
    return float(f"{x:.13g}") if math.isfinite(x) else str(x)


def masked(text: str) -> str:
    """A text without its numbers."""
    return NUMBER.sub("#", text)


def _written(text: str) -> dict[str, str]:
    hashed = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"hash": hashed, "text": text} if len(text) <= LONGEST else {"hash": hashed}


# Set-ups register themselves; the games they play are in `digest_setups`.

SETUPS: dict[str, Callable[[], Digest]] = {}
SLOW: set[str] = set()
TURNED: set[str] = set()


def setup(
    name: str, *, slow: bool = False, turned: bool = False
) -> Callable[[Callable[[], Digest]], Any]:
    """Register a set-up."""

    def register(function: Callable[[], Digest]) -> Callable[[], Digest]:
        if name in SETUPS:
            raise ValueError(f"there are two set-ups {name!r}")
        SETUPS[name] = function
        if slow:
            SLOW.add(name)
        if turned:
            TURNED.add(name)
        return function

    return register


# Comparing.


def machine() -> dict[str, str]:
    """What rounding depends on."""
    known = ", ".join(sorted(set(blas())))
    return {"blas": known, "machine": platform.machine(), "numpy": np.__version__}


def compare(
    name: str, entry: Mapping[str, Any], kept: Mapping[str, Any], *, exact: bool
) -> list[str]:
    """What moved in a set-up, a line each; `exact` on a processor like that of the record."""
    if not exact and name in TURNED:
        now, were = (
            {k: x for k, x in one["early"].items() if k.startswith(PROMISED)}
            for one in (entry, kept)
        )
        return [f"{name}: {line}" for line in _moved_numbers("before the game", now, were, exact)]
    moved = _moved_decisions(entry["decisions"], kept["decisions"], exact)
    moved += _moved_numbers("before the game", entry["early"], kept["early"], exact)
    if exact or entry["decisions"]["hash"] == kept["decisions"]["hash"]:
        moved += _moved_numbers("at the end", entry["numbers"], kept["numbers"], exact)
        moved += _moved_texts(entry["texts"], kept["texts"])
    return [f"{name}: {line}" for line in moved]


def _moved_decisions(now: Mapping[str, Any], kept: Mapping[str, Any], exact: bool) -> list[str]:
    if now["count"] != kept["count"]:
        return [f"{now['count']} decisions, {kept['count']} in the record"]
    for k, (a, b) in enumerate(zip(now["first"], kept["first"], strict=True)):
        if not np.allclose(a, b, rtol=LOOSE, atol=LOOSE):
            return [f"decision {k} is {a}, {b} in the record"]
    if exact and now["hash"] != kept["hash"]:
        return [f"decisions differ, after the first {FIRST}"]
    return []


def _moved_numbers(
    when: str, now: Mapping[str, Any], kept: Mapping[str, Any], exact: bool
) -> list[str]:
    moved = [f"{when} there is no {key!r} any more" for key in kept if key not in now]
    for key, x in now.items():
        if key not in kept:
            moved.append(f"{when} {key!r} is new")
        elif not _near(float(x), float(kept[key]), exact):
            moved.append(f"{when} {key!r} is {x}, {kept[key]} in the record")
    return moved


def _near(x: float, y: float, exact: bool) -> bool:
    relative, absolute = (TOLERANCE, SMALL) if exact else (LOOSE, ROUGH)
    both_nan = math.isnan(x) and math.isnan(y)
    return both_nan or math.isclose(x, y, rel_tol=relative, abs_tol=absolute)


def _moved_texts(now: Mapping[str, Any], kept: Mapping[str, Any]) -> list[str]:
    moved = [f"there is no text {key!r} any more" for key in kept if key not in now]
    for key, text in now.items():
        if key not in kept:
            moved.append(f"the text {key!r} is new")
        elif text["hash"] != kept[key]["hash"]:
            moved.append(f"the text {key!r} is another: {_first_difference(text, kept[key])}")
    return moved


def _first_difference(now: Mapping[str, str], kept: Mapping[str, str]) -> str:
    if "text" not in now or "text" not in kept:
        return "too long to be kept"
    lines, were = now["text"].split("\n"), kept["text"].split("\n")
    for a, b in zip(lines, were, strict=False):
        if a != b:
            return f"{a!r}, was {b!r}"
    return f"{len(lines)} lines, were {len(were)}"


def read() -> dict[str, Any]:
    """The record."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def is_exact(record: Mapping[str, Any]) -> bool:
    """Whether this processor rounds like that of the record."""
    return bool(record["machine"] == machine())


def report(names: list[str], *, record: Mapping[str, Any] | None = None) -> list[str]:
    """Play some set-ups, and say what moved against the record."""
    record = read() if record is None else record
    exact, moved = is_exact(record), []
    for name in names:
        kept = record["setups"].get(name)
        if kept is None:
            moved.append(f"{name}: not in the record")
        else:
            moved += compare(name, SETUPS[name]().entry(), kept, exact=exact)
    return moved


def _dump(record: Mapping[str, Any]) -> str:
    """The record as text: a line for each set-up's part, so that a difference can be read."""
    lines = ["{", f' "machine": {json.dumps(record["machine"])},', ' "setups": {']
    names = sorted(record["setups"])
    for name in names:
        parts = record["setups"][name]
        lines.append(f"  {json.dumps(name)}: {{")
        texts = [
            f"   {json.dumps(key)}: {json.dumps(parts[key], ensure_ascii=False)}"
            for key in ("decisions", "early", "numbers", "texts")
        ]
        lines += [",\n".join(texts), "  }" if name == names[-1] else "  },"]
    return "\n".join([*lines, " }", "}"]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Compare, or with --write renew the record."""
    import tests.support.digest_setups  # noqa: F401  registers the set-ups in this module

    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--write", action="store_true", help="renew the record")
    parser.add_argument("--only", default="", help="set-ups with this in their names")
    chosen = parser.parse_args(arguments)
    names = [name for name in SETUPS if chosen.only in name]
    if chosen.write:
        record = read() if RECORD.exists() else {"setups": {}}
        record["machine"] = machine()
        record["setups"].update({name: SETUPS[name]().entry() for name in names})
        if not chosen.only:
            record["setups"] = {name: record["setups"][name] for name in names}
        RECORD.write_text(_dump(record), encoding="utf-8")
        print(f"{len(names)} set-ups written to {RECORD}")
        return 0
    moved = report(names)
    print("\n".join([*moved, f"{len(names)} set-ups, {len(moved)} differences"]))
    return 1 if moved else 0


if __name__ == "__main__":
    from tests.support.digests import main as run  # one module, not two

    sys.exit(run())
