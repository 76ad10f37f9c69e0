"""Figures of the arena (matplotlib): all players over all games in one picture, and the regret in each game."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss.experiments.arena.ranking import (
    FIRST,
    UNIFORM,
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

    from koloss.experiments.arena.base import Game, PlayerSpec
    from koloss.experiments.results import ArenaResults

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
    (GREEN, (0, (4, 2)), ">"),
)
"""Colour, dashes and marker of the players in a figure."""

PLAIN = (INK, (0, (1, 1.5)), "")
"""That of uniform play."""


MARKS: dict[str, Any] = {
    "a game": {"marker": "o", "linestyle": "", "markersize": 4.5, "alpha": 0.55, "markeredgewidth": 0},
    "median": {"marker": "|", "linestyle": "", "markersize": 15, "markeredgewidth": 2.4},
    "worst": {"marker": "D", "linestyle": "", "markersize": 6, "markerfacecolor": "white", "markeredgewidth": 1.6},
}  # fmt: skip

NARROWEST = 0.34
"""Width of a panel, of both together, at least."""

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
            # One unit is as long in both panels, unless one of them would be too narrow to be read.
            ranges = [high - low for low, high in spans]
            ratios = [max(one, NARROWEST * sum(ranges)) for one in ranges]
            axes = figure.subplots(
                1, len(panels), squeeze=False, sharey=True, width_ratios=ratios
            ).ravel()
        for ax, (title, group), span in zip(axes, panels, spans, strict=True):
            _draw_panel(ax, rows, group, title, span if not narrow else _both(spans))
        title = textwrap.fill(headline(found, games), 44 if narrow else 68)
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, weight="bold")
        handles = [Line2D([], [], color=INK, label=name, **look) for name, look in MARKS.items()]
        if any(_ours(row) for row in rows):
            handles.append(Line2D([], [], color=BLUE, linewidth=4, label="learner of Koloss"))
        figure.legend(
            handles=handles,
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
        ax.plot([shares.min(), shares.max()], [k, k], "-", color=GREY, linewidth=1, zorder=2)
        places = {"a game": shares, "median": np.median(shares), "worst": shares.max()}
        for z, (name, x) in enumerate(places.items(), start=3):
            ax.plot(x, np.full(np.shape(x), k), color=colour, zorder=z, **MARKS[name])
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
    slugs = {s.player.slug for s in shown(standings(results, picture_games(results)))}
    order = {slug: k for k, slug in enumerate(FIRST)}
    chosen = sorted(
        (spec for spec in results.present if spec.slug in slugs and spec.slug != UNIFORM),
        key=lambda spec: order.get(spec.slug, len(FIRST)),
    )
    found = dict(zip(chosen, STYLES, strict=False))
    found |= {spec: PLAIN for spec in results.present if spec.slug == UNIFORM}
    return {spec: look for spec, look in found.items() if spec in specs}


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
        axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
