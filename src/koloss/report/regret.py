"""Figures of games: regret against rounds, effective dimension against the horizon, draws over a density."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss.report.figures import BLUE, GREEN, GREY, INK, LOOK, ORANGE, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from koloss.experiments import Result

STYLES = (
    (BLUE, "o"),
    (VERMILION, "s"),
    (GREEN, "^"),
    (ORANGE, "D"),
    ("#CC79A7", "v"),
    ("#56B4E9", "P"),
)
"""Colour and marker of each curve; the markers tell them apart in grey."""

WIDTH = 4.8
"""Of every figure, in inches: its text can be read where a phone makes it three inches wide."""


def _looking(draw: Callable[[Result], Figure]) -> Callable[[Result], Figure]:
    """Draw with the house's look."""

    @functools.wraps(draw)
    def drawn(result: Result) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(LOOK):
            return draw(result)

    return drawn


@_looking
def regret_figure(result: Result) -> Figure:
    """Mean regret with its band, the guarantee, and what playing at random pays, on logarithmic axes."""
    curves, alone = result.curves, len(result.curves) == 1
    figure, ax = _start(3.3 + 0.21 * (len(curves) + 2 + (not alone)))
    styles = _styles(len(curves))
    for curve, (colour, marker) in zip(curves, styles, strict=True):
        low, high = np.maximum(curve.low, 1e-12), np.maximum(curve.high, 1e-12)
        ax.fill_between(curve.at, low, high, color=colour, alpha=0.22, linewidth=0)
        words = ["mean regret" if alone else curve.learner]
        if np.isfinite(curve.exponent):
            error = f" ± {curve.exponent_error:.2f}" if np.isfinite(curve.exponent_error) else ""
            words.append(f"{'grows like ' if alone else ''}t^{curve.exponent:.2f}{error}")
        words += [] if curve.valid else ["guarantee not valid"]
        label = f"{words[0]}: {', '.join(words[1:])}" if words[1:] else words[0]
        _draw(ax, curve.at, curve.mean, "-", colour, marker, markersize=5, label=label, zorder=4)
    for k, (curve, (colour, marker)) in enumerate(zip(curves, styles, strict=True)):
        label = "guarantee" if alone else "guarantee (hollow marks)"
        hollow = {"markersize": 4.5, "markerfacecolor": "white", "linewidth": 1.4}
        _draw(ax, curve.at, curve.bound, "--", colour, marker, **hollow, label=label if k == 0 else None)  # fmt: skip
    ends = [curve.uniform[-1] for curve in curves]
    same = float(np.ptp(ends)) <= 0.02 * abs(ends[0])
    for k, curve in enumerate(curves[:1] if same else curves):
        label = f"playing uniformly at random{'' if same else ' (same colours)'}"
        colour = INK if same else styles[k][0]
        _draw(ax, curve.at, curve.uniform, ":", colour, linewidth=1.4, label=label if k == 0 else None)  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="rounds t", ylabel="regret after t rounds")
    _limits(ax, curves)
    _slopes(ax)
    _plain_ticks(ax)
    ax.set_title(_wrapped(result.experiment.title))
    title = None if alone else "mean regret, and what it grows like"
    figure.legend(loc="outside lower left", handlelength=2.6, title=title, alignment="left")
    return figure


@_looking
def dimension_figure(result: Result) -> Figure:
    """Eigenvalues of each kernel, and the number of features chosen against the horizon."""
    figure, axes = _start(6.2, rows=2)
    styles = _styles(len(result.dimensions))
    for dimension, (colour, marker) in zip(result.dimensions, styles, strict=True):
        j = np.arange(1, len(dimension.eigenvalues) + 1)
        decay = "power" if dimension.profile == "polynomial" else "exponential"
        label = f"{dimension.learner}: {decay} decay, β = {dimension.rate:.2f}"
        _draw(axes[0], j, dimension.eigenvalues, "-", colour, marker, markersize=4.5, label=label)
        axes[1].plot(
            dimension.horizons, dimension.ranks, "-", color=colour, marker=marker, markersize=5
        )
    for ax in axes:
        ax.set(xscale="log", yscale="log")
    axes[0].set(xlabel="index j", ylabel="eigenvalue", ylim=(1e-12, 3))
    axes[1].set(xlabel="horizon n", ylabel="features chosen")
    axes[1].set_ylim(top=2 * max(max(d.ranks) for d in result.dimensions))
    for ax in axes:
        _plain_ticks(ax, y=ax is axes[1])
    axes[0].set_title("Eigenvalues of the kernels")
    axes[1].set_title("How many features the guarantee asks for")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", handlelength=2.4)
    return figure


