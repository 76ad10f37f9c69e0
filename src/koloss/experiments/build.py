"""From a spec to the objects of a game. What is wrong with a value is said with the line and the key."""

from __future__ import annotations

import json
import math
import os
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from koloss.actions import ActionSet, Ball, Box, Points
from koloss.actions.described import read_actions
from koloss.core.arrays import to_numpy
from koloss.core.toml import Source, pointing
from koloss.experiments.own import own_adversary
from koloss.experiments.picture import Drawing
from koloss.experiments.spec import ADVERSARIES, LEARNERS, Experiment, LearnerSpec, Picture
from koloss.games.adversaries import Adversary
from koloss.games.play import Match
from koloss.games.store import Job
from koloss.kernels import Kernel
from koloss.kernels.described import read_kernel

CHECKPOINTS = 100
"""Rounds of a run that are kept."""


def jobs_of(
    experiments: list[Experiment], *, seed: int = 0, rounds: int | None = None, runs: int | None = None, full: bool = False
) -> list[Job]:  # fmt: skip
    """The runs of some experiments; the first run of all learners comes before the second of any."""
    jobs = []
    for experiment in experiments:
        usual_rounds, usual_runs = experiment.full if full else (experiment.rounds, experiment.runs)
        for learner in experiment.learners or (None,):
            for k in range((runs or usual_runs) if learner else 1):
                jobs.append(job_of(experiment, learner, k, rounds or usual_rounds, seed))
    return sorted(jobs, key=lambda job: job.number)


def job_of(
    experiment: Experiment, learner: LearnerSpec | None, number: int, rounds: int, seed: int
) -> Job:
    """One run; without a learner, the picture. Titles and texts are no part of it."""
    parts = {
        "kernel": experiment.kernel,
        "actions": experiment.actions,
        "adversary": experiment.adversary,
        "picture": msgspec.to_builtins(experiment.picture),
        "learner": msgspec.to_builtins(learner),
    }
    files = [experiment.adversary[key] for key in ("file", "table") if key in experiment.adversary]
    return Job(
        make=f"{__name__}:make",
        game=experiment.name,
        player=learner.slug if learner else "picture",
        number=number,
        rounds=rounds,
        seed=seed,
        arguments=parts,
        files=tuple(os.path.abspath(experiment.source.beside(name)) for name in files),
        carried=os.path.abspath(
            experiment.source.path
        ),  # where files are looked for; what is in them is in the key
    )


def make(job: Job, mine: np.random.Generator, theirs: np.random.Generator) -> Match | Drawing:
    """What a job plays: a learner and its adversary, or a picture."""
    parts = dict(job.arguments)
    picture, learner = parts.pop("picture"), parts.pop("learner")
    source = Source(job.carried, "")
    if learner is None:
        experiment = Experiment(job.game, "", source=source, **parts)
        drawn = msgspec.convert(picture, Picture)
        return Drawing(drawn, kernel_of(experiment), actions_of(experiment), mine, theirs)
    spec = msgspec.convert(learner, LearnerSpec)
    experiment = Experiment(job.game, "", source=source, learners=(spec,), **parts)
    player = learner_of(experiment, spec, job.rounds, mine)
    foe = adversary_of(experiment, spec, job.rounds, theirs)
    batch = spec.play.batch
    if batch == "rank":  # with a penalty rounding alone limits their number
        batch = math.ceil(getattr(player, "dimension", player.rank))
    settings = {"batch": batch, "delay": spec.play.delay, "checkpoints": CHECKPOINTS}
    return Match(player, foe, job.rounds, settings)


def kernel_of(experiment: Experiment, learner: LearnerSpec | None = None) -> Kernel:
    """The kernel of the game, or the learner's own."""
    data, keys = experiment.kernel, ("game", "kernel")
    if learner is not None and learner.kernel is not None:
        data, keys = learner.kernel, (*_place(experiment, learner), "kernel")
    made = read_kernel(data, keys, experiment.source)
    assert isinstance(made, Kernel)  # a spec has a table there
    return made


