"""What a ball makes of Algorithm 1 where losses are linear or quadratic: no net, no error (theory B5).

Everything that finitely many actions give by summing over them comes in closed form or by a one-dimensional integral:

- features φ(u) = (uu', u) or u of u = x/radius, and a constant where losses are centred;
- the prior is uniform on the ball, so q is exp(u'Bu + b'u) up to a factor, drawn from exactly (`QuadraticBall`);
- the design π is uniform on the sphere, with a point mass at 0 where there are squares and a constant;
- Σ = (1 - γ) E_q φφ' + γ Σ(π) from the fourth moments of q (`quadratic_moments`), to rounding.

Σ(π) does not change under rotations, so each epoch works in the eigenbasis of its own B, where the moments come from,
and only its estimates are turned back.
"""

from __future__ import annotations

import math
import reprlib
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Ball
from koloss.core import linalg
from koloss.core.arrays import as_points, to_numpy
from koloss.core.snapshot import Cached, kept
from koloss.designs.sphere import sphere_design
from koloss.guarantees.anytime import Level
from koloss.guarantees.bandit import BanditProblem, Rates, anytime_rate
from koloss.guarantees.base import Clause, clause
from koloss.kernels import QuadraticLoss
from koloss.learners.bandit.engine import Engine
from koloss.learners.bandit.settings import BanditSettings
from koloss.learners.bandit.setup import game_of
from koloss.learners.bandit.tuning import choose_rates
from koloss.learners.ledger import Drawn
from koloss.oracles.base import Minimum
from koloss.oracles.trust_region import minimize_quadratic_ball
from koloss.samplers.quadratic_ball import QuadraticBall
from koloss.samplers.quadratic_moments import pairs, quadratic_moments, turn_features

Floats = NDArray[np.float64]

AHEAD = 32
"""Most actions that an epoch of single decisions draws ahead: they are independent, and cheaper together."""

SHRINKS = np.geomspace(1e-15, 0.5, 3000)
"""δ: how much smaller than the ball is the neighbourhood of the best action that the player is compared with."""


