"""Bandwidths, range and norm of losses from a log of actions and losses, before a game begins.

The losses are modelled as y = c + f(x) + noise with an unknown constant c and a Gaussian process f of covariance
s² K_σ; the noise has variance g s². For given bandwidths σ and noise share g the best c and s² have closed forms,

    c = 1'A⁻¹y / 1'A⁻¹1,   s² = r'A⁻¹r / N   with A = K_σ + g I and r = y - c,

so the likelihood is left with log σ and log g: -2 log likelihood = N log s² + log det A + const, and its slope in θ is
tr(A⁻¹ ∂A) - α'∂A α / s² with α = A⁻¹r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import Array, as_float, as_points, as_vector, one_of, to_numpy
from koloss.kernels.stationary import Gaussian, Matern, Stationary

FITTED_ROWS = 400
"""Rows of a longer log that the likelihood is computed on: the same ones for every log of that length."""

NORM_ROWS = 2000
"""Rows of a longer log that the norm is computed on."""

FEWEST_ROWS = 5
"""Different actions that a log must have."""

# Bounds of a bandwidth in units of the column's range, and of the noise's share of the variance of f.
_LENGTHS, _NOISE = (0.01, 10.0), (1e-6, 1e2)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scales:
    """What `estimate_scales` found in a log, all in the units of the log."""

    kernel: Stationary  # with one length for each coordinate
    loss_range: tuple[float, float]  # lowest and highest loss of the log, widened
    loss_norm: float  # of the fitted function in the kernel's space, up to a constant
    noise: float  # standard deviation of what the function leaves unexplained
    rows: int  # of the log

    @property
    def bandwidths(self) -> tuple[float, ...]:
        """One for each coordinate; ten times a column's range, the largest tried, where it seems not to matter."""
        return self.kernel.length_scales(len(self.kernel._lengths or ()))

    def __repr__(self) -> str:
        lengths = ", ".join(f"{length:.4g}" for length in self.bandwidths)
        low, high = self.loss_range
        return (
            f"<Scales from {self.rows} rows: bandwidths ({lengths}), loss_range ({low:.4g}, {high:.4g}), "
            f"loss_norm {self.loss_norm:.4g}, noise {self.noise:.4g}>"
        )


def estimate_scales(
    X: Array,
    y: Array,
    kernel: Literal["gaussian", "matern"] = "gaussian",
    *,
    smoothness: float = 2.5,
    margin: float = 0.1,
) -> Scales:
    """Bandwidths, range and norm of losses, from a log of actions and their losses, before the game.

    The bandwidths maximise the marginal likelihood of a Gaussian process with a constant and independent noise; the
    norm is that of its posterior mean, up to a constant; the range is that of the log, widened by `margin` of its
    length on either side.

    **What a learner then guarantees** holds for the class of losses that these numbers define, whatever they came from. It
    does not say that the losses to come are in that class, and it does not hold for a bandwidth that is fitted
    again during the game. The norm is that of a smoothed function, so the true one may be larger: take twice the
    number, or ask `guarantee(loss_norm=...)` what others would cost.

    Parameters
    ----------
    X : array of shape (N, d)
        Actions of the log. Beyond 400 rows the likelihood sees 400 of them, the same ones each time.
    y : array of shape (N,)
        Their losses.
    kernel : str
        "gaussian" or "matern".
    smoothness : float
        Of the Matérn kernel, above 0.5.
    margin : float
        By which share of its length the range is widened on either side.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform([64, 1], [4096, 200], (150, 2))  # cache size, threads
    >>> bump = 20 * np.exp(-(((X[:, 0] - 2000) / 900) ** 2))
    >>> y = 30 + bump + 10 * np.sin(X[:, 1] / 40) + rng.normal(0, 1, 150)
    >>> scales = kl.estimate_scales(X, y)
    >>> 700 < scales.bandwidths[0] < 1500, 55 < scales.bandwidths[1] < 120, 0.8 < scales.noise < 1.3
    (True, True, True)
    """
    X = to_numpy(as_points("X", X)).astype(float)
    y = to_numpy(as_vector("y", y, length=len(X))).astype(float)
    one_of("kernel", kernel, ("gaussian", "matern"))
    margin = as_float("margin", margin, minimum=0.0)
    if kernel == "matern" and as_float("smoothness", smoothness) <= 0.5:
        raise ValueError(f"`smoothness` must be above 0.5 to be fitted, got {smoothness}")

    def family(lengths: Any) -> Stationary:
        return Gaussian(lengths) if kernel == "gaussian" else Matern(smoothness, lengths)

    sides = _check_log(X, y)
    low, high = float(y.min()), float(y.max())
    room, spread = margin * (high - low), float(y.std())
    U, v = (X - X.min(axis=0)) / sides, (y - y.mean()) / spread  # without units
    lengths, share = _fit(family(1.0), *_thinned(U, v, FITTED_ROWS))
    mean_norm, noise = posterior(family(lengths), share, *_thinned(U, v, NORM_ROWS))
    return Scales(
        kernel=family(lengths * sides),
        loss_range=(low - room, high + room),
        loss_norm=spread * mean_norm,
        noise=spread * noise,
        rows=len(y),
    )