@_looking
def picture_figure(result: Result) -> Figure:
    """Draws over the density, and the points z that push them away."""
    found = result.picture
    assert found is not None
    figure, ax = _start(4.7)
    density = found.density / np.nanmax(found.density)
    image = ax.pcolormesh(
        found.edges, found.edges, density, cmap="cividis", vmin=0, vmax=1, rasterized=True
    )
    dots = {"color": INK, "markersize": 2.2, "zorder": 3, "rasterized": True}
    ax.plot(*found.points.T, ".", label="draws", **dots)
    crosses = {"color": "white", "markeredgecolor": INK, "markeredgewidth": 0.7, "markersize": 6.5}
    label = "points z, which push them away"
    ax.plot(*found.centers.T, "X", label=label, zorder=4, clip_on=False, **crosses)
    ax.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
    ax.grid(False)
    bar = figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.set_label("density, relative to its largest value")
    ax.set_title(_wrapped(result.experiment.title))
    figure.legend(loc="outside lower left", ncols=2, handlelength=1.2)
    return figure


# What they share.


def _start(height: float, rows: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, 1)


def _wrapped(title: str) -> str:
    return textwrap.fill(title, 40)


def _styles(count: int) -> list[tuple[str, str]]:
    return [STYLES[k % len(STYLES)] for k in range(count)]


def _draw(
    ax: Axes, at: Any, values: Any, dashes: str, colour: str, marker: str = "", **style: Any
) -> None:
    """A line with markers at even ratios, and gaps where there is no logarithm."""
    values = np.where(np.asarray(values) > 0, values, np.nan)
    ax.plot(at, values, dashes, color=colour, marker=marker, markevery=_spread(at), **style)


def _spread(at: Any, count: int = 8) -> list[int]:
    """Indices at even ratios of the abscissa."""
    at = np.asarray(at)
    wanted = np.geomspace(max(at[-1] / 300, 1), at[-1], count)
    return sorted({int(np.argmin(np.abs(at - t))) for t in wanted})


def _limits(ax: Axes, curves: Any) -> None:
    last = max(curve.rounds for curve in curves)
    first, seen = max(1.0, last / 300), [np.empty(0)]
    for curve in curves:
        late = curve.at >= first
        seen += [line[late & (line > 0)] for line in (curve.mean, curve.bound, curve.uniform)]
    values = np.concatenate(seen)
    values = values if len(values) else np.ones(1)
    ax.set_xlim(first, 1.04 * max(last, 2 * first))
    ax.set_ylim(float(values.min()) / 6, 1.6 * float(values.max()))


def _slopes(ax: Axes) -> None:
    """Two short lines of slope 1 and 1/2 in the lower right corner, to compare with."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    if right / left < 8:
        return
    begin, end = left * (right / left) ** 0.62, left * (right / left) ** 0.86
    base = low * (high / low) ** 0.05
    for power, name in ((1.0, "t"), (0.5, "√t")):
        top = base * (end / begin) ** power
        ax.plot([begin, end], [base, top], "-", color=GREY, linewidth=1.2, zorder=1)
        ax.annotate(f" like {name}", (end, top), color="#5A5A5A", fontsize=8, va="center")


def _plain_ticks(ax: Axes, *, y: bool = True) -> None:
    """Numbers in full, not as powers of ten; none between the decades where there are several."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (ax.xaxis, ax.yaxis) if y else (ax.xaxis,):
        low, high = axis.get_view_interval()
        few = high / max(low, 1e-300) < 60
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_major_formatter(FuncFormatter(_number))
        axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: Any = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