@kept
@dataclass(slots=True)
class BallLaw:
    """q ∝ exp(u'Bu + b'u) of an epoch, and the factor of Σ in the eigenbasis of B."""

    factor: Any
    frame: Any  # eigenvectors of B, in its columns
    matrix: Any  # B
    vector: Any  # b
    gamma: float
    log_normalizer: float
    ahead: Any = None  # actions drawn and not yet handed out
    mean: Cached = None  # E φ under q, once it has been asked for

    def shrink(self) -> None:
        """Keep what late losses need."""
        self.matrix = self.vector = self.ahead = self.mean = None


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class BallEngine(Engine):
    """A game on a ball."""

    dimension: int
    radius: float
    quadratic: bool  # whether losses are quadratic; linear otherwise
    intercept: bool  # whether there is a constant feature
    sampler: QuadraticBall = field(default_factory=QuadraticBall, repr=False)

    place: ClassVar[tuple[str, ...]] = ("ball",)

    def _restored(self) -> None:
        d = self.dimension
        rank = d * (d + 1) // 2 * self.quadratic + d + self.intercept
        if d < 1 or self.problem.rank != rank:
            raise ValueError(
                f"a ball of dimension {d} must have {rank} features, got {self.problem.rank}"
            )

    @property
    def actions(self) -> Ball:
        return Ball(self.dimension, self.radius)

    @property
    def coordinates(self) -> int:
        return self.problem.rank

    @property
    def design(self) -> tuple[Floats, float]:
        """Σ(π), and the mass of π at 0."""
        return sphere_design(self.dimension, self.quadratic, self.intercept)

    def features(self, U: Floats, second: Floats | None = None) -> Floats:
        """φ of points of the unit ball, in the last axis; of the mean of a law and its `second` moments E φ."""
        parts = [U]
        if self.quadratic:
            _, i, j, factor = pairs(self.dimension)
            products = factor * U[..., i] * U[..., j] if second is None else factor * second[i, j]
            parts.insert(0, products)
        if self.intercept:
            parts.append(np.ones_like(U[..., :1]))
        return np.concatenate(parts, axis=-1)

    def coefficients(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """B, b and c of the function θ'φ(u) = u'Bu + b'u + c."""
        d = self.dimension
        matrix = np.zeros((d, d))
        if self.quadratic:
            table, _, _, factor = pairs(d)
            matrix = (theta[: len(factor)] / factor)[table]
            theta = theta[len(factor) :]
        return matrix, theta[:d], float(theta[d]) if self.intercept else 0.0

    # Algorithm 1.

    def law(
        self, theta: Floats | None, credit: Any, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> BallLaw:
        """The coefficients of q, Σ in their eigenbasis and its factor (lines 4 and 7)."""
        assert theta is not None
        matrix, vector, _ = self.coefficients(-eta * theta)
        moments = quadratic_moments(matrix, vector)
        sigma = moments.features(quadratic=self.quadratic, intercept=self.intercept, basis="eigen")
        factor = linalg.cholesky((1 - gamma) * sigma + gamma * self.design[0])
        if factor is None:  # Σ ⪰ γΣ(π), so γ is below rounding
            raise ArithmeticError(
                f"`exploration_rate` must leave the covariance positive definite, got {gamma:.6g}"
            )
        return BallLaw(factor, moments.axes, matrix, vector, gamma, moments.log_normalizer)

    def draw(self, law: BallLaw, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Points from (1 - γ)q + γπ (line 5); of a single one up to `left` are drawn ahead."""
        if count is not None:
            U = self._points(law, count, rng)
            return Drawn(U, self.radius * U, None, None)
        if law.ahead is None or len(law.ahead) == 0:
            law.ahead = self._points(law, min(left, AHEAD), rng)
        u, law.ahead = law.ahead[0].copy(), law.ahead[1:]
        return Drawn((u,), self.radius * u, None, None)

    def _points(self, law: BallLaw, count: int, rng: Any) -> Floats:
        """Points of the unit ball."""
        d, zero, sampler = self.dimension, self.design[1], self.sampler
        explore = rng.random(count) < law.gamma
        k = int(explore.sum())
        U = np.empty((count, d))
        directions = rng.standard_normal((k, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        directions[rng.random(k) < zero] = 0.0
        U[explore] = directions
        if k < count:
            U[~explore] = sampler.draw(law.matrix, law.vector, count - k, rng=rng).points
        else:  # what it remembers must not depend on coins
            sampler.look(law.matrix, law.vector)
        return U

    def estimate(self, law: BallLaw, points: Any, losses: Any) -> Any:
        """Σ_s Σ⁻¹ φ(a_s) loss_s (line 8), of one action or several."""
        rows = self.features(np.asarray(points) @ law.frame)
        turned = linalg.solve(law.factor, np.dot(losses, rows))
        return turn_features(turned, law.frame, quadratic=self.quadratic)

    # The end of an epoch (theory B3′).

    def rise(self, law: BallLaw, gamma: float, gain: Floats, mass: float) -> float:
        """Largest q·X - X(u) for the sum X of the epoch's estimates."""
        smallest, constant = self.minimum(gain)
        return float(self.mean_features(law) @ gain) - float(smallest.lower_bound + constant)

    def mean_features(self, law: BallLaw) -> Floats:
        """E φ under q, computed once for a law."""
        if law.mean is None:
            moments = quadratic_moments(law.matrix, law.vector)
            law.mean = self.features(moments.mean, moments.second)
        mean: Floats = law.mean
        return mean

    def reach(self, law: BallLaw, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        """Upper bound on q·X - X(u) for estimates that add up to `moved`: X(u)² ≤ X'Σ(π)X · u's leverage, at most m."""
        mean = self.mean_features(law)
        farthest = math.sqrt(float(moved @ self.design[0] @ moved) * self.problem.leverage)
        return float(mean @ moved) + farthest

    # What is known.

    def minimum(self, theta: Floats) -> tuple[Minimum, float]:
        """Global minimum of θ'φ on the unit ball, but for its constant, and that constant."""
        matrix, vector, constant = self.coefficients(theta)
        return minimize_quadratic_ball(matrix, vector), constant

    @property
    def size(self) -> str:
        return f"the whole ball, {self.problem.rank:,} features"

    def best(self, theta: Floats, mass: float) -> tuple[int | None, Floats, float]:
        """The action with the smallest θ'φ/mass, and that value."""
        smallest, constant = self.minimum(theta / mass)
        return None, self.radius * smallest.point, smallest.value + constant

    def values_at(self, theta: Floats, mass: float, X: Any) -> Floats:
        """θ'φ/mass of some actions, the rows of X."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        values: Floats = self.features(X / self.radius) @ (theta / mass)
        return values

    def log_density(self, law: BallLaw, X: Any) -> Floats:
        """log q of some points, the rows of X; -∞ outside the ball."""
        X = to_numpy(as_points("X", X, dimension=self.dimension))
        d, r, U = self.dimension, self.radius, X / self.radius
        log_volume = d * (math.log(math.pi) / 2 + math.log(r)) - math.lgamma(d / 2 + 1)
        exponent = np.sum((U @ law.matrix) * U, axis=1) + U @ law.vector
        logs = exponent - law.log_normalizer - log_volume
        return np.where(self.actions.contains(X), logs, -np.inf)

    def entropy(self, law: BallLaw) -> float:
        """Of q, relative to the uniform distribution: at most 0."""
        moments = quadratic_moments(law.matrix, law.vector)
        mean = float(np.sum(law.matrix * moments.second) + law.vector @ moments.mean)
        return law.log_normalizer - mean

    def for_norm(self, norm: float, settings: BanditSettings) -> Self:
        """Another norm makes another neighbourhood."""
        return replace(self, norm=norm, losses=_losses(self.quadratic, self.intercept, norm))

    def rates_at(self, t: int) -> tuple[float, float]:
        eta = anytime_rate(self.problem_at(t), self.rates.kappa, t)
        return eta, min(1.0, self.problem.exploration(eta, self.rates.kappa))

    def levels(self, n: int) -> list[Level]:
        """The game of the first n rounds, without a horizon, in blocks that begin at powers of two.

        In each η_t is at most that with the logarithm of its last round, and 1/η_t, which a misfit is charged by a root of, at most that
        with the logarithm of its first.
        """
        blocks = []
        for first in (1 << k for k in range(n.bit_length())):
            last = min(2 * first - 1, n)
            game, early = self.problem_at(last), self.problem_at(first)
            lag = (game.log_prior / early.log_prior) ** 0.25
            blocks.append((first, replace(game, misfit=lag * game.misfit)))
        return blocks

    def problem_at(self, t: int) -> BanditProblem:
        """d log(t + 1) in the place of log N (theory B4)."""
        return replace(self.problem, log_prior=self.dimension * math.log(t + 1))

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """The uniform law on a(1 - δ) + δ·ball, a the best action, for the δ that makes the bound small."""
        logs, beside = -self.dimension * np.log(SHRINKS), rounds * self.excess(SHRINKS)
        best = int(np.argmin(logs / eta + beside))
        return float(logs[best]), {"neighbourhood": float(beside[best])}

    def excess(self, delta: Any) -> Any:
        """Most that the mean loss of the neighbourhood exceeds that of the best action, per round; δ ≤ 1/2."""
        d, r, width = self.dimension, self.radius, self.high - self.low
        if not self.quadratic:
            # The mean is δ ℓ(0) + (1 - δ) ℓ(a), and ℓ(0) = 0 without a constant.
            width = width if self.intercept else self.high
            return delta * (min(width, self.norm * r))
        free = 4 * delta * (1 - delta) * width
        if math.isinf(self.norm):
            return free
        # ‖E Φ - Φ(a)‖, largest at |a| = radius or at a = 0.
        s, spread = 2 * delta - delta**2, delta**2 / (d + 2)
        inner = r**4 * d * spread**2
        outer = (delta * r) ** 2 + r**4 * (s**2 - 2 * s * spread) + inner
        return np.minimum(free, self.norm * np.sqrt(np.maximum(inner, outer)))

    def copy(self) -> BallEngine:
        """One whose sampler can be used without a trace in this one."""
        return replace(self, sampler=copy(self.sampler))


USELESS = {
    "tuning": "'sharp'",
    "proxy": "None",
    "rank": "'auto'",
    "design": "'john'",
    "prior": "None, uniform,",
    "covariance": "'exact'",
    "ridge": "'auto' or 0",
    "bonus": "'auto' or False",
    "regret": "'pseudo'",
}
"""Settings that a ball has no use for, and what they must be there."""


def ball_engine(settings: BanditSettings) -> BallEngine:
    """What follows from the settings on a ball (Algorithm 1, lines 1 and 2)."""
    for name, rule in USELESS.items():
        given = getattr(settings, name)
        if not settings.is_default(name) and not (name in ("ridge", "bonus") and given == 0):
            value = reprlib.repr(given)  # short, where it is an array
            raise ValueError(
                f"`{name}` must be {rule} where a whole ball is played, got {value}; give `spacing` to play a net"
            )
    actions, n = settings.actions, settings.horizon
    assert isinstance(actions, Ball)
    d, r = actions.dimension, float(actions.radius)
    quadratic = settings.kernel.loss_family is QuadraticLoss
    low, high, norm = settings.interval(math.sqrt(r**4 + r**2) if quadratic else r)
    intercept = settings.loss_range is not None
    m = len(sphere_design(d, quadratic, intercept)[0])
    promised = settings.loss_norm is not None or (settings.loss_bound is None and not intercept)
    norm = norm if promised else math.inf
    game, center = game_of(settings, d * math.log(2 * (n or 1)), low, high)
    engine = BallEngine(
        dimension=d,
        radius=r,
        quadratic=quadratic,
        intercept=intercept,
        norm=norm,
        problem=replace(game, rank=m, leverage=float(m), constant=False),
        low=low,
        high=high,
        center=center,
        losses=_losses(quadratic, intercept, norm),
        outside=settings.outside,
        learned=settings.learns_range,
        sign=settings.sign,
        rates=Rates(0.0, 0.0, 1.0),
    )
    for _ in range(6 if n is not None else 0):  # the best δ for η, the best η for δ
        eta = choose_rates(settings, engine.problem, None).learning_rate
        log_prior, _ = engine.comparator(engine.problem.rounds, eta)
        if log_prior == engine.problem.log_prior:
            break
        engine = replace(engine, problem=replace(engine.problem, log_prior=log_prior))
    return replace(engine, rates=choose_rates(settings, engine.problem, None))


def _losses(quadratic: bool, intercept: bool, norm: float) -> tuple[Clause, ...]:
    form = ("x'Ax + b'x" if quadratic else "b'x") + (" + c" if intercept else "")
    if math.isinf(norm):
        return (clause("form", form=form),)
    coefficients = "|A|² + |b|²" if quadratic else "|b|²"
    return (clause("form and norm", form=form, coefficients=coefficients, square=norm**2),)
