"""Publish an arena: python -m arena.publish [DIR ...], where each DIR is what `python -m arena --out DIR` has written.

Keeps its regrets (recorded/regrets.json), draws the summary picture from them, and writes the tables of the guide and the caption of
the README between their marks; without DIR, from the regrets that were kept. The tests do all but the drawing again.

Players may have played in folders of their own: the losses of a run are the same for all, whenever they are played. Of a player
in a game that is in several folders the last counts; what is in none stays as it was.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import arena
from arena.ranking import caption, overview_table, picture_games, shown, yardstick
from koloss.report.figures import save

DOCS = Path(__file__).parents[1] / "docs"
KEPT = Path(__file__).parent / "recorded" / "regrets.json"
README, GUIDE = DOCS.parent / "README.md", DOCS / "guide" / "arena.md"
PAGES = {"picture": README, "caption": README, "figure": GUIDE, "results": GUIDE}


def load(path: Path = KEPT) -> arena.ArenaResults:
    """The results that were kept."""
    kept = json.loads(path.read_text("utf-8"))
    runs = [
        arena.Run(game, player, number, rounds, status, message, played, regret, seconds=seconds)
        for game, player, number, rounds, status, message, played, regret, seconds in kept["runs"]
    ]
    games = tuple(arena.games()[name] for name in kept["games"])
    players = tuple(arena.players()[slug] for slug in kept["players"])
    return arena.ArenaResults(games, players, tuple(runs), machine=kept["machine"])


def keep(*folders: Path, path: Path = KEPT) -> None:
    """Keep the regrets of an arena that was played in some folders, beside those that are there."""
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
    pairs: dict[tuple[str, str], list[Any]] = {}
    for run in kept["runs"]:
        pairs.setdefault((run[0], run[1]), []).append(run)
    for folder in folders:
        played = json.loads((folder / "arena.json").read_text("utf-8"))
        kept["machine"] = played["machine"]
        pairs |= {(e["game"], e["player"]): [_row(e, run) for run in e["runs"]] for e in played["results"]}  # fmt: skip
    order = [(g, p) for g in arena.games() for p in arena.players() if (g, p) in pairs]
    kept["games"] = list(dict.fromkeys(game for game, _ in order))
    kept["players"] = [slug for slug in arena.players() if slug in {player for _, player in order}]
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for pair in order for run in pairs[pair])
    head = {name: kept[name] for name in ("games", "players", "machine")}
    text = json.dumps(head, ensure_ascii=False, indent=1)[:-2]
    path.write_text(f'{text},\n "runs": [\n{lines}\n]}}\n', "utf-8")


def _row(entry: dict[str, Any], run: dict[str, Any]) -> list[Any]:
    message = re.sub(r" \(/[^)]*\)", "", run["message"])  # where packages lie is nobody's business
    numbers = run["played"], round(run["regret"], 3), round(run["seconds"], 3)
    who = entry["game"], entry["player"], run["number"], entry["rounds"]
    return [*who, run["status"], message, *numbers]


def texts(results: arena.ArenaResults) -> dict[str, str]:
    """What stands between the marks of the pages."""
    games = picture_games(results)
    count, unit = len(shown(results, games)), yardstick(results, games)[0]
    picture = f"![Regret of {count} players in kind and hostile games, as a share of {unit}]"
    more = "No learner of Koloss was tuned on these games; `make arena` plays them all"
    tables = []
    for part in results.parts:
        table = overview_table(part)
        rows = [table.head, ["---"] * len(table.head), *table.rows]
        title = "In games with contexts" if part.games[0].contexts else "All players"
        tables.append(f"### {title}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return {
        "picture": f"{picture}(docs/assets/arena-summary.svg)",
        "caption": f"*{caption(results, games)} {more} ([guide](docs/guide/arena.md)).*",
        "figure": f"{picture}(../assets/arena-summary.svg)",
        "results": "\n\n".join(tables),
    }


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    match = re.search(rf"<!-- arena: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert match, name
    return match.group(1).strip()


def main() -> None:
    if len(sys.argv) > 1:
        keep(*map(Path, sys.argv[1:]))
    results = load()
    picture, _ = save(arena.summary_figure(results), DOCS / "assets", "arena-summary")
    picture.unlink()
    for name, text in texts(results).items():
        page = PAGES[name].read_text("utf-8")
        PAGES[name].write_text(page.replace(between(page, name), text), "utf-8")


if __name__ == "__main__":
    main()
