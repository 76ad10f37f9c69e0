"""The command line as a whole: help, errors, output, completion."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

import koloss as kl
from koloss import arena
from koloss.experiments import shipped

VERBS = {
    "inspect": ("kernel", "bandwidth", "actions", "spacing", "rank", "tolerance", "method", "out", "json"),
    "reproduce": ("out", "full", "runs", "rounds", "only", "seed", "jobs", "json"),
    "run": ("out", "full", "runs", "rounds", "seed", "jobs", "json"),
    "bound": ("horizon", "learner", "kernel", "actions", "spacing", "loss-norm", "loss-range", "json"),
    "list": ("spec", "json"),
    "arena": ("out", "games", "family", "players", "no-peers", "quick", "runs", "rounds", "seed", "jobs", "limit", "json"),
}  # fmt: skip
NAMES = {
    "inspect": ("gaussian", "matern", "posynomial", "grid", "ball", "pivoted-cholesky", "exact"),
    "reproduce": shipped(),
    "run": shipped(),
    "bound": ("bandit-exp-weights", "insured-bandit", "follow-the-regularized-leader", "quadratic"),
    "list": shipped(),
    "arena": (*arena.games(), *arena.players(), "reported", "held-out", "data"),
}
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_version(good):
    assert good("--version") == f"koloss {kl.__version__}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["list", "--json"], ["list", "--spec", "x"]])
def test_the_module_is_the_command(shell, arguments):
    command = [sys.executable, "-m", "koloss", *arguments]
    process = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    assert (process.returncode, process.stdout, process.stderr) == shell(*arguments)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_every_option_and_every_name(good, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "200")
    words = good(verb, "--help").replace(",", " ").replace(".", " ").split()
    assert {f"--{name}" for name in VERBS[verb]} <= set(words)
    assert set(NAMES[verb]) <= set(words)
    assert verb in good()  # without a verb comes the help


def test_no_name_is_a_game_and_a_player():
    assert not set(arena.games()) & set(arena.players())


def test_unknown_verb(refused):
    assert "inspekt" in refused("inspekt")


def test_bad_option_in_a_process(shell):
    answer = shell("inspect", "--rank", "many")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("library", ["typer", "rich", "matplotlib"])
def test_missing_library_names_the_extra(shell, library):
    hidden = f"import sys; sys.modules[{library!r}] = None; from koloss.cli import main; main()"
    message = (
        f"the command line needs {library}; install it with: pip install 'koloss[experiments]'"
    )
    assert shell("--version", code=hidden) == (1, "", f"error: {message}\n")


def test_help_loads_nothing_that_it_does_not_need(shell):
    code = (
        "import atexit, sys; from koloss.cli import main\n"
        "atexit.register(lambda: print({'matplotlib', 'koloss.experiments'} & {*sys.modules}, file=sys.stderr))\n"
        "main()"
    )
    assert shell("--help", code=code).err == "set()\n"


@pytest.mark.parametrize("variables", [PLAIN, {"PYTHONIOENCODING": "cp1252"}])
@pytest.mark.parametrize("verb", ["list", "bound"])
def test_what_cannot_be_encoded_is_replaced(shell, verb, variables):
    encoding = variables.get("PYTHONIOENCODING", "ascii")
    answer = shell(verb, encoding=encoding, **variables)
    assert (answer.code, answer.err) == (0, "")
    assert "?" in answer.out
    numbers = shell(verb, "--json", encoding=encoding, **variables)  # nothing is lost
    assert json.loads(numbers.out) == json.loads(shell(verb, "--json").out)


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "--help"], ["list"], ["bound"]])
def test_escapes_are_for_terminals_without_no_color(shell, arguments):
    assert "\x1b" not in shell(*arguments).out
    assert "\x1b" in on_a_terminal(*arguments)
    assert "\x1b" not in on_a_terminal(*arguments, NO_COLOR="1")


def on_a_terminal(*arguments, **variables):
    """What a command line shows on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from koloss.cli import main; main()", *arguments]
    environment = os.environ | {"TERM": "xterm-256color"} | variables
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


def read(descriptor):
    """What is there to read; nothing once the other side is closed."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize(
    "words, answer",
    [
        ("koloss re", "reproduce"),
        ("koloss run posy", "posynomial"),
        ("koloss reproduce --on", "--only"),
        ("koloss arena --games matern", "matern-stationary"),
        ("koloss inspect --kernel pos", "posynomial"),
        ("koloss bound --learner foll", "follow-the-regularized-leader"),
    ],
)
def test_shell_completion(shell, words, answer):
    place = str(len(words.split()) - 1)
    result = shell(_KOLOSS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert result.out.split() == [answer], result.err


def test_script_for_completion(shell):
    script = shell(_KOLOSS_COMPLETE="source_bash")  # what --install-completion writes for bash
    assert "_KOLOSS_COMPLETE=complete_bash" in script.out
