"""What runs of the arena say, for a page and for arena.json.

Regret is what the player has paid less what the best fixed action has; in a game with a `floor` less that; in a game with
contexts less what the best mapping from contexts to actions has. *Running* regret after t rounds is against the best action of
these t rounds, regret in *hindsight* against the best one of the whole run. At the end they are the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from arena.base import Game, PlayerSpec
from koloss import __version__
from koloss.core.files import write_text
from koloss.experiments.results import LEVEL, machine, rounded
from koloss.games.store import version_of
from koloss.games.trace import Ended, band

LINES = ("at", "curve", "running")
"""What of a run is not in arena.json: its entry has the means."""


@dataclass(frozen=True)
class Run:
    """What one run of the arena left behind: plain data."""

    game: str
    player: str
    number: int  # k, from 0; the losses of run k of a kind game are the same for all players
    rounds: int  # of the game
    status: Ended = "done"
    message: str = ""  # what happened, where it was not played to the end
    played: int = 0  # rounds that were
    regret: float = 0.0  # of these: the player's loss less that of the best action of all of them
    loss: float = 0.0
    best: int | None = None  # the best action; none where no round was played
    best_loss: float = 0.0
    at: tuple[int, ...] = ()  # some rounds, the last one among them
    curve: tuple[float, ...] = ()  # regret after each of them, in hindsight
    running: tuple[float, ...] = ()  # the same against the best action so far
    seconds: float = 0.0  # asking and telling
    making: float = 0.0  # until the player was made
    limit: float = math.inf  # seconds that it was given, from when the player was made
    seeds: tuple[int, ...] = ()  # of the player, and of the game
    guarantee: dict[str, Any] | None = None
    """total, statement, regret, valid, informative, rank, epsilon, exceeded."""
    insured: dict[str, Any] | None = None  # of an insured learner: alarms, explored, premium


@dataclass(frozen=True, eq=False)
class Entry:
    """All runs of one player in one game."""

    game: str
    player: str
    runs: tuple[Run, ...]  # in the order of their numbers

    @cached_property
    def done(self) -> list[Run]:
        """Runs that were played to the end."""
        return [run for run in self.runs if run.status == "done"]

    @property
    def finished(self) -> bool:
        """Whether all were; only then is the player compared with others."""
        return len(self.done) == len(self.runs)

    @property
    def missing(self) -> bool:
        """Whether the player's package is not installed."""
        return any(run.status == "missing" for run in self.runs)

    @property
    def cannot(self) -> bool:
        """Whether the game is not for the player."""
        return any(run.status == "cannot" for run in self.runs)

    @property
    def failures(self) -> list[Run]:
        """Runs that were not played to the end."""
        return [run for run in self.runs if run.status != "done"]

    @property
    def rounds(self) -> int:
        """Rounds of the game."""
        return self.runs[0].rounds

    @cached_property
    def mean(self) -> float:
        """Regret of the runs done, on average; not a number where there are none."""
        return float(np.mean(self._regrets)) if self.done else math.nan

    @cached_property
    def error(self) -> float:
        """Standard error of the mean; not a number where there are fewer than two runs."""
        if len(self.done) < 2:
            return math.nan
        return float(np.std(self._regrets, ddof=1)) / math.sqrt(len(self.done))

    @cached_property
    def worst(self) -> float:
        """Largest regret of the runs done."""
        return max(self._regrets, default=math.nan)

    @cached_property
    def round_seconds(self) -> float:
        """Time of asking and telling per round, over all rounds that were played.

        In a hostile game it is without what the player computes when the adversary looks at its law, which may be most.
        """
        played = sum(run.played for run in self.runs)
        seconds = math.fsum(run.seconds for run in self.runs)  # to the same bit on every Python
        return seconds / played if played else math.nan

    @property
    def _regrets(self) -> list[float]:
        return [run.regret for run in self.done]

    def curve(self) -> tuple[Any, Any, Any, Any]:
        """Rounds, and the mean regret of the runs done with the ends of its 95 % band (Student's t)."""
        at = np.asarray(self.done[0].at)
        return at, *band(np.array([run.curve for run in self.done]), LEVEL)

    def bound(self) -> dict[str, Any] | None:
        """The guarantee: `total` is the largest of all runs, `valid` whether it was in all of them.

        `exceeded` counts the runs with a larger regret, of those in which it is valid; `above` says whether the mean is above
        a valid bound. Where the adversary looks at the player a bound on the pseudo-regret is not valid for this regret.
        """
        promises = [run.guarantee for run in self.done if run.guarantee is not None]
        if not promises or any(promise["total"] is None for promise in promises):
            return None
        total = max(promise["total"] for promise in promises)
        valid = all(promise["valid"] for promise in promises)
        exceeded = sum(promise["exceeded"] for promise in promises)
        together = {"total": total, "valid": valid, "exceeded": exceeded}
        return {**promises[0], **together, "above": valid and self.mean > total}

    def to_dict(self) -> dict[str, Any]:
        """An entry of `results` in arena.json."""
        at, *lines = self.curve() if self.done else ((), (), (), ())
        running = np.mean([run.running for run in self.done], axis=0) if self.done else ()
        names = "mean", "low", "high", "running"
        values = map(rounded, (*lines, running))
        return {
            **_of(self, "game", "player", "rounds", "finished", "round_seconds"),
            "regret": _of(self, "mean", "error", "worst"),
            "guarantee": self.bound(),
            "curve": {"rounds": [int(t) for t in at], **dict(zip(names, values, strict=True))},
            "runs": [
                _of(run, *(f.name for f in fields(run)[2:] if f.name not in ("rounds", *LINES)))
                for run in self.runs
            ],
        }


