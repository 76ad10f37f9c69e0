"""Algorithm 1 on a ball with linear or quadratic losses, without a net and without an error.

The learner is that of `bandit_exp_weights`, with everything that a finite set gives by summing over it in closed form or
by a one-dimensional integral (theory B5):

- features φ(u) = (uu', u) or u of u = x/radius, and a constant where losses are centred;
- the prior is uniform on the ball, so q is exp(u'Bu + b'u) up to a factor, drawn from exactly (`QuadraticBall`);
- the design π is uniform on the sphere, with a point mass at 0 where there are squares and a constant: G-optimal,
  its largest leverage is the number m of features, and Σ(π) is known;
- Σ = (1 - γ) E_q φφ' + γ Σ(π) from the fourth moments of q (`quadratic_moments`), to rounding.

Σ(π) does not change under rotations, so each epoch works in the eigenbasis of its own B, where the moments come from,
and only its estimates are turned back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.linalg.lapack import dpotrf

from koloss._arrays import as_int, as_points, to_numpy
from koloss.actions import Ball
from koloss.guarantees.bandit import BanditProblem
from koloss.kernels import Linear, Quadratic
from koloss.learners.bandit.epoch import Epoch
from koloss.learners.bandit.exp_weights import BanditExpWeights
from koloss.learners.bandit.records import Recommendation
from koloss.learners.bandit.setup import (
    Settings,
    check_words,
    choose_batch,
    choose_rates,
    loss_interval,
    needs_no_net,
)
from koloss.oracles.base import Minimum
from koloss.oracles.trust_region import minimize_quadratic_ball
from koloss.samplers.quadratic_ball import QuadraticBall
from koloss.samplers.quadratic_moments import pairs, quadratic_moments, turn_features

AHEAD = 32
"""Most actions that an epoch of single decisions draws ahead: they are independent, and cheaper together."""

SHRINKS = np.geomspace(1e-15, 0.5, 3000)
"""δ: how much smaller than the ball is the neighbourhood of the best action that the player is compared with."""


@dataclass(frozen=True, kw_only=True)
class BallSetup(Settings):
    """What stays fixed during the game on a ball.

    Attributes
    ----------
    dimension : int
    radius : float
    quadratic : bool
        Whether losses are quadratic; linear otherwise.
    intercept : bool
        Whether there is a constant feature.
    norm : float or None
        Bound on the RKHS norm of losses, where one is promised.
    """

    dimension: int
    radius: float
    quadratic: bool
    intercept: bool
    norm: float | None

    place: ClassVar[str] = " on the ball (B5)"

    @property
    def design(self) -> Any:
        """Σ(π)."""
        return sphere_design(self.dimension, self.quadratic, self.intercept)[0]

    @property
    def zero(self) -> float:
        """Mass of π at 0."""
        return sphere_design(self.dimension, self.quadratic, self.intercept)[1]

    def features(self, U: Any) -> Any:
        """φ of points of the unit ball, in the last axis."""
        parts = [U]
        if self.quadratic:
            _, i, j, factor = pairs(self.dimension)
            parts.insert(0, factor * U[..., i] * U[..., j])
        if self.intercept:
            parts.append(np.ones_like(U[..., :1]))
        return np.concatenate(parts, axis=-1)

    def coefficients(self, theta: Any) -> tuple[Any, Any, float]:
        """B, b and c of the function θ'φ(u) = u'Bu + b'u + c."""
        d = self.dimension
        matrix = np.zeros((d, d))
        if self.quadratic:
            table, _, _, factor = pairs(d)
            matrix = (theta[: len(factor)] / factor)[table]
            theta = theta[len(factor) :]
        return matrix, theta[:d], float(theta[d]) if self.intercept else 0.0

    def minimum(self, theta: Any) -> tuple[Minimum, float]:
        """Global minimum of θ'φ on the unit ball, but for its constant, and that constant."""
        matrix, vector, constant = self.coefficients(theta)
        return minimize_quadratic_ball(matrix, vector), constant

    def problem_at(self, t: int) -> BanditProblem:
        """d log(t + 1) in the place of log N (theory B4)."""
        return replace(self.problem, log_prior=self.dimension * math.log(t + 1))

    def comparator(self, rounds: int, eta: float) -> tuple[float, dict[str, float]]:
        """The uniform law on a(1 - δ) + δ·ball, a the best action, for the δ that makes the bound small."""
        logs, beside = -self.dimension * np.log(SHRINKS), rounds * self.excess(SHRINKS)
        best = int(np.argmin(logs / eta + beside))
        return float(logs[best]), {"neighbourhood": float(beside[best])}

    def excess(self, delta: Any) -> Any:
        """Most that the mean loss of the neighbourhood exceeds that of the best action, a round; δ ≤ 1/2."""
        d, r, width = self.dimension, self.radius, self.high - self.low
        if not self.quadratic:
            # The mean is δ ℓ(0) + (1 - δ) ℓ(a), and ℓ(0) = 0 without a constant.
            width = width if self.intercept else self.high
            return delta * (width if self.norm is None else min(width, self.norm * r))
        free = 4 * delta * (1 - delta) * width
        if self.norm is None:
            return free
        # ‖E Φ - Φ(a)‖, largest at |a| = radius or at a = 0.
        s, spread = 2 * delta - delta**2, delta**2 / (d + 2)
        inner = r**4 * d * spread**2
        outer = (delta * r) ** 2 + r**4 * (s**2 - 2 * s * spread) + inner
        return np.minimum(free, self.norm * np.sqrt(np.maximum(inner, outer)))


