"""Finitely many actions whose features are of another library than NumPy: on a GPU, mostly, and in single precision.

The learner, its coins and its game stay the same. Features and all that has a number for each action
(probabilities, bonuses) are on their device, and what is small is on the host: θ, Σ, the actions that were drawn. They come when an epoch begins, for as many single decisions as it may have: until it ends nothing is waited for
but, where a norm does not tell whether the weights have drifted, the exact test.

Single precision. φ̃ = φ + e are features like any others. A loss θ'φ + r with |r| ≤ ε is θ'φ̃ + r - θ'e, so that their error is
ε̃ = ε + max |e| max |θ|, and from θ'(Σ(π) + Λ/γ)θ ≤ (L + ε)² + b²/γ follows what |θ| can be.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.actions import Points
from koloss.core import linalg
from koloss.core.arrays import Array, is_single, namespace, to_numpy
from koloss.core.device import DeviceFeatures, on_device
from koloss.core.snapshot import Cached, kept
from koloss.guarantees.base import Clause, clause
from koloss.learners.bandit.points import Cache, PointsEngine, PointsLaw
from koloss.learners.ledger import Drawn

Floats = NDArray[np.float64]

BROUGHT = 2**20
"""Features of drawn actions are brought to the host with them, unless they are more numbers than this."""


@kept
@dataclass(slots=True)
class DeviceLaw(PointsLaw):
    """p of an epoch on the device, and on the host the factor of Σ and what was drawn."""

    cdf: Cached = None  # what its device draws from
    drawn: Cached = None  # uniform numbers, actions and their probabilities: those drawn ahead
    rows: Cached = None  # actions whose features are on the host, ...
    phi: Cached = None  # ... and these features

    def shrink(self) -> None:
        PointsLaw.shrink(self)  # `super()` is lost where a class has slots
        self.drawn = None


@kept
class DeviceEngine(PointsEngine):
    """The engine of points whose features are on a device."""

    features: DeviceFeatures | Any  # type: ignore[assignment]  # an array, where a snapshot finds no such device

    def __post_init__(self) -> None:
        for array in (self.points, self.weights, self.log_prior):
            array.flags.writeable = False
        features, columns = self.features, self.columns
        fused = features.fused
        place = features.vector if fused is None else fused.single
        hidden = {
            "_penalty": None if columns is None else np.diag(np.sum(columns * columns, axis=1)),
            "_fused": fused,
            "_subsets": Cache(),
            "_design": place(self.weights),
            "_explored": None,  # Σ(π), once it is needed
            "_prior": features.vector(self.log_prior),
            "_offset": place(self.log_prior),
        }
        for name, value in hidden.items():
            object.__setattr__(self, name, value)

    def _restored(self) -> None:
        features: Any = self.features
        if isinstance(features, np.ndarray):
            object.__setattr__(self, "__class__", PointsEngine)
        self.__post_init__()

    def __getattr__(self, name: str) -> Any:  # for the types of what is hidden
        raise AttributeError(name)

    @property
    def rounded(self) -> tuple[Clause, ...]:
        """What a bound assumes of sums on the device, where tensor cores add up the covariance."""
        if self._fused is None:
            return ()
        return (clause("rounding", error=5e-4 if self._fused.is_coarse else 5e-7),)

    def as_credit(self, values: Floats) -> Any:
        return self.features.vector(values)

    # Algorithm 1.

    def _placed(self, values: Any) -> Array:
        return self.features.vector(values) if isinstance(values, np.ndarray) else values

    def _mixture(self, theta: Floats | None, credit: Any, eta: float, gamma: float) -> Array:
        score: Any = 0.0 if theta is None else self.features.product(theta)
        if credit is not None:
            score = score - self._placed(credit)
        log_q, xp = self._prior - eta * score, self.features.xp
        design = self._placed(self.weights) if self._fused is not None else self._design
        if self.shares is not None:
            q = self._placed(self.shares.project(to_numpy(log_q)))
            return (1 - gamma) * q + gamma * design
        q = xp.exp(log_q - xp.max(log_q))
        return (1 - gamma) / xp.sum(q) * q + gamma * design

    def mixture(self, theta: Floats | None, credit: Any, eta: float, gamma: float) -> Floats:
        return to_numpy(self._mixture(theta, credit, eta, gamma)).astype(np.float64)

    def law(
        self, theta: Floats | None, credit: Any, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> DeviceLaw:
        if self._fused is not None and self.shares is None:
            law = self._refresh(theta, credit, eta, gamma)
        else:
            p = self._mixture(theta, credit, eta, gamma)
            law = DeviceLaw(self._factor(p, eta, rng), p, self._sums_of(p))
        if self.problem.bonus or self.problem.hindsight:
            law.bonus = self._bonus(law, nu)
        return law

    def _sums_of(self, p: Array) -> Array:
        """What actions are drawn from, given their probabilities."""
        if self._fused is not None:
            return self._fused.law(self._fused.single(p))
        cdf = self.features.xp.cumulative_sum(p)
        return cdf / cdf[-1]

    def _refresh(self, theta: Floats | None, credit: Any, eta: float, gamma: float) -> DeviceLaw:
        """The same in one pass over the features."""
        fused, offset = self._fused, self._offset
        if credit is not None:
            sums = self._prior + eta * self._placed(credit)
            offset = fused.single(sums - sums.max())  # large ones would cost digits
        slope = np.zeros(self.coordinates) if theta is None else -eta * theta
        made = fused.refresh(fused.direction(slope), offset, self._design, gamma)
        sigma = np.asfortranarray((1 - gamma) * fused.sigma(made) + gamma * self._of_design())
        if self._penalty is not None:
            sigma += self._penalty
        return DeviceLaw(linalg.cholesky(sigma), made.p, made)

    def _of_design(self) -> Floats:
        """Σ(π)."""
        explored: Floats | None = self._explored
        if explored is None:
            explored = self.features.covariance(self.features.vector(self.weights))
            object.__setattr__(self, "_explored", explored)
        return explored

    def _factor(self, p: Any, eta: float, rng: Any) -> Any:
        sigma = self.features.covariance(p)
        return linalg.cholesky(sigma if self._penalty is None else sigma + self._penalty)

    def _bonus(self, law: Any, nu: float) -> Any:
        problem, features, xp = self.problem, self.features, self.features.xp
        b, epsilon = (problem.bias, problem.epsilon) if problem.bonus else (0.0, 0.0)
        whole = linalg.inverse_of(law.factor).T
        penalty = None
        if self.columns is not None:  # as in `penalised_leverages`
            penalty = ((whole.T @ self.columns).T @ whole.T).T
        if self._fused is not None:
            square = self._fused.square
            made = None if penalty is None else square(penalty)
            return self._fused.bonus(square(whole), made, b, epsilon, nu)
        s2 = features.squared_lengths(whole)
        if penalty is None:
            return epsilon * xp.sqrt(s2) + nu * s2
        e2 = features.squared_lengths(penalty)
        s2 = xp.clip(s2 - e2, 0.0, None)
        return b * xp.sqrt(e2) + epsilon * xp.sqrt(s2) + nu * s2

    # Draws.

    def draw(self, law: Any, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Actions by inversion (line 5); single ones are drawn ahead for the epoch, without taking coins before their time."""
        if count is not None:
            law.drawn = None
            index, ps = self._bring(law, rng.random(count))
            return Drawn(index.copy(), self.points[index], index, ps)
        if not law.drawn:
            uniforms = copy.deepcopy(rng).random(max(left, 1))
            ahead = (uniforms, *self._bring(law, uniforms))
            law.drawn = list(zip(*(one.tolist() for one in ahead), strict=True))[::-1]
        coin = rng.random()
        uniform, i, p = law.drawn.pop()
        if uniform != coin:  # somebody else has taken coins
            law.drawn = None
            index, ps = self._bring(law, np.array([coin]))
            i, p = int(index[0]), float(ps[0])
        return Drawn((i,), self.points[i], i, p)

    def _bring(self, law: Any, uniforms: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Actions, their probabilities and, where these are not too many, their features, from the device."""
        features, xp = self.features, self.features.xp
        few = len(uniforms) * features.shape[1] <= BROUGHT
        law.rows = law.phi = None
        if self._fused is not None:
            drawn = self._fused.draw(law.cdf, uniforms, features=few)
            rows = drawn[:, 0].astype(np.int64)
            if few:
                law.rows, law.phi = rows, drawn[:, 2:]
            return rows, drawn[:, 1].copy()
        found = xp.searchsorted(law.cdf, features.vector(uniforms), side="right")
        p = xp.take(law.p, found)
        if few:
            phi = xp.take(features.array, found, axis=0)
            law.phi = to_numpy(phi).astype(np.float64)
        rows = to_numpy(found)
        law.rows = rows if law.phi is not None else None
        return rows, to_numpy(p).astype(np.float64)

    def estimate(self, law: Any, rows: Any, losses: Any) -> Any:
        return linalg.solve(law.factor, np.dot(losses, self._rows(law, rows)))

    def _rows(self, law: Any, rows: Any) -> Any:
        """Features of some actions: from the host where they were brought there."""
        if law.rows is None:
            return self.features[rows]
        index = np.asarray(rows)
        if index.ndim and np.array_equal(index, law.rows):
            return law.phi
        where = {row: k for k, row in enumerate(law.rows.tolist())}
        places = [where.get(row, -1) for row in np.atleast_1d(index).tolist()]
        if min(places) < 0:
            return self.features[rows]
        return law.phi[places if index.ndim else places[0]]

    # The end of an epoch.

    def rise(self, law: Any, gamma: float, gain: Floats, mass: float) -> float:
        X, xp = self.features.product(gain), self.features.xp
        if law.bonus is not None:
            X = X - mass * law.bonus
        if gamma >= 1:
            return self.features.largest(X) + self.features.largest(-X)
        q = self._weights(law, gamma)
        return self.features.largest(xp.sum(q * X) - X)

    def _weights(self, law: Any, gamma: float) -> Array:
        """q in double precision, from p = (1 - γ)q + γπ, whose sum is 1 but for rounding."""
        xp = self.features.xp
        p = xp.astype(law.p, xp.float64)
        return (p / xp.sum(p) - gamma * self._placed(self.weights)) / (1 - gamma)

    def _around(self, law: Any, gamma: float) -> tuple[float, float]:
        features, bonus, xp = self.features, law.bonus, self.features.xp
        lengths = features.squared_lengths()
        if gamma >= 1:
            spread = 0.0 if bonus is None else features.largest(bonus)
            return 2 * math.sqrt(features.largest(lengths)), spread
        q = self._weights(law, gamma)
        middle = to_numpy(q) @ features
        lengths = lengths - 2 * features.product(middle)
        spread = 0.0 if bonus is None else features.largest(bonus - xp.sum(q * bonus))
        return math.sqrt(max(features.largest(lengths) + float(middle @ middle), 0.0)), spread

    # What is known.

    def scores(self, theta: Floats) -> Floats:
        return self.features @ theta

    def leverages(self, law: Any) -> Any:
        root = linalg.inverse_of(law.factor).T
        return to_numpy(self.features.squared_lengths(root)).astype(np.float64)

    def settle(self, law: Any) -> None:
        vector, fused = self.features.vector, self._fused
        if isinstance(law.bonus, np.ndarray):
            law.bonus = vector(law.bonus) if fused is None else fused.single(law.bonus)
        if isinstance(law.p, np.ndarray):
            law.p = vector(law.p) if fused is None else fused.single(vector(law.p))
            law.cdf = self._sums_of(law.p)


# From the host, in double precision, to where the features are.


def on_host(actions: Points) -> Points:
    """The same actions in double precision on the host, where every game is prepared: so it is the same game."""
    radius, widths = actions.covering_radius, actions.covering_widths
    X = to_numpy(actions.X).astype(np.float64)
    return Points(X, covering_radius=radius, covering_widths=widths)


def placed(engine: PointsEngine, like: Array) -> PointsEngine:
    """The engine with features of the library, on the device and of the floating type of an array."""
    if type(engine) is not PointsEngine:
        return engine
    if is_single(like):
        engine = in_single(engine)
    if isinstance(like, np.ndarray):
        return engine
    xp = namespace(like)
    kind = xp.float32 if is_single(like) else xp.float64
    there = DeviceFeatures(on_device(engine.features, xp, like.device, kind))
    return engine.become(DeviceEngine, features=there)


def in_single(engine: PointsEngine) -> PointsEngine:
    """The same game with features in single precision; what that may cost is in its ε, and in its leverage."""
    features, problem, rates = engine.features, engine.problem, engine.rates
    rounded = np.empty(features.shape, dtype=np.float32, order="F")
    off = longest = 0.0
    for block in linalg.blocks(features):
        rounded[block] = features[block]
        error = features[block] - rounded[block]
        off = max(off, math.sqrt(float(np.max(np.einsum("ij,ij->i", error, error)))))
        longest = max(longest, float(np.max(np.sum(features[block] ** 2, axis=1))))
    gamma = rates.exploration or 1.0
    support = np.flatnonzero(engine.weights)
    explored = features[support]
    A = explored.T @ (engine.weights[support, None] * explored)
    if engine.columns is not None:
        A = A + engine.columns @ engine.columns.T / gamma
    least = float(np.linalg.eigvalsh(A)[0])
    size = math.sqrt(((problem.loss_bound + problem.epsilon) ** 2 + problem.bias**2 / gamma) / least)  # fmt: skip
    # |Σ̃ - Σ| ≤ 2 |e| |φ| + |e|², so that leverages are larger by this at most.
    moved = (2 * off * math.sqrt(longest) + off**2) / least
    if moved > 0.5:
        rule = "must be in double precision: single precision does not tell their features apart"
        raise ValueError(f"`actions` {rule}, got leverages that may be off by {moved:.3g}")
    wider = (1 + off / math.sqrt(longest)) ** 2 / (1 - moved)
    problem = replace(
        problem, epsilon=problem.epsilon + off * size, leverage=problem.leverage * wider
    )
    if engine.rates.learning_rate:
        rates = replace(rates, kappa=problem.rise(rates.learning_rate, rates.exploration))
    return replace(engine, features=rounded, problem=problem, rates=rates)  # type: ignore[arg-type]
