"""Ways into the command line, `main` in this process or a process of its own, and a small spec for it to play."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from koloss.cli import main
from tests.support.runs import SPEC

ADVERSARY = """\
import koloss as kl

def make(kernel, actions, rng):
    return kl.games.Function(choose, norm=1.0)

def choose(t, player):
"""


class Answer(NamedTuple):
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run a command line in this process."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        return Answer(exit_.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def good(cli):
    """Standard output of a command line that succeeds."""

    def call(*arguments):
        answer = cli(*arguments)
        assert answer.code == 0, answer
        return answer.out

    return call


@pytest.fixture
def refused(cli):
    """The error of a command line that is refused: one line on standard error, exit code 2, nothing else."""

    def call(*arguments):
        answer = cli(*arguments)
        assert (answer.code, answer.out) == (2, ""), answer
        assert answer.err.startswith("error: ")
        assert answer.err.endswith("\n")
        assert answer.err.count("\n") == 1
        return answer.err

    return call


@pytest.fixture
def completed(good, monkeypatch):
    """What the shell's completion offers for a line."""

    def call(words):
        monkeypatch.setenv("_KOLOSS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        return good().split()

    return call


@pytest.fixture
def shell():
    """Run a command line in a process of its own, with its output in a pipe."""

    def call(*arguments, code="from koloss.cli import main; main()", encoding="utf-8", **variables):
        settings = {"env": os.environ | variables, "encoding": encoding, "timeout": 120}
        command = [sys.executable, "-c", code, *arguments]
        process = subprocess.run(command, capture_output=True, check=False, **settings)
        return Answer(process.returncode, process.stdout, process.stderr)

    return call


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A spec in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own.toml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def own_adversary(spec, code):
    """Give a spec an adversary in a Python file of its own."""
    (spec.parent / "own.py").write_text(ADVERSARY + code, encoding="utf-8")
    spec.write_text(SPEC.replace('"random"', '"python"\nfile = "own.py"'), encoding="utf-8")


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write `specs/own.toml`, with a Python adversary in a file of that name where one is given."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()

    def call(file="", code="", text=SPEC):
        if file:
            text = text.replace('"random"', f'"python"\nfile = "{file}"')
            (tmp_path / "specs" / file).write_text(code, encoding="utf-8")
        (tmp_path / "specs" / "own.toml").write_text(text, encoding="utf-8")
        return "specs/own.toml"

    return call
