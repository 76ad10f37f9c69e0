"""What finitely many actions make of Algorithm 1: features, whitened once, and laws that are vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koloss import _linalg
from koloss._arrays import as_distribution, equal, to_numpy
from koloss._threads import threads_for
from koloss.actions import Points
from koloss.designs import Design, whiten
from koloss.designs.ridge import Leverage, whiten_ridge
from koloss.guarantees import bandit
from koloss.guarantees.bandit import BanditProblem, Rates, Ridge
from koloss.kernels import Gaussian
from koloss.kernels.algebra import Scaled, Sum
from koloss.learners.bandit.doubts import doubts, short_cost, warn_of_cost
from koloss.learners.bandit.loss_range import LossRange
from koloss.learners.bandit.ridge import (
    SHARES_EXPLORED,
    LossClass,
    Schedule,
    choose_ridge,
    choose_ridge_design,
    choose_schedule,
    exploration_curve,
    loss_class,
)
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.tuning import (
    all_features,
    choose_design,
    choose_proxy,
    choose_rates,
    is_exact,
    least_rank,
    paper_says,
)
from koloss.learners.ledger import Drawn
from koloss.learners.reading import FARTHEST, ROUNDING, SMALLEST, Reader
from koloss.proxy import Proxy
from koloss.proxy.base import discretise, step_beyond

Floats = NDArray[np.float64]
Shares = tuple[tuple[float, str], ...]


MANY_FEATURES = 512
"""So many are rarely used, but only the proxy will tell: for whether the set-up is worth threads."""

SAID = ("outside", "learned", "sign", "shares")
"""What an engine has from the settings alone, and a snapshot does not repeat."""


@dataclass(slots=True)
class PointsLaw:
    """p of an epoch, and the Cholesky factor of its Σ."""

    factor: Any  # lower triangular, Fortran order
    p: Any
    cdf: Any
    bonus: Any = (
        None  # β(a) = b e(a) + ε s(a), without a penalty ε √(φ(a)'Σ⁻¹φ(a)); in hindsight + ν s(a)²
    )

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
    features: Floats  # (N, m), whitened: the design's covariance, plus Λ/γ, is the identity; Fortran order
    columns: Floats | None  # (m, t): the penalty is Λ = columns columns'; None without one
    weights: Floats  # (N,), the design π
    log_prior: Floats  # (N,)
    problem: BanditProblem  # the numbers of the bound
    rates: Rates  # that minimise it, or those asked for
    low: float  # losses lie in [low, high], ...
    high: float
    center: float  # ... and this is subtracted before they are used
    net: float  # how much better than the best point of the net an action may be, per round
    samples: float  # κ of the rates where Σ is estimated from draws; 0 where it is exact
    outside: str  # what becomes of losses that are not in [low, high]
    learned: bool  # whether [low, high] is only a unit
    sign: int  # -1 where rewards are told
    norm: float  # W: that of losses, or Σ|c_i|; infinite where nothing is assumed of them
    proxy: str  # how the features were made
    losses: str  # what is assumed of losses
    printed: dict[str, Any]  # with the paper's tuning: what the paper says
    schedule: Schedule | None = None  # of penalties, without a horizon
    level: int = 0  # of the schedule
    leverage: float = 0.0  # of its design there; the problem has an upper bound, for any design
    design: str | None = None  # "john" where a new level has a new design
    eigenvalue: float = 0.0  # of the kernel, where one below zero was seen
    shares: Shares = ()  # of the norm, at the bandwidths of a sum of kernels

    place: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for array in (self.points, self.features, self.weights, self.log_prior):
            array.flags.writeable = False  # decisions hand out views of them
        object.__setattr__(self, "_buffer", np.empty_like(self.features))
        columns = self.columns
        object.__setattr__(self, "_penalty", None if columns is None else columns @ columns.T)
        length = float(np.max(np.sum(self.features**2, axis=1)))
        object.__setattr__(self, "_length", length)

    @property
    def actions(self) -> Floats:
        """The actions in play."""
        return self.points

    def loss_range(self) -> LossRange:
        """Where losses lie, before any is heard."""
        return LossRange(self.low, self.high, self.outside, self.learned)

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
        self, theta: Floats, credit: Floats | None, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> PointsLaw:  # fmt: skip
        """p, its cumulative sums, and the factor of Σ = E_p φφ' (lines 4 and 7); ν of a bonus on variance."""
        p = self.mixture(theta, credit, eta, gamma)
        cdf = np.cumsum(p)
        cdf /= cdf[-1]
        buffer, factor = self._buffer, None  # type: ignore[attr-defined]
        if self.samples:
            factor = _linalg.covariance_factor(self.features, self._sampled(p, eta, rng), buffer)
        if factor is None:  # exact, also where a sample fails to span the space
            penalty = self._penalty  # type: ignore[attr-defined]
            factor = _linalg.covariance_factor(self.features, p, buffer, penalty)
        law = PointsLaw(factor, p, cdf)
        if self.problem.bonus or self.problem.hindsight:
            law.bonus = self._bonus(law, nu)
        return law

    def _bonus(self, law: PointsLaw, nu: float) -> Any:
        """β(a) = b e(a) + ε s(a), at least the bias of the estimate of an action (theory F1.2), and ν s(a)² (theory F7)."""
        problem = self.problem
        b, epsilon = (problem.bias, problem.epsilon) if problem.bonus else (0.0, 0.0)
        if self.columns is None:
            s2 = self.leverages(law)
            return epsilon * np.sqrt(s2) + nu * s2
        s2, e2 = _linalg.penalised_leverages(law.factor, self.features, self.columns)
        return b * np.sqrt(e2) + epsilon * np.sqrt(s2) + nu * s2

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
        return math.sqrt(float(moved @ moved) * self._length)  # type: ignore[attr-defined]

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

    def retuned(self, rounds: int) -> PointsEngine:
        """The same features, with the rates for another number of rounds."""
        problem = replace(self.problem, rounds=rounds)
        if self.columns is None or problem.log_prior == 0:
            return replace(self, rates=bandit.tune(problem))
        leverage = Leverage(self.features, self.weights, self.columns)
        tuned = bandit.tune(problem, exploration_curve(leverage.at(SHARES_EXPLORED)))
        cap = problem.largest_leverage(tuned.learning_rate, tuned.kappa)
        gamma = leverage.exploration(cap)
        rates = replace(tuned, exploration=min(1.0, gamma))
        return replace(self, rates=rates, problem=replace(self.problem, leverage=gamma * cap))

    @property
    def size(self) -> str:
        """How large it is, and what a round may cost."""
        N, m = self.features.shape[0], self.problem.rank
        return f"{N:,} points, {m:,} features, {short_cost(N, m)} per refresh"

    # What if.

    def for_norm(self, norm: float) -> PointsEngine:
        """The same play, against losses of another norm."""
        if math.isinf(self.norm):
            raise ValueError("`loss_norm` must be left out where `loss_class` is 'any'")
        stretch, was = norm / self.norm, f"at most {self.norm:.6g}"
        losses = self.losses.replace(
            _protected(self.shares, self.norm), _protected(self.shares, norm)
        )
        losses = losses.replace(f"{was},", f"at most {norm:.6g},")
        losses = losses.replace(f"≤ {self.norm:.6g}", f"≤ {norm:.6g}")
        problem = replace(self.problem, stretch=stretch)
        return replace(self, problem=problem, net=self.net * stretch, losses=losses)

    def for_misfit(self, misfit: float) -> PointsEngine:
        """The same play, against losses that are up to so far from the class."""
        problem, near = replace(self.problem, misfit=misfit), f", up to {misfit:.6g} at any action"
        return replace(self, problem=problem, losses=self.losses + near)

    # Without a horizon.

    def at(self, t: int) -> PointsEngine:
        """The engine of round t: a schedule of penalties moves on."""
        if self.schedule is None or self.schedule.level(t) == self.level:
            return self
        schedule, level, kappa = self.schedule, self.schedule.level(t), self.rates.kappa
        problem = schedule.problem(self.problem, kappa, level)
        assert self.columns is not None
        columns = self.columns * 2.0 ** (self.level - level)
        eta = bandit.anytime_rate(problem, kappa, schedule.first_round(level))
        cap = problem.largest_leverage(eta, kappa)
        fixed = Design(self.weights, problem.rank, 0.0, "given")
        design = choose_ridge_design(self.features, columns, cap, self.design or fixed)
        # The leverage falls with γ, and γ with time: that of the first round serves the whole level.
        leverage = design.exploration * design.largest
        weights = design.weights
        moved = replace(self, columns=columns, weights=weights, problem=problem, level=level)
        return replace(moved, leverage=leverage)

    def rates_at(self, t: int) -> tuple[float, float]:
        """η and γ of round t of this level, without a horizon."""
        eta = bandit.anytime_rate(self.problem, self.rates.kappa, t)
        share = self.leverage / self.problem.leverage if self.leverage else 1.0
        return eta, min(1.0, share * self.problem.exploration(eta, self.rates.kappa))

    def levels(self, n: int) -> list[bandit.Level]:
        """The games of the first n rounds, without a horizon."""
        if self.schedule is None:
            return [(1, self.problem)]
        return self.schedule.levels(self.problem, self.rates.kappa, n)

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """log(1/prior) of what the player is compared with, and by name what that costs beside."""
        return self.problem.log_prior, {"net": self.net * rounds}

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        values = {k: v for k, v in self.__dict__.items() if k[0] != "_" and k not in SAID}
        schedule = None if self.schedule is None else self.schedule.to_dict()
        numbers = {"problem": asdict(self.problem), "rates": asdict(self.rates)}
        return {**values, **numbers, "schedule": schedule}

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
        problem = problem_from_dict(data.part("problem"), cls.rank_of(features), settings)
        columns, schedule = None, None
        if problem.ridge is not None:
            columns = data.array("columns", (features.shape[1], None))
        else:
            data.nothing("columns")
            cls._check_leverage(data, features, problem)
        if settings.horizon is None and problem.ridge is not None:
            schedule = Schedule.from_dict(data.part("schedule"))
        else:
            data.nothing("schedule")
        weights = data.distribution("weights", N)
        rates = rates_from_dict(data.part("rates"), settings.horizon)
        if columns is not None:
            _check_ridge(data, features, columns, weights, problem, rates)
        return cls(
            points=points,
            features=features,
            columns=columns,
            weights=weights,
            log_prior=log_prior,
            problem=problem,
            rates=rates,
            low=low,
            high=high,
            center=center,
            outside=settings.outside,
            learned=settings.learns_range,
            sign=settings.sign,
            norm=data.number("norm", positive=True, finite=False),
            schedule=schedule,
            level=data.count("level"),
            leverage=data.number("leverage", 0),
            design="john" if data.raw("design") else None,
            net=data.number("net", 0),
            samples=data.number("samples", 0, math.inf if settings.covariance == "sampled" else 0),
            proxy=data.word("proxy"),
            losses=data.word("losses"),
            eigenvalue=eigenvalue,
            shares=shares(settings.kernel),
            printed=printed_from_dict(data.part("printed")) if printed else {},
        )

    @classmethod
    def rank_of(cls, features: Floats) -> int:
        """How many features an array of them has."""
        return int(features.shape[1])

    @classmethod
    def _check_leverage(cls, data: Reader, features: Floats, problem: BanditProblem) -> None:
        leverage = float(np.max(np.einsum("ij,ij->i", features, features)))
        if not math.isclose(leverage, problem.leverage, rel_tol=ROUNDING):
            data.refuse("features", "must have the leverage of the problem", leverage)

    def save(self) -> None:
        """Nothing of it changes during a game."""

    def load(self, data: Reader, name: str) -> None:
        """Take back what `save` gave."""
        data.nothing(name)

    def law_from_dict(self, data: Reader, over: bool) -> PointsLaw:
        """A law that `to_dict` has made plain, of an epoch that is over or not."""
        N, m = self.features.shape
        law = PointsLaw(data.factor("factor", m), None, None)
        if self.problem.bonus or self.problem.hindsight:
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
    said: tuple[float, ...] | None = None
    if settings.loss_range is not None:
        said = settings.interval(1.0)[:2]
    elif settings.loss_bound is not None:
        said = (-settings.loss_bound, settings.loss_bound)
    if low >= high or (said is not None and (low, high) != said):
        data.refuse("low", "must be the low end of the losses in the settings", [low, high])
    return low, high, data.number("center", low, high)


