"""The picture of the arena: all players over all games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from arena import ranking
from arena.ranking import Standing
from koloss.core.text import BLUE, counted
from koloss.report import figures
from koloss.report.figures import DASHED, GREY, INK, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from arena.base import Game
    from arena.results import ArenaResults

MARKS: dict[str, Any] = {
    "a game": {"marker": "o", "linestyle": "", "markersize": 4.5, "alpha": 0.55, "markeredgewidth": 0},
    "median": {"marker": "|", "linestyle": "", "markersize": 15, "markeredgewidth": 2.4},
    "worst": {"marker": "D", "linestyle": "", "markersize": 6, "markerfacecolor": "white", "markeredgewidth": 1.6},
}  # fmt: skip

NARROWEST = 0.34
"""Width of a panel, of both together, at least."""

OURS = ("insured", "exp-weights")
"""How the names of the library's own learners begin."""


@figures.styled
def summary_figure(
    results: ArenaResults, *, all_games: bool = False, narrow: bool = False
) -> Figure:
    """Every player a row, every game a dot: regret as a share of uniform play's, in kind games and in hostile ones.

    With `all_games` also those that the insured learner was tuned on while its results were being looked at; with `narrow`
    one panel below the other, for a phone.
    """
    from matplotlib.lines import Line2D

    games = ranking.picture_games(results, all_games=all_games)
    rows = ranking.shown(results, games)
    by_weather = {w: [game for game in games if game.weather == w] for w in ("kind", "hostile")}
    panels = {weather: group for weather, group in by_weather.items() if group}
    spans = [_span(rows, group) for group in panels.values()]
    each = 0.9 + 0.3 * max(len(rows), 1)
    if narrow:
        spans = [(min(low for low, _ in spans), max(high for _, high in spans))] * len(spans)
        size = {"height": 1.1 + each * len(panels), "width": figures.WIDTH}
        grid: dict[str, Any] = {"nrows": len(panels), "sharex": True}
    else:
        # One unit is as long in both panels, unless one of them would be too narrow to be read.
        widths = [high - low for low, high in spans]
        ratios = [max(width, NARROWEST * sum(widths)) for width in widths]
        size = {"height": 1.2 + each, "width": figures.WIDE}
        grid = {"ncols": len(panels), "sharey": True, "width_ratios": ratios}
    figure, axes = figures.start(**size, squeeze=False, **grid)
    for ax, (weather, group), span in zip(axes.flat, panels.items(), spans, strict=True):
        _draw_panel(ax, rows, group, span)
        names = [wrapped(standing.label(games)) for standing in rows]
        ax.set_yticks(range(len(rows)), names)
        ax.set_title(counted(len(group), f"{weather} game"))
    figures.headline(figure, ranking.headline(results, games), 42 if narrow else 66)
    unit, _ = ranking.yardstick(results, games)
    scene = f"regret of {counted(len(rows), 'player')} as a share of {unit}: smaller is better"
    handles = [Line2D([], [], color=INK, label=name, **look) for name, look in MARKS.items()]
    if any(_ours(row) for row in rows):
        handles.append(Line2D([], [], color=BLUE, linewidth=4, label="learner of Koloss"))
    scene = wrapped(scene, 46 if narrow else 90)
    look = {"handlelength": 1.2, "title": scene, "title_fontsize": 10}
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if narrow else 4, **look)
    return figure


def _draw_panel(
    ax: Axes, rows: Sequence[Standing], games: Sequence[Game], span: tuple[float, float]
) -> None:
    ax.axvline(0, color=INK, linewidth=0.8, zorder=1)
    ax.axvline(1, color=INK, linewidth=0.8, linestyle=DASHED, zorder=1)
    for k, standing in enumerate(rows):
        shares = np.array(_shares(standing, games))
        if not len(shares):
            continue
        colour = BLUE if _ours(standing) else INK
        ax.plot([shares.min(), shares.max()], [k, k], "-", color=GREY, linewidth=1, zorder=2)
        places = {"a game": shares, "median": np.median(shares), "worst": shares.max()}
        for z, (name, x) in enumerate(places.items(), start=3):
            ax.plot(x, np.full(np.shape(x), k), color=colour, zorder=z, **MARKS[name])
        figures.beside(ax, f"{shares.max():.2f}", shares.max(), k, fontsize=9, color=INK)
    ax.set_xlim(*span)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def _ours(standing: Standing) -> bool:
    return standing.player.slug.startswith(OURS)


def _shares(standing: Standing, games: Sequence[Game]) -> list[float]:
    """Those of some games that the player finished."""
    return [standing.shares[game.name] for game in games if game.name in standing.shares]


def _span(rows: Sequence[Standing], games: Sequence[Game]) -> tuple[float, float]:
    values = [share for standing in rows for share in _shares(standing, games)]
    low, high = min([0.0, *values]), max([1.0, *values])
    return low - 0.04 * (high - low), high + 0.22 * (high - low)
