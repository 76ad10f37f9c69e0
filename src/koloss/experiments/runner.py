"""From specs to a directory of results: play what is missing, and sum up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from koloss._arrays import as_int
from koloss.experiments.results import Results
from koloss.experiments.runs import Progress, plan, run_all
from koloss.experiments.spec import Experiment, load, shipped
from koloss.experiments.summary import summarise


def run(
    experiments: Sequence[str | Path | Experiment] | None = None,
    *,
    out: str | Path,
    rounds: int | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    full: bool = False,
    note: Callable[[Progress], Any] = lambda _: None,
) -> Results:
    """Play experiments, and sum up what they show. `koloss.report.write_page` makes a page of it.

    Parameters
    ----------
    experiments : sequence of names, paths of specs or Experiments, optional
        All that come with the package by default.
    out : path
        Directory for `results.json` and `runs/`. Runs that are in there already are not computed again.
    rounds, runs : int, optional
        In the place of each experiment's own.
    seed : int
    jobs : int, optional
        Processes; as many as there are processors by default. Results do not depend on it.
    full : bool
        At each experiment's full size, in place of the quick one.
    note : callable
        Told of every run that has ended.

    Returns
    -------
    Results

    Examples
    --------
    >>> import tempfile
    >>> from koloss import experiments
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = experiments.run(["posynomial"], out=folder, rounds=30, runs=2, jobs=1)
    >>> [(curve.name, curve.rounds, curve.runs) for curve in found.curves]
    [('posynomial', 30, 2)]
    """
    begin = time.perf_counter()
    chosen = [spec if isinstance(spec, Experiment) else load(spec) for spec in experiments or shipped()]  # fmt: skip
    names = [experiment.name for experiment in chosen]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"`experiments` must have different names, got {name!r} twice")
    rounds = None if rounds is None else as_int("rounds", rounds, minimum=1)
    runs = None if runs is None else as_int("runs", runs, minimum=1)
    seed = as_int("seed", seed, minimum=0)
    workers = (os.cpu_count() or 1) if jobs is None else as_int("jobs", jobs, minimum=1)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    todo = plan(chosen, out, seed=seed, rounds=rounds, runs=runs, full=full)
    failures = run_all(todo, workers=workers, note=note)
    seconds = time.perf_counter() - begin
    found = summarise(chosen, todo, seed=seed, seconds=seconds, failures=failures)
    found.write(out)
    return found
