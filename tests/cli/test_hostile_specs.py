"""Specs that nobody wrote in good faith, through the command line: one line of error."""

from __future__ import annotations

import pytest

# Code of the user's.

CODE = {
    "sys.exit(0)": "own.py, line 2: SystemExit: 0",
    "raise ValueError('no')": "own.py, line 2: ValueError: no",
    "def make(*given): return 1 / 0": "own.py, line 2: ZeroDivisionError: division by zero",
    "def make(*given): sys.exit()": "own.py, line 2: SystemExit\n",
    "def make(*given): raise StopIteration": "own.py, line 2: StopIteration\n",
    "def make(": "own.py, line 2: SyntaxError: '(' was never closed",
    "def make(*given): return 3": "`make` must give an Adversary, got int",
    "made = 3": "`make` must be a function of own.py, got 'make'",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", CODE)
def test_code_that_fails_is_told_before_anything_is_played(write, refused, tmp_path, code):
    error = refused("run", write("own.py", f"import os, sys\n{code}\n"), "--out", "out")
    assert error.startswith("error: specs/own.toml, line ")
    assert CODE[code] in error
    assert not (tmp_path / "out").exists()
