"""Tables for the terminal (rich): in colour there, plain text in a pipe or a file."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from koloss.designs import Design
    from koloss.report.inspection import Inspection


def inspection_table(found: Inspection) -> RenderableType:
    """Everything an inspection found, fit for 80 columns."""
    from rich.console import Group
    from rich.text import Text

    proxy, actions, design = found.proxy, found.actions, found.design
    size = f"{len(actions):,} in dimension {actions.dimension}"
    lines = [
        ("Kernel", repr(found.kernel)),
        ("Actions", f"{size}, covering radius {actions.covering_radius:.3g}"),
        ("Proxy", f"{proxy.method}, rank {proxy.rank}, certified error {proxy.epsilon:.3g}"),
        (
            "Design",
            f"{len(design.support)} actions, max leverage {_times_rank(design)} times the rank",
        ),
    ]
    head = [Text.assemble((f"{name:<9}", "bold cyan"), value) for name, value in lines]
    samples = section("Samples the theorem asks for", Text(found.statement()))
    parts = [_spectrum(found), _decay(found), _certified(found), samples, _designs(found)]
    return Group(*head, "", *parts, _seconds(found))


def _spectrum(found: Inspection) -> RenderableType:
    decay = found.decay
    measure = f"{decay.size:,} uniform draws" if decay.sampled else "uniform on the actions"
    table = empty_table("index", "eigenvalue", "exponential envelope", "polynomial envelope")
    for j in milestones(len(decay.eigenvalues)):
        envelopes = [f"{fit.envelope(j):.3g}" for fit in (decay.exponential, decay.polynomial)]
        table.add_row(str(j), f"{decay.eigenvalues[j - 1]:.3g}", *envelopes)
    count = len(decay.eigenvalues)
    return section(f"Spectrum: {count} eigenvalues above rounding; {measure}", table)


def _decay(found: Inspection) -> RenderableType:
    decay, epsilon = found.decay, found.epsilon
    table = empty_table("envelope", "C", "beta", "mean slack", "dimension", "", left=(0, 5))
    fits = [("C exp(-beta j)", decay.exponential), ("C j^-beta", decay.polynomial)]
    for formula, fit in fits:
        better, dimension = fit is decay.best, found.effective_dimension(fit)
        table.add_row(
            formula,
            f"{fit.constant:.3g}",
            f"{fit.rate:.3g}",
            f"{fit.slack:.2f}",
            _count(dimension),
            "fits better" if better else "",
            style="bold" if better else "",
        )
    table.add_row("eigenvalues alone", "", "", "", _count(found.measured_dimension), "")
    return section(f"Decay, and the effective dimension at error {epsilon:.3g}", table)


def _certified(found: Inspection) -> RenderableType:
    rank, last = found.proxy.rank, len(found.certified) - 1
    table = empty_table("rank", "certified error", "", left=(2,))
    for m in sorted({*milestones(last), rank}):
        chosen = m == rank
        mark, style = ("chosen", "bold") if chosen else ("", "")
        table.add_row(f"{m:,}", f"{found.certified[m]:.3g}", mark, style=style)
    return section("Certified error of the leading features", table)


def _designs(found: Inspection) -> RenderableType:
    table = empty_table("design", "support", "max leverage", "times the rank", left=(0,))
    for design in found.designs:
        style = "bold" if design is found.design else ""
        support, leverage = f"{len(design.support):,}", f"{design.max_leverage:,.2f}"
        table.add_row(design.method, support, leverage, _times_rank(design), style=style)
    return section(f"Designs: a max leverage of {found.design.rank} is the least there is", table)


def _seconds(found: Inspection) -> RenderableType:
    table = empty_table(*found.seconds)
    table.add_row(*(f"{value:.3f}" for value in found.seconds.values()))
    return section("Seconds", table)


def _count(value: int | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if value < 10**6 else f"{value:.2g}"


def _times_rank(design: Design) -> str:
    return f"{design.max_leverage / design.rank:.4f}"


def milestones(last: int, count: int = 8) -> list[int]:
    """1, 2, ..., `last`, or about `count` of them at even ratios, the first and the last included."""
    if last <= count:
        return list(range(1, last + 1))
    return sorted({round(float(j)) for j in np.geomspace(1, last, count)})


def section(title: str, body: RenderableType) -> RenderableType:
    """A bold line, and something below it, set in a little."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    return Group(Text(title, style="bold"), Padding(body, (0, 0, 1, 2), expand=False))


def empty_table(*columns: str, left: Container[int] = ()) -> Table:
    """Empty table with a rule below its head; columns to the right but for those named."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for k, name in enumerate(columns):
        table.add_column(name, justify="left" if k in left else "right")
    return table
