"""All runs of some experiments: each is one small file, made once, by any number of processes.

A file knows what it was made from (a digest of the game, the learner, the rounds, the seed and the code), so that a run
that is there already is not computed again, and one of another game or by other code is. Seeds depend on the names of the
experiment and the learner and on the number of the run alone: results do not depend on what else is run, on the
number of processes, or on the order in which they end. The losses of run k are the same for all learners.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import koloss
from koloss.experiments.build import (
    adversary_of,
    check,
    files_of,
    learner_of,
)
from koloss.experiments.spec import Experiment, LearnerSpec
from koloss.games.play import play, proved, worker_pool
from koloss.games.trace import Trace

SHOWING = ("cli/", "report/", "experiments/results.py", "experiments/catalogue.py")
"""Parts of the library that runs do not depend on."""

CHECKPOINTS = 100
"""Rounds of a run that are kept."""


@dataclass(frozen=True)
class Job:
    """One run.

    Attributes
    ----------
    experiment : Experiment
    learner : LearnerSpec or None
        None for a picture.
    number : int
        k, from 0.
    rounds, seed : int
    path : Path
        The file that it leaves.
    digest : str
        Of everything that the result depends on.
    """

    experiment: Experiment
    learner: LearnerSpec | None
    number: int
    rounds: int
    seed: int
    path: Path
    digest: str


@dataclass(frozen=True)
class Progress:
    """What has been done so far, here and in the arena.

    Attributes
    ----------
    done, total : int
        Runs, those that were there before included.
    job : Job, or None
        The run that has just ended.
    seconds : float
        That it took.
    error : str
        Why it failed; empty where it did not.
    """

    done: int
    total: int
    job: Any = None
    seconds: float = 0.0
    error: str = ""


def plan(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    seed: int = 0,
    rounds: int | None = None,
    runs: int | None = None,
    full: bool = False,
) -> list[Job]:
    """The runs of some experiments; the first run of all learners comes before the second of any.

    Parameters
    ----------
    experiments : sequence of Experiment
    out : Path
        Directory for their files.
    seed : int
    rounds, runs : int, optional
        In the place of each experiment's own.
    full : bool
        At each experiment's full size.
    """
    jobs = []
    for experiment in experiments:
        own_rounds, own_runs = experiment.full if full else (experiment.rounds, experiment.runs)
        n, count = rounds or own_rounds, runs or own_runs
        for learner in experiment.learners or (None,):
            folder = out / "runs" / experiment.name / (learner.slug if learner else "picture")
            for k in range(count if learner else 1):
                digest = _digest(experiment, learner, n, seed, k)
                jobs.append(Job(experiment, learner, k, n, seed, folder / f"{k}.npz", digest))
    return sorted(jobs, key=lambda job: job.number)


def run_all(
    jobs: Sequence[Job], *, workers: int, note: Callable[[Progress], Any] = lambda _: None
) -> dict[Path, str]:
    """Do the runs that have not been done.

    Parameters
    ----------
    jobs : sequence of Job
    workers : int
        Processes.
    note : callable
        Told of every run that has ended.

    Returns
    -------
    dict of Path to str
        Runs that failed, and why.
    """
    waiting = [job for job in jobs if not is_done(job)]
    done, total, failures = len(jobs) - len(waiting), len(jobs), {}
    note(Progress(done, total))
    if not waiting:
        return {}
    for experiment in {job.experiment.name: job.experiment for job in waiting}.values():
        rounds = next(job.rounds for job in waiting if job.experiment is experiment)
        check(experiment, rounds)
    for job in waiting:
        job.path.parent.mkdir(parents=True, exist_ok=True)
    with worker_pool(min(workers, len(waiting))) as pool:
        futures = {pool.submit(work, job): job for job in waiting}
        for future in as_completed(futures):
            job, done = futures[future], done + 1
            seconds, error = future.result()
            if error:
                failures[job.path] = error
            note(Progress(done, total, job, seconds, error))
    return failures


def work(job: Job) -> tuple[float, str]:
    """Do a run and write its file; the time it took, and why it failed."""
    begin = time.perf_counter()
    try:
        if job.learner is None:
            from koloss.experiments.picture import draw_picture

            draw_picture(job)
        else:
            trace = play_run(job.experiment, job.learner, job.rounds, job.seed, job.number)
            seconds = time.perf_counter() - begin
            facts = {**trace.facts, "digest": job.digest, "run_seconds": seconds}
            replace(trace, facts=facts).save(job.path)
    except Exception as error:  # a run that fails must not end the others
        return time.perf_counter() - begin, f"{type(error).__name__}: {error}"
    return time.perf_counter() - begin, ""


def is_done(job: Job) -> bool:
    """Whether the file of a run is there, whole, and of this very run."""
    return digest_in(job.path) == job.digest


def digest_in(path: Path) -> str | None:
    """The digest in a file; None where there is none, or the file is not whole."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            facts = json.loads(file["json"].tobytes())
            return str(facts.get("facts", facts)["digest"])
    except (OSError, ValueError, KeyError, EOFError):
        return None
    except Exception as error:
        if type(error).__name__ == "BadZipFile":
            return None
        raise


