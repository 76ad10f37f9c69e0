"""Players compared over many games: the regret in each as a share of uniform play's, the median and the worst.

What is said of a picture is made here from the numbers, so that it cannot be other than true; so are the tables of the page, the
terminal and the guide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from arena.base import Game, PlayerSpec
from arena.results import ArenaResults, Entry
from koloss.core.text import Table, counted, decimals, duration

UNIFORM = "uniform"

MOST = 9
"""Players in the picture, and beyond these whoever wins a family."""

FIRST = (
    UNIFORM, "insured", "exp-weights", "gp-ucb", "gp-thompson", "exp3", "pyxab-hct", "vowpal-wabbit-squarecb", "river-exp3",
    "insured-contexts", "exp-weights-contexts", "gp-ucb-contexts", "vowpal-wabbit-squarecb-contexts", "mabwiser-linucb",
    "river-linucb", "gittins-contexts",
)  # fmt: skip
"""Players that are shown before others, one of each kind, whatever their results."""

FAMILIES = {
    "held-out": "Held-out games: nothing was tuned on these",
    "data": "Games from recorded data",
    "field": "Games of the field: losses late or never told, coins, unknown units, a second turn; nothing was tuned on these",
    "peers": "The peers' own environments: the insured learner was tuned while its results on these were being looked at",
    "contexts": "Games with contexts: regret against the best mapping from contexts to actions; nothing was tuned on these",
    "reported": "Reported games: the insured learner was tuned while its results on these were being looked at",
}

TUNED = ("reported", "peers")
"""Families that are not in the picture."""


@dataclass(frozen=True)
class Standing:
    """One player in those of some games that it finished."""

    player: PlayerSpec
    shares: dict[str, float]  # mean regret in units of the yardstick, by game

    @property
    def worst_game(self) -> str:
        """Where its share is largest."""
        return max(self.shares, key=lambda game: self.shares[game], default="")

    @property
    def worst(self) -> float:
        """Its largest share."""
        return self.shares.get(self.worst_game, math.nan)

    def label(self, games: Sequence[Game]) -> str:
        """Its name, and in how many of the games it is shown where that is not in all of them."""
        few = len(self.shares) < len(games)
        return self.player.name + (f" ({len(self.shares)} of {len(games)} games)" if few else "")

    def median(self, games: Sequence[Game] | None = None) -> float:
        """The median of its shares in some games, or in all; not a number where there are none."""
        chosen = self.shares if games is None else {game.name for game in games}
        shares = [share for name, share in self.shares.items() if name in chosen]
        return median(shares) if shares else math.nan


def picture_games(results: ArenaResults, *, all_games: bool = False) -> list[Game]:
    """Games of the picture: those on which nothing was tuned, where there are any, or all of them.

    Those with contexts have other players, and are in a picture of their own or in none.
    """
    games = results.parts[0].games
    unseen = [game for game in games if game.family not in TUNED]
    return list(games) if all_games or not unseen else unseen


def yardstick(results: ArenaResults, games: Sequence[Game]) -> tuple[str, dict[str, float]]:
    """What regret is measured in, in words and by game.

    It is the regret of uniform play where that was played and is positive in all of the games, otherwise the rounds.
    """
    results = results.part(games)
    entries = {game.name: results.entries.get((game.name, UNIFORM)) for game in games}
    means = {name: e.mean for name, e in entries.items() if e and e.finished and e.mean > 0}
    if len(means) == len(entries):
        return "uniform play's regret", means
    first = results.players[0].slug
    rounds = {game.name: float(results.entry(game.name, first).rounds) for game in games}
    return "the number of rounds", rounds


def standings(results: ArenaResults, games: Sequence[Game]) -> list[Standing]:
    """Players that finished all of the games that they can play, and heard only their own losses; the smallest worst case first.

    Those that cannot play some of the games come last.
    """
    results, finished = results.part(games), []
    for spec in results.players:
        entries = [results.entry(game.name, spec.slug) for game in games]
        standing = _standing(results, spec, games)
        if not spec.full and standing.shares and all(e.finished or e.cannot for e in entries):
            finished.append(standing)
    return sorted(finished, key=lambda s: (len(s.shares) < len(games), s.worst))


def _standing(results: ArenaResults, spec: PlayerSpec, games: Sequence[Game]) -> Standing:
    _, sizes = yardstick(results, games)
    entries = [results.entry(game.name, spec.slug) for game in games]
    return Standing(spec, {e.game: e.mean / sizes[e.game] for e in entries if e.finished})


def winners(results: ArenaResults) -> dict[str, list[str]]:
    """By family, the players with the smallest mean regret in most of its games: several where these are equally many."""
    firsts: dict[str, list[str]] = {}
    for family in FAMILIES:
        best = [results.best(game.name) for game in results.games if game.family == family]
        wins = Counter(slug for slug in best if slug is not None)
        most = max(wins.values(), default=0)
        firsts[family] = [slug for slug, count in wins.items() if count == most]
    return firsts


def shown(results: ArenaResults, games: Sequence[Game]) -> list[Standing]:
    """Those of the picture: whoever has the smallest worst case, one of each kind, others up to nine, and all who win a family.

    A winner that did not finish all of the games is shown in those that it did, below the others.
    """
    results = results.part(games)
    compared = standings(results, games)
    order = {slug: k for k, slug in enumerate(FIRST)}
    by_kind = sorted(compared, key=lambda s: order.get(s.player.slug, len(FIRST)))
    slugs = list(dict.fromkeys(s.player.slug for s in [*compared[:1], *by_kind]))[:MOST]
    firsts = {slug for family in winners(results).values() for slug in family}
    finished = {s.player.slug for s in compared}
    others = [_standing(results, s, games) for s in results.present if s.slug in firsts - finished]
    chosen = [s for s in compared if s.player.slug in firsts.union(slugs)]
    return chosen + [s for s in others if s.shares]


# What is said of them.


def headline(results: ArenaResults, games: Sequence[Game]) -> str:
    """Who has the smallest worst case: its median share in kind games, its worst share, and the worst of the next that is drawn."""
    drawn = [standing for standing in shown(results, games) if len(standing.shares) == len(games)]
    if not drawn:
        return "No player finished every game"
    first, unit = drawn[0], f"of {yardstick(results, games)[0]}"
    words = f"{first.worst:.2f} {unit} in its worst game"
    if kind := _kind(games):
        words = f"{first.median(kind):.2f} {unit} in the median kind game, {first.worst:.2f} in its worst game"
    if len(drawn) > 1:
        words += f"; the next smallest worst case shown is {drawn[1].worst:.2f}"
    return f"{first.player.name}: {words}"


def caption(results: ArenaResults, games: Sequence[Game]) -> str:
    """What the picture shows, in words and in the numbers of six players, and who wins which family."""
    results = results.part(games)
    drawn, kind = {s.player.slug: s for s in shown(results, games)}, _kind(games)
    some = [drawn[slug] for slug in FIRST if slug in drawn and slug != UNIFORM][:6]
    words = [
        f"{headline(results, games)}.",
        f"Mean regret of {counted(most_runs(results), 'run')} as a share of {yardstick(results, games)[0]} in the same game.",
        f"Each dot is a game: {len(kind)} kind and {len(games) - len(kind)} hostile games.",
        "In a hostile game the losses depend on what the player is about to do.",
    ]
    if some:
        words.append(f"Worst game: {', '.join(f'{s.label(games)} {s.worst:.2f}' for s in some)}.")
    if some and kind:
        middle = ", ".join(f"{s.player.name} {s.median(kind):.2f}" for s in some)
        words += [f"Median of the kind games: {middle}.", _wins(results)]
    return " ".join(words)


def left_out(results: ArenaResults, games: Sequence[Game]) -> str:
    """What the picture does not show."""
    results, words = results.part(games), list[str]()
    finished = {s.player.slug for s in standings(results, games)}
    drawn = {s.player.slug for s in shown(results, games)}
    if results.shortened is not None:
        words.append(f"Games were shortened to {results.shortened:,} rounds at most.")
    present = results.present
    for text, specs in (
        ("Not installed", results.missing),
        ("Told the losses of all actions, so not compared", [s for s in present if s.full]),
        (
            "Did not finish every game, so not shown",
            [s for s in present if s.slug not in finished | drawn and not s.full],
        ),
        ("In the tables only", [s for s in present if s.slug in finished - drawn]),
    ):
        words += [f"{text}: {_names(specs)}."] if specs else []
    return " ".join(words)


def _wins(results: ArenaResults) -> str:
    """Who has the smallest mean regret most often, family by family."""
    names = {spec.slug: spec.name for spec in results.players}
    words = []
    for family, slugs in winners(results).items():
        best = [results.best(game.name) for game in results.games if game.family == family]
        if slugs:
            who = " and ".join(names[slug] for slug in slugs)
            each = " each" if len(slugs) > 1 else ""
            words.append(f"{family} {who} ({best.count(slugs[0])} of {len(best)}{each})")
    return f"Smallest mean regret in most games of a family: {'; '.join(words)}."


def most_runs(results: ArenaResults) -> int:
    """Of any player in any game."""
    return max(len(entry.runs) for entry in results.entries.values())


def _kind(games: Sequence[Game]) -> list[Game]:
    return [game for game in games if game.weather == "kind"]


def _names(specs: Sequence[PlayerSpec]) -> str:
    return "; ".join(spec.name for spec in specs)


# Tables.


def overview_table(results: ArenaResults) -> Table:
    """All players over all games, finished or not."""
    head = ("player", "finished", "best in", "median share", "worst share", "in", "per round")
    best, rows = [results.best(game.name) for game in results.games], []
    for spec in results.present:
        standing = _standing(results, spec, results.games)
        # In hostile games much is computed when the adversary looks, which is not timed.
        entries = [results.entry(game.name, spec.slug) for game in _kind(results.games)]
        times = [entry.round_seconds for entry in entries if entry.done]
        name = spec.name + (" (hears all losses)" if spec.full else "")
        finished = f"{len(standing.shares)} of {len(results.games)}"
        shares = decimals(standing.median()), decimals(standing.worst), standing.worst_game or "–"
        time = duration(median(times) if times else math.nan)
        rows.append((name, finished, str(best.count(spec.slug)), *shares, time))
    return Table(head, rows, left=(0, 5))


def family_tables(
    results: ArenaResults, family: str, cell: Callable[[Entry, bool], str], columns: int = 4
) -> list[Table]:
    """Players as rows and games as columns, a few in a table; `cell` is told of an entry and whether it is best."""
    names = [game.name for game in results.games if game.family == family]
    results = results.part([game for game in results.games if game.family == family])
    tables = []
    for k in range(0, len(names), columns):
        some = names[k : k + columns]
        best = {name: results.best(name) for name in some}
        rows = [
            (spec.name, *(cell(results.entry(name, spec.slug), best[name] == spec.slug) for name in some))
            for spec in results.present
        ]  # fmt: skip
        tables.append(Table(["player", *some], rows))
    return tables


def remarks(results: ArenaResults, family: str) -> list[str]:
    """What is to be known of a family's tables: who was told what is unknown, and who cannot play."""
    games = [game for game in results.games if game.family == family]
    results, lines = results.part(games), list[str]()
    for fact, what in (("range", "The range of losses"), ("kernel", "A kernel")):
        where = ", ".join(game.name for game in games if fact in game.unknown)
        told = [spec for spec in results.present if fact in spec.needs]
        if where and told:
            lines.append(f"{what} is not known in {where}; who needs it is told: {_names(told)}.")
    late = [game.name for game in games if game.delays is not None]
    unable = [s for s in results.present if any(results.entry(g, s.slug).cannot for g in late)]
    if unable:
        why = "who takes a loss only before the next decision cannot play"
        lines.append(f"Losses come late in {', '.join(late)}; {why}: {_names(unable)}.")
    told_of = [(game.name, game.contexts) for game in games if game.contexts is not None]
    if untold := [name for name, contexts in told_of if contexts.weights is None]:
        lines.append(f"The law of contexts is not told in {', '.join(untold)}.")
    if ordered := [name for name, contexts in told_of if contexts.order == "any"]:
        lines.append(f"Contexts come in an order of their own in {', '.join(ordered)}.")
    return lines


def cell_text(entry: Entry, *, best: bool = False) -> str:
    """Mean, error and worst run, all with the mean's digits; or that it did not finish.

    >>> from arena.results import Run
    >>> runs = [Run("g", "p", k, 9, played=9, regret=r) for k, r in enumerate([40.0, 48.0])]
    >>> cell_text(Entry("g", "p", tuple(runs)), best=True)
    '44 ±4 (48) *'
    """
    if entry.finished:
        digits = 0 if abs(entry.mean) >= 9.95 else 1
        error = f" ±{entry.error:.{digits}f}" if math.isfinite(entry.error) else ""
        return f"{entry.mean:.{digits}f}{error} ({entry.worst:.{digits}f}){' *' if best else ''}"
    lost = entry.failures
    word = lost[0].status if lost[0].status != "died" else "failed"
    return word + ("" if len(lost) == len(entry.runs) else f" {len(lost)}/{len(entry.runs)}")
