"""A study as text for the terminal: tables, bars and a small plot."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import fill, shorten
from typing import Any

import numpy as np

from koloss.core.text import Table, counted, duration, printable, short_number

BARS = 10
"""Actions whose probabilities are drawn."""

WIDTH, HEIGHT = 60, 6
"""Of a plot, in characters."""

LONGEST = 400
"""Characters that are shown of a learner."""

BLOCKS, PLAIN = " ▁▂▃▄▅▆▇█", " #"
"""Parts of a column or a bar, for terminals that can show them and for others."""


def blocks() -> str:
    """What standard output can show."""
    encoding = (sys.stdout.encoding or "").lower()
    return BLOCKS if encoding.startswith("utf") else PLAIN


def bars(shares: Mapping[str, float], full: str, width: int = 30) -> list[str]:
    r"""Shares as bars, one line each; the largest fills the width.

    Examples
    --------
    >>> print("\n".join(bars({"red": 0.5, "green": 0.25}, "#", width=4)))
    red    ####  0.500
    green  ##    0.250
    """
    most = max(shares.values(), default=0.0)
    longest = max(map(len, shares), default=0)
    lines = []
    for label, share in shares.items():
        length = round(width * share / most) if most > 0 else 0
        lines.append(f"{label:<{longest}}  {full * length:<{width}}  {share:.3f}")
    return lines


def plot(
    values: Sequence[float], parts: str, width: int = WIDTH, height: int = HEIGHT
) -> list[str]:
    r"""Values in their order as columns, each the mean of so many as fall into it, from the least mean to the largest.

    Examples
    --------
    >>> print("\n".join(plot([0, 1, 2], " #", width=3, height=3)))
    2.00 |  #
         | ##
    0.00 |###
    """
    bins = np.array_split(np.asarray(values, dtype=float), min(width, len(values)))
    means = np.array([part.mean() for part in bins])
    low, high = float(means.min()), float(means.max())
    steps = len(parts) - 1
    # The least has the smallest part there is, so that there is something to be seen in every column.
    share = (means - low) / (high - low) if high > low else np.full(len(means), 0.5)
    levels = np.rint(1 + share * (height * steps - 1)).astype(int).tolist()
    labels = [""] * height
    labels[0], labels[-1] = short_number(high), short_number(low)
    margin = max(map(len, labels))
    lines = []
    for row in range(height):
        below = (height - 1 - row) * steps
        line = "".join(parts[min(max(level - below, 0), steps)] for level in levels)
        lines.append(f"{labels[row]:>{margin}} |{line}".rstrip())
    return lines


def label(action: Mapping[str, Any]) -> str:
    """An action in a few words: its params, or its coordinates."""
    if action.get("params"):
        return ", ".join(f"{name}={_word(value)}" for name, value in action["params"].items())
    numbers = [_word(x) for x in action["action"]]
    more = ["..."] if len(numbers) > 6 else []
    text = ", ".join([*numbers[:6], *more])
    return text if len(numbers) == 1 else f"({text})"


def _word(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def decision_line(decision: Mapping[str, Any]) -> str:
    """A decision on one line."""
    p, row = decision.get("probability"), decision.get("index")
    about = [f"row {row}"] * (row is not None) + [f"probability {p:.4g}"] * (p is not None)
    end = f"  ({', '.join(about)})" if about else ""
    return f"decision {decision['id']}: {label(decision)}{end}"


def show_studies(studies: Sequence[Mapping[str, Any]], url: str) -> None:
    """Print a line for every study."""
    from koloss.report.text import console, say, section

    screen = console()
    if not studies:
        say(screen, f"no studies in {url}")
        return
    rows = []
    for study in studies:
        labels = ", ".join(f"{key}={value}" for key, value in study["labels"].items())
        created = _time(datetime.fromisoformat(study["created"]))
        events = f"{study['events']:,}"
        rows.append((study["name"], study["learner"], study["goal"], events, created, labels))
    head = ("study", "learner", "goal", "events", "created", "labels")
    screen.print(section(f"Studies in {url}", Table(head, rows, left=(0, 1, 2, 4, 5))))


def show_study(study: Mapping[str, Any]) -> None:
    """Print where a study stands: `study` is what `show --json` prints."""
    from rich.text import Text

    from koloss.report.text import console, say, section

    screen, parts = console(), blocks()
    unit = f" {study['unit']}" if study["unit"] else ""
    title = f"{study['name']}{' (paused)' if study['paused'] else ''}, in {study['store']}"
    facts = [_hanging(name, text, screen.width - 2) for name, text in _facts(study).items() if text]
    screen.print(section(title, Text("\n".join(facts), no_wrap=True)))
    if study["best"]:
        text = f"{label(study['best'])}, {short_number(study['best']['value'])}{unit} on average"
        screen.print(section("Best action so far, as estimated", Text(printable(text))))
    if study["probabilities"]:
        likeliest = study["probabilities"][:BARS]
        shares = {f"{one['index']}: {label(one)}": one["probability"] for one in likeliest}
        more = len(study["probabilities"]) - len(shares)
        lines = bars(shares, parts[-1]) + ([f"and {counted(more, 'other')}"] if more > 0 else [])
        title = "Probabilities of the next decision"
        if study.get("context") is not None:
            title += f", where the context is {study['context']}"
        screen.print(section(title, Text("\n".join(map(printable, lines)), no_wrap=True)))
    if study["values"]:
        kind = "Rewards" if study["goal"] == "maximize" else "Losses"
        title = f"{kind}{f' in{unit}' if unit else ''}, the last {len(study['values']):,} in their order"
        text = "\n".join(plot(study["values"], parts))
        screen.print(section(title, Text(text, no_wrap=True)))
    for warning in study["facts"].get("warnings", ()):
        say(screen, f"warning: {warning}")


def _facts(study: Mapping[str, Any]) -> dict[str, str]:
    """Names and texts of what is known of a study; empty where there is nothing to say."""
    expired = f"{study['expired']:,}" if study["expired"] else ""
    if study["defaulted"]:
        expired += f", of which {study['defaulted']:,} count as {short_number(study['default'])}"
    rules = [f"lease {duration(study['lease'])}"] if study["lease"] else []
    rules += [f"default {short_number(study['default'])}"] if study["default"] is not None else []
    rules += [f'release "{study["release"]}"'] if study["release"] else []
    facts = study["facts"]
    return {
        "learner": shorten(study["learner"], LONGEST, placeholder=" ..."),
        "goal": study["goal"] + (f", in {study['unit']}" if study["unit"] else ""),
        "rules": ", ".join(rules),
        "labels": ", ".join(f"{key}={value}" for key, value in study["labels"].items()),
        "created": _time(datetime.fromisoformat(study["created"])),
        "newest event": f"{study['events']:,}, {_time(datetime.fromisoformat(study['last']))}",
        "decisions": f"{study['asked']:,}",
        "told": f"{study['told']:,}",
        "outstanding": f"{study['waiting']:,}",
        "held back": f"{study['held']:,}" if study["held"] else "",
        "expired": expired,
        "came too late": f"{study['unused']:,}" if study["unused"] else "",
        "survives": {
            "power": "power cuts and killed processes",
            "process": "killed processes, not power cuts",
        }.get(facts.get("durability", ""), ""),
    }


def _hanging(name: str, text: str, width: int) -> str:
    """A name, and beside it a text on as many lines as it needs."""
    indent = " " * 14
    return fill(printable(text), width, initial_indent=f"{name:<14}", subsequent_indent=indent)


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
