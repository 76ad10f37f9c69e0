"""Tables for the terminal (rich): in colour there, plain text in a pipe or a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koloss.core.terminal import console, say, section, wrote
from koloss.core.text import Table
from koloss.guarantees.base import MARKS
from koloss.report.page import exponent_text, regret_text

if TYPE_CHECKING:
    from koloss.experiments import Results


# Experiments.


def show_results(results: Results, paths: Sequence[Path] = ()) -> None:
    """Print a line for every curve, and the names of files written."""
    screen = console()
    rows: list[Sequence[str]] = []
    for result in results.results:
        several = len(result.curves) > 1
        rows += [(result.experiment.name,)] if several else []
        for curve in result.curves:
            name = f"  {curve.learner}" if several else curve.name
            mark = ("" if curve.valid else " (not valid)") + (" ABOVE" if curve.above else "")
            regret, grew = regret_text(curve, band=False), exponent_text(curve)
            bound = f"{curve.bound[-1]:,.0f}{mark}"
            rows.append((name, f"{curve.rounds:,}", str(curve.runs), regret, grew, bound))
    head = ("experiment", "rounds", "runs", "regret", "exponent", "guarantee")
    if results.curves:
        title = "Regret against the best single action in hindsight"
        screen.print(section(title, Table(head, rows)))
    for result in results.results:
        if result.picture is not None:
            facts = result.picture.facts
            size = f"effective size {facts['effective_size']:,.0f}"
            words = f"{facts['draws']:,} draws, R-hat {facts['r_hat']:.3f}, {size}"
            say(screen, f"{result.experiment.name}: {words}")
    wrote(screen, paths)


def show_bounds(bounds: list[dict[str, Any]]) -> None:
    """Print guarantees, term by term."""
    screen = console()
    for entry in bounds:
        promise, paper = entry["guarantee"], entry["paper"]
        values = {**promise["terms"], "sum": sum(promise["terms"].values())}
        if not promise["informative"]:
            values["trivial: no player exceeds"] = promise["trivial"]
        bold = range(len(promise["terms"]), len(values))
        if paper is not None:
            values[f"the paper prints ({'valid' if paper['valid'] else 'not valid'})"] = paper[
                "total"
            ]
        rows = [(name, f"{value:,.1f}") for name, value in values.items()]
        title = f"{entry['learner']}, {entry['kernel']}, {entry['rounds']:,} rounds: {promise['statement']}"
        screen.print(section(title, Table(("term", "bound"), rows), bold), soft_wrap=True)
        if entry["rank"] is not None:
            say(screen, f"  features: {entry['rank']}, error at most {entry['epsilon']:.3g}")
        kind = "regret in hindsight" if promise["regret"] == "hindsight" else "pseudo-regret"
        say(screen, f"  bounds: the {kind}")
        say(screen, f"  valid: {'yes' if promise['valid'] else 'no'}")
        for assumption in promise["assumptions"]:
            say(screen, f"  assumes: {assumption['text']} [{MARKS[assumption['holds']]}]")
        for note in promise["notes"]:
            say(screen, f"  note: {note}")
        screen.print()


def show_catalogue(catalogue: dict[str, list[dict[str, str]]]) -> None:
    """Print what there is, with a line about each."""
    screen = console()
    width = max(len(entry["name"]) for entries in catalogue.values() for entry in entries)
    for heading, entries in catalogue.items():
        screen.print(heading.capitalize(), style="bold")
        for entry in entries:
            say(screen, f"  {entry['name']:<{width}}  {entry['about']}")
        screen.print()
