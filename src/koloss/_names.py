"""Names that people choose: made fit for files and addresses, and for a line on a screen."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

LONGEST_NAME = 200
"""Characters of a name, at most: it has to be read in a legend."""

LONGEST = 100
"""Characters of a slug, at most."""

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DIGEST = re.compile(r"(.*-)?[0-9a-f]{12}")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""What Windows takes for a device."""

_HIDDEN = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff"
)
"""Marks that change the direction of what follows them, end a line, or do nothing that can be seen."""


def slug(name: str) -> str:
    """A name for a file or an address: small letters, digits and hyphens.

    A name that is of this form already stays as it is; any other gets a digest of it at its end. So different names have
    different slugs, unless one of them is the slug of the other.

    Examples
    --------
    >>> slug("matern-1-2"), slug("Matérn 1/2"), slug("../x"), slug("日本")
    ('matern-1-2', 'matern-1-2-b3558d950595', 'x-d6b96a97d147', 'cf2abf0c5be3')
    """
    return name if _SLUG.fullmatch(name) and _fits(name) else _with_digest(name)


def slugs(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Slugs of names that stand beside each other, all different: without a digest where their letters tell them apart.

    `taken` are slugs that are not to be had.

    Examples
    --------
    >>> slugs(["Matérn 1/2", "Gaussian"])
    {'Matérn 1/2': 'matern-1-2', 'Gaussian': 'gaussian'}
    >>> slugs(["a/b", "a-b"])
    {'a/b': 'a-b-c14cddc033f6', 'a-b': 'a-b'}
    """
    words, taken = {name: _words(name) for name in names}, set(taken)
    alike = Counter(words.values())
    return {
        name: text
        if _fits(text) and not _DIGEST.fullmatch(text) and text not in taken and _keeps_letters(name) and (alike[text] == 1 or text == name)
        else _with_digest(name)
        for name, text in words.items()
    }  # fmt: skip


def printable(text: str, *, lines: bool = False) -> str:
    r"""Text that a terminal, a page and a picture show as it is: no character that moves the cursor or turns the line.

    Each of these is written as Python writes it; `lines` may be several.

    Examples
    --------
    >>> print(printable("bold\x1b[1m, ab\u202ecd, 日本, ü"))
    bold\x1b[1m, ab\u202ecd, 日本, ü
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or not _hidden(c) else ascii(c)[1:-1] for c in text)


def hidden(text: str, *, lines: bool = False) -> bool:
    """Whether a text has characters that cannot be shown."""
    return printable(text, lines=lines) != text


def _hidden(c: str) -> bool:
    return c in _HIDDEN or unicodedata.category(c) in ("Cc", "Cs", "Cn")


def _words(name: str) -> str:
    """Letters and digits without their accents, and hyphens for what is between them."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().replace("'", "")
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def _keeps_letters(name: str) -> bool:
    """Whether a name loses accents and punctuation only."""
    left = (c for c in unicodedata.normalize("NFKD", name) if not c.isascii())
    return all(unicodedata.category(c)[0] in "MPZ" for c in left)


def _fits(text: str) -> bool:
    """Whether a slug is neither too long nor a device."""
    return 0 < len(text) <= LONGEST and not _DEVICE.fullmatch(text)


def _with_digest(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    words = _words(name)[: LONGEST - 1 - len(digest)].strip("-")
    return f"{words}-{digest}" if words else digest
