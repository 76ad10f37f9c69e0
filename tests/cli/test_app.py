"""The command line as a whole: help, errors, output, completion."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys

import pytest

import koloss as kl
from koloss.cli import main
from koloss.experiments import shipped

VERBS = {
    "inspect": ("kernel", "actions", "spacing", "rank", "tolerance", "method", "out", "json"),
    "reproduce": ("out", "full", "runs", "rounds", "only", "seed", "jobs", "json"),
    "run": ("out", "full", "runs", "rounds", "seed", "jobs", "json"),
    "bound": ("horizon", "learner", "kernel", "actions", "spacing", "loss-norm", "loss-range", "json"),
    "list": ("spec", "json"),
}  # fmt: skip
NAMES = {
    "inspect": ("gaussian", "matern", "posynomial", "grid", "ball", "pivoted-cholesky", "exact"),
    "reproduce": shipped(),
    "run": shipped(),
    "bound": ("bandit-exp-weights", "insured-bandit", "follow-the-regularized-leader", "quadratic"),
    "list": shipped(),
}

STUDY = """name = "prices"
actions = {kind = "Points", X = [[0.0], [1.0]]}
learner = {kind = "BanditExpWeights", horizon = 100, loss_range = [0, 1]}
"""
LOADED = """if True:
    import sys
    from koloss.cli import main
    slow = {"matplotlib", "jinja2", "msgspec", "koloss.experiments", "koloss.report", "koloss.games"}
    for line in sys.argv[1:]:
        try:
            main(line.split())
        except SystemExit as end:
            print(end.code or 0, slow & {*sys.modules}, file=sys.stderr)
"""
"""Runs command lines one after the other, and says which of these have been imported by then."""


def test_version(good):
    assert good("--version") == good("--version", "list") == f"koloss {kl.__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_every_option_and_every_name(good, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "200")
    words = good(verb, "--help").replace(",", " ").replace(".", " ").split()
    assert {f"--{name}" for name in VERBS[verb]} <= set(words)
    assert set(NAMES[verb]) <= set(words)
    assert verb in good()  # without a verb comes the help


def test_unknown_verb(refused):
    assert "inspekt" in refused("inspekt")


def test_bad_option(refused):
    assert "--rank" in refused("inspect", "--rank", "many")


@pytest.mark.parametrize("library", ["typer", "rich", "msgspec"])
def test_missing_library_names_the_extra(cli, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    message = f"the command line needs {library}; install it with: pip install"
    assert cli("--version") == (1, "", f"error: {message} 'koloss[cli]'\n")


@pytest.mark.parametrize(
    "line, who",
    [
        ("reproduce --out out", "koloss reproduce"),
        ("run own.toml", "koloss run"),
        ("inspect --out out", "--out"),
    ],
)
def test_verbs_that_draw_name_the_other_extra(spec, cli, monkeypatch, line, who):
    for library in ("jinja2", "matplotlib"):
        monkeypatch.setitem(sys.modules, library, None)
    message = f"{who} needs matplotlib, jinja2; install them with: pip install 'koloss[report]'"
    assert cli(*line.split()) == (1, "", f"error: {message}\n")
    assert [path.name for path in spec.parent.iterdir()] == ["own.toml"]


@pytest.mark.process
def test_verbs_of_studies_load_neither_experiments_nor_reports(shell, tmp_path):
    (tmp_path / "prices.toml").write_text(STUDY, encoding="utf-8")
    lines = ["--help", f"study create {tmp_path / 'prices.toml'}", "study ask prices"]
    lines += ["study tell prices 0 1", "study show prices", "study verify prices"]
    store = f"sqlite:///{tmp_path / 'studies.db'}"
    answer = shell(*lines, code=LOADED, KOLOSS_STORE=store)
    assert (answer.code, answer.err) == (0, "0 set()\n" * len(lines))
    assert "told 0" in answer.out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_cannot_be_encoded_is_replaced(good, monkeypatch, encoding):
    whole, numbers = good("list"), json.loads(good("list", "--json"))
    text, plain = (in_encoding(encoding, monkeypatch, *more) for more in ([], ["--json"]))
    assert text == whole.encode(encoding, "replace").decode(encoding) != whole
    assert json.loads(plain) == numbers  # nothing is lost


def in_encoding(encoding, monkeypatch, *more):
    """The catalogue on a standard output with this encoding."""
    with monkeypatch.context() as patch, io.TextIOWrapper(io.BytesIO(), encoding) as stream:
        patch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as exit_:
            main(["list", *more])
        assert not exit_.value.code
        stream.flush()
        return stream.buffer.getvalue().decode(encoding)


@pytest.mark.slow
def test_the_module_is_the_command_also_without_utf_8():
    command = [sys.executable, "-m", "koloss", "bound", "--kernel", "quadratic"]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    answer = subprocess.run(
        command, capture_output=True, check=True, env=os.environ | ascii_only, encoding="ascii"
    )
    assert answer.stderr == ""
    assert "?" in answer.stdout


ON_A_TERMINAL = """if True:
    import os
    from koloss import report
    from koloss.cli import main
    report.write_page = lambda results, out: [out / "report.html"]  # figures have no escapes
    run = "run posynomial --rounds 3 --runs 1 --jobs 1 --out here"
    for plain in (False, True):
        os.environ |= {"NO_COLOR": "1"} if plain else {}
        for line in ("--help", "inspect --help", "list", "bound --kernel quadratic", run):
            try:
                main(line.split())
            except SystemExit as end:
                assert not end.code
        print("THE END")
"""
"""What a terminal is sent by help, tables and a game, with colours and without."""


@pytest.mark.slow
def test_escapes_are_for_terminals_without_no_color(tmp_path):
    ours, theirs = pytest.importorskip("pty").openpty()
    environment = os.environ | {"TERM": "xterm-256color"}
    command, ends = [sys.executable, "-c", ON_A_TERMINAL], {"stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, **ends) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # once the other side is closed
            while part := os.read(ours, 65536):
                shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    coloured, plain, _ = shown.decode().split("THE END")
    assert coloured.count("\x1b") > 20
    assert "\x1b" not in plain


@pytest.mark.process
@pytest.mark.parametrize(
    "words, answer",
    [
        ("koloss re", "reproduce"),
        ("koloss run posy", "posynomial"),
        ("koloss reproduce --on", "--only"),
        ("koloss inspect --kernel pos", "posynomial"),
        ("koloss bound --learner foll", "follow-the-regularized-leader"),
    ],
)
def test_shell_completion(good, completed, monkeypatch, words, answer):
    assert completed(words) == [answer]
    monkeypatch.setenv("_KOLOSS_COMPLETE", "source_bash")  # what --install-completion writes
    assert "_KOLOSS_COMPLETE=complete_bash" in good()
