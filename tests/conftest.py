"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import array_api_compat
import numpy as np
import pytest
from hypothesis import settings

from tests.support import fuzz

settings.load_profile(fuzz.PROFILE)

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Pass on how many cases of a fuzzed test were played."""
    count = fuzz.played.pop(getattr(item, "originalname", ""), 0) if call.when == "call" else 0
    if count:
        item.user_properties.append(("cases", count))
    return (yield)


def pytest_report_header():
    """Say which array libraries take part."""
    found = [name for name in LIBRARIES if importlib.util.find_spec(name)]
    return f"array libraries: {', '.join(found)}"


def pytest_terminal_summary(terminalreporter):
    """Say how much was fuzzed, and what was skipped and why, one line for each reason."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    cases = [count for r in reports for name, count in r.user_properties if name == "cases"]
    if cases:
        terminalreporter.write_line(f"fuzzed: {sum(cases):,} cases in {len(cases)} tests")
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}")
