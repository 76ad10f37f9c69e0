"""What the runs of the arena say: for every game and player the regret and its error, the time, the failures; arena.json."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import koloss
from koloss.experiments.arena.base import Game, PlayerSpec
from koloss.experiments.arena.play import Run, version_of
from koloss.games.trace import band

LEVEL = 0.95
"""Of the bands around mean curves."""


def _machine() -> dict[str, Any]:
    from koloss.experiments.results import machine

    return machine()


@dataclass(frozen=True, eq=False)
class Entry:
    """All runs of one player in one game.

    Attributes
    ----------
    game, player : str
    runs : tuple of Run
        In the order of their numbers.
    """

    game: str
    player: str
    runs: tuple[Run, ...]

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
    def failures(self) -> list[Run]:
        """Runs that were not played to the end."""
        return [run for run in self.runs if run.status != "done"]

    @property
    def rounds(self) -> int:
        """Of a run."""
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
        """Time of asking and telling in a round, of all rounds that were played.

        In a hostile game it is without what the player computes when the adversary looks at its law, which may be most.
        """
        played = sum(run.played for run in self.runs)
        return sum(run.seconds for run in self.runs) / played if played else math.nan

    @property
    def _regrets(self) -> list[float]:
        return [run.regret for run in self.done]

    def curve(self) -> tuple[Any, Any, Any, Any]:
        """Rounds, and the mean regret of the runs done with the ends of its 95 % band (Student's t)."""
        at = np.asarray(self.done[0].at)
        return at, *band(np.array([run.curve for run in self.done]), LEVEL)

    def bound(self) -> dict[str, Any] | None:
        """The guarantee: `total` is the largest of all runs, `valid` whether it was in all of them."""
        found = [run.guarantee for run in self.done if run.guarantee is not None]
        if not found or any(one["total"] is None for one in found):
            return None
        total, valid = max(one["total"] for one in found), all(one["valid"] for one in found)
        return {
            **found[0],
            "total": total,
            "valid": valid,
            "exceeded": sum(one["exceeded"] for one in found),
            "above": valid and self.mean > total,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain data for arena.json."""
        at, mean, low, high = self.curve() if self.done else ((), (), (), ())
        return {
            "game": self.game,
            "player": self.player,
            "rounds": self.rounds,
            "finished": self.finished,
            "regret": {
                "mean": _number(self.mean),
                "error": _number(self.error),
                "worst": _number(self.worst),
            },
            "round_seconds": _number(self.round_seconds),
            "guarantee": self.bound(),
            "curve": {
                "rounds": [int(t) for t in at],
                "mean": _list(mean),
                "low": _list(low),
                "high": _list(high),
            },
            "runs": [_run(run) for run in self.runs],
        }


@dataclass(frozen=True, eq=False)
class ArenaResults:
    """Everything that a report needs.

    Attributes
    ----------
    games : tuple of Game
    players : tuple of PlayerSpec
    runs : tuple of Run
    seed : int
    limit : float
        Seconds that a run was given.
    seconds : float
        Wall-clock time of the last call.
    machine : dict
        What the numbers were computed with.
    """

    games: tuple[Game, ...]
    players: tuple[PlayerSpec, ...]
    runs: tuple[Run, ...]
    seed: int = 0
    limit: float = math.inf
    seconds: float = 0.0
    machine: dict[str, Any] = field(default_factory=_machine)

    @cached_property
    def entries(self) -> dict[tuple[str, str], Entry]:
        """By the names of game and player, in the order of both."""
        found: dict[tuple[str, str], list[Run]] = {
            (game.name, spec.slug): [] for game in self.games for spec in self.players
        }
        for run in sorted(self.runs, key=lambda run: run.number):
            found[run.game, run.player].append(run)
        return {key: Entry(*key, tuple(runs)) for key, runs in found.items()}

    def entry(self, game: str, player: str) -> Entry:
        """The runs of a player in a game."""
        return self.entries[game, player]

    def row(self, player: str) -> list[Entry]:
        """The runs of a player in all games."""
        return [self.entries[game.name, player] for game in self.games]

    def best(self, game: str) -> str | None:
        """The player with the smallest mean regret in a game, of those that finished and hear only their own loss."""
        found = {
            spec.slug: entry.mean
            for spec in self.players
            for entry in [self.entry(game, spec.slug)]
            if entry.finished and not spec.full
        }
        return min(found, key=lambda slug: found[slug], default=None)

    @property
    def shortened(self) -> int | None:
        """Most rounds that any game had, where some had fewer than they are made for."""
        played = {
            game.name: self.row(self.players[0].slug)[k].rounds for k, game in enumerate(self.games)
        }
        short = any(played[game.name] < game.rounds for game in self.games)
        return max(played.values()) if short else None

    @property
    def missing(self) -> list[PlayerSpec]:
        """Players whose package is not installed."""
        return [
            spec for spec in self.players if any(entry.missing for entry in self.row(spec.slug))
        ]

    @property
    def present(self) -> list[PlayerSpec]:
        """All others."""
        missing = self.missing
        return [spec for spec in self.players if spec not in missing]

    def to_dict(self) -> dict[str, Any]:
        """The contents of arena.json; docs/arena_schema.md says what they mean."""
        return {
            "schema": 1,
            "version": koloss.__version__,
            "seed": self.seed,
            "limit": _number(self.limit),
            "shortened": self.shortened,
            "games": [
                {
                    "name": game.name,
                    "family": game.family,
                    "weather": game.weather,
                    "summary": game.summary,
                    "actions": len(game.points),
                    "dimension": int(game.points.shape[1]),
                    "kernel": repr(game.kernel),
                    "full_rounds": game.rounds,
                    "source": game.source,
                    "best": self.best(game.name),
                }
                for game in self.games
            ],
            "players": [
                {
                    "name": spec.name,
                    "slug": spec.slug,
                    "summary": spec.summary,
                    "package": spec.package or None,
                    "package_version": version_of(spec.package) if spec.package else None,
                    "full": spec.full,
                }
                for spec in self.players
            ],
            "results": [entry.to_dict() for entry in self.entries.values()],
            "seconds": self.seconds,
            "machine": self.machine,
        }

    def write(self, out: str | Path) -> Path:
        """Write arena.json."""
        path = Path(out) / "arena.json"
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        return path


def _run(run: Run) -> dict[str, Any]:
    """A run without what its entry says, or its file keeps."""
    plain = asdict(run)
    for name in ("game", "player", "rounds", "at", "curve", "digest"):
        del plain[name]
    return {**plain, "limit": _number(run.limit), "seeds": list(run.seeds)}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _list(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
