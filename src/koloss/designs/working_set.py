"""Designs on a working set that carries the weights: a few hundred actions of many.

The working set is solved, one matrix product gives the leverage of every action, the worst offenders join, actions without weight
leave, and so on until no leverage exceeds the cap. Early rounds are solved roughly: their answer changes with the next offenders.
The last is solved to `INNER_TOLERANCE`, whatever is asked for: weights then stand out from zeros, and few are kept. Where more
than `MANY` actions carry the weights that would cost the cube of their number; these are solved to what is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dgeqp3, dpotrf, dpotrs, dtrtrs

from koloss.core.arrays import Array, matching, namespace, take, to_numpy
from koloss.core.threads import single
from koloss.designs.base import leverages
from koloss.proxy.pivoted_cholesky import greedy

INNER_TOLERANCE = 1e-8
"""Gap to which the working set is solved in the end."""

ROUGH = 1e-3
"""Gap to which it is solved before; in the first round a hundred times that."""

LENIENCE = 30
"""By so much the weight of an action may be smaller than its slack before it leaves after a rough solution."""

NEAR = 0.25
"""Gap below which the working set has nearly all that it needs, and is solved exactly."""

MANY = 500
"""Actions of a working set from which on single exchanges are quicker than Newton's steps."""

ALIKE = 0.9
"""Cosine of two actions that are taken for neighbours."""

Floats = NDArray[Any]
Indices = NDArray[Any]


def candidates(
    Z: Array,
    cap: float,
    penalty: Floats | None,
    tolerance: float,
    max_rounds: int,
    start: tuple[Indices, Floats] | None = None,
) -> Iterator[tuple[Indices, Floats]]:
    """Weights that maximise log det(Σ_a w_a φ(a)φ(a)' + penalty) - cap Σ_a w_a, as the actions that carry them and their values.

    At the maximum no leverage exceeds `cap`. Fewest actions first: only those that carry weight; then all of the working set.
    Without a penalty the weights add up to one where the cap is the rank. A `start` has the actions and weights of an earlier
    answer.
    """
    xp, zero = namespace(Z), 0.0 if penalty is None else penalty
    working = _first_actions(Z) if start is None else start[0]
    w = np.full(len(working), 1 / len(working)) if start is None else start[1]
    gap, dropped, near = math.inf, math.inf, None
    for left in reversed(range(max_rounds)):
        rows = to_numpy(take(Z, working))
        rough = penalty is None and gap > NEAR
        with single:
            if _is_for_exchanges(len(working), penalty, tolerance, gap):
                w, slacks = exchange(rows, w, max(tolerance / 4, min(gap, 1.0) / 8)), None
            else:
                inner = INNER_TOLERANCE if not rough else ROUGH if gap < math.inf else 100 * ROUGH
                w, slacks, _ = interior_point(rows, cap, penalty, inner, near)
            sigma = rows.T @ (w[:, None] * rows) + zero
        g = leverages(Z, matching(sigma, Z))
        gap = float(xp.max(g)) / cap - 1
        g = to_numpy(g)
        if gap <= tolerance / 2 or left == 0:
            for keep, fewest in _answers(rows, w, slacks, cap, penalty, rough):
                yield working[keep], fewest
            if not rough:
                return
        keep = np.full(len(w), True)
        if gap <= dropped / 2:
            # Actions that carry no weight leave, but only if the gap has halved since the last time: so
            # this ends.
            if (
                slacks is None
            ):  # by exchanges, which leave zeros: those far below the cap will hardly be needed
                carriers = (w > 0) | (g[working] >= cap * (1 - math.sqrt(min(gap, 1.0))))
            else:
                carriers = (LENIENCE if rough else 1) * w * cap > cap - g[working]
            if slacks is None or not rough or _carry_alone(rows, w, carriers):
                keep, dropped = carriers, gap
        joined = np.union1d(working[keep], _offenders(Z, g, (1 + tolerance / 4) * cap))
        carried = np.zeros(len(joined))
        carried[np.searchsorted(joined, working[keep])] = w[keep]
        working, w = joined, carried
        if penalty is None:  # as far inside as the last answer was off
            w = _without_traces(w, rows.shape[1])
            inside = min(max(gap, ROUGH), 100 * ROUGH)
            near = np.maximum(w, inside / len(w)), np.maximum(cap - g[working], inside * cap)


def _is_for_exchanges(size: int, penalty: Floats | None, tolerance: float, gap: float) -> bool:
    """Whether a working set is solved by single exchanges: it is large, and not much is asked of it in the end or for now."""
    return penalty is None and size > MANY and (tolerance >= ROUGH / 2 or gap > ROUGH)


