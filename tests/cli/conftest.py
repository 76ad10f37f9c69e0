"""Ways into the command line: `main` in this process, and a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from koloss.cli import main


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
def shell():
    """Run a command line in a process of its own, with its output in a pipe."""

    def call(*arguments, code="from koloss.cli import main; main()", encoding="utf-8", **variables):
        settings = {"env": os.environ | variables, "encoding": encoding, "timeout": 120}
        command = [sys.executable, "-c", code, *arguments]
        process = subprocess.run(command, capture_output=True, check=False, **settings)
        return Answer(process.returncode, process.stdout, process.stderr)

    return call
