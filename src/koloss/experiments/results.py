"""What the runs of some experiments say: curves with bands, growth exponents, guarantees; results.json."""

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

import koloss
from koloss.experiments.build import actions_of, kernel_of, learner_of
from koloss.experiments.picture import PictureRun
from koloss.experiments.runs import Job, describe, is_done
from koloss.experiments.spec import Experiment, LearnerSpec
from koloss.games.play import proved
from koloss.games.trace import Trace, band, exponent
from koloss.learners import BanditExpWeights, InsuredBandit

LEVEL = 0.95
"""Of the bands."""

EIGENVALUES = 100
"""Of a kernel, that are kept for the figure."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The runs of one learner in one experiment.

    Attributes
    ----------
    name : str
        Of the experiment, and of the learner where there are several.
    learner : str
    rounds, runs : int
    at : array of shape (k,)
        Rounds t.
    mean, low, high : arrays of shape (k,)
        Regret after t rounds, against the best action of these rounds: mean and 95 % band.
    bound : array of shape (k,)
        The guarantee, the mean over the runs.
    uniform : array of shape (k,)
        Mean regret of playing uniformly at random.
    exponent, exponent_error : float
        Growth of the mean regret, fitted on the second half of the rounds.
    promise : dict
        The guarantee at the end, of the first run.
    valid : bool
        Whether it was valid in all runs.
    printed : dict or None
        The paper's bound for the same game, as printed.
    certificate : str
        Of the best action in hindsight.
    rank : int or None
        Features of a bandit learner.
    epsilon : float or None
        Their error.
    seconds, learner_seconds : float
        All runs together: everything, and asking and telling alone.
    failures : dict of int to str
    """

    name: str
    learner: str
    rounds: int
    runs: int
    at: Any
    mean: Any
    low: Any
    high: Any
    bound: Any
    uniform: Any
    exponent: float
    exponent_error: float
    promise: dict[str, Any]
    valid: bool
    printed: dict[str, Any] | None
    certificate: str
    rank: int | None
    epsilon: float | None
    seconds: float
    learner_seconds: float
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def above(self) -> bool:
        """Whether the mean regret was anywhere above a valid guarantee."""
        return self.valid and bool(np.any(self.mean > self.bound))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results.json."""
        return {
            "name": self.name,
            "learner": self.learner,
            "rounds": self.rounds,
            "runs": self.runs,
            "regret": {
                "mean": float(self.mean[-1]),
                "low": float(self.low[-1]),
                "high": float(self.high[-1]),
                "level": LEVEL,
            },
            "exponent": _finite(self.exponent),
            "exponent_error": _finite(self.exponent_error),
            "guarantee": float(self.bound[-1]),
            "guarantee_valid": self.valid,
            "guarantee_details": self.promise,
            "above_guarantee": self.above,
            "paper_guarantee": self.printed,
            "certificate": self.certificate,
            "rank": self.rank,
            "epsilon": self.epsilon,
            "seconds": self.seconds,
            "learner_seconds": self.learner_seconds,
            "failures": {str(k): text for k, text in self.failures.items()},
            "curve": {
                "rounds": [int(t) for t in self.at],
                "mean": _list(self.mean),
                "low": _list(self.low),
                "high": _list(self.high),
                "guarantee": _list(self.bound),
                "uniform": _list(self.uniform),
            },
        }


@dataclass(frozen=True)
class Dimension:
    """What the Corollary speaks of, for one kernel: its eigendecay, and rank and guarantee against the horizon.

    Attributes
    ----------
    learner : str
    profile : "polynomial" or "exponential"
        The envelope that fits the eigenvalues better.
    rate : float
        β of it.
    corollary : float or None
        Growth exponent of the paper's Corollary: β/(2(β - 1)), or 1/2; none where β is too small for it.
    repaired : float or None
        2β/(4β - 3), or 1/2: of the bound that is proved (theory B2).
    eigenvalues : list
        The first ones.
    horizons, ranks, bounds : lists
        Rank chosen for each horizon, and the guarantee.
    rank_growth, bound_growth : float
        Slopes of their logarithms against that of the horizon.
    """

    learner: str
    profile: str
    rate: float
    corollary: float | None
    repaired: float | None
    eigenvalues: list[float]
    horizons: list[int]
    ranks: list[int]
    bounds: list[float]
    rank_growth: float
    bound_growth: float


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
    """Everything that a report needs.

    Attributes
    ----------
    results : tuple of Result
    seed : int
    seconds : float
        Wall-clock time of the last call.
    machine : dict
    """

    results: tuple[Result, ...]
    seed: int
    seconds: float
    machine: dict[str, Any]

    @property
    def curves(self) -> list[Curve]:
        """All curves, in order."""
        return [curve for result in self.results for curve in result.curves]

    def to_dict(self) -> dict[str, Any]:
        """The contents of results.json; docs/results_schema.md says what they mean."""
        return {
            "schema": 1,
            "version": koloss.__version__,
            "seed": self.seed,
            "experiments": [
                {"experiment": result.experiment.name, "title": result.experiment.title, **curve.to_dict()}
                for result in self.results
                for curve in result.curves
            ],
            "pictures": [
                {
                    "name": result.experiment.name,
                    "title": result.experiment.title,
                    **{k: v for k, v in result.picture.facts.items() if k != "digest"},
                }
                for result in self.results
                if result.picture is not None
            ],
            "dimensions": [
                {"experiment": result.experiment.name, **asdict(dimension)}
                for result in self.results
                for dimension in result.dimensions
            ],
            "failures": {
                result.experiment.name: result.failures
                for result in self.results
                if result.failures
            },
            "seconds": self.seconds,
            "machine": self.machine,
        }  # fmt: skip

    def write(self, out: Path) -> Path:
        """Write results.json."""
        path = out / "results.json"
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        return path


def summarise(
    experiments: Sequence[Experiment],
    jobs: Sequence[Job],
    *,
    seed: int,
    seconds: float = 0.0,
    failures: dict[Path, str] | None = None,
) -> Results:
    """Read the files of the runs that are done, and say what is in them."""
    failures = failures or {}
    found = []
    for experiment in experiments:
        own = [job for job in jobs if job.experiment.name == experiment.name]
        if experiment.picture is not None:
            job = own[0]
            picture = PictureRun.load(job.path) if is_done(job) else None
            lost = {"picture": failures[job.path]} if job.path in failures else {}
            found.append(Result(experiment, picture=picture, failures=lost))
            continue
        curves: list[Curve] = []
        lost = {}
        for learner in experiment.learners:
            mine = [
                job for job in own if job.learner is not None and job.learner.slug == learner.slug
            ]
            wrong = {job.number: failures[job.path] for job in mine if job.path in failures}
            done = [job for job in mine if is_done(job)]
            if done:
                curves.append(_curve(experiment, learner, done, wrong))
            else:
                lost |= {f"{learner.name}, run {k}": text for k, text in wrong.items()}
        dimensions = _dimensions(experiment) if experiment.horizons else ()
        found.append(Result(experiment, tuple(curves), tuple(dimensions), failures=lost))
    return Results(tuple(found), seed, seconds, machine())


def _curve(
    experiment: Experiment, learner: LearnerSpec, jobs: Sequence[Job], failures: dict[int, str]
) -> Curve:
    traces = [Trace.load(job.path) for job in jobs]
    at, regret = traces[0].checkpoints, np.stack([trace.running for trace in traces])
    mean, low, high = band(regret, LEVEL)
    slope, error = exponent(at, regret)
    several = len(experiment.learners) > 1
    return Curve(
        name=f"{experiment.name}/{learner.slug}" if several else experiment.name,
        learner=learner.name,
        rounds=int(at[-1]),
        runs=len(traces),
        at=at,
        mean=mean,
        low=low,
        high=high,
        bound=np.mean([trace.bound for trace in traces], axis=0),
        uniform=np.mean([trace.uniform for trace in traces], axis=0),
        exponent=slope,
        exponent_error=error,
        promise=traces[0].facts["promise"],
        valid=all(trace.valid for trace in traces),
        printed=printed_bound(experiment, learner, jobs[0].rounds),
        certificate=_worst([trace.certificate for trace in traces]),
        rank=traces[0].facts["rank"],
        epsilon=traces[0].facts["epsilon"],
        seconds=sum(trace.facts["run_seconds"] for trace in traces),
        learner_seconds=sum(trace.seconds for trace in traces),
        failures=failures,
    )


def printed_bound(
    experiment: Experiment, learner: LearnerSpec, rounds: int
) -> dict[str, Any] | None:
    """The bound that the paper prints for a game, for its own tuning, and whether it is valid.

    None where the paper has none: without a horizon, with delays, or in a setting that its theorem does not have.
    """
    if learner.anytime or learner.delay or learner.options.get("delay"):
        return None
    if learner.kind == InsuredBandit.__name__:
        return None  # not in the paper
    played = learner.options.get("tuning") == "paper"
    bandit = learner.kind == BanditExpWeights.__name__
    if bandit and not hasattr(actions_of(experiment), "X"):
        return None  # the paper's Theorem 10 is for finitely many actions
    try:
        kept = {k: v for k, v in learner.options.items() if k in ("loss_norm", "tuning", "first")}
        plain = LearnerSpec(learner.name, learner.kind, kept, learner.kernel)
        promise = learner_of(experiment, plain, rounds, tuning="paper").guarantee()
    except (TypeError, ValueError):
        return None
    return {**describe(promise), "of_this_tuning": played}


def _dimensions(experiment: Experiment) -> list[Dimension]:
    """Rank and guarantee at several horizons, without playing."""
    from koloss.proxy import eigendecay

    found, actions = [], actions_of(experiment)
    for learner in experiment.learners:
        decay = eigendecay(kernel_of(experiment, learner), actions)
        beta, power = decay.best.rate, decay.profile == "polynomial"
        ranks, bounds = [], []
        for n in experiment.horizons:
            made = learner_of(experiment, learner, n)
            ranks.append(int(made.setup.problem.rank))
            bounds.append(float(proved(made, None).total))
        logs = np.log(experiment.horizons)
        found.append(
            Dimension(
                learner=learner.name,
                profile=decay.profile,
                rate=float(beta),
                corollary=(beta / (2 * (beta - 1)) if beta > 2 else None) if power else 0.5,
                repaired=(2 * beta / (4 * beta - 3) if beta > 1.5 else None) if power else 0.5,
                eigenvalues=_list(decay.eigenvalues[:EIGENVALUES]),
                horizons=list(experiment.horizons),
                ranks=ranks,
                bounds=bounds,
                rank_growth=float(np.polyfit(logs, np.log(ranks), 1)[0]),
                bound_growth=float(np.polyfit(logs, np.log(bounds), 1)[0]),
            )
        )
    return found


def machine() -> dict[str, Any]:
    """What the numbers were computed with."""
    import scipy

    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "koloss": koloss.__version__,
    }


def _worst(certificates: list[str]) -> str:
    return "local only" if "local only" in certificates else certificates[0]


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _list(values: Any) -> list[float]:
    return [float(f"{value:.6g}") for value in values]
