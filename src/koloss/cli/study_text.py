"""A study as text for the terminal: tables and bars."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import fill, shorten
from typing import Any

import numpy as np

from koloss.core.terminal import console, say, section
from koloss.core.text import Table, counted, duration, printable, short_number

SHOWN = 10
"""Actions whose probabilities are drawn."""

LONGEST = 400
"""Characters that are shown of a learner."""

BLOCKS, PLAIN = "▁▂▃▄▅▆▇█", ".:#"
"""Columns from the lowest to the highest, for terminals that can show them and for others."""


def blocks() -> str:
    """What standard output can show."""
    return BLOCKS if (sys.stdout.encoding or "").lower().startswith("utf") else PLAIN


def bars(shares: Mapping[str, float], full: str, width: int = 30) -> list[str]:
    r"""Shares as bars, one line each; the largest fills the width.

    Examples
    --------
    >>> print("\n".join(bars({"red": 0.5, "green": 0.25}, "#", width=4)))
    red    ####  0.500
    green  ##    0.250
    """
    most = max(shares.values(), default=0.0) or 1.0
    longest = max(map(len, shares), default=0)
    return [
        f"{name:<{longest}}  {full * round(width * share / most):<{width}}  {share:.3f}"
        for name, share in shares.items()
    ]


def columns(values: Sequence[float], parts: str, width: int = 60) -> str:
    """Values in their order as columns between the least and the largest mean; each is the mean of those that fall into it.

    Examples
    --------
    >>> columns([0, 1, 2], ".:#")
    '0.00 .:# 2.00'
    """
    bins = np.array_split(np.asarray(values, dtype=float), min(width, len(values)))
    means = np.array([part.mean() for part in bins])
    low, high = float(means.min()), float(means.max())
    levels = np.rint((means - low) / (high - low or 1.0) * (len(parts) - 1)).astype(int)
    return f"{short_number(low)} {''.join(parts[k] for k in levels)} {short_number(high)}"


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
    screen = console()
    if not studies:
        say(screen, f"no studies in {url}")
        return
    head = ("study", "learner", "goal", "events", "created", "labels")
    rows = [
        (
            *(study[key] for key in head[:3]),
            f"{study['events']:,}",
            _time(study["created"]),
            _labels(study),
        )
        for study in ({"study": one["name"], **one} for one in studies)
    ]
    screen.print(section(f"Studies in {url}", Table(head, rows, left=(0, 1, 2, 4, 5))))


def show_study(study: Mapping[str, Any]) -> None:
    """Print where a study stands: `study` is what `show --json` prints."""
    from rich.text import Text

    screen, parts = console(), blocks()

    def show(title: str, *lines: str) -> None:
        screen.print(section(title, Text("\n".join(map(printable, lines)), no_wrap=True)))

    unit = f" {study['unit']}" if study["unit"] else ""
    facts = [_hanging(name, text, screen.width - 2) for name, text in _facts(study).items() if text]
    show(
        f"{study['name']}{' (paused)' if study['paused'] else ''}, in {study['store']}",
        *"\n".join(facts).split("\n"),
    )
    if study["best"]:
        value = short_number(study["best"]["value"])
        show(
            "Best action so far, as estimated", f"{label(study['best'])}, {value}{unit} on average"
        )
    if study["probabilities"]:
        likeliest = study["probabilities"][:SHOWN]
        shares = {f"{one['index']}: {label(one)}": one["probability"] for one in likeliest}
        more = len(study["probabilities"]) - len(shares)
        lines = bars(shares, parts[-1]) + ([f"and {counted(more, 'other')}"] if more > 0 else [])
        known = study.get("context")
        where = "" if known is None else f", where the context is {known}"
        show(f"Probabilities of the next decision{where}", *lines)
    if study["values"]:
        kind = "Rewards" if study["goal"] == "maximize" else "Losses"
        count = f"the last {len(study['values']):,} in their order"
        title = f"{kind}{f' in{unit}' if unit else ''}, {count}"
        show(title, columns(study["values"], parts))
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
    survives = {"power": "power cuts and killed processes", "process": "killed processes, not power cuts"}  # fmt: skip
    return {
        "learner": shorten(study["learner"], LONGEST, placeholder=" ..."),
        "goal": study["goal"] + (f", in {study['unit']}" if study["unit"] else ""),
        "rules": ", ".join(rules),
        "labels": _labels(study),
        "created": _time(study["created"]),
        "newest event": f"{study['events']:,}, {_time(study['last'])}",
        "decisions": f"{study['asked']:,}",
        "told": f"{study['told']:,}",
        "outstanding": f"{study['waiting']:,}",
        "held back": f"{study['held']:,}" if study["held"] else "",
        "expired": expired,
        "came too late": f"{study['unused']:,}" if study["unused"] else "",
        "survives": survives.get(study["facts"].get("durability", ""), ""),
    }


def _hanging(name: str, text: str, width: int) -> str:
    """A name, and next to it a text on the lines that it needs."""
    indent = " " * 14
    return fill(printable(text), width, initial_indent=f"{name:<14}", subsequent_indent=indent)


def _labels(study: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in study["labels"].items())


def _time(at: str) -> str:
    return datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M:%S UTC")
