"""How fast the eigenvalues of a kernel decay, and what the paper's theorems make of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points
from koloss.core.arrays import Array, as_count, as_float, as_int, one_of, to_numpy
from koloss.errors import ToleranceUnreachable
from koloss.kernels.base import KernelLike
from koloss.proxy.base import allowance, discretise, not_certified
from koloss.proxy.kernel_pca import as_measure, draw, eigenspace

Profile = Literal["polynomial", "exponential"]


@dataclass(frozen=True)
class Decay:
    """Upper envelope of eigenvalues: μ_j ≤ C j^(-β) (polynomial) or μ_j ≤ C e^(-βj) (exponential)."""

    profile: Profile
    constant: float  # C
    rate: float  # β
    slack: float  # mean of log(envelope) - log(μ_j): zero for a perfect fit

    def __iter__(self) -> Iterator[float]:
        """C and β, so that `C, beta = decay` reads like the definition."""
        return iter((self.constant, self.rate))

    @property
    def valid(self) -> bool:
        """Whether β is what the paper's definition asks for: above 1, or above 0."""
        return self.rate > (1 if self.profile == "polynomial" else 0)

    def envelope(self, j: Any) -> Any:
        """The bound on μ_j, for j = 1, 2, ..."""
        j = np.asarray(j, dtype=float)
        decay = j**-self.rate if self.profile == "polynomial" else np.exp(-self.rate * j)
        return self.constant * decay

    def effective_dimension(self, epsilon: float, *, eigenfunction_bound: float) -> int:
        """Rank m that makes the truncated kernel an ε/4-approximation (the paper's proposition on m).

        Polynomial: m ≥ (4Cℬ²/((β-1)ε))^(1/(β-1)); exponential: m ≥ log(4Cℬ²/(βε))/β.
        """
        epsilon = as_float("epsilon", epsilon, positive=True)
        B2 = as_float("eigenfunction_bound", eigenfunction_bound, positive=True) ** 2
        C, beta = self.constant, self.rate
        if not self.valid:
            rule = "rate must exceed its minimum for a dimension"
            raise ValueError(f"the {self.profile} {rule}, got {beta:.6g}")
        if self.profile == "polynomial":
            exponent = math.log(4 * C * B2 / ((beta - 1) * epsilon)) / (beta - 1)
            if exponent > 700:
                rule = f"must be larger for a dimension below e^700 at rate {beta:.6g}"
                raise ValueError(f"`epsilon` {rule}, got {epsilon:.6g}")
            return max(1, math.ceil(math.exp(exponent)))
        return max(1, math.ceil(math.log(4 * C * B2 / (beta * epsilon)) / beta))


@dataclass(frozen=True, eq=False)
class Eigendecay:
    """Eigenvalues of a kernel under a measure, and both decay profiles fitted to them.

    The profiles are envelopes of all the eigenvalues listed: none of these lies above, two lie on the line.
    """

    eigenvalues: NDArray[np.float64]  # Mercer eigenvalues above rounding, largest first
    polynomial: Decay
    exponential: Decay
    remainder: float  # Σ of the eigenvalues that are not listed, from E K(a, a); zero where that is rounding
    eigenfunction_bound: float  # ℬ: largest |φ_j(a)| seen, of eigenfunctions resolved well
    bound: float  # 𝒢²: largest K(a, a)
    size: int  # points or samples that carry the measure
    sampled: bool  # whether the points are draws from the measure, not the measure itself

    @property
    def profile(self) -> Profile:
        """The profile that fits better: the one with less room between envelope and eigenvalues."""
        return "polynomial" if self.polynomial.slack <= self.exponential.slack else "exponential"

    @property
    def best(self) -> Decay:
        """The envelope that fits better."""
        return self.polynomial if self.profile == "polynomial" else self.exponential

    def effective_dimension(self, epsilon: float, *, profile: Profile | None = None) -> int:
        """Rank m(ε) by the paper's proposition, from the better envelope or the one named."""
        profiles = ("polynomial", "exponential")
        chosen = self.profile if profile is None else one_of("profile", profile, profiles)
        decay = self.polynomial if chosen == "polynomial" else self.exponential
        return decay.effective_dimension(epsilon, eigenfunction_bound=self.eigenfunction_bound)

    def measured_dimension(self, epsilon: float) -> int:
        """Smallest m with Σ_{j>m} μ_j ≤ ε/(4ℬ²), from the eigenvalues themselves (Lemma 1).

        `ToleranceUnreachable` is raised where those not listed alone are too many, with the smallest ε they allow.
        """
        epsilon = as_float("epsilon", epsilon, positive=True)
        tails = self.remainder + np.append(np.cumsum(self.eigenvalues[::-1])[::-1], 0.0)
        good = np.flatnonzero(4 * self.eigenfunction_bound**2 * tails <= epsilon)
        if len(good) == 0:
            least = 4 * self.eigenfunction_bound**2 * self.remainder
            message = f"`epsilon` must be at least {least:.6g} for the {len(self.eigenvalues)} eigenvalues listed, got {epsilon:.6g}"
            raise ToleranceUnreachable(message, epsilon=least)
        return int(good[0])

    def sample_size(self, rank: int, epsilon: float, *, alpha: float = 3.0) -> float:
        """Number p of samples that the paper's theorem asks for, to hold with probability 1 - e^(-α).

        p = 16 𝒢⁶ (1 + √(α/2))² / (δ_m² min(ε, δ_m²)) with the eigengap δ_m = (μ_m - μ_{m+1})/2. It is
        astronomically large as soon as the gap is small; see `describe`. Behind the last eigenvalue listed
        the gap is the least there can be: μ_{m+1} is then at most the `remainder`.
        """
        rank = as_int("rank", rank, minimum=1)
        if rank > len(self.eigenvalues):
            raise ValueError(f"`rank` must be at most {len(self.eigenvalues)}, got {rank}")
        epsilon = as_float("epsilon", epsilon, positive=True)
        alpha = as_float("alpha", alpha, positive=True)
        following = self.eigenvalues[rank] if rank < len(self.eigenvalues) else self.remainder
        gap = float(self.eigenvalues[rank - 1] - following) / 2
        if gap <= 0:
            return math.inf
        size = 16 * self.bound**3 * (1 + math.sqrt(alpha / 2)) ** 2
        return size / (gap**2 * min(epsilon, gap**2))

    def describe(self, rank: int, epsilon: float) -> str:
        """A plain statement of the sample size, and of what to do instead."""
        p = self.sample_size(rank, epsilon)
        held = "draws" if self.sampled else "points"
        return (
            f"For rank {rank} and epsilon {epsilon:.3g} the theorem asks for p = {p:.2g} samples; "
            f"{self.size} {held} carry the measure here. With samples=None kernel_pca uses a finite set "
            f"whole, which is exact, and every proxy certifies its error afterwards."
        )


