"""What the bandit learner chooses for itself, by its bound: features and their number, rates, the length of epochs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from koloss._arrays import to_numpy
from koloss.actions import Points
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design
from koloss.errors import RankUnreachable
from koloss.guarantees import bandit, paper
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.shares import Shares, shared_design
from koloss.proxy import Proxy, eigendecay, exact_features, kernel_pca, pivoted_cholesky

EXACT_LIMIT = 500
"""Kernels with at most so many features are used exactly, unless a proxy is asked for."""

REFRESH = 5e8
"""N M² of the largest refresh, in multiplications, for which M features are chosen unasked: about a tenth of a second."""

FIRST_RANK = 16
"""Rank at which the search for the best one begins."""

Error = Callable[[Proxy, int], float]
"""ε of the leading features of a proxy."""


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
    error: Error,
    printed: dict[str, Any],
) -> Proxy:
    """The proxy asked for, at the rank asked for or the one that minimises the bound (Algorithm 1, line 1)."""
    kernel, actions, proxy, rank = settings.kernel, settings.actions, settings.proxy, settings.rank
    extra = int(settings.loss_range is not None and settings.tuning == "sharp")  # the constant
    if printed:
        if rank == "auto" and not isinstance(proxy, Proxy):
            rank = printed["rank"]
        if proxy is None:
            proxy = "exact_features" if printed["profile"] == "exact" else "kernel_pca"
    if proxy is None:
        proxy = "exact_features" if _has_few_features(kernel, points) else "pivoted_cholesky"
    if proxy == "exact_features":
        proxy = exact_features(kernel, actions, spacing=points)
    if isinstance(proxy, Proxy):
        return _cut(proxy, base, error, extra) if rank == "auto" else proxy.truncate(rank)
    construct = pivoted_cholesky if proxy == "pivoted_cholesky" else kernel_pca
    if rank != "auto":
        return construct(kernel, actions, rank=rank, spacing=points)
    size, most = FIRST_RANK, _affordable(points)
    while True:  # twice the rank, until even features without error would have a larger bound
        try:
            candidate = construct(kernel, actions, rank=size, spacing=points)
        except RankUnreachable as end:
            if end.rank == 0:
                raise
            candidate = construct(kernel, actions, rank=end.rank, spacing=points)
            size = most
        best = _cut(candidate, base, error, extra)
        reached = _bounds(best, base, error, extra)[-1]
        if size >= most or reached <= _quick_bound(bandit.with_rank(base, size, 0.0)):
            return best
        size = min(2 * size, most)


def _affordable(points: Points) -> int:
    """Most features that are chosen unasked; more must be asked for by `rank`."""
    return min(len(points), max(FIRST_RANK, math.isqrt(int(REFRESH / len(points)))))


def all_features(settings: BanditSettings, points: Points) -> Proxy:
    """Features for a ridge, which need not be few: all, up to rounding, or as many as a refresh can afford."""
    kernel, actions, proxy, rank = settings.kernel, settings.actions, settings.proxy, settings.rank
    if proxy is None:
        proxy = "exact_features" if _has_few_features(kernel, points) else "pivoted_cholesky"
    if proxy == "exact_features":
        proxy = exact_features(kernel, actions, spacing=points)
    if isinstance(proxy, Proxy):
        return proxy if rank == "auto" else proxy.truncate(rank)
    construct = pivoted_cholesky if proxy == "pivoted_cholesky" else kernel_pca
    most = rank if rank != "auto" else _affordable(points)
    try:
        return construct(kernel, actions, rank=min(most, len(points)), spacing=points)
    except RankUnreachable as end:
        if rank != "auto":
            raise
        return construct(kernel, actions, rank=end.rank, spacing=points)


def is_exact(proxy: Proxy) -> bool:
    """Whether the features miss nothing but rounding."""
    return proxy.method == "exact features" and proxy.epsilon < 1e-10 * proxy.residual_curve[0]


def _feature_dimension(kernel: Any, dimension: int) -> int | None:
    size: int | None = getattr(kernel, "feature_dimension", lambda _: None)(dimension)
    return size


def _has_few_features(kernel: Any, points: Points) -> bool:
    size = _feature_dimension(kernel, points.dimension)
    return size is not None and size <= EXACT_LIMIT


def least_rank(settings: BanditSettings) -> int:
    """Features that every point will have at least while the proxy is chosen, as far as the settings tell."""
    size = _feature_dimension(settings.kernel, settings.actions.dimension)
    exact = settings.proxy == "exact_features" or (size or math.inf) <= EXACT_LIMIT
    if size is not None and exact and settings.proxy in (None, "exact_features"):
        return size
    return FIRST_RANK if settings.rank == "auto" else settings.rank


def _cut(proxy: Proxy, base: BanditProblem, error: Error, extra: int) -> Proxy:
    """The leading features that minimise the bound."""
    best = int(np.argmin(_bounds(proxy, base, error, extra))) + 1
    return proxy if best == proxy.rank else proxy.truncate(best)


def _bounds(proxy: Proxy, base: BanditProblem, error: Error, extra: int) -> list[float]:
    """The bound for 1, 2, ... of the leading features, and `extra` others without error."""
    bounds = []
    for j in range(1, proxy.rank + 1):
        exact = proxy.method == "exact features" and j == proxy.rank
        epsilon = 0.0 if exact else error(proxy, j)
        bounds.append(_quick_bound(bandit.with_rank(base, j + extra, epsilon)))
    return bounds


def _quick_bound(problem: BanditProblem) -> float:
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
    settings: BanditSettings, problem: BanditProblem, printed: dict[str, Any] | None = None
) -> Rates:
    """Rates that minimise the bound, those that the paper prints, or those asked for."""
    if settings.horizon is None:
        return Rates(0.0, 0.0, bandit.anytime_kappa(problem))  # they change with time
    eta, gamma = settings.learning_rate, settings.exploration_rate
    if printed:
        eta = printed["learning_rate"] if eta is None else eta
        gamma = printed["exploration"] if gamma is None else gamma
    tuned = bandit.tune(problem)
    if eta is None and gamma is None:
        return tuned
    eta = tuned.learning_rate if eta is None else eta
    if gamma is None:
        return Rates(eta, min(1.0, problem.exploration(eta, tuned.kappa)), tuned.kappa)
    return Rates(eta, gamma, problem.rise(eta, gamma))


def choose_batch(settings: BanditSettings, problem: BanditProblem) -> int:
    """Most rounds of an epoch of single decisions."""
    if settings.batch != "auto":
        return settings.batch
    if settings.tuning == "paper" or settings.planned_delay > 0 or settings.horizon is None:
        return 1
    strict = not settings.learns_range
    if problem.hindsight and not (strict and settings.outside == "raise"):
        return 1  # longer epochs are not covered
    dimension: float = problem.dimension
    return max(1, math.ceil(dimension / 4))
