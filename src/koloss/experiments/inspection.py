"""A kernel on a set of actions, looked at from all sides: spectrum, proxy, designs, and what they cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss._version import __version__
from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design
from koloss.designs.ridge import FACTORS, Certificates, Dimensions
from koloss.errors import RankUnreachable, ToleranceUnreachable
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
    dimensions: tuple[
        EffectiveDimension, ...
    ]  # at penalties from sup K(a, a) down, each a fourth of the one before
    seconds: dict[
        str, float
    ]  # of each step: "proxy", "spectrum", "design", "spanner", "uniform", "dimensions"

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
        return {
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
            "sample_size": {"samples": _finite(self.sample_size), "statement": self.statement()},
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

    def _fit(self, decay: Decay) -> dict[str, Any]:
        return {
            "constant": _finite(decay.constant),
            **_some(decay, "rate", "slack", "valid"),
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
    >>> from koloss.experiments.inspection import inspect
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
    decay = timed(
        "spectrum", eigendecay, kernel, actions, samples=draws, rng=np.random.default_rng(0)
    )
    designs = (
        timed("design", john_design, proxy),
        timed("spanner", barycentric_spanner, proxy),
        timed("uniform", uniform_design, proxy),
    )
    dimensions = timed("dimensions", _dimensions, proxy, method)
    if tolerance is None:
        tolerance = DEFAULT_TOLERANCE * decay.bound if rank is None else proxy.epsilon
    certified = _certified(proxy, method)
    return Inspection(proxy, decay, certified, tolerance, designs, dimensions, seconds)


def _certified(proxy: Proxy, method: str) -> Any:
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


def _dimensions(proxy: Proxy, method: str) -> tuple[EffectiveDimension, ...]:
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


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
