"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import array_api_compat
import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("koloss", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("koloss")

collect_ignore = ["support/digest_setups.py"]  # which registers set-ups when it is imported, once
FAULTS = Path(__file__).parent / "faults"
LIBRARIES = ["numpy", "array_api_strict", "torch"]


@pytest.fixture(params=LIBRARIES)
def xp(request):
    """Namespace of an array library; torch only where it is installed."""
    library = pytest.importorskip(request.param)
    return array_api_compat.array_namespace(library.asarray([0.0]))


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20240717)


def pytest_collection_modifyitems(items):
    """Mark every test that runs over array libraries, and all below tests/faults."""
    for item in items:
        if "xp" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xp)
        if item.path.is_relative_to(FAULTS):
            item.add_marker(pytest.mark.faults)


def pytest_report_header():
    """Say which array libraries take part."""
    found = [name for name in LIBRARIES if importlib.util.find_spec(name)]
    return f"array libraries: {', '.join(found)}"


def pytest_terminal_summary(terminalreporter):
    """Say what was skipped and why, one line for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
