"""`import koloss` stays quick: it loads NumPy, scipy.linalg, array-api-compat and itself, nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


SLOW = {
    "cvxpy",
    "matplotlib",
    "rich",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.spatial",
    "scipy.special",
    "scipy.stats",
    "torch",
    "typer",
}


def loaded(statement):
    """Modules that a fresh interpreter has after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_nothing_slow_is_loaded():
    needed = loaded("import scipy.linalg")  # in SciPy 1.13 it brings scipy.sparse along
    assert not SLOW & (loaded("import koloss") - needed)


def test_nothing_foreign_is_loaded():
    extra = loaded("import koloss") - loaded("import numpy, scipy.linalg, array_api_compat")
    # Parts of the standard library that it needs come along; packages of others do not.
    foreign = {name.partition(".")[0] for name in extra} - set(sys.stdlib_module_names)
    # array-api-compat makes a namespace of its own for every array library in use.
    assert foreign <= {"koloss", "array_api_compat"}


def test_command_line_module_loads_nothing_slow():
    assert not {"matplotlib", "rich", "typer"} & loaded("import koloss.cli, koloss.report")
