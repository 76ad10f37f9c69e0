"""What the bandit learner chooses for itself, by its bound: features and their number, rates, the length of epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design
from koloss.errors import RankUnreachable
from koloss.guarantees import bandit, paper
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.kernels import Kernel
from koloss.learners.bandit.pairs import finite_size
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.shares import Shares, shared_design
from koloss.proxy import Proxy, eigendecay, exact_features, kernel_pca, pivoted_cholesky

if TYPE_CHECKING:
    from koloss.learners.bandit.ridge import LossClass

EXACT_LIMIT = 500
"""Kernels with at most so many features are used exactly, unless a proxy is asked for, and without a norm unless one is stated."""

REFRESH = 5e8
"""N M² of the largest refresh, in multiplications, for which M features are chosen unasked: about a tenth of a second."""

SMALL_REFRESH = 5e5
"""N m² up to which every round begins an epoch: the products of a refresh take no longer than the rest of it then, about 40 µs each.

Measured: a round with a refresh takes 43 µs at N m² = 8·10³, 79 at 2·10⁵, 153 at 8·10⁵ and 650 at 6·10⁶, one without takes 9.
"""

LONE = 10
"""Features that the refresh of an action costs as much as, where actions have nothing to do with each other."""

FIRST_RANK = 16
"""Rank at which the search for the best one begins."""


def paper_says(settings: BanditSettings, points: Points, log_prior: float) -> dict[str, Any]:
    """What the paper's Corollary says of this game, or its Theorem where the features are finite."""
    kernel, n = settings.kernel, settings.horizon
    assert n is not None
    G2 = float(np.max(to_numpy(kernel.diag(points.X))))
    if _has_few_features(kernel, points):
        return paper.theorem(n, exact_features(kernel, points).rank, log_prior, G2)
    return paper.corollary(n, eigendecay(kernel, points), log_prior, G2)


def choose_proxy(
    settings: BanditSettings,
    points: Points,
    base: BanditProblem,
    losses_of: Callable[[Proxy], LossClass],
    printed: dict[str, Any],
) -> Proxy:
    """The proxy asked for, at the rank asked for or the one that minimises the bound (Algorithm 1, line 1)."""
    rank, proxy = settings.rank, _proxy_of(settings, points)
    if printed and rank == "auto" and not isinstance(settings.proxy, Proxy):
        rank = printed["rank"]
    if rank != "auto":
        return proxy.truncate(rank) if isinstance(proxy, Proxy) else proxy(rank=rank)
    if isinstance(proxy, Proxy):
        return _cut(proxy, _bounds(proxy, base, losses_of))
    size, most = FIRST_RANK, _affordable(points)
    while True:  # twice the rank, until even features without error would have a larger bound
        candidate = _of_rank(proxy, size)
        bounds = _bounds(candidate, base, losses_of)
        least = quick_bound(bandit.with_rank(base, size, 0.0))
        if size >= most or candidate.rank < size or bounds[-1] <= least:
            return _cut(candidate, bounds)
        size = min(2 * size, most)


def all_features(settings: BanditSettings, points: Points) -> Proxy:
    """Features for a ridge, which need not be few: all, up to rounding, or as many as a refresh can afford."""
    proxy, rank = _proxy_of(settings, points), settings.rank
    if isinstance(proxy, Proxy):
        return proxy if rank == "auto" else proxy.truncate(rank)
    if rank != "auto":
        return proxy(rank=min(rank, len(points)))
    return _of_rank(proxy, _affordable(points))


def _proxy_of(settings: BanditSettings, points: Points) -> Proxy | Callable[..., Proxy]:
    """The proxy asked for, or how one of any rank is made; unasked all features, where these are few."""
    kernel, actions, proxy = settings.kernel, settings.actions, settings.proxy
    if isinstance(proxy, Proxy):
        return proxy
    if proxy == "exact_features" or (proxy is None and _has_few_features(kernel, points)):
        return exact_features(kernel, actions, spacing=points)
    printed = proxy is None and settings.tuning == "paper"
    construct = kernel_pca if printed or proxy == "kernel_pca" else pivoted_cholesky
    return partial(construct, kernel, actions, spacing=points)


def _of_rank(make: Callable[..., Proxy], rank: int) -> Proxy:
    """A proxy with so many features, or with all that there are, up to rounding."""
    try:
        return make(rank=rank)
    except RankUnreachable as end:
        if end.rank == 0:
            raise
        return make(rank=end.rank)


def _affordable(points: Points) -> int:
    """Most features that are chosen unasked; more must be asked for by `rank`."""
    return min(len(points), max(FIRST_RANK, math.isqrt(int(REFRESH / len(points)))))


def is_exact(proxy: Proxy) -> bool:
    """Whether the features miss nothing but rounding: all that the kernel has, and none was left out."""
    return proxy.method == "exact features" and not proxy.cut


def _has_few_features(kernel: Any, points: Points) -> bool:
    size = finite_size(kernel, points.dimension)
    return size is not None and size <= EXACT_LIMIT and isinstance(kernel, Kernel)