@lru_cache(maxsize=8)
def sphere_design(dimension: int, quadratic: bool, intercept: bool) -> tuple[Any, float]:
    """Σ(π) of the G-optimal design on the unit ball, and its mass at 0; the rest is uniform on the sphere (theory B5).

    Its largest leverage is the number m of features, at every point of the sphere.
    """
    d = dimension
    n = d * (d + 1) // 2 if quadratic else 0
    m = n + d + intercept
    zero = 1 / m if quadratic and intercept else 0.0
    sigma = np.zeros((m, m))
    squares, linear = np.arange(d), n + np.arange(d)
    sigma[linear, linear] = (1 - zero) / d
    if quadratic:
        sigma[np.arange(n), np.arange(n)] = 2 * (1 - zero) / (d * (d + 2))
        sigma[:d, :d] += (1 - zero) / (d * (d + 2))
    if intercept:
        sigma[-1, -1] = 1.0
        if quadratic:
            sigma[squares, -1] = sigma[-1, squares] = (1 - zero) / d
    sigma.flags.writeable = False
    return sigma, zero


def prepare_ball(
    actions: Ball,
    kernel: Linear | Quadratic,
    *,
    horizon: int | None,
    loss_bound: float | None,
    loss_range: tuple[float, float] | None,
    loss_norm: float | None,
    batch: int | Literal["auto"],
    covariance: str,
    bonus: bool,
    prior: Any,
    adversary: str,
    delay: int,
    learning_rate: float | None,
    exploration_rate: float | None,
    **other: Any,
) -> BallSetup:
    """Check all settings and compute what they imply."""
    if not needs_no_net(actions, kernel, other):
        raise ValueError(
            f"`actions` and `kernel` must be a ball and Linear or Quadratic, without settings that speak of a "
            f"net, got {actions!r} and {kernel!r}"
        )
    check_words(other["tuning"], covariance, adversary, bonus)
    _refuse("bonus", bonus, "False on a ball, where the features have no error")
    _refuse("covariance", covariance == "sampled", "'exact' on a ball, where it needs no sample")
    _refuse("prior", prior is not None, "None on a ball, where it is uniform")
    horizon = None if horizon is None else as_int("horizon", horizon, minimum=1)
    delay = as_int("delay", delay, minimum=0)
    d, r, quadratic = actions.dimension, actions.radius, isinstance(kernel, Quadratic)
    size = math.sqrt(r**4 + r**2) if quadratic else r
    low, high, norm = loss_interval(size, loss_bound, loss_range, loss_norm)
    intercept = loss_range is not None
    center = (low + high) / 2 if intercept else 0.0
    m = len(sphere_design(d, quadratic, intercept)[0])
    problem = BanditProblem(
        rounds=horizon or 10_000,
        rank=m,
        leverage=float(m),
        loss_bound=high - center,
        epsilon=0.0,
        log_prior=d * math.log(2 * (horizon or 1)),
        delay=delay,
    )
    promised = loss_norm is not None or (loss_bound is None and loss_range is None)
    setup = BallSetup(
        problem=problem,
        rates=choose_rates(problem, horizon, {}, learning_rate, exploration_rate),
        tuning="sharp",
        horizon=horizon,
        batch=choose_batch(batch, problem, "sharp", delay),
        center=center,
        low=low,
        high=high,
        names={
            "kernel": repr(kernel),
            "actions": repr(actions),
            "proxy": "exact features",
            "design": "uniform on the sphere",
            "adversary": adversary,
            "losses": _losses(quadratic, intercept, norm if promised else None),
        },
        dimension=d,
        radius=r,
        quadratic=quadratic,
        intercept=intercept,
        norm=norm if promised else None,
    )
    for _ in range(6 if horizon is not None else 0):  # the best δ for η, the best η for δ
        log_prior, _ = setup.comparator(problem.rounds, setup.rates.learning_rate)
        if log_prior == problem.log_prior:
            break
        problem = replace(problem, log_prior=log_prior)
        rates = choose_rates(problem, horizon, {}, learning_rate, exploration_rate)
        setup = replace(setup, problem=problem, rates=rates)
    return setup


