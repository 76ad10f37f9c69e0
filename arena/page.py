"""The arena as a page with its picture, and what is printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from arena import ranking
from arena.figures import summary_figure
from arena.games import games
from arena.players import players
from arena.ranking import FAMILIES, cell_text
from arena.results import ArenaResults, Entry, Run
from koloss.core.files import write_text
from koloss.core.terminal import console, say, section, wrote
from koloss.core.text import Safe, Table, counted, escape, short_number
from koloss.games.store import locked, version_of
from koloss.report.figures import save
from koloss.report.page import picture_data, render


def write_page(results: ArenaResults, out: str | Path, *, all_games: bool = False) -> list[Path]:
    """Write `arena.html`, and `arena-summary.png` and `.svg`, also for a narrow screen; the files, the page first.

    With `all_games` the summary is over all games, also those that the insured learner was tuned on while its results were
    being looked at.
    """
    out = Path(out)
    with locked(out):
        wide = save(summary_figure(results, all_games=all_games), out, "arena-summary")
        figure = summary_figure(results, all_games=all_games, narrow=True)
        narrow = save(figure, out, "arena-summary-narrow")
        pictures = picture_data(wide[1]), picture_data(narrow[1])
        write_text(out / "arena.html", page(results, pictures, all_games=all_games))
    return [out / "arena.html", *wide, *narrow]


def page(results: ArenaResults, pictures: tuple[str, str], *, all_games: bool = False) -> str:
    """The page as text; `pictures` are addresses, for wide and for narrow screens."""
    chosen = ranking.picture_games(results, all_games=all_games)
    lost = failures(results)
    place = {id(run): k for k, (_, runs) in enumerate(lost, start=1) for run in runs}

    def cell(entry: Entry, best: bool) -> Safe:
        text = escape(cell_text(entry, best=best)).replace(" ", "\u00a0")
        if entry.finished or entry.cannot:
            return Safe(f"<b>{text}</b>" if best else text)
        return Safe(f'<a class="bad" href="#failure-{place[id(entry.failures[0])]}">{text}</a>')

    families = [
        (family, title, tables, ranking.remarks(results, family))
        for family, title in FAMILIES.items()
        if (tables := ranking.family_tables(results, family, cell))
    ]
    return render(
        "arena.html", folder=Path(__file__).parent,
        window="Koloss: the arena", results=results, pictures=pictures, families=families, runs=ranking.most_runs(results),
        caption=ranking.caption(results, chosen), left_out=ranking.left_out(results, chosen),
        where="all games" if len(chosen) == len(results.games) else "games on which nothing was tuned",
        unit=ranking.yardstick(results.parts[0], results.parts[0].games)[0],
        overviews=[ranking.overview_table(part) for part in results.parts],
        games=_games_table(results), players=_players_table(results),
        failures=[(name, runs[0].message, _where(runs)) for name, runs in lost],
        above=above(results), command=repeat_command(results),
        seconds=sum(run.seconds + run.making for run in results.runs),
    )  # fmt: skip


def show_arena(results: ArenaResults, paths: Sequence[Path] = ()) -> None:
    """Print all players over all games, what failed, and where the page is."""
    screen = console()
    for part in results.parts:
        unit, _ = ranking.yardstick(part, part.games)
        title = f"{counted(len(part.games), 'game')}, regret as a share of {unit}"
        screen.print(section(title, ranking.overview_table(part)))
    for name, runs in failures(results):
        say(screen, f"{name}: {' '.join(runs[0].message.split())}: {_where(runs)}")
    for line in above(results):
        say(screen, line)
    wrote(screen, paths)


def failures(results: ArenaResults) -> list[tuple[str, list[Run]]]:
    """Players and their runs that were not played to the end, those with the same message together."""
    found: dict[tuple[str, str], list[Run]] = {}
    names = {spec.slug: spec.name for spec in results.players}
    for entry in results.entries.values():
        for run in entry.failures if not entry.cannot else ():
            found.setdefault((names[run.player], run.message), []).append(run)
    return [(name, runs) for (name, _), runs in found.items()]


def above(results: ArenaResults) -> list[str]:
    """Where the mean regret is above a guarantee that is valid."""
    return [
        f"{entry.player} in {entry.game}: mean regret {short_number(entry.mean)} is above its guarantee, {short_number(bound['total'])}"
        for entry in results.entries.values()
        if (bound := entry.bound()) is not None and bound["above"]
    ]  # fmt: skip


def _where(runs: list[Run]) -> str:
    """Games and numbers of some runs, and the regret of the rounds that were played."""
    if runs[0].status == "missing":
        return "all games"
    by_game: dict[str, list[str]] = {}
    for run in runs:
        partial = f" (partial regret {short_number(run.regret)})" if run.played else ""
        by_game.setdefault(run.game, []).append(f"run {run.number}{partial}")
    return "; ".join(f"{name}: {', '.join(words)}" for name, words in by_game.items())


def _games_table(results: ArenaResults) -> Table:
    rows = []
    for game in results.games:
        size = f"{len(game.points):,} in dimension {game.points.shape[1]}"
        kernel = repr(game.kernel)
        if game.contexts is not None:
            size += f", {counted(len(game.contexts.X), 'context')}"
            kernel += f", contexts {game.contexts.kernel}"
        low, high = game.loss_range
        losses = f"{low:,g} to {high:,g}{', late' if game.delays else ''}"
        about = f"{game.summary} {game.source}".strip()
        rows.append([game.name, about, game.weather, size, kernel, losses, f"{game.rounds:,}"])
    head = ["game", "what it is", "weather", "actions", "kernel", "losses", "rounds"]
    return Table(head, rows, left=range(6))


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
