"""What runs of experiments say, for a page and for a program.

There are two regrets. *Running* regret after t rounds is against the best action of these t rounds; it is what growth is
measured on. Regret in *hindsight* is against the best action of the whole game. At the end they are the same.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from koloss._version import __version__
from koloss.core.files import write_text
from koloss.experiments import files
from koloss.experiments.files import Dimension
from koloss.experiments.picture import PictureRun
from koloss.experiments.spec import Experiment

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
        same = ("experiment", "title", "name", "learner", "rounds", "runs", "exponent", "exponent_error", "certificate",
                "rank", "epsilon", "seconds", "learner_seconds")  # fmt: skip
        return files.CurveEntry(
            **{name: getattr(self, name) for name in same},
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
class Results:
    """What a report of experiments needs."""

    results: tuple[Result, ...]
    seed: int
    seconds: float  # wall-clock time of the last call
    machine: dict[str, Any]

    @property
    def curves(self) -> list[Curve]:
        """All curves, in order."""
        return [curve for result in self.results for curve in result.curves]

    def file(self) -> files.ResultsFile:
        """The contents of results.json."""
        written = {name: getattr(self, name) for name in ("seed", "seconds", "machine")}
        return files.ResultsFile(
            schema=files.SCHEMA,
            version=__version__,
            **written,
            experiments=[curve.entry() for curve in self.curves],
            pictures=[
                {"name": result.experiment.name, "title": result.experiment.title, **result.picture.facts}
                for result in self.results
                if result.picture is not None
            ],
            dimensions=[d for result in self.results for d in result.dimensions],
            failures={result.experiment.name: result.failures for result in self.results if result.failures},
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self.file()))
        return plain

    def write(self, out: str | Path) -> Path:
        """Write results.json into a folder."""
        path = Path(out) / "results.json"
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        write_text(path, text + "\n")
        return path


def rounded(values: Any) -> list[float]:
    """Six digits, so that files stay small."""
    return [float(f"{value:.6g}") for value in values]
