"""The arena as one HTML file with everything in it, for a screen of any width and for paper."""

from __future__ import annotations

import base64
import math
from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from koloss.experiments.arena.games import games as all_games
from koloss.experiments.arena.players import players as all_players
from koloss.experiments.arena.ranking import (
    caption,
    headline,
    overview,
    picture_games,
    standings,
    yardstick,
)
from koloss.experiments.arena.report import FAMILIES, cell_text, number, share_text, time_text
from koloss.games.store import version_of
from koloss.report.page import STYLE, counted, html_table, short_number

if TYPE_CHECKING:
    from koloss.experiments.arena.base import Game
    from koloss.experiments.results import ArenaResults, Entry, Run

    Notes = dict[tuple[str, str], list[Run]]  # by player and message

MORE_STYLE = """
figure.wide img { max-width: 46rem; }
td b { color: var(--link); }
ol li { margin: 0.3rem 0; }
"""

BLOCK = 4
"""Games in one table."""

INTRO = """
<h2 id="how">How to read this page</h2>
<p>A <b>game</b> has a few hundred actions. In every round each of them has a loss between 0 and 1, the <b>player</b> picks one and
pays its loss. It hears only that one, except where it is said to hear all. <b>Smaller is better.</b></p>
<dl>
<dt>Kind and hostile games</dt>
<dd>In a kind game the losses are fixed beforehand, and the same for all players. In a hostile game they depend on how
likely each action is to be played: the adversary knows the player's law, but not its coin.</dd>
<dt>Reported, held-out and recorded games</dt>
<dd>On the reported games the insured learner was tuned while its results were being looked at. The held-out games were written down
without any player's results on them. The last family has recorded losses.</dd>
<dt>Regret</dt>
<dd>What the player has paid, less what the best single action would have paid, found by adding up the losses of all actions. A player
that follows a change may do better than any single action; its regret is negative then.</dd>
<dt>44 ±2 (52)</dt>
<dd>Mean regret of the runs, its standard error, and the regret of the worst run. The smallest mean of a game is in bold with a star,
also where the next one is within its error. Nobody is compared who did not finish all runs of a game: such regret is partial.</dd>
<dt>Time a round</dt>
<dd>Asking and telling, in kind games: in hostile ones many players do their work already when the adversary looks at their law,
which is not timed.</dd>
<dt>Guarantee</dt>
<dd>A number that theory promises the expected regret to stay below. It is called valid where the learner knows of no assumption that
fails. That the losses are in the space of the kernel is assumed and cannot be known to it; they are not where losses are 0
or 1 at random, nor where they are recorded. It is trivial where it is no less than what nobody can exceed; m is the number of
features that the learner used, and ε their certified error.</dd>
</dl>
"""


def write_page(results: ArenaResults, out: str | Path, *, whole: bool = False) -> list[Path]:
    """Write `arena.html`, `arena-summary.png` and `.svg`, and `figures/` with a figure for every game.

    Parameters
    ----------
    results : ArenaResults
    out : path
        Directory.
    whole : bool
        The summary over all games, also those that the insured learner was tuned on while its results were being looked at.

    Returns
    -------
    list of Path
        The files written, the page first.
    """
    from koloss.experiments.arena.figures import regret_figure, summary_figure
    from koloss.report.figures import save

    out = Path(out)
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    files = save(summary_figure(results, whole=whole), out, "arena-summary")
    narrow = summary_figure(results, whole=whole, narrow=True)
    files += save(narrow, folder, "arena-summary-narrow")
    pictures = {"": files[1], "narrow": files[3]}
    for game in results.games:
        files += save(regret_figure(results, game), folder, game.name)
        pictures[game.name] = files[-1]
    path = out / "arena.html"
    path.write_text(page(results, pictures, whole=whole), encoding="utf-8")
    return [path, *files]


