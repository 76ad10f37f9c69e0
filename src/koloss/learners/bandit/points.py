"""What finitely many actions make of Algorithm 1: features, whitened once, and laws that are vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from koloss.core import linalg
from koloss.core.arrays import as_distribution, to_numpy
from koloss.core.random import invert
from koloss.core.snapshot import Cached, ExtendedVector, Matrix, Vector, kept
from koloss.core.threads import single
from koloss.designs import Design
from koloss.designs.ridge import Leverage
from koloss.guarantees import bandit
from koloss.guarantees.anytime import Level
from koloss.learners.bandit.assumed import assumed
from koloss.learners.bandit.coordinates import without_units
from koloss.learners.bandit.doubts import short_cost
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.ridge import Schedule, choose_ridge_design, tuned_with
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.shares import Shares
from koloss.learners.ledger import Drawn

Floats = NDArray[np.float64]
Kind = TypeVar("Kind", bound="PointsEngine")


class Cache(dict[Any, Any]):
    """What is kept for when it comes again. It can be made again, so a copy has none."""

    def __reduce__(self) -> Any:
        return Cache, ()


@kept
@dataclass(slots=True)
class PointsLaw:
    """p of an epoch, and the Cholesky factor of its Σ."""

    factor: Any  # lower triangular, Fortran order
    p: Any
    cdf: Any
    # β(a) = b e(a) + ε s(a), without a penalty ε √(φ(a)'Σ⁻¹φ(a)); in hindsight + ν s(a)².
    bonus: Any = None
    around: Cached = None  # what `reach` needs of q, once it has been asked for

    def shrink(self) -> None:
        """Keep what late losses need: the factor, and the bonus where there is one."""
        self.p = self.cdf = None


@dataclass(slots=True)
class Remains:
    """What is left of a law for one decision, long after, beside the estimate of a loss of 1."""

    bonus: Any


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class PointsEngine(Engine):
    """A game on N actions with m features."""

    points: Matrix  # (N, d)
    features: Matrix  # (N, m), whitened: the design's covariance, plus Λ/γ, is the identity; Fortran order
    columns: Matrix | None  # (m, t): the penalty Λ = columns columns' is diagonal; None without one
    weights: Vector  # (N,), the design π
    log_prior: ExtendedVector  # (N,)
    net: float  # how much better than the best point of the net an action may be, per round
    schedule: Schedule | None = None  # of penalties, without a horizon
    leverage: float = 0.0  # of its design there; the problem has an upper bound, for any design
    design: str = "john"  # how it was chosen: "given", where it was not
    shares: Shares | None = None  # the laws that may be played; None: all

    def __post_init__(self) -> None:
        for array in (self.points, self.features, self.weights, self.log_prior):
            array.flags.writeable = False  # decisions hand out views of them
        object.__setattr__(self, "_buffer", linalg.work_space(self.features))
        columns = self.columns
        diagonal = None if columns is None else np.sum(columns * columns, axis=1)
        object.__setattr__(self, "_penalty", None if diagonal is None else np.diag(diagonal))
        awake = np.isfinite(self.log_prior)
        object.__setattr__(self, "_awake", None if awake.all() else awake)
        object.__setattr__(self, "_subsets", Cache())

    def _restored(self) -> None:
        self.__post_init__()

    @property
    def actions(self) -> Floats:
        return self.points

    @property
    def rows(self) -> int:
        """Of the features: actions, or pairs of a context and an action."""
        return len(self.features)

    @property
    def coordinates(self) -> int:
        return int(self.features.shape[1])

    def no_credit(self) -> Any:
        return self.as_credit(np.zeros(len(self.points)))

    def as_credit(self, values: Floats) -> Any:
        """Bonuses of all actions as they are kept."""
        return values

    # Algorithm 1.

    def scores(self, theta: Floats) -> Floats:
        """θ'φ(a) of every action."""
        scores: Floats = linalg.product(self.features, theta)
        return scores

    def mixture(
        self, theta: Floats | None, credit: Floats | None, eta: float, gamma: float
    ) -> Floats:
        """p = (1 - γ)q + γπ with q ∝ prior exp(-η θ'φ), in log space (lines 4 and 9); projected where there are shares."""
        score: Any = 0.0 if theta is None else self.scores(theta)
        log_q = eta * (score if credit is None else score - credit)
        np.subtract(self.log_prior, log_q, out=log_q)
        if self.shares is not None:
            q, awake = log_q, self._awake  # type: ignore[attr-defined]
            if awake is None:
                q = self.shares.project(log_q)
            else:
                q[~awake], q[awake] = 0.0, self.shares.project(log_q[awake])
            projected: Floats = (1 - gamma) * q + gamma * self.weights
            return projected
        log_q -= np.maximum.reduce(log_q)
        p: Floats = np.exp(log_q, out=log_q)  # in place: one array in the place of five
        p *= (1 - gamma) / np.add.reduce(p)
        p += gamma * self.weights
        return p

    def law(
        self, theta: Floats | None, credit: Floats | None, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> PointsLaw:  # fmt: skip
        """p, its cumulative sums, and the factor of Σ = E_p φφ' (lines 4 and 7); ν of a bonus on variance."""
        with single:
            p = self.mixture(theta, credit, eta, gamma)
            law = PointsLaw(self._factor(p, eta, rng), p, cumulative(p))
            if self.problem.bonus or self.problem.hindsight:
                law.bonus = self._bonus(law, nu)
        return law

    def _factor(self, p: Floats, eta: float, rng: Any) -> Any:
        """The factor of Σ, or of Σ + Λ."""
        buffer, penalty = self._buffer, self._penalty  # type: ignore[attr-defined]
        return linalg.covariance_factor(self.features, p, buffer, penalty)

    def _bonus(self, law: Any, nu: float) -> Any:
        """β(a) = b e(a) + ε s(a), at least the bias of the estimate of an action (theory F1.2), and ν s(a)² (theory F7)."""
        problem = self.problem
        b, epsilon = (problem.bias, problem.epsilon) if problem.bonus else (0.0, 0.0)
        if self.columns is None:
            s2 = self.leverages(law)
            return epsilon * np.sqrt(s2) + nu * s2
        penalty = self._penalty.diagonal()  # type: ignore[attr-defined]
        s2, e2 = linalg.penalised_leverages(law.factor, self.features, penalty)
        return b * np.sqrt(e2) + epsilon * np.sqrt(s2) + nu * s2

    def draw(self, law: PointsLaw, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Actions by inversion of the cumulative sums (line 5)."""
        if count is None:
            i = int(law.cdf.searchsorted(rng.random(), side="right"))
            return Drawn((i,), self.points[i], i, law.p.item(i))
        index = invert(law.cdf, rng.random(count))
        return Drawn(index.copy(), self.points.take(index, axis=0), index, law.p.take(index))

    def estimate(self, law: PointsLaw, rows: Any, losses: Any) -> Any:
        """Σ_s Σ⁻¹ φ(a_s) loss_s (line 8), of one action or several."""
        with single:
            phi = np.asarray(self.features[rows], dtype=np.float64)
            return linalg.solve(law.factor, np.dot(losses, phi))

    # The end of an epoch (theory B3′).

    def rise(self, law: PointsLaw, gamma: float, gain: Floats, mass: float) -> float:
        X = self.epoch_sums(law, gain, mass)
        if gamma >= 1:
            return float(np.max(X) - np.min(X))  # q has no part in p
        least = np.min(X) if self._awake is None else np.min(X[self._awake])  # type: ignore[attr-defined]
        return float(law.p @ X - gamma * (self.weights @ X)) / (1 - gamma) - float(least)

    def epoch_sums(self, law: PointsLaw, gain: Floats, mass: float) -> Floats:
        """X of every action."""
        X: Floats = linalg.product(self.features, gain)
        return X if law.bonus is None else X - mass * law.bonus

    def reach(self, law: PointsLaw, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        if law.around is None:
            law.around = self._around(law, gamma)
        farthest, bonus = law.around
        return float(math.sqrt(float(moved @ moved)) * farthest + mass * bonus)

    def _around(self, law: Any, gamma: float) -> tuple[float, float]:
        """max_a |φ(a) - φ̄| and max_a β(a) - q·β, with φ̄ the mean of the features under q."""
        lengths, bonus = linalg.squared_lengths(self.features), law.bonus
        if gamma >= 1:
            return 2 * math.sqrt(float(lengths.max())), 0.0 if bonus is None else float(bonus.max())
        q = (law.p - gamma * self.weights) / (1 - gamma)
        middle = linalg.weighted_sum(self.features, q)
        lengths = lengths - 2 * linalg.product(self.features, middle) + middle @ middle
        spread = 0.0 if bonus is None else float(bonus.max() - q @ bonus)
        return math.sqrt(max(float(lengths.max()), 0.0)), spread

    # What is known.

    def leverages(self, law: PointsLaw) -> Any:
        """φ(a)'Σ⁻¹φ(a) of every action."""
        return linalg.leverages(law.factor, self.features)

    def values(self, theta: Floats, mass: float) -> Any:
        """θ'φ(a)/mass of every action."""
        return self.scores(theta) / mass

    def best(self, theta: Floats, mass: float) -> tuple[int | None, Floats, float]:
        values = self.values(theta, mass)
        index = int(np.argmin(values))
        return index, self.points[index], float(values[index])

    def retuned(self, rounds: int, b: int = 1) -> Self:
        """The same features, with the rates for another number of rounds in epochs of at most b."""
        problem = replace(self.problem, rounds=rounds)
        if self.columns is None or problem.log_prior == 0:
            return replace(self, rates=bandit.tune(problem, b=b))
        leverage = Leverage(np.asarray(self.features, dtype=np.float64), self.weights, self.columns)
        tuned, cap = tuned_with(problem, leverage, b)
        gamma = tuned.exploration
        rates = replace(tuned, exploration=min(1.0, gamma))
        return replace(self, rates=rates, problem=replace(self.problem, leverage=gamma * cap))

    @property
    def size(self) -> str:
        N, m = self.features.shape[0], self.problem.rank
        return f"{N:,} points, {m:,} features, {short_cost(N, m)} per refresh"

    def become(self, kind: type[Kind], **changes: Any) -> Kind:
        """The same game, as an engine of another kind."""
        own = {one.name: getattr(self, one.name, None) for one in fields(kind)}
        return kind(**{**own, **changes})

    # What if.

    def for_norm(self, norm: float, settings: BanditSettings) -> Self:
        if math.isinf(self.norm):
            raise ValueError("`loss_norm` must be left out where `loss_class` is 'any'")
        if settings.loss_norm is None and self.problem.epsilon == 0 and self.problem.ridge is None:
            return self  # whatever its norm is
        problem, net = replace(self.problem, stretch=norm / self.norm), self.net * norm / self.norm
        losses = assumed(without_units(settings), norm, problem)
        return replace(self, problem=problem, net=net, losses=losses)

    # Without a horizon.

    def at(self, t: int) -> Self:
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
        features = np.asarray(self.features, dtype=np.float64)
        new = "john" if self.design == "john" else fixed
        design = choose_ridge_design(features, columns, cap, new)
        # The leverage falls with γ, and γ with time: that of the first round serves the whole level.
        said: dict[str, Any] = {
            "weights": design.weights,
            "leverage": design.exploration * design.largest,
        }
        return replace(self, columns=columns, problem=problem, level=level, **said)

    @property
    def cap(self) -> float:
        """The largest leverage that exploration may leave: that of the first round of a level, where there are levels."""
        eta, kappa = self.rates.learning_rate, self.rates.kappa
        if eta == 0:  # without a horizon
            schedule, first = self.schedule, 1
            if schedule is not None and self.level > schedule.level(1):
                first = schedule.first_round(self.level)
            eta = bandit.anytime_rate(self.problem, kappa, first)
        return float(self.problem.largest_leverage(eta, kappa))

    def rates_at(self, t: int) -> tuple[float, float]:
        eta = bandit.anytime_rate(self.problem, self.rates.kappa, t)
        share = self.leverage / self.problem.leverage if self.leverage else 1.0
        return eta, min(1.0, share * self.problem.exploration(eta, self.rates.kappa))

    def levels(self, n: int) -> list[Level]:
        if self.schedule is None:
            return [(1, self.problem)]
        return self.schedule.levels(self.problem, self.rates.kappa, n)

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        return self.problem.log_prior, {"net": self.net * rounds}

    def settle(self, law: Any) -> None:
        if law.p is not None and law.cdf is None:  # it was on a device
            law.cdf = cumulative(law.p)


@kept
class ArmsEngine(PointsEngine):
    """Actions that have nothing to do with each other: EXP3, with the design's exploration.

    The features are the indicators, so that Σ = diag(p), and an estimate is the loss over the probability.
    """

    def scores(self, theta: Floats) -> Floats:
        return theta

    def _factor(self, p: Floats, eta: float, rng: Any) -> Any:
        return p

    def estimate(self, law: PointsLaw, rows: Any, losses: Any) -> Any:
        total = np.zeros(len(law.factor))
        np.add.at(total, rows, np.asarray(losses) / law.factor[rows])
        return total

    def epoch_sums(self, law: PointsLaw, gain: Floats, mass: float) -> Floats:
        return gain if law.bonus is None else gain - mass * law.bonus

    def reach(self, law: PointsLaw, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        # It costs no less than the exact test, of what was added alone.
        return self.rise(law, gamma, moved, mass)

    def leverages(self, law: PointsLaw) -> Any:
        p = law.factor  # zero where an action is asleep
        return np.divide(1.0, p, out=np.zeros_like(p), where=p > 0)

    @property
    def coordinates(self) -> int:
        return len(self.points)

    @property
    def size(self) -> str:
        return f"{len(self.points):,} points, each on its own"


def cumulative(p: Floats) -> Floats:
    """What actions are drawn from, given their probabilities."""
    cdf: Floats = p.cumsum()
    cdf /= cdf[-1]
    return cdf


def log_prior_of(prior: Any, N: int) -> Floats:
    """Logarithms of the probabilities with which play begins, the uniform ones by default."""
    if prior is None:
        return np.full(N, -math.log(N))
    prior = to_numpy(as_distribution("prior", prior, length=N))
    if prior.min() <= 0:
        raise ValueError(
            f"`prior` must be positive everywhere, got {prior.min():.6g} at {prior.argmin()}"
        )
    logs: Floats = np.log(prior)
    return logs
