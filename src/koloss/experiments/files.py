"""What is in results.json and arena.json, as types; docs/results_schema.md and docs/arena_schema.md say what it means.

The results of `koloss.experiments.results` have attributes of these names. A number that does not exist is null in the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from koloss.games.trace import Ended

SCHEMA = 1


class Written(Struct, kw_only=True):
    """What both files have at the top."""

    schema: int
    version: str
    seed: int
    seconds: float
    machine: dict[str, Any]


# results.json.


class Band(Struct):
    """A mean and the ends of its band."""

    mean: float | None
    low: float | None
    high: float | None
    level: float


class CurveLines(Struct):
    """`curve`, in results.json."""

    rounds: list[int]
    mean: list[float]  # regret against the best action so far
    low: list[float]
    high: list[float]
    hindsight: list[float]  # mean regret against the best action of the whole game
    guarantee: list[float]
    uniform: list[float]


class CurveEntry(Struct):
    """An entry of `experiments`."""

    experiment: str
    title: str
    name: str
    learner: str
    rounds: int
    runs: int
    regret: Band
    exponent: float | None
    exponent_error: float | None
    guarantee: float | None
    guarantee_valid: bool
    guarantee_details: dict[str, Any]
    above_guarantee: bool
    paper_guarantee: dict[str, Any] | None
    certificate: str
    rank: int | None
    epsilon: float | None
    seconds: float
    learner_seconds: float
    failures: dict[str, str]
    curve: CurveLines


@dataclass(frozen=True)
class Dimension:
    """What the Corollary speaks of, for one kernel: its eigendecay, and rank and guarantee against the horizon."""

    experiment: str
    learner: str
    profile: str  # "polynomial" or "exponential": the envelope that fits the eigenvalues better
    rate: float  # β of it
    corollary: float | None  # growth exponent of the paper's Corollary; none where β is too small
    repaired: (
        float | None
    )  # growth exponent of what is proved for leading features alone (theory B2)
    eigenvalues: list[float]  # the first ones
    horizons: list[int]
    ranks: list[int]  # chosen for each horizon
    bounds: list[float]
    rank_growth: float  # slopes of their logarithms against that of the horizon
    bound_growth: float
    hull: float | None = (
        None  # growth exponents with a ridge, for rank-one losses and for a norm (theory F1)
    )
    norm: float | None = None
    dimensions: list[float] = field(default_factory=list)  # d*: the ranks, where there is no ridge
    dimension_growth: float | None = None


class ResultsFile(Written, kw_only=True):
    """results.json."""

    experiments: list[CurveEntry]
    pictures: list[dict[str, Any]]
    dimensions: list[Dimension]
    failures: dict[str, dict[str, str]]


# arena.json.


class GameEntry(Struct):
    """An entry of `games`."""

    name: str
    family: str
    weather: str
    summary: str
    actions: int
    dimension: int
    kernel: str
    full_rounds: int
    source: str
    best: str | None
    loss_range: list[float]
    unknown: list[str]
    late: bool
    contexts: int | None = None  # files of former versions have none


class PlayerEntry(Struct):
    """An entry of `players`."""

    name: str
    slug: str
    summary: str
    package: str | None
    package_version: str | None
    full: bool
    needs: list[str]
    late: bool
    where: str = "plain"  # files of former versions say nothing of it


class RunEntry(Struct):
    """An entry of `runs`."""

    number: int
    status: Ended
    message: str
    played: int
    regret: float
    loss: float
    best: int | None
    best_loss: float
    seconds: float
    making: float
    limit: float | None
    seeds: list[int]
    guarantee: dict[str, Any] | None
    insured: dict[str, Any] | None


class Regret(Struct):
    """Of the runs that were played to the end."""

    mean: float | None
    error: float | None
    worst: float | None


class ArenaLines(Struct):
    """`curve`, in arena.json."""

    rounds: list[int]
    mean: list[float]  # regret against the best action of the whole game
    low: list[float]
    high: list[float]
    running: list[float]  # mean regret against the best action so far


class ArenaEntry(Struct):
    """An entry of `results`."""

    game: str
    player: str
    rounds: int
    finished: bool
    regret: Regret
    round_seconds: float | None
    guarantee: dict[str, Any] | None
    curve: ArenaLines
    runs: list[RunEntry]


class ArenaFile(Written, kw_only=True):
    """arena.json."""

    limit: float | None
    shortened: int | None
    games: list[GameEntry]
    players: list[PlayerEntry]
    results: list[ArenaEntry]


def read(path: str | Path) -> ResultsFile | ArenaFile:
    """What a results.json or an arena.json says; a file that is not as documented is a `msgspec.ValidationError`."""
    path = Path(path)
    kind: type[Any] = ArenaFile if path.name == "arena.json" else ResultsFile
    contents: ResultsFile | ArenaFile = msgspec.json.decode(path.read_bytes(), type=kind)
    return contents
