"""From specs to a folder of results: play what is missing, and sum up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from koloss.core.arrays import as_int
from koloss.experiments.build import check, jobs_of
from koloss.experiments.results import Results
from koloss.experiments.spec import MOST_ROUNDS, MOST_RUNS, Experiment, load, shipped
from koloss.experiments.summary import summarise
from koloss.games.store import Progress, check_names, locked, missing, play_jobs
from koloss.games.workers import processes


def run(
    experiments: Sequence[str | Path | Experiment] | None = None,
    *,
    out: str | Path,
    rounds: int | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    full: bool = False,
    trust: bool = False,
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
    trust : bool
        Whether specs may name files outside their folders, as for `load`.
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
        spec if isinstance(spec, Experiment) else load(spec, trust=trust)
        for spec in experiments or shipped()
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