def _answers(
    rows: Floats,
    w: Floats,
    slacks: Floats | None,
    cap: float,
    penalty: Floats | None,
    rough: bool,
) -> Iterator[tuple[Indices, Floats]]:
    """The weights on those rows only that carry some, and on all; reduced to Carathéodory's number."""
    if slacks is None:  # by exchanges, which leave zeros
        yield caratheodory(rows, w)
        return
    with single:
        if rough:
            w, slacks, _ = interior_point(rows, cap, penalty, INNER_TOLERANCE, (w, slacks))
    # An action carries weight where complementarity leaves it larger than the slack. Nobody does where the penalty alone keeps all
    # leverages below the cap.
    everyone, carriers = np.full(len(w), True), w * cap > slacks
    for keep in (carriers, everyone) if carriers.any() else (everyone,):
        kept, solved = rows[keep], w[keep]
        if penalty is None:
            solved = solved / solved.sum()
        with single:
            if not keep.all() and not (penalty is None and _is_exact(rows, kept, solved)):
                near = None if penalty is not None else (solved, slacks[keep])
                solved = interior_point(kept, cap, penalty, INNER_TOLERANCE, near).w
            some, fewest = caratheodory(kept, solved)
        if penalty is not None:
            fewest = fewest * (solved.sum() / fewest.sum())
        yield np.flatnonzero(keep)[some], fewest


def _carry_alone(rows: Floats, w: Floats, carriers: NDArray[np.bool_]) -> bool:
    """Whether some rows with their weights keep the leverages of all moderate: of a rough solution that is not certain."""
    with single:
        return largest_leverage(rows, rows[carriers], w[carriers]) <= 4 * int(rows.shape[1])


def _is_exact(rows: Floats, kept: Floats, w: Floats) -> bool:
    """Whether the others' weights were zeros but for rounding: leverages of all rows stay within ten inner tolerances."""
    return largest_leverage(rows, kept, w) <= (1 + 10 * INNER_TOLERANCE) * int(rows.shape[1])


def _without_traces(w: Floats, m: int) -> Floats:
    """Weights without those that together change no leverage by more than a hundredth."""
    heavy: Floats = np.where(w * len(w) * m < 0.01, 0.0, w)
    heavy /= heavy.sum()
    return heavy


def _first_actions(Z: Array) -> Indices:
    """Actions that span the space (greedy: the longest, then what is longest at a right angle to it) and those of largest norm."""
    m = Z.shape[1]
    norms = to_numpy(namespace(Z).sum(Z * Z, axis=1))
    largest = np.argsort(-norms, kind="stable")
    for some in (largest[: 20 * m], largest):  # those of large norm span it nearly always
        with single:
            triangle, pivots, *_ = dgeqp3(np.asfortranarray(to_numpy(take(Z, some)).T))
        if len(some) >= m and abs(triangle[m - 1, m - 1]) > ROUGH * abs(triangle[0, 0]):
            break
    return np.union1d(some[pivots[:m] - 1], largest[: 2 * m])


def _offenders(Z: Array, g: Floats, limit: float) -> Indices:
    """Up to 4m actions with leverage above the limit, the worst first, but not all from one place.

    The geometry of the problem is that of the matrices φφ', ⟨φφ', ψψ'⟩ = (φ'ψ)². Where the worst are far apart in it, they are taken;
    where they are close, as neighbours on a net are, the choice is greedy among many more.
    """
    m = Z.shape[1]
    worst = np.flatnonzero(g > limit)
    if len(worst) <= 4 * m:
        return worst
    worst = _largest(worst, g, 2000)
    rows = to_numpy(take(Z, worst))
    rows = rows * np.sqrt(g[worst] / np.sum(rows**2, axis=1))[:, None]
    with single:
        first = rows[: 4 * m]
        cosines = np.abs(first @ first.T) / np.sqrt(np.outer(g[worst[: 4 * m]], g[worst[: 4 * m]]))
        alike = np.count_nonzero(np.tril(cosines, -1).max(axis=1) > ALIKE)
        if alike <= m / 2:
            return worst[: 4 * m]
        factor = greedy(lambda i: (rows @ rows[i]) ** 2, g[worst] ** 2, most=4 * m)
    return worst[factor.pivots]


def _largest(index: Indices, g: Floats, most: int) -> Indices:
    """At most so many of the actions, those of largest leverage, in order."""
    if len(index) > most:
        index = index[np.argpartition(-g[index], most)[:most]]
    return index[np.argsort(-g[index], kind="stable")]


def caratheodory(rows: Floats, w: Floats) -> tuple[Indices, Floats]:
    """At most m(m+1)/2 + 1 of the rows, reweighted, with the same covariance and total weight.

    While there are more, their moments (φφ', 1) are linearly dependent: move along a dependency until a
    weight is zero.
    """
    m = rows.shape[1]
    most = m * (m + 1) // 2 + 1
    keep = np.flatnonzero(w > 0)
    rows, w = rows[keep], w[keep]
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
    left = np.flatnonzero(w > 0)
    return keep[left], w[left] / w[left].sum()


# Two solvers. `interior_point` is exact, and a step of it costs the cube of the number of actions. `exchange` costs that number
# times the rank in each step, and takes many more of them: it is for many actions, and ends at a moderate gap.


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
