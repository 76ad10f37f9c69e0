"""`kernel="auto"`: Gaussian kernels of several bandwidths in one, for losses of unknown smoothness (theory F4).

K = Σ_j w_j K_j, where K_j is a Gaussian kernel whose bandwidth is 2^(-j-1) of the range of each coordinate. A loss of norm
W √w_j in the space of K_j has a norm of at most W in that of K, so that one learner, with one bonus, is protected against all of
them, and against sums of such; and d*_K(λ) ≤ Σ_j d*_j(λ/w_j). With w_j ∝ 2^(-jD) rough parts are to be small.

On a `Space` K_j is a `Mixed` kernel with that bandwidth for every number, D of which vary; two choices are 1 apart, as if they were corners:
they differ by exp(-1/(2 bandwidth²)), so that on rough scales they have nothing to do with each other.
"""

from __future__ import annotations

import functools
import math
from dataclasses import fields, replace
from typing import Any

from koloss.actions import ActionSet, Points, SpacePoints
from koloss.guarantees.base import Guarantee
from koloss.guarantees.promises import Played
from koloss.kernels import Gaussian, Kernel, Mixed
from koloss.kernels.algebra import Scaled, Sum
from koloss.kernels.mixed import kinds_of
from koloss.learners.bandit.doubts import nearest
from koloss.learners.bandit.exp2 import prove
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import points_engine
from koloss.learners.bandit.tuning import choose_batch, least_rank
from koloss.proxy.base import discretise

MOST = 12
"""Bandwidths at most."""

ROUNDS = 10_000
"""For which bandwidths are chosen without a horizon."""

ONE_BANDWIDTH = math.exp(-0.5) * (1 - 1e-9)
"""A Gaussian kernel of two points that are one bandwidth apart, but for rounding."""

SHORTEST, LONGEST = 1e-150, 1e150
"""Bandwidths that a Gaussian kernel takes."""


def auto_kernel(settings: BanditSettings) -> Kernel:
    """The sum of Gaussian, or mixed, kernels for a game, all of whose other settings are known.

    Bandwidths are halved for as long as

    - half of the actions, or more, have another one within a bandwidth,
    - the bound with that bandwidth alone is below half of the trivial one, and
    - the bound of the sum is at most half of what holds without an assumption: that of `loss_class="any"`, which finitely
      many actions have.
    """
    actions = settings.actions
    kinds = kinds_of(actions.space) if isinstance(actions, SpacePoints) else None

    def make(j: int) -> Kernel:
        length = 0.5 ** (j + 1)
        if kinds is None:
            return widest(actions, length)
        return Mixed(kinds, lengths=length, hamming=0.5 / length**2)

    lower, upper = actions.bounds()
    varies = (upper > lower).tolist()
    numbers = [kinds is None or kinds[i].endswith("number") for i in range(len(varies))]
    dimension = sum(v and number for v, number in zip(varies, numbers, strict=True))
    kernels = [make(0)]
    chosen = kernels[0]
    most = MOST if any(varies) and settings.loss_class != "any" else 1
    while len(kernels) < most:
        kernels.append(make(len(kernels)))
        longer = _sum(kernels, dimension)
        if not _is_useful(settings, kernels[-1], longer):
            break
        chosen = longer
    return chosen


def _sum(kernels: list[Kernel], dimension: int) -> Kernel:
    """Σ_j w_j K_j with w_j ∝ 2^(-jD) and Σ_j w_j = 1."""
    weights = [2.0 ** (-j * dimension) for j in range(len(kernels))]
    total = math.fsum(weights)
    parts = [Scaled(w / total, kernel) for w, kernel in zip(weights, kernels, strict=True)]
    return functools.reduce(Sum, parts)  # type: ignore[arg-type]


def widest(actions: ActionSet, share: float = 0.5) -> Gaussian:
    """The first of these kernels: its bandwidth is half of the range of each coordinate, or another `share` of it.

    Where that is zero the bandwidth changes nothing, but has the same units.
    """
    lower, upper = (end.tolist() for end in actions.bounds())
    ends = zip(lower, upper, strict=True)
    lengths = ((high - low) * share if high > low else abs(low) or 1.0 for low, high in ends)
    return Gaussian(tuple(min(max(length, SHORTEST), LONGEST) for length in lengths))


def _is_useful(settings: BanditSettings, narrowest: Kernel, kernel: Kernel) -> bool:
    """Whether a sum may have its narrowest kernel: points are as close as that, and what is proved is worth its assumptions.

    Bounds are at rates and features of their own.
    """
    own: dict[str, Any] = {"rank": "auto", "learning_rate": None, "exploration_rate": None}
    alone, together = (replace(settings, kernel=one, **own) for one in (narrowest, kernel))
    n, rank = settings.horizon or ROUNDS, least_rank(together)
    points = discretise(kernel, settings.actions, settings.spacing, rank=rank, rounds=n)
    if nearest(narrowest, points) < ONE_BANDWIDTH:
        return False
    promise = _promise(alone, n)
    if promise.total >= promise.trivial / 2:
        return False
    if not isinstance(settings.actions, Points):
        return True
    return _promise(together, n).total <= _promise(_any_losses(together), n).total / 2


def _promise(game: BanditSettings, rounds: int) -> Guarantee:
    """What is proved for a game."""
    engine = points_engine(game, trial=True)
    batch = choose_batch(game, engine.problem, engine.rows)
    return prove(engine, engine.rates, batch, rounds, game.horizon, Played())


def _any_losses(game: BanditSettings) -> BanditSettings:
    """The same game, where nothing is assumed of losses but their range."""
    names = ("loss_norm", "proxy", "design", "covariance", "sample_error", "ridge", "bonus")
    known: dict[str, Any] = {f.name: f.default for f in fields(game) if f.name in names}
    if game.loss_range is None:
        known["loss_bound"] = game.interval(1.0)[1]  # K(a, a) = 1
    return replace(game, loss_class="any", **known)
