"""Fixtures shared by all tests."""

from __future__ import annotations

import importlib.util
import itertools
import multiprocessing.process
import os
import re
import sys
from collections import Counter
from pathlib import Path

import array_api_compat
import numpy as np
import pytest
from hypothesis import settings

from tests.support import fuzz
from tests.support.statistics import seed

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
    """A generator with a fixed seed, which KOLOSS_SEED shifts."""
    return np.random.default_rng(seed(20240717))


def pytest_addoption(parser):
    parser.addoption(
        "--check",
        action="store_true",
        help="as `make check`: one case per class of parameters, and no test may start a process",
    )


def pytest_configure(config):
    """Under --check a test that starts a process fails: it must be marked `process`."""
    if config.getoption("--check"):
        sys.addaudithook(_refuse_processes)
        multiprocessing.process.BaseProcess.start = lambda _: _refuse_processes("os.fork", ())


def _refuse_processes(event, arguments):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if test.endswith(("(setup)", "(call)")) and event in ("subprocess.Popen", "os.fork"):
        raise RuntimeError(f"{test} starts a process: mark it with pytest.mark.process")


def pytest_collection_modifyitems(config, items):
    """Mark tests by what they use, are called and where they are; under --check leave further cases out."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "xp" in fixtures:
            item.add_marker(pytest.mark.xp)
        if "server" in fixtures or re.search("process|fork", item.name):
            item.add_marker(pytest.mark.process)
        if "rng" in fixtures and hasattr(item.module, "agrees"):
            item.add_marker(pytest.mark.statistics)
        if item.path.is_relative_to(FAULTS):
            item.add_marker(pytest.mark.faults)
    if config.getoption("--check"):
        seen = set()
        another = [_is_another_case(item, seen) for item in items]
        config.hook.pytest_deselected(items=list(itertools.compress(items, another)))
        items[:] = [item for item, left_out in zip(items, another, strict=True) if not left_out]


def _is_another_case(item, seen):
    """Whether a case has no class that an earlier one of its test has not had: classes are the first words of its names."""
    if not hasattr(item, "callspec"):
        return False
    classes = re.findall(r"(?:^|-)([A-Za-z_ ]*)", item.callspec.id)
    new = {(item.path, item.originalname, name) for name in classes} - seen
    seen |= new
    return not new


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
