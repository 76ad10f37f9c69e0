"""Publish a sweep of random games: python docs/figures/where.py [DIR], where `koloss sweep examples/random_games.toml --out DIR` was run.

Keeps its regrets (docs/assets/random-games.csv: one row for each game, its settings, and the regret of every player), draws three
pictures from them, and writes the lists and tables of the guide between their marks; without DIR, from the regrets that were kept.
The tests do all but the drawing again.
"""

from __future__ import annotations

import csv
import sys
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
GUIDE = DOCS / "guide" / "where.md"
SPEC = DOCS.parent / "examples" / "random_games.toml"

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


def _is(name: str, value: Any) -> Test:
    return lambda settings: bool(settings[name] == value)


def _between(name: str, low: float, high: float) -> Test:
    return lambda settings: bool(low <= settings[name] < high)


KIND, HOSTILE = _is("hostility", 0), lambda settings: settings["hostility"] > 0

BINS: dict[str, dict[str, Test]] = {
    "all games": {"": lambda _: True},
    "hostility": {f"{h:g}": _is("hostility", h) for h in (0.1, 0.3, 1)},
    "hostile from": {"the start": _is("onset", 0), "half time": _is("onset", 0.5)},
    "drift": {drift: _is("drift", drift) for drift in ("none", "slow", "abrupt")},
    "delay": {delay: _is("delay", delay) for delay in ("none", "fixed", "geometric")},
    "noise": {"below 0.07": _between("noise", 0, 0.07), "to 0.13": _between("noise", 0.07, 0.13), "to 0.2": _between("noise", 0.13, 1)},
    "dimension": {f"{d}": _is("dimension", d) for d in (1, 2, 3, 4)},
    "bumps": {f"{k}": _is("bumps", k) for k in (1, 2, 4, 8)},
    "length": {"below 0.1": _between("length", 0, 0.1), "to 0.2": _between("length", 0.1, 0.2), "to 0.5": _between("length", 0.2, 1)},
    "length told": {f"× {s:g}": _is("stretch", s) for s in (0.25, 0.5, 1, 2, 4)},
}  # fmt: skip
"""Rows of the pictures."""

HOSTILE_ONLY = ("hostility", "hostile from")


def chosen(rows: Sequence[Row], *tests: Test) -> list[Row]:
    """Games of a kind."""
    return [row for row in rows if all(test(row.settings) for test in tests)]


def won(rows: Sequence[Row]) -> Counter[str]:
    """Games that each player won."""
    return Counter(row.winner for row in rows)


def median_share(rows: Sequence[Row], player: str) -> float:
    """Of uniform play's regret, over the games that a player could play."""
    return float(np.median([row.share(player) for row in rows if player in row.regrets]))


def worst(rows: Sequence[Row], player: str = FIRST, count: int = WORST) -> list[Row]:
    """Games in which a player is furthest behind the best rival."""
    return sorted(rows, key=lambda row: row.behind(player), reverse=True)[:count]


# What the guide says.


def name_of(slug: str) -> str:
    """As in the tables of the arena."""
    return arena.players()[slug].name


def texts(rows: Sequence[Row]) -> dict[str, str]:
    """What stands between the marks of the page."""
    return {
        "spec": f"```toml\n{SPEC.read_text('utf-8').strip()}\n```",
        "losses": _losses(rows),
        "common": _common(rows),
        "alarms": _alarms(rows),
        "games": _worst_games(rows),
        "players": _players(rows),
        "regions": _regions(rows),
    }


def _losses(rows: Sequence[Row]) -> str:
    lines = []
    for slug in OURS:
        behind = [row for row in rows if row.behind(slug) > 0]
        kind, hostile = chosen(behind, KIND), chosen(behind, HOSTILE)
        sizes = np.array([row.behind(slug) for row in behind])
        to = Counter(row.rival for row in worst(rows, slug)).most_common(3)
        below = [row for row in rows if row.share(slug) > 1]
        lines.append(
            f"- **{name_of(slug)}** is behind in {len(behind)} games: {len(kind)} of the {len(chosen(rows, KIND))} kind ones and "
            f"{len(hostile)} of the {len(chosen(rows, HOSTILE))} hostile ones. In half of these games by less than "
            f"{np.median(sizes):.3f} per round, in {(sizes > 0.05).sum()} by more than 0.05, at worst by {sizes.max():.3f}. In the "
            f"{WORST} games in which it is furthest behind, the best rival is {_listed(to)}. It pays more than uniform play in "
            f"{len(below)} games, {len(chosen(below, HOSTILE))} of them hostile."
        )
    return "\n".join(lines)


def _listed(counts: Sequence[tuple[str, int]]) -> str:
    words = [f"{name_of(slug)} ({count})" for slug, count in counts]
    return ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]