def eigendecay(
    kernel: KernelLike,
    actions: ActionSet,
    *,
    samples: int | None = None,
    measure: Array | None = None,
    count: int | None = None,
    spacing: float | Points | None = None,
    rng: Any = None,
) -> Eigendecay:
    """Eigenvalues of the kernel under a measure on the actions, with both decay profiles fitted.

    The fits are upper envelopes: among all lines above log μ_j (against log j, or j) the one with the least
    mean distance. They bound every eigenvalue listed; those below rounding (or beyond `count`) are not seen.

    Parameters
    ----------
    count : int, optional
        Number of leading eigenvalues; by default all, or 512 on more than 2,048 points.
    kernel, samples, measure, spacing, rng
        As for `kernel_pca`.

    Examples
    --------
    >>> import koloss as kl
    >>> line = kl.Box([0], [1]).net(0.005)
    >>> kl.eigendecay(kl.Gaussian(0.2), line).profile
    'exponential'
    >>> kl.eigendecay(kl.Matern(0.5, 0.2), line).profile
    'polynomial'
    """
    points = discretise(kernel, actions, spacing)
    measure = as_measure(measure, actions, points)
    if samples is not None:
        samples = as_count("samples", samples, minimum=2)
        points, measure = draw(actions, points, measure, samples, rng), None
    if count is None and len(points) > 2048:
        count = 512
    count = None if count is None else min(as_int("count", count, minimum=2), len(points))
    spectrum = eigenspace(kernel, points, measure, count)
    if spectrum.negative < 0:
        raise not_certified(spectrum.negative)
    mu = to_numpy(spectrum.eigenvalues).astype(float)
    phi = np.abs(to_numpy(spectrum.features)) / np.sqrt(mu)
    diagonal = to_numpy(kernel.diag(points.X)).astype(float)
    weights = None if measure is None else to_numpy(measure)
    if weights is not None:
        phi = phi[weights > 0]
    total = float(np.average(diagonal, weights=weights))
    remainder = total - float(mu.sum())
    return Eigendecay(
        eigenvalues=mu,
        polynomial=_fit("polynomial", mu),
        exponential=_fit("exponential", mu),
        remainder=remainder if remainder > allowance(len(mu), points.X) * total else 0.0,
        eigenfunction_bound=float(phi[:, mu > 1e-8 * mu[0]].max()),
        bound=float(diagonal.max()),
        size=len(points),
        sampled=samples is not None,
    )


def _fit(profile: Profile, mu: NDArray[np.float64]) -> Decay:
    """The line above log μ_j with the least mean distance from it.

    A line above all points has the least mean height exactly if it is the lowest at the mean abscissa: the
    edge of the upper convex hull there.
    """
    j = np.arange(1, len(mu) + 1)
    t, y = (np.log(j) if profile == "polynomial" else j.astype(float)), np.log(mu)
    if len(mu) == 1:  # one eigenvalue: any decay fits; take the mildest that is valid
        rate = 2.0 if profile == "polynomial" else 1.0
        return Decay(profile, float(mu[0] * (1 if profile == "polynomial" else math.e)), rate, 0.0)
    hull: list[int] = []
    for k in range(len(t)):
        while len(hull) > 1 and _left_of(t, y, hull[-2], hull[-1], k):
            hull.pop()
        hull.append(k)
    right = int(np.searchsorted(t[hull], t.mean()))
    a, b = hull[right - 1], hull[right]
    rate = float((y[a] - y[b]) / (t[b] - t[a]))
    # Raised by a rounding error, so that no eigenvalue is above.
    room = 1e-12 * float(np.max(np.abs(y)) + abs(rate) * t[-1])
    height = float(np.max(y + rate * t)) + max(room, 1e-15)
    return Decay(profile, math.exp(height), rate, float(np.mean(height - rate * t - y)))


def _left_of(t: NDArray[np.float64], y: NDArray[np.float64], a: int, b: int, c: int) -> bool:
    """Whether b lies on or below the segment from a to c."""
    return bool((y[b] - y[a]) * (t[c] - t[a]) <= (y[c] - y[a]) * (t[b] - t[a]))
