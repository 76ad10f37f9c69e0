"""Text for people: numbers, tables as strings of HTML for notebooks and pages, and names.

Plain strings: no template, no script. Whatever is not `Safe` is escaped.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as _escape
from typing import Any

Row = Sequence[str]
"""Cells; a row of one cell is a heading over the rows below it."""

BLUE, VERMILION = "#0072B2", "#D55E00"


class Safe(str):
    """HTML that is not escaped again, here or in a template."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def escape(part: Any) -> str:
    """HTML of a text; what has an `__html__` of its own, a `Table` or `Safe` text, knows better."""
    return str(part.__html__()) if hasattr(part, "__html__") else _escape(str(part))


# Numbers.


def short_number(value: float) -> str:
    """About three digits.

    >>> [short_number(x) for x in (12345.6, 31.4159, -0.5, 0.00012, float("nan"))]
    ['12,346', '31.4', '-0.50', '0.00012', '–']
    """
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if 0 < abs(value) < 0.005:
        return f"{value:.2g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def decimals(value: float, error: float | None = None) -> str:
    """Two decimals, and a standard error where one is known.

    >>> decimals(0.5, 0.031), decimals(0.5, float("nan")), decimals(float("nan"))
    ('0.50 ± 0.03', '0.50', '–')
    """
    if not math.isfinite(value):
        return "–"
    return (
        f"{value:.2f}"
        if error is None or not math.isfinite(error)
        else f"{value:.2f} ± {error:.2f}"
    )


def counted(number: int, word: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.00043), duration(0.0064), duration(2.0)
    ('430 µs', '6.4 ms', '2.0 s')
    """
    if not math.isfinite(seconds):
        return "–"
    unit, size = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 0.0)) if seconds >= s)
    value = seconds / (size or 1e-6)
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"


# Tables.


@dataclass(frozen=True)
class Table:
    """A table before it is HTML, Markdown or text for a terminal; columns stand to the right but for those named."""

    head: Row
    rows: Sequence[Row]
    left: Iterable[int] = (0,)

    def __html__(self) -> Safe:
        """A table that a style sheet can show as a list of cards, by `data-label`, on a narrow screen."""
        left = set(self.left)

        def kind(k: int) -> str:
            names = [name for name, yes in (("first", k == 0), ("n", k not in left)) if yes]
            return f' class="{" ".join(names)}"' if names else ""

        def body(row: Row) -> str:
            if len(row) == 1 < len(self.head):
                return f'<th class="group" colspan="{len(self.head)}">{escape(row[0])}</th>'
            return "".join(
                f'<td{kind(k)} data-label="{_escape(name)}">{escape(cell)}</td>'
                for k, (name, cell) in enumerate(zip(self.head, row, strict=True))
            )

        heads = enumerate(self.head)
        top = "".join(f'<th scope="col"{kind(k)}>{escape(name)}</th>' for k, name in heads)
        lines = "\n".join(f"<tr>{body(row)}</tr>" for row in self.rows)
        return Safe(f"<table><thead><tr>{top}</tr></thead>\n<tbody>\n{lines}\n</tbody></table>")


def facts_table(facts: Mapping[str, str]) -> Safe:
    """Names and values, without a head."""
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in facts.items())  # fmt: skip
    return Safe(f"<table><tbody>{rows}</tbody></table>")


# Cards.

STYLE = (
    ".koloss table{border-collapse:collapse;margin:.4em 0}"
    ".koloss th,.koloss td{text-align:left;padding:.15em .6em;vertical-align:top}"
    ".koloss th.n,.koloss td.n{text-align:right;white-space:nowrap}"
)


def card(title: str, *parts: Any) -> str:
    """What an object looks like in a notebook: a title, and tables and lines of text below it."""
    body = "".join(escape(p) if hasattr(p, "__html__") else f"<p>{escape(p)}</p>" for p in parts)
    return f'<div class="koloss"><style>{STYLE}</style><p><b>{escape(title)}</b></p>{body}</div>'


# Names that people choose: made fit for files and addresses, and for a line on a screen.

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
