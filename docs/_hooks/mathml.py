"""Formulas as MathML, written when the site is built: no script, no web font, nothing to fetch.

`pymdownx.arithmatex` leaves each formula in an element of class `arithmatex`, between `\\(` and `\\)`
in the text or `\\[` and `\\]` on a line of its own. This MkDocs hook replaces the LaTeX by MathML,
which browsers draw themselves. A formula that cannot be translated is a warning, hence an error in a
strict build.
"""

from __future__ import annotations

import html
import logging
import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert

log = logging.getLogger("mkdocs.hooks.mathml")

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"(?:\\\((?P<inline>.*?)\\\)|\\\[(?P<block>.*?)\\\])"
    r"\s*</(?P=tag)>",
    re.DOTALL,
)
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
LIMITS = {"∑", "∏", "max", "min", "sup", "inf", "lim", "argmin", "argmax"}
OPERATORS = {"⪰": "⪰", "⪯": "⪯", "~": "∼", "⟂": "⊥", ":": ":", "±": "±", "†": "†"}


def on_page_content(content: str, *, page: Any, **_: Any) -> str:
    """Replace every formula of a rendered page."""

    def translate(match: re.Match[str]) -> str:
        tag, inline, block = match["tag"], match["inline"], match["block"]
        latex = html.unescape(inline if block is None else block).strip()
        try:
            mathml = to_mathml(latex, block=block is not None)
        except Exception as error:  # whatever the translator raises, say where
            log.warning("%s: formula not understood (%r): %s", page.file.src_path, error, latex)
            return match[0]
        return f'<{tag} class="formula">{mathml}</{tag}>'

    if r"\(" in "".join(item.title for item in _entries(page.toc)):
        log.warning("%s: formulas in headings cannot be shown in the contents", page.file.src_path)
    return FORMULA.sub(translate, content)


def _entries(items: Any) -> Iterator[Any]:
    for item in items:
        yield item
        yield from _entries(item.children)


def to_mathml(latex: str, *, block: bool) -> str:
    """MathML of one formula, with its LaTeX as the alternative text."""
    # Fences as pairs: alone, latex2mathml would take them for operators, with space around them.
    paired = re.sub(r"(?<!\\left)\\(lvert|lVert)(?![A-Za-z])", r"\\left\\\1 ", latex)
    paired = re.sub(r"(?<!\\right)\\(rvert|rVert)(?![A-Za-z])", r"\\right\\\1 ", paired)
    root = ET.fromstring(convert(paired, display="block" if block else "inline"))
    root.set("alttext", latex)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
    for element in root.iter():
        _mend(element)
    root.set("xmlns", NAMESPACE)
    return ET.tostring(root, encoding="unicode")


def _mend(element: ET.Element) -> None:
    """Say in MathML what latex2mathml left to chance."""
    text = element.text or ""
    if text.startswith("\\"):  # an unknown command is passed through as text
        raise ValueError(f"unknown command {text}")
    if element.tag == "mi" and text in OPERATORS:
        element.tag, element.text = "mo", OPERATORS[text]
    elif element.tag == "mi" and element.get("mathvariant", "normal") != "normal":
        element.text = _letter(text, element.attrib.pop("mathvariant"))
    elif element.tag == "mi" and "Α" <= text <= "Ω":
        element.set("mathvariant", "normal")
    elif element.tag in ("msub", "msubsup") and (element[0].text or "").strip() in LIMITS:
        # Limits stand below in a display, beside in the text.
        element.tag = "munder" if element.tag == "msub" else "munderover"
        element[0].set("movablelimits", "true")


def _letter(letter: str, variant: str) -> str:
    """A letter of another alphabet as its own character: browsers heed no other `mathvariant`."""
    case = "CAPITAL" if letter.isupper() else "SMALL"
    name = f"{variant.replace('-italic', ' italic').upper()} {case} {letter.upper()}"
    for prefix in ("MATHEMATICAL ", ""):  # ℝ and its like are older than the rest
        try:
            return unicodedata.lookup(prefix + name)
        except KeyError:
            continue
    raise ValueError(f"no {variant} letter {letter}")
