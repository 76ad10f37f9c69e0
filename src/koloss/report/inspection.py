"""An inspection of a kernel as a figure, as tables for the terminal, and as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from koloss.core.arrays import to_numpy
from koloss.core.files import write_text
from koloss.core.terminal import console, section, wrote
from koloss.core.text import BLUE, VERMILION, Table, printable
from koloss.experiments.inspection import Inspection
from koloss.report.figures import GREY, INK, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from koloss.designs import Design
    from koloss.proxy import Eigendecay


def write(inspection: Inspection, directory: Path | str) -> list[Path]:
    """Write inspect.png, inspect.svg and inspect.json into a directory, made where it is missing."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = save(inspection_figure(inspection), directory, "inspect")
    numbers = directory / "inspect.json"
    text = json.dumps(inspection.to_dict(), indent=2, allow_nan=False)
    write_text(numbers, text + "\n")
    return [*paths, numbers]


def show(inspection: Inspection, paths: Sequence[Path] = ()) -> None:
    """Print an inspection to standard output, fit for 80 columns, and the names of files written from it."""
    from rich.text import Text

    proxy, actions, design = inspection.proxy, inspection.actions, inspection.design
    size = f"{len(actions):,} in dimension {actions.dimension}"
    facts = {
        "Kernel": repr(inspection.kernel),
        "Actions": f"{size}, covering radius {actions.covering_radius:.3g}",
        "Proxy": f"{proxy.method}, rank {proxy.rank}, certified error {proxy.epsilon:.3g}",
        "Design": f"{len(design.support)} actions, max leverage {_times_rank(design)} times the rank",
    }
    screen = console()
    for name, value in facts.items():
        screen.print(Text.assemble((f"{name:<9}", "bold cyan"), printable(value)))
    screen.print()
    screen.print(_spectrum(inspection.decay))
    screen.print(_decay(inspection))
    screen.print(_certified(inspection))
    screen.print(_dimensions(inspection))
    screen.print(section("Samples the theorem asks for", Text(inspection.statement())))
    title = f"Designs: a max leverage of {design.rank} is the least there is"
    rows = [
        [d.method, f"{len(d.support):,}", f"{d.max_leverage:,.2f}", _times_rank(d)]
        for d in inspection.designs
    ]
    head = ["design", "support", "max leverage", "times the rank"]
    screen.print(section(title, Table(head, rows), bold=[0]))
    seconds = inspection.seconds
    row = [f"{value:.3f}" for value in seconds.values()]
    screen.print(section("Seconds", Table(list(seconds), [row], left=())))
    wrote(screen, paths)


# Tables.


def _spectrum(decay: Eigendecay) -> RenderableType:
    measure = f"{decay.size:,} uniform draws" if decay.sampled else "uniform on the actions"
    count, fits = len(decay.eigenvalues), (decay.exponential, decay.polynomial)
    rows = [
        [f"{j}", *(f"{x:.3g}" for x in (decay.eigenvalues[j - 1], *(fit.envelope(j) for fit in fits)))]
        for j in milestones(count)
    ]  # fmt: skip
    head = ["index", "eigenvalue", "exponential envelope", "polynomial envelope"]
    title = f"Spectrum: {count} eigenvalues above rounding; {measure}"
    return section(title, Table(head, rows, left=()))


def _decay(inspection: Inspection) -> RenderableType:
    decay, rows = inspection.decay, []
    for formula, fit in (("C exp(-beta j)", decay.exponential), ("C j^-beta", decay.polynomial)):
        numbers = f"{fit.constant:.3g}", f"{fit.rate:.3g}", f"{fit.slack:.2f}"
        better = "fits better" if fit is decay.best else ""
        rows.append([formula, *numbers, _count(inspection.effective_dimension(fit)), better])
    rows.append(["eigenvalues alone", "", "", "", _count(inspection.measured_dimension), ""])
    table = Table(["envelope", "C", "beta", "mean slack", "dimension", ""], rows, left=(0, 5))
    title = f"Decay, and the effective dimension at error {inspection.epsilon:.3g}"
    return section(title, table, bold=[k for k, row in enumerate(rows) if row[-1]])


def _certified(inspection: Inspection) -> RenderableType:
    rank, certified = inspection.proxy.rank, inspection.certified
    ranks = sorted({*milestones(len(certified) - 1), rank})
    rows = [[f"{m:,}", f"{certified[m]:.3g}", "chosen" if m == rank else ""] for m in ranks]
    table = Table(["rank", "certified error", ""], rows, left=(2,))
    return section("Certified error of the leading features", table, bold=[ranks.index(rank)])