def problem_from_dict(data: Reader, rank: int, settings: BanditSettings) -> BanditProblem:
    """The numbers of the bound, in a snapshot of a game with so many features and these settings."""
    sampled = settings.covariance == "sampled"
    shrink = settings.sample_error if sampled else 0.0
    bonus = data.flag("bonus")
    if settings.bonus not in ("auto", bonus):
        data.refuse("bonus", "must be that of the settings", bonus)
    ridge = ridge_from_dict(data.part("ridge")) if data.has("ridge") else None
    some = (
        data.number("log_prior", 0) > 0
    )  # with one action there is nothing to learn, and no ridge
    if (settings.ridge == 0 and ridge) or (
        some and settings.ridge not in ("auto", 0) and not ridge
    ):
        data.refuse("ridge", "must be that of the settings", settings.ridge)
    for name, only in (("stretch", 1.0), ("misfit", 0.0)):  # these are for questions, never kept
        data.number(name, only, only)
    if data.flag("learned") != settings.learns_range:
        data.refuse("learned", "must be that of the settings", settings.loss_range)
    hindsight = data.flag("hindsight")
    if hindsight != (settings.regret == "hindsight"):
        data.refuse("hindsight", "must be that of the settings", hindsight)
    return BanditProblem(
        rounds=data.count("rounds", 1),
        rank=data.count("rank", rank, rank),
        leverage=data.number("leverage", positive=True),
        loss_bound=data.number("loss_bound", positive=True),
        epsilon=data.number("epsilon", 0),
        log_prior=data.number("log_prior", 0),
        bonus=bonus,
        shrink=data.number("shrink", shrink, shrink),
        delay=data.count("delay", settings.delay, settings.delay),
        constant=data.flag("constant"),
        ridge=ridge,
        floor=data.number("floor", 0),
        learned=settings.learns_range,
        hindsight=hindsight,
    )


