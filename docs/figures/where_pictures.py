"""The pictures of `where.py`: where the library's learners lose, who wins where, and how much everyone pays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from docs.figures.where_table import (
    BINS,
    HOSTILE,
    HOSTILE_ONLY,
    KIND,
    OURS,
    Row,
    chosen,
    median_share,
    won,
)
from koloss import arena
from koloss.core.text import BLUE, VERMILION
from koloss.report import figures
from koloss.report.figures import DARK_GREY, DASHED, GREEN, GREY, INK, ORANGE, PURPLE, SKY, Style

GAP = 0.55
"""Between rows of two settings."""

PANELS = {"kind": KIND, "hostile": HOSTILE}

WINNERS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "Insured": (("insured",), BLUE, "white"),
    "Insured, Thompson": (("insured-thompson",), SKY, INK),
    "Exponential weights": (("exp-weights",), "#B7DDF5", INK),
    "GP-UCB, plain or discounted": (("gp-ucb", "gp-ucb-discounted"), ORANGE, INK),
    "GP Thompson": (("gp-thompson",), VERMILION, "white"),
    "EXP3 or uniform": (("exp3", "uniform"), GREY, INK),
    "river, PyXAB, Vowpal Wabbit": (("river-ucb", "pyxab-hct", "vowpal-wabbit-squarecb"), DARK_GREY, "white"),
}  # fmt: skip
"""Players that share a colour, that colour, and that of numbers on it; the library's own are blue."""

LINES = {
    "insured": Style(BLUE, "-", "o"),
    "insured-thompson": Style(SKY, "-", "s"),
    "exp-weights": Style(BLUE, DASHED, "^"),
    "gp-ucb": Style(ORANGE, "-", "D"),
    "gp-thompson": Style(VERMILION, "-", "v"),
    "exp3": Style(PURPLE, DASHED, "P"),
    "pyxab-hct": Style(GREEN, DASHED, "X"),
}
"""How players are drawn, in the order of the legend."""


def _layout() -> tuple[list[tuple[str, str, float]], float]:
    """Every row: its setting, its label, and where it stands; and where the last one ends."""
    rows, y = [], 0.0
    for name, bins in BINS.items():
        rows += [(name, label, y + k) for k, label in enumerate(bins)]
        y += len(bins) + GAP
    return rows, y - GAP


def _two_panels(rows: Sequence[Row], height: float) -> tuple[Figure, Any]:
    """Kind games on the left, hostile ones on the right, and the same rows in both."""
    figure, axes = figures.start(height, figures.WIDE, ncols=2, sharey=True)
    layout, end = _layout()
    firsts = {name: next(iter(bins)) for name, bins in BINS.items()}
    labels = [
        f"{name}   {label}".rstrip() if label == firsts[name] else label
        for name, label, _ in layout
    ]
    for ax, (title, kind) in zip(axes, PANELS.items(), strict=True):
        ax.set_title(f"{len(chosen(rows, kind))} {title} games", fontsize=10, pad=16)
        ax.set_yticks([y for *_, y in layout], labels)
        ax.set_ylim(end - 0.4, -0.7)
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
    return figure, axes


def _cells(rows: Sequence[Row], kind: Any) -> list[tuple[float, list[Row]]]:
    """The games of every row of a panel."""
    layout, _ = _layout()
    return [
        (y, chosen(rows, kind, BINS[name][label]))
        for name, label, y in layout
        if kind is HOSTILE or name not in HOSTILE_ONLY
    ]


@figures.styled
def losing(rows: Sequence[Row], title: str) -> Figure:
    """By how much the insured learners are behind the best player that is not of this library."""
    figure, axes = _two_panels(rows, 8.2)
    looks = {"insured": (BLUE, "o", -0.16), "insured-thompson": (VERMILION, "s", 0.16)}
    for ax, kind in zip(axes, PANELS.values(), strict=True):
        ax.axvline(0, color=INK, linewidth=0.9)
        for y, games in _cells(rows, kind):
            for player, (colour, marker, shift) in looks.items():
                behind = np.array([row.behind(player) for row in games])
                middle, most = np.quantile(behind, [0.5, 0.9])
                ax.plot([middle, most], [y + shift] * 2, "-", color=colour, linewidth=1.6)
                ax.plot(middle, y + shift, marker, color=colour, markersize=4.6)
                ax.plot(most, y + shift, "|", color=colour, markersize=7, markeredgewidth=1.6)
        ax.set_xlabel("losses per round behind the best rival")
    low = min(ax.get_xlim()[0] for ax in axes)
    high = max(ax.get_xlim()[1] for ax in axes)
    for ax in axes:
        ax.set_xlim(low, high)
        ax.axvspan(0, high, color="#F3E7E1", zorder=0, linewidth=0)
        ax.text(high, -0.62, "behind ", ha="right", va="bottom", fontsize=8.5, color=INK)
        ax.text(low, -0.62, " ahead", ha="left", va="bottom", fontsize=8.5, color=INK)
    names = {"insured": "Insured", "insured-thompson": "Insured, Thompson"}
    handles = [
        Line2D([], [], color=colour, marker=marker, markersize=5, label=f"{names[player]}: the median game, and a line to what nine in ten are below")
        for player, (colour, marker, _) in looks.items()
    ]  # fmt: skip
    figures.headline(figure, title, 66)
    figure.legend(handles=handles, loc="outside lower center", ncols=1)
    return figure


