"""What runs say, for a page and for a program: experiments as curves, the arena as players in games.

There are two regrets. *Running* regret after t rounds is against the best action of these t rounds; it is what growth is
measured on. Regret in *hindsight* is against the best action of the whole game. At the end they are the same.
"""

from __future__ import annotations

import abc
import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from koloss._version import __version__
from koloss.core.files import write_text
from koloss.experiments import files
from koloss.experiments.files import Dimension
from koloss.experiments.picture import PictureRun
from koloss.experiments.spec import Experiment
from koloss.games.store import version_of
from koloss.games.trace import Ended, band

if TYPE_CHECKING:
    from koloss.experiments.arena.base import Game, PlayerSpec

S = TypeVar("S", bound=msgspec.Struct)

LEVEL = 0.95
"""Of the bands around mean curves."""


def machine() -> dict[str, Any]:
    """What the numbers were computed with."""
    import scipy

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "koloss": __version__,
    }


class Reported(abc.ABC):
    """What a report needs, and the file that keeps its numbers."""

    filename: str
    seed: int
    seconds: float
    machine: dict[str, Any]

    @abc.abstractmethod
    def file(self) -> files.Written:
        """The contents of the file."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.file()))
        return plain

    def write(self, out: str | Path) -> Path:
        """Write results.json or arena.json into a folder."""
        path = Path(out) / self.filename
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_text(path, text + "\n")
        return path

    def _top(self) -> dict[str, Any]:
        written = {name: getattr(self, name) for name in ("seed", "seconds", "machine")}
        return {"schema": files.SCHEMA, "version": __version__, **written}


# Experiments.


@dataclass(frozen=True, eq=False)
class Curve:
    """The runs of one learner in one experiment."""

    experiment: str
    title: str  # of the experiment
    name: str  # of the experiment, and of the learner where there are several
    learner: str
    rounds: int
    runs: int
    at: Any  # some rounds t, an array of shape (k,), as are the following
    mean: Any  # running regret after t rounds, the mean over the runs
    low: Any  # the ends of its band
    high: Any
    hindsight: Any  # mean regret after t rounds against the best action of the whole game
    bound: Any  # the guarantee, the mean over the runs
    uniform: Any  # mean running regret of playing uniformly at random
    exponent: float  # growth of the mean running regret, fitted on the second half of the rounds
    exponent_error: float
    promise: dict[str, Any]  # the guarantee at the end, of the first run
    valid: bool  # whether it was valid in all runs
    printed: dict[str, Any] | None  # the paper's bound for the same game, as printed
    certificate: str  # of the best action in hindsight
    rank: int | None  # features of the learner, where it has any
    epsilon: float | None  # their error
    seconds: float  # all runs together
    learner_seconds: float  # asking and telling alone
    failures: dict[int, str] = field(default_factory=dict)  # by the number of the run

    @property
    def above(self) -> bool:
        """Whether the mean regret was anywhere above a valid guarantee."""
        return self.valid and bool(np.any(self.mean > self.bound))

    def entry(self) -> files.CurveEntry:
        """What results.json says of it."""
        mean, low, high = (float(line[-1]) for line in (self.mean, self.low, self.high))
        lines = ("mean", "low", "high", "hindsight", "uniform")
        return _entry(
            files.CurveEntry,
            self,
            regret=files.Band(mean, low, high, LEVEL),
            guarantee=float(self.bound[-1]),
            guarantee_valid=self.valid,
            guarantee_details=self.promise,
            above_guarantee=self.above,
            paper_guarantee=self.printed,
            failures={str(k): text for k, text in self.failures.items()},
            curve=files.CurveLines(
                rounds=[int(t) for t in self.at],
                guarantee=rounded(self.bound),
                **{name: rounded(getattr(self, name)) for name in lines},
            ),
        )


@dataclass(frozen=True, eq=False)
class Result:
    """One experiment: its curves, or its picture, and the runs of learners that have no curve because all failed."""

    experiment: Experiment
    curves: tuple[Curve, ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    picture: PictureRun | None = None
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Results(Reported):
    """What a report of experiments needs."""

    filename = "results.json"

    results: tuple[Result, ...]
    seed: int
    seconds: float  # wall-clock time of the last call
    machine: dict[str, Any]

    @property
    def curves(self) -> list[Curve]:
        """All curves, in order."""
        return [curve for result in self.results for curve in result.curves]

    def file(self) -> files.ResultsFile:
        return files.ResultsFile(
            **self._top(),
            experiments=[curve.entry() for curve in self.curves],
            pictures=[
                {"name": result.experiment.name, "title": result.experiment.title, **result.picture.facts}
                for result in self.results
                if result.picture is not None
            ],
            dimensions=[d for result in self.results for d in result.dimensions],
            failures={result.experiment.name: result.failures for result in self.results if result.failures},
        )  # fmt: skip


# The arena.


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
    """total, statement, valid, informative, rank, epsilon, exceeded."""
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
        """The guarantee: `total` is the largest of all runs, `valid` whether it was in all of them."""
        promises = [run.guarantee for run in self.done if run.guarantee is not None]
        if not promises or any(promise["total"] is None for promise in promises):
            return None
        total = max(promise["total"] for promise in promises)
        valid = all(promise["valid"] for promise in promises)
        exceeded = sum(promise["exceeded"] for promise in promises)
        together = {"total": total, "valid": valid, "exceeded": exceeded}
        return {**promises[0], **together, "above": valid and self.mean > total}

    def entry(self) -> files.ArenaEntry:
        """What arena.json says of it."""
        at, *lines = self.curve() if self.done else ((), (), (), ())
        running = np.mean([run.running for run in self.done], axis=0) if self.done else ()
        return _entry(
            files.ArenaEntry,
            self,
            regret=_entry(files.Regret, self),
            guarantee=self.bound(),
            curve=files.ArenaLines([int(t) for t in at], *map(rounded, (*lines, running))),
            runs=[_entry(files.RunEntry, run, seeds=list(run.seeds)) for run in self.runs],
        )


@dataclass(frozen=True, eq=False)
class ArenaResults(Reported):
    """What a report of the arena needs."""

    filename = "arena.json"

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

    def file(self) -> files.ArenaFile:
        return files.ArenaFile(
            **self._top(),
            limit=self.limit,
            shortened=self.shortened,
            games=[
                _entry(
                    files.GameEntry,
                    game,
                    actions=len(game.points),
                    dimension=int(game.points.shape[1]),
                    kernel=repr(game.kernel),
                    full_rounds=game.rounds,
                    loss_range=list(game.loss_range),
                    unknown=list(game.unknown),
                    late=game.delays is not None,
                    best=self.best(game.name),
                    contexts=None if game.contexts is None else len(game.contexts.X),
                )
                for game in self.games
            ],
            players=[
                _entry(
                    files.PlayerEntry,
                    spec,
                    needs=list(spec.needs),
                    package=spec.package or None,
                    package_version=version_of(spec.package) if spec.package else None,
                )
                for spec in self.players
            ],
            results=[entry.entry() for entry in self.entries.values()],
        )


def _entry(kind: type[S], source: Any, **others: Any) -> S:
    """An entry of a file: what it has in common with the source, and the others."""
    names = [name for name in kind.__struct_fields__ if name not in others]
    return kind(**others, **{name: getattr(source, name) for name in names})


def _unaware(spec: PlayerSpec) -> PlayerSpec:
    """The same, called what it is in games with contexts."""
    return (
        spec if spec.where == "contexts" else replace(spec, name=f"{spec.name}, without contexts")
    )


def rounded(values: Any) -> list[float]:
    """Six digits, so that files stay small."""
    return [float(f"{value:.6g}") for value in values]