def page(results: ArenaResults, pictures: dict[str, Path], *, whole: bool = False) -> str:
    """The page as text; `pictures` are SVG files: "", "narrow", and one by the name of every game."""
    games = picture_games(results, whole=whole)
    runs = _runs(results)
    scene = f"{counted(len(results.games), 'game')}, {counted(len(results.players), 'player')}, up to {counted(runs, 'run')} each."
    notes: Notes = {}
    matrices = [_family(results, family, title, notes) for family, title in FAMILIES.items()]
    body = [
        "<h1>The arena</h1>",
        f"<p>{scene} Everything on this page is computed by one command; how to repeat it stands at the end.</p>",
        _summary(results, games, pictures),
        INTRO,
        _overview(results),
        *matrices,
        *(_game(results, game, pictures[game.name]) for game in results.games),
        _players(results),
        _failures(results, notes),
        _foot(results),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>Koloss: the arena</title>\n"
        '<link rel="icon" href="data:,">\n'
        f"<style>{STYLE}{MORE_STYLE}</style>\n</head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )  # fmt: skip


# Parts.


def _summary(results: ArenaResults, games: list[Game], pictures: dict[str, Path]) -> str:
    said = escape(caption(results, games))
    title = escape(headline(standings(results, games), games))
    where = "all games" if len(games) == len(results.games) else "held-out and recorded games"
    return (
        f'<figure class="wide"><picture><source media="(max-width: 44rem)" srcset="{_data(pictures["narrow"])}">'
        f'<img src="{_data(pictures[""])}" alt="{said}"></picture><figcaption><b>{title} ({where}).</b> {said}</figcaption></figure>'
    )


def _overview(results: ArenaResults) -> str:
    rows = [
        [
            escape(line.player.name) + (" (hears all losses)" if line.player.full else ""),
            f"{line.done} of {line.games}",
            str(line.best),
            share_text(line.median),
            f"{share_text(line.worst)} ({line.worst_game})" if line.worst_game else "–",
            time_text(line.seconds),
        ]
        for line in overview(results)
    ]
    unit = yardstick(results, results.games)
    head = ["player", "games finished", "smallest mean in", "median share", "worst share", "time a round"]  # fmt: skip
    text = (
        '<h2 id="overview">All players</h2>'
        f'<p class="soft">Shares are mean regret over {escape(unit.words)} in the same game, of the games finished.</p>'
        + html_table(head, rows, numbers={1, 2, 3, 4, 5})
    )
    if results.missing:
        text += f"<p>Not installed: {escape(', '.join(spec.name for spec in results.missing))}.</p>"
    return text


def _family(results: ArenaResults, family: str, title: str, notes: Notes) -> str:
    games = [game for game in results.games if game.family == family]
    if not games:
        return ""
    parts = [f'<h2 id="{family}">{escape(title)}</h2>']
    for k in range(0, len(games), BLOCK):
        block = games[k : k + BLOCK]
        columns = [_column(results, game, notes) for game in block]
        rows = [
            [escape(spec.name), *(column[i] for column in columns)]
            for i, spec in enumerate(results.present)
        ]
        head = ["player", *(game.name for game in block)]
        parts.append(html_table(head, rows, numbers=set(range(1, len(head)))))
    return "\n".join(parts)


def _column(results: ArenaResults, game: Game, notes: Notes) -> list[str]:
    best = results.best(game.name)
    cells = []
    for spec in results.present:
        entry = results.entry(game.name, spec.slug)
        text = _cell(entry, spec.slug == best)
        for run in entry.failures:
            notes.setdefault((spec.name, run.message), []).append(run)
        if not entry.finished:
            place = list(notes).index((spec.name, entry.failures[0].message))
            text = f'<a class="bad" href="#failure-{place + 1}">{text}</a>'
        cells.append(text)
    return cells


def _cell(entry: Entry, best: bool) -> str:
    text = escape(cell_text(entry, best=best)).replace(" ", "\u00a0")
    return f"<b>{text}</b>" if best else text


def _game(results: ArenaResults, game: Game, picture: Path) -> str:
    entries = {spec: results.entry(game.name, spec.slug) for spec in results.present}
    rounds = next(iter(results.entries[key] for key in results.entries if key[0] == game.name)).rounds  # fmt: skip
    facts = [
        f"{len(game.points):,} actions in dimension {game.points.shape[1]}",
        f"kernel {escape(repr(game.kernel))}",
        counted(rounds, "round"),
        f"{game.weather}, {game.family}",
    ]
    parts = [
        f'<h2 id="game-{game.name}">{escape(game.name)}</h2>',
        f"<p>{escape(game.summary)}</p>",
        f'<p class="soft">{"; ".join(facts)}.</p>',
    ]
    if rounds < game.rounds:
        parts.append(
            f'<p class="note">Shortened: the game is made for {game.rounds:,} rounds, and what comes late in it was not played.</p>'
        )
    if game.source:
        parts.append(f'<p class="soft">Data: {escape(game.source)}</p>')
    parts.append(
        f'<figure><img src="{_data(picture)}" alt="{escape(_alt(results, game))}"><figcaption>Mean regret against the best action of '
        "the whole game, with bands that hold the true mean with 95 % confidence, round by round; wide bands are cut.</figcaption></figure>"
    )
    best = results.best(game.name)
    rows = [
        [
            escape(spec.name),
            _cell(entry, spec.slug == best),
            *([time_text(entry.round_seconds)] if game.weather == "kind" else []),
            _bound(entry),
            _alarms(entry),
        ]
        for spec, entry in entries.items()
    ]
    time = ["time a round"] if game.weather == "kind" else []
    head = ["player", "regret", *time, "guarantee", "alarms of the insured"]
    return "\n".join([*parts, html_table(head, rows, numbers={1, *range(2, 2 + len(time))})])


def _alt(results: ArenaResults, game: Game) -> str:
    parts = [
        f"{spec.name} {number(entry.mean)}"
        for spec in results.present
        for entry in [results.entry(game.name, spec.slug)]
        if entry.finished
    ]
    return f"Regret against rounds in {game.name}; at the end: {', '.join(parts)}."


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
    text = (
        f"{short_number(bound['total'])} ({'; '.join(words)})"
        if words
        else short_number(bound["total"])
    )
    return f'{text} <span class="bad">mean above it</span>' if bound["above"] else text


def _alarms(entry: Entry) -> str:
    found = [run.insured for run in entry.done if run.insured is not None]
    if not found:
        return "–"
    alarms = [alarm for one in found for alarm in one["alarms"]]
    explored = sum(one["explored"] for one in found) / len(found)
    premium = sum(one["premium"] for one in found) / len(found)
    cost = f"explored {explored:.0f} rounds at a premium of {number(premium)}"
    if not alarms:
        return f"none; {cost}"
    when = sorted(alarm["round"] for alarm in alarms)
    why = ", ".join(f"{word} {k}" for word, k in sorted(Counter(a["reason"] for a in alarms).items()))  # fmt: skip
    which = sum(bool(one["alarms"]) for one in found)
    span = f"after {when[0]:,}" if when[0] == when[-1] else f"after {when[0]:,} to {when[-1]:,}"
    return f"in {which} of {counted(len(found), 'run')}, {span} rounds ({why}); {cost}"


def _players(results: ArenaResults) -> str:
    rows = []
    for spec in results.players:
        version = version_of(spec.package) if spec.package else None
        package = f"{spec.package} {version or 'not installed'}" if spec.package else "–"
        hears = "all losses" if spec.full else "its own loss"
        slow = f" (slow: at most {counted(spec.most_runs, 'run')})" if spec.most_runs else ""
        rows.append([escape(spec.name), f"<code>{spec.slug}</code>", escape(spec.summary + slow), escape(package), hears])  # fmt: skip
    head = ["player", "name", "what it is", "package", "hears"]
    return '<h2 id="players">The players</h2>' + html_table(head, rows, numbers=set())


def _failures(results: ArenaResults, notes: Notes) -> str:
    """Every run that was not played to the end, with its message as it was."""
    parts = ['<h2 id="failures">What failed</h2>']
    items = [
        f'<li id="failure-{k}">{escape(name)}: {escape(message)}<br>{_where(runs)}</li>'
        for k, ((name, message), runs) in enumerate(notes.items(), start=1)
    ]
    if items:
        parts.append(f"<ol>{''.join(items)}</ol>")
    for spec in results.missing:
        messages = sorted({run.message for e in results.row(spec.slug) for run in e.failures})
        parts.append(f"<p>{escape(spec.name)}: {escape('; '.join(messages))}</p>")
    if len(parts) == 1:
        parts.append("<p>Nothing: all players finished all runs of all games.</p>")
    return "\n".join(parts)


def _where(runs: list[Run]) -> str:
    """Games and numbers of some runs, and the regret of the rounds that were played."""
    games: dict[str, list[str]] = {}
    for run in runs:
        partial = f" (partial regret {short_number(run.regret)})" if run.played else ""
        games.setdefault(run.game, []).append(f"run {run.number}{partial}")
    return "; ".join(f"{escape(game)}: {', '.join(words)}" for game, words in games.items())


def _foot(results: ArenaResults) -> str:
    machine = results.machine
    seconds = sum(run.seconds + run.making for run in results.runs)
    return (
        '<h2 id="again">How to repeat this</h2>'
        f"<pre><code>{escape(_command(results))}</code></pre>"
        "<p>All numbers of this page are in <code>arena.json</code>, all figures in <code>figures/</code>, every run in "
        "<code>runs/</code>.</p>"
        f"<footer><p>Koloss {escape(str(machine['koloss']))}, Python {machine['python']}, NumPy {machine['numpy']}, SciPy "
        f"{machine['scipy']}; {escape(machine['system'])}, {counted(machine['processors'] or 1, 'processor')}. Seed {results.seed}. The "
        f"players took {seconds:,.0f} seconds. The same seed gives the same regret for any number of processes; what the time "
        "limit stops depends on the machine.</p></footer>"
    )


def _command(results: ArenaResults) -> str:
    """What to type for the same games, players and sizes."""
    words = ["koloss arena --out DIR", f"--runs {_runs(results)}", f"--seed {results.seed}"]
    if math.isfinite(results.limit):
        words.append(f"--limit {results.limit:g}")
    if results.shortened is not None:
        words.append(f"--rounds {results.shortened}")
    games = [game.name for game in results.games]
    slugs = [spec.slug for spec in results.players]
    if games != list(all_games()):
        words.append(f"--games {' '.join(games)}")
    if slugs == [slug for slug, spec in all_players().items() if not spec.package]:
        words.append("--no-peers")
    elif slugs != list(all_players()):
        words.append(f"--players {' '.join(slugs)}")
    return " ".join(words)


def _runs(results: ArenaResults) -> int:
    return max(len(entry.runs) for entry in results.entries.values())


def _data(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"