def _check_ridge(
    data: Reader,
    features: Floats,
    columns: Floats,
    weights: Floats,
    problem: BanditProblem,
    rates: Rates,
) -> None:
    """Refuse features that do not belong to their penalty and design."""
    gamma, good = rates.exploration, bool(features.any(axis=1).all())
    if good and 0 < gamma < 1:
        largest = Leverage(features, weights, columns)(gamma)
        good = math.isclose(gamma * largest, problem.leverage, rel_tol=1e-3)
    if not good:
        data.refuse("features", "must have the leverage of the problem", problem.leverage)


def ridge_from_dict(data: Reader) -> Ridge:
    """The penalty in a snapshot."""
    free, penalty = data.count("free"), data.number("penalty", positive=True)
    dimension = data.number("dimension", free)
    return Ridge(
        penalty=penalty,
        free=free,
        dimension=dimension,
        spread=data.number("spread", 0, dimension),
        bias=data.number("bias", 0),
        head_error=data.number("head_error", 0),
    )


def rates_from_dict(data: Reader, horizon: int | None) -> Rates:
    """The rates in a snapshot; zero without a horizon, where they change with time."""
    least = 0.0 if horizon is None else SMALLEST
    return Rates(
        data.number("learning_rate", least, 0.0 if horizon is None else math.inf),
        data.number("exploration", least, 1.0),
        data.number("kappa", positive=True),
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


class ArmsEngine(PointsEngine):
    """Actions that have nothing to do with each other: EXP3, with the design's exploration.

    The features are the indicators, so that Σ = diag(p), and an estimate is the loss over the probability.
    """

    def mixture(self, theta: Floats, credit: Floats | None, eta: float, gamma: float) -> Floats:
        score = theta if credit is None else theta - credit
        log_q = self.log_prior - eta * score
        q = np.exp(log_q - log_q.max())
        p: Floats = (1 - gamma) / q.sum() * q + gamma * self.weights
        return p

    def law(
        self, theta: Floats, credit: Floats | None, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> PointsLaw:  # fmt: skip
        p = self.mixture(theta, credit, eta, gamma)
        cdf = np.cumsum(p)
        cdf /= cdf[-1]
        return PointsLaw(p, p, cdf, nu / p if self.problem.hindsight else None)

    def estimate(self, law: PointsLaw, rows: Any, losses: Any) -> Any:
        total = np.zeros(len(law.factor))
        np.add.at(total, rows, np.asarray(losses) / law.factor[rows])
        return total

    def rise(self, law: PointsLaw, gain: Floats, mass: float) -> float:
        return float(np.max(-gain if law.bonus is None else mass * law.bonus - gain))

    def reach(self, law: PointsLaw, moved: Floats) -> float:
        return float(np.max(np.abs(moved))) if law.bonus is None else math.inf

    def leverages(self, law: PointsLaw) -> Any:
        return 1 / law.factor

    @property
    def size(self) -> str:
        return f"{len(self.points):,} points, each on its own"

    def values(self, theta: Floats, mass: float) -> Any:
        return theta / mass

    def law_from_dict(self, data: Reader, over: bool) -> PointsLaw:
        N = len(self.points)
        law = PointsLaw(data.distribution("factor", N), None, None)
        if self.problem.hindsight:
            law.bonus = data.array("bonus", (N,), 0)
        else:
            data.nothing("bonus")
        if over:
            data.nothing("p", "cdf")
            return law
        law.p, law.cdf = data.distribution("p", N), data.array("cdf", (N,), 0, 1)
        return law

    @classmethod
    def rank_of(cls, features: Floats) -> int:
        return len(features)

    @classmethod
    def _check_leverage(cls, data: Reader, features: Floats, problem: BanditProblem) -> None:
        if problem.leverage != len(features):
            data.refuse("problem.leverage", "must be the number of actions", problem.leverage)


def points_engine(settings: BanditSettings, *, trial: bool = False) -> PointsEngine:
    """Points or a net, features, whitened by the design (Algorithm 1, lines 1 and 2); a trial warns of nothing."""
    kernel, actions, proxy = settings.kernel, settings.actions, settings.proxy
    if isinstance(proxy, Proxy):
        points = proxy.points
    else:
        rounds, rank = settings.horizon or 10_000, least_rank(settings)
        points = discretise(kernel, actions, settings.spacing, rank=rank, rounds=rounds)
    log_prior = _log_prior(settings.prior, len(points))
    size, distance = _sizes(kernel, points)
    low, high, norm = settings.interval(size, distance)
    centred = settings.loss_range is not None and settings.tuning == "sharp"
    center = (low + high) / 2 if centred else 0.0
    game = BanditProblem(
        rounds=settings.horizon or 10_000,
        rank=1,
        leverage=1.0,
        loss_bound=max(high - center, center - low),
        epsilon=0.0,
        log_prior=float(-log_prior.min()),
        shrink=settings.sample_error if settings.covariance == "sampled" else 0.0,
        delay=settings.delay,
        constant=centred,
        learned=settings.learns_range,
        hindsight=settings.regret == "hindsight",
    )
    if not trial:
        doubts(settings, points, size, distance, norm)
    if settings.loss_class == "any":
        return arms_engine(settings, points, game, log_prior, low, high)
    hull = settings.loss_class == "rank-one"
    with threads_for(len(points) * min(len(points), MANY_FEATURES) ** 2):
        printed = paper_says(settings, points, game.log_prior) if settings.tuning == "paper" else {}
        best = min(_candidates(settings, points, game, hull, norm, printed), key=lambda c: c.bound)
    problem = best.problem
    if not trial:
        warn_of_cost(len(points), problem.rank)
    return PointsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.asfortranarray(best.features),
        columns=best.columns,
        weights=np.array(best.weights, dtype=float),
        log_prior=log_prior,
        problem=problem,
        rates=best.rates,
        low=low,
        high=high,
        center=center,
        net=norm * (size if hull else 1.0) * step_beyond(kernel, actions, points),
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        norm=norm,
        level=best.schedule.level(1) if best.schedule else 0,
        leverage=best.leverage,
        samples=best.rates.kappa if settings.covariance == "sampled" else 0.0,
        proxy=best.proxy,
        losses=_assumed(settings, norm, problem, net=not isinstance(actions, Points)),
        shares=shares(kernel),
        printed=printed,
        schedule=best.schedule,
        design="john" if settings.is_default("design") else None,
        eigenvalue=best.eigenvalue,
    )


def arms_engine(
    settings: BanditSettings,
    points: Points,
    game: BanditProblem,
    log_prior: Floats,
    low: float,
    high: float,
) -> ArmsEngine:
    """Any losses at all: every action is a feature of its own, whatever the kernel (theory F8)."""
    if points is not settings.actions:
        raise ValueError(
            f"`loss_class` of 'any' must have a finite set of actions, got {settings.actions!r}"
        )
    N = len(points)
    problem = replace(game, rank=N, leverage=float(N), constant=True)
    return ArmsEngine(
        points=np.array(to_numpy(points.X), dtype=float),
        features=np.zeros((N, 0), order="F"),
        columns=None,
        weights=np.full(N, 1 / N),
        log_prior=log_prior,
        problem=problem,
        rates=choose_rates(settings, problem),
        low=low,
        high=high,
        center=(low + high) / 2,
        net=0.0,
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        norm=math.inf,
        samples=0.0,
        proxy="indicators",
        losses="",
        printed={},
    )


def _sizes(kernel: Any, points: Points) -> tuple[float, float]:
    """𝒢 = max √K(a, a), and how far Φ(a) is at most from Φ of the action where that is."""
    diagonal = to_numpy(kernel.diag(points.X))
    first = int(np.argmax(diagonal))
    column = to_numpy(kernel(points.X, points.X[first : first + 1, :]))[:, 0]
    distance = float(np.max(diagonal + diagonal[first] - 2 * column))
    return math.sqrt(float(diagonal[first])), math.sqrt(max(distance, 0.0))


def shares(kernel: Any) -> Shares:
    """√w_k and the bandwidth of a Gaussian kernel, or of every part of a sum of such, w_k K_k; of other kernels, none.

    What has a norm of √w_k W in the space of K_k has one of at most W in that of the sum (theory F4).
    """
    found: list[tuple[float, str]] = []
    parts = [(1.0, kernel)]
    while parts:
        weight, part = parts.pop()
        if isinstance(part, Sum):
            parts += [(weight, part.right), (weight, part.left)]
        elif isinstance(part, Scaled):
            parts.append((weight * part.scale, part.kernel))
        elif isinstance(part, Gaussian):
            lengths = np.atleast_1d(part.bandwidth).tolist()
            text = ", ".join(f"{length:.4g}" for length in lengths)
            found.append((math.sqrt(weight), f"({text})" if len(lengths) > 1 else text))
        else:
            return ()
    return tuple(found)


def _protected(shares: Shares, norm: float) -> str:
    """Norms at bandwidths, which together make a norm in the space of a sum of kernels."""
    if not shares:
        return ""
    if shares[0][0] == 1:
        return f" (bandwidth {shares[0][1]})"
    each = ", ".join(f"{norm * share:.4g} at bandwidth {text}" for share, text in shares)
    mixed = "; or sums of such, if their shares of these norms, squared, add up to 1 or less"
    return f" (norms of at most {each}{mixed if len(shares) > 1 else ''})"


def _assumed(settings: BanditSettings, norm: float, problem: BanditProblem, *, net: bool) -> str:
    if problem.epsilon == 0 and problem.ridge is None:
        return "every loss is in the kernel's RKHS, up to a constant"
    unit = " ρ" if settings.learns_range else ""  # the norm is a multiple of the range then
    if settings.loss_class == "rank-one":
        places = "points y_i of the net" if net else "actions y_i"
        sums = f"Σ|c_i| ≤ {norm:.6g}{unit}"
        return f"every loss is Σ c_i Φ(y_i) with {places} and {sums}, up to a constant"
    general = f"every loss is in the kernel's RKHS with a norm of at most {norm:.6g}{unit}"
    return f"{general}, up to a constant{_protected(shares(settings.kernel), norm)}"


# Features, chosen by the bound.


class Candidate(NamedTuple):
    """Features and a penalty with which the game could be played, and what is proved then."""

    bound: float
    features: Floats
    columns: Floats | None
    weights: Any
    problem: BanditProblem
    rates: Rates
    proxy: str
    eigenvalue: float
    schedule: Schedule | None = None
    leverage: float = 0.0


def _candidates(
    settings: BanditSettings,
    points: Points,
    game: BanditProblem,
    hull: bool,
    norm: float,
    printed: dict[str, Any],
) -> Iterator[Candidate]:
    """Without a penalty, as many features as the bound asks for; with one, all of them (theory F1)."""
    bonuses = (False, True) if settings.bonus == "auto" else (settings.bonus,)
    plain = (
        settings.wants_no_ridge or game.log_prior == 0
    )  # with one action there is nothing to learn
    if plain:
        bonuses = bonuses[:1]
    if plain or settings.ridge in ("auto", 0):
        for bonus in bonuses:
            yield _plain(settings, points, replace(game, bonus=bonus), hull, norm, printed)
    if not plain and settings.ridge != 0:
        penalised = replace(game, bonus=settings.bonus is not False)
        yield from _penalised(settings, points, penalised, hull, norm)


def _plain(
    settings: BanditSettings,
    points: Points,
    game: BanditProblem,
    hull: bool,
    norm: float,
    printed: dict[str, Any],
) -> Candidate:
    def error(proxy: Proxy, rank: int) -> float:
        return loss_class(proxy, hull, norm).error(rank)

    chosen = choose_proxy(settings, points, game, error, printed)
    features = to_numpy(chosen.features)
    if game.constant:
        scale = math.sqrt(float(chosen.residual_curve[0])) or 1.0
        features = np.column_stack([features, np.full(len(points), scale)])
    design = choose_design(features, settings.design)
    white = whiten(features, design).features
    problem = replace(
        game,
        rank=white.shape[1],
        leverage=float(np.max(np.sum(white**2, axis=1))),
        epsilon=0.0 if is_exact(chosen) else error(chosen, chosen.rank),
    )
    rates = choose_rates(settings, problem, printed)
    weights = to_numpy(design.weights)
    bound = _bound(settings, problem, rates)
    below = chosen.negative_eigenvalue
    return Candidate(bound, white, None, weights, problem, rates, chosen.method, below)


def _penalised(
    settings: BanditSettings, points: Points, game: BanditProblem, hull: bool, norm: float
) -> Iterator[Candidate]:
    proxy = all_features(settings, points)
    losses = loss_class(proxy, hull, norm)
    if settings.horizon is None:
        yield from _scheduled(settings, proxy, losses, game)
        return
    given = None if settings.ridge == "auto" else float(settings.ridge)
    choice = choose_ridge(to_numpy(proxy.features), losses, game, given)
    if choice is None:
        return
    problem, rank = choice.problem, choice.rank
    features = to_numpy(proxy.features)[:, :rank]
    features, columns = _with_penalty(features, choice.head, choice.penalty, game.constant)
    eta, kappa = choice.rates.learning_rate, choice.rates.kappa
    if settings.learning_rate is not None:
        eta = settings.learning_rate
    cap = problem.largest_leverage(eta, kappa)
    design = choose_ridge_design(features, columns, cap, settings.design)
    white, columns = whiten_ridge(features, columns, design)
    gamma, largest = design.exploration, design.largest
    if settings.exploration_rate is not None:
        gamma = settings.exploration_rate
        largest = Leverage(white, design.weights, columns)(gamma)
    problem = replace(problem, leverage=gamma * largest)
    rates = Rates(eta, min(1.0, gamma), problem.rise(eta, gamma))
    bound = _bound(settings, problem, rates)
    weights, method, below = design.weights, proxy.method, proxy.negative_eigenvalue
    yield Candidate(bound, white, columns, weights, problem, rates, method, below)


def _scheduled(
    settings: BanditSettings, proxy: Proxy, losses: LossClass, game: BanditProblem
) -> Iterator[Candidate]:
    """A penalty that falls with time; where one is given, it stays (theory F1.8)."""
    features = to_numpy(proxy.features)
    given = None if settings.ridge == "auto" else float(settings.ridge)
    chosen = choose_schedule(features, losses, game, given)
    if chosen is None:
        return
    schedule, kappa, bound = chosen
    game = replace(game, rank=proxy.rank + int(game.constant), epsilon=losses.error(proxy.rank))
    problem = schedule.problem(game, kappa, schedule.level(1))
    features, columns = _with_penalty(features, 0, schedule.penalty, game.constant)
    columns = columns * 2.0 ** -schedule.level(1)
    eta = bandit.anytime_rate(problem, kappa, 1)
    cap = problem.largest_leverage(eta, kappa)
    design = choose_ridge_design(features, columns, cap, settings.design)
    white, columns = whiten_ridge(features, columns, design)
    rates, leverage = Rates(0.0, 0.0, kappa), design.exploration * design.largest
    weights, method, below = design.weights, proxy.method, proxy.negative_eigenvalue
    yield Candidate(
        bound, white, columns, weights, problem, rates, method, below, schedule, leverage
    )


def _with_penalty(
    features: Floats, head: int, penalty: float, constant: bool
) -> tuple[Floats, Floats]:
    """The constant, where it is one, and all features; and Λ = columns columns', which leaves out the head."""
    N, rank = features.shape
    if constant:
        features = np.column_stack([np.ones(N), features])
    columns = math.sqrt(penalty) * np.eye(rank + constant)[:, head + constant :]
    return features, columns


def _bound(settings: BanditSettings, problem: BanditProblem, rates: Rates) -> float:
    """By which candidates are compared: for epochs of one round."""
    if problem.log_prior == 0:
        return float(problem.rank)
    if settings.horizon is None:
        return sum(bandit.anytime_terms([(1, problem)], rates.kappa, problem.rounds).values())
    return float(sum(problem.terms(rates.learning_rate, rates.kappa).values()))


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
