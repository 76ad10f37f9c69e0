"""Run the benchmarks named on the command line, or all."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

NAMES = (
    "imports",
    "kernels",
    "proxies",
    "designs",
    "bandit",
    "ridge",
    "insured",
    "late",
    "segments",
    "contexts",
    "samplers",
    "oracles",
    "geometric",
    "leader",
    "studies",
)

# Read when NumPy is first imported. One thread for everybody: threads that wait for each other on a busy
# machine measure the machine. Set a variable yourself to choose otherwise.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"among {', '.join(NAMES)}")
    parser.add_argument("--full", action="store_true", help="the largest sizes as well")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks.json"), help="JSON file")
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"no benchmark is called {name!r}; there are {', '.join(NAMES)}")

    from benchmarks.tables import show

    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "benchmarks": {}}
    for name in options.names or NAMES:
        start = time.perf_counter()
        tables = importlib.import_module(f"benchmarks.{name}").run(full=options.full)
        seconds = time.perf_counter() - start
        for table in tables:
            show(table)
        print(f"{name}: {seconds:.0f} s\n", flush=True)
        results["benchmarks"][name] = {
            "seconds": seconds,
            "tables": [table.to_dict() for table in tables],
        }
        options.out.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {options.out}")
    return 0


def machine() -> dict[str, object]:
    """What the ratios may depend on."""
    import numpy as np
    import scipy
    from threadpoolctl import threadpool_info

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "processors": os.cpu_count(),
        "threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
    }


if __name__ == "__main__":
    sys.exit(main())
