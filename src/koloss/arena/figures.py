"""Figures of the arena (matplotlib): all players over all games in one picture, and the regret in each game."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss.arena.ranking import (
    FIRST,
    Standing,
    headline,
    picture_games,
    shown,
    standings,
    yardstick,
)
from koloss.report.figures import BLUE, GREEN, GREY, INK, LOOK, ORANGE, VERMILION
from koloss.report.regret import WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from koloss.arena.base import Game, PlayerSpec
    from koloss.arena.results import ArenaResults

PURPLE, SKY = "#CC79A7", "#56B4E9"

STYLES: tuple[tuple[str, Any, str], ...] = (
    (BLUE, "-", "o"),
    (VERMILION, "-", "s"),
    (GREEN, "-", "^"),
    (ORANGE, "-", "D"),
    (PURPLE, "-", "v"),
    (SKY, "-", "P"),
    (BLUE, (0, (4, 2)), "X"),
    (VERMILION, (0, (4, 2)), "<"),
    (INK, (0, (1, 1.5)), ""),
)
"""Colour, dashes and marker of the players in a figure; the last is that of uniform play."""


OURS = ("insured", "exp-weights")
"""How the names of the library's own learners begin."""


def summary_figure(results: ArenaResults, *, whole: bool = False, narrow: bool = False) -> Figure:
    """Every player a row, every game a dot: regret as a share of uniform play's, in kind games and in hostile ones.

    Parameters
    ----------
    results : ArenaResults
    whole : bool
        Over all games, also those that the insured learner was tuned on while its results were being looked at.
    narrow : bool
        One panel below the other, for a phone.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    games = picture_games(results, whole=whole)
    found = standings(results, games)
    rows = shown(found)
    panels = [
        (title, group)
        for title in ("kind", "hostile")
        for group in [[game for game in games if game.weather == title]]
        if group
    ]
    with mpl.rc_context(LOOK):
        each = 0.9 + 0.3 * max(len(rows), 1)
        size = (WIDTH, 0.9 + each * len(panels)) if narrow else (7.2, 1.0 + each)
        figure = Figure(figsize=size, layout="constrained")
        spans = [_span(rows, group) for _, group in panels]
        if narrow:
            axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True).ravel()
        else:
            # One unit is as long in both panels.
            ratios = [high - low for low, high in spans]
            axes = figure.subplots(
                1, len(panels), squeeze=False, sharey=True, width_ratios=ratios
            ).ravel()
        for ax, (title, group), span in zip(axes, panels, spans, strict=True):
            _draw_panel(ax, rows, group, title, span if not narrow else _both(spans))
        title = headline(found, games)
        title = textwrap.fill(title, 44) if narrow else title
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, weight="bold")
        handles, labels = axes[0].get_legend_handles_labels()
        if any(_ours(row) for row in rows):
            handles.append(Line2D([], [], color=BLUE, linewidth=4))
            labels.append("learner of Koloss")
        figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=2 if narrow else 4,
            handlelength=1.2,
            title=f"regret as a share of {yardstick(results, games).words}: smaller is better",
            title_fontsize=10,
        )
    return figure


def _draw_panel(
    ax: Axes, rows: Sequence[Standing], games: Sequence[Game], title: str, span: tuple[float, float]
) -> None:
    for k, standing in enumerate(rows):
        shares = np.array([standing.shares[game.name] for game in games])
        colour = BLUE if _ours(standing) else INK
        labels = ("a game", "median", "worst") if k == 0 else (None, None, None)
        ax.plot([shares.min(), shares.max()], [k, k], "-", color=GREY, linewidth=1, zorder=2)
        y = np.full(len(shares), k)
        ax.plot(shares, y, "o", color=colour, markersize=4.5, alpha=0.55, markeredgewidth=0, zorder=3, label=labels[0])  # fmt: skip
        ax.plot(np.median(shares), k, "|", color=colour, markersize=15, markeredgewidth=2.4, zorder=4, label=labels[1])  # fmt: skip
        ax.plot(shares.max(), k, "D", color=colour, markersize=6, markerfacecolor="white", markeredgewidth=1.6, zorder=5, label=labels[2])  # fmt: skip
        ax.annotate(f"{shares.max():.2f}", (shares.max(), k), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9, color=INK)  # fmt: skip
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    ax.axvline(1, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    ax.set_xlim(*span)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_yticks(range(len(rows)), [standing.player.name for standing in rows])
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")
    ax.set_title(f"{len(games)} {title} game{'s' if len(games) != 1 else ''}")


def _ours(standing: Standing) -> bool:
    return standing.player.slug.startswith(OURS)


def _span(rows: Sequence[Standing], games: Sequence[Game]) -> tuple[float, float]:
    values = [standing.shares[game.name] for standing in rows for game in games]
    low, high = min([0.0, *values]), max([1.0, *values])
    return low - 0.04 * (high - low), high + 0.22 * (high - low)


def _both(spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min(low for low, _ in spans), max(high for _, high in spans)


def regret_figure(results: ArenaResults, game: Game) -> Figure:
    """Mean regret in one game against the round, with its band; players of the picture in colour, the others in grey."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(LOOK):
        entries = {
            spec: entry
            for spec in results.present
            for entry in [results.entry(game.name, spec.slug)]
            if entry.finished
        }
        coloured = _styles(results, list(entries))
        figure = Figure(figsize=(WIDTH, 3.2 + 0.2 * (len(coloured) + 2) / 2), layout="constrained")
        ax = figure.subplots()
        for spec, entry in entries.items():
            at, mean, low, high = entry.curve()
            at, mean, low, high = (np.concatenate([[0], line]) for line in (at, mean, low, high))
            if spec not in coloured:
                ax.plot(at, mean, "-", color=GREY, linewidth=0.8, zorder=2)
                continue
            colour, dashes, marker = coloured[spec]
            ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
            ax.plot(at, mean, linestyle=dashes, color=colour, marker=marker, markersize=5, markevery=_evenly(at), label=spec.name, zorder=4)  # fmt: skip
        if len(coloured) < len(entries):
            ax.plot([], [], "-", color=GREY, linewidth=0.8, label="other players")
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set(xlabel="rounds t", ylabel="regret after t rounds", xlim=(0, None))
        _limits(ax, [entry.curve()[1] for entry in entries.values()])
        ax.set_title(game.name)
        _thousands(ax)
        handles, labels = ax.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, handlelength=2.6, fontsize=8)  # fmt: skip
    return figure


