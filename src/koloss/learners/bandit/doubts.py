"""What is allowed, and hardly meant: classes that cannot fill the range, bandwidths that fit nothing, rounds that take for ever."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from koloss._arrays import take, to_numpy
from koloss.actions import Points
from koloss.errors import KolossWarning
from koloss.learners.bandit.settings import BanditSettings

LOOKED_AT = 64
"""Actions whose neighbours are looked for."""

UNRELATED = 1.9
"""Squared distance of Φ of two actions, in units of 𝒢², from which on they have hardly anything to do with each other."""

AT_A_TIME = 16_384
"""Actions that these are compared with at a time."""

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
    if settings.loss_range is not None and settings.loss_norm is not None:
        _check_reach(settings, distance, norm)
    if not _has_bandwidth(settings.kernel):
        return
    if distance < size / 4:
        _warn(
            "`kernel` hardly tells the actions apart: its bandwidth is larger than the whole set",
            f"got {settings.kernel!r}, for which no two actions differ by more than {2 * distance / size:.3g} of its size",
        )
    elif len(points) > 2 and are_apart(settings.kernel, points, UNRELATED * size**2):
        _warn(
            "`kernel` makes unrelated arms of the actions: its bandwidth is smaller than every distance",
            f"got {settings.kernel!r}; are they in the same units? One bandwidth per coordinate is allowed",
        )


def _check_reach(settings: BanditSettings, distance: float, norm: float) -> None:
    low, high = (
        (-0.5, 0.5) if isinstance(settings.loss_range, str) else settings.loss_range or (0, 0)
    )
    hull = settings.loss_class == "rank-one"
    reach = 2 * norm * (distance**2 if hull else distance)
    if reach < high - low:
        _warn(
            "`loss_norm` is too small for the range: no loss of the class fills it",
            f"got {norm:.6g}, with which a loss varies by at most {reach:.3g} of {high - low:.6g}",
        )


def _has_bandwidth(kernel: Any) -> bool:
    return any(hasattr(kernel, name) for name in ("bandwidth", "lengthscale", "lengths"))


def are_apart(kernel: Any, points: Points, square: float) -> bool:
    """Whether Φ of some actions is farther than this, squared, from that of every other."""
    N = len(points)
    rows = np.unique(np.linspace(0, N - 1, min(N, LOOKED_AT)).astype(int))
    looked_at = take(points.X, rows)
    own = to_numpy(kernel.diag(looked_at))[:, None]
    for start in range(0, N, AT_A_TIME):  # neighbours are soon found where there are any
        others = points.X[start : start + AT_A_TIME, :]
        squares = own + to_numpy(kernel.diag(others)) - 2 * to_numpy(kernel(looked_at, others))
        here = (rows >= start) & (rows < start + AT_A_TIME)
        squares[here, rows[here] - start] = np.inf
        if squares.min() <= square:
            return False
    return True


def _warn(what: str, more: str) -> None:
    warnings.warn(f"{what}, {more}", KolossWarning, stacklevel=6)


def cost(points: int, features: int) -> float:
    """Multiplications of one refresh: a covariance, its factor, and as much again for the bonuses."""
    return 4.0 * points * features**2


def short_cost(points: int, features: int) -> str:
    """The same in a word."""
    power = min(4, int(math.log10(cost(points, features))) // 3)
    return f"{cost(points, features) / 1000**power:.3g} {('', 'k', 'M', 'G', 'T')[power]}flop"


def warn_of_cost(points: int, features: int) -> None:
    """Warn of rounds that take long."""
    if cost(points, features) > DEAR:
        _warn(
            f"a refresh of {points:,} points with {features:,} features takes about {cost(points, features):.2g} multiplications",
            "fewer points (`spacing`), a wider kernel or a smaller `rank` make it faster",
        )
