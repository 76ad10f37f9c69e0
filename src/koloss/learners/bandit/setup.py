"""Everything that the bandit learner fixes before the first round: features, design, rates.

Algorithm 1, lines 1 and 2, and the choice of its parameters.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from koloss._arrays import (
    as_distribution,
    as_float,
    as_int,
    as_points,
    as_vector,
    to_numpy,
)
from koloss.actions import ActionSet, Ball, Points
from koloss.designs import Design, barycentric_spanner, john_design, uniform_design, whiten
from koloss.errors import RankUnreachable
from koloss.guarantees import bandit, paper
from koloss.guarantees.bandit import BanditProblem, Rates
from koloss.kernels import Linear, Quadratic
from koloss.kernels.base import KernelLike
from koloss.proxy import Proxy, eigendecay, exact_features, kernel_pca, pivoted_cholesky
from koloss.proxy.base import discretise, step_beyond

Tuning = Literal["sharp", "paper"]
Adversary = Literal["rank-one", "general"]

EXACT_LIMIT = 500
"""Kernels with at most so many features are used exactly, unless a proxy is asked for."""

CONSTRUCTIONS = ("pivoted_cholesky", "kernel_pca", "exact_features")
DESIGNS: dict[str, Callable[[Any], Design]] = {
    "john": john_design,
    "spanner": barycentric_spanner,
    "uniform": uniform_design,
}


@dataclass(frozen=True, kw_only=True)
class Settings(abc.ABC):
    """What stays fixed during the game on any set of actions. Plain data: arrays, numbers and strings.

    Attributes
    ----------
    problem : BanditProblem
    rates : Rates
    tuning : str
    horizon : int or None
    batch : int
        Most rounds of an epoch of single decisions.
    center, low, high : float
        The losses lie in [low, high]; `center` is subtracted before they are used.
    sampled : bool
    printed : dict
        Of the paper's tuning, what its Corollary says.
    names : dict
        Of kernel, actions, proxy, design and adversary, for people.
    """

    problem: BanditProblem
    rates: Rates
    tuning: str
    horizon: int | None
    batch: int
    center: float
    low: float
    high: float
    sampled: bool = False
    printed: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    place: ClassVar[str] = ""
    """Added to the name of a statement."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {**self.__dict__, "problem": asdict(self.problem), "rates": asdict(self.rates)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The settings in a snapshot."""
        problem, rates = BanditProblem(**data["problem"]), Rates(**data["rates"])
        return cls(**{**data, "problem": problem, "rates": rates})

    def problem_at(self, t: int) -> BanditProblem:
        """The numbers that the rates of round t depend on, without a horizon."""
        return self.problem

    @abc.abstractmethod
    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """log(1/prior) of what the player is compared with, and by name what that costs beside."""