@dataclass(frozen=True, eq=False)
class ArenaResults:
    """What a page of the arena needs."""

    games: tuple[Game, ...]
    players: tuple[PlayerSpec, ...]
    runs: tuple[Run, ...]
    seed: int = 0
    limit: float = math.inf  # seconds that a run was given
    seconds: float = 0.0  # wall-clock time of the last call
    machine: dict[str, Any] = field(default_factory=machine)

    @cached_property
    def entries(self) -> dict[tuple[str, str], Entry]:
        """By the names of game and player, in the order of both; where the player has a place in the game."""
        keys = [(game.name, spec.slug) for game in self.games for spec in self.players if spec.plays(game)]  # fmt: skip
        runs: dict[tuple[str, str], list[Run]] = {key: [] for key in keys}
        for run in sorted(self.runs, key=lambda run: run.number):
            runs[run.game, run.player].append(run)
        return {key: Entry(*key, tuple(these)) for key, these in runs.items()}

    def entry(self, game: str, player: str) -> Entry:
        """The runs of a player in a game."""
        return self.entries[game, player]

    def row(self, player: str) -> list[Entry]:
        """The runs of a player in all games."""
        return [entry for entry in self.entries.values() if entry.player == player]

    @cached_property
    def parts(self) -> list[ArenaResults]:
        """Games without contexts and those with them, each with its players: no player is compared over both."""
        parts = []
        for games in (
            tuple(game for game in self.games if game.contexts is None),
            tuple(game for game in self.games if game.contexts is not None),
        ):
            names = {game.name for game in games}
            runs = tuple(run for run in self.runs if run.game in names)
            there = {run.player for run in runs}
            players = [spec for spec in self.players if spec.slug in there]
            if games and games[0].contexts is not None:
                players = [_unaware(spec) for spec in players]
            parts += (
                [replace(self, games=games, players=tuple(players), runs=runs)] if games else []
            )
        return parts

    def part(self, games: Sequence[Game]) -> ArenaResults:
        """The part that some games are in; all of it where there are none."""
        names = {game.name for game in games}
        where = [part for part in self.parts if any(game.name in names for game in part.games)]
        return where[0] if where else self

    def best(self, game: str) -> str | None:
        """The player with the smallest mean regret in a game, of those that finished and hear only their own loss."""
        means = {
            spec.slug: entry.mean
            for spec in self.players
            for entry in [self.entries.get((game, spec.slug))]
            if entry is not None and entry.finished and not spec.full
        }
        return min(means, key=lambda slug: means[slug], default=None)

    @property
    def shortened(self) -> int | None:
        """Most rounds that any game had, where some had fewer than they are made for."""
        rounds = {entry.game: entry.rounds for entry in self.entries.values()}
        short = any(rounds[game.name] < game.rounds for game in self.games)
        return max(rounds.values()) if short else None

    @property
    def missing(self) -> list[PlayerSpec]:
        """Players whose package is not installed."""
        return [s for s in self.players if any(entry.missing for entry in self.row(s.slug))]

    @property
    def present(self) -> list[PlayerSpec]:
        """Players that could play."""
        missing = self.missing
        return [spec for spec in self.players if spec not in missing]

    def to_dict(self) -> dict[str, Any]:
        """What is in arena.json: plain data, where a number that does not exist is None. Names are those of the types here."""
        games = [
            {
                **_of(game, "name", "family", "weather", "summary", "source", "loss_range", "unknown"),
                "actions": len(game.points),
                "dimension": int(game.points.shape[1]),
                "kernel": repr(game.kernel),
                "full_rounds": game.rounds,
                "late": game.delays is not None,
                "contexts": None if game.contexts is None else len(game.contexts.X),
                "best": self.best(game.name),
            }
            for game in self.games
        ]  # fmt: skip
        players = [
            {
                **_of(spec, "name", "slug", "summary", "full", "needs", "late", "where"),
                "package": spec.package or None,
                "package_version": version_of(spec.package) if spec.package else None,
            }
            for spec in self.players
        ]
        return {
            "schema": 1,
            "version": __version__,
            **_of(self, "seed", "seconds", "machine", "limit", "shortened"),
            "games": games,
            "players": players,
            "results": [entry.to_dict() for entry in self.entries.values()],
        }

    def write(self, out: str | Path) -> Path:
        """Write arena.json into a folder."""
        path = Path(out) / "arena.json"
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_text(path, text + "\n")
        return path


def _of(source: Any, *names: str) -> dict[str, Any]:
    """Some attributes, as plain data."""
    return {name: _plain(getattr(source, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _unaware(spec: PlayerSpec) -> PlayerSpec:
    """The same, called what it is in games with contexts."""
    return (
        spec if spec.where == "contexts" else replace(spec, name=f"{spec.name}, without contexts")
    )