def actions_of(experiment: Experiment) -> ActionSet:
    """The actions, or a net of them where the spec has a `net`."""
    return _actions(json.dumps(experiment.actions), experiment.source)


@lru_cache(maxsize=16)
def _actions(text: str, source: Source) -> ActionSet:
    return read_actions(json.loads(text), ("game", "actions"), source)


def adversary_of(
    experiment: Experiment, learner: LearnerSpec, rounds: int, rng: np.random.Generator
) -> Adversary:
    """The adversary against one learner."""
    data = experiment.adversary
    kind, options = data["kind"], {k: v for k, v in data.items() if k != "kind"}
    kernel, actions = kernel_of(experiment, learner), actions_of(experiment)
    with pointing(experiment.source, ("adversary",), data):
        if kind == "python":
            path, make = experiment.source.beside(options["file"]), options.get("make", "make")
            return own_adversary(path, make, kernel, actions, rng)
        if kind == "replay":
            options["table"] = path = experiment.source.beside(options["table"])
            if path.exists() and not path.is_file():
                raise ValueError(f"`table` must be a file, got {path.name}")
        else:
            options |= {"kernel": kernel, "actions": actions}
            if kind == "rank-one":
                if options.get("points", "uniform") == "uniform":
                    options["points"] = to_numpy(actions.sample(rounds, rng))
            else:
                options["rng"] = rng
        return ADVERSARIES[kind](**options)  # type: ignore[no-any-return]


def learner_of(
    experiment: Experiment, learner: LearnerSpec, rounds: int, rng: np.random.Generator | None = None, **changes: Any
) -> Any:  # fmt: skip
    """A learner, before its first round."""
    kernel, actions = kernel_of(experiment, learner), actions_of(experiment)
    options = {"horizon": None if learner.anytime else rounds, **learner.options, **changes}
    with pointing(experiment.source, _place(experiment, learner), learner.options):
        return LEARNERS[learner.kind](actions, kernel=kernel, rng=rng, **options)


def check(experiment: Experiment, rounds: int) -> None:
    """Make everything once, so that what is wrong is found before the first run: a `SpecError`."""
    kernel_of(experiment)
    actions = actions_of(experiment)
    plane = isinstance(actions, (Ball, Box)) and actions.dimension == 2
    if experiment.picture is not None and not plane:
        problem = f"must be a Ball or a Box of two dimensions for a picture, got {actions!r}"
        raise experiment.source.error(("game", "actions"), problem)
    for learner in experiment.learners:
        made = learner_of(experiment, learner, rounds)
        # One round tells whether it can be made.
        foe = adversary_of(experiment, learner, 1, np.random.default_rng(0))
        problem, batch = "", learner.play.batch
        if batch == "rank" and made.rank is None:
            problem = f'must be a number for {learner.kind}, got "rank"'
        elif batch != 1 and not foe.oblivious:
            problem = f"must be 1 against {experiment.adversary['kind']}, which looks at the player"
        if problem:
            keys = (*_place(experiment, learner), "play", "batch")
            raise experiment.source.error(keys, problem)
        if experiment.horizons:
            _check_horizons(experiment, learner, made.rank)


def _check_horizons(experiment: Experiment, learner: LearnerSpec, rank: int | None) -> None:
    """Whether rank and guarantee of a learner can be compared at several horizons."""
    n, problem = max(experiment.horizons), ""
    if len(set(experiment.horizons)) < 2:
        problem = f"must have two different numbers or more, got {list(experiment.horizons)}"
    elif rank is None or not isinstance(actions_of(experiment), Points):
        problem = f"must be left out: {learner.name} has no features on points to compare"
    elif not learner_of(experiment, learner, n).guarantee(printed=False).total > 0:
        problem = f"must have guarantees, got none for {learner.name} at {n:,} rounds"
    if problem:
        raise experiment.source.error(("dimension", "horizons"), problem)


def _place(experiment: Experiment, learner: LearnerSpec) -> tuple[Any, ...]:
    return ("learner", [other.name for other in experiment.learners].index(learner.name))
