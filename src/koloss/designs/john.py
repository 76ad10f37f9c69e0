"""The G-optimal design: what John's distribution has to be for the proofs to hold.

The paper explores from John's distribution of conv Φ_m(A) after translating it to its centre. Neither the
bound λ_min ≥ 1/m nor the harmlessness of the translation is true. What the regret bounds need is a
distribution π with max_a φ(a)'Σ(π)⁻¹φ(a) ≤ (1 + τ)m around the *origin*; Kiefer and Wolfowitz: its optimum,
τ = 0, is the D-optimal design, the solution of

    maximise  log det Σ_a w_a φ(a)φ(a)' - m Σ_a w_a   over  w ≥ 0,

that is, the contact points of the smallest ellipsoid around ±φ(A) centred at the origin.

Method. A working set of a few hundred actions carries the weights (`working_set`). On it the problem is solved by a
primal-dual interior-point method, a dozen Newton steps of dense linear algebra, or by single exchanges where it is large;
one matrix product then gives the leverage of every action, the worst offenders join the working set, actions without weight
leave it, and so on until no leverage exceeds (1 + τ)m. Of more than 65,536 actions a coreset is solved like this, and its
design certified on all of them (`coreset`): the features are read about four times, and never copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import Array, as_float, as_int, matching
from koloss.core.linalg import SHARE
from koloss.core.threads import single
from koloss.designs.base import (
    WORTH_SHARING,
    Design,
    Rows,
    as_features,
    certify,
    coordinates,
    orthonormal,
)
from koloss.designs.coreset import coreset_designs
from koloss.designs.working_set import candidates
from koloss.errors import DesignNotConverged

SMALLEST_TOLERANCE = 1e-6

TILT = 1e-6
"""By how much the last action counts less than the first in `earlier_first`."""


def john_design(features: Array, *, tolerance: float = 1e-3, max_rounds: int = 100) -> Design:
    """G-optimal (D-optimal, Kiefer-Wolfowitz) exploration design, on at most m(m+1)/2 + 1 actions.

    Parameters
    ----------
    features : array of shape (N, m), or Proxy
        φ(a) in the rows. Features without full rank are reduced to the space they span.
    tolerance : float
        τ ≥ 10⁻⁶: the design has max leverage at most (1 + τ) times the rank.
    max_rounds : int
        Passes over the features before giving up.

    Raises
    ------
    DesignNotConverged
        With the gap that was reached.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> square = np.array([[1.0, 0.0], [0.0, 1.0], [0.2, 0.2]])
    >>> design = kl.john_design(square)
    >>> design.weights.round(6).tolist(), round(design.max_leverage, 6)
    ([0.5, 0.5, 0.0], 2.0)
    """
    features = as_features(features)
    tolerance = as_float("tolerance", tolerance, minimum=SMALLEST_TOLERANCE)
    max_rounds = as_int("max_rounds", max_rounds, minimum=1)
    N, m = features.shape
    with single if N * m * m < WORTH_SHARING else nullcontext():
        for design in _designs(features, tolerance, max_rounds):
            if design.gap <= tolerance:
                return design
    message = f"`max_rounds` must exceed {max_rounds} for a gap of {tolerance:.3g}, got as far as {design.gap:.3g}"
    raise DesignNotConverged(message, gap=design.gap)


def earlier_first(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features of which later ones are a little shorter: of designs that are equally good, as there are on grids, rounding does not choose.

    A design for them is to be certified on the features themselves.
    """
    N = len(features)
    tilted: NDArray[np.float64] = features * (1 - TILT * np.arange(N) / N)[:, None]
    return tilted


def _designs(features: Array, tolerance: float, max_rounds: int) -> Iterator[Design]:
    """Designs with their certificates, better ones until nobody asks for more."""
    if features.shape[0] > SHARE:
        yield from coreset_designs(Rows(features, coordinates(features)), tolerance, max_rounds)
        return
    Z, _ = orthonormal(features)
    for support, w in candidates(Z, float(Z.shape[1]), None, tolerance, max_rounds):
        weights = np.zeros(features.shape[0])
        weights[support] = w
        yield certify(Z, matching(weights, Z), "G-optimal design", features)
