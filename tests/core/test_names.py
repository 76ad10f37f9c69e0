"""Names that people choose, as files and addresses and on a screen."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koloss.core.text import LONGEST, hidden, printable, slug, slugs

ALIKE = ["日本", "中国", "Привет", "Пока", "😀", "😁", "a/b", "a-b", "a b", "A", "a", "á", "..", ".", ".a", "a ",
         "con", "CON", "nul.txt", "com1", "x" * 300, "x" * 301, "", " ", "../../x", "/x", "x", "\x00", "\ud800"]  # fmt: skip
ANY = st.text(st.characters(exclude_categories=()), max_size=300)


def fits(text):
    device = re.fullmatch(r"con|prn|aux|nul|(com|lpt)[0-9]", text)
    return bool(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", text)) and len(text) <= LONGEST and not device  # fmt: skip


def test_what_is_alike_is_told_apart():
    for made in ([slug(name) for name in ALIKE], list(slugs(ALIKE).values())):
        assert len(set(made)) == len(ALIKE)
        assert all(map(fits, made))


def test_ordinary_names_stay_short():
    names = ["Matérn 1/2", "regularised leader, the paper's rate", "Gaussian", "x", "com10"]
    short = ["matern-1-2", "regularised-leader-the-papers-rate", "gaussian", "x", "com10"]
    assert list(slugs(names).values()) == short
    assert [slug(name) for name in short] == short


@given(ANY)
def test_every_name_has_a_slug_that_stays(name):
    assert fits(slug(name))
    assert slug(slug(name)) == slug(name)


@given(st.lists(ANY, unique=True, max_size=8), st.data())
def test_names_beside_each_other_never_share_a_slug(names, data):
    """Not even where one of them is written like the slug of another, or like one that is taken."""
    names += [name for name in slugs(names).values() if name not in names and data.draw(st.booleans())]  # fmt: skip
    taken = [slug(name) for name in names if data.draw(st.booleans())]
    taken = [text for text in taken if not re.search("[0-9a-f]{12}$", text)]
    made = slugs(names, taken)
    assert list(made) == names
    assert len(set(made.values())) == len(names)
    assert all(map(fits, made.values()))
    assert not set(made.values()) & set(taken)


@given(ANY)
def test_what_is_printable_moves_no_cursor(text):
    shown = printable(text)
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Cn", "Zl", "Zp") for c in shown)
    assert not any(unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI") for c in shown)  # fmt: skip
    assert printable(shown) == shown
    assert hidden(text) == (shown != text)


@pytest.mark.parametrize("text", ["日本", "مرحبا", "Привет", "naïve  σ²", "👩‍👧", "a\\x1b"])
def test_words_of_every_script_are_shown_as_they_are(text):
    assert printable(text) == text


def test_lines_are_kept_where_there_may_be_some():
    assert printable("a\n\tb\r", lines=True) == "a\n\tb\\r"
    assert printable("a\n\tb\x9b") == "a\\n\\tb\\x9b"