def _styles(results: ArenaResults, specs: Sequence[PlayerSpec]) -> dict[PlayerSpec, Any]:
    """A look for each player of the picture, the same in every game."""
    names = [s.player.slug for s in shown(standings(results, picture_games(results)))]
    ours = [spec for spec in results.present if spec.slug in names and spec.slug != FIRST[-1]]
    ours.sort(key=lambda spec: FIRST.index(spec.slug) if spec.slug in FIRST else len(FIRST))
    found = dict(zip(ours, STYLES[:-1], strict=False))
    found |= {spec: STYLES[-1] for spec in results.present if spec.slug == FIRST[-1]}
    return {spec: found[spec] for spec in found if spec in specs}


def _limits(ax: Axes, means: Sequence[Any]) -> None:
    """All means are inside; bands, which are wide with few runs, may be cut."""
    low, high = min([0.0, *(m.min() for m in means)]), max([1.0, *(m.max() for m in means)])
    ax.set_ylim(low - 0.06 * (high - low), high + 0.1 * (high - low))


def _evenly(at: Any, count: int = 6) -> list[int]:
    """Indices of marks at even distances."""
    wanted = np.linspace(0, at[-1], count + 1)[1:]
    return sorted({int(np.argmin(np.abs(at - t))) for t in wanted})


def _thousands(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