# One run.


def play_run(
    experiment: Experiment, learner: LearnerSpec, rounds: int, seed: int, number: int
) -> Trace:
    """Play one run, and keep its checkpoints: the trace of `koloss.play`, thinned, with a few facts more."""
    mine, theirs = generators(experiment, learner, seed, number)
    player = learner_of(experiment, learner, rounds, mine)
    foe = adversary_of(experiment, learner, rounds, theirs)
    rank = player.setup.problem.rank if hasattr(player, "setup") else None
    batch: Any = rank if learner.batch == "rank" else learner.batch
    trace = play(player, foe, rounds, batch=batch, delay=learner.delay, checkpoints=CHECKPOINTS)
    facts = {
        **trace.facts,
        "rank": rank,
        "epsilon": None if rank is None else player.setup.problem.epsilon,
        "promise": describe(proved(player, rounds)),
    }
    return replace(trace, facts=facts).thin()


def describe(promise: Any) -> dict[str, Any]:
    """A guarantee as plain data."""
    return {
        "statement": promise.statement,
        "terms": {name: float(value) for name, value in promise.terms.items() if value > 0},
        "total": float(promise.total),
        "trivial": float(promise.trivial),
        "informative": bool(promise.informative),
        "valid": bool(promise.valid),
        "assumptions": [asdict(assumption) for assumption in promise.assumptions],
        "notes": list(promise.notes),
    }


def generators(
    experiment: Experiment, learner: LearnerSpec | None, seed: int, number: int
) -> tuple[np.random.Generator, np.random.Generator]:
    """Random numbers of the learner, and of the adversary, which are the same for all learners."""
    game = _number(experiment.name)
    mine = np.random.SeedSequence(seed, spawn_key=(game, 1, _number(learner.slug if learner else "picture"), number))  # fmt: skip
    theirs = np.random.SeedSequence(seed, spawn_key=(game, 0, number))
    return np.random.default_rng(mine), np.random.default_rng(theirs)


def _number(name: str) -> int:
    """A number that stands for a name, the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def _digest(
    experiment: Experiment, learner: LearnerSpec | None, rounds: int, seed: int, number: int
) -> str:
    """Of everything that a run depends on; titles and texts are not among it."""
    files = {str(path): _contents(path) for path in files_of(experiment)}
    what = {
        "code": _code(),
        "name": experiment.name,
        "kernel": experiment.kernel,
        "actions": experiment.actions,
        "adversary": experiment.adversary,
        "picture": asdict(experiment.picture) if experiment.picture else None,
        "learner": asdict(learner) if learner else None,
        "files": list(files.values()),
        "rounds": rounds,
        "seed": seed,
        "number": number,
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    """Digest of the library's source, but for what only shows results."""
    root = Path(koloss.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith(SHOWING):
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _contents(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
