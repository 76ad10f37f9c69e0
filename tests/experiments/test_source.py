"""Texts that are no specs: refused with the file and the line, before anything is made of them."""

from __future__ import annotations

import os
import pickle

import pytest

from koloss.experiments import SpecError, load, parse
from koloss.experiments.build import check
from koloss.experiments.source import MOST_BYTES

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
DOTS = ".".join("a" * 50_000)
QUOTED = ".".join(['"a"'] * 50_000)

HOSTILE = {
    "brackets": ("rounds = 40", f"rounds = {'[' * 10**5}", 6, "must be at most 32 deep"),
    "closed brackets": ("rounds = 40", f"rounds = {'[' * 10**5}{']' * 10**5}", 6, "must be at most 32 deep"),
    "tables in tables": ("rounds = 40", f"rounds = {'{a = ' * 10**5}1{'}' * 10**5}", 6, "must be at most 32 deep"),
    "dots in a key": ("rounds = 40", f"{DOTS} = 1", 6, "a key must have at most 32 parts, got 50,000"),
    "dots in a table's name": ("[adversary]", f"[{DOTS}]\n[adversary]", 8, "at most 32 parts, got 50,000"),
    "dots and quotes": ("[adversary]", f"[{QUOTED}]", 8, "at most 32 parts, got 50,000"),
    "400 digits": ("rounds = 40", f"rounds = 1{'0' * 400}", 6, "game.rounds: must be a number of at most 64 bits"),
    "5,000 digits": ("rounds = 40", f"rounds = 1{'0' * 5000}", 6, "must have at most 1,000 characters, got 5,001"),
    "65 bits": ("noise = 2.0", "noise = 18446744073709551616", 10, "adversary.noise: must be a number of at most 64"),
    "many rounds": ("rounds = 40", "rounds = 10_000_000_000", 6, "game.rounds: must be at most 1,000,000,000, got"),
    "many runs": ("rounds = 40", "rounds = 40\nruns = 10_000_000", 7, "game.runs: must be at most 1,000,000, got"),
    "not a number": ("noise = 2.0", "noise = nan", 10, "adversary.noise: must be finite, got nan"),
    "infinity": ("loss_norm = 1.0", "loss_norm = -inf", 15, "learner[1].loss_norm: must be finite, got -inf"),
    "beyond floats": ("loss_norm = 1.0", "loss_norm = 1e999", 15, "learner[1].loss_norm: must be finite, got inf"),
    "a date": ("rounds = 40", "rounds = 2024-02-29", 6, "game.rounds: must be a string, a number or true or false"),
    "a date in a kernel": ('"Quadratic"', '"Gaussian", bandwidth = 2024-02-29T10:00:00Z', 4, "game.kernel.bandwidth: must be"),
    "a time": ("noise = 2.0", "noise = 10:30:00", 10, "adversary.noise: must be a string, a number or true or false"),
    "no such date": ("rounds = 40", "rounds = 2024-02-31", 6, ""),
    "a key twice": ("noise = 2.0", "noise = 2.0\nnoise = 3.0", 11, "overwrite"),
    "a table twice": ("[adversary]", "[game]\n[adversary]", 8, "twice"),
    "a null": ("A game", "A\0game", 1, "illegal character"),
    "an escaped null": ("A game", "A\\u0000game", 1, "title: must have no control characters, got 'A\\x00game'"),
    "a null in a key": ("noise = 2.0", '"no\\u0000ise" = 2.0', 8, "must be a key without control characters"),
    "a long value": ("rounds = 40", "rounds = '" + "x" * 10**6 + "'", 6, "must be a whole number, got 'xxx"),
    "a long name": ('"one"', "'" + "x" * 10**4 + "'", 13, "learner[1].name: must have 1 to 200 characters, got 10,000"),
    "a long title": ("A game", "x" * 10**4, 1, "title: must have 1 to 300 characters, got 10,000"),
    "no name": ('"one"', '"  "', 13, "learner[1].name: must have 1 to 200 characters, got 0"),
    "no kind": ('kind = "ExpWeights"', "", 12, "learner[1]: `kind` is missing"),
    "a kind that is a number": ('kind = "ExpWeights"', "kind = 3", 14, "learner[1].kind: must be a string, got 3"),
    "a name that is a date": ('"one"', "2024-02-29", 13, "learner[1].name: must be"),
    "a game that is none": ("[adversary]", "[game.rounds]\n[adversary]", 8, ""),
    "a huge ball": ("dimension = 2", "dimension = 9_000_000_000_000_000_000", 5, ""),
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


@pytest.mark.parametrize(
    "text", ["", "\n", "\ufeff", "#", "[", "]", "=", '"', "a = '''", 'a = """\\']
)
def test_hardly_any_text(text):
    with pytest.raises(SpecError, match=r"^spec, line \d: "):
        parse(text, name="game")


@pytest.mark.parametrize(
    "text",
    [
        f'x = """{chr(92)}"""' * 10**4,
        'x = "' + r"\"" * 10**5,
        f"[a{' ' * 10**5}",
        f"x = {'[]' * 10**5}",
        f"x = [{'1.5,' * 10**5}",
    ],
)
def test_long_texts_are_refused_in_one_pass(text):
    with pytest.raises(SpecError):
        parse(GOOD + text, name="game")


def test_strings_and_comments_may_hold_what_a_key_may_not():
    brackets, dots = "[" * 50, "." * 50
    text = f'text = """\n{brackets} {dots} = 1 ""quoted""""\n' + f"shows = '''{brackets}'''\n"
    text += f"# {brackets}\npaper = '{brackets}'  # {dots}\n"
    game = parse(text + GOOD, name="game")
    assert game.shows == brackets


# Files.


@pytest.mark.parametrize(
    "data, line, message",
    [
        (GOOD.replace("A game", "Matérn").encode("latin-1"), 1, "must be text in UTF-8, got the byte 0xe9"),
        (GOOD.replace("one", "Matérn").encode("latin-1"), 13, "must be text in UTF-8, got the byte 0xe9"),
        (b"\xef\xbb\xbf" + GOOD.replace("one", "é").encode("latin-1"), 13, "got the byte 0xe9"),
        (GOOD.encode("utf-16"), 1, "must be text in UTF-8, got the byte 0xff"),
        (GOOD.encode() + b"#" * MOST_BYTES, 0, "must have at most 10,000,000 bytes, got more"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text(tmp_path, data, line, message):
    path = tmp_path / "game.toml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert message in str(caught.value)


def test_a_mark_at_the_beginning_and_long_line_ends_are_fine(tmp_path):
    path = tmp_path / "game.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load(path).title == "A game"


def test_what_is_not_a_file(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("folder", "pipe"):
        with pytest.raises(SpecError, match=r"toml: must be a file, got a folder, a pipe or a d"):
            load(tmp_path / f"{name}.toml")
    (tmp_path / "circle.toml").symlink_to("circle.toml")
    with pytest.raises(OSError, match="symbolic links"):
        load(tmp_path / "circle.toml")


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


def test_an_error_survives_another_process():
    error = SpecError("game.toml", 3, "game.rounds", "must be at least 1, got 0")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.key) == (str(error), 3, "game.rounds")
