"""The command line: what it prints where, what it writes, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import koloss as kl
from koloss.cli import KERNELS, KernelName, MethodName, application, main
from koloss.report.inspection import METHODS

SMALL = ["inspect", "--spacing", "0.25"]


def run(*arguments):
    """Run the verbs as typer's own tests do."""
    return CliRunner().invoke(application(), list(arguments))


def fails(capsys, *arguments):
    """Exit code and standard error of a run that fails, which leaves standard output empty."""
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    return exit_.value.code, captured.err


def shell(*arguments, code="from koloss.cli import main; main()"):
    """Run the command line in a process of its own, with its output in a pipe."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )


def test_names_are_those_of_the_library():
    assert {str(name) for name in KernelName} == set(KERNELS)
    assert {str(name) for name in MethodName} == set(METHODS)


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"koloss {kl.__version__}\n")


def test_help_names_every_option():
    result = CliRunner().invoke(application(), ["inspect", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for name in ("kernel", "bandwidth", "actions", "spacing", "rank", "tolerance", "method", "out"):
        assert f"--{name}" in result.stdout


def test_without_a_verb_comes_the_help():
    result = run()
    assert result.exit_code == 0
    assert "inspect" in result.stdout


def test_table_has_every_part():
    result = run(*SMALL)
    assert result.exit_code == 0
    for part in (
        "Spectrum",
        "Decay",
        "fits better",
        "Certified error",
        "chosen",
        "p = ",
        "Seconds",
    ):
        assert part in result.stdout
    for design in ("G-optimal design", "barycentric spanner", "uniform"):
        assert design in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_json_is_all_there_is_on_standard_output():
    result = run(*SMALL, "--json", "--tolerance", "0.01")
    numbers = json.loads(result.stdout)
    assert set(numbers) == {
        "version",
        "kernel",
        "actions",
        "proxy",
        "spectrum",
        "sample_size",
        "designs",
        "design",
        "seconds",
    }
    assert numbers["version"] == kl.__version__
    assert numbers["kernel"] == {"kind": "Gaussian", "bandwidth": 0.3}
    assert numbers["actions"]["count"] == 25
    assert numbers["proxy"]["epsilon"] <= 0.01
    assert numbers["proxy"]["epsilon"] == numbers["proxy"]["certified"][numbers["proxy"]["rank"]]


def test_files_are_written(tmp_path):
    out = tmp_path / "new" / "folder"
    result = run(*SMALL, "--out", str(out), "--json")
    assert result.exit_code == 0
    assert (out / "inspect.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "inspect.svg").read_text(encoding="utf-8")
    written = json.loads((out / "inspect.json").read_text(encoding="utf-8"))
    assert written == json.loads(result.stdout)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("actions", ["grid", "ball"])
def test_every_kernel_on_every_set(kernel, actions):
    result = run(*SMALL, "--kernel", kernel, "--actions", actions, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["kernel"]["kind"] == KERNELS[kernel][0].__name__


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "kernel-pca"),
        ("--method", "mercer", "--rank", "12"),
        ("--method", "exact", "--kernel", "quadratic"),
        ("--method", "mercer", "--kernel", "periodic", "--dimension", "1"),
        ("--dimension", "3", "--rank", "5"),
    ],
)
def test_every_method(options):
    result = run(*SMALL, *options, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["designs"][0]["gap"] <= 1e-3


@pytest.mark.parametrize(
    "options, message",
    [
        (["--kernel", "laplace"], "--kernel"),
        (["--bandwidth", "0"], "`bandwidth` must be positive, got 0"),
        (["--bandwidth", "nan"], "`bandwidth` must be finite"),
        (["--bandwidth", "wide"], "--bandwidth"),
        (["--degree", "2"], "--degree does not fit the gaussian kernel, which takes --bandwidth"),
        (["--kernel", "linear", "--offset", "1"], "which takes no parameters"),
        (["--kernel", "matern", "--smoothness", "1000"], "`smoothness` must be at most 100"),
        (["--dimension", "0"], "--dimension"),
        (["--spacing", "-1"], "`spacing` must be positive, got -1"),
        (["--spacing", "1e-9"], "--spacing 1e-09 gives about 1e+18 actions, more than 200,000"),
        (["--rank", "0"], "`rank` must be at least 1, got 0"),
        (["--rank", "26"], "`rank` must be at most 25"),
        (["--rank", "2", "--tolerance", "0.1"], "give `rank` or `tolerance`, not both"),
        (["--tolerance", "0"], "`tolerance` must be positive"),
        (["--tolerance", "1e-300"], "`tolerance` must be at least"),
        (["--method", "exact"], "has no finite feature map"),
        (["--method", "exact", "--kernel", "linear", "--rank", "1"], "`rank` must be left out"),
        (["--method", "mercer", "--kernel", "matern"], "`kernel` must be Gaussian or Periodic"),
        (["--bogus"], "--bogus"),
        (["extra"], "extra"),
    ],
)
def test_bad_options_give_one_line(capsys, options, message):
    code, error = fails(capsys, *SMALL, *options)
    assert code == 2
    assert message in error
    assert error.startswith("error: ")
    assert error.endswith("\n")
    assert error.count("\n") == 1


def test_unknown_verb(capsys):
    code, error = fails(capsys, "inspekt")
    assert (code, error.count("\n")) == (2, 1)


def test_out_that_is_a_file(capsys, tmp_path):
    path = tmp_path / "taken"
    path.touch()
    code, error = fails(capsys, *SMALL, "--out", str(path))
    assert (code, error.count("\n")) == (2, 1)
    code, error = fails(capsys, *SMALL, "--out", str(path / "below"))
    assert (code, error.count("\n")) == (1, 1)


def test_a_pipe_gets_plain_text():
    result = shell(*SMALL)
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert "Gaussian(bandwidth=0.3)" in result.stdout


def test_bad_option_in_a_process():
    result = shell("inspect", "--rank", "many")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("library", ["typer", "rich", "matplotlib"])
def test_missing_library_names_the_extra(library):
    hidden = f"import sys; sys.modules[{library!r}] = None; from koloss.cli import main; main()"
    result = shell("--version", code=hidden)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: the command line needs {library}; install it with: "
        "pip install 'koloss[experiments]'\n"
    )


def test_command_line_loads_no_plots_before_it_must():
    code = (
        "import sys; from koloss.cli import application; application(); "
        "print('matplotlib' in sys.modules)"
    )
    assert shell(code=code).stdout == "False\n"
