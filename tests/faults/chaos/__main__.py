"""Run the subjects named on the command line, or all, and print the table."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import time

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

SUBJECTS = ("kills", "servers", "disks", "clocks")
SHOWN = 5  # problems of a row that are printed


def main() -> int:
    from tests.faults.chaos.trials import HEAD, TRIALS, Servers, line, play

    options = _options()
    logging.getLogger("koloss.studies").setLevel(logging.ERROR)  # faults are no news here
    for subject in options.subjects or SUBJECTS:
        importlib.import_module(f"tests.faults.chaos.{subject}")
    names = [name for name in TRIALS if options.only in (None, name)]
    if not names:
        sys.exit(f"error: no trial is called {options.only!r}; there are {', '.join(TRIALS)}")
    print(f"seed {options.seed}, {'quick' if options.quick else 'full'} version\n\n{HEAD}")
    start, servers, rows = time.perf_counter(), Servers(), []
    try:
        for name in names:
            rows.append(play(TRIALS[name], servers, seed=options.seed, quick=options.quick))
            shown = rows[-1].problems[:SHOWN]
            print(line(rows[-1]), *(f"  {problem}" for problem in shown), sep="\n", flush=True)
    finally:
        servers.stop()
    faults, problems = sum(row.faults for row in rows), sum(len(row.problems) for row in rows)
    print(f"\n{faults:,} faults, {problems:,} problems, in {time.perf_counter() - start:.0f} s")
    return 1 if problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="subject", help=f"among {', '.join(SUBJECTS)}"
    )
    parser.add_argument("--quick", action="store_true", help="a minute in place of many")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (default 0)")
    parser.add_argument("--only", metavar="TRIAL", help="the trial of this name alone")
    options = parser.parse_args()
    for name in options.subjects:
        if name not in SUBJECTS:
            parser.error(f"no subject is called {name!r}; there are {', '.join(SUBJECTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
