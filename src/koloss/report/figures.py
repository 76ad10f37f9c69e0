"""Figures (matplotlib), all with one look: legible when small, in grey, and without red or green.

Colours are those of Okabe and Ito, and never the only difference: lines differ in their dashes, points in
their markers. In the SVG files text is text, and the same figure is the same file.
"""

from __future__ import annotations

import functools
import itertools
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from koloss.core.files import replacing
from koloss.core.text import BLUE, VERMILION, decimals, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from koloss.experiments import Curve, Result, Results

P = ParamSpec("P")
T = TypeVar("T")

ORANGE, GREEN, PURPLE, SKY = "#E69F00", "#009E73", "#CC79A7", "#56B4E9"
INK, GREY, DARK_GREY = "#222222", "#9A9A9A", "#5A5A5A"

WIDTH, WIDE = 4.8, 7.2
"""Of figures, in inches: text of the first can be read where a phone makes it three inches wide."""

LOOK: Any = {
    "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.6,
    "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlelocation": "left", "axes.titlesize": 11, "axes.titleweight": "bold",
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 10,
    "axes.labelsize": 10, "legend.fontsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9,
    "axes.linewidth": 0.8, "lines.linewidth": 1.8, "legend.frameon": False,
    "figure.dpi": 100, "savefig.dpi": 150, "svg.fonttype": "none", "svg.hashsalt": "koloss",
}  # fmt: skip


class Style(NamedTuple):
    """How a curve is drawn; dashes and markers tell curves apart in grey."""

    colour: str
    dashes: Any
    marker: str


SOLID, DASHED, DOTTED = "-", (0, (4, 2)), (0, (1, 1.5))
STYLES = (
    Style(BLUE, SOLID, "o"), Style(VERMILION, SOLID, "s"), Style(GREEN, SOLID, "^"),
    Style(ORANGE, SOLID, "D"), Style(PURPLE, SOLID, "v"), Style(SKY, SOLID, "P"),
    Style(BLUE, DASHED, "X"), Style(VERMILION, DASHED, "<"), Style(GREEN, DASHED, ">"),
)  # fmt: skip


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Draw with the look that all figures have."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> T:
        import matplotlib as mpl

        with mpl.rc_context(LOOK):
            return draw(*args, **options)

    return drawn


@styled
def save(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG; the same figure gives the same bytes.

    Letters that our font does not have are boxes in the PNG; the SVG, which pages show, has them as text.
    """
    paths = [directory / f"{name}.png", directory / f"{name}.svg"]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        with replacing(paths[0]) as file:
            figure.savefig(file, format="png")
        with replacing(paths[1]) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
    return paths


def start(height: float, width: float = WIDTH, **options: Any) -> tuple[Figure, Any]:
    """An empty figure, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**options)


def plain(text: str) -> str:
    """Text as it is: a dollar begins no formula, an underscore hides nothing from a legend, and all of it can be drawn."""
    text = printable(text, lines=True).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def wrapped(text: str, width: int = 40) -> str:
    """A title in lines."""
    return plain(textwrap.fill(text, width))


def headline(figure: Figure, text: str, width: int) -> None:
    """A title in lines over a whole figure, from its left edge on."""
    figure.suptitle(wrapped(text, width), x=0.01, ha="left", fontsize=12, weight="bold")


# Regret of experiments.


def logarithmic(curves: Sequence[Curve]) -> bool:
    """Whether the regret can be drawn on a logarithmic axis: all means are positive from a tenth of the rounds on."""
    return all((curve.mean[10 * curve.at >= curve.rounds] > 0).all() for curve in curves)


@styled
def regret_figure(result: Result) -> Figure:
    """Mean regret with its band, the guarantee, and what playing at random pays.

    Both axes are logarithmic; where the regret is negative, the vertical one is linear about zero.
    """
    curves, alone, log = result.curves, len(result.curves) == 1, logarithmic(result.curves)
    figure, ax = start(3.3 + 0.21 * (len(curves) + 2 + (not alone)))
    styles = [style for _, style in zip(curves, itertools.cycle(STYLES), strict=False)]
    for curve, style in zip(curves, styles, strict=True):
        words = ["mean regret" if alone else wrapped(curve.learner, 60)]
        if np.isfinite(curve.exponent):
            growth = decimals(curve.exponent, curve.exponent_error)
            words.append(f"{'grows like ' if alone else ''}t^{growth}")
        words += [] if curve.valid else ["guarantee not valid"]
        label = f"{words[0]}: {', '.join(words[1:])}" if words[1:] else words[0]
        band = [np.maximum(line, 1e-12) if log else line for line in (curve.low, curve.high)]
        ax.fill_between(curve.at, *band, color=style.colour, alpha=0.22, linewidth=0)
        draw_line(ax, curve.at, curve.mean, style, log=log, label=label, markersize=5, zorder=4)
    hollow = {"markersize": 4.5, "markerfacecolor": "white", "linewidth": 1.4}
    label = "guarantee" if alone else "guarantee (hollow marks)"
    for curve, style in zip(curves, styles, strict=True):
        dashed = style._replace(dashes="--")
        draw_line(ax, curve.at, curve.bound, dashed, log=log, label=label, **hollow)
        label = ""
    ends = [curve.uniform[-1] for curve in curves]
    same = float(np.ptp(ends)) <= 0.02 * abs(ends[0])
    label = f"playing uniformly at random{'' if same else ' (same colours)'}"
    for curve, style in zip(curves[:1] if same else curves, styles, strict=False):
        dotted = Style(INK if same else style.colour, ":", "")
        draw_line(ax, curve.at, curve.uniform, dotted, log=log, label=label, linewidth=1.4)
        label = ""
    ax.set(xscale="log", xlabel="rounds t", ylabel="regret after t rounds")
    _regret_scale(ax, curves, log=log)
    ax.set_title(wrapped(result.experiment.title))
    title = None if alone else "mean regret, and what it grows like"
    figure.legend(loc="outside lower left", handlelength=2.6, title=title, alignment="left")
    return figure