def _refuse(name: str, given: bool, rule: str) -> None:
    if given:
        raise ValueError(f"`{name}` must be {rule}; give `spacing` to play a net instead")


def _losses(quadratic: bool, intercept: bool, norm: float | None) -> str:
    form = ("x'Ax + b'x" if quadratic else "b'x") + (" + c" if intercept else "")
    bound = ""
    if norm is not None:
        bound = f" with {'|A|² + |b|²' if quadratic else '|b|²'} at most {norm**2:.6g}"
    return f"every loss is {form}{bound}"


@dataclass(slots=True)
class BallEpoch(Epoch):
    """An epoch on a ball; its factor is that of Σ in the eigenbasis of B."""

    frame: Any = None  # eigenvectors of B, in its columns
    matrix: Any = None  # B of q ∝ exp(u'Bu + b'u)
    vector: Any = None  # b
    log_normalizer: float = 0.0
    ahead: Any = None  # actions drawn and not yet handed out

    def end(self) -> None:
        Epoch.end(self)
        self.matrix = self.vector = self.ahead = None

    def drift(self, setup: Any) -> float:
        found, constant = setup.minimum(self.gain)
        return max(0.0, -self.eta * float(found.lower_bound + constant))

    def reach(self, setup: Any) -> float:
        # X(u)² ≤ X'Σ(π)X · u's leverage, at most m.
        moved = self.gain - self.anchor
        return math.sqrt(float(moved @ setup.design @ moved) * setup.problem.leverage)


