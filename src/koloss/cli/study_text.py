"""A study as text for the terminal: tables and bars."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from textwrap import fill
from typing import Any

import numpy as np

from koloss.core.terminal import console, say, section
from koloss.core.text import Table, counted, printable, short_number
from koloss.studies.status import Status, labels_in_words, time_in_words

SHOWN = 10
"""Actions whose probabilities are drawn."""

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
    rows = []
    for study in studies:
        created = time_in_words(datetime.fromisoformat(study["created"]))
        words = [study[key] for key in ("name", "learner", "goal")]
        rows.append([*words, f"{study['events']:,}", created, labels_in_words(study["labels"])])
    screen.print(section(f"Studies in {url}", Table(head, rows, left=(0, 1, 2, 4, 5))))


def show_study(status: Status, shown: Mapping[str, Any]) -> None:
    """Print where a study stands: `shown` is what `show --json` prints."""
    from rich.text import Text

    screen, parts = console(), blocks()
    unit = f" {status.unit}" if status.unit else ""

    def show(title: str, *lines: str) -> None:
        screen.print(section(title, Text("\n".join(map(printable, lines)), no_wrap=True)))

    facts = (
        fill(
            printable(text),
            screen.width - 2,
            initial_indent=f"{name:<14}",
            subsequent_indent=" " * 14,
        )
        for name, text in status.in_words().items()
    )
    title = f"{status.name}{' (paused)' if status.paused else ''}, in {status.store}"
    show(title, *(line for fact in facts for line in fact.split("\n")))
    if best := shown["best"]:
        value = f"{short_number(best['value'])}{unit} on average"
        show("Best action so far, as estimated", f"{label(best)}, {value}")
    if shown["probabilities"]:
        likeliest = shown["probabilities"][:SHOWN]
        shares = {f"{one['index']}: {label(one)}": one["probability"] for one in likeliest}
        more = len(shown["probabilities"]) - len(shares)
        lines = bars(shares, parts[-1]) + ([f"and {counted(more, 'other')}"] if more > 0 else [])
        known = shown["context"]
        where = "" if known is None else f", where the context is {known}"
        show(f"Probabilities of the next decision{where}", *lines)
    if values := shown["values"]:
        kind = "Rewards" if status.goal == "maximize" else "Losses"
        about = f" in{unit}" if unit else ""
        show(f"{kind}{about}, the last {len(values):,} in their order", columns(values, parts))
    for warning in status.facts.get("warnings", ()):
        say(screen, f"warning: {warning}")