def _regret_scale(ax: Axes, curves: Sequence[Curve], *, log: bool) -> None:
    """Limits, ticks and lines to compare with, by what can be seen from a three-hundredth of the rounds on."""
    last = max(curve.rounds for curve in curves)
    first = max(1.0, last / 300)
    ax.set_xlim(first, 1.04 * max(last, 2 * first))
    lines = [(c.at >= first, line) for c in curves for line in (c.mean, c.bound, c.uniform)]
    values = np.concatenate([line[late] for late, line in lines])
    if log:
        values = values[values > 0] if (values > 0).any() else np.ones(1)
        ax.set_yscale("log")
        ax.set_ylim(float(values.min()) / 6, 1.6 * float(values.max()))
        _slopes(ax)
        plain_ticks(ax.xaxis, ax.yaxis)
        return
    size = max(float(np.abs(curve.mean).max()) for curve in curves)
    threshold = 10.0 ** np.floor(np.log10(max(size, 1e-6) / 3))
    ax.set_yscale("symlog", linthresh=threshold, linscale=0.8)
    ax.set_ylim(min(1.8 * float(values.min()), -threshold), 1.6 * float(values.max()))
    ax.axhline(0, color=INK, linewidth=0.8, zorder=1)
    plain_ticks(ax.xaxis)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def _slopes(ax: Axes) -> None:
    """Two short lines of slope 1 and 1/2 in the lower right corner, to compare with."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    if right / left < 8:
        return
    begin, end = left * (right / left) ** 0.6, left * (right / left) ** 0.82
    base = low * (high / low) ** 0.05
    for power, name in ((1.0, "t"), (0.5, "√t")):
        top = base * (end / begin) ** power
        ax.plot([begin, end], [base, top], "-", color=GREY, linewidth=1.2, zorder=1)
        beside(ax, f"like {name}", end, top, color=DARK_GREY, fontsize=8)


@styled
def overview_figure(results: Results) -> Figure:
    """All learners in one picture: the regret at the end, and the guarantee, as shares of what playing at random pays."""
    rows: list[tuple[str, Curve | None]] = []
    for result in results.results:
        title, several = result.experiment.title, len(result.curves) > 1
        rows += [(title, None)] if several else []
        rows += [(curve.learner if several else title, curve) for curve in result.curves]
    figure, ax = start(1.5 + 0.36 * len(rows))
    shares = [_shares(curve) for curve in results.curves]
    means = [share[0] for share in shares]
    log = all(mean > 0 for mean in means)
    low, high = min([1.0, *means]), max([1.0, *(x for share in shares for x in share)])
    low, high = (low / 4, high * 1.6) if log else (low - 0.1 * (high - low), 1.1 * high)
    ax.set(xscale="log" if log else "linear", xlim=(low, high), ylim=(len(rows) - 0.4, -0.8))
    dot: Any = {"marker": "o", "linestyle": "", "color": BLUE, "markersize": 6, "zorder": 4}
    diamond: Any = {**dot, "marker": "D", "color": INK, "markerfacecolor": "white", "markersize": 5.5, "zorder": 3}  # fmt: skip
    for k, (name, curve) in enumerate(rows):
        look: Any = {"fontsize": 8, "weight": "normal" if curve else "bold", "zorder": 5}
        text = plain(textwrap.shorten(name, 46, placeholder=" …"))
        beside(ax, text, 0, k - 0.42, gap=2, xycoords=ax.get_yaxis_transform(), **look)
        if curve is not None:
            mean, lower, upper, bound = _shares(curve)
            ax.plot([max(lower, low), upper], [k, k], "-", color=BLUE, alpha=0.35, linewidth=5, solid_capstyle="butt")  # fmt: skip
            ax.plot(bound, k, **diamond)
            ax.plot(mean, k, **dot)
    ax.axvline(1, color=INK, linewidth=0.9, linestyle=DASHED, zorder=1)
    if log:
        plain_ticks(ax.xaxis)
    ax.grid(False, axis="y")
    ax.set(xlabel="share of what playing at random pays", yticks=[])
    looks = {"mean regret, 95 % band": dot, "guarantee": diamond}
    handles = [ax.plot([], [], label=name, **look)[0] for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.2)
    headline(figure, overview_headline(results.curves), 42)
    return figure


def overview_headline(curves: Sequence[Curve]) -> str:
    """How many learners did better than chance, and whether the guarantees held."""
    better = sum(_shares(curve)[2] < 1 for curve in curves)
    above = sum(curve.above for curve in curves)
    held = "none was above a valid guarantee" if not above else f"{above} above a valid guarantee"
    return f"{better} of {len(curves)} learners clearly beat playing at random; {held}"


def _shares(curve: Curve) -> tuple[float, float, float, float]:
    """Mean, both ends of its band, and the guarantee, as shares of what playing at random pays."""
    unit = float(curve.uniform[-1])
    unit = unit if unit > 0 else float(curve.rounds)
    mean, low, high = (float(line[-1]) for line in (curve.mean, curve.low, curve.high))
    low, high = (low, high) if np.isfinite([low, high]).all() else (mean, mean)
    return mean / unit, low / unit, high / unit, float(curve.bound[-1]) / unit


@styled
def dimension_figure(result: Result) -> Figure:
    """Eigenvalues of each kernel, and the effective dimension against the horizon."""
    figure, axes = start(6.2 + 0.2 * max(0, len(result.dimensions) - 4), nrows=2)
    kernels: list[list[float]] = []
    for dimension, style in zip(result.dimensions, STYLES, strict=False):
        j = np.arange(1, len(dimension.eigenvalues) + 1)
        decay = "power" if dimension.profile == "polynomial" else "exponential"
        label = f"{wrapped(dimension.learner, 60)}: {decay} decay, β = {dimension.rate:.2f}"
        if dimension.eigenvalues not in kernels:  # learners may share a kernel
            kernels.append(dimension.eigenvalues)
            draw_line(axes[0], j, dimension.eigenvalues, style, markersize=4.5)
        draw_line(
            axes[1], dimension.horizons, dimension.dimensions, style, markersize=5, label=label
        )
    for ax in axes:
        ax.set(xscale="log", yscale="log")
    axes[0].set(xlabel="index j", ylabel="eigenvalue", ylim=(1e-12, 3), title="Eigenvalues of the kernels")  # fmt: skip
    axes[1].set(xlabel="horizon n", ylabel="effective dimension", title="How many features are learned")  # fmt: skip
    axes[1].set_ylim(top=2 * max(max(d.dimensions) for d in result.dimensions))
    plain_ticks(axes[0].xaxis, axes[1].xaxis, axes[1].yaxis)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", handlelength=2.4)
    return figure


@styled
def picture_figure(result: Result) -> Figure:
    """Draws over the density, and the points z that push them away."""
    picture = result.picture
    assert picture is not None
    figure, ax = start(4.7)
    density = picture.density / np.nanmax(picture.density)
    shades = {"cmap": "cividis", "vmin": 0, "vmax": 1, "rasterized": True}
    image = ax.pcolormesh(picture.edges, picture.edges, density, **shades)
    dots = {"color": INK, "markersize": 2.2, "zorder": 3, "rasterized": True}
    ax.plot(*picture.points.T, ".", label="draws", **dots)
    crosses = {"color": "white", "markeredgecolor": INK, "markeredgewidth": 0.7, "markersize": 6.5, "zorder": 4}  # fmt: skip
    ax.plot(*picture.centers.T, "X", label="points z, which push them away", clip_on=False, **crosses)  # fmt: skip
    ax.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
    ax.grid(False)
    figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02, label="density, relative to its largest value")  # fmt: skip
    ax.set_title(wrapped(result.experiment.title))
    figure.legend(loc="outside lower left", ncols=2, handlelength=1.2)
    return figure


# What they share.


def draw_line(ax: Axes, at: Any, values: Any, style: Style, *, log: bool = True, **more: Any) -> None:  # fmt: skip
    """A line with a few markers, and gaps where there is no logarithm; on a linear axis as it is."""
    at, values = np.asarray(at), np.asarray(values)
    if log:
        values = np.where(values > 0, values, np.nan)
    more["label"] = more.get("label") or None
    more.setdefault("markevery", marks(np.geomspace(max(at[-1] / 300, 1), at[-1], 8), at))
    ax.plot(at, values, linestyle=style.dashes, color=style.colour, marker=style.marker, **more)


def marks(wanted: Any, at: Any) -> list[int]:
    """Indices of the abscissae nearest to those wanted."""
    return sorted({int(np.argmin(np.abs(np.asarray(at) - t))) for t in wanted})


def beside(ax: Axes, text: str, x: float, y: float, gap: float = 6, **more: Any) -> None:
    """Words right of a point, with a white rim, so that no line runs through them."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=3, foreground="white")]
    more |= {"xytext": (gap, 0), "textcoords": "offset points", "va": "center", "path_effects": rim}
    ax.annotate(text, (x, y), **more)


def plain_ticks(*axes: Any) -> None:
    """On logarithmic axes numbers in full, not as powers of ten; none between the decades where there are several."""
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in axes:
        low, high = axis.get_view_interval()
        few = high / max(low, 1e-300) < 60
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        axis.set_minor_formatter(NullFormatter())
