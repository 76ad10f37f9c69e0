"""The arena as a page, and its tables as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

from arena import ranking
from arena.base import Game
from arena.figures import regret_figure, summary_figure
from arena.games import games
from arena.players import players
from arena.ranking import FAMILIES, FIRST, UNIFORM, cell_text
from arena.results import ArenaResults, Entry, Run
from koloss.core.files import write_text
from koloss.core.text import Safe, Table, counted, duration, escape, short_number, slugs
from koloss.games.store import locked, version_of
from koloss.report.page import picture_data, render

TEMPLATES = Path(__file__).parent / "templates"


def write_page(results: ArenaResults, out: str | Path, *, all_games: bool = False) -> list[Path]:
    """Write `arena.html`, `arena-summary.png` and `.svg`, and `figures/` with a figure for every game; the files, the page first.

    With `all_games` the summary is over all games, also those that the insured learner was tuned on while its results were
    being looked at.
    """
    with locked(Path(out)):
        return _write_page(results, Path(out), all_games)


def _write_page(results: ArenaResults, out: Path, all_games: bool) -> list[Path]:
    from koloss.report.figures import save

    folder = out / "figures"
    folder.mkdir(exist_ok=True)
    files = save(summary_figure(results, all_games=all_games), out, "arena-summary")
    narrow = summary_figure(results, all_games=all_games, narrow=True)
    files += save(narrow, folder, "arena-summary-narrow")
    pictures = {"": picture_data(files[1]), "narrow": picture_data(files[3])}
    stems = slugs(game.name for game in results.games)
    for game in results.games:
        files += save(regret_figure(results, game), folder, stems[game.name])
        pictures[game.name] = picture_data(files[-1])
    path = out / "arena.html"
    write_text(path, page(results, pictures, all_games=all_games))
    return [path, *files]


def page(results: ArenaResults, pictures: dict[str, str], *, all_games: bool = False) -> str:
    """The page as text; `pictures` are addresses: "", "narrow", and one by the name of every game."""
    chosen = ranking.picture_games(results, all_games=all_games)
    names = {spec.slug: spec.name for spec in results.players}
    notes: dict[tuple[str, str], list[Run]] = {}  # by player and message

    def cell(entry: Entry, best: bool) -> Safe:
        for failed in entry.failures if not entry.cannot else ():
            notes.setdefault((entry.player, failed.message), []).append(failed)
        text = _cell(entry, best=best)
        if entry.finished or entry.cannot:
            return text
        place = list(notes).index((entry.player, entry.failures[0].message)) + 1
        return Safe(f'<a class="bad" href="#failure-{place}">{text}</a>')

    families = [
        (family, title, tables, ranking.remarks(results, family))
        for family, title in FAMILIES.items()
        if (tables := ranking.family_tables(results, family, cell))
    ]
    stems = slugs(game.name for game in results.games)
    return render(
        "arena.html", folder=TEMPLATES,
        window="Koloss: the arena", results=results, pictures=pictures, families=families, runs=ranking.most_runs(results),
        headline=ranking.headline(results, chosen),
        caption=ranking.caption(results, chosen),
        where="all games" if len(chosen) == len(results.games) else "games on which nothing was tuned",
        unit=ranking.yardstick(results.parts[0], results.parts[0].games).words,
        overviews=[ranking.overview_table(part) for part in results.parts],
        games=[_game(results, game, stems[game.name]) for game in results.games],
        players=_players_table(results),
        notes=[(names[slug], message, _where(runs)) for (slug, message), runs in notes.items()],
        absent=[(spec.name, message) for spec, message in ranking.absent(results).items()],
        command=repeat_command(results),
        seconds=sum(run.seconds + run.making for run in results.runs),
    )  # fmt: skip


def markdown_tables(results: ArenaResults) -> str:
    """All players over all games, and some of them in every game, as Markdown."""
    plain = [part for part in results.parts if part.games[0].contexts is None]
    slugs = {spec.slug: spec for part in plain for spec in part.present}
    columns = [slugs[slug] for slug in (*FIRST[1:], UNIFORM) if slug in slugs]
    head = ["game", "rounds", *(spec.name for spec in columns)]
    families = []
    for family, title in FAMILIES.items():
        rows = []
        if family == "contexts":  # other players, all of them
            tables = ranking.family_tables(results, family, _markdown_cell, room=len(results.games))
            lines = ranking.remarks(results, family)
            families += [(title.partition(":")[0], table, lines) for table in tables]
            continue
        for game in (game for game in results.games if game.family == family):
            cells = {spec.slug: cell_text(results.entry(game.name, spec.slug)) for spec in columns}
            if (best := results.best(game.name)) in cells:
                cells[best] = f"**{cells[best]}**"
            rows.append([f"{game.name}, {game.weather}", f"{game.rounds:,}", *cells.values()])
        lines = ranking.remarks(results, family)
        families += [(title.partition(":")[0], Table(head, rows), lines)] if rows else []
    overviews = [
        ("All players" if part in plain else "All players in games with contexts", ranking.overview_table(part))
        for part in results.parts
    ]  # fmt: skip
    return render("arena.md", folder=TEMPLATES, overviews=overviews, families=families).strip()


# Parts.


def _markdown_cell(entry: Entry, best: bool) -> str:
    return f"**{cell_text(entry)}**" if best else cell_text(entry)


def _cell(entry: Entry, *, best: bool) -> Safe:
    text = escape(cell_text(entry, best=best)).replace(" ", "\u00a0")
    return Safe(f"<b>{text}</b>" if best else text)


def _game(results: ArenaResults, game: Game, anchor: str) -> dict[str, Any]:
    """What the section about a game is filled with."""
    results = results.part([game])
    entries = {spec: results.entry(game.name, spec.slug) for spec in results.present}
    best, timed = results.best(game.name), game.weather == "kind"
    rows = []
    for spec, entry in entries.items():
        time = [duration(entry.round_seconds)] if timed else []
        cell = _cell(entry, best=spec.slug == best)
        rows.append([spec.name, cell, *time, _bound(entry), _alarms(entry)])
    head = ["player", "regret", *(["time per round"] if timed else []), "guarantee", "alarms of the insured"]  # fmt: skip
    ends = [f"{s.name} {short_number(e.mean)}" for s, e in entries.items() if e.finished]
    return {
        "game": game,
        "anchor": anchor,
        "rounds": results.entry(game.name, results.players[0].slug).rounds,
        "alt": f"Regret against rounds in {game.name}; at the end: {', '.join(ends)}.",
        "table": Table(head, rows, left=(0, len(head) - 2, len(head) - 1)),
    }


def _bound(entry: Entry) -> str:
    bound = entry.bound()
    if bound is None:
        return "–"
    words = [] if bound["informative"] else ["trivial"]
    words += [] if bound["valid"] else ["not valid"]
    if bound["rank"] is not None:
        words.append(f"m = {bound['rank']}, ε = {bound['epsilon']:.2g}")
    if bound["exceeded"]:
        words.append(f"exceeded in {counted(bound['exceeded'], 'run')}")
    text = short_number(bound["total"]) + (f" ({'; '.join(words)})" if words else "")
    return Safe(f'{text} <span class="bad">mean above it</span>') if bound["above"] else text


def _alarms(entry: Entry) -> str:
    insured = [run.insured for run in entry.done if run.insured is not None]
    if not insured:
        return "–"
    explored, premium = (fmean(one[name] for one in insured) for name in ("explored", "premium"))
    cost = f"explored {explored:.0f} rounds at a premium of {short_number(premium)}"
    alarms = [alarm for one in insured for alarm in one["alarms"]]
    if not alarms:
        return f"none; {cost}"
    which = sum(bool(one["alarms"]) for one in insured)
    rounds = [alarm["round"] for alarm in alarms]
    first, last = min(rounds), max(rounds)
    span = f"{first:,}" if first == last else f"{first:,} to {last:,}"
    reasons = sorted(Counter(alarm["reason"] for alarm in alarms).items())
    why = ", ".join(f"{word} {k}" for word, k in reasons)
    return f"in {which} of {counted(len(insured), 'run')}, after {span} rounds ({why}); {cost}"


def _players_table(results: ArenaResults) -> Table:
    rows = []
    for spec in results.players:
        version = version_of(spec.package) if spec.package else None
        package = f"{spec.package} {version or 'not installed'}" if spec.package else "–"
        slow = f" (slow: at most {counted(spec.most_runs, 'run')})" if spec.most_runs else ""
        slug = Safe(f"<code>{escape(spec.slug)}</code>")
        hears = "all losses" if spec.full else "its own loss"
        rows.append([spec.name, slug, spec.summary + slow, package, hears])
    return Table(["player", "name", "what it is", "package", "hears"], rows, left=range(5))


def _where(runs: list[Run]) -> str:
    """Games and numbers of some runs, and the regret of the rounds that were played."""
    by_game: dict[str, list[str]] = {}
    for failed in runs:
        partial = f" (partial regret {short_number(failed.regret)})" if failed.played else ""
        by_game.setdefault(failed.game, []).append(f"run {failed.number}{partial}")
    return "; ".join(f"{name}: {', '.join(words)}" for name, words in by_game.items())


def repeat_command(results: ArenaResults) -> str:
    """What to type for the same games, players and sizes."""
    words = [f"python -m arena --out DIR --runs {ranking.most_runs(results)} --seed {results.seed}"]
    if math.isfinite(results.limit):
        words.append(f"--limit {results.limit:g}")
    if results.shortened is not None:
        words.append(f"--rounds {results.shortened}")
    names = [game.name for game in results.games]
    slugs = [spec.slug for spec in results.players]
    if names != list(games()):
        words.append(f"--games {' '.join(names)}")
    if slugs == [slug for slug, spec in players().items() if not spec.package]:
        words.append("--no-peers")
    elif slugs != list(players()):
        words.append(f"--players {' '.join(slugs)}")
    return " ".join(words)
