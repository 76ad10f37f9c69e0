"""Players compared over many games: the regret in each as a share of uniform play's, the median and the worst.

What is said of a picture is made here from the numbers, so that it cannot be other than true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from koloss.experiments.arena.base import Game, PlayerSpec
from koloss.experiments.results import ArenaResults

UNIFORM = "uniform"

MOST = 9
"""Players in the picture."""

FIRST = (
    UNIFORM,
    "insured",
    "exp-weights",
    "gp-ucb",
    "gp-thompson",
    "exp3",
    "pyxab-hct",
    "vowpal-wabbit-squarecb",
    "river-exp3",
)
"""Players that are shown before others, one of each kind, whatever their results."""


@dataclass(frozen=True)
class Yardstick:
    """What regret is measured in, game by game.

    Attributes
    ----------
    words : str
    sizes, errors : dict of str to float
        By game, with their standard errors.
    player : str or None
        Whose regret it is; none where it is the rounds.
    """

    words: str
    sizes: dict[str, float]
    errors: dict[str, float]
    player: str | None = None


@dataclass(frozen=True)
class Standing:
    """One player in all of some games.

    Attributes
    ----------
    player : PlayerSpec
    shares, errors : dict of str to float
        Mean regret in units of the yardstick, by game, and its standard error.
    """

    player: PlayerSpec
    shares: dict[str, float]
    errors: dict[str, float]

    @property
    def worst_game(self) -> str:
        """Where its share is largest."""
        return max(self.shares, key=lambda game: self.shares[game])

    @property
    def worst(self) -> float:
        """Its largest share."""
        return self.shares[self.worst_game]

    def median(self, games: Sequence[Game]) -> float:
        """Of its shares in some games."""
        return median(self.shares[game.name] for game in games)


def picture_games(results: ArenaResults, *, whole: bool = False) -> list[Game]:
    """Games of the picture: those on which nothing was tuned, where there are any, or all of them."""
    unseen = [game for game in results.games if game.family != "reported"]
    return list(results.games) if whole or not unseen else unseen


def yardstick(results: ArenaResults, games: Sequence[Game]) -> Yardstick:
    """The regret of uniform play where it was played and is positive in all of the games, otherwise the rounds."""
    if UNIFORM in {spec.slug for spec in results.players}:
        entries = {game.name: results.entry(game.name, UNIFORM) for game in games}
        if all(entry.finished and entry.mean > 0 for entry in entries.values()):
            return Yardstick(
                "uniform play's regret",
                {name: entry.mean for name, entry in entries.items()},
                {name: entry.error for name, entry in entries.items()},
                UNIFORM,
            )
    any_player = results.players[0].slug
    rounds = {game.name: float(results.entry(game.name, any_player).rounds) for game in games}
    return Yardstick("the number of rounds", rounds, dict.fromkeys(rounds, 0.0))


def standings(results: ArenaResults, games: Sequence[Game]) -> list[Standing]:
    """Players that finished all of the games and heard only their own losses; the smallest worst case first.

    Examples
    --------
    >>> import tempfile
    >>> from koloss import arena
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = arena.run(
    ...         ["stationary"], ["uniform", "gp-ucb"], out=folder, rounds=200, runs=2, jobs=1
    ...     )
    >>> [(s.player.slug, s.worst_game) for s in standings(found, found.games)]
    [('gp-ucb', 'stationary'), ('uniform', 'stationary')]
    """
    unit = yardstick(results, games)
    found = []
    for spec in results.players:
        entries = {game.name: results.entry(game.name, spec.slug) for game in games}
        if spec.full or not all(entry.finished for entry in entries.values()):
            continue
        shares = {name: entry.mean / unit.sizes[name] for name, entry in entries.items()}
        errors = {
            name: math.hypot(entry.error, shares[name] * unit.errors[name]) / unit.sizes[name]
            for name, entry in entries.items()
        }
        if spec.slug == unit.player:
            errors = dict.fromkeys(errors, 0.0)
        found.append(Standing(spec, shares, errors))
    return sorted(found, key=lambda standing: standing.worst)


@dataclass(frozen=True)
class Line:
    """One player over all games, finished or not.

    Attributes
    ----------
    player : PlayerSpec
    done, games : int
        Games in which it finished all runs, and all of them.
    best : int
        Games in which its mean regret is the smallest.
    median, worst : float
        Of the shares in the games it finished; not a number where there are none.
    worst_game : str
    seconds : float
        Time of a round, the median over the kind games: in hostile ones much is computed when the adversary looks.
    """

    player: PlayerSpec
    done: int
    games: int
    best: int
    median: float
    worst: float
    worst_game: str
    seconds: float


def overview(results: ArenaResults) -> list[Line]:
    """A line for every player that is installed, in the order of the table."""
    unit, lines = yardstick(results, results.games), []
    for spec in results.present:
        row = results.row(spec.slug)
        done = [entry for entry in row if entry.finished]
        shares = {entry.game: entry.mean / unit.sizes[entry.game] for entry in done}
        worst = max(shares, key=lambda game: shares[game], default="")
        times = [
            entry.round_seconds
            for game, entry in zip(results.games, row, strict=True)
            if game.weather == "kind" and entry.done
        ]
        lines.append(
            Line(
                player=spec,
                done=len(done),
                games=len(row),
                best=sum(results.best(game.name) == spec.slug for game in results.games),
                median=median(shares.values()) if shares else math.nan,
                worst=shares.get(worst, math.nan),
                worst_game=worst,
                seconds=median(times) if times else math.nan,
            )
        )
    return lines


def shown(found: Sequence[Standing]) -> list[Standing]:
    """Those of the picture: whoever has the smallest worst case, then one of each kind, then others, nine at most."""
    order = {slug: k for k, slug in enumerate(FIRST)}
    by_kind = sorted(found, key=lambda s: order.get(s.player.slug, len(FIRST)))
    chosen = list(dict.fromkeys(s.player.slug for s in [*found[:1], *by_kind]))[:MOST]
    return [s for s in found if s.player.slug in chosen]


# What is said of them.


def headline(found: Sequence[Standing], games: Sequence[Game]) -> str:
    """Who has the smallest worst case, where that is clear: by more than twice the standard error of the difference.

    That may be up to three players, each clearly below each of the others.
    """
    scene = f"{_count(len(found), 'player')} in {_count(len(games), 'game')}"
    for k in range(1, min(4, len(found))):
        if all(_clearly_below(one, other) for one in found[:k] for other in found[k:]):
            case = "case" if k == 1 else "cases"
            return f"{_names([s.player for s in found[:k]])}: the smallest worst {case} of {scene}"
    return f"Worst cases of {scene}"


def caption(results: ArenaResults, games: Sequence[Game]) -> str:
    """What the picture shows, in words and numbers."""
    unit, found = yardstick(results, games), standings(results, games)
    seen = shown(found)
    kind = [game for game in games if game.weather == "kind"]
    runs = max(len(entry.runs) for entry in results.entries.values())
    scene = f"{len(kind)} kind and {len(games) - len(kind)} hostile games"
    words = [
        f"Mean regret of {_count(runs, 'run')} as a share of {unit.words} in the same game; {scene}."
    ]
    if seen:
        worst = [f"{s.player.name} {s.worst:.2f} ({s.worst_game})" for s in seen]
        words.append(f"The worst game of each player: {'; '.join(worst)}.")
    if seen and kind:
        ranked = sorted(seen, key=lambda s: s.median(kind))
        middle = [f"{s.player.name} {s.median(kind):.2f}" for s in ranked]
        words.append(f"The median of the kind games: {'; '.join(middle)}.")
    if not seen:
        words.append("No player finished every game.")
    if results.shortened is not None:
        words.append(f"Games were shortened to {results.shortened:,} rounds at most.")
    if results.missing:
        words.append(f"Not installed: {_names(results.missing)}.")
    full = [spec for spec in results.present if spec.full]
    if full:
        words.append(f"Told the losses of all actions, so not compared: {_names(full)}.")
    unfinished = [
        spec
        for spec in results.present
        if not spec.full and not all(results.entry(game.name, spec.slug).finished for game in games)
    ]
    if unfinished:
        words.append(f"Did not finish every game, so not shown: {_names(unfinished)}.")
    others = [s.player for s in found if s not in seen]
    if others:
        words.append(f"In the tables only: {_names(others)}.")
    return " ".join(words)


def _clearly_below(one: Standing, other: Standing) -> bool:
    error = math.hypot(one.errors[one.worst_game], other.errors[other.worst_game])
    return one.worst + 2 * error < other.worst  # not where an error is unknown


def _names(specs: Sequence[PlayerSpec]) -> str:
    return "; ".join(spec.name for spec in specs)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
