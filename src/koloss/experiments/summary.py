"""From the files of runs to what they say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from koloss.experiments.build import actions_of, kernel_of, learner_of
from koloss.experiments.picture import PictureRun
from koloss.experiments.results import LEVEL, Curve, Dimension, Result, Results, machine, rounded
from koloss.experiments.runs import Job, describe, is_done
from koloss.experiments.spec import Experiment, LearnerSpec
from koloss.games.play import proved
from koloss.games.trace import Trace, band, exponent
from koloss.learners import BanditExpWeights, InsuredBandit

EIGENVALUES = 100
"""Of a kernel, that are kept for the figure."""


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
            )
        )
    return found


def _worst(certificates: list[str]) -> str:
    return "local only" if "local only" in certificates else certificates[0]
