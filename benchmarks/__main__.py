"""Run the benchmarks named on the command line, or all, and write the page of the documentation."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import GROUPS, NAMES, Unavailable
from benchmarks.page import KEPT, write_page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    known = dict.fromkeys([*GROUPS, *NAMES])
    parser.add_argument("names", nargs="*", metavar="name", help=f"among {', '.join(known)}")
    parser.add_argument("--full", action="store_true", help="the largest sizes as well")
    parser.add_argument("--show", action="store_true", help="only print the tables that are kept")
    parser.add_argument("--page", action="store_true", help="only write the page once more")
    parser.add_argument(
        "--out", type=Path, default=KEPT, help="JSON file; elsewhere without a page"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in known:
            parser.error(f"no benchmark is called {name!r}; there are {', '.join(known)}")
    named = dict.fromkeys(part for name in options.names for part in GROUPS.get(name, (name,)))
    names = tuple(named) or NAMES
    if options.show:
        show_kept(options.out, names)
        return 0
    # Read when NumPy is first imported. One thread for everybody: threads that wait for each other on a busy
    # machine measure the machine. Set a variable yourself to choose otherwise.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    left_out = []
    for name in () if options.page else names:
        try:
            keep(options.out, name, measure(name, options.full))
        except Unavailable as error:
            print(
                f"{name}: left out, {error} here; what was measured elsewhere stays\n", flush=True
            )
        except ModuleNotFoundError as error:
            left_out.append(f"{name} (no {error.name})")
            print(f"{name}: left out, since there is no module {error.name}\n", flush=True)
    if not options.page:
        print(f"wrote {options.out}")
    if options.out == KEPT:
        print(f"wrote {write_page()}")
    if left_out:
        print(f"left out: {', '.join(left_out)}", file=sys.stderr)
    return 1 if left_out else 0


def measure(name: str, full: bool) -> dict[str, Any]:
    """One benchmark: what is kept of it."""
    from benchmarks.tables import show

    module, machine = importlib.import_module(f"benchmarks.{name}"), describe_machine()
    start = time.perf_counter()
    tables = module.run(full=full)
    seconds = time.perf_counter() - start
    machine["load after"] = round(os.getloadavg()[0], 1)
    if hasattr(module, "machine"):
        machine["device"] = module.machine()
    for table in tables:
        show(table)
    print(f"{name}: {seconds:.0f} s\n", flush=True)
    return {
        "summary": module.__doc__.partition("\n")[0],
        "command": f"python -m benchmarks {name}" + (" --full" if full else ""),
        "seconds": round(seconds),
        "machine": machine,
        "tables": [table.to_dict() for table in tables],
    }


def show_kept(path: Path, names: Sequence[str]) -> None:
    """Print tables of a file."""
    from benchmarks.tables import Table, show

    kept = json.loads(path.read_text("utf-8"))
    for name in names:
        for table in kept[name]["tables"] if name in kept else ():
            show(Table.from_dict(table))


def keep(path: Path, name: str, found: dict[str, Any]) -> None:
    """Put what a benchmark has found in the place of what it found before."""
    kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    kept[name] = found
    kept = {one: kept[one] for one in NAMES if one in kept}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def describe_machine() -> dict[str, Any]:
    """What the ratios may depend on."""
    import numpy as np
    import scipy.linalg
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return {
        "day": dt.datetime.now(dt.UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "BLAS": ", ".join(sorted({f"{p['internal_api']} {p['version']}" for p in pools})),
        "BLAS threads": max((pool["num_threads"] for pool in pools), default=1),
        "load before": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
