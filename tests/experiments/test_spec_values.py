"""Specs with values that are no games: refused with the file and the line, before anything is made of them."""

from __future__ import annotations

import pytest

from koloss.experiments import SpecError, load, parse
from koloss.experiments.run import check

GOOD = """\
title = "A game"

[game]
kernel = {kind = "Quadratic"}
actions = {kind = "Ball", dimension = 2}
rounds = 40

[adversary]
kind = "biased"
noise = 2.0

[[learner]]
name = "one"
kind = "ExpWeights"
loss_norm = 1.0
"""

HOSTILE = {
    "many rounds": ("rounds = 40", "rounds = 10_000_000_000", 6, "game.rounds: must be at most 1,000,000,000, got"),
    "many runs": ("rounds = 40", "rounds = 40\nruns = 10_000_000", 7, "game.runs: must be at most 1,000,000, got"),
    "not a number": ("noise = 2.0", "noise = nan", 10, "adversary.noise: must be finite, got nan"),
    "a date in a kernel": ('"Quadratic"', '"Gaussian", bandwidth = 2024-02-29T10:00:00Z', 4, "game.kernel.bandwidth: must be"),
    "a long value": ("rounds = 40", "rounds = '" + "x" * 10**6 + "'", 6, "must be a whole number, got 'xxx"),
    "a long name": ('"one"', "'" + "x" * 10**4 + "'", 13, "learner[1].name: must have 1 to 200 characters, got 10,000"),
    "a long title": ("A game", "x" * 10**4, 1, "title: must have 1 to 300 characters, got 10,000"),
    "no name": ('"one"', '"  "', 13, "learner[1].name: must have 1 to 200 characters, got 0"),
    "no kind": ('kind = "ExpWeights"', "", 12, "learner[1]: `kind` is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_text_is_refused_with_its_line(what):
    old, new, line, message = HOSTILE[what]
    assert GOOD.count(old) == 1
    with pytest.raises(SpecError) as caught:
        check(parse(GOOD.replace(old, new), name="game", path="game.toml"), 40)
    error = caught.value
    assert (error.path, error.line) == ("game.toml", line)
    assert message in str(error)
    assert len(str(error)) < 1000


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "#"])
def test_hardly_any_text(text):
    with pytest.raises(SpecError, match=r"^spec, line \d: "):
        parse(text, name="game")


# Files that a spec names.


@pytest.mark.parametrize("name", ["../losses.csv", "/etc/hosts", "link.csv", "a/../../losses.csv"])
def test_files_outside_the_folder_must_be_trusted(tmp_path, name):
    folder = tmp_path / "specs"
    folder.mkdir()
    (tmp_path / "losses.csv").write_text("0.5,1\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "losses.csv")
    text = GOOD.replace('"biased"\nnoise = 2.0', f'"replay"\ntable = "{name}"')
    (folder / "game.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"line 10: adversary\.table: must be in the folder of the"):
        load(folder / "game.toml")
    assert load(folder / "game.toml", trust=True).adversary["table"] == name


def test_files_inside_the_folder_need_no_trust(tmp_path):
    text = GOOD.replace('"biased"\nnoise = 2.0', '"replay"\ntable = "a/../b/losses.csv"')
    assert parse(text, name="game", path=str(tmp_path / "game.toml")).adversary["kind"] == "replay"
