"""The versions that are declared are those that are tested: the newest by `make test`, the lowest by `make test-lowest`."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("lowest", ROOT / "tools" / "lowest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project(*core, **extras):
    return {
        "project": {"dependencies": list(core), "optional-dependencies": extras},
        "dependency-groups": {"test": ["pytest>=8.2"]},
    }


def test_lowest_of_what_is_asked_for(tool):
    declared = project("numpy>=2.0", gpu=["torch>=2.3"], arena=["a.b[c]>=1,<2", "d==0.1.dev3"])
    assert tool.lowest(declared) == {"numpy": "2.0"}
    expected = {"numpy": "2.0", "a.b": "1", "d": "0.1.dev3", "pytest": "8.2"}
    assert tool.lowest(declared, ["arena"], ["test"]) == expected


def test_an_extra_may_bring_others_of_its_own(tool):
    declared = project("numpy>=2.0", cli=["rich>=13"], report=["koloss[cli]", "jinja2>=3.1"])
    expected = {"numpy": "2.0", "rich": "13", "jinja2": "3.1"}
    assert tool.lowest(declared, ["report"]) == expected


def test_the_library_needs_four_packages():
    names = [Requirement(text).name for text in PROJECT["project"]["dependencies"]]
    assert sorted(names) == ["array-api-compat", "numpy", "scipy", "threadpoolctl"]


def test_extras():
    extras = {
        name: sorted(Requirement(text).name for text in needs)
        for name, needs in PROJECT["project"]["optional-dependencies"].items()
    }
    assert extras["cli"] == ["msgspec", "rich", "typer"]
    assert extras["report"] == ["jinja2", "koloss", "matplotlib"]
    assert extras["postgres"] == ["psycopg"]
    assert extras["parquet"] == ["pyarrow"]
    assert extras["gpu"] == ["torch"]
    assert extras["distributed"] == ["dask", "distributed"]
    everything = {name for needs in extras.values() for name in needs} - {"koloss"}
    (text,) = PROJECT["project"]["optional-dependencies"]["all"]
    named = {name for extra in Requirement(text).extras for name in extras[extra]}
    assert everything == (named | set(extras["cli"])) - {"koloss"}
    assert not everything & {"cvxpy", "ConfigSpace", "pytest"}


@pytest.mark.parametrize("requirement", ["numpy", "numpy<3", "numpy~=2.0"])
def test_a_requirement_without_a_lowest_version(tool, requirement):
    with pytest.raises(ValueError, match=f"must name its lowest version, got '{requirement}'"):
        tool.lowest(project(requirement))


def test_two_minima_of_one_package(tool):
    with pytest.raises(ValueError, match="rich is declared with two minima, 13 and 14"):
        tool.lowest(project("rich>=13", more=["rich>=14"]), ["more"])


@pytest.mark.process
def test_constraints_of_this_project(tool):
    command = [sys.executable, ROOT / "tools" / "lowest.py", "--extra", "report"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [f"{name}=={version}" for name, version in tool.lowest(PROJECT, ["report"]).items()]
    assert done.stdout.splitlines() == lines
    assert {line.partition("==")[0] for line in lines} >= {"numpy", "scipy", "typer"}


def test_every_minimum_is_stated_once(tool):
    groups = [name for name in PROJECT["dependency-groups"] if name != "dev"]
    tool.lowest(PROJECT, PROJECT["project"]["optional-dependencies"], groups)


def test_interpreters_that_are_declared_are_those_of_the_workflow():
    text = "Programming Language :: Python :: 3."
    classifiers = PROJECT["project"]["classifiers"]
    minors = [int(line.removeprefix(text)) for line in classifiers if line.startswith(text)]
    assert PROJECT["project"]["requires-python"] == f">=3.{min(minors)}"
    versions = ", ".join(f'"3.{minor}"' for minor in minors)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert f"python: [{versions}]" in workflow
    assert f'python-version: "3.{min(minors)}"' in workflow  # with the lowest versions
