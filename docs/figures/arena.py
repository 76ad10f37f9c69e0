"""Publish an arena: python docs/figures/arena.py [DIR], where DIR is what `koloss arena --out DIR` has written.

Keeps its regrets (docs/assets/arena-regrets.json), draws the summary picture from them, and writes the tables of the guide and
the caption of the README between their marks; without DIR, from the regrets that were kept. The tests do all but the drawing
again.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

from koloss import arena
from koloss.experiments.arena.ranking import (
    FIRST,
    UNIFORM,
    headline,
    overview,
    picture_games,
    shown,
    standings,
)
from koloss.experiments.arena.report import cell_text

DOCS = Path(__file__).parents[1]
KEPT = DOCS / "assets" / "arena-regrets.json"
PAGES = {"caption": DOCS.parent / "README.md", "results": DOCS / "guide" / "arena.md"}
COLUMNS = (*(slug for slug in FIRST if slug != UNIFORM), UNIFORM)
FAMILIES = {"held-out": "Held-out games", "data": "Recorded data", "reported": "Reported games"}


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
    found = json.loads((folder / "arena.json").read_text("utf-8"))
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
        for entry in found["results"]
        for run in entry["runs"]
    ]
    kept = {
        "games": [game["name"] for game in found["games"]],
        "players": [player["slug"] for player in found["players"]],
        "machine": found["machine"],
        "runs": runs,
    }
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for run in kept.pop("runs"))
    head = json.dumps(kept, ensure_ascii=False, indent=1)[:-2]
    KEPT.write_text(f'{head},\n "runs": [\n{lines}\n]}}\n', "utf-8")


def caption(results: arena.ArenaResults) -> str:
    """What the picture shows, in three sentences."""
    games = picture_games(results)
    kind = [game for game in games if game.weather == "kind"]
    found = standings(results, games)
    seen = {s.player.slug: s for s in shown(found)}
    runs = max(len(entry.runs) for entry in results.entries.values())
    names = [slug for slug in COLUMNS[:6] if slug in seen]
    worst = ", ".join(f"{seen[s].player.name} {seen[s].worst:.2f}" for s in names)
    middle = ", ".join(f"{seen[s].player.name} {seen[s].median(kind):.2f}" for s in names)
    return (
        f"*{headline(found, games)}. Mean regret of {runs} runs as a share of uniform play's, a dot a game: {len(kind)} kind games, "
        f"and {len(games) - len(kind)} whose losses depend on what the player is about to do; no learner of Koloss was tuned on them. Worst game: {worst}. "
        f"Median of the kind games: {middle}. `make arena` plays them all ([guide](docs/guide/arena.md)).*"
    )


def tables(results: arena.ArenaResults) -> str:
    """All players over all games, and some of them in every game."""
    lines = ["| player | games finished | best in | median share | worst share | in | µs a round |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for line in overview(results):
        time = f"{line.seconds * 1e6:,.0f}" if math.isfinite(line.seconds) else "–"
        share = [f"{x:.2f}" if math.isfinite(x) else "–" for x in (line.median, line.worst)]
        lines.append(
            f"| {line.player.name} | {line.done} of {line.games} | {line.best} | {share[0]} | {share[1]} | {line.worst_game or '–'} | {time} |"
        )
    parts = ["### All players", "", *lines, ""]
    slugs = [slug for slug in COLUMNS if slug in {spec.slug for spec in results.present}]
    for family, title in FAMILIES.items():
        names = " | ".join(arena.players()[slug].name for slug in slugs)
        parts += [f"### {title}", "", f"| game | rounds | {names} |"]
        parts.append("| --- " * (2 + len(slugs)) + "|")
        for game in results.games:
            if game.family == family:
                cells = " | ".join(cell(results, game.name, slug) for slug in slugs)
                parts.append(f"| {game.name}, {game.weather} | {game.rounds:,} | {cells} |")
        parts.append("")
    return "\n".join(parts).rstrip()


def cell(results: arena.ArenaResults, game: str, player: str) -> str:
    """Mean, standard error and worst of a player's runs in a game; in bold where it is the best of all."""
    text = cell_text(results.entry(game, player))
    return f"**{text}**" if results.best(game) == player else text


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    found = re.search(rf"<!-- arena: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert found, name
    return found.group(1).strip()


def main() -> None:
    if len(sys.argv) > 1:
        keep(Path(sys.argv[1]))
    results = load()
    from koloss.report.figures import save

    for path in save(arena.summary_figure(results), DOCS / "assets", "arena-summary"):
        if path.suffix == ".png":
            path.unlink()
    for name, text in {"caption": caption(results), "results": tables(results)}.items():
        page = PAGES[name].read_text("utf-8")
        old = between(page, name)
        PAGES[name].write_text(page.replace(old, text), "utf-8")


if __name__ == "__main__":
    main()