def spans(settings: BanditSettings) -> bool:
    """Whether losses are anything in the span of the kernel's features: these are few, and nothing that was said needs a norm."""
    kernel, asked = settings.kernel, settings.proxy == "exact_features"
    if settings.loss_norm is not None or settings.tuning == "paper" or settings.loss_class == "any":
        return False
    if settings.ridge not in ("auto", 0) or not (asked or settings.proxy is None):
        return False
    size = finite_size(kernel, settings.actions.dimension)
    if size is None or not hasattr(kernel, "features") or not (asked or size <= EXACT_LIMIT):
        return False
    return settings.rank == "auto" or settings.rank >= size


def has_too_many(settings: BanditSettings) -> bool:
    """Whether losses would be anything in the span of the features if these were not so many."""
    size = finite_size(settings.kernel, settings.actions.dimension)
    unasked = settings.proxy is None and settings.rank == "auto"
    return (
        unasked and (size or 0) > EXACT_LIMIT and spans(replace(settings, proxy="exact_features"))
    )


def least_rank(settings: BanditSettings) -> int:
    """Features that every point will have at least while the proxy is chosen, as far as the settings tell."""
    size = finite_size(settings.kernel, settings.actions.dimension)
    exact = settings.proxy == "exact_features" or (size or math.inf) <= EXACT_LIMIT
    if size is not None and exact and settings.proxy in (None, "exact_features"):
        return size
    return FIRST_RANK if settings.rank == "auto" else settings.rank


def _cut(proxy: Proxy, bounds: list[float]) -> Proxy:
    """The leading features that minimise the bound."""
    best = int(np.argmin(bounds)) + 1
    return proxy if best == proxy.rank else proxy.truncate(best)


def _bounds(
    proxy: Proxy, base: BanditProblem, losses_of: Callable[[Proxy], LossClass]
) -> list[float]:
    """The bound for 1, 2, ... of the leading features, and the constant where it is one."""
    error = losses_of(proxy).error
    games = (bandit.with_rank(base, j + base.constant, error(j)) for j in range(1, proxy.rank + 1))
    return [quick_bound(game) for game in games]


def quick_bound(problem: BanditProblem) -> float:
    """The bound at κ = 2 and theory B2's learning rate, close enough to choose a rank by."""
    m, L, eps, n = problem.rank, problem.estimate_bound, problem.epsilon, problem.rounds
    if problem.log_prior == 0:
        return float(m)
    kappa = (1.6 if problem.hindsight else 2.0) / (1 + problem.delay)
    c = 2 * problem.leverage / (m * kappa) + (1 + problem.hindsight) * bandit.psi(kappa)
    u = math.sqrt(problem.log_comparator / (c * m * n))
    if not problem.bonus:
        u = max(u, (math.sqrt(kappa) * eps / (2 * L * c * m)) ** (2 / 3))
    return float(sum(problem.terms(u / L, kappa).values()))


def choose_design(features: Any, design: str | Design, shares: Shares | None = None) -> Design:
    """Where to explore: the design asked for, on these features; within the shares where there are any."""
    if shares is not None:
        asked = choose_design(features, design)
        return shared_design(features, asked, shares, improve=design == "john")
    if isinstance(design, Design):
        if design.weights.shape[0] != features.shape[0]:
            raise ValueError(
                f"`design` must weigh {features.shape[0]} actions, got {design.weights.shape[0]}"
            )
        return _to_double(design)
    makers: dict[str, Callable[[Any], Design]] = {
        "john": john_design,
        "spanner": barycentric_spanner,
        "uniform": uniform_design,
    }
    return _to_double(makers[design](features))


def _to_double(design: Design) -> Design:
    """With weights that add up to 1, which those of single precision do only nearly."""
    weights = to_numpy(design.weights)
    if weights.dtype == np.float64:
        return design
    weights = weights.astype(float)
    return replace(design, weights=weights / weights.sum())


def choose_rates(
    settings: BanditSettings,
    problem: BanditProblem,
    actions: int | None,
    printed: dict[str, Any] | None = None,
) -> Rates:
    """Rates that minimise the bound of the epochs that are played, those that the paper prints, or those asked for."""
    if settings.horizon is None:
        return Rates(0.0, 0.0, bandit.anytime_kappa(problem))  # they change with time
    eta, gamma, printed = settings.learning_rate, settings.exploration_rate, printed or {}
    eta = printed.get("learning_rate") if eta is None else eta
    gamma = printed.get("exploration") if gamma is None else gamma
    tuned = bandit.tune(problem, b=choose_batch(settings, problem, actions))
    if eta is None and gamma is None:
        return tuned
    eta = tuned.learning_rate if eta is None else eta
    if gamma is None:
        return Rates(eta, min(1.0, problem.exploration(eta, tuned.kappa)), tuned.kappa)
    return Rates(eta, gamma, problem.rise(eta, gamma))


def choose_batch(settings: BanditSettings, problem: BanditProblem, actions: int | None) -> int:
    """Most rounds of an epoch of single decisions, where laws are those of so many actions; None on a ball.

    The bound is least for one round, and longer epochs save time: they are played where a refresh takes longer than a few rounds without.
    """
    if settings.batch != "auto":
        return settings.batch
    if settings.tuning == "paper" or settings.planned_delay > 0 or settings.horizon is None:
        return 1
    if problem.hindsight and (settings.learns_range or settings.outside == "widen"):
        return 1  # longer epochs are not covered
    features = LONE if problem.arms else problem.rank
    if actions is not None and actions * features**2 <= SMALL_REFRESH:
        return 1
    dimension: float = problem.dimension
    return max(1, math.ceil(dimension / 4))
