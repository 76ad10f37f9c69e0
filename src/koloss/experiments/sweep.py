"""From the spec of a sweep to one table: play what is missing at every point, and write a row for each run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from koloss._version import __version__
from koloss.core.arrays import as_int
from koloss.experiments.build import jobs_of
from koloss.experiments.runner import check_safely
from koloss.experiments.spec import MOST_ROUNDS, MOST_RUNS
from koloss.experiments.sweep_spec import Base, Point, SweepSpec, load_sweep
from koloss.experiments.table import write_table
from koloss.games.store import Job, Progress, locked, missing, play_jobs
from koloss.games.trace import Packed, Trace
from koloss.games.workers import processes

OUTCOME = ("status", "message", "played", "regret", "loss", "best_loss", "guarantee", "guarantee_valid", "rank", "epsilon")  # fmt: skip
"""Columns after those that say which run it is."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a sweep has found: one row for each run, with the settings as columns. Times are not among them."""

    name: str
    title: str
    seed: int
    settings: tuple[str, ...]  # names of their columns
    points: tuple[dict[str, Any], ...]  # the values at every point
    rows: tuple[dict[str, Any], ...]
    path: Path  # of the table

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return ["point", *self.settings, "game", "player", "run", "rounds", *OUTCOME]

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Rows of runs that failed."""
        return [row for row in self.rows if row["status"] in ("failed", "died")]

    def best(self) -> list[dict[str, Any]]:
        """For every game and player the point with the smallest mean regret, of those where all runs were played to the end.

        Returns
        -------
        list of dict
            "game", "player", "point", "regret" (the mean), and "of" (the number of points that are compared).
        """
        runs: dict[tuple[str, str], dict[int, list[Any]]] = {}
        for row in self.rows:
            points = runs.setdefault((row["game"], row["player"]), {})
            regret = row["regret"] if row["status"] == "done" else math.nan
            points.setdefault(row["point"], []).append(regret)
        lines = []
        for (game, player), points in runs.items():
            means = {k: math.fsum(these) / len(these) for k, these in points.items()}
            whole = {k: mean for k, mean in means.items() if not math.isnan(mean)}
            if whole:
                k = min(whole, key=lambda point: whole[point])
                lines.append({"game": game, "player": player, "point": k, "regret": whole[k], "of": len(whole)})  # fmt: skip
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        return {
            "schema": 1,
            "version": __version__,
            "name": self.name,
            "title": self.title,
            "seed": self.seed,
            "columns": self.columns,
            "rows": [[row[name] for name in self.columns] for row in self.rows],
        }


def sweep(
    spec: str | Path | SweepSpec,
    *,
    out: str | Path,
    rounds: int | None = None,
    runs: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    trust: bool = False,
    executor: Executor | None = None,
    progress: Callable[[Progress], Any] | None = None,
) -> Sweep:
    """Play an experiment with many settings; and write one table.

    Parameters
    ----------
    spec : path of a TOML file, or SweepSpec
    out : path
        Folder for the table and `runs/`. Runs that are in there already are not played again, unless they failed. The table is
        `sweep.parquet`; without pyarrow (`koloss[parquet]`) it is `sweep.csv`.
    rounds, runs : int, optional
        In the place of those in the spec.
    seed : int
        Of the games, and of points that are drawn. Run k has the same random numbers at every point.
    jobs, trust, executor, progress
        As for `koloss.experiments.run`. The table does not depend on `jobs` and `executor`.

    Raises
    ------
    SpecError, FolderInUse, OSError, ClusterLost, WorkerDiffers
        As for `koloss.experiments.run`.

    Examples
    --------
    >>> import tempfile
    >>> from koloss import experiments
    >>> text = '''
    ... [sweep]
    ... experiment = "quadratic-full-information"
    ... rounds = 30
    ... runs = 2
    ... [settings]
    ... adversary.noise = [0.5, 1.0]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = experiments.sweep(
    ...         experiments.parse_sweep(text, name="noise"), out=folder, jobs=1
    ...     )
    >>> [(row["adversary.noise"], row["run"], row["status"]) for row in found.rows]
    [(0.5, 0, 'done'), (0.5, 1, 'done'), (1.0, 0, 'done'), (1.0, 1, 'done')]
    """
    plan = spec if isinstance(spec, SweepSpec) else load_sweep(spec)
    out, seed, count = Path(out), as_int("seed", seed, minimum=0), processes(jobs)
    for name, given, most in (("rounds", rounds, MOST_ROUNDS), ("runs", runs, MOST_RUNS)):
        if given is not None:
            as_int(name, given, minimum=1, maximum=most)
    if rounds is not None and any(setting.name == "game.rounds" for setting in plan.settings):
        raise ValueError(f"`rounds` must be left out where game.rounds is swept, got {rounds}")
    points = plan.points(seed)
    size: dict[str, Any] = {
        "rounds": rounds or plan.rounds,
        "runs": runs or plan.runs,
        "seed": seed,
    }
    todo = _jobs(plan, points, out, trust=trust, **size)
    # The first run of all comes before the second of any; rows are in the order of the points.
    order = sorted(todo, key=lambda job: job[1].number)
    with locked(out):
        played = [job for _, job in order]
        kept = play_jobs(played, out, processes=count, executor=executor, progress=progress)
        found = {id(job): run for job, run in zip(played, kept, strict=True)}
        rows = [_row(point, job, found[id(job)]) for point, job in todo]
        names = tuple(setting.name for setting in plan.settings)
        points_ = tuple(point.settings for point in points)
        results = Sweep(plan.name, plan.title, seed, names, points_, tuple(rows), out)
        path = write_table(results.columns, rows, out / "sweep")
    return replace(results, path=path)


def _jobs(
    plan: SweepSpec, points: Sequence[Point], out: Path, *, rounds: int | None, runs: int | None, seed: int, trust: bool
) -> list[tuple[Point, Job]]:  # fmt: skip
    """The runs of an experiment at all points; a value that it cannot be made with is found before the first run."""
    base, pairs, seen = Base(plan, trust=trust), [], set[tuple[str, str]]()
    ends = _ends(plan, points)
    for point in points:
        experiment = base.at(point)
        jobs = jobs_of([experiment], seed=seed, rounds=rounds, runs=runs)
        jobs = [replace(job, point=point.digest) for job in jobs]
        # Making a learner can take as long as a run: every value of a list is tried once, and the ends of a range.
        values = {(name, json.dumps(value)) for name, value in point.settings.items()}
        if (values & ends) - seen and missing(jobs, out):
            seen |= values
            try:
                check_safely(experiment, jobs[0].rounds)
            except ValueError as error:  # a SpecError, at a line of the experiment
                problem = f"{getattr(error, 'key', '')}: {getattr(error, 'problem', error)}"
                raise plan.error(point, problem.removeprefix(": ")) from error
        pairs += [(point, job) for job in jobs]
    return pairs


def _ends(plan: SweepSpec, points: Sequence[Point]) -> set[tuple[str, str]]:
    """Values that are worth a try: all of a list, the smallest and the largest of a range."""
    ends = set()
    for setting in plan.settings:
        values = [point.settings[setting.name] for point in points]
        chosen = values if setting.values else [min(values), max(values)]
        ends |= {(setting.name, json.dumps(value)) for value in chosen}
    return ends


def _row(point: Point, job: Job, packed: Packed) -> dict[str, Any]:
    """A row of the table."""
    trace, facts = Trace.unpack(packed), packed.plain["facts"]
    values: dict[str, Any] = dict.fromkeys(OUTCOME)
    values |= {"status": trace.ended, "message": trace.message, "played": 0}
    if len(trace.checkpoints):
        loss, best = float(trace.paid[-1]), float(trace.best_paid[-1])
        values |= {"regret": loss - best, "loss": loss, "best_loss": best}
        values["played"] = int(trace.checkpoints[-1])
    if (promise := facts.get("promise")) is not None:
        total = float(promise["total"])
        values["guarantee"] = total if math.isfinite(total) else None
        values["guarantee_valid"] = bool(trace.valid)
        values |= {name: facts[name] for name in ("rank", "epsilon")}
    which = {"game": job.game, "player": job.player, "run": job.number, "rounds": job.rounds}
    return {"point": point.number, **point.settings, **which, **values}
