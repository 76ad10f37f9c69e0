"""Barycentric spanners: m actions of which every feature vector is a bounded combination."""

from __future__ import annotations

import numpy as np

from koloss.core.arrays import Array, as_float, matching, namespace, take, to_numpy
from koloss.core.threads import threads_for
from koloss.designs.base import Design, as_features, certify, orthonormal
from koloss.errors import DesignNotConverged
from koloss.proxy.pivoted_cholesky import greedy


def barycentric_spanner(features: Array, *, approximation: float = 2.0) -> Design:
    """Uniform distribution on a C-approximate barycentric spanner (Awerbuch and Kleinberg).

    Every feature vector is a combination of the spanner's m with coefficients in [-C, C], so the largest
    leverage is at most C²m²; the G-optimal design has m. Starting from a greedy choice (pivoted Cholesky),
    an action that needs a coefficient beyond C takes the place of the spanner's action it belongs to, which
    multiplies the determinant by more than C; so the number of exchanges is O(m log_C m).

    Parameters
    ----------
    features : array of shape (N, m), or Proxy
        Features without full rank are reduced to the space they span.
    approximation : float
        C ≥ 1; with 1 the determinant is a local maximum. That of the design is the largest coefficient in
        fact needed.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> design = kl.barycentric_spanner(
    ...     np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]), approximation=1.0
    ... )
    >>> design.support.tolist(), design.approximation
    ([0, 2], 1.0)
    """
    features = as_features(features)
    C = as_float("approximation", approximation, minimum=1.0)
    with threads_for(features.shape[0] * features.shape[1] ** 2):
        return _spanner(features, C)


def _spanner(features: Array, C: float) -> Design:
    Z, _ = orthonormal(features)
    xp, m = namespace(Z), Z.shape[1]
    members = list(greedy(lambda i: Z @ Z[i, :], xp.sum(Z * Z, axis=1), most=m).pivots)
    coefficients = Z @ xp.linalg.inv(take(Z, members))
    eye = xp.eye(m, dtype=Z.dtype, device=Z.device)
    for _ in range(1000 + 100 * m):
        size = xp.abs(coefficients)
        new, old = divmod(int(xp.argmax(size)), m)
        largest = float(size[new, old])
        if largest <= C * (1 + 1e-9):
            break
        # One exchange: all coefficients change by a rank-one matrix.
        members[old] = new
        row = (coefficients[new, :] - eye[old, :]) / coefficients[new, old]
        coefficients = coefficients - coefficients[:, old, None] * row[None, :]
    else:
        rest = f"coefficients up to {largest:.6g} remain"
        message = f"`approximation` of {C:.6g} must be larger: {rest}"
        raise DesignNotConverged(message, gap=largest / C - 1)
    fresh = Z @ xp.linalg.inv(take(Z, members))
    weights = np.zeros(Z.shape[0])
    weights[members] = 1 / m
    needed = float(np.max(np.abs(to_numpy(fresh))))
    return certify(Z, matching(weights, Z), "barycentric spanner", features, needed)
