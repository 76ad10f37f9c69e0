"""From specs to a folder of results: play what is missing, and sum up."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from koloss.actions import ActionSet, Ball, Box, Points
from koloss.core.arrays import as_int, to_numpy
from koloss.core.toml import Source, pointing
from koloss.errors import AdversaryError
from koloss.experiments.results import PictureRun, Results, summarise
from koloss.experiments.specs import (
    ADVERSARIES,
    MOST_ROUNDS,
    MOST_RUNS,
    Experiment,
    LearnerSpec,
    Picture,
    actions_of,
    kernel_of,
    learner_of,
    load,
    place_of,
    shipped,
)
from koloss.games.adversaries import Adversary
from koloss.games.play import Match
from koloss.games.store import Job, Progress, check_names, locked, missing, play_jobs
from koloss.games.workers import processes
from koloss.kernels import Kernel, KernelLoss
from koloss.samplers import effective_size, langevin

CHECKPOINTS = 100
"""Rounds of a run that are kept."""

CELLS = 161
"""Of the density's picture, along each axis."""


def run(
    experiments: Sequence[str | Path | Experiment] | None = None,
    *,
    out: str | Path,
    rounds: int | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    full: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Progress], Any] | None = None,
    fresh: bool = False,
) -> Results:
    """Play experiments, and sum up what they show. `koloss.report.write_page` makes a page of it.

    Parameters
    ----------
    experiments : sequence of names, paths of specs or Experiments, optional
        All that come with the package by default. All are checked before the first one is played.
    out : path
        Folder for `results.json` and `runs/`. Runs that are in there already are not computed again, unless they failed.
    rounds, runs : int, optional
        In the place of each experiment's own.
    seed : int
    jobs : int, optional
        Processes; as many as there are processors by default. Results do not depend on it.
    full : bool
        At each experiment's full size, in place of the quick one.
    executor : concurrent.futures.Executor, optional
        Instead of processes of this machine; ``distributed.Client(address).get_executor()`` is one on many machines. Results do
        not depend on it.
    progress : callable, optional
        Told of every run that has ended.
    fresh : bool
        Play all runs again, also those that are in the folder.

    Raises
    ------
    SpecError
        Where a spec has a mistake; nothing has been written then.
    FolderInUse
        Where another process plays into the same folder.
    OSError
        Where it cannot be written to; nothing has been played then.
    ClusterLost
        Where the executor is a cluster whose scheduler is gone. The same call goes on.
    WorkerDiffers
        Where a worker of the executor has other versions, or other files.

    Examples
    --------
    >>> import tempfile
    >>> from koloss import experiments
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = experiments.run(["posynomial"], out=folder, rounds=30, runs=2, jobs=1)
    >>> [(curve.name, curve.rounds, curve.runs) for curve in results.curves]
    [('posynomial', 30, 2)]
    """
    begin, out = time.perf_counter(), Path(out)
    chosen = [
        spec if isinstance(spec, Experiment) else load(spec) for spec in experiments or shipped()
    ]
    check_names("experiments", [experiment.name for experiment in chosen])
    rounds = _size("rounds", rounds, MOST_ROUNDS)
    runs = _size("runs", runs, MOST_RUNS)
    seed, count = as_int("seed", seed, minimum=0), processes(jobs)
    todo = jobs_of(chosen, seed=seed, rounds=rounds, runs=runs, full=full)
    waiting = {job.game: job.rounds for job in (todo if fresh else missing(todo, out))}
    for experiment in chosen:
        if experiment.name in waiting:
            check(experiment, waiting[experiment.name])
    with locked(out):
        kept = play_jobs(
            todo, out, processes=count, executor=executor, progress=progress, fresh=fresh
        )
        results = summarise(chosen, todo, kept, seed=seed, seconds=time.perf_counter() - begin)
        results.write(out)
    return results


def _size(name: str, value: int | None, most: int) -> int | None:
    return None if value is None else as_int(name, value, minimum=1, maximum=most)


# Jobs.


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
        carried=os.path.abspath(experiment.source.path),  # beside which files are looked for
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
            keys = (*place_of(experiment, learner), "play", "batch")
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


# The picture.


@dataclass(frozen=True)
class Drawing:
    """A picture that is ready to be drawn."""

    spec: Picture
    kernel: Kernel
    actions: ActionSet
    rng: np.random.Generator  # of the sampler
    places: np.random.Generator  # of the centres

    def play(self, limit: float = math.inf) -> PictureRun:
        """Draw, and compare with the density by quadrature."""
        spec, actions = self.spec, self.actions
        centers = to_numpy(actions.sample(spec.centers, self.places))
        loss = KernelLoss(self.kernel, centers, np.ones(len(centers)))
        # Four draws of every chain, to say how well they mix.
        chains = max(1, min(spec.chains, spec.draws // 4))
        sample = langevin(
            loss,
            actions,  # type: ignore[arg-type]
            spec.draws,
            learning_rate=spec.learning_rate,
            chains=chains,
            steps=spec.steps,
            rng=self.rng,
        )
        reach = actions.norm_bound()
        edges = np.linspace(-reach, reach, CELLS)
        grid = np.stack(np.meshgrid(edges, edges), axis=-1).reshape(-1, 2)
        inside = np.asarray(actions.contains(grid))
        height, values = np.full(len(grid), np.nan), to_numpy(loss(grid[inside]))
        height[inside] = np.exp(-spec.learning_rate * values)
        weights = height[inside]
        losses = to_numpy(loss(sample.chains.reshape(-1, 2))).reshape(sample.chains.shape[:2])
        facts = {
            "draws": len(sample.points),
            "chains": chains,
            "r_hat": float(np.max(sample.r_hat)),
            "effective_size": float(np.min(sample.effective_size)),
            "acceptance": float(sample.acceptance),
            "mean_loss": float(losses.mean()),
            "error": float(losses.std() / np.sqrt(effective_size(losses))),
            "mean_loss_exact": float(weights @ values / weights.sum()),
        }
        density = height.reshape(CELLS, CELLS)
        return PictureRun(centers, to_numpy(sample.points), density, edges, facts)


# An adversary of the user's: what its code does wrong is said with the file and the line.


def own_adversary(
    path: Path, name: str, kernel: Kernel, actions: ActionSet, rng: np.random.Generator
) -> Adversary:
    """What the function of that name in a file makes."""
    if not (path.is_file() and path.suffix == ".py"):
        raise ValueError(f"`file` must be a Python file beside the spec, got {path.name!r}")
    spec = importlib.util.spec_from_file_location(path.stem, os.path.abspath(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _blaming(path):
        spec.loader.exec_module(module)
    make = getattr(module, name, None)
    if not callable(make):
        raise ValueError(f"`make` must be a function of {path.name}, got {name!r}")
    with _blaming(path):
        made = make(kernel, actions, rng)
    if not isinstance(made, Adversary):
        got = f"{type(made).__name__} from {path.name}"
        raise TypeError(f"`make` must give an Adversary, got {got}")
    return made


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Run the user's code; what it raises, be it an exit, is an `AdversaryError` with the line."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        line = _line(error, os.path.abspath(path))
        where = f"{path.name}, line {line}" if line else path.name
        words = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
        # A RuntimeError whose cause is a StopIteration is taken for that itself by `contextmanager`.
        cause = None if isinstance(error, StopIteration) else error
        raise AdversaryError(f"{where}: {words}") from cause


def _line(error: BaseException, path: str) -> int | None:
    """The last line of a file that was being run, or that cannot be read as Python."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    steps = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in steps if frame.f_code.co_filename == path]
    return lines[-1] if lines else None