def _common(rows: Sequence[Row]) -> str:
    """What the worst games have in common: settings that are more frequent among them than among all games."""
    few = worst(rows)
    found = []
    for name, bins in {"hostility": {"none": KIND}, **BINS}.items():
        tests = {"none": KIND, **BINS["hostility"]} if name == "hostility" else bins
        for label, test in tests.items():
            among, overall = len(chosen(few, test)) / len(few), len(chosen(rows, test)) / len(rows)
            if overall < 1 and abs(among - overall) >= 0.1:
                found.append((among / overall, f"{name} {label}", among, overall))
    found.sort(reverse=True)
    lines = [f"| setting | among the {WORST} worst | among all games |", "| --- | --- | --- |"]
    lines += [f"| {what} | {among:.0%} | {overall:.0%} |" for _, what, among, overall in found]
    return "\n".join(lines)


def _alarms(rows: Sequence[Row]) -> str:
    """When the insured learner gave its policy up, by how hostile the game was."""
    lines = ["| hostility | from | games | handed over in | median round | median share of uniform play's regret |", "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    parts = [("none", "", chosen(rows, KIND))]
    for label, test in BINS["hostility"].items():
        parts += [(label, when, chosen(rows, test, half)) for when, half in BINS["hostile from"].items()]  # fmt: skip
    for label, when, games in parts:
        over = [row.handed_over for row in games if row.handed_over is not None]
        middle = f"{np.median(over):.0f}" if over else ""
        cells = label, when, len(games), len(over), middle, f"{median_share(games, FIRST):.2f}"
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


SHOWN = ("hostility", "onset", "drift", "delay", "noise", "dimension", "actions", "bumps", "length", "stretch", "kernel")  # fmt: skip


def _worst_games(rows: Sequence[Row], count: int = 8) -> str:
    """The games in which the insured learner is furthest behind, and their settings."""
    head = ["behind", "best rival", "Insured", *map(name_of, OURS[1:]), "Uniform", *SHOWN, "seed"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for row in worst(rows, count=count):
        r, s = row.regrets, row.settings
        cells = [f"{row.behind():.3f}", f"{name_of(row.rival)}: {r[row.rival]:.0f}"]
        cells += [f"{r[slug]:.0f}" for slug in (*OURS, "uniform")]
        cells += [f"{s[n]:.2g}" if isinstance(s[n], float) else f"{s[n]}" for n in SHOWN]
        lines.append("| " + " | ".join([*cells, str(s["seed"])]) + " |")
    return "\n".join(lines)


def _players(rows: Sequence[Row]) -> str:
    """Every player: games won, and shares of uniform play's regret."""
    kind, hostile = chosen(rows, KIND), chosen(rows, HOSTILE)
    head = f"| player | won, of {len(kind)} kind games | of {len(hostile)} hostile ones | median share, kind | hostile | nine in ten below, kind | hostile |"
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- |"]
    for slug in rows[0].regrets | dict.fromkeys(s for row in rows for s in row.regrets):
        shares = [[row.share(slug) for row in part if slug in row.regrets] for part in (kind, hostile)]  # fmt: skip
        middle, most = ([f"{np.quantile(part, q):.2f}" for part in shares] for q in (0.5, 0.9))
        cells = [str(won(kind)[slug]), str(won(hostile)[slug]), *middle, *most]
        lines.append(f"| {name_of(slug)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _regions(rows: Sequence[Row], most: int = 3, least: int = 30) -> str:
    """For each player, the kinds of games of which it wins the largest share."""
    lines = ["| player | wins most in | of these |", "| --- | --- | --- |"]
    parts = {}
    for weather, kind in (("kind", KIND), ("hostile", HOSTILE)):
        for name, bins in BINS.items():
            for label, test in bins.items():
                words = f"{weather}, {name} {label}" if label else f"all {weather} games"
                if weather == "hostile" or name not in HOSTILE_ONLY:
                    parts[words] = chosen(rows, kind, test)
    total = won(rows)
    for slug in dict.fromkeys(s for row in rows for s in row.regrets):
        ranked = sorted(
            ((won(games)[slug] / len(games), words, len(games)) for words, games in parts.items() if len(games) >= least),
            reverse=True,
        )[:most]  # fmt: skip
        where = "; ".join(words for _, words, _ in ranked) if total[slug] else "no game"
        share = "; ".join(f"{part:.0%}" for part, *_ in ranked) if total[slug] else ""
        lines.append(f"| {name_of(slug)} ({total[slug]} in all) | {where} | {share} |")
    return "\n".join(lines)


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    begin, end = f"<!-- where: {name} -->\n", "\n<!-- end -->"
    assert page.count(begin) == 1, name
    return page.partition(begin)[2].partition(end)[0].strip()


def main() -> None:
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]))
    rows = load()
    import where_pictures

    where_pictures.draw(rows, DOCS / "assets", {slug: name_of(slug) for slug in rows[0].regrets})
    for name, text in texts(rows).items():
        page = GUIDE.read_text("utf-8")
        GUIDE.write_text(page.replace(between(page, name), text), "utf-8")


if __name__ == "__main__":
    main()
