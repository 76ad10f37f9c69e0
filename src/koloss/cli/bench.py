"""The verb `bench`: the benchmarks of a checkout."""

import os
import subprocess
import sys
from pathlib import Path

import typer

from koloss.cli.options import UsageError, option


def bench(
    names: list[str] | None = typer.Argument(
        None, metavar="[NAME]...", help="Benchmarks. All if not given."
    ),
    full: bool = option(False, "Size", "The largest sizes as well.", "--full"),
    page: bool = option(False, "Size", "Measure nothing: write the page once more.", "--page"),
) -> None:
    """Measure Koloss against peers and the hardware, from a checkout.

    Ends with benchmarks/results.json and docs/benchmarks.md, the page that says what was measured. All of it takes half an hour.
    """
    root = checkout()
    if root is None:
        told = "git clone the repository, and call `make bench` or `koloss bench` there"
        raise UsageError(f"the benchmarks are in the repository, not in the package: {told}")
    command = [sys.executable, "-m", "benchmarks", *(names or ())]
    command += [flag for flag, given in (("--full", full), ("--page", page)) if given]
    # The source beside the benchmarks is what they measure, whatever is installed.
    paths = [str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    code = subprocess.run(command, cwd=root, env=environment, check=False).returncode
    if code:
        raise typer.Exit(code)


def checkout() -> Path | None:
    """The checkout that this is called in, or that the package is installed from; None elsewhere."""
    here = Path.cwd()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "benchmarks" / "__main__.py").is_file() and (
            folder / "src" / "koloss"
        ).is_dir():
            return folder
    return None
