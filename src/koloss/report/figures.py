"""Figures (matplotlib), all with one look: legible when small, in grey, and without red or green.

Colours are those of Okabe and Ito, and never the only difference: lines differ in their dashes, points in
their markers. In the SVG files text is text, and the same figure is the same file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss._arrays import to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from koloss.report.inspection import Inspection

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
INK, GREY = "#222222", "#9A9A9A"

LOOK: Any = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": 100,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "koloss",
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}


def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; the same figure gives the same bytes."""
    import matplotlib as mpl

    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    with mpl.rc_context(LOOK):
        figure.savefig(paths[0])
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def inspection_figure(found: Inspection) -> Figure:
    """Eigenvalues with their envelopes, certified error against rank, and the design on the actions."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(10.5, 4.3), layout=ConstrainedLayoutEngine(w_pad=0.1))
        axes = figure.subplots(1, 3)
        _draw_spectrum(axes[0], found)
        _draw_certified(axes[1], found)
        _draw_design(axes[2], found)
    return figure


def _draw_spectrum(ax: Axes, found: Inspection) -> None:
    decay = found.decay
    j = np.arange(1, len(decay.eigenvalues) + 1)
    ax.semilogy(j, decay.eigenvalues, "o", color=INK, markersize=3, label="eigenvalues")
    fits = [
        (decay.exponential, VERMILION, "-", "e^{{-{} j}}"),
        (decay.polynomial, BLUE, "--", "j^{{-{}}}"),
    ]
    for fit, colour, dashes, formula in fits:
        text = rf"${_number(fit.constant)}\,{formula.format(_number(fit.rate))}$"
        better = ", fits better" if fit is decay.best else ""
        ax.semilogy(
            j,
            fit.envelope(j),
            dashes,
            color=colour,
            zorder=3,
            label=f"{fit.profile} envelope{better}\n{text}",
        )
    # The polynomial envelope of a smooth kernel starts many decades too high; the eigenvalues set the scale.
    top, bottom = float(decay.eigenvalues[0]), float(decay.eigenvalues[-1])
    ax.set_ylim(bottom / 10, top * 30)
    ax.set(title="Spectrum", xlabel="index j", ylabel="eigenvalue")
    if decay.profile == "polynomial" and len(j) > 10:
        ax.set_xscale("log")  # where its envelope is straight
    else:
        _whole_numbers(ax)
    _legend(ax)


def _draw_certified(ax: Axes, found: Inspection) -> None:
    rank, epsilon, certified = found.proxy.rank, found.proxy.epsilon, found.certified
    m = np.arange(len(certified))
    ax.semilogy(m[: rank + 1], certified[: rank + 1], color=BLUE, label="up to the chosen rank")
    if len(certified) > rank + 1:
        ax.semilogy(m[rank:], certified[rank:], ":", color=BLUE, label="beyond")
    ax.plot(
        rank,
        epsilon,
        "D",
        color=VERMILION,
        markersize=7,
        zorder=3,
        label=f"chosen: rank {rank}, error {epsilon:.2g}",
    )
    ax.set(
        title="Certified error",
        xlabel="rank m (number of features)",
        ylabel="largest |K(x, y) − φ(x)′φ(y)|",
    )
    _whole_numbers(ax)
    _legend(ax)


def _draw_design(ax: Axes, found: Inspection) -> None:
    X, design = to_numpy(found.actions.X), found.design
    support = design.support
    weights = to_numpy(design.weights)
    label = f"design: {len(support)} of {len(X):,} actions"
    if X.shape[1] == 1:
        ax.vlines(X[support, 0], 0, weights[support], color=VERMILION, linewidth=1.2)
        ax.plot(X[support, 0], weights[support], "o", color=VERMILION, markersize=4, label=label)
        ax.plot(X[:, 0], np.zeros(len(X)), "|", color=GREY, markersize=5, label="actions")
        ax.set(xlabel="action", ylabel="weight", ylim=(None, 1.1 * float(weights.max())))
    else:
        dot = min(3.0, max(0.7, 3000 / len(X)))
        ax.scatter(
            X[:, 0], X[:, 1], s=dot, color=GREY, linewidth=0, rasterized=True, label="actions"
        )
        area = 160 / float(weights.max())  # points² of a disc, per unit of weight
        ax.scatter(
            X[support, 0],
            X[support, 1],
            s=area * weights[support],
            color=VERMILION,
            alpha=0.75,
            edgecolor=INK,
            linewidth=0.5,
            clip_on=False,
            zorder=3,
            label=f"{label}\n(area: weight, at most {weights.max():.2g})",
        )
        ax.set(xlabel="first coordinate", ylabel="second coordinate")
        ax.set_aspect("equal")
        ax.grid(False)
    ax.set_title("G-optimal design")
    _legend(ax)


def _whole_numbers(ax: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))


def _number(value: float) -> str:
    """Two digits, as mathematics."""
    mantissa, _, exponent = f"{value:.2g}".partition("e")
    return rf"{mantissa}\times 10^{{{int(exponent)}}}" if exponent else mantissa


def _legend(ax: Axes) -> None:
    """A legend below the axes, where it hides nothing."""
    ax.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.2), borderaxespad=0, handlelength=2.2)