class BallBandit(BanditExpWeights):
    """Exponential weights under bandit feedback on a ball, for linear or quadratic losses: no net, no error.

    `BanditExpWeights(kl.Ball(d, radius), kl.Quadratic() or kl.Linear(), ...)` makes one. Settings are those of
    `BanditExpWeights`, except that `prior` must be uniform, `covariance` exact, and `bonus` off. Decisions have
    neither an index nor a probability. The bound has d log(1/δ) in the place of log N, and the term "neighbourhood"
    for the loss of a neighbourhood of the best action beyond its own.

    Where losses are said to lie in an interval (`loss_range`, `loss_bound`) and nothing is said of their norm, nothing
    is assumed of it either.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> best = np.array([0.3, -0.2, 0.1, 0.4, -0.5])
    >>> learner = kl.BanditExpWeights(
    ...     kl.Ball(5), kl.Quadratic(), horizon=20_000, loss_range=(0, 4), rng=0
    ... )
    >>> for _ in range(400):
    ...     batch = learner.ask(50)
    ...     learner.tell(batch, np.sum((batch.action - best) ** 2, axis=1))
    >>> bool(np.linalg.norm(learner.recommend().action - best) < 0.3)
    True
    """

    _prepare = staticmethod(prepare_ball)  # type: ignore[assignment]
    _setup_type = BallSetup
    _epoch_type = BallEpoch

    def _ready(self) -> None:
        self._sampler = QuadraticBall()

    @property
    def actions(self) -> Ball:
        """The ball."""
        return Ball(self.setup.dimension, self.setup.radius)

    # Algorithm 1.

    def _new_epoch(self, eta: float, gamma: float, whole: bool) -> BallEpoch:
        """The coefficients of q, Σ in their eigenbasis and its factor (lines 4 and 7)."""
        setup = self.setup
        matrix, vector, _ = setup.coefficients(-eta * self._theta)
        moments = quadratic_moments(matrix, vector)
        sigma = moments.features(
            quadratic=setup.quadratic, intercept=setup.intercept, basis="eigen"
        )
        sigma = (1 - gamma) * sigma + gamma * setup.design
        factor, failed = dpotrf(sigma, lower=1)
        if failed:  # Σ ⪰ γΣ(π), so γ is below rounding
            raise ArithmeticError(
                f"`exploration_rate` must leave the covariance positive definite, got {gamma:.6g}"
            )
        epoch = BallEpoch(
            self._tally.epochs,
            eta,
            gamma,
            1.0 if setup.horizon is not None else 1 - gamma,
            whole,
            factor,
            frame=moments.axes,
            matrix=matrix,
            vector=vector,
            log_normalizer=moments.log_normalizer,
        )
        epoch.gain = epoch.anchor = np.zeros_like(self._theta)
        return epoch

    def _sample(self, epoch: Any, count: int) -> Any:
        """Points of the unit ball from (1 - γ)q + γπ (line 5)."""
        d, rng = self.setup.dimension, self._rng
        explore = rng.random(count) < epoch.gamma
        k = int(explore.sum())
        U = np.empty((count, d))
        directions = rng.standard_normal((k, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        directions[rng.random(k) < self.setup.zero] = 0.0
        U[explore] = directions
        if k < count:
            U[~explore] = self._sampler.draw(epoch.matrix, epoch.vector, count - k, rng=rng).points
        return U

    def _draw_one(self, epoch: Any) -> tuple[Any, Any, None, None]:
        if epoch.ahead is None or len(epoch.ahead) == 0:
            epoch.ahead = self._sample(epoch, min(self.setup.batch - epoch.draws, AHEAD))
        u, epoch.ahead = epoch.ahead[0].copy(), epoch.ahead[1:]
        return u, self.setup.radius * u, None, None

    def _draw(self, epoch: Any, count: int) -> tuple[Any, Any, None, None]:
        U = self._sample(epoch, count)
        return list(U), self.setup.radius * U, None, None

    def _estimate(self, epoch: Any, drawn: Any, losses: Any) -> Any:
        rows = self.setup.features(np.asarray(drawn) @ epoch.frame)
        return turn_features(
            epoch.estimate(rows, losses), epoch.frame, quadratic=self.setup.quadratic
        )

    # What it knows.

    @property
    def distribution(self) -> Any:
        """Only finite sets have one."""
        raise AttributeError("`distribution` is for finite sets; on a ball there is `log_density`")

    def probability(self, actions: Any) -> Any:
        """Only finite sets have one."""
        raise AttributeError("`probability` is for finite sets; on a ball there is `log_density`")

    def log_density(self, X: Any) -> Any:
        """Logarithm of the density of the exponential weights q in the next `ask()`; -∞ outside the ball.

        The next action is drawn from q with probability 1 - γ, and otherwise from the sphere (or at 0), where it has
        no density.

        Parameters
        ----------
        X : array of shape (n, d)

        Examples
        --------
        >>> import koloss as kl
        >>> learner = kl.BanditExpWeights(kl.Ball(2), kl.Quadratic(), horizon=100, rng=0)
        >>> learner.log_density([[0.5, 0.5], [1.0, 1.0]]).round(
        ...     6
        ... ).tolist()  # -log π: uniform on the disc
        [-1.14473, -inf]
        """
        X = to_numpy(as_points("X", X, dimension=self.setup.dimension))
        matrix, vector, log_normalizer = self._weights()
        d, r = self.setup.dimension, self.setup.radius
        U = X / r
        log_volume = d * (math.log(math.pi) / 2 + math.log(r)) - math.lgamma(d / 2 + 1)
        found = np.sum((U @ matrix) * U, axis=1) + U @ vector - log_normalizer - log_volume
        return np.where(self.actions.contains(X), found, -np.inf)

    def _weights(self) -> tuple[Any, Any, float]:
        """B, b and the normaliser of q in the next `ask()`."""
        epoch: Any = self._epoch
        if not self._is_over():
            return epoch.matrix, epoch.vector, epoch.log_normalizer
        matrix, vector, _ = self.setup.coefficients(-self._rates()[0] * self._theta)
        return matrix, vector, quadratic_moments(matrix, vector).log_normalizer

    def estimated_loss(self, X: Any) -> Any:
        """Estimated mean loss of some actions, the rows of X."""
        X = to_numpy(as_points("X", X, dimension=self.setup.dimension))
        mean = self._theta / max(self._tally.mass, 1.0)
        return self.setup.features(X / self.setup.radius) @ mean + self.setup.center

    def recommend(self) -> Recommendation:
        """The best action so far by the estimates, the global minimum of a quadratic on the ball."""
        found, constant = self.setup.minimum(self._theta / max(self._tally.mass, 1.0))
        value = found.value + constant + self.setup.center
        return Recommendation(None, self.setup.radius * found.point, value)

    def _insight(self) -> dict[str, Any]:
        matrix, vector, log_normalizer = self._weights()
        moments = quadratic_moments(matrix, vector)
        mean = float(np.sum(matrix * moments.second) + vector @ moments.mean)
        epoch, G = self._epoch, self.setup.problem.leverage
        return {
            "entropy": log_normalizer - mean,
            "max_leverage": 0.0 if epoch is None else G / epoch.gamma,
            "estimated_losses": None,
        }

    # Snapshots.

    def _own_state(self) -> dict[str, Any]:
        book = [(i, epoch, heard) for i, (_, epoch, heard) in self._outstanding.items()]
        drawn = [entry[0] for entry in self._outstanding.values()]
        return {
            "outstanding": np.array(book, dtype=np.int64).reshape(-1, 3),
            "drawn": np.array(drawn, dtype=float).reshape(-1, self.setup.dimension),
            "sampler": self._sampler.to_dict(),
        }

    def _restore(self, data: Mapping[str, Any]) -> None:
        book, drawn = np.asarray(data["outstanding"]).tolist(), np.array(data["drawn"])
        self._outstanding = {
            i: (u, epoch, heard) for (i, epoch, heard), u in zip(book, drawn, strict=True)
        }
        self._sampler = QuadraticBall.from_dict(data["sampler"])
