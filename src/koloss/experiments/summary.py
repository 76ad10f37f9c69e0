"""From the files of runs to what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from koloss.errors import KolossError
from koloss.experiments.build import actions_of, kernel_of, learner_of
from koloss.experiments.files import Dimension
from koloss.experiments.picture import PictureRun
from koloss.experiments.results import LEVEL, Curve, Result, Results, machine, rounded
from koloss.experiments.spec import Experiment, LearnerSpec
from koloss.games.play import describe
from koloss.games.store import Job
from koloss.games.trace import Packed, Trace, band, exponent

EIGENVALUES = 100
"""Of a kernel, that are kept for the figure."""


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
            except (
                ArithmeticError,
                ValueError,
                KolossError,
            ) as error:  # of numbers: the runs are not lost
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
