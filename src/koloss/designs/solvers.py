"""Two ways to maximise log det(Σ_a w_a φ(a)φ(a)' + penalty) - cap Σ_a w_a over the weights w ≥ 0 of a working set.

`interior_point` is exact, and a step of it costs the cube of the number of actions. `exchange` costs that number times the rank in
each step, and takes many more of them: it is for working sets of many actions, and ends at a moderate gap.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

Floats = NDArray[Any]


class Weights(NamedTuple):
    """Weights of the rows, the slacks cap - g that belong to them, and the gap: by how much a leverage exceeds the cap."""

    w: Floats
    slacks: Floats
    gap: float


def interior_point(
    rows: Floats,
    cap: float,
    penalty: Floats | None,
    tolerance: float,
    start: tuple[Floats, Floats] | None = None,
) -> Weights:
    """Weights to a gap of `tolerance`, or as far as rounding allows; D-optimal ones without a penalty, summing to one.

    Solves g(w) + z = cap, w z = 0, w, z ≥ 0 where g_i = φ_i'A(w)⁻¹φ_i, along the path w z = μ → 0. Newton's
    equation for the weights is (G∘G + diag(z/w)) dw = g - cap + μ/w with G = φ'A⁻¹φ. Each factor serves twice, as Mehrotra has
    it: for the step to μ = 0, which says how far μ may fall, and for the step that is taken, with a correction for dw dz.
    """
    n, m = rows.shape
    columns, diagonal = np.asfortranarray(rows.T), slice(None, None, n + 1)
    w, z = (np.full(n, m / cap / n), np.full(n, cap)) if start is None else start
    best = Weights(w, z, math.inf)
    for _ in range(100):
        A = (columns * w) @ rows
        root, _ = dpotrf(A if penalty is None else A + penalty, lower=1)
        white, _ = dtrtrs(root, columns, lower=1)
        G = dsyrk(1.0, white, trans=1, lower=1).T  # the upper triangle, all that is needed
        entries = G.reshape(-1)
        g = entries[diagonal].copy()
        if penalty is None:  # weights that sum to one have leverages g times their present sum
            gap = float(g.max() * w.sum()) / m - 1
        else:
            gap = max(float(g.max()) / cap - 1, 1 - float(w @ g) / (cap * float(w.sum())))
        if gap < best.gap:
            best = Weights(w / w.sum() if penalty is None else w, z, gap)
        if gap <= tolerance:
            break
        np.square(entries, out=entries)
        ratio = z / w
        entries[diagonal] += ratio
        factor, failed = dpotrf(G.T, lower=1, clean=0, overwrite_a=1)
        if failed:  # rounding has the last word
            break
        dw, _ = dpotrs(factor, g - cap, lower=1)
        dz = -z - ratio * dw
        mu = float(w @ z)
        left = float((w + min(1.0, _room(w, dw)) * dw) @ (z + min(1.0, _room(z, dz)) * dz))
        aim = ((left / mu) ** 3 * mu / n - dw * dz) / w
        dw, _ = dpotrs(factor, g - cap + aim, lower=1)
        dz = aim - z - ratio * dw
        w = w + min(1.0, 0.99 * _room(w, dw)) * dw
        z = z + min(1.0, 0.99 * _room(z, dz)) * dz
    return best


def _room(x: Floats, dx: Floats) -> float:
    """Largest step that keeps the positive x + step·dx non-negative."""
    fastest = float((dx / x).min())
    return -1 / fastest if fastest < 0 else math.inf


def exchange(rows: Floats, w: Floats, tolerance: float, steps: int = 20_000) -> Floats:
    """D-optimal weights by exact steps towards one action or away from it, from given weights, to a gap of `tolerance`.

    Fedorov's and Wynn's steps, with Atwood's away: towards the action of largest leverage or, where it is farther from m, away
    from the one of smallest leverage among those with weight, which may lose all of it. Each changes Σ by a rank-one matrix, and
    the leverages with it; what rounding adds up to is for the caller to see, who computes them afresh.
    """
    m = rows.shape[1]
    root, _ = dpotrf(rows.T @ (w[:, None] * rows), lower=1)
    white = dtrtrs(root, np.asfortranarray(rows.T), lower=1)[0].T
    g = np.einsum("ij,ij->i", white, white)
    carried = np.where(w > 0, g, math.inf)  # leverages of the actions with weight
    w, inverse = w.copy(), np.eye(m)  # of Σ, in coordinates where it is the identity at first
    for _ in range(steps):
        towards, away = int(g.argmax()), int(carried.argmin())
        if g[towards] <= (1 + tolerance) * m:
            break
        j = towards if g[towards] - m >= m - g[away] else away
        # The step λ maximises log det((1 - λ)Σ + λφφ'), where it leaves the weight non-negative.
        most = -w[j] / (1 - w[j])
        step = max((g[j] / m - 1) / (g[j] - 1), most) if g[j] > 1 else most
        direction = inverse @ white[j]
        share = step / (1 - step + step * g[j])
        change = white @ direction
        change *= change
        change *= share
        g -= change
        inverse -= np.multiply.outer(share * direction, direction)
        g /= 1 - step
        inverse /= 1 - step
        w *= 1 - step
        w[j] = w[j] + step if step > most else 0.0
        carried = np.where(w > 0, g, math.inf)
    shares: Floats = w / w.sum()
    return shares


def largest_leverage(rows: Floats, kept: Floats, w: Floats) -> float:
    """Largest leverage of the rows where the kept ones have the weights w; infinite where these do not span the space."""
    root, failed = dpotrf(kept.T @ (w[:, None] * kept), lower=1)
    if failed:
        return math.inf
    white, _ = dtrtrs(root, np.asfortranarray(rows.T), lower=1)
    return float(np.einsum("ij,ij->j", white, white).max())
