"""Publish an arena: python -m arena.publish [DIR ...], where each DIR is what `python -m arena --out DIR` has written.

Keeps its regrets (recorded/regrets.json), draws the summary picture from them, and writes the tables of the guide and
the caption of the README between their marks; without DIR, from the regrets that were kept. The tests do all but the drawing
again. `--yardstick` writes nothing, and prints how the insured learner did in kind games beside the yardstick of the guide.

Players may have played in folders of their own: the losses of a run are the same for all, whenever they are played. Of a player
in a game that is in several folders the last counts; of one that is in none, what was kept before stays, and the guide
says so. Games that are in none of the folders stay as they were.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import arena
from arena.ranking import picture_games, picture_text, short_caption
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


def former(path: Path = KEPT) -> dict[str, list[str]]:
    """Games by player whose regrets are of an earlier arena."""
    earlier: dict[str, list[str]] = json.loads(path.read_text("utf-8")).get("former", {})
    return earlier


def keep(*folders: Path, path: Path = KEPT) -> None:
    """Keep the regrets of an arena that was played in some folders."""
    before = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
    fresh: dict[tuple[str, str], list[Any]] = {}
    machine: dict[str, Any] = {}
    for folder in folders:
        played = json.loads((folder / "arena.json").read_text("utf-8"))
        machine = played["machine"]
        fresh |= {(e["game"], e["player"]): [row(e, run) for run in e["runs"]] for e in played["results"]}  # fmt: skip
    stale: dict[tuple[str, str], list[Any]] = {}
    for run in before["runs"]:
        pair = run[0], run[1]
        if pair not in fresh and run[0] in arena.games() and run[1] in arena.players():
            stale.setdefault(pair, []).append(run)
    entries = fresh | stale
    games = [name for name in arena.games() if any(game == name for game, _ in entries)]
    players = [slug for slug in arena.players() if any(player == slug for _, player in entries)]
    played_now, before_that = {game for game, _ in fresh}, before.get("former", {})
    earlier: dict[str, list[str]] = {}
    for game, player in sorted(stale, key=lambda pair: games.index(pair[0])):
        if game in played_now or game in before_that.get(player, ()):
            earlier.setdefault(player, []).append(game)
    kept = {"games": games, "players": players, "machine": machine, "former": earlier}
    order = [(game, player) for game in games for player in players if (game, player) in entries]
    lines = ",\n".join(json.dumps(run, ensure_ascii=False) for pair in order for run in entries[pair])  # fmt: skip
    head = json.dumps(kept, ensure_ascii=False, indent=1)[:-2]
    path.write_text(f'{head},\n "runs": [\n{lines}\n]}}\n', "utf-8")


def row(entry: dict[str, Any], run: dict[str, Any]) -> list[Any]:
    """What is kept of a run."""
    message = re.sub(r" \(/[^)]*\)", "", run["message"])  # where packages lie is nobody's business
    numbers = run["played"], round(run["regret"], 3), round(run["seconds"], 3)
    who = entry["game"], entry["player"], run["number"], entry["rounds"]
    return [*who, run["status"], message, *numbers]


def texts(results: arena.ArenaResults, earlier: dict[str, list[str]] | None = None) -> dict[str, str]:  # fmt: skip
    """What stands between the marks of the pages."""
    games = picture_games(results)
    said, alternative = short_caption(results, games), picture_text(results, games)
    more = "No learner of Koloss was tuned on these games; `make arena` plays them all"
    tables = arena.markdown_tables(results)
    if earlier:
        names = {spec.slug: spec.name for spec in results.players}
        who = "; ".join(f"{names[slug]} in {', '.join(where)}" for slug, where in earlier.items())
        tables = f"Played for an earlier version, with other random numbers, and kept: {who}.\n\n{tables}"  # fmt: skip
    return {
        "picture": f"![{alternative}](docs/assets/arena-summary.svg)",
        "caption": f"*{said} {more} ([guide](docs/guide/arena.md)).*",
        "figure": f"![{alternative}](../assets/arena-summary.svg)",
        "results": tables,
    }


def between(page: str, name: str) -> str:
    """What stands between the marks of a page."""
    match = re.search(rf"<!-- arena: {name} -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert match, name
    return match.group(1).strip()


def yardstick(results: arena.ArenaResults, game: arena.Game) -> tuple[float, float]:
    """Mean regret of the insured learner in a kind game, and b + 0.3 |b| + (m/8) ρ log(1 + ρn/B), B = 1.45 ρ √(mn log N).

    b is that of the better one of GP-UCB and GP Thompson sampling, ρ the range of losses, m the number of features.
    """
    insured, *others = (
        sum(run.regret for run in runs) / len(runs)
        for runs in (
            results.entry(game.name, slug).runs for slug in ("insured", "gp-ucb", "gp-thompson")
        )
    )
    b, (low, high), n = min(others), game.loss_range, game.rounds
    rank = arena.players()["insured"].make(game, 0).rank
    B = 1.45 * math.sqrt(rank * n * math.log(len(game.points)))
    return insured, b + 0.3 * abs(b) + rank / 8 * (high - low) * math.log(1 + n / B)


def print_yardstick() -> None:
    results, met = load(), []
    for game in results.games:
        if game.weather == "kind" and game.family != "contexts":
            insured, most = yardstick(results, game)
            met.append(insured <= most)
            print(f"{game.name:20} {insured:10.6g} {most:10.6g} {'' if met[-1] else 'more'}")
    print(f"{sum(met)} of {len(met)} are within the yardstick")


def main() -> None:
    if sys.argv[1:] == ["--yardstick"]:
        print_yardstick()
        return
    if len(sys.argv) > 1:
        keep(*map(Path, sys.argv[1:]))
    results = load()
    picture, _ = save(arena.summary_figure(results), DOCS / "assets", "arena-summary")
    picture.unlink()
    for name, text in texts(results, former()).items():
        page = PAGES[name].read_text("utf-8")
        PAGES[name].write_text(page.replace(between(page, name), text), "utf-8")


if __name__ == "__main__":
    main()
