"""The table of the sweep of random games: what is kept of it, kinds of games, and who is behind whom.

One row for each game: its settings, the regret of every player, and the round in which the insured learner gave its policy up.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from koloss import arena
from koloss.experiments.sweep_spec import Point
from koloss.games.trace import read_npz

DOCS = Path(__file__).parents[1]
KEPT = DOCS / "assets" / "random-games.csv"

ROUNDS = 1000
OURS = ("insured", "insured-thompson", "exp-weights")
FIRST = OURS[0]
OVER = "handed_over"
WORST = 100
"""Games in which a player loses most: so many are looked at together."""


@dataclass(frozen=True)
class Row:
    """One game: its settings, and the regret of every player that could play it."""

    settings: dict[str, Any]
    regrets: dict[str, float]
    handed_over: int | None = None  # the round in which Insured gave its policy up

    def share(self, player: str) -> float:
        """Of uniform play's regret."""
        return self.regrets[player] / self.regrets["uniform"]

    @property
    def winner(self) -> str:
        return min(self.regrets, key=lambda player: self.regrets[player])

    @property
    def rival(self) -> str:
        """The best of those that are not of this library."""
        others = [player for player in self.regrets if player not in OURS]
        return min(others, key=lambda player: self.regrets[player])

    def behind(self, player: str = FIRST) -> float:
        """By how much a player is behind the best rival, in losses per round; below zero where it is ahead."""
        return (self.regrets[player] - self.regrets[self.rival]) / ROUNDS


# The table.


def keep(folder: Path, path: Path = KEPT) -> None:
    """Keep the settings and regrets of a sweep."""
    from pyarrow import parquet

    games: dict[int, dict[str, Any]] = {}
    for row in parquet.read_table(folder / "sweep.parquet").to_pylist():
        settings = {n.removeprefix("game."): v for n, v in row.items() if n.startswith("game.")}
        if row["status"] not in ("done", "cannot"):
            raise ValueError(f"`folder` must have finished runs, got {row['status']}: {row['message']}")  # fmt: skip
        regret = f"{row['regret']:.2f}" if row["status"] == "done" else ""
        games.setdefault(row["point"], settings)[row["player"]] = regret
        if row["player"] == FIRST:
            point = Point(row["point"], {n: v for n, v in row.items() if n.startswith("game.")})
            run = folder / "runs" / row["game"] / point.digest / FIRST / "0.npz"
            alarms = read_npz(run)[0]["facts"]["insured"]["alarms"]
            settings[OVER] = alarms[0]["round"] if alarms else ""
    with path.open("w", encoding="utf-8", newline="") as file:
        names = [name for name in games[0] if name != OVER]
        writer = csv.DictWriter(file, [*names, OVER], lineterminator="\n")
        writer.writeheader()
        writer.writerows(games.values())


def load(path: Path = KEPT) -> list[Row]:
    """The games that were kept."""
    known = arena.players()
    rows = []
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            over = line.pop(OVER)
            settings = {n: _value(text) for n, text in line.items() if n not in known}
            regrets = {n: float(text) for n, text in line.items() if n in known and text}
            rows.append(Row(settings, regrets, int(over) if over else None))
    return rows


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


# Kinds of games.

Test = Callable[[dict[str, Any]], bool]


def having(name: str, value: Any) -> Test:
    """Games with this value of a setting."""
    return lambda settings: bool(settings[name] == value)


def _between(name: str, low: float, high: float) -> Test:
    return lambda settings: bool(low <= settings[name] < high)


def _hostile_from(onset: float) -> Test:
    return lambda settings: bool(settings["hostility"] > 0 and settings["onset"] == onset)


KIND, HOSTILE = having("hostility", 0), lambda settings: settings["hostility"] > 0

BINS: dict[str, dict[str, Test]] = {
    "all games": {"": lambda _: True},
    "hostility": {f"{h:g}": having("hostility", h) for h in (0.1, 0.3, 1)},
    "hostile from": {"the start": _hostile_from(0), "half time": _hostile_from(0.5)},
    "drift": {drift: having("drift", drift) for drift in ("none", "slow", "abrupt")},
    "delay": {delay: having("delay", delay) for delay in ("none", "fixed", "geometric")},
    "noise": {"below 0.07": _between("noise", 0, 0.07), "to 0.13": _between("noise", 0.07, 0.13), "to 0.2": _between("noise", 0.13, 1)},
    "dimension": {f"{d}": having("dimension", d) for d in (1, 2, 3, 4)},
    "bumps": {f"{k}": having("bumps", k) for k in (1, 2, 4, 8)},
    "length": {"below 0.1": _between("length", 0, 0.1), "to 0.2": _between("length", 0.1, 0.2), "to 0.5": _between("length", 0.2, 1)},
    "length told": {f"× {s:g}": having("stretch", s) for s in (0.25, 0.5, 1, 2, 4)},
}  # fmt: skip
"""Rows of the pictures."""

HOSTILE_ONLY = ("hostility", "hostile from")


def chosen(rows: Sequence[Row], *tests: Test) -> list[Row]:
    """Games of a kind."""
    return [row for row in rows if all(test(row.settings) for test in tests)]


def contested(rows: Sequence[Row]) -> list[Row]:
    """Games in which there is anything to win: where a dip and a bump stand at one point, all losses are alike."""
    return [row for row in rows if row.regrets["uniform"] > 0]


def won(rows: Sequence[Row]) -> Counter[str]:
    """Games that each player won."""
    return Counter(row.winner for row in rows)


def median_share(rows: Sequence[Row], player: str) -> float:
    """Of uniform play's regret, over the games that a player could play."""
    return float(np.median([row.share(player) for row in rows if player in row.regrets]))


def worst(rows: Sequence[Row], player: str = FIRST, count: int = WORST) -> list[Row]:
    """Games in which a player is furthest behind the best rival."""
    return sorted(rows, key=lambda row: row.behind(player), reverse=True)[:count]
