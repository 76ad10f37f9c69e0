"""The G-optimal design: what John's distribution has to be for the proofs to hold.

The paper explores from John's distribution of conv Φ_m(A) after translating it to its centre. Neither the
bound λ_min ≥ 1/m nor the harmlessness of the translation is true. What the regret bounds need is a
distribution π with max_a φ(a)'Σ(π)⁻¹φ(a) ≤ (1 + τ)m around the *origin*; Kiefer and Wolfowitz: its optimum,
τ = 0, is the D-optimal design, the solution of

    maximise  log det Σ_a w_a φ(a)φ(a)' - m Σ_a w_a   over  w ≥ 0,

that is, the contact points of the smallest ellipsoid around ±φ(A) centred at the origin.

Method. A working set of a few hundred actions carries the weights. On it the problem is solved by a
primal-dual interior-point method (a dozen Newton steps with the matrix (φ'Σ⁻¹φ)² + diag(z/w), all dense linear
algebra); one matrix product then gives the leverage of every action, the worst offenders join the working set,
actions without weight leave it, and so on until no leverage exceeds (1 + τ)m. Each round reads the features once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from koloss._arrays import Array, as_float, as_int, matching, namespace, take, to_numpy
from koloss._threads import threads_for
from koloss.designs.base import Design, as_features, certify, leverages, orthonormal
from koloss.errors import DesignNotConverged
from koloss.proxy.pivoted_cholesky import greedy

SMALLEST_TOLERANCE = 1e-6

INNER_TOLERANCE = 1e-8
"""Gap to which the working set is solved: tight, because weights then stand out from zeros and few are kept."""


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
    with threads_for(features.shape[0] * features.shape[1] ** 2):
        Z, _ = orthonormal(features)
        for support, w in candidates(Z, float(Z.shape[1]), None, tolerance, max_rounds):
            weights = np.zeros(Z.shape[0])
            weights[support] = w
            design = certify(Z, matching(weights, Z), "G-optimal design", features)
            if design.gap <= tolerance:
                return design
    message = f"`max_rounds` must exceed {max_rounds} for a gap of {tolerance:.3g}, got as far as {design.gap:.3g}"
    raise DesignNotConverged(message, gap=design.gap)


def candidates(
    Z: Array, cap: float, penalty: NDArray[Any] | None, tolerance: float, max_rounds: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Weights that maximise log det(Σ_a w_a φ(a)φ(a)' + penalty) - cap Σ_a w_a, as the actions that carry them and their values.

    At the maximum no leverage exceeds `cap`. Fewest actions first: only those that carry weight, solved once more; then all of
    the working set. Without a penalty the weights add up to one where the cap is the rank.
    """
    xp, zero = namespace(Z), 0.0 if penalty is None else penalty
    working, dropped = _first_actions(Z), math.inf
    for left in reversed(range(max_rounds)):
        rows = to_numpy(take(Z, working))
        with threads_for(len(rows) ** 3):
            w = _interior_point(rows, cap, penalty)
        g = leverages(Z, matching(rows.T @ (w[:, None] * rows) + zero, Z))
        gap = float(xp.max(g)) / cap - 1
        g = to_numpy(g)
        if gap <= tolerance / 2 or left == 0:
            break
        if gap <= dropped / 2:
            # Actions that carry no weight leave, but only if the gap has halved since the last time: so
            # this ends.
            working, dropped = working[_active(w, g[working], cap)], gap
        working = np.union1d(working, _offenders(Z, g, (1 + tolerance / 4) * cap))
    carriers = _active(w, g[working], cap)
    everyone = np.full(len(w), True)
    # Nobody carries weight where the penalty alone keeps all leverages below the cap.
    for keep in (carriers, everyone) if carriers.any() else (everyone,):
        with threads_for(len(rows) ** 3):
            solved = w if keep.all() else _interior_point(rows[keep], cap, penalty)
        kept, fewest = _caratheodory(rows[keep], solved)
        if penalty is not None:
            fewest = fewest * (solved.sum() / fewest.sum())
        yield working[keep][kept], fewest


def _first_actions(Z: Array) -> NDArray[Any]:
    """Actions that span the space (greedy, by pivoted Cholesky) and those of largest norm."""
    m = Z.shape[1]
    norms = to_numpy(namespace(Z).sum(Z * Z, axis=1))
    largest = np.argsort(-norms, kind="stable")

    def spanning(rows: NDArray[Any]) -> list[int]:
        # The longest first, and then what is longest at a right angle to them.
        return greedy(lambda i: rows @ rows[i], np.sum(rows**2, axis=1), most=m).pivots

    for candidates in (largest[: 200 * m], largest):  # those of large norm span it nearly always
        chosen = spanning(to_numpy(take(Z, candidates)))
        if len(chosen) == m:
            break
    return np.union1d(candidates[chosen], largest[: 2 * m])


