"""A kernel on a set of actions, looked at from all sides: spectrum, proxy, designs, and what they cost.

As numbers, as a figure, as tables for the terminal, and as files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss._version import __version__
from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.core.terminal import console, section, wrote
from koloss.core.text import BLUE, VERMILION, Table, printable
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design
from koloss.designs.ridge import FACTORS, Certificates, Dimensions
from koloss.errors import RankUnreachable, ToleranceUnreachable
from koloss.experiments.results import finite, write_json
from koloss.kernels import Kernel
from koloss.proxy import (
    Decay,
    Eigendecay,
    Proxy,
    eigendecay,
    exact_features,
    kernel_pca,
    mercer_features,
    pivoted_cholesky,
)
from koloss.proxy.base import DEFAULT_TOLERANCE
from koloss.report.figures import GREY, INK, save, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

METHODS: dict[str, Callable[..., Proxy]] = {
    "pivoted-cholesky": pivoted_cholesky, "kernel-pca": kernel_pca, "mercer": mercer_features, "exact": exact_features
}  # fmt: skip

SPECTRUM_POINTS = 2048
"""Actions up to which the spectrum is that of all of them; beyond, that of so many draws."""

CURVE_BYTES = 2**30
"""Most memory spent on showing the certified error beyond the rank chosen."""

PENALTIES = 12
"""Penalties at most for which dimensions are certified: K(a, a) times 1, 1/4, 1/16, ..."""

REFRESH = 2e8
"""Actions times the square of the features with which they are, at most."""


@dataclass(frozen=True)
class EffectiveDimension:
    """What a penalty makes of the number of features: certified, for every law on the actions (theory F1)."""

    penalty: float  # λ
    dimension: float  # at least d*(λ) = max_p tr Σ(Σ + λ)⁻¹
    spread: float  # at least e*(λ) = max_p tr λΣ(Σ + λ)⁻²


@dataclass(frozen=True, eq=False)
class Inspection:
    """Spectrum, proxy and designs of a kernel on a finite set of actions."""

    proxy: Proxy
    decay: Eigendecay  # the spectrum, and both decay profiles fitted to it
    certified: Any  # certified error of rank 0, 1, ..., where it can be had also beyond the rank of the proxy
    epsilon: float  # error for which the paper's numbers are given
    designs: tuple[Design, ...]  # G-optimal, a barycentric spanner, uniform
    dimensions: tuple[EffectiveDimension, ...]  # from the penalty sup K(a, a) down, by fourths
    seconds: dict[str, float]  # of each step, by its name

    @property
    def kernel(self) -> Any:
        """The kernel looked at."""
        return self.proxy.kernel

    @property
    def actions(self) -> Points:
        """The actions looked at."""
        return self.proxy.points

    @property
    def design(self) -> Design:
        """The G-optimal design."""
        return self.designs[0]

    def effective_dimension(self, decay: Decay) -> int | None:
        """Rank that the paper's proposition asks for; None where the rate is too small for it."""
        bound = self.decay.eigenfunction_bound
        try:
            return decay.effective_dimension(self.epsilon, eigenfunction_bound=bound)
        except ValueError:
            return None

    @property
    def measured_dimension(self) -> int | None:
        """The same from the eigenvalues alone; None where those below rounding would decide."""
        try:
            return self.decay.measured_dimension(self.epsilon)
        except ToleranceUnreachable:
            return None

    @property
    def sample_size(self) -> float | None:
        """Samples that the paper's theorem asks for; None where the spectrum ends before the rank."""
        if self.proxy.rank > len(self.decay.eigenvalues):
            return None
        return self.decay.sample_size(self.proxy.rank, self.epsilon)

    def statement(self) -> str:
        """The sample size in plain words."""
        if self.sample_size is not None:
            return self.decay.describe(self.proxy.rank, self.epsilon)
        return (
            f"The theorem's sample size for rank {self.proxy.rank} is not known: only "
            f"{len(self.decay.eigenvalues)} eigenvalues stand out from rounding."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain data, ready for JSON (where infinity becomes None)."""
        decay, design, actions = self.decay, self.design, self.actions
        support = design.support
        plain = {
            "version": __version__,
            "kernel": self.kernel.to_dict(),
            "actions": {"count": len(actions), **_some(actions, "dimension", "covering_radius")},
            "proxy": {
                **_some(self.proxy, "method", "rank", "epsilon"),
                "certified": [float(e) for e in self.certified],
            },
            "spectrum": {
                "eigenvalues": [float(mu) for mu in decay.eigenvalues],
                **_some(decay, "size", "sampled", "bound", "eigenfunction_bound"),
                "better": decay.profile,
                "polynomial": self._fit(decay.polynomial),
                "exponential": self._fit(decay.exponential),
                "epsilon": self.epsilon,
                "measured_dimension": self.measured_dimension,
            },
            "dimensions": [_some(d, "penalty", "dimension", "spread") for d in self.dimensions],
            "sample_size": {"samples": self.sample_size, "statement": self.statement()},
            "designs": [
                {"method": d.method, "support": len(d.support), **_some(d, "rank", "max_leverage", "gap")}
                for d in self.designs
            ],
            "design": {
                "support": support.tolist(),
                "weights": to_numpy(design.weights)[support].tolist(),
                "actions": to_numpy(actions.X)[support].tolist(),
            },
            "seconds": dict(self.seconds),
        }  # fmt: skip
        return finite(plain)  # type: ignore[no-any-return]

    def _fit(self, decay: Decay) -> dict[str, Any]:
        return {
            **_some(decay, "constant", "rate", "slack", "valid"),
            "effective_dimension": self.effective_dimension(decay),
        }


def inspect(
    kernel: Kernel, actions: Points, *, method: str = "pivoted-cholesky",
    rank: int | None = None, tolerance: float | None = None,
) -> Inspection:  # fmt: skip
    """Spectrum, proxy and designs of a kernel on a finite set of actions.

    Parameters
    ----------
    kernel : Kernel
    actions : Points
    method : "pivoted-cholesky", "kernel-pca", "mercer" or "exact"
        How the proxy is built.
    rank, tolerance : optional
        As for the proxies: at most one of them, and none with "exact". The paper's numbers are given for the tolerance; with
        a rank, for the error of the proxy; otherwise for a thousandth of the largest K(a, a).

    Examples
    --------
    >>> import koloss as kl
    >>> from koloss.report import inspect
    >>> square = kl.Box([0, 0], [1, 1]).net(0.1)
    >>> inspection = inspect(kl.Gaussian(0.5), square, tolerance=1e-3)
    >>> inspection.proxy.epsilon <= 1e-3, inspection.design.gap <= 1e-3, inspection.decay.profile
    (True, True, 'exponential')
    """
    if method not in METHODS:
        raise ValueError(f"`method` must be one of {', '.join(METHODS)}, got {method!r}")
    given = {"rank": rank, "tolerance": tolerance}
    size = {name: value for name, value in given.items() if value is not None}
    if method == "exact" and size:
        name, value = next(iter(size.items()))
        raise ValueError(f"`{name}` must be left out for exact features, got {value}")
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = call(*arguments, **options)
        seconds[name] = time.perf_counter() - start
        return result

    proxy = timed("proxy", METHODS[method], kernel, actions, **size)
    draws = None if len(actions) <= SPECTRUM_POINTS else SPECTRUM_POINTS
    rng = np.random.default_rng(0)
    decay = timed("spectrum", eigendecay, kernel, actions, samples=draws, rng=rng)
    designs = (
        timed("design", john_design, proxy),
        timed("spanner", barycentric_spanner, proxy),
        timed("uniform", uniform_design, proxy),
    )
    dimensions = timed("dimensions", _effective, proxy, method)
    if tolerance is None:
        tolerance = DEFAULT_TOLERANCE * decay.bound if rank is None else proxy.epsilon
    certified = _curve(proxy, method)
    return Inspection(proxy, decay, certified, tolerance, designs, dimensions, seconds)


def _curve(proxy: Proxy, method: str) -> Any:
    """Certified error of every rank, as far as twice that of the proxy where there is so much to see."""
    rank = min(2 * proxy.rank, len(proxy.points))
    if method == "exact" or rank * len(proxy.points) * 8 > CURVE_BYTES:
        return proxy.residual_curve
    return _with_rank(METHODS[method], proxy, rank).residual_curve


def _with_rank(construct: Callable[..., Proxy], proxy: Proxy, rank: int) -> Proxy:
    """A proxy of the same kernel with so many features, or as many as rounding leaves."""
    try:
        return construct(proxy.kernel, proxy.actions, rank=rank)
    except RankUnreachable as error:
        return construct(proxy.kernel, proxy.actions, rank=error.rank)


def _effective(proxy: Proxy, method: str) -> tuple[EffectiveDimension, ...]:
    """d* and e* of all features, from sup K(a, a) down to where those that are left out would matter."""
    N = len(proxy.points)
    if method != "exact":
        rank = min(N, max(proxy.rank, math.isqrt(int(REFRESH / N))))
        proxy = _with_rank(pivoted_cholesky, proxy, rank)
    residuals, features = np.asarray(proxy.point_curve, dtype=float), to_numpy(proxy.features)
    top, left_out = float(residuals[0]), float(residuals[-1])
    known = Dimensions(np.empty((N, 0)), features, residuals, unit=top)
    law, found = None, []
    for j in range(PENALTIES):
        law = known.improve(top * 4.0**-j, law)
    for j in range(PENALTIES):
        penalty = top * 4.0**-j
        certified = _of_all(known.certificates, penalty, left_out)
        if left_out / penalty > certified.dimension / 10:
            break
        found.append(certified)
    return tuple(found)


def _of_all(known: Certificates, penalty: float, left_out: float) -> EffectiveDimension:
    """With the features that are left out, whose kernel adds at most sup K_⊥(a, a)/λ to d* (theory F4)."""

    def dimension(at: float) -> float:
        return float(known.excess(at)) + left_out / at

    # Lemma F1.4 (3): e*(λ) ≤ c d*(cλ) for c ≥ ½, and d*(cλ)/(4(1 - c)) below.
    spreads = [
        (c if c >= 0.5 else 0.25 / (1 - c)) * dimension(c * penalty) for c in FACTORS.tolist()
    ]
    d = dimension(penalty)
    return EffectiveDimension(penalty, d, min(*spreads, d, known.residual / penalty))


def _some(thing: object, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def write(inspection: Inspection, directory: Path | str) -> list[Path]:
    """Write inspect.png, inspect.svg and inspect.json into a directory, made where it is missing."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = save(inspection_figure(inspection), directory, "inspect")
    return [*paths, write_json(directory / "inspect.json", inspection.to_dict(), indent=2)]


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
    for title, body, bold in _sections(inspection):
        screen.print(section(title, body if isinstance(body, Table) else Text(body), bold))
    wrote(screen, paths)


def _sections(inspection: Inspection) -> Iterator[tuple[str, Table | str, list[int]]]:
    """What is printed of an inspection: titles, tables or a statement, and the rows that are in bold."""
    decay, rank, certified = inspection.decay, inspection.proxy.rank, inspection.certified
    envelopes = decay.exponential, decay.polynomial
    measure = f"{decay.size:,} uniform draws" if decay.sampled else "uniform on the actions"
    title = f"Spectrum: {len(decay.eigenvalues)} eigenvalues above rounding; {measure}"
    rows = [
        [f"{j}", *(f"{x:.3g}" for x in (decay.eigenvalues[j - 1], *(fit.envelope(j) for fit in envelopes)))]
        for j in milestones(len(decay.eigenvalues))
    ]  # fmt: skip
    head = ["index", "eigenvalue", "exponential envelope", "polynomial envelope"]
    yield title, Table(head, rows, left=()), []

    rows = [
        [formula, f"{fit.constant:.3g}", f"{fit.rate:.3g}", f"{fit.slack:.2f}",
         _count(inspection.effective_dimension(fit)), "fits better" if fit is decay.best else ""]
        for formula, fit in zip(("C exp(-beta j)", "C j^-beta"), envelopes, strict=True)
    ]  # fmt: skip
    rows.append(["eigenvalues alone", "", "", "", _count(inspection.measured_dimension), ""])
    table = Table(["envelope", "C", "beta", "mean slack", "dimension", ""], rows, left=(0, 5))
    title = f"Decay, and the effective dimension at error {inspection.epsilon:.3g}"
    yield title, table, [k for k, row in enumerate(rows) if row[-1]]

    ranks = sorted({*milestones(len(certified) - 1), rank})
    rows = [[f"{m:,}", f"{certified[m]:.3g}", "chosen" if m == rank else ""] for m in ranks]
    table = Table(["rank", "certified error", ""], rows, left=(2,))
    yield "Certified error of the leading features", table, [ranks.index(rank)]

    rows = [
        [f"4^-{j}", f"{d.penalty:.3g}", f"{d.dimension:.2f}", f"{d.spread:.2f}"]
        for j, d in enumerate(inspection.dimensions)
    ]
    table = Table(["penalty / max K", "penalty", "dimension d*", "spread e*"], rows, left=())
    yield "Certified dimensions with a penalty, for every law on the actions", table, []

    yield "Samples the theorem asks for", inspection.statement(), []

    rows = [
        [d.method, f"{len(d.support):,}", f"{d.max_leverage:,.2f}", _times_rank(d)]
        for d in inspection.designs
    ]
    table = Table(["design", "support", "max leverage", "times the rank"], rows)
    yield f"Designs: a max leverage of {inspection.design.rank} is the least there is", table, [0]

    row = [f"{value:.3f}" for value in inspection.seconds.values()]
    yield "Seconds", Table(list(inspection.seconds), [row], left=()), []


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
