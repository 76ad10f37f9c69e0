"""A source archive and a wheel, built and used as a user would: in environments that hold nothing else.

What the wheel says it needs is linked from the packages that run this test, so that no network is needed; with
KOLOSS_WHEEL=fetch (`make test-wheel`) pip fetches it. Either way, what is not declared is not there.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from tests.support.runs import SPEC

ROOT = Path(__file__).parents[2]
STUDY = """name = "prices"
actions = {kind = "Points", X = [[0.0], [1.0]]}
learner = {kind = "BanditExpWeights", horizon = 100, loss_range = [0, 1]}
"""


def run(*command, check=True):
    """A command outside the checkout, with nothing of this environment but its PATH."""
    inherited = ("KOLOSS_WHEEL", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {name: value for name, value in os.environ.items() if name not in inherited}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=Path(sys.executable).anchor,
        env=env | {"PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The source archive, built from the checkout."""
    folder = tmp_path_factory.mktemp("archive")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("koloss-*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    """The wheel, built from the source archive alone."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder]
    run(sys.executable, "-m", "pip", "wheel", *options, archive)
    (path,) = folder.glob("koloss-*.whl")
    return path


def install(folder, wheel, extra=""):
    """An environment with the wheel and what it declares; returns the folder of its programs."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"]
    if os.environ.get("KOLOSS_WHEEL") == "fetch":
        run(*pip, f"{wheel}[{extra}]" if extra else wheel)
        return programs
    run(*pip, "--no-index", "--no-deps", wheel)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(programs / "python", "-c", code).stdout.strip())
    (metadata,) = packages.glob("koloss-*.dist-info")
    wanted, linked = [(importlib.metadata.PathDistribution(metadata), extra)], set()
    while wanted:
        distribution, extras = wanted.pop()
        for text in distribution.requires or []:
            needed = Requirement(text)
            marks = [{"extra": name} for name in extras.split(",")]
            if needed.marker and not any(needed.marker.evaluate(mark) for mark in marks):
                continue
            key = needed.name, ",".join(sorted(needed.extras))
            if key in linked:
                continue
            linked.add(key)
            if needed.name == "koloss":  # an extra within another
                wanted.append((importlib.metadata.PathDistribution(metadata), key[1]))
                continue
            found = importlib.metadata.distribution(needed.name)
            wanted.append((found, key[1]))
            link(found, packages)
    return programs


def link(distribution, packages):
    """Make a distribution of this environment one of another."""
    for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(distribution.locate_file(top))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """Programs of an environment with one extra; each is made once."""

    @functools.cache
    def made(extra=""):
        return install(tmp_path_factory.mktemp(extra or "plain"), wheel, extra)

    return made


def files_below(folder):
    """Paths of the files of a folder, caches aside."""
    paths = (path.relative_to(ROOT) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if "__pycache__" not in path.parts}


def test_the_archive_has_what_make_test_needs(archive):
    with tarfile.open(archive) as file:
        held = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in file.getnames()}
    folders = ("src", "tests", "docs", "examples", "benchmarks", "tools")
    for folder in (*folders, ".github"):
        assert files_below(ROOT / folder) - held == set()
    files = ("pyproject.toml", "Makefile", "mkdocs.yml", "README.md", "LICENSE", "CHANGELOG.md")
    assert {*files, "CONTRIBUTING.md", ".pre-commit-config.yaml"} <= held


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        held = {name for name in file.namelist() if ".dist-info/" not in name}
    package = {name.removeprefix("src/") for name in files_below(ROOT / "src" / "koloss")}
    assert held == package
    assert {"koloss/py.typed", "koloss/report/templates/report.html"} <= held
    assert any(name.startswith("koloss/experiments/specs/") for name in held)


# What each extra promises, with nothing else installed.


def python(programs, extra, code):
    """What a program prints where the wheel is installed with an extra."""
    return run(programs(extra) / "python", "-c", f"if True:{code}").stdout


def test_the_library_without_extras(programs):
    code = """
        import sys, numpy as np, koloss as kl
        assert kl.__file__.startswith(sys.prefix), kl.__file__
        learner = kl.BanditExpWeights(kl.Points([[0.0], [0.5], [1.0]]), kl.Gaussian(0.5), horizon=50, rng=0)
        for _ in range(50):
            decision = learner.ask()
            learner.tell(decision, float(decision.action[0]))
        print(learner.guarantee().valid, learner.recommend().action)
    """
    assert python(programs, "", code).split() == ["True", "[0.]"]


def test_a_study_without_extras(programs, tmp_path):
    (tmp_path / "prices.toml").write_text(STUDY, "utf-8")
    code = f"""
        import sys, koloss as kl
        with kl.Study.from_toml("sqlite:///{tmp_path}/a.db", "{tmp_path}/prices.toml") as study:
            study.tell(study.ask().id, 0.5)
            study.export("{tmp_path}/prices.csv")
            print(study.status().told)
            try:
                study.export("{tmp_path}/prices.parquet")
            except ImportError as error:
                print(error)
    """
    told, error = python(programs, "", code).splitlines()
    assert told == "1"
    assert error.endswith("pip install 'koloss[parquet]'")


@pytest.mark.parametrize("module", [False, True])
def test_the_command_line_without_extras_names_the_extra(programs, module):
    done = run(*program(programs(), module), "list", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    install = "install them with: pip install 'koloss[cli]'"
    assert done.stderr == f"error: the command line needs typer, rich, msgspec; {install}\n"


def test_cli(programs, tmp_path):
    version = f"koloss {importlib.metadata.version('koloss')}\n"
    assert run(*program(programs("cli"), True), "--version").stdout == version
    koloss = program(programs("cli"), False)
    assert run(*koloss, "--version").stdout == version
    assert "reproduce" in run(*koloss, "--help").stdout
    assert "BanditExpWeights" in run(*koloss, "list").stdout
    assert "Theorem B3" in run(*koloss, "bound", "quadratic-bandit").stdout
    assert "G-optimal design" in run(*koloss, "inspect", "--spacing", "0.25").stdout
    (tmp_path / "prices.toml").write_text(STUDY, "utf-8")
    store = "--store", f"sqlite:///{tmp_path / 'studies.db'}"
    run(*koloss, "study", "create", tmp_path / "prices.toml", *store)
    for line in ("ask prices", "tell prices 0 0.5", "show prices", "list", "verify prices"):
        assert run(*koloss, "study", *line.split(), *store).stdout
    done = run(*koloss, "reproduce", "--out", tmp_path / "out", check=False)
    install = "install them with: pip install 'koloss[report]'"
    message = f"error: koloss reproduce needs matplotlib, jinja2; {install}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_report(programs, tmp_path):
    (tmp_path / "small.toml").write_text(SPEC, "utf-8")
    koloss = program(programs("report"), False)
    run(*koloss, "run", tmp_path / "small.toml", "--out", tmp_path / "out")
    assert "</html>" in (tmp_path / "out" / "report.html").read_text("utf-8")
    out = tmp_path / "reproduced"
    run(*koloss, "reproduce", "--only", "posynomial", "--rounds", "5", "--runs", "1", "--out", out)
    assert "</html>" in (out / "report.html").read_text("utf-8")


def test_parquet(programs, tmp_path):
    (tmp_path / "prices.toml").write_text(STUDY, "utf-8")
    code = f"""
        import koloss as kl, pyarrow.parquet
        with kl.Study.from_toml("sqlite:///{tmp_path}/a.db", "{tmp_path}/prices.toml") as study:
            study.tell(study.ask().id, 0.5)
            study.export("{tmp_path}/prices.parquet")
        print(pyarrow.parquet.read_table("{tmp_path}/prices.parquet")["value"].to_pylist())
    """
    assert python(programs, "parquet", code) == "[0.5]\n"


def test_postgres(programs, postgres_url, tmp_path):
    (tmp_path / "prices.toml").write_text(STUDY, "utf-8")
    code = f"""
        import koloss as kl
        with kl.Study.from_toml({postgres_url!r}, "{tmp_path}/prices.toml") as study:
            study.tell(study.ask().id, 0.5)
            print(study.status().told)
    """
    assert python(programs, "postgres", code) == "1\n"


def test_distributed(programs):
    code = """
        import koloss as kl
        from distributed import Client
        def game(rng):
            learner = kl.ExpWeights(kl.Ball(2), kl.Linear(), horizon=10, loss_norm=1.0, rng=rng)
            return learner, kl.games.Random(kl.Linear(), kl.Ball(2), rng=rng)
        if __name__ == "__main__":
            with Client(processes=False, dashboard_address=None) as client:
                futures = client.get_executor().map(lambda seed: game(seed)[0].ask().id, range(3))
                print(list(futures))
    """
    assert python(programs, "distributed", code) == "[0, 0, 0]\n"


def test_gpu(wheel):
    """What it would fetch; torch is a large download."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        lines = file.read(name).decode().splitlines()
    asked = [
        Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist")
    ]
    given = [one.name for one in asked if one.marker and one.marker.evaluate({"extra": "gpu"})]
    assert given == ["torch"]
    plain = sorted(one.name for one in asked if one.marker is None)
    assert plain == ["array-api-compat", "numpy", "scipy", "threadpoolctl"]


def program(programs, module):
    """The command line, as a program or as a module."""
    return [programs / "python", "-m", "koloss"] if module else [programs / "koloss"]
