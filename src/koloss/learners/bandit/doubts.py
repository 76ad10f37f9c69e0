"""What is allowed, and hardly meant: classes that cannot fill the range, bandwidths that fit nothing, rounds that take for ever."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from koloss.actions import Contexts, Points, SpacePoints
from koloss.core.arrays import take, to_numpy
from koloss.errors import KolossWarning
from koloss.guarantees.bandit import BanditProblem, with_rank
from koloss.kernels import Mixed, White
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import quick_bound, spans
from koloss.proxy.exact import Span

LOOKED_AT = 64
"""Actions whose neighbours are looked for."""

UNRELATED = 1.9
"""Squared distance of Φ of two actions, in units of 𝒢², from which on they have hardly anything to do with each other."""

AT_A_TIME = 16_384
"""Actions that these are compared with at a time."""

ON_A_LINE = 17
"""Points on which it is seen how far losses can move along a coordinate, and bend."""

LEAST = 0.1
"""Of the range, by which a loss should be able to."""

DEAR = 4e9
"""Multiplications of a refresh, of Σ or of the bonuses, from which on a learner says so: about a second."""


def doubts(
    settings: BanditSettings, points: Points, size: float, distance: float, norm: float
) -> None:
    """Warn of a class and a kernel that cannot have been meant (theory F2).

    `size` is 𝒢 = max √K(a, a), `distance` how far Φ of the actions are apart at most, up to a factor of 2.
    """
    if len(points) < 2 or distance == 0 or settings.loss_class == "any":
        return
    low, high, _ = settings.interval(size)
    reach = 2 * norm * (distance**2 if settings.loss_class == "rank-one" else distance)
    stated = settings.loss_range is not None and settings.loss_norm is not None
    scaled = any(hasattr(settings.kernel, one) for one in ("bandwidth", "lengthscale", "lengths"))
    if stated and reach < high - low:
        _warn(
            "`loss_norm` is too small for the range: no loss of the class fills it",
            f"got {norm:.6g}, with which a loss varies by at most {reach:.3g} of {high - low:.6g}",
        )
    elif scaled and distance < size / 4:
        _warn(
            "`kernel` hardly tells the actions apart: its bandwidth is larger than the whole set",
            f"got {settings.kernel!r}, for which no two actions differ by more than {2 * distance / size:.3g} of its size",
        )
    elif (
        scaled
        and len(points) > 2
        and all(
            squares.min() > UNRELATED * size**2 for squares in _distances(settings.kernel, points)
        )
    ):  # neighbours are soon found where there are any
        _warn(
            "`kernel` makes unrelated arms of the actions: its bandwidth is smaller than every distance",
            f"got {settings.kernel!r}; are they in the same units? One bandwidth per coordinate is allowed",
        )
    else:
        doubt_coordinates(settings, points, norm)


def doubt_coordinates(
    settings: BanditSettings, points: Points, norm: float, *, contexts: Contexts | None = None
) -> None:
    """Warn where a norm is assumed, and with it no loss moves along some coordinate, or none bends.

    Between two points of a line a loss ⟨w, Φ⟩ of norm W differs by at most W‖Φ(x) - Φ(y)‖; its second difference at x, y and the
    middle m is at most W‖Φ(x) - 2Φ(m) + Φ(y)‖. With `contexts` the points are pairs, and it is looked at actions in one context.
    """
    kernel = settings.kernel
    if settings.loss_range is None or settings.loss_class == "any" or spans(settings):
        return
    if isinstance(getattr(kernel, "actions", kernel), (Mixed, White)):
        return
    if settings.loss_class == "rank-one":  # Σ|c_i| ≤ W is a norm of at most W𝒢
        norm *= math.sqrt(float(np.max(to_numpy(kernel.diag(points.X)))))
    (low, high, _), (lower, upper) = settings.interval(1.0), points.bounds()
    middle, names = (lower + upper) / 2, [f"coordinate {i}" for i in range(points.dimension)]
    if contexts is not None:
        split = contexts.dimension
        names = [*names[:split], *names[:-split]]
        middle[:split] = lower[:split] = upper[:split] = contexts.X[0]
    elif isinstance(settings.actions, SpacePoints):
        names = list(map(repr, settings.actions.space.names))
    for i in np.flatnonzero(upper > lower).tolist():
        X = np.tile(middle, (ON_A_LINE, 1))
        X[:, i] = np.linspace(lower[i], upper[i], ON_A_LINE)
        moves, bends = (norm * size / (high - low) for size in _variation(to_numpy(kernel(X, X))))
        several = len(np.unique(to_numpy(points.X[:, i]))) > 2
        if moves >= LEAST and (bends >= LEAST or bends == 0 or not several):
            continue  # where nothing bends the kernel is linear, as it was chosen to be
        what, most = ("move", moves) if moves < LEAST else ("bend", bends)
        _warn(
            f"no loss with the norm that is assumed, {norm:.4g}, can {what} along {names[i]} by more than {most:.2g} of the range",
            "state a larger `loss_norm`, a shorter bandwidth, or other units for it if losses depend on it",
        )
        return


def _variation(gram: Any) -> tuple[float, float]:
    """Largest ‖Φ(x) - Φ(y)‖ and ‖Φ(x) - 2Φ(m) + Φ(y)‖ for points at equal distances on a line, from their Gram matrix.

    What may be rounding alone is zero.
    """
    K, d = gram, np.diagonal(gram)
    rounding = 64 * np.finfo(np.float64).eps * float(np.abs(K).max())
    j, k = np.triu_indices(len(K), 1)
    moves = d[j] + d[k] - 2 * K[j, k]
    even = (j + k) % 2 == 0
    j, k = j[even], k[even]
    m = (j + k) // 2
    bends = d[j] + 4 * d[m] + d[k] - 4 * K[j, m] - 4 * K[m, k] + 2 * K[j, k]
    squares = (float(moves.max()), float(bends.max()))
    most, bent = (math.sqrt(one) if one > rounding else 0.0 for one in squares)
    return most, bent


def nearest(kernel: Any, points: Points) -> float:
    """The kernel of an action and the nearest one that differs from it, where K(a, a) = 1: the median over some actions."""
    distinct = Points(np.unique(to_numpy(points.X), axis=0))
    least = [squares.min(axis=1) for squares in _distances(kernel, distinct)]
    return 1 - float(np.median(np.min(least, axis=0))) / 2


def _distances(kernel: Any, points: Points) -> Iterator[Any]:
    """‖Φ(a) - Φ(b)‖² of some actions a, in rows, and all others b, in columns, so many at a time; of a and itself infinity."""
    N = len(points)
    rows = np.unique(np.linspace(0, N - 1, min(N, LOOKED_AT)).astype(int))
    looked_at = take(points.X, rows)
    own = to_numpy(kernel.diag(looked_at))[:, None]
    for start in range(0, N, AT_A_TIME):
        others = points.X[start : start + AT_A_TIME, :]
        squares = own + to_numpy(kernel.diag(others)) - 2 * to_numpy(kernel(looked_at, others))
        here = (rows >= start) & (rows < start + AT_A_TIME)
        squares[here, rows[here] - start] = np.inf
        yield squares


def _warn(what: str, more: str) -> None:
    warnings.warn(f"{what}, {more}", KolossWarning, stacklevel=6)


def cost(points: int, features: int) -> float:
    """Multiplications of one refresh: a covariance, its factor, and as much again for the bonuses."""
    return 4.0 * points * features**2


def short_cost(points: int, features: int) -> str:
    """The same in a word."""
    power = min(4, int(math.log10(cost(points, features))) // 3)
    return f"{cost(points, features) / 1000**power:.3g} {('', 'k', 'M', 'G', 'T')[power]}flop"


def warn_of_lost(kernel: Any, span: Span) -> None:
    """Warn of features that rounding makes alike: losses that are the difference of two such are not seen."""
    _warn(
        f"{span.lost} of the {span.features} features of `kernel` cannot be told apart from others in double precision here",
        f"got {kernel!r}; have features of a similar size that vanish within the set, or fewer of them",
    )


def warn_of_span(problem: BanditProblem, bound: float, width: float) -> None:
    """Warn where all features are too many to be learned in time, though two would not be: a norm would choose some."""
    trivial = problem.rounds * width
    if problem.log_prior > 0 and quick_bound(with_rank(problem, 2, 0.0)) < trivial <= bound:
        _warn(
            f"nothing is promised: the {problem.rank} features of the kernel are too many for {problem.rounds:,} rounds",
            "state `loss_norm`, a bound on the norm of losses, and only as many are learned as such losses need",
        )


def warn_of_size(features: str) -> None:
    """Warn of features that are too many to be kept or learned, so that a norm had to be assumed."""
    _warn(
        f"the features of `kernel` {features}, and fewer are used, for losses of a bounded norm",
        "state that norm as `loss_norm`; its default is twice the least with which a loss can fill the range",
    )


def warn_of_cost(points: int, features: int) -> None:
    """Warn of rounds that take long."""
    if cost(points, features) > DEAR:
        _warn(
            f"a refresh of {points:,} points with {features:,} features takes about {cost(points, features):.2g} multiplications",
            "fewer points (`spacing`), a wider kernel or a smaller `rank` make it faster",
        )
