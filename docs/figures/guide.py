"""The figures of the guide. Draw them again with: python docs/figures/guide.py

Each figure is drawn twice, for a light and for a dark page. The colours are those of Okabe and Ito and the
cividis map, which colour-blind readers can tell apart; lines differ in their dashes too.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import koloss as kl
from koloss.samplers.quadratic_ball import quadratic_ball

INK = {"light": "#24292f", "dark": "#e6e6ea"}
ROUNDS = 1000  # of each game
LINES = {
    "light": [("#0072B2", "-"), ("#D55E00", "--"), ("#007f5c", "-."), ("#8a4f7d", ":")],
    "dark": [("#56B4E9", "-"), ("#E69F00", "--"), ("#2fd0a0", "-."), ("#e29fc4", ":")],
}


@functools.cache
def _proxies(most: int) -> dict[str, dict[str, kl.Proxy]]:
    """Four constructions for one kernel, and one for four kernels."""
    actions, smooth = kl.Points(np.random.default_rng(0).random((2000, 2))), kl.Gaussian(0.3)
    return {
        "Gaussian kernel, four constructions": {
            "kernel PCA": kl.kernel_pca(smooth, actions, rank=most),
            "pivoted Cholesky": kl.pivoted_cholesky(smooth, actions, rank=most),
            "Mercer expansion": kl.mercer_features(smooth, actions, rank=most),
            "kernel PCA, 200 samples": kl.kernel_pca(
                smooth, actions, rank=most, samples=200, rng=0
            ),
        },
        "Pivoted Cholesky, four kernels": {
            "Gaussian": kl.pivoted_cholesky(smooth, actions, rank=most),
            "Matérn 5/2": kl.pivoted_cholesky(kl.Matern(2.5, 0.5), actions, rank=most),
            "Matérn 3/2": kl.pivoted_cholesky(kl.Matern(1.5, 0.5), actions, rank=most),
            "Matérn 1/2": kl.pivoted_cholesky(kl.Matern(0.5, 0.5), actions, rank=most),
        },
    }


def proxies(scheme: str) -> Figure:
    """Certified error against rank: by construction, and by kernel."""
    most = 100
    figure = Figure(figsize=(7.6, 3.3), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (title, made) in zip(axes, _proxies(most).items(), strict=True):
        for (name, proxy), (colour, dash) in zip(made.items(), LINES[scheme], strict=True):
            axis.semilogy(proxy.residual_curve, dash, color=colour, label=name, linewidth=1.8)
        axis.set(title=title, xlabel="rank", xlim=(0, most), ylim=(1e-8, 2))
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, loc="lower left")
    axes[0].set_ylabel("certified error ε")
    return figure


def designs(_scheme: str) -> Figure:
    """Leverage over the unit square under three designs, with their support."""
    side = 61
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, side)] * 2, indexing="ij"), axis=-1)
    actions = kl.Points(grid.reshape(-1, 2))
    proxy = kl.pivoted_cholesky(kl.Gaussian(0.3), actions, rank=21)
    makers = {
        "uniform": kl.uniform_design,
        "barycentric spanner": kl.barycentric_spanner,
        "G-optimal": kl.john_design,
    }
    figure = Figure(figsize=(7.6, 3.1), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for axis, (name, make) in zip(axes, makers.items(), strict=True):
        design = make(proxy)
        white = kl.whiten(proxy, design).features
        relative = np.sum(white**2, axis=1).reshape(side, side) / design.rank
        image = axis.imshow(
            relative.T,
            origin="lower",
            extent=(0, 1, 0, 1),
            cmap="cividis",
            norm=mpl.colors.Normalize(0, 2),
            interpolation="nearest",
        )
        if len(design.support) < len(actions):
            at, weights = actions.X[design.support], design.weights[design.support]
            dots = {"color": "white", "edgecolor": "black", "linewidth": 0.7}
            axis.scatter(*at.T, s=900 * weights, clip_on=False, zorder=3, **dots)
        axis.set_title(f"{name}\nlargest: {design.max_leverage / design.rank:.2f} $m$")
        axis.set_xticks([0, 0.5, 1], ["0", "½", "1"])
        axis.set_yticks([0, 0.5, 1], ["0", "½", "1"])
    bar = figure.colorbar(image, ax=axes, extend="max", shrink=0.85, pad=0.02)
    bar.set_label("leverage / $m$")
    return figure


def sampling(scheme: str) -> Figure:
    """Densities exp(x'Bx + b'x) on the disc, and exact draws from them."""
    panels = {
        "hard case": (np.diag([5.0, 2.0]), np.array([0.0, 3.0])),
        "interior mode": (np.diag([-8.0, -30.0]), np.array([6.0, 12.0])),
        "repeated top eigenvalue": (np.diag([5.0, 5.0]), np.array([1.2, 0.6])),
    }
    side = np.linspace(-1, 1, 161)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    figure = Figure(figsize=(7.6, 2.9), layout="constrained")
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for axis, (name, (B, b)) in zip(axes, panels.items(), strict=True):
        logs = np.einsum("ij,jk,ik->i", grid, B, grid) + grid @ b
        inside = np.sum(grid**2, axis=1) <= 1
        density = np.where(inside, np.exp(logs - logs[inside].max()), np.nan)
        axis.imshow(
            density.reshape(len(side), -1),
            origin="lower",
            extent=(-1, 1, -1, 1),
            cmap="cividis",
            norm=mpl.colors.Normalize(0, 1),
            interpolation="nearest",
        )
        draws = quadratic_ball(B, b, 150, rng=0)
        axis.plot(
            *draws.T,
            "o",
            markersize=2.6,
            color="white",
            markeredgecolor="#24292f",
            markeredgewidth=0.3,
        )
        axis.set(title=name, xlabel="$x_1$", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
        axis.set(xlim=(-1.04, 1.04), ylim=(-1.04, 1.04), aspect="equal")
        axis.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color=INK[scheme], linewidth=0.8))
    axes[0].set_ylabel("$x_2$")
    return figure


@functools.cache
def _games() -> dict[str, dict[str, tuple[Any, Any]]]:
    """Mean regret and guarantee of three learners in two games of quadratics on the ball."""
    actions, kernel, rounds, runs = kl.Ball(3), kl.Quadratic(), ROUNDS, 2
    makers = {
        "exponential weights": kl.ExpWeights,
        "regularised leader": kl.FollowTheRegularizedLeader,
        "conditional gradient": kl.ConditionalGradient,
    }
    games = {
        "a fixed mean plus noise": functools.partial(kl.games.Biased, kernel, actions),
        "a new loss every 100 rounds": functools.partial(
            kl.games.Switching, kernel, actions, length=100
        ),
    }
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for title, game in games.items():
        found[title] = {}
        for name, make in makers.items():
            settings = {"kernel": kernel, "horizon": rounds, "loss_norm": 1.0}
            traces = [
                kl.play(make(actions, rng=seed, **settings), game(rng=seed), rounds)
                for seed in range(runs)
            ]
            regret = np.mean([trace.regret for trace in traces], axis=0)
            found[title][name] = regret, traces[0].bound
    return found


def learners(scheme: str) -> Figure:
    """Regret of three learners on quadratics on the ball, with their guarantees."""
    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (title, curves) in zip(axes, _games().items(), strict=True):
        for (name, (regret, bound)), (colour, dash) in zip(
            curves.items(), LINES[scheme], strict=False
        ):
            t = np.unique(np.geomspace(10, len(regret), 200).astype(int))
            axis.loglog(t, regret[t - 1], dash, color=colour, linewidth=1.8, label=name)
            axis.loglog(t, bound[t - 1], dash, color=colour, linewidth=0.8)
        axis.set(title=title, xlabel="round", xlim=(10, ROUNDS), ylim=(1, 2e3))
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("regret (thick), guarantee (thin)")
    axes[0].legend(frameon=False, loc="lower right")
    return figure


FIGURES = {"proxies": proxies, "designs": designs, "sampling": sampling, "learners": learners}


def main(folder: Path) -> list[Path]:
    """Draw every figure in both schemes; the paths written."""
    written = []
    for scheme, ink in INK.items():
        style = {
            "axes.edgecolor": ink,
            "axes.labelcolor": ink,
            "axes.titlesize": 10,
            "font.size": 9,
            "grid.color": ink,
            "legend.labelcolor": ink,
            "svg.hashsalt": "koloss",
            "text.color": ink,
            "xtick.color": ink,
            "ytick.color": ink,
        }
        with mpl.rc_context(style):
            for name, draw in FIGURES.items():
                path = folder / f"{name}-{scheme}.svg"
                figure = draw(scheme)
                for axis in figure.axes:
                    axis.patch.set_alpha(0)
                figure.savefig(path, transparent=True, metadata={"Date": None})
                written.append(path)
    return written


if __name__ == "__main__":
    for path in main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent):
        print(path)
