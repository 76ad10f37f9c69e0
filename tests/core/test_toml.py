"""TOML files: mistakes are said with the file, the line and the key."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from koloss.core.toml import MOST_BYTES, Source, hint, only, pointing, read_text, read_toml
from koloss.errors import KolossError, SpecError

GOOD = """\
title = "A game"

[game]
kernel = {kind = "Quadratic"}
rounds = 40

[[learner]]
name = "one"
"""

HOSTILE = {
    "brackets": ("40", "[" * 10**5, 1, "must be at most 32 deep"),
    "closed brackets": ("40", "[" * 40 + "]" * 40, 5, "must be at most 32 deep"),
    "tables in tables": ("40", "{a = " * 10**5 + "1" + "}" * 10**5, 1, "must be at most 32 deep"),
    "dots in a key": ("[[learner]]", f"[{'.'.join('a' * 50)}]\nb = 1", 8, "must be at most 32 deep"),
    "400 digits": ("40", f"1{'0' * 400}", 5, "game.rounds: must be a number of at most 64 bits"),
    "5,000 digits": ("40", f"1{'0' * 5000}", 9, "limit"),
    "65 bits": ("40", "18446744073709551616", 5, "game.rounds: must be a number of at most 64"),
    "not a number": ("40", "nan", 5, "game.rounds: must be finite, got nan"),
    "infinity": ('"one"', "-inf", 8, "learner[1].name: must be finite, got -inf"),
    "beyond floats": ("40", "1e999", 5, "game.rounds: must be finite, got inf"),
    "a date": ("40", "2024-02-29", 5, "game.rounds: must be a string, a number or true or false"),
    "a date in a table": ('"Quadratic"', "2024-02-29T10:00:00Z", 4, "game.kernel.kind: must be"),
    "a time": ("40", "10:30:00", 5, "game.rounds: must be a string, a number or true or false"),
    "no such date": ("40", "2024-02-31", 5, ""),
    "a key twice": ("rounds = 40", "rounds = 4\nrounds = 5", 6, "overwrite"),
    "a table twice": ("[[learner]]", "[game]\n[[learner]]", 7, "twice"),
    "a null": ("A game", "A\0game", 1, "illegal character"),
    "an escaped null": ("A game", "A\\u0000game", 1, "title: must have no control characters"),
    "a null in a key": ("rounds", '"rou\\u0000nds"', 3, "must be a key without control characters"),
}  # fmt: skip


def refuse(text):
    with pytest.raises(SpecError) as caught:
        read_toml(Source("game.toml", text))
    assert caught.value.path == "game.toml"
    assert len(str(caught.value)) < 1000
    return caught.value


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_text_is_refused_with_its_line(what):
    old, new, line, message = HOSTILE[what]
    assert GOOD.count(old) == 1
    error = refuse(GOOD.replace(old, new))
    assert error.line == line
    assert message in str(error)


@pytest.mark.parametrize("text", ["[", "]", "=", '"', "a = '''", 'a = """\\'])
def test_hardly_any_text(text):
    assert refuse(text).line == 1


def test_a_message_is_short_however_long_the_value():
    error = Source("game.toml", GOOD).error(
        ("game", "rounds"), "must be a number, got " + "x" * 10**6
    )
    assert len(error.problem) < 700
    assert error.line == 5


def test_strings_and_comments_may_hold_what_a_key_may_not():
    brackets, dots = "[" * 50, "." * 50
    text = f'text = """\n{brackets} {dots} = 1 ""quoted""""\n' + f"shows = '''{brackets}'''\n"
    text += f"# {brackets}\npaper = '{brackets}'  # {dots}\n"
    assert read_toml(Source("game.toml", text + GOOD))["shows"] == brackets


def test_a_typo_names_the_nearest_key():
    assert hint("rouds", ["rounds", "runs"]) == "did you mean rounds?"
    assert hint("x", ["rounds", "runs"]) == "there are: rounds, runs"
    with pytest.raises(
        SpecError, match=r"^game.toml, line 5: game.rounds: is not a key of \[game\]; "
    ):
        only({"rounds": 1}, ["round"], ("game",), "[game]", Source("game.toml", GOOD))


@pytest.mark.parametrize(
    "error, key, problem",
    [
        (ValueError("`rounds` must be positive, got 0"), "game.rounds", "must be positive, got 0"),
        (ValueError("`other` must be positive"), "game", "`other` must be positive"),
        (KolossError("no"), "game", "no"),
        (MemoryError("1 TiB"), "game", "needs more memory than there is: 1 TiB"),
        (RecursionError(), "game", "must not be so deep"),
    ],
)
def test_an_error_of_a_constructor_points_at_its_line(error, key, problem):
    with (
        pytest.raises(SpecError) as caught,
        pointing(Source("game.toml", GOOD), ("game",), {"rounds": 40}),
    ):
        raise error
    assert (caught.value.key, caught.value.problem) == (key, problem)


# Files.


@pytest.mark.parametrize(
    "data, line, message",
    [
        (GOOD.replace("A game", "Matérn").encode("latin-1"), 1, "must be text in UTF-8, got the byte 0xe9"),
        (GOOD.replace("one", "Matérn").encode("latin-1"), 8, "must be text in UTF-8, got the byte 0xe9"),
        (b"\xef\xbb\xbf" + GOOD.replace("one", "é").encode("latin-1"), 8, "got the byte 0xe9"),
        (GOOD.encode("utf-16"), 1, "must be text in UTF-8, got the byte 0xff"),
        (GOOD.encode() + b"#" * MOST_BYTES, 0, "must have at most 10,000,000 bytes, got more"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_text(tmp_path, data, line, message):
    path = tmp_path / "game.toml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        read_text(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert message in str(caught.value)


def test_a_mark_at_the_beginning_and_long_line_ends_are_fine(tmp_path):
    path = tmp_path / "game.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_toml(Source("game.toml", read_text(path)))["title"] == "A game"


def test_what_is_not_a_file(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("folder", "pipe"):
        with pytest.raises(SpecError, match=r"toml: must be a file, got a folder, a pipe or a d"):
            read_text(tmp_path / f"{name}.toml")
    (tmp_path / "circle.toml").symlink_to("circle.toml")
    with pytest.raises(OSError, match="symbolic links"):
        read_text(tmp_path / "circle.toml")


@pytest.mark.parametrize("name", ["../losses.csv", "/etc/hosts", "link.csv", "a/../../losses.csv"])
def test_files_outside_the_folder(tmp_path, name):
    folder = tmp_path / "specs"
    folder.mkdir()
    (tmp_path / "losses.csv").write_text("0.5,1\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(tmp_path / "losses.csv")
    source = Source(str(folder / "game.toml"), GOOD)
    assert source.outside(name) == (folder / name).resolve()
    assert source.outside("a/../b/losses.csv") is None
    assert source.beside("losses.csv") == Path(folder / "losses.csv")


def test_an_error_survives_another_process():
    error = SpecError("game.toml", 3, "game.rounds", "must be at least 1, got 0")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.key) == (str(error), 3, "game.rounds")


def test_an_error_shows_no_more_of_a_key_than_can_be_read():
    text = ".".join(["title"] * 500) + " = 1"
    with pytest.raises(SpecError, match="at most 32 deep") as caught:
        read_toml(Source("deep.toml", text))
    assert len(str(caught.value)) < 400