def _interior_point(rows: NDArray[Any], cap: float, penalty: NDArray[Any] | None) -> NDArray[Any]:
    """Weights on the rows that maximise log det(Σ(w) + penalty) - cap Σ w; D-optimal ones without a penalty, summing to one.

    Solves g(w) + z = cap, w z = 0, w, z ≥ 0 where g_i = φ_i'A(w)⁻¹φ_i, along the path w z = μ → 0. Newton's
    equation for the weights is (G∘G + diag(z/w)) dw = g - cap + μ/w with G = φ'A⁻¹φ.
    """
    n, m = rows.shape
    columns, diagonal = np.asfortranarray(rows.T), np.arange(n)
    w, z = np.full(n, m / cap / n), np.full(n, cap)
    best, best_gap = w, math.inf
    sigma = 0.1
    for _ in range(100):
        A = (columns * w) @ rows
        root, _ = dpotrf(A if penalty is None else A + penalty, lower=1)
        white, _ = dtrtrs(root, columns, lower=1)
        G = white.T @ white
        g = G[diagonal, diagonal]
        if penalty is None:  # weights that sum to one have leverages g times their present sum
            gap = g.max() * w.sum() / m - 1
        else:
            gap = max(g.max() / cap - 1, 1 - float(w @ g) / (cap * w.sum()))
        if gap < best_gap:
            best, best_gap = w / w.sum() if penalty is None else w, gap
        if gap <= INNER_TOLERANCE:
            break
        mu = sigma * float(w @ z) / n
        newton = np.square(G, out=G)
        newton[diagonal, diagonal] += z / w
        factor, failed = dpotrf(newton.T, lower=1, overwrite_a=1)
        if failed:  # rounding has the last word
            break
        dw, _ = dpotrs(factor, g - cap + mu / w, lower=1)
        dz = mu / w - z - z / w * dw
        step = min(1.0, 0.99 * _room(w, dw))
        w = w + step * dw
        z = z + min(1.0, 0.99 * _room(z, dz)) * dz
        sigma = 0.1 if step > 0.5 else 0.5
    return best


def _room(x: NDArray[Any], dx: NDArray[Any]) -> float:
    """Largest step that keeps x + step·dx non-negative."""
    falling = dx < 0
    return float(np.min(-x[falling] / dx[falling])) if falling.any() else math.inf


def _offenders(Z: Array, g: NDArray[Any], limit: float) -> NDArray[Any]:
    """Up to 4m actions with leverage above the limit, the worst first, but not all from one place.

    Greedy in the geometry of the problem, that of the matrices φφ': ⟨φφ', ψψ'⟩ = (φ'ψ)².
    """
    worst = np.flatnonzero(g > limit)
    worst = worst[np.argsort(-g[worst], kind="stable")][:2000]
    if len(worst) <= 4 * Z.shape[1]:
        return worst
    rows = to_numpy(take(Z, worst))
    rows = rows * np.sqrt(g[worst] / np.sum(rows**2, axis=1))[:, None]
    return worst[greedy(lambda i: (rows @ rows[i]) ** 2, g[worst] ** 2, most=4 * Z.shape[1]).pivots]


def _active(w: NDArray[Any], g: NDArray[Any], cap: float) -> NDArray[Any]:
    """Which actions carry weight: where complementarity leaves the weight larger than the slack cap - g."""
    return w * cap > cap - g


def _caratheodory(rows: NDArray[Any], w: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """At most m(m+1)/2 + 1 of the rows, reweighted, with the same covariance and total weight.

    While there are more, their moments (φφ', 1) are linearly dependent: move along a dependency until a
    weight is zero.
    """
    m = rows.shape[1]
    most = m * (m + 1) // 2 + 1
    keep = np.arange(len(w))
    if len(w) <= most:
        return keep, w
    i, j = np.triu_indices(m)
    moments = np.column_stack([rows[:, i] * rows[:, j], np.ones(len(w))])
    null = qr(moments)[0][:, most:]
    w = w.copy()
    for _ in range(len(w) - most):
        direction, null = null[:, -1], null[:, :-1]
        if direction.max() <= 0:
            direction = -direction
        positive = np.flatnonzero(direction > 0)
        out = positive[np.argmin(w[positive] / direction[positive])]
        w = np.maximum(w - w[out] / direction[out] * direction, 0.0)
        w[out] = 0
        # The other dependencies must not bring it back.
        null = null - np.outer(direction, null[out] / direction[out])
        null[out] = 0
    keep = np.flatnonzero(w > 0)
    return keep, w[keep] / w[keep].sum()
