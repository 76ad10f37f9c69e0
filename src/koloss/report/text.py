"""Results, guarantees and the catalogue as tables on standard output (rich); plain where it is piped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koloss.report.page import exponent_text, regret_text
from koloss.report.tables import empty_table, section

if TYPE_CHECKING:
    from rich.console import Console

    from koloss.experiments import Results


def show_results(results: Results, paths: Sequence[Path] = ()) -> None:
    """Print a line for every curve, and the names of files written."""
    console = _console()
    rows = empty_table("experiment", "rounds", "runs", "regret", "exponent", "guarantee", left=(0,))
    rows.columns[0].overflow = "fold"
    for result in results.results:
        several = len(result.curves) > 1
        if several:
            rows.add_row(result.experiment.name)
        for curve in result.curves:
            mark = "" if curve.valid else " (not valid)"
            rows.add_row(
                f"  {curve.learner}" if several else curve.name,
                f"{curve.rounds:,}",
                str(curve.runs),
                regret_text(curve, band=False),
                exponent_text(curve),
                f"{curve.bound[-1]:,.0f}{mark}" + (" ABOVE" if curve.above else ""),
            )
    if results.curves:
        console.print(section("Regret against the best single action in hindsight", rows))
    for result in results.results:
        if result.picture is not None:
            facts = result.picture.facts
            console.print(
                f"{result.experiment.name}: {facts['draws']:,} draws, R-hat {facts['r_hat']:.3f}, effective size "
                f"{facts['effective_size']:,.0f}"
            )
    for path in paths:
        console.print(f"wrote {path}", markup=False, soft_wrap=True)


def show_bounds(found: list[dict[str, Any]]) -> None:
    """Print guarantees, term by term."""
    console = _console()
    for entry in found:
        promise, paper = entry["guarantee"], entry["paper"]
        rows = empty_table("term", "bound", left=(0,))
        for name, value in promise["terms"].items():
            rows.add_row(name, f"{value:,.1f}")
        rows.add_row("sum", f"{sum(promise['terms'].values()):,.1f}", style="bold")
        if not promise["informative"]:
            rows.add_row("trivial: no player exceeds", f"{promise['trivial']:,.1f}", style="bold")
        if paper is not None:
            rows.add_row(
                f"the paper prints ({'valid' if paper['valid'] else 'not valid'})", f"{paper['total']:,.1f}"
            )  # fmt: skip
        title = f"{entry['learner']}, {entry['kernel']}, {entry['rounds']:,} rounds: {promise['statement']}"
        console.print(section(title, rows), soft_wrap=True)
        if entry["rank"] is not None:
            console.print(f"  features: {entry['rank']}, error at most {entry['epsilon']:.3g}")
        console.print(f"  valid: {'yes' if promise['valid'] else 'no'}")
        for assumption in promise["assumptions"]:
            mark = {True: "holds", False: "FAILS", None: "yours to know"}[assumption["holds"]]
            console.print(f"  assumes: {assumption['text']} [{mark}]", markup=False, soft_wrap=True)
        for note in promise["notes"]:
            console.print(f"  note: {note}", markup=False, soft_wrap=True)
        console.print()


def show_catalogue(found: dict[str, list[dict[str, str]]]) -> None:
    """Print what there is, with a line about each."""
    console = _console()
    width = max(len(entry["name"]) for entries in found.values() for entry in entries)
    for heading, entries in found.items():
        console.print(heading.capitalize(), style="bold")
        for entry in entries:
            line = f"  {entry['name']:<{width}}  {entry['about']}"
            console.print(line, markup=False, soft_wrap=True)
        console.print()


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)
