"""The command line: what it prints where, what it writes, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from typing import get_args

import pytest
from typer.testing import CliRunner

import koloss as kl
from koloss import arena
from koloss.cli.app import (
    KERNELS,
    FamilyName,
    KernelName,
    LearnerName,
    MethodName,
    application,
    main,
)
from koloss.experiments import shipped
from koloss.experiments.arena.base import Family
from koloss.experiments.inspection import METHODS

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


def shell(*arguments, code="from koloss.cli import main; main()", **variables):
    """Run the command line in a process of its own, with its output in a pipe."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
        env=os.environ | variables,
    )


def test_names_are_those_of_the_library():
    assert {str(name) for name in KernelName} == set(KERNELS)
    assert {str(name) for name in MethodName} == set(METHODS)
    assert tuple(FamilyName) == get_args(Family)
    assert not set(arena.games()) & set(arena.players())  # a name says which it is


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
        "import sys; from koloss.cli.app import application; application(); "
        "print('matplotlib' in sys.modules)"
    )
    assert shell(code=code).stdout == "False\n"


# Games.

SPEC = """\
[game]
kernel = {kind = "Linear"}
actions = {kind = "Ball", dimension = 2}
rounds = 12
runs = 2

[adversary]
kind = "random"

[[learner]]
kind = "ExpWeights"
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


VERBS = {
    "reproduce": ("out", "full", "runs", "rounds", "only", "seed", "jobs", "json"),
    "run": ("out", "full", "runs", "rounds", "seed", "jobs", "json"),
    "bound": ("horizon", "learner", "kernel", "actions", "spacing", "loss-norm", "loss-range", "json"),
    "list": ("spec", "json"),
    "arena": ("out", "games", "family", "players", "no-peers", "quick", "runs", "rounds", "seed", "jobs", "limit", "json"),
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb(verb):
    result = CliRunner().invoke(application(), [verb, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for name in VERBS[verb]:
        assert f"--{name}" in result.stdout
    assert verb in run().stdout


def test_run_of_a_spec(spec):
    """A report, figures and numbers beside the spec; plain text in the pipe; nothing computed twice."""
    result = shell("run", "own.toml", "--jobs", "1")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    assert "wrote own-results/report.html" in result.stdout
    out = spec.parent / "own-results"
    assert "</html>" in (out / "report.html").read_text(encoding="utf-8")
    assert (out / "figures" / "own.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert [(e["name"], e["rounds"], e["runs"]) for e in written["experiments"]] == [("own", 12, 2)]
    again = run("run", "own.toml", "--jobs", "1", "--json")
    assert again.exit_code == 0, again.output
    assert "runs" in json.loads(again.stdout)["experiments"][0]
    text = run("run", "own.toml", "--jobs", "1")
    assert "2 of 2 runs are there already" in text.stderr


def test_sizes_reach_the_games(spec):
    options = ["--rounds", "7", "--runs", "1", "--seed", "3", "--out", "here", "--json"]
    result = run("reproduce", "--only", "posynomial", "quadratic-bandit", "--jobs", "1", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["seed"] == 3
    assert [(e["name"], e["rounds"], e["runs"]) for e in found["experiments"]] == [
        ("posynomial", 7, 1),
        ("quadratic-bandit", 7, 1),
    ]
    assert found == json.loads((spec.parent / "here" / "results.json").read_text("utf-8"))


def test_a_failed_run_gives_exit_code_1(spec, capsys):
    code = "import koloss as kl\ndef make(kernel, actions, rng):\n    return kl.games.Function(lambda t, p: kl.LinearLoss([9.0, 0.0]), norm=1.0)\n"
    (spec.parent / "own.py").write_text(code, encoding="utf-8")
    spec.write_text(SPEC.replace('"random"', '"python"\nfile = "own.py"'), encoding="utf-8")
    with pytest.raises(SystemExit) as exit_:
        main(["run", "own.toml", "--jobs", "1"])
    assert exit_.value.code == 1
    error = capsys.readouterr().err
    assert (
        "own, run 0 failed: LossOutOfBounds: the loss of round 0 must have norm at most 1" in error
    )
    assert error.splitlines()[-1] == "error: 2 runs failed; the report says why"
    page = (spec.parent / "own-results" / "report.html").read_text(encoding="utf-8")
    assert "must have norm at most 1, got 9" in page


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("rounds = 12", "rounds = none", "own.toml, line 4: invalid value"),
        ("rounds = 12", "rounds = 0", "own.toml, line 4: game.rounds: must be at least 1, got 0"),
        ("random", "rnadom", "own.toml, line 8: adversary.kind: must be one of random"),
        ("ExpWeights\"", "ExpWeights\"\nlos_norm = 1", "own.toml, line 12: learner[1].los_norm: is not a key"),
        ("ExpWeights\"", "ExpWeights\"\nlearning_rate = -1", "line 12: learner[1].learning_rate: must be pos"),
        ("Linear", "Gaussian", "own.toml, line 2: game.kernel: "),
    ],
)  # fmt: skip
def test_mistakes_in_a_spec_point_at_the_line(spec, capsys, old, new, message):
    spec.write_text(SPEC.replace(old, new), encoding="utf-8")
    code, error = fails(capsys, "run", "own.toml")
    assert (code, error.count("\n")) == (2, 1)
    assert error.startswith("error: ")
    assert message in error


@pytest.mark.parametrize(
    "options, message",
    [
        (["run", "missing.toml"], "there is no file missing.toml"),
        (["run", "quadratic-bandits"], "did you mean quadratic-bandit?"),
        (["run"], "SPEC"),
        (["run", "own.toml", "--runs", "0"], "--runs"),
        (["reproduce"], "--out"),
        (["reproduce", "--out", "x", "--only", "nothing"], "must be an experiment, got 'nothing'"),
        (["reproduce", "--out", "x", "--jobs", "0"], "--jobs"),
        (["reproduce", "--out", "own.toml"], "--out"),
        (["bound", "--horizon", "0"], "--horizon"),
        (["bound", "--loss-norm", "-1"], "`loss_norm` must be positive, got -1"),
        (["bound", "--loss-range", "1", "0"], "`loss_range` must be (low, high)"),
        (["bound", "--learner", "leader", "--loss-range", "0", "1"], "--loss-range does not fit"),
        (["bound", "--learner", "leader"], "no tractable projection"),
        (["bound", "--spacing", "-1"], "`net` must be positive"),
        (["bound", "--degree", "2"], "--degree does not fit the gaussian kernel"),
        (["list", "--spec", "nothing"], "must be an experiment"),
    ],
)
def test_bad_options_of_the_games(spec, capsys, options, message):
    code, error = fails(capsys, *options)
    assert (code, error.count("\n")) == (2, 1)
    assert message in error


def test_list():
    result = run("list")
    assert result.exit_code == 0
    found = json.loads(run("list", "--json").stdout)
    assert set(found) == {"experiments", "learners", "adversaries", "kernels", "actions"}
    for entries in found.values():
        for entry in entries:
            assert entry["name"] in result.stdout
    assert [entry["name"] for entry in found["experiments"]] == shipped()


def test_list_prints_a_spec_to_copy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("list", "--spec", "posynomial").stdout
    assert tomllib.loads(text)["game"]["kernel"]["kind"] == "Posynomial"
    (tmp_path / "copy.toml").write_text(text, encoding="utf-8")
    assert run("bound", "copy.toml").exit_code == 0


@pytest.mark.parametrize("learner", LearnerName)
def test_bound_of_every_learner(learner):
    game = ["bound", "--learner", learner, "--kernel", "quadratic", "--horizon", "400"]
    if learner == LearnerName.insured:
        game += ["--loss-range", "0", "1", "--spacing", "0.2"]
    result = run(*game, "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert found["rounds"] == 400
    assert found["guarantee"]["valid"]
    table = run(*game).stdout
    for term in found["guarantee"]["terms"]:
        assert term in table
    assert "assumes: " in table


def test_bound_of_the_insured_learner():
    game = ("bound", "--learner", "insured", "--actions", "grid", "--spacing", "0.2")
    result = run(*game, "--loss-range", "0", "1", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    actions = kl.Box([0, 0], [1, 1]).net(0.2)
    learner = kl.InsuredBandit(actions, kl.Gaussian(0.3), horizon=10_000, loss_range=(0, 1))
    assert found["guarantee"]["total"] == pytest.approx(learner.guarantee().total)
    assert found["paper"] is None
    assert run(*game).exit_code == 2  # it needs the range of losses


def test_bound_is_that_of_the_learner():
    result = run(
        "bound", "--actions", "grid", "--spacing", "0.2", "--loss-range", "0", "1", "--json"
    )
    actions = kl.Box([0, 0], [1, 1]).net(0.2)
    learner = kl.BanditExpWeights(actions, kl.Gaussian(0.3), horizon=10_000, loss_range=(0, 1))
    total = json.loads(result.stdout)[0]["guarantee"]["total"]
    assert total == pytest.approx(learner.guarantee().total)


@pytest.mark.parametrize(
    "words, answer",
    [
        ("koloss re", "reproduce"),
        ("koloss run posy", "posynomial"),
        ("koloss reproduce --on", "--only"),
        ("koloss arena --games matern", "matern-stationary"),
    ],
)
def test_shell_completion(words, answer):
    place = str(len(words.split()) - 1)
    result = shell(_KOLOSS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert result.stdout.split() == [answer], result.stderr
    script = shell(_KOLOSS_COMPLETE="source_bash")  # what --install-completion writes for bash
    assert "_KOLOSS_COMPLETE=complete_bash" in script.stdout


# The arena.

BOUT = ["arena", "--games", "stationary", "compressor", "--players", "uniform", "exp3", "--rounds", "40"]  # fmt: skip


def test_arena(tmp_path):
    """A page, figures and numbers; plain text in the pipe; nothing played twice."""
    size = ["--runs", "2", "--jobs", "1", "--out", str(tmp_path)]
    result = shell(*BOUT, *size, COLUMNS="100")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout + result.stderr
    for word in ("stationary", "compressor", "uniform", "exp3", f"wrote {tmp_path / 'arena.html'}"):
        assert word in result.stdout
    assert "8 of 8 runs done" in result.stderr
    assert "</html>" in (tmp_path / "arena.html").read_text(encoding="utf-8")
    assert (tmp_path / "arena-summary.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (tmp_path / "arena-summary.svg").read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "compressor.svg").is_file()
    written = json.loads((tmp_path / "arena.json").read_text(encoding="utf-8"))
    assert [(e["game"], e["player"], e["rounds"], len(e["runs"])) for e in written["results"]] == [
        ("stationary", "exp3", 40, 2),
        ("stationary", "uniform", 40, 2),
        ("compressor", "exp3", 40, 2),
        ("compressor", "uniform", 40, 2),
    ]
    again = run(*BOUT, *size, "--json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["results"] == written["results"]
    assert "8 of 8 runs are there already" in run(*BOUT, *size).stderr


def test_quick_arena_and_a_player_that_is_not_there(tmp_path):
    """Failures are results: exit code 0. `--quick` is small and leaves out peers."""
    names = ["--games", "compressor", "--players", "uniform", "smpybandits-tsallis-inf"]
    out = ["--out", str(tmp_path), "--jobs", "1", "--json"]
    result = run("arena", *names, "--runs", "1", "--rounds", "20", *out)
    assert result.exit_code == 0, result.output
    first = {e["player"]: e for e in json.loads(result.stdout)["results"]}
    assert list(first) == ["uniform", "smpybandits-tsallis-inf"]
    peer = first["smpybandits-tsallis-inf"]
    assert peer["finished"] or peer["runs"][0]["message"]
    result = run("arena", *names, "--quick", *out)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["results"]
    assert [(e["player"], e["rounds"], len(e["runs"])) for e in found] == [("uniform", 300, 2)]


@pytest.mark.parametrize(
    "options, message",
    [
        ([], "--out"),
        (["--out", "x", "--games", "stationery"], "--games must be among stationary, drift, "),
        (["--out", "x", "--players", "gp"], "--players must be among insured, insured-thompson, "),
        (["--out", "x", "--games", "drift", "drfit"], "a name must be among stationary, "),
        (["--out", "x", "--family", "hidden"], "--family"),
        (["--out", "x", "--family", "data", "--games", "drift"], "give --games or --family, not both"),
        (["--out", "x", "--no-peers", "--players", "river-exp3"], "--no-peers leaves no player"),
        (["--out", "x", "--runs", "0"], "--runs"),
        (["--out", "x", "--rounds", "0"], "--rounds"),
        (["--out", "x", "--jobs", "0"], "--jobs"),
        (["--out", "x", "--limit", "0"], "--limit"),
        (["--out", "x", "--limit", "nan"], "--limit"),
    ],
)  # fmt: skip
def test_bad_options_of_the_arena(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    code, error = fails(capsys, "arena", *options)
    assert (code, error.count("\n")) == (2, 1)
    assert message in error
    if "must be among" in message:
        assert options[-1] in error
        assert error.count(", ") > 15  # all that are allowed
    assert list(tmp_path.iterdir()) == []
