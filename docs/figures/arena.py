"""Publish an arena: python docs/figures/arena.py [DIR], where DIR is what `koloss arena --out DIR` has written.

Keeps its regrets (docs/assets/arena-regrets.json), draws the summary picture from them, and writes the tables of the guide and
the caption of the README between their marks; without DIR, from the regrets that were kept. The tests do all but the drawing
again.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from koloss import arena
from koloss.experiments.arena.ranking import picture_games, short_caption
from koloss.report.figures import save

DOCS = Path(__file__).parents[1]
KEPT = DOCS / "assets" / "arena-regrets.json"
PAGES = {"caption": DOCS.parent / "README.md", "results": DOCS / "guide" / "arena.md"}


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


def keep(folder: Path) -> None:
    """Keep the regrets of an arena."""
    played = json.loads((folder / "arena.json").read_text("utf-8"))
    runs = [
        [
            entry["game"],
            entry["player"],
            run["number"],
            entry["rounds"],
            run["status"],
            re.sub(r" \(/[^)]*\)", "", run["message"]),  # where packages lie is nobody's business
            run["played"],
            round(run["regret"], 3),
            round(run["seconds"], 3),
        ]
        for entry in played["results"]
        for run in entry["runs"]
    ]
    kept = {
        "games": [game["name"] for game in played["games"]],
        "players": [player["slug"] for player in played["players"]],
        "machine": played["machine"],
    }
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in runs)
    head = json.dumps(kept, ensure_ascii=False, indent=1)[:-2]
    KEPT.write_text(f'{head},\n "runs": [\n{lines}\n]}}\n', "utf-8")


def texts(results: arena.ArenaResults) -> dict[str, str]:
    """What stands between the marks of the pages."""
    said = short_caption(results, picture_games(results))
    more = "No learner of Koloss was tuned on these games; `make arena` plays them all"
    return {
        "caption": f"*{said} {more} ([guide](docs/guide/arena.md)).*",
        "results": arena.markdown_tables(results),
    }


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    match = re.search(rf"<!-- arena: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert match, name
    return match.group(1).strip()


def main() -> None:
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]))
    results = load()
    picture, _ = save(arena.summary_figure(results), DOCS / "assets", "arena-summary")
    picture.unlink()
    for name, text in texts(results).items():
        page = PAGES[name].read_text("utf-8")
        PAGES[name].write_text(page.replace(between(page, name), text), "utf-8")


if __name__ == "__main__":
    main()