def _check_log(X: Floats, y: Floats) -> Floats:
    """Ranges of the columns of a log from which something can be learned."""
    different = len(np.unique(X, axis=0))
    if different < FEWEST_ROWS:
        raise ValueError(f"`X` must have at least {FEWEST_ROWS} different rows, got {different}")
    with np.errstate(over="ignore", invalid="ignore"):
        sides: Floats = np.ptp(X, axis=0)
        sizes = [*sides, np.ptp(y), y.std()]
    for i in np.flatnonzero(sides == 0):
        raise ValueError(f"`X` must vary in every column, got {X[0, i]:.6g} throughout column {i}")
    if np.ptp(y) == 0:
        raise ValueError(f"`y` must not be constant, got {y[0]:.6g} throughout")
    if not np.all(np.isfinite(sizes)):
        raise ValueError(f"`X` and `y` must have finite ranges, got {max(sizes)}")
    return sides


def _thinned(X: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """At most so many rows, drawn once and for all by a fixed seed."""
    if len(y) <= most:
        return X, y
    rows = np.random.default_rng(0).choice(len(y), size=most, replace=False)
    return X[rows], y[rows]


def _fit(unit: Stationary, X: Floats, y: Floats) -> tuple[Floats, float]:
    """Bandwidths and the noise's share that maximise the likelihood, from the best three of fixed starts."""
    from scipy.optimize import minimize

    d = X.shape[1]
    squares = np.stack([(x[:, None] - x[None, :]) ** 2 for x in X.T])
    box = [tuple(np.log(_LENGTHS))] * d + [tuple(np.log(_NOISE))]
    starts = [
        np.log([*[min(length * math.sqrt(d), _LENGTHS[1])] * d, share])
        for length in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
        for share in (1e-3, 0.03, 0.5)
    ]
    order = np.argsort(
        [deviance(s, unit, squares, y, slope=False)[0] for s in starts], kind="stable"
    )
    ends = [
        minimize(
            deviance, starts[i], (unit, squares, y), method="L-BFGS-B", jac=True, bounds=box,
            options={"maxiter": 100},
        )
        for i in order[:3]
    ]  # fmt: skip
    best = min(ends, key=lambda end: float(end.fun)).x
    return np.exp(best[:d]), float(np.exp(best[d]))


def deviance(
    theta: Floats, unit: Stationary, squares: Floats, y: Floats, slope: bool = True
) -> tuple[float, Floats]:
    """-2 log likelihood per row, up to a constant, and its slope in the logarithms of bandwidths and noise share."""
    d, n = len(squares), len(y)
    inverse, share = np.exp(-2 * theta[:d]), float(np.exp(theta[d]))
    distances = np.tensordot(inverse, squares, axes=1)
    K = unit._profile(distances.copy(), np)
    L = np.linalg.cholesky(K + share * np.eye(n))
    residual, alpha = _solve(L, y)
    variance = max(float(residual @ alpha) / n, 1e-300)
    value = math.log(variance) + 2 * float(np.log(np.diag(L)).sum()) / n
    if not slope:
        return value, theta
    # tr(A⁻¹ ∂A) - α'∂A α / s² = Σ_ij G_ij ∂A_ij with G = A⁻¹ - αα'/s²
    from scipy.linalg.lapack import dpotri

    lower, _ = dpotri(L, lower=1)
    G = np.tril(lower) + np.tril(lower, -1).T - np.outer(alpha, alpha) / variance
    pull = G * unit._slope(distances, np)
    lengths = [-2 * w * float(np.sum(pull * s)) for w, s in zip(inverse, squares, strict=True)]
    return value, np.asarray([*lengths, share * float(np.trace(G))]) / n


def _solve(L: Floats, y: Floats) -> tuple[Floats, Floats]:
    """r = y - c and A⁻¹r of the fitted constant c, A = LL'."""
    from scipy.linalg import cho_solve

    both = cho_solve((L, True), np.column_stack([y, np.ones_like(y)]), check_finite=False)
    c = both[:, 0].sum() / both[:, 1].sum()
    return y - c, both[:, 0] - c * both[:, 1]


def posterior(kernel: Stationary, share: float, X: Floats, y: Floats) -> tuple[float, float]:
    """Norm of the posterior mean, √(α'Kα), and the standard deviation of the noise, √(g s²)."""
    K = kernel(X)
    residual, alpha = _solve(np.linalg.cholesky(K + share * np.eye(len(y))), y)
    variance = max(float(residual @ alpha) / len(y), 0.0)
    return math.sqrt(max(float(alpha @ K @ alpha), 0.0)), math.sqrt(share * variance)
