"""What runs of experiments say, for a page and for a program.

There are two regrets. *Running* regret after t rounds is against the best action of these t rounds; it is what growth is
measured on. Regret in *hindsight* is against the best action of the whole game. At the end they are the same.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from koloss._version import __version__
from koloss.core.files import write_text
from koloss.errors import KolossError
from koloss.experiments.specs import Experiment, LearnerSpec, actions_of, kernel_of, learner_of
from koloss.games.play import describe
from koloss.games.store import Job
from koloss.games.trace import Packed, Trace, band, exponent

SCHEMA = 1
"""Of results.json: as long as it stays the same, keys keep their meaning; new ones may be added."""

LEVEL = 0.95
"""Of the bands around mean curves."""

EIGENVALUES = 100
"""Of a kernel, that are kept for the figure."""


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

    def to_dict(self) -> dict[str, Any]:
        """What results.json says of it.

        "regret" is running regret at the end, "guarantee" the mean of the guarantees, "guarantee_details" that of the first run
        (as `bounds` gives it), and "paper_guarantee" what the paper prints for the game at its own tuning, and whether that is
        the tuning played. "seconds" is the computing time of all runs, "learner_seconds" the learner's part.
        """
        mean, low, high = (float(line[-1]) for line in (self.mean, self.low, self.high))
        first = ("experiment", "title", "name", "learner", "rounds", "runs")
        last = ("certificate", "rank", "epsilon", "seconds", "learner_seconds")
        lines = {"mean": self.mean, "low": self.low, "high": self.high, "hindsight": self.hindsight,
                 "guarantee": self.bound, "uniform": self.uniform}  # fmt: skip
        return {
            **{name: getattr(self, name) for name in first},
            "regret": {"mean": mean, "low": low, "high": high, "level": LEVEL},
            "exponent": self.exponent,
            "exponent_error": self.exponent_error,
            "guarantee": float(self.bound[-1]),
            "guarantee_valid": self.valid,
            "guarantee_details": self.promise,
            "above_guarantee": self.above,
            "paper_guarantee": self.printed,
            **{name: getattr(self, name) for name in last},
            "failures": {str(k): text for k, text in self.failures.items()},
            "curve": {
                "rounds": self.at.tolist(),
                **{k: rounded(line) for k, line in lines.items()},
            },
        }


@dataclass(frozen=True)
class Dimension:
    """What the Corollary speaks of, for one kernel: its eigendecay, and rank and guarantee against the horizon."""

    experiment: str
    learner: str
    profile: str  # "polynomial" or "exponential": the envelope that fits the eigenvalues better
    rate: float  # β of it
    corollary: float | None  # growth exponent of the paper's Corollary; none where β is too small
    repaired: float | None  # that of what is proved for leading features alone (theory B2)
    eigenvalues: list[float]  # the first ones
    horizons: list[int]
    ranks: list[int]  # chosen for each horizon
    bounds: list[float]
    rank_growth: float  # slopes of their logarithms against that of the horizon
    bound_growth: float
    hull: float | None  # those with a ridge, for rank-one losses and for a norm (theory F1)
    norm: float | None
    dimensions: list[float]  # d*: the ranks, where there is no ridge
    dimension_growth: float


@dataclass(frozen=True, eq=False)
class PictureRun:
    """A sample, and what can be said of it."""

    centers: Any  # the z_i, of shape (k, 2)
    points: Any  # the draws, of shape (draws, 2)
    density: Any  # exp(-η Σ K), not normalised, of shape (cells, cells); NaN outside the actions
    edges: Any  # coordinates of the cells' centres, of shape (cells,)
    facts: dict[str, Any]
    """draws, chains, r_hat, effective_size, acceptance, mean_loss, its error, and mean_loss_exact by quadrature."""

    def pack(self) -> Packed:
        """As the file of a run."""
        arrays = {name: getattr(self, name) for name in ("centers", "points", "density", "edges")}
        facts = {"picture": self.facts}
        return Packed({"ended": "done", "message": "", "facts": facts}, arrays)

    @classmethod
    def unpack(cls, packed: Packed) -> PictureRun:
        """The picture that was packed."""
        return cls(**packed.arrays, facts=packed.plain["facts"]["picture"])


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

    def to_dict(self) -> dict[str, Any]:
        """The contents of results.json; a number that does not exist is None."""
        plain = {
            "schema": SCHEMA,
            "version": __version__,
            **{name: getattr(self, name) for name in ("seed", "seconds", "machine")},
            "experiments": [curve.to_dict() for curve in self.curves],
            "pictures": [
                {"name": result.experiment.name, "title": result.experiment.title, **result.picture.facts}
                for result in self.results
                if result.picture is not None
            ],
            "dimensions": [asdict(d) for result in self.results for d in result.dimensions],
            "failures": {r.experiment.name: r.failures for r in self.results if r.failures},
        }  # fmt: skip
        return finite(plain)  # type: ignore[no-any-return]

    def write(self, out: str | Path) -> Path:
        """Write results.json into a folder."""
        return write_json(Path(out) / "results.json", self.to_dict(), indent=1)


def write_json(path: Path, plain: dict[str, Any], indent: int) -> Path:
    """Write plain data, all of whose numbers are finite, to a file."""
    text = json.dumps(plain, indent=indent, allow_nan=False, ensure_ascii=False)
    write_text(path, text + "\n")
    return path


def finite(plain: Any) -> Any:
    """Plain data with None for numbers that JSON does not have."""
    if isinstance(plain, dict):
        return {key: finite(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def rounded(values: Any) -> list[float]:
    """Six digits, so that files stay small."""
    return [float(f"{value:.6g}") for value in values]


# From the files of runs.


def summarise(
    experiments: Sequence[Experiment], jobs: Sequence[Job], runs: Sequence[Packed], *, seed: int, seconds: float = 0.0
) -> Results:  # fmt: skip
    """What the runs of some jobs say."""
    by_player: dict[tuple[str, str], dict[int, Packed]] = {}
    for job, run in zip(jobs, runs, strict=True):
        by_player.setdefault((job.game, job.player), {})[job.number] = run
    results = []
    for experiment in experiments:
        if experiment.picture is not None:
            run = by_player[experiment.name, "picture"][0]
            if run.plain["ended"] == "done":
                results.append(Result(experiment, picture=PictureRun.unpack(run)))
            else:
                results.append(Result(experiment, failures={"picture": run.plain["message"]}))
            continue
        curves, lost = list[Curve](), dict[str, str]()
        for learner in experiment.learners:
            these = by_player[experiment.name, learner.slug]
            traces = {k: Trace.unpack(run) for k, run in these.items()}
            done = [trace for trace in traces.values() if trace.ended == "done"]
            failed = {k: trace.message for k, trace in traces.items() if trace.ended != "done"}
            wrong = {k: text.removeprefix("failed").lstrip(": ") for k, text in failed.items()}
            if done:
                curves.append(_curve(experiment, learner, done, wrong))
            else:
                lost |= {f"{learner.name}, run {k}": text for k, text in wrong.items()}
        dimensions = list[Dimension]()
        if experiment.horizons:
            try:
                dimensions = _dimensions(experiment)
            except (ArithmeticError, ValueError, KolossError) as error:  # the runs are not lost
                lost["dimension"] = f"{type(error).__name__}: {error}"
        results.append(Result(experiment, tuple(curves), tuple(dimensions), failures=lost))
    return Results(tuple(results), seed, seconds, machine())


def _curve(
    experiment: Experiment, learner: LearnerSpec, traces: Sequence[Trace], failures: dict[int, str]
) -> Curve:
    at, regret = traces[0].checkpoints, np.stack([trace.running for trace in traces])
    mean, low, high = band(regret, LEVEL)
    slope, error = exponent(at, regret)
    several = len(experiment.learners) > 1
    certificates = [trace.certificate for trace in traces]
    facts: list[dict[str, Any]] = [dict(trace.facts) for trace in traces]
    return Curve(
        experiment=experiment.name,
        title=experiment.title,
        name=f"{experiment.name}/{learner.slug}" if several else experiment.name,
        learner=learner.name,
        rounds=int(at[-1]),
        runs=len(traces),
        at=at,
        mean=mean,
        low=low,
        high=high,
        hindsight=np.mean([trace.regret for trace in traces], axis=0),
        bound=np.mean([trace.bound for trace in traces], axis=0),
        uniform=np.mean([trace.uniform for trace in traces], axis=0),
        exponent=slope,
        exponent_error=error,
        promise=facts[0]["promise"],
        valid=all(trace.valid for trace in traces),
        printed=printed_bound(experiment, learner, int(at[-1])),
        certificate="local only" if "local only" in certificates else certificates[0],
        rank=facts[0]["rank"],
        epsilon=facts[0]["epsilon"],
        seconds=sum(one["run_seconds"] for one in facts),
        learner_seconds=sum(trace.seconds for trace in traces),
        failures=failures,
    )


def printed_bound(
    experiment: Experiment, learner: LearnerSpec, rounds: int
) -> dict[str, Any] | None:
    """The bound that the paper prints for a game, for its own tuning, and whether it is valid.

    None where the paper has none: without a horizon, with delays, or in a setting that its theorem does not have.
    """
    if learner.anytime or learner.play.delay or learner.options.get("delay"):
        return None
    kept = {k: v for k, v in learner.options.items() if k in ("loss_norm", "tuning", "first")}
    paper = LearnerSpec(learner.name, learner.kind, kept, learner.kernel)
    try:
        promise = learner_of(experiment, paper, rounds, tuning="paper").guarantee(printed=True)
    except ValueError:  # such a learner has no such tuning, or no such bound
        return None
    return {**describe(promise), "of_this_tuning": learner.options.get("tuning") == "paper"}


def _dimensions(experiment: Experiment) -> list[Dimension]:
    """Rank and guarantee at several horizons, without playing."""
    from koloss.proxy import eigendecay

    dimensions, actions = [], actions_of(experiment)
    for learner in experiment.learners:
        decay = eigendecay(kernel_of(experiment, learner), actions)
        beta, power = decay.best.rate, decay.profile == "polynomial"
        ranks, sizes, bounds = [], [], []
        for n in experiment.horizons:
            made = learner_of(experiment, learner, n)
            ranks.append(made.rank)
            sizes.append(float(getattr(made, "dimension", made.rank)))
            bounds.append(float(made.guarantee(printed=False).total))
        logs = np.log(experiment.horizons)
        dimensions.append(
            Dimension(
                experiment=experiment.name,
                learner=learner.name,
                profile=decay.profile,
                rate=float(beta),
                corollary=(beta / (2 * (beta - 1)) if beta > 2 else None) if power else 0.5,
                repaired=(2 * beta / (4 * beta - 3) if beta > 1.5 else None) if power else 0.5,
                eigenvalues=rounded(decay.eigenvalues[:EIGENVALUES]),
                horizons=list(experiment.horizons),
                ranks=ranks,
                bounds=bounds,
                rank_growth=float(np.polyfit(logs, np.log(ranks), 1)[0]),
                bound_growth=float(np.polyfit(logs, np.log(bounds), 1)[0]),
                hull=(beta / (2 * beta - 1) if beta > 1 else None) if power else 0.5,
                norm=((beta + 1) / (2 * beta) if beta > 1 else None) if power else 0.5,
                dimensions=rounded(sizes),
                dimension_growth=float(np.polyfit(logs, np.log(sizes), 1)[0]),
            )
        )
    return dimensions


# Guarantees without playing.


def bounds(experiment: Experiment, rounds: int | None = None) -> list[dict[str, Any]]:
    """The guarantee of every learner of an experiment, before the first round of so many, or of its own number.

    Returns
    -------
    list of dict
        "learner", "kernel", "rounds", "guarantee" (statement, terms, total, trivial, valid, assumptions, notes),
        "paper" (the same as the paper prints it, or None), "rank" and "epsilon" of bandit learners.

    Examples
    --------
    >>> from koloss.experiments import bounds, load
    >>> lines = bounds(load("quadratic-oracles"), rounds=100)
    >>> lines[2]["learner"], round(lines[2]["guarantee"]["total"], 2)
    ('regularised leader', 14.14)
    """
    n = experiment.rounds if rounds is None else rounds
    return [
        {
            "learner": spec.name,
            "kernel": repr(kernel_of(experiment, spec)),
            "rounds": n,
            "guarantee": describe(learner.guarantee(rounds=n, printed=False)),
            "paper": printed_bound(experiment, spec, n),
            "rank": learner.rank,
            "epsilon": learner.epsilon,
        }
        for spec in experiment.learners
        for learner in [learner_of(experiment, spec, n)]
    ]
