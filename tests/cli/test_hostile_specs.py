"""Specs that nobody wrote in good faith, through the command line: one line of error."""

from __future__ import annotations

import pytest

from tests.support.runs import SPEC

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


# Files outside the folder of the spec.


@pytest.mark.parametrize("verb, name", [("run", "FOLDER/out.py"), ("bound", "link.py")])
def test_a_file_outside_the_folder_must_be_trusted(write, refused, tmp_path, verb, name):
    (tmp_path / "out.py").write_text("raise ValueError('it was run')", encoding="utf-8")
    (tmp_path / "specs" / "link.py").symlink_to(tmp_path / "out.py")
    name = name.replace("FOLDER", tmp_path.as_posix())
    spec = write(text=SPEC.replace('"random"', f'"python"\nfile = "{name}"'))
    error = refused(verb, spec)
    assert "own.toml, line 9: adversary.file: must be in the folder of the spec, got " in error
    assert str((tmp_path / "out.py").resolve()) in error
    assert "--trust" in error


def test_a_table_outside_the_folder_must_be_trusted(write, refused, good, tmp_path):
    (tmp_path / "losses.csv").write_text("0.5,1\n", encoding="utf-8")
    text = SPEC.replace('"random"', '"replay"\ntable = "../losses.csv"')
    assert "adversary.table: must be in the folder of the spec" in refused("run", write(text=text))
    assert "ExpWeights" in good("bound", "specs/own.toml", "--trust")


@pytest.mark.slow
def test_a_file_that_is_trusted_is_run(write, refused, tmp_path):
    (tmp_path / "out.py").write_text("raise ValueError('it was run')", encoding="utf-8")
    spec = write(text=SPEC.replace('"random"', '"python"\nfile = "../out.py"'))
    assert "out.py, line 1: ValueError: it was run" in refused("run", spec, "--trust")
