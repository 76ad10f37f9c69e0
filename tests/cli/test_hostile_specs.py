"""Specs that nobody wrote in good faith, through the command line: one line of error, or a report that shows them as they are."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from tests.support.pages import check_alone, words_of
from tests.support.runs import SPEC


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


@pytest.mark.slow
@pytest.mark.parametrize(
    "code, message",
    [
        ("sys.exit(0)", "in round 4 of 12: AdversaryError: own.py, line 7: SystemExit: 0"),
        ("raise KeyError(t)", "in round 4 of 12: AdversaryError: own.py, line 7: KeyError: 3"),
        ("os._exit(0)", "its process ended without a word"),
        ("return [0, float('nan')]", "must be a Loss, or the finite losses of all points, got [0, nan]"),
    ],
)  # fmt: skip
def test_code_that_fails_in_a_game_costs_no_other_run(write, cli, tmp_path, code, message):
    """It fails in one run of two, by the first coin of each; what it prints is not mixed with the results."""
    text = f"""import os, sys, koloss as kl
def make(kernel, actions, rng):
    fails = rng.random() < 0.5
    def choose(t, player):
        print("choosing")
        if fails and t == 3:
            {code}
        return kl.LinearLoss([0.5, 0.0])
    return kl.games.Function(choose)
"""
    options = ["--jobs", "1", "--out", "out", "--json"]
    answer = cli("run", write("own.py", text), *options)
    assert answer.code == 1
    assert message in answer.err
    assert answer.err.splitlines()[-1] == "error: 1 run failed; the report says why"
    (entry,) = json.loads(answer.out)["experiments"]
    assert entry["runs"] == 1
    assert list(entry["failures"]) == ["0"] or list(entry["failures"]) == ["1"]
    assert message in str(entry["failures"])
    assert message in words_of(tmp_path / "out" / "report.html")


# Files outside the folder of the spec.


@pytest.mark.parametrize("name", ["../out.py", "FOLDER/out.py", "link.py", "inside/../../out.py"])
@pytest.mark.parametrize("verb", ["run", "bound"])
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


# Names.

HOSTILE = """$$ \\frac{ $x [red] [/] :smile: <script>"'& 日本"""


@pytest.mark.slow
def test_names_of_every_kind_are_shown_as_they_are(write, cli, tmp_path):
    """Formulas, markup, HTML and other scripts in names: nothing is interpreted, and no two share a file."""
    names = [HOSTILE, "日本", "中国", "a/b", "A-B", "..", "con"]
    head, learner = SPEC.split("[[learner]]")
    tables = "".join(f"[[learner]]\nname = {json.dumps(name)}{learner}" for name in names)
    text = f"title = {json.dumps(HOSTILE)}\ntext = {json.dumps(HOSTILE)}\n{head}{tables}"
    answer = cli("run", write(text=text), "--jobs", "2", "--runs", "1", "--out", "out")
    assert answer.code == 0, answer.err
    assert all(word in answer.out.split() for name in names for word in name.split())
    assert len([*(tmp_path / "out" / "runs" / "own").iterdir()]) == len(names)
    check_alone(tmp_path / "out" / "report.html", images=1)
    assert words_of(tmp_path / "out" / "report.html").count(HOSTILE) > 3
    picture = (tmp_path / "out" / "figures" / "own.svg").read_text(encoding="utf-8")
    drawn = ["".join(text.itertext()).strip() for text in ET.fromstring(picture).iter()]
    assert any(text.startswith(HOSTILE) for text in drawn)


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "\u202eabc", "", "  ", "x" * 10_000])
@pytest.mark.parametrize("verb", ["run", "bound"])
def test_names_that_cannot_be_shown_are_refused(write, refused, tmp_path, verb, name):
    spec = write(text=f"{SPEC}name = {json.dumps(name)}\n")
    error = refused(verb, spec)
    assert error.startswith("error: specs/own.toml, line 12: learner[1].name: must have ")
    assert error.rstrip("\n").isprintable()
    assert not [path for path in tmp_path.iterdir() if path.name != "specs"]


def test_a_file_name_with_escapes_is_shown_without_them(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert r"there is no file \x1b[31m[red].toml" in refused("run", "\x1b[31m[red].toml")
