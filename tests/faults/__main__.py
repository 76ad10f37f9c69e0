"""Everything that `make test` leaves out, one part after another: `python -m tests.faults [--quick] [part ...]`.

    faults      signals, kills, full disks, cut lines, planted bugs, threads, wheels, a long audit of guarantees
    fuzz        hostile input, 150,000 cases (10,000, always the same, with --quick); KOLOSS_CASES says of how many
    statistics  tests of laws that take the fixture `rng`, with a seed that was not used before
    chaos       1,000 kills and other faults while studies are in use

A statistical test that fails with fresh seeds is played once more with others: correct code fails twice once in 10¹² times.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import time

PARTS = ("faults", "fuzz", "statistics", "chaos")
IN_QUICK = ("faults", "fuzz", "chaos")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", help=f"among {', '.join(PARTS)}; all of them")
    parser.add_argument(
        "--quick", action="store_true", help="six minutes on two cores, not an hour"
    )
    parser.add_argument("--workers", default="2", help="test processes (default 2)")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {min(unknown)!r}; there are {', '.join(PARTS)}")
    failed = []
    for part in options.parts or (IN_QUICK if options.quick else PARTS):
        start = time.perf_counter()
        code = run(part, options.quick, options.workers)
        if code and part == "statistics":
            print("== again, with other seeds: only what fails twice has failed", flush=True)
            code = run(part, options.quick, options.workers, "--last-failed")
        print(f"== {part}: exit code {code}, {time.perf_counter() - start:.0f} s", flush=True)
        failed += [part] * bool(code)
    return 1 if failed else 0


def run(part: str, quick: bool, workers: str, *more: str) -> int:
    """The exit code of one part."""
    environment = dict(os.environ)
    if part == "chaos":
        command = ["tests.faults.chaos", *["--quick"] * quick]
    else:
        chosen = {
            "faults": "faults and not fuzz" + " and not slow" * quick,
            "fuzz": "fuzz" + " and not slow" * quick,
            "statistics": "statistics",
        }[part]
        command = [
            "pytest",
            "-n",
            workers,
            "--dist",
            "worksteal",
            "-q",
            "-m",
            chosen,
            *more,
            "tests",
        ]
        if part == "fuzz":
            environment["HYPOTHESIS_PROFILE"] = "quick" if quick else "torture"
            if quick:
                environment.setdefault("KOLOSS_CASES", "10000")
        if part == "statistics":
            environment["KOLOSS_SEED"] = str(secrets.randbits(32))
            print(f"== KOLOSS_SEED={environment['KOLOSS_SEED']}", flush=True)
    return subprocess.run([sys.executable, "-m", *command], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