@dataclass(frozen=True, kw_only=True)
class Setup(Settings):
    """What stays fixed during the game on finitely many actions.

    Attributes
    ----------
    points : array of shape (N, d)
    features : array of shape (N, m)
        Whitened: the design's covariance is the identity. In Fortran order: scaling all rows, the only pass
        over them beside matrix products, then runs along memory.
    design : array of shape (N,)
    log_prior : array of shape (N,)
    net : float
        How much better than the best point of the net an action of the compact set may be, a round.
    """

    points: Any
    features: Any
    design: Any
    log_prior: Any
    net: float

    def __post_init__(self) -> None:
        for array in (self.points, self.features, self.design, self.log_prior):
            array.flags.writeable = False  # decisions hand out views of them

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The setup in a snapshot."""
        arrays = {name: np.array(data[name]) for name in ("points", "design", "log_prior")}
        features = np.array(data["features"], order="F")
        return super().from_dict({**data, **arrays, "features": features})

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        return self.problem.log_prior, {"net": self.net * rounds}


def needs_no_net(actions: Any, kernel: Any, settings: Mapping[str, Any]) -> bool:
    """Whether the whole of the actions is played: linear and quadratic losses on a ball, if nothing speaks of a net."""
    return (
        isinstance(actions, Ball)
        and type(kernel) in (Linear, Quadratic)
        and settings.get("tuning", "sharp") == "sharp"
        and settings.get("proxy") is None
        and settings.get("spacing") is None
        and _is_default(settings.get("rank", "auto"), "auto")
        and _is_default(settings.get("exploration", "john"), "john")
    )


def _is_default(value: Any, default: str) -> bool:
    return isinstance(value, str) and value == default


def prepare(
    actions: ActionSet,
    kernel: KernelLike,
    *,
    horizon: int | None,
    loss_bound: float | None,
    loss_range: tuple[float, float] | None,
    loss_norm: float | None,
    tuning: Tuning,
    proxy: str | Proxy | None,
    rank: int | Literal["auto"],
    exploration: str | Design,
    batch: int | Literal["auto"],
    covariance: Literal["exact", "sampled"],
    sample_error: float,
    bonus: bool,
    prior: Any,
    adversary: Adversary,
    delay: int,
    learning_rate: float | None,
    exploration_rate: float | None,
    spacing: float | None,
) -> Setup:
    """Check all settings and compute what they imply."""
    check_words(tuning, covariance, adversary, bonus)
    horizon = None if horizon is None else as_int("horizon", horizon, minimum=1)
    delay = as_int("delay", delay, minimum=0)
    if tuning == "paper" and (horizon is None or bonus or delay or covariance != "exact"):
        raise ValueError(
            "`tuning` of 'paper' must have a horizon, no bonus, no delay and the exact covariance"
        )
    if isinstance(proxy, Proxy):
        if proxy.actions is not actions and proxy.actions != actions:
            raise ValueError(
                f"`proxy` must be one of the actions {actions!r}, got one of {proxy.actions!r}"
            )
        points = proxy.points
    else:
        points = discretise(kernel, actions, spacing)
    N = len(points)
    log_prior = _log_prior(prior, N)
    size = math.sqrt(float(np.max(to_numpy(kernel.diag(points.X)))))
    low, high, norm = loss_interval(size, loss_bound, loss_range, loss_norm)
    centred = loss_range is not None and tuning == "sharp"
    center = (low + high) / 2 if centred else 0.0
    L = max(high - center, center - low)
    base = BanditProblem(
        rounds=horizon or 10_000,
        rank=1,
        leverage=1.0,
        loss_bound=L,
        epsilon=0.0,
        log_prior=float(-log_prior.min()),
        bonus=bonus,
        shrink=_shrink(covariance, sample_error),
        delay=delay,
    )

    def error(proxy: Proxy, j: int) -> float:
        # Theory B1, the player on the points: √(max r · max r_Y) for Φ(y), y in all of the actions, and
        # ‖w‖ max √r for any w.
        played = float(proxy.point_curve[j])
        whole = float(proxy.residual_curve[j]) if adversary == "rank-one" else norm**2
        return math.sqrt(played * whole)

    printed: dict[str, Any] = {}
    if tuning == "paper":
        printed = _corollary(kernel, points, base)
        rank = printed["rank"] if rank == "auto" and not isinstance(proxy, Proxy) else rank
        proxy = (
            ("exact_features" if printed["profile"] == "exact" else "kernel_pca")
            if proxy is None
            else proxy
        )
    chosen = _proxy(kernel, actions, points, proxy, rank, spacing, base, error, centred)
    exact = chosen.method == "exact features" and chosen.epsilon < 1e-10 * chosen.residual_curve[0]
    features = to_numpy(chosen.features)
    if centred:
        scale = math.sqrt(float(chosen.residual_curve[0])) or 1.0
        features = np.column_stack([features, np.full(N, scale)])
    design = _design(features, exploration)
    white = whiten(features, design).features
    problem = BanditProblem(
        **{
            **asdict(base),
            "rank": white.shape[1],
            "leverage": float(np.max(np.sum(white**2, axis=1))),
            "epsilon": 0.0 if exact else error(chosen, chosen.rank),
        }
    )
    rates = choose_rates(problem, horizon, printed, learning_rate, exploration_rate)
    return Setup(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.asfortranarray(white),
        design=np.array(to_numpy(design.weights), dtype=float),
        log_prior=log_prior,
        problem=problem,
        rates=rates,
        tuning=tuning,
        horizon=horizon,
        batch=choose_batch(batch, problem, tuning, delay),
        center=center,
        low=low,
        high=high,
        sampled=covariance == "sampled",
        net=norm * step_beyond(kernel, actions, points),
        printed=printed,
        names={
            "kernel": repr(kernel),
            "actions": repr(actions),
            "proxy": chosen.method,
            "design": design.method,
            "adversary": adversary,
        },
    )


def probability_of(points: Any, p: Any, actions: Any) -> Any:
    """Probability of some of the points, given as rows of coordinates or as indices; equal points count together."""
    if np.ndim(actions) <= 1 and np.issubdtype(np.asarray(actions).dtype, np.integer):
        return p[actions]
    X = to_numpy(as_points("actions", actions, dimension=points.shape[1]))
    same = np.all(np.isclose(X[:, None, :], points[None], rtol=1e-12, atol=1e-12), axis=2)
    if not same.any(axis=1).all():
        raise ValueError(f"`actions` must be actions in play, got {X[np.argmin(same.any(axis=1))]}")
    return same @ p


def check_words(tuning: Any, covariance: Any, adversary: Any, bonus: Any) -> None:
    """Settings that are one of a few words."""
    _one_of("tuning", tuning, ("sharp", "paper"))
    _one_of("covariance", covariance, ("exact", "sampled"))
    _one_of("adversary", adversary, ("rank-one", "general"))
    if not isinstance(bonus, bool):
        raise TypeError(f"`bonus` must be True or False, got {bonus!r}")


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _log_prior(prior: Any, N: int) -> Any:
    if prior is None:
        return np.full(N, -math.log(N))
    prior = to_numpy(as_distribution("prior", prior, length=N))
    if prior.min() <= 0:
        raise ValueError(
            f"`prior` must be positive everywhere, got {prior.min():.6g} at {prior.argmin()}"
        )
    return np.log(prior)


def loss_interval(
    size: float, loss_bound: float | None, loss_range: Any, loss_norm: float | None
) -> tuple[float, float, float]:
    """Interval of the losses, and the RKHS norm they may have; `size` is 𝒢."""
    norm = max(1.0, size) if loss_norm is None else as_float("loss_norm", loss_norm, positive=True)
    if loss_range is not None:
        if loss_bound is not None:
            raise ValueError("give `loss_bound` or `loss_range`, not both")
        low, high = to_numpy(as_vector("loss_range", loss_range, length=2)).tolist()
        if low >= high:
            raise ValueError(
                f"`loss_range` must be (low, high) with low < high, got ({low:.6g}, {high:.6g})"
            )
        return low, high, norm
    L = size * norm if loss_bound is None else as_float("loss_bound", loss_bound, positive=True)
    return -L, L, norm


def _shrink(covariance: str, sample_error: float) -> float:
    s = as_float("sample_error", sample_error, positive=True)
    if s >= 1:
        raise ValueError(f"`sample_error` must be below 1, got {s:.6g}")
    return s if covariance == "sampled" else 0.0


def _proxy(
    kernel: Any,
    actions: ActionSet,
    points: Points,
    proxy: str | Proxy | None,
    rank: Any,
    spacing: float | None,
    base: BanditProblem,
    error: Any,
    centred: bool,
) -> Proxy:
    """The proxy asked for, at the rank asked for or the one that minimises the bound."""
    if rank != "auto":
        rank = as_int("rank", rank, minimum=1)
    if isinstance(proxy, Proxy):
        return _cut(proxy, base, error, centred) if rank == "auto" else proxy.truncate(rank)
    if proxy is None:
        size = getattr(kernel, "feature_dimension", lambda _: None)(points.dimension)
        proxy = "exact_features" if size is not None and size <= EXACT_LIMIT else "pivoted_cholesky"
    _one_of("proxy", proxy, CONSTRUCTIONS)
    if proxy == "exact_features":
        whole = exact_features(kernel, actions, spacing=spacing)
        return _cut(whole, base, error, centred) if rank == "auto" else whole.truncate(rank)
    construct = pivoted_cholesky if proxy == "pivoted_cholesky" else kernel_pca
    if rank != "auto":
        return construct(kernel, actions, rank=rank, spacing=spacing)
    size = 16
    while True:  # twice the rank, until even features without error would have a larger bound
        try:
            found = construct(kernel, actions, rank=size, spacing=spacing)
        except RankUnreachable as end:
            found = construct(kernel, actions, rank=end.rank, spacing=spacing)
            size = len(points)
        best = _cut(found, base, error, centred)
        reached = _totals(best, base, error, centred)[-1]
        if size >= len(points) or reached <= _quick_bound(bandit.with_rank(base, size, 0.0)):
            return best
        size = min(2 * size, len(points))


def _cut(proxy: Proxy, base: BanditProblem, error: Any, centred: bool) -> Proxy:
    """The leading features that minimise the bound."""
    best = int(np.argmin(_totals(proxy, base, error, centred))) + 1
    return proxy if best == proxy.rank else proxy.truncate(best)


def _totals(proxy: Proxy, base: BanditProblem, error: Any, centred: bool) -> list[float]:
    """The bound for 1, 2, ... of the leading features."""
    extra = 1 if centred else 0
    totals = []
    for j in range(1, proxy.rank + 1):
        exact = proxy.method == "exact features" and j == proxy.rank
        epsilon = 0.0 if exact else error(proxy, j)
        totals.append(_quick_bound(bandit.with_rank(base, j + extra, epsilon)))
    return totals


def _quick_bound(problem: BanditProblem) -> float:
    """The bound at κ = 2 and theory B2's learning rate, close enough to choose a rank by."""
    m, L, eps, n = problem.rank, problem.estimate_bound, problem.epsilon, problem.rounds
    if problem.log_prior == 0:
        return float(m)
    kappa = 2.0 / (1 + problem.delay)
    c = 2 * problem.leverage / (m * kappa) + bandit.psi(kappa)
    u = math.sqrt(problem.log_prior / (c * m * n))
    if not problem.bonus:
        u = max(u, (math.sqrt(kappa) * eps / (2 * L * c * m)) ** (2 / 3))
    return sum(problem.terms(u / L, kappa).values())


