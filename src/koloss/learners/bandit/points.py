"""What finitely many actions make of Algorithm 1: features, whitened once, and laws that are vectors."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koloss import _linalg
from koloss._arrays import as_distribution, equal, to_numpy
from koloss.actions import Points
from koloss.designs import whiten
from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import (
    choose_design,
    choose_proxy,
    choose_rates,
    least_rank,
    paper_says,
)
from koloss.learners.ledger import Drawn
from koloss.learners.reading import FARTHEST, ROUNDING, Reader
from koloss.proxy import Proxy
from koloss.proxy.base import discretise, step_beyond

Floats = NDArray[np.float64]


@dataclass(slots=True)
class PointsLaw:
    """p of an epoch, and the Cholesky factor of its Σ."""

    factor: Any  # lower triangular, Fortran order
    p: Any
    cdf: Any
    bonus: Any = None  # β(a) = ε √(φ(a)'Σ⁻¹φ(a))

    def shrink(self) -> None:
        """Keep what late losses need: the factor, and the bonus where there is one."""
        self.p = self.cdf = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True, eq=False)
class PointsEngine:
    """Fixed arrays and numbers of a game on N actions with m features."""

    points: Floats  # (N, d)
    features: Floats  # (N, m), whitened: the design's covariance is the identity; Fortran order
    weights: Floats  # (N,), the design π
    log_prior: Floats  # (N,)
    problem: BanditProblem  # the numbers of the bound
    low: float  # losses lie in [low, high], ...
    high: float
    center: float  # ... and this is subtracted before they are used
    net: float  # how much better than the best point of the net an action may be, per round
    samples: float  # κ of the rates where Σ is estimated from draws; 0 where it is exact
    proxy: str  # how the features were made
    losses: str  # what is assumed of losses
    printed: dict[str, Any]  # with the paper's tuning: what the paper says
    eigenvalue: float = 0.0  # of the kernel, where one below zero was seen

    place: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for array in (self.points, self.features, self.weights, self.log_prior):
            array.flags.writeable = False  # decisions hand out views of them
        object.__setattr__(self, "_buffer", np.empty_like(self.features))

    @property
    def actions(self) -> Floats:
        """The actions in play."""
        return self.points

    # Algorithm 1.

    def mixture(self, theta: Floats, credit: Floats | None, eta: float, gamma: float) -> Floats:
        """p = (1 - γ)q + γπ with q ∝ prior exp(-η θ'φ), in log space (lines 4 and 9)."""
        score = self.features @ theta
        if credit is not None:
            score -= credit
        log_q = self.log_prior - eta * score
        q = np.exp(log_q - log_q.max())
        p: Floats = (1 - gamma) / q.sum() * q + gamma * self.weights
        return p

    def law(
        self, theta: Floats, credit: Floats | None, eta: float, gamma: float, rng: Any
    ) -> PointsLaw:
        """p, its cumulative sums, and the factor of Σ = E_p φφ' (lines 4 and 7)."""
        p = self.mixture(theta, credit, eta, gamma)
        cdf = np.cumsum(p)
        cdf /= cdf[-1]
        buffer, factor = self._buffer, None  # type: ignore[attr-defined]
        if self.samples:
            factor = _linalg.covariance_factor(self.features, self._sampled(p, eta, rng), buffer)
        if factor is None:  # exact, also where a sample fails to span the space
            factor = _linalg.covariance_factor(self.features, p, buffer)
        law = PointsLaw(factor, p, cdf)
        if self.problem.bonus:
            law.bonus = self.problem.epsilon * np.sqrt(self.leverages(law))
        return law

    def _sampled(self, p: Floats, eta: float, rng: Any) -> Floats:
        """Frequencies of fresh draws from p, as many as theory A4 asks for (Appendix D of the paper)."""
        failure = 1.0 / self.problem.rounds**2
        size = bandit.sample_count(self.problem, eta, self.samples, failure)
        frequencies: Floats = rng.multinomial(size, p / p.sum()) / size
        return frequencies

    def draw(self, law: PointsLaw, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Actions by inversion of the cumulative sums (line 5)."""
        if count is None:
            i = int(law.cdf.searchsorted(rng.random(), side="right"))
            return Drawn((i,), self.points[i], i, law.p.item(i))
        index = law.cdf.searchsorted(rng.random(count), side="right")
        return Drawn(index.copy(), self.points[index], index, law.p[index])

    def estimate(self, law: PointsLaw, rows: Any, losses: Any) -> Any:
        """Σ_s Σ⁻¹ φ(a_s) loss_s (line 8), of one action or several."""
        return _linalg.solve(law.factor, np.dot(losses, self.features[rows]))

    # The end of an epoch (theory B3).

    def rise(self, law: PointsLaw, gain: Floats, mass: float) -> float:
        """Largest -X(a) for the sum X of the epoch's estimates, of total weight `mass`."""
        rises = -(self.features @ gain)
        if law.bonus is not None:
            rises += mass * law.bonus
        return float(np.max(rises))

    def reach(self, law: PointsLaw, moved: Floats) -> float:
        """Upper bound on |X(a)| for estimates that add up to `moved`."""
        if law.bonus is not None:
            return math.inf  # the bonuses rise every time
        return math.sqrt(float(moved @ moved) * self.problem.leverage)  # |φ(a)|² ≤ G: whitened

    # What is known.

    def leverages(self, law: PointsLaw) -> Any:
        """φ(a)'Σ⁻¹φ(a) of every action."""
        return _linalg.leverages(law.factor, self.features)

    def values(self, theta: Floats, mass: float) -> Any:
        """θ'φ(a)/mass of every action."""
        return self.features @ theta / mass

    def best(self, theta: Floats, mass: float) -> tuple[int | None, Floats, float]:
        """Row, action and value of the smallest θ'φ(a)/mass."""
        values = self.values(theta, mass)
        index = int(np.argmin(values))
        return index, self.points[index], float(values[index])

    def problem_at(self, t: int) -> BanditProblem:
        """The numbers that the rates of round t depend on, without a horizon."""
        return self.problem

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """log(1/prior) of what the player is compared with, and by name what that costs beside."""
        return self.problem.log_prior, {"net": self.net * rounds}

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        values = {k: v for k, v in self.__dict__.items() if k != "_buffer"}
        return {**values, "problem": asdict(self.problem)}

    @classmethod
    def from_dict(cls, data: Reader, settings: BanditSettings) -> PointsEngine:
        """The engine in a snapshot of a game with these settings."""
        points = data.array("points", (None, settings.actions.dimension), -FARTHEST, FARTHEST)
        N = len(points)
        if isinstance(settings.actions, Points) and not equal(points, settings.actions.X):
            data.refuse("points", "must be those of the settings", points)
        features = data.array("features", (N, None), order="F")
        log_prior = data.array("log_prior", (N,), most=0)
        if not abs(np.exp(log_prior).sum() - 1) <= ROUNDING:
            data.refuse("log_prior", "must be logarithms of probabilities", log_prior)
        if isinstance(settings.prior, np.ndarray):
            _log_prior(settings.prior, N)  # which checks it
        low, high, center = interval_from_dict(data, settings)
        eigenvalue = data.number("eigenvalue", most=0) if data.has_key("eigenvalue") else 0.0
        printed = data.raw("printed")
        if bool(printed) != (settings.tuning == "paper"):
            data.refuse("printed", "must be there with the paper's tuning alone", printed)
        problem = problem_from_dict(data.part("problem"), features.shape[1], settings)
        leverage = float(np.max(np.einsum("ij,ij->i", features, features)))
        if not math.isclose(leverage, problem.leverage, rel_tol=ROUNDING):
            data.refuse("features", "must have the leverage of the problem", leverage)
        return cls(
            points=points,
            features=features,
            weights=data.distribution("weights", N),
            log_prior=log_prior,
            problem=problem,
            low=low,
            high=high,
            center=center,
            net=data.number("net", 0),
            samples=data.number("samples", 0, math.inf if settings.covariance == "sampled" else 0),
            proxy=data.word("proxy"),
            losses=data.word("losses"),
            eigenvalue=eigenvalue,
            printed=printed_from_dict(data.part("printed")) if printed else {},
        )

    def save(self) -> None:
        """Nothing of it changes during a game."""

    def load(self, data: Reader, name: str) -> None:
        """Take back what `save` gave."""
        data.nothing(name)

    def law_from_dict(self, data: Reader, over: bool) -> PointsLaw:
        """A law that `to_dict` has made plain, of an epoch that is over or not."""
        N, m = self.features.shape
        law = PointsLaw(data.factor("factor", m), None, None)
        if self.problem.bonus:
            law.bonus = data.array("bonus", (N,), 0)
        else:
            data.nothing("bonus")
        if over:
            data.nothing("p", "cdf")
            return law
        law.p, law.cdf = data.distribution("p", N), data.array("cdf", (N,), 0, 1)
        if law.cdf[-1] != 1 or np.any(np.abs(np.diff(law.cdf) - law.p[1:]) > ROUNDING):
            data.refuse("cdf", "must be the cumulative sums of p", law.cdf)
        return law

    def keys(self, data: Reader, name: str, count: int) -> list[int]:
        """Rows of the actions that wait for their losses."""
        rows: list[int] = data.array(name, (count,), 0, len(self.points) - 1, whole=True).tolist()
        return rows

    def can_play(self, theta: Floats, credit: Floats | None, eta: float, gamma: float) -> bool:
        """Whether such weights make probabilities."""
        return bool(np.isfinite(self.mixture(theta, credit, eta, gamma)).all())


def interval_from_dict(data: Reader, settings: BanditSettings) -> tuple[float, float, float]:
    """Where losses lie, and what is subtracted from them, in a snapshot of a game with these settings."""
    low, high = data.number("low"), data.number("high")
    said = settings.loss_range
    if said is None and settings.loss_bound is not None:
        said = (-settings.loss_bound, settings.loss_bound)
    if low >= high or (said is not None and (low, high) != said):
        data.refuse("low", "must be the low end of the losses in the settings", [low, high])
    return low, high, data.number("center", low, high)


def problem_from_dict(data: Reader, rank: int, settings: BanditSettings) -> BanditProblem:
    """The numbers of the bound, in a snapshot of a game with so many features and these settings."""
    sampled = settings.covariance == "sampled"
    shrink = settings.sample_error if sampled else 0.0
    if data.flag("bonus") != settings.bonus:
        data.refuse("bonus", "must be that of the settings", not settings.bonus)
    return BanditProblem(
        rounds=data.count("rounds", 1),
        rank=data.count("rank", rank, rank),
        leverage=data.number("leverage", positive=True),
        loss_bound=data.number("loss_bound", positive=True),
        epsilon=data.number("epsilon", 0),
        log_prior=data.number("log_prior", 0),
        bonus=settings.bonus,
        shrink=data.number("shrink", shrink, shrink),
        delay=data.count("delay", settings.delay, settings.delay),
    )


def printed_from_dict(data: Reader) -> dict[str, Any]:
    """What the paper says of the game, in a snapshot."""
    numbers = ("bound", "epsilon", "learning_rate", "exploration", "size")
    return {
        "profile": data.word("profile", ("exact", "polynomial", "exponential")),
        **{name: data.number(name, 0) for name in numbers},
        "rate": data.number("rate") if data.has("rate") else None,
        "rank": data.count("rank", 1),
    }


def points_engine(settings: BanditSettings) -> PointsEngine:
    """Points or a net, features, whitened by the design (Algorithm 1, lines 1 and 2)."""
    kernel, actions, proxy = settings.kernel, settings.actions, settings.proxy
    if isinstance(proxy, Proxy):
        points = proxy.points
    else:
        points = discretise(kernel, actions, settings.spacing, rank=least_rank(settings))
    N, sampled = len(points), settings.covariance == "sampled"
    log_prior = _log_prior(settings.prior, N)
    size = math.sqrt(float(np.max(to_numpy(kernel.diag(points.X)))))
    low, high, norm = settings.interval(size)
    centred = settings.loss_range is not None and settings.tuning == "sharp"
    center = (low + high) / 2 if centred else 0.0
    base = BanditProblem(
        rounds=settings.horizon or 10_000,
        rank=1,
        leverage=1.0,
        loss_bound=max(high - center, center - low),
        epsilon=0.0,
        log_prior=float(-log_prior.min()),
        bonus=settings.bonus,
        shrink=settings.sample_error if sampled else 0.0,
        delay=settings.delay,
    )

    def error(proxy: Proxy, rank: int) -> float:
        # Theory B1, the player on the points: √(max r · max r_Y) for Φ(y), y in all of the actions, and
        # ‖w‖ max √r for any w.
        played = float(proxy.point_curve[rank])
        general = settings.loss_class == "general"
        return math.sqrt(played * (norm**2 if general else float(proxy.residual_curve[rank])))

    paper_tuned = settings.tuning == "paper"
    printed = paper_says(settings, points, base.log_prior) if paper_tuned else {}
    chosen = choose_proxy(settings, points, base, error, printed)
    exact = chosen.method == "exact features" and chosen.epsilon < 1e-10 * chosen.residual_curve[0]
    features = to_numpy(chosen.features)
    if centred:
        scale = math.sqrt(float(chosen.residual_curve[0])) or 1.0
        features = np.column_stack([features, np.full(N, scale)])
    design = choose_design(features, settings.design)
    white = whiten(features, design).features
    problem = replace(
        base,
        rank=white.shape[1],
        leverage=float(np.max(np.sum(white**2, axis=1))),
        epsilon=0.0 if exact else error(chosen, chosen.rank),
    )
    rank_one = settings.loss_class == "rank-one" and problem.epsilon > 0
    return PointsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.asfortranarray(white),
        weights=np.array(to_numpy(design.weights), dtype=float),
        log_prior=log_prior,
        problem=problem,
        low=low,
        high=high,
        center=center,
        net=norm * step_beyond(kernel, actions, points),
        samples=choose_rates(settings, problem, printed).kappa if sampled else 0.0,
        proxy=chosen.method,
        losses="every loss is Φ(y) for an action y, or Σ c_i Φ(y_i) with Σ|c_i| ≤ 1, up to a constant"
        if rank_one
        else "every loss is in the kernel's RKHS, up to a constant, with the norm stated",
        printed=printed,
        eigenvalue=chosen.negative_eigenvalue,
    )


def _log_prior(prior: Any, N: int) -> Floats:
    if prior is None:
        return np.full(N, -math.log(N))
    prior = to_numpy(as_distribution("prior", prior, length=N))
    if prior.min() <= 0:
        raise ValueError(
            f"`prior` must be positive everywhere, got {prior.min():.6g} at {prior.argmin()}"
        )
    logs: Floats = np.log(prior)
    return logs
