"""What is in results.json, as types.

The results of `koloss.experiments.results` have attributes of these names. It is plain JSON in UTF-8; a number that does not exist
is null. A field keeps its meaning as long as `schema` stays the same; new ones may be added.

Regret after t rounds is *running* regret, against the best single action of these t rounds; only `hindsight` is against the best
action of the whole game. At the end both are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

SCHEMA = 1


class Band(Struct):
    """A mean over the runs, and the ends of its confidence band (Student's t)."""

    mean: float | None
    low: float | None
    high: float | None
    level: float


class CurveLines(Struct):
    """Lists of equal length, round by round."""

    rounds: list[int]
    mean: list[float]  # regret against the best action so far
    low: list[float]
    high: list[float]
    hindsight: list[float]  # mean regret against the best action of the whole game
    guarantee: list[float]
    uniform: list[float]


class CurveEntry(Struct):
    """An entry of `experiments`: one learner in one experiment."""

    experiment: str
    title: str  # of the experiment, for people
    name: str  # of the experiment; with several learners, experiment/learner
    learner: str
    rounds: int  # of a game
    runs: int  # independent games
    regret: Band  # at the end
    exponent: float | None
    """Growth of the mean regret: slope of its logarithm against that of the round, on the second half of the rounds; null
    where the mean regret is not positive throughout."""
    exponent_error: float | None  # its standard error, by leaving out one run at a time
    guarantee: float | None  # what the theorem promises, the mean over the runs
    guarantee_valid: bool
    """Whether it is proved for the settings played and of the regret measured, and no assumption is known to fail, in all runs."""
    guarantee_details: dict[str, Any]
    """Of the first run: `statement`, `regret` ("pseudo" or "hindsight": which it bounds), `confidence` (null: in expectation),
    `unit`, `terms` by name, `total`, `trivial` (what no player can exceed), `informative`, `valid`, `assumptions` (`key`,
    `text`, and `holds`: true, false, "so far", or null for not checked), `notes`."""
    above_guarantee: bool  # whether the mean was above a valid guarantee in any round of `curve`
    paper_guarantee: dict[str, Any] | None
    """What the paper prints for the game at its own tuning, with the keys of `guarantee_details` and `of_this_tuning`, whether
    that is the tuning played; null where it prints none."""
    certificate: str  # why no action is better: "exhaustive", "dual", or "local only" (not proved)
    rank: int | None  # of bandit learners: number of features,
    epsilon: float | None  # and their certified error
    seconds: float  # computing time of all runs together: everything,
    learner_seconds: float  # and the learner's part
    failures: dict[str, str]  # runs that failed, by number: in which round, and why
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


class ResultsFile(Struct, kw_only=True):
    """results.json."""

    schema: int
    version: str  # of Koloss
    seed: int  # that everything follows from
    seconds: float  # wall-clock time, without the report
    machine: dict[str, Any]
    experiments: list[CurveEntry]
    pictures: list[dict[str, Any]]
    """Samplers that were looked at: `name`, `title`, `draws`, `chains`, `r_hat`, `effective_size` (the worst of the coordinates),
    `acceptance`, `mean_loss` and its `error`, and `mean_loss_exact`, the same by quadrature."""
    dimensions: list[Dimension]
    failures: dict[str, dict[str, str]]  # by experiment: learners all of whose runs failed, and why


def read(path: str | Path) -> ResultsFile:
    """What a results.json says; a file that is not as these types say is a `msgspec.ValidationError`."""
    return msgspec.json.decode(Path(path).read_bytes(), type=ResultsFile)
