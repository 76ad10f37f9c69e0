"""Specs that nobody wrote in good faith, played: what fails costs no other run, and names are shown as they are."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from tests.support.pages import check_alone, words_of
from tests.support.runs import SPEC

pytestmark = pytest.mark.faults


@pytest.mark.parametrize(
    "code, message",
    [
        ("sys.exit(0)", "in round 4 of 12: SystemExit: 0"),
        ("raise KeyError(t)", "in round 4 of 12: KeyError: 3"),
        ("os._exit(0)", "its process ended without a word"),
        ("return [0, float('nan')]", "must be a Loss, the whole function, got list"),
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


# Names.

HOSTILE = """$$ \\frac{ $x [red] [/] :smile: <script>"'& 日本"""


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