@figures.styled
def winning(rows: Sequence[Row], title: str) -> Figure:
    """Share of games that each player wins."""
    figure, axes = _two_panels(rows, 8.4)
    for ax, kind in zip(axes, PANELS.values(), strict=True):
        for y, games in _cells(rows, kind):
            counts, left = won(games), 0.0
            for slugs, colour, ink in WINNERS.values():
                part = 100 * sum(counts[slug] for slug in slugs) / len(games)
                ax.barh(y, part, left=left, color=colour, height=0.8, edgecolor="white", linewidth=0.6)  # fmt: skip
                if part >= 8:
                    ax.text(left + part / 2, y + 0.03, f"{part:.0f}", ha="center", va="center", fontsize=7.5, color=ink)  # fmt: skip
                left += part
        ax.set_xlim(0, 100)
        ax.set_xlabel("per cent of games won")
        ax.grid(False, axis="x")
    figures.headline(figure, title, 66)
    handles = [Patch(color=colour, label=name) for name, (_, colour, _) in WINNERS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=1.2)
    return figure


@figures.styled
def shares(rows: Sequence[Row], title: str) -> Figure:
    """Median regret as a share of uniform play's, against six settings."""
    panels = ("hostility", "drift", "delay", "noise", "dimension", "length told")
    figure, axes = figures.start(5.8, figures.WIDE, nrows=2, ncols=3)
    for ax, name in zip(axes.flat, panels, strict=True):
        bins = BINS[name]
        if name == "hostility":
            groups = [chosen(rows, KIND), *(chosen(rows, test) for test in bins.values())]
            labels = ["none", *bins]
        else:
            groups, labels = [chosen(rows, KIND, test) for test in bins.values()], list(bins)
        for player, style in LINES.items():
            heights = [
                median_share(games, player) if any(player in row.regrets for row in games) else np.nan
                for games in groups
            ]  # fmt: skip
            ax.plot(heights, linestyle=style.dashes, color=style.colour, marker=style.marker, markersize=4.6, linewidth=1.5)  # fmt: skip
        ax.axhline(1, color=INK, linewidth=0.8, linestyle=(0, (1, 1.5)))
        ax.set_xticks(range(len(labels)), [label.replace("below", "<").replace("to ", "≤ ").removeprefix("× ") for label in labels])  # fmt: skip
        ax.set_xlim(-0.3, len(labels) - 0.7)
        ax.set_title(
            "all games: hostility" if name == "hostility" else f"kind games: {name}",
            fontsize=10,
        )
        if name == "length told":
            ax.set_xlabel("× the true length", fontsize=9)
        ax.grid(False, axis="x")
        ax.margins(y=0.08)
    kind = axes.flat[1:]
    low, high = (pick(ends) for pick, ends in zip((min, max), zip(*(ax.get_ylim() for ax in kind), strict=True), strict=True))  # fmt: skip
    for ax in kind:
        ax.set_ylim(low, high)
    figure.supylabel("median share of uniform play's regret", fontsize=10)
    figures.headline(figure, title, 66)
    handles = [
        Line2D([], [], color=s.colour, linestyle=s.dashes, marker=s.marker, markersize=5, label=arena.players()[slug].name)
        for slug, s in LINES.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=4, handlelength=2.4)
    return figure


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """All pictures, as SVG files."""
    kind, hostile = chosen(rows, KIND), chosen(rows, HOSTILE)
    ours = [sum(won(part)[slug] for slug in OURS) for part in (kind, hostile)]
    ahead = [sum(row.behind() <= 0 for row in part) for part in (kind, hostile)]
    made = {
        "where-koloss-loses": losing(rows, f"Insured is behind in {len(kind) - ahead[0]} of {len(kind)} kind and {len(hostile) - ahead[1]} of {len(hostile)} hostile games"),
        "where-players-win": winning(rows, f"Koloss (blue) wins {ours[0]} of {len(kind)} kind and {ours[1]} of {len(hostile)} hostile games"),
        "where-shares": shares(rows, "What everyone pays: the median game of each kind"),
    }  # fmt: skip
    paths = []
    for name, figure in made.items():
        picture, path = figures.save(figure, folder, name)
        picture.unlink()
        paths.append(path)
    return paths
