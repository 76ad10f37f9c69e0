"""What tests of runs share."""

from __future__ import annotations

from koloss.games.trace import read_npz


def contents(folder):
    """Everything in the files of the runs of a folder that is not a time."""
    runs = {}
    for path in sorted(folder.glob("runs/**/*.npz")):
        plain, arrays = read_npz(path)
        for times in (plain, plain["facts"]):
            for name in ("seconds", "run_seconds", "making", "digest"):
                times.pop(name, None)
        runs[str(path.relative_to(folder))] = plain, {k: a.tobytes() for k, a in arrays.items()}
    return runs