def _dimensions(inspection: Inspection) -> RenderableType:
    found = inspection.dimensions
    rows = [
        [f"4^-{j}", f"{d.penalty:.3g}", f"{d.dimension:.2f}", f"{d.spread:.2f}"]
        for j, d in enumerate(found)
    ]
    table = Table(["penalty / max K", "penalty", "dimension d*", "spread e*"], rows, left=())
    return section("Certified dimensions with a penalty, for every law on the actions", table)


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


# The figure.


@styled
def inspection_figure(inspection: Inspection) -> Figure:
    """Eigenvalues with their envelopes, certified error against rank, and the design on the actions."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(10.5, 4.3), layout=ConstrainedLayoutEngine(w_pad=0.1))
    spectrum, certified, design = figure.subplots(1, 3)
    _draw_spectrum(spectrum, inspection)
    _draw_certified(certified, inspection)
    _draw_design(design, inspection)
    for ax in figure.axes:  # a legend below the axes hides nothing
        ax.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.2), borderaxespad=0, handlelength=2.2)
    return figure


def _draw_spectrum(ax: Axes, inspection: Inspection) -> None:
    decay = inspection.decay
    j = np.arange(1, len(decay.eigenvalues) + 1)
    ax.semilogy(j, decay.eigenvalues, "o", color=INK, markersize=3, label="eigenvalues")
    looks = ((decay.exponential, VERMILION, "-", "e^{{-{} j}}"), (decay.polynomial, BLUE, "--", "j^{{-{}}}"))  # fmt: skip
    for fit, colour, dashes, formula in looks:
        text = rf"${_two_digits(fit.constant)}\,{formula.format(_two_digits(fit.rate))}$"
        label = f"{fit.profile} envelope{', fits better' if fit is decay.best else ''}\n{text}"
        ax.semilogy(j, fit.envelope(j), dashes, color=colour, zorder=3, label=label)
    # The polynomial envelope of a smooth kernel starts many decades too high; the eigenvalues set the scale.
    ax.set_ylim(float(decay.eigenvalues[-1]) / 10, float(decay.eigenvalues[0]) * 30)
    ax.set(title="Spectrum", xlabel="index j", ylabel="eigenvalue")
    if decay.profile == "polynomial" and len(j) > 10:
        ax.set_xscale("log")  # where its envelope is straight
    else:
        _whole_numbers(ax)


def _draw_certified(ax: Axes, inspection: Inspection) -> None:
    rank, epsilon, certified = inspection.proxy.rank, inspection.proxy.epsilon, inspection.certified
    m = np.arange(len(certified))
    ax.semilogy(m[: rank + 1], certified[: rank + 1], color=BLUE, label="up to the chosen rank")
    if len(certified) > rank + 1:
        ax.semilogy(m[rank:], certified[rank:], ":", color=BLUE, label="beyond")
    label = f"chosen: rank {rank}, error {epsilon:.2g}"
    ax.plot(rank, epsilon, "D", color=VERMILION, markersize=7, zorder=3, label=label)
    ax.set(title="Certified error", xlabel="rank m (number of features)")
    ax.set_ylabel("largest |K(x, y) − φ(x)′φ(y)|")
    _whole_numbers(ax)


def _draw_design(ax: Axes, inspection: Inspection) -> None:
    X, support = to_numpy(inspection.actions.X), inspection.design.support
    weights = to_numpy(inspection.design.weights)
    largest = float(weights.max())
    label = f"design: {len(support)} of {len(X):,} actions"
    if X.shape[1] == 1:
        ax.vlines(X[support, 0], 0, weights[support], color=VERMILION, linewidth=1.2)
        ax.plot(X[support, 0], weights[support], "o", color=VERMILION, markersize=4, label=label)
        ax.plot(X[:, 0], np.zeros(len(X)), "|", color=GREY, markersize=5, label="actions")
        ax.set(xlabel="action", ylabel="weight", ylim=(None, 1.1 * largest))
    else:
        x, y = X[:, 0], X[:, 1]
        dot = min(3.0, max(0.7, 3000 / len(X)))
        ax.scatter(x, y, s=dot, color=GREY, linewidth=0, rasterized=True, label="actions")
        areas = 160 / largest * weights[support]  # points²
        label += f"\n(area: weight, at most {largest:.2g})"
        ax.scatter(x[support], y[support], s=areas, color=VERMILION, alpha=0.75, edgecolor=INK, linewidth=0.5,
                   clip_on=False, zorder=3, label=label)  # fmt: skip
        ax.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
        ax.grid(False)
    ax.set_title("G-optimal design")


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def _two_digits(value: float) -> str:
    """Two digits, as mathematics."""
    mantissa, _, exponent = f"{value:.2g}".partition("e")
    return rf"{mantissa}\times 10^{{{int(exponent)}}}" if exponent else mantissa
