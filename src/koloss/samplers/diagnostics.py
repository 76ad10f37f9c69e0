"""How far a Markov chain Monte Carlo run can be trusted: rank-normalised split R-hat and bulk effective size.

Both follow Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16(2).

The reference implementation is `arviz_stats`, with which the tests compare where it is installed. It is not a
dependency: the samplers use these two numbers alone, a page of code, and importing it takes more than twice as long as
NumPy and `scipy.linalg` together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.core.arrays import as_array, to_numpy

SHORTEST = 4
"""Draws of a chain below which neither number is defined: each half needs two."""


def r_hat(draws: Any) -> Any:
    """Rank-normalised split R-hat: near 1 where the chains agree with each other and with themselves.

    Draws are of shape (chains, draws) or (chains, draws, d), at least four per chain; R-hat is a number, or an array of
    shape (d,). It is at most about 1.01 in a run that can be trusted; infinite where the chains stand still at different
    points; 1 where all draws are equal, which says nothing about mixing (`effective_size` is 1 then).

    Notes
    -----
    Chains are cut in halves and all draws replaced by the normal scores of their ranks,
    z = Φ⁻¹((rank - 3/8) / (S + 1/4)). With W the mean of the chains' variances and B/n the variance of
    their means, R-hat = √((n-1)/n + (B/n)/W). The larger of the values for the draws and for their absolute
    deviations from the median is returned: the first sees chains that differ in location, the second in scale.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).standard_normal((4, 1000))
    >>> bool(r_hat(draws) < 1.01), bool(r_hat(draws + [[0], [0], [0], [3]]) > 1.3)
    (True, True)
    """
    return _by_coordinate(draws, _r_hat)


def effective_size(draws: Any) -> Any:
    """Bulk effective sample size: so many independent draws would place the bulk as precisely.

    Shapes are as for `r_hat`. At most S log₁₀ S for S draws (antithetic chains may exceed S); 1 where all are equal.

    Notes
    -----
    S / τ with τ = 1 + 2 Σ_t ρ_t of the rank-normalised halves of the chains. The autocorrelation ρ_t combines
    the chains (it is 1 - (W - mean autocovariance) / var⁺) and its sum is cut by Geyer's initial monotone
    sequence. For an autoregressive chain with coefficient φ, τ = (1 + φ) / (1 - φ).

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).standard_normal((4, 1000))
    >>> bool(3000 < effective_size(draws) < 5000)
    True
    """
    return _by_coordinate(draws, _effective_size)


def _by_coordinate(draws: Any, statistic: Any) -> Any:
    given = draws.ndim if hasattr(draws, "ndim") else np.ndim(draws)
    if given not in (2, 3):
        raise ValueError(f"`draws` must be 2-D or 3-D, got ndim={given}")
    x = to_numpy(as_array("draws", draws, ndim=given)).astype(np.float64)
    if x.shape[0] == 0 or x.shape[1] < SHORTEST:
        raise ValueError(
            f"`draws` must have a chain or more of {SHORTEST} draws or more, got shape {x.shape}"
        )
    if given == 2:
        return statistic(x)
    return np.array([statistic(x[:, :, j]) for j in range(x.shape[2])])


def _r_hat(x: Any) -> float:
    halves = _split(x)
    folded = np.abs(halves - np.median(halves))
    return max(_plain_r_hat(_normal_scores(halves)), _plain_r_hat(_normal_scores(folded)))


def _split(x: Any) -> Any:
    """Both halves of every chain; the middle draw of an odd number is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: Any) -> Any:
    from scipy.special import ndtri
    from scipy.stats import rankdata

    return ndtri((rankdata(x, method="average").reshape(x.shape) - 3 / 8) / (x.size + 1 / 4))


def _plain_r_hat(z: Any) -> float:
    n = z.shape[1]
    if np.ptp(z) == 0:
        return 1.0
    # A chain that stands still has variance zero, not the rounding of its mean.
    within = float(np.mean(np.where(np.ptp(z, axis=1) == 0, 0.0, np.var(z, axis=1, ddof=1))))
    between = float(np.var(z.mean(axis=1), ddof=1))
    return math.sqrt((n - 1) / n + between / within) if within > 0 else math.inf


def _effective_size(x: Any) -> float:
    if np.ptp(x) == 0:
        return 1.0
    z = _normal_scores(_split(x))
    chains, n = z.shape
    covariance = _autocovariance(z).mean(axis=0)
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + np.var(z.mean(axis=1), ddof=1)  # var⁺
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    # Geyer: sums of neighbouring pairs are positive and decreasing for a reversible chain; as ArviZ and Stan,
    # the first term after the cut is kept once where it is positive. (Below ten draws ArviZ stops at lag zero and
    # reports its upper limit, whatever the draws; here the first pair always counts.)
    pairs = max((n - 1) // 2, 1)
    sums = rho[0 : 2 * pairs : 2] + rho[1 : 2 * pairs : 2]
    negative = np.flatnonzero(sums < 0)
    keep = int(negative[0]) if len(negative) else max(pairs - 1, 1)
    monotone = np.minimum.accumulate(sums[: max(keep, 1)])
    extra = rho[2 * keep] if keep and 2 * keep < n else 0.0
    tau = -1 + 2 * float(np.sum(monotone)) + max(float(extra), 0.0)
    size = chains * n
    return float(size / max(tau, 1 / math.log10(size)))


def _autocovariance(z: Any) -> Any:
    from scipy.fft import irfft, next_fast_len, rfft

    n = z.shape[1]
    length = next_fast_len(2 * n)
    spectrum = rfft(z - z.mean(axis=1, keepdims=True), n=length, axis=1)
    return irfft(np.abs(spectrum) ** 2, n=length, axis=1)[:, :n] / n
