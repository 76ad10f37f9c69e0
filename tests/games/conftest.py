"""Other processes find this repository and the library where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import koloss as kl


@pytest.fixture(autouse=True, scope="session")
def found_by_other_processes():
    paths = [str(Path(__file__).parents[2]), str(Path(kl.__file__).parents[1])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]))
        yield
