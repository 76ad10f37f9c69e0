"""Run the subjects named on the command line, or all, and print the table."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

SUBJECTS = (
    "calls",
    "threads",
    "seeds",
    "snapshots",
    "runs",
    "specs",
    "numbers",
    "spaces",
    "requests",
)
SHOWN = 5  # failures of a row that are printed


def main() -> int:
    from torture.trials import play_in

    options = _options()
    subjects = options.subjects or SUBJECTS
    owner = _load(subjects)
    names = [name for name in owner if options.only is None or name == options.only]
    if not names:
        sys.exit(f"error: no trial is called {options.only!r}; there are {', '.join(owner)}")
    version = "quick" if options.quick else "full"
    print(f"seed {options.seed}, {version} version, {len(names)} trials", flush=True)
    start, rows = time.perf_counter(), {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, max_tasks_per_child=1) as pool:
        jobs = {
            pool.submit(play_in, owner[name], name, options.seed, options.quick, options.case): name
            for name in names
        }
        for job in as_completed(jobs):
            row = rows[jobs[job]] = job.result()
            lines = [_line(row), *row.examples[:1]]
            print(*(f"  {line}" for line in lines), sep="\n", file=sys.stderr, flush=True)
    print(f"\n{'subject':<11}{'trial':<58}{'tried':>9}{'failed':>8}{'seconds':>9}{'of CPU':>8}")
    for name in names:
        print(f"{owner[name]:<11}{_line(rows[name])}")
    for name in names:
        for example in rows[name].examples[:SHOWN]:
            print(f"\nfailed: {name}\n  python -m torture {owner[name]} --only '{name}' {example}")
    tried, failed, cpu = (
        sum(getattr(row, what) for row in rows.values()) for what in ("tried", "failed", "cpu")
    )
    seconds = f"{time.perf_counter() - start:.0f} s, {cpu:.0f} s of CPU"
    print(f"\ntried {tried:,}, failed {failed:,}, in {seconds}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="subject", help=f"among {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--quick", action="store_true", help="two minutes in place of many")
    parser.add_argument("--seed", type=int, default=0, help="of the cases (default 0)")
    parser.add_argument("--only", metavar="TRIAL", help="the trial of this name alone")
    parser.add_argument("--case", type=int, help="one call of it alone, as printed with a failure")
    parser.add_argument("--workers", type=int, default=2, help="trials side by side (default 2)")
    options = parser.parse_args()
    for name in options.subjects:
        if name not in SUBJECTS:
            parser.error(f"no subject is called {name!r}; there are {', '.join(SUBJECTS)}")
    return options


def _load(subjects: tuple[str, ...]) -> dict[str, str]:
    """Subject of each trial, in the order in which they were written."""
    from torture.trials import TRIALS

    owner: dict[str, str] = {}
    for subject in subjects:
        importlib.import_module(f"torture.{subject}")
        owner |= dict.fromkeys([name for name in TRIALS if name not in owner], subject)
    return owner


def _line(row) -> str:  # type: ignore[no-untyped-def]
    return f"{row.name:<58}{row.tried:>9,}{row.failed:>8,}{row.seconds:>9.1f}{row.cpu:>8.1f}"


if __name__ == "__main__":
    sys.exit(main())
