"""Tables and small pictures as strings of HTML and SVG, for notebooks and pages, and the formats of their numbers.

Plain strings: no template, no figure library, no script. Whatever is not `Safe` is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape as _escape
from itertools import groupby
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


# Small pictures.

WIDTH, HEIGHT = 340, 180
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 24, 40
"""Margins: numbers stand left of the drawing, names above and below it."""


@dataclass(frozen=True)
class Line:
    """A curve of a small picture, with the ends of its band where it has one."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False


def line_picture(
    at: Sequence[float], lines: Sequence[Line], *, title: str, below: str, log: bool = False
) -> Safe:
    """Curves over common abscissae, on a logarithmic scale if wanted; there are gaps where a value cannot be drawn.

    >>> picture = line_picture([1, 2, 3], [Line("x", [1.0, 4.0, 9.0])], title="Squares", below="x")
    >>> picture.startswith("<svg"), picture.count("<polyline")
    (True, 1)
    """
    x = [float(t) for t in at]
    heights = [[_heights(v, log) for v in (line.values, line.low, line.high)] for line in lines]
    drawn = [v for column in heights for values in column for v in values if math.isfinite(v)]
    low, high = _span(drawn if log else [0.0, *drawn])
    across = _scale(*_span(x), LEFT, WIDTH - RIGHT)
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)

    def corners(points: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in points)

    parts, legend, place = [], [], float(LEFT)
    for k, (line, (middle, lower, upper)) in enumerate(zip(lines, heights, strict=True)):
        colour = (BLUE, VERMILION)[k % 2]
        dashes = ' stroke-dasharray="5 3"' if line.dashed else ""
        stroke = f'stroke="{colour}" stroke-width="1.8"{dashes}'
        edges = [*zip(x, upper, strict=False)], [*zip(x, lower, strict=False)][::-1]
        outline = [(a, b) for edge in edges for a, b in edge if math.isfinite(b)]
        if len(outline) > 2:
            parts.append(f'<polygon points="{corners(outline)}" fill="{colour}" fill-opacity="0.2"/>')  # fmt: skip
        for finite, points in groupby(zip(x, middle, strict=True), lambda p: math.isfinite(p[1])):
            if finite:
                parts.append(f'<polyline points="{corners(points)}" fill="none" {stroke}/>')
        y = HEIGHT - 6
        legend.append(f'<line x1="{place:.0f}" y1="{y}" x2="{place + 20:.0f}" y2="{y}" {stroke}/>')
        legend.append(_text(place + 25, HEIGHT - 2, line.name))
        place += 40 + 6.2 * len(line.name)
    ends = [10**v if log else v for v in (low, high)]
    title = f"{title} (logarithmic)" if log else title
    return _picture(title, below, _span(x), ends, [*parts, *legend])


def bar_picture(values: Sequence[float], *, title: str, below: str) -> Safe:
    """Bars from zero, one for every value that is finite and not zero, at the place of its index."""
    bars = [(k, float(v)) for k, v in enumerate(values) if math.isfinite(v) and v != 0]
    low, high = _span([0.0, *(v for _, v in bars)])
    across = _scale(0.0, float(max(len(values), 1)), LEFT, WIDTH - RIGHT)
    up = _scale(low, high, HEIGHT - BOTTOM, TOP)
    width = max(across(0.8) - across(0.0), 1.2)
    parts = [
        f'<rect x="{across(k + 0.1):.1f}" y="{min(up(v), up(0.0)):.1f}" width="{width:.1f}" '
        f'height="{abs(up(v) - up(0.0)):.1f}" fill="{BLUE}"/>'
        for k, v in bars
    ]
    return _picture(title, below, (0.0, float(max(len(values) - 1, 0))), [low, high], parts)


def _picture(
    title: str, below: str, across: Sequence[float], up: Sequence[float], parts: Sequence[str]
) -> Safe:
    """The frame of a small picture: its title, the ends of its axes, and what is drawn."""
    foot, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    frame = [
        f'<path d="M{LEFT} {TOP}V{foot}H{end}" fill="none" stroke="currentColor" stroke-opacity="0.5"/>',
        _text(LEFT, 14, title, weight="bold"),
        _text(LEFT - 5, TOP + 8, short_number(up[1]), anchor="end"),
        _text(LEFT - 5, foot, short_number(up[0]), anchor="end"),
        _text(LEFT, foot + 14, f"{across[0]:,.4g}"),
        _text((LEFT + end) / 2, foot + 14, below, anchor="middle"),
        _text(end, foot + 14, f"{across[1]:,.6g}", anchor="end"),
    ]
    return Safe(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{_escape(title)}" fill="currentColor" font-family="sans-serif" font-size="11">'
        + "".join([*frame, *parts])
        + "</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{_escape(text)}</text>'


def _heights(values: Sequence[float], log: bool) -> list[float]:
    """Values, or their logarithms; not a number where there is none."""
    scale = math.log10 if log else float
    return [scale(v) if math.isfinite(v) and (v > 0 or not log) else math.nan for v in values]


def _span(values: Sequence[float]) -> tuple[float, float]:
    return (min(values), max(values)) if values else (0.0, 1.0)


def _scale(low: float, high: float, start: float, end: float) -> Any:
    """The linear map from [low, high] to [start, end]; its middle where the first is a point."""
    if high <= low:
        return lambda _: (start + end) / 2
    return lambda value: start + (end - start) * (value - low) / (high - low)


# Cards.

STYLE = (
    ".koloss table{border-collapse:collapse;margin:.4em 0}"
    ".koloss th,.koloss td{text-align:left;padding:.15em .6em;vertical-align:top}"
    ".koloss th.n,.koloss td.n{text-align:right;white-space:nowrap}"
)


def card(title: str, *parts: Any) -> str:
    """What an object looks like in a notebook: a title, and tables, pictures and lines of text below it."""
    body = "".join(escape(p) if hasattr(p, "__html__") else f"<p>{escape(p)}</p>" for p in parts)
    return f'<div class="koloss"><style>{STYLE}</style><p><b>{escape(title)}</b></p>{body}</div>'