def _design(features: Any, exploration: str | Design) -> Design:
    if isinstance(exploration, Design):
        if exploration.weights.shape[0] != features.shape[0]:
            raise ValueError(
                f"`exploration` must weigh {features.shape[0]} actions, got {exploration.weights.shape[0]}"
            )
        return exploration
    _one_of("exploration", exploration, tuple(DESIGNS))
    return DESIGNS[exploration](features)


def choose_rates(
    problem: BanditProblem,
    horizon: int | None,
    printed: dict[str, Any],
    learning_rate: float | None,
    exploration_rate: float | None,
) -> Rates:
    """Rates that minimise the bound, or those asked for."""
    if horizon is None:
        if learning_rate is not None or exploration_rate is not None:
            raise ValueError(
                "`learning_rate` and `exploration_rate` must be left out without a horizon"
            )
        kappa = bandit.anytime_kappa(problem)
        return Rates(0.0, 0.0, kappa)  # they change with time
    if printed:
        learning_rate = printed["learning_rate"] if learning_rate is None else learning_rate
        exploration_rate = printed["exploration"] if exploration_rate is None else exploration_rate
    if learning_rate is None and exploration_rate is None:
        return bandit.tune(problem)
    tuned = bandit.tune(problem)
    eta = (
        tuned.learning_rate
        if learning_rate is None
        else as_float("learning_rate", learning_rate, positive=True)
    )
    if exploration_rate is None:
        return Rates(eta, min(1.0, problem.exploration(eta, tuned.kappa)), tuned.kappa)
    gamma = as_float("exploration_rate", exploration_rate, positive=True)
    if gamma > 1:
        raise ValueError(f"`exploration_rate` must be at most 1, got {gamma:.6g}")
    return Rates(eta, gamma, problem.exploration(eta, 1.0) / gamma)


def choose_batch(batch: Any, problem: BanditProblem, tuning: str, delay: int) -> int:
    """Most rounds of an epoch of single decisions."""
    if batch == "auto":
        return 1 if tuning == "paper" or delay > 0 else max(1, math.ceil(problem.rank / 4))
    b = as_int("batch", batch, minimum=1)
    if delay > 0 and b > 1:
        raise ValueError(f"`batch` must be 1 where `delay` is positive, got {b}")
    return b


def _corollary(kernel: Any, points: Points, base: BanditProblem) -> dict[str, Any]:
    """What the paper's Corollary says of this game, or its Theorem where the features are finite."""
    G2 = float(np.max(to_numpy(kernel.diag(points.X))))
    size = getattr(kernel, "feature_dimension", lambda _: None)(points.dimension)
    if size is not None and size <= EXACT_LIMIT:
        return paper.theorem(base.rounds, exact_features(kernel, points).rank, base.log_prior, G2)
    return paper.corollary(base.rounds, eigendecay(kernel, points), base.log_prior, G2)
