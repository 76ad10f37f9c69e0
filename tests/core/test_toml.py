"""TOML files: mistakes are said with the file, the line and the key."""

from __future__ import annotations

import pickle

import pytest

from koloss.core.toml import Source, hint, only, pointing, read_text, read_toml
from koloss.errors import KolossError, SpecError

GOOD = """\
title = "A game"

[game]
kernel = {kind = "Quadratic"}
rounds = 40

[[learner]]
name = "one"
"""

BROKEN = {
    "brackets": ("40", "[" * 10**5, 1, "must not be so deep"),
    "5,000 digits": ("40", f"1{'0' * 5000}", 9, "limit"),
    "no such date": ("40", "2024-02-31", 5, ""),
    "a key twice": ("rounds = 40", "rounds = 4\nrounds = 5", 6, "overwrite"),
    "a table twice": ("[[learner]]", "[game]\n[[learner]]", 7, "twice"),
    "a null": ("A game", "A\0game", 1, "illegal character"),
}


def refuse(text):
    with pytest.raises(SpecError) as caught:
        read_toml(Source("game.toml", text))
    assert caught.value.path == "game.toml"
    assert len(str(caught.value)) < 1000
    return caught.value


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_text_is_refused_with_its_line(what):
    old, new, line, message = BROKEN[what]
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


def test_an_error_survives_another_process():
    error = SpecError("game.toml", 3, "game.rounds", "must be at least 1, got 0")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.key) == (str(error), 3, "game.rounds")


def test_an_error_shows_no_more_of_a_key_than_can_be_read():
    error = Source("deep.toml", GOOD).error(("title",) * 500, "must be a string")
    assert len(str(error)) < 400
