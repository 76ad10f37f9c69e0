"""Finitely many actions whose features are not in double precision on the host: on a GPU, or in single precision.

The learner, its coins and its game stay the same. Where features are of another library than NumPy, they and all that has a
number for each action (probabilities, bonuses) are on their device, and what is small is on the host: θ, Σ, the actions that
were drawn. They come when an epoch begins, for as many single decisions as it may have: until it ends nothing is waited for
but, where a norm does not tell whether the weights have drifted, the exact test.

Single precision. φ̃ = φ + e are features like any others. A loss θ'φ + r with |r| ≤ ε is θ'φ̃ + r - θ'e, so that their error is
ε̃ = ε + max |e| max |θ|, and from θ'(Σ(π) + Λ/γ)θ ≤ (L + ε)² + b²/γ follows what |θ| can be.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss import _linalg
from koloss._arrays import Array, is_single, namespace, to_numpy
from koloss._device import LIBRARIES, DeviceFeatures, like_place, on_device
from koloss.actions import Points
from koloss.learners.bandit.points import Outset, PointsEngine, PointsLaw
from koloss.learners.ledger import Drawn
from koloss.learners.reading import Reader

Floats = NDArray[np.float64]

BROUGHT = 2**20
"""Features of drawn actions are brought to the host with them, unless they are more numbers than this."""

SINGLE_SUMS = "sums of single precision on the device are as good as exact (up to a relative error of about {:.0e})"
"""What a bound assumes where tensor cores add up the covariance."""


@dataclass(slots=True)
class DeviceLaw(PointsLaw):
    """p of an epoch on the device, and on the host the factor of Σ and what was drawn."""

    drawn: Any = None  # uniform numbers, actions and their probabilities: those drawn ahead
    rows: Any = None  # actions whose features are on the host, ...
    phi: Any = None  # ... and these features
    features: DeviceFeatures | None = None

    def shrink(self) -> None:
        PointsLaw.shrink(self)  # `super()` is lost where a class has slots
        self.drawn = None

    def to_dict(self) -> dict[str, Any]:
        p = cdf = None
        if self.p is not None:
            p = to_numpy(self.p).astype(np.float64)
            cdf = _cumulative(p) if self.features is None else to_numpy(self.cdf)
        bonus = None if self.bonus is None else to_numpy(self.bonus).astype(np.float64)
        return {"factor": self.factor, "p": p, "cdf": cdf, "bonus": bonus}


def _cumulative(p: Floats) -> Floats:
    cdf: Floats = np.cumsum(p)
    cdf /= cdf[-1]
    return cdf


class DeviceEngine(PointsEngine):
    """The engine of points whose features are on a device."""

    features: DeviceFeatures  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for array in (self.points, self.weights, self.log_prior):
            array.flags.writeable = False
        features, columns = self.features, self.columns
        fused = features.fused
        place = features.vector if fused is None else fused.single
        hidden = {
            "_penalty": None if columns is None else columns @ columns.T,
            "_length": features.largest(features.squared_lengths()),
            "_fused": fused,
            "_design": place(self.weights),
            "_explored": None,  # Σ(π), once it is needed
            "_prior": features.vector(self.log_prior),
            "_offset": place(self.log_prior),
        }
        for name, value in hidden.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:  # for the types of what is hidden
        raise AttributeError(name)

    @property
    def rounded(self) -> str:
        """What a bound assumes of sums on the device."""
        if self._fused is None:
            return ""
        return SINGLE_SUMS.format(5e-4 if self._fused.is_coarse else 5e-7)

    def no_credit(self) -> Any:
        return self.as_credit(np.zeros(len(self.points)))

    def as_credit(self, values: Floats) -> Any:
        return self.features.vector(values)

    # Algorithm 1.

    def _logits(self, theta: Floats, credit: Any, eta: float) -> Array:
        """log q of every action, up to a constant."""
        score = self.features.product(theta)
        if credit is not None:
            score = score - self._placed(credit)
        return self._prior - eta * score

    def _placed(self, values: Any) -> Array:
        return self.features.vector(values) if isinstance(values, np.ndarray) else values

    def _mixture(self, theta: Floats, credit: Any, eta: float, gamma: float) -> Array:
        log_q, xp = self._logits(theta, credit, eta), self.features.xp
        design = self._placed(self.weights) if self._fused is not None else self._design
        if self.shares is not None:
            q = self._placed(self.shares.project(to_numpy(log_q)))
            return (1 - gamma) * q + gamma * design
        q = xp.exp(log_q - xp.max(log_q))
        return (1 - gamma) / xp.sum(q) * q + gamma * design

    def mixture(self, theta: Floats, credit: Any, eta: float, gamma: float) -> Floats:
        return to_numpy(self._mixture(theta, credit, eta, gamma)).astype(np.float64)

    def law(
        self, theta: Floats, credit: Any, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> DeviceLaw:
        if self._fused is not None and self.shares is None and not self.samples:
            law = self._refresh(theta, credit, eta, gamma)
        else:
            p = self._mixture(theta, credit, eta, gamma)
            law = DeviceLaw(self._factor(p, eta, rng), p, self._sums_of(p), features=self.features)
        if self.problem.bonus or self.problem.hindsight:
            law.bonus = self._bonus(law, nu)
        return law

    def _sums_of(self, p: Array) -> Array:
        """What actions are drawn from, given their probabilities."""
        if self._fused is not None:
            return self._fused.law(self._fused.single(p))
        cdf = self.features.xp.cumulative_sum(p)
        return cdf / cdf[-1]

    def _refresh(self, theta: Floats, credit: Any, eta: float, gamma: float) -> DeviceLaw:
        """The same in one pass over the features."""
        fused, offset = self._fused, self._offset
        if credit is not None:
            sums = self._prior + eta * self._placed(credit)
            offset = fused.single(sums - sums.max())  # large ones would cost digits
        made = fused.refresh(fused.direction(-eta * theta), offset, self._design, gamma)
        sigma = np.asfortranarray((1 - gamma) * fused.sigma(made) + gamma * self._of_design())
        if self._penalty is not None:
            sigma += self._penalty
        return DeviceLaw(_linalg.cholesky(sigma), made.p, made)

    def _of_design(self) -> Floats:
        """Σ(π)."""
        explored: Floats | None = self._explored
        if explored is None:
            explored = self.features.covariance(self.features.vector(self.weights))
            object.__setattr__(self, "_explored", explored)
        return explored

    def _factor(self, p: Any, eta: float, rng: Any) -> Any:
        factor = None
        if self.samples:
            drawn = self._sampled(to_numpy(p).astype(np.float64), eta, rng)
            factor = _linalg.cholesky(self.features.covariance(self._placed(drawn)))
        if factor is None:
            sigma = self.features.covariance(p)
            factor = _linalg.cholesky(sigma if self._penalty is None else sigma + self._penalty)
        return factor

    def _bonus(self, law: Any, nu: float) -> Any:
        problem, features, xp = self.problem, self.features, self.features.xp
        b, epsilon = (problem.bias, problem.epsilon) if problem.bonus else (0.0, 0.0)
        whole = _linalg.inverse_of(law.factor).T
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

    def laws(self, outsets: Sequence[Outset], rngs: Sequence[Any], count: int) -> list[Any]:
        """Laws of several games: one batched product for their covariances, and one transfer for all draws."""
        if self.shares is not None or self.samples:
            return super().laws(outsets, rngs, count)
        features, xp = self.features, self.features.xp
        P = self._mixtures(outsets)
        sigmas = features.covariances(P)
        if self._penalty is not None:
            sigmas += self._penalty
        coins = np.stack([copy.deepcopy(rng).random(count) for rng in rngs])
        found = features.searched(P, coins)
        p = to_numpy(xp.take(xp.reshape(P, (-1,)), xp.reshape(found, (-1,)))).reshape(coins.shape)
        rows = to_numpy(found) // len(outsets)
        phi = features[rows.ravel()].reshape(*coins.shape, -1)
        laws = []
        for k, o in enumerate(outsets):
            factor = _linalg.cholesky(np.asfortranarray(sigmas[k]))
            law = DeviceLaw(factor, P[:, k], None, drawn=(coins[k], rows[k], p[k]))
            law.rows, law.phi = rows[k], phi[k]
            if self.problem.bonus or self.problem.hindsight:
                law.bonus = self._bonus(law, o.nu)
            laws.append(law)
        return laws

    def _mixtures(self, outsets: Sequence[Outset]) -> Array:
        """p of several games, in columns."""
        features, xp = self.features, self.features.xp
        scores = features.product(np.stack([o.theta for o in outsets], axis=1))
        if any(o.credit is not None for o in outsets):
            scores = scores - xp.stack([self._placed(o.credit) for o in outsets], axis=1)
        eta, gamma = (
            features.vector([getattr(o, name) for o in outsets]) for name in ("eta", "gamma")
        )
        log_q = self._prior[:, None] - eta * scores
        q = xp.exp(log_q - xp.max(log_q, axis=0))
        return (1 - gamma) / xp.sum(q, axis=0) * q + gamma * self._placed(self.weights)[:, None]

    # Draws.

    def draw(self, law: Any, count: int | None, rng: Any, left: int = 1) -> Drawn:
        """Actions by inversion (line 5); single ones are drawn ahead for the epoch, without taking coins before their time."""
        if count is not None:
            coins, (known, *ready) = rng.random(count), law.drawn or (None,)
            law.drawn = None
            if known is None or not np.array_equal(known, coins):
                law.cdf = self._sums_of(law.p) if law.cdf is None else law.cdf
                ready = list(self._bring(law, coins))
            index, ps = ready
            return Drawn(index.copy(), self.points[index], index, ps)
        if not law.drawn:
            law.drawn = self._ahead(law, rng, left)
        coin = rng.random()
        uniform, i, p = law.drawn.pop()
        if uniform != coin:  # somebody else has taken coins
            law.drawn = None
            index, ps = self._bring(law, np.array([coin]))
            i, p = int(index[0]), float(ps[0])
        return Drawn((i,), self.points[i], i, p)

    def _ahead(self, law: Any, rng: Any, left: int) -> list[tuple[float, int, float]]:
        """The next draws of an epoch, the last one first."""
        uniforms = copy.deepcopy(rng).random(max(left, 1))
        index, p = self._bring(law, uniforms)
        return list(zip(uniforms.tolist(), index.tolist(), p.tolist(), strict=True))[::-1]

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
        return _linalg.solve(law.factor, np.dot(losses, self._rows(law, rows)))

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

    def rise(self, law: Any, gain: Floats, mass: float) -> float:
        rises = -self.features.product(gain)
        if law.bonus is not None:
            rises = rises + mass * law.bonus
        return self.features.largest(rises)

    def largest_bonus(self, law: Any) -> float:
        if law.largest is None and law.bonus is not None:
            law.largest = self.features.largest(law.bonus)
        return super().largest_bonus(law)

    # What is known.

    def scores(self, theta: Floats) -> Floats:
        return self.features @ theta

    def leverages(self, law: Any) -> Any:
        root = _linalg.inverse_of(law.factor).T
        return to_numpy(self.features.squared_lengths(root)).astype(np.float64)

    # Snapshots.

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {
            "features": np.asarray(self.features),
            "arrays": self.features.place,
        }

    def law_from_dict(self, data: Reader, over: bool) -> DeviceLaw:
        read = super().law_from_dict(data, over)
        law = DeviceLaw(read.factor, None, None, features=self.features)
        place = self.features.vector if self._fused is None else self._fused.single
        if read.bonus is not None:
            law.bonus = place(read.bonus)
        if read.p is not None:
            law.p = self.features.vector(read.p)
            law.cdf = self.features.vector(read.cdf)
            if self._fused is not None:
                law.p, law.features = self._fused.single(law.p), None
                law.cdf = self._fused.law(law.p)
        return law


# From the host to where features are to be.


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
    return _with(engine, on_device(engine.features, xp, like.device, kind))


def _with(engine: PointsEngine, array: Array) -> DeviceEngine:
    values = {field.name: getattr(engine, field.name) for field in fields(engine)}
    return DeviceEngine(**{**values, "features": DeviceFeatures(array)})


def restored(engine: PointsEngine, data: Reader) -> PointsEngine:
    """An engine from a snapshot, with features where they were; on the host, with a word, where there is no such place."""
    if not data.has_key("arrays"):
        return engine
    said = data.part("arrays")
    place = {
        "library": said.word("library", ("numpy", *LIBRARIES)),
        "device": said.word("device"),
        "type": said.word("type", ("float32", "float64")),
    }
    if place["type"] == "float32":
        values = engine.features.astype(np.float32, order="F")
        engine = replace(engine, features=values)  # type: ignore[arg-type]
    if place["library"] == "numpy":
        return engine
    array = like_place(engine.features, place)
    if array is None:
        message = f"there is no {place['library']} with a device {place['device']!r} here: the game goes on in NumPy"
        warnings.warn(message, UserWarning, stacklevel=2)
        return engine
    return _with(engine, array)


def in_single(engine: PointsEngine) -> PointsEngine:
    """The same game with features in single precision; what that may cost is in its ε, and in its leverage."""
    features, problem, rates = engine.features, engine.problem, engine.rates
    rounded = np.empty(features.shape, dtype=np.float32, order="F")
    off = longest = 0.0
    for block in _linalg.blocks(features):
        rounded[block] = features[block]
        error = features[block] - rounded[block]
        off = max(off, math.sqrt(float(np.max(np.einsum("ij,ij->i", error, error)))))
        longest = max(longest, float(np.max(np.sum(features[block] ** 2, axis=1))))
    gamma = rates.exploration or 1.0
    A = features.T @ (engine.weights[:, None] * features)
    if engine.columns is not None:
        A = A + engine.columns @ engine.columns.T / gamma
    least = float(np.linalg.eigvalsh(A)[0])
    size = math.sqrt(((problem.loss_bound + problem.epsilon) ** 2 + problem.bias**2 / gamma) / least)  # fmt: skip
    # |Σ̃ - Σ| ≤ 2 |e| |φ| + |e|², so that leverages are larger by this at most.
    moved = (2 * off * math.sqrt(longest) + off**2) / least
    wider = (1 + off / math.sqrt(longest)) ** 2 / (1 - moved)
    problem = replace(
        problem, epsilon=problem.epsilon + off * size, leverage=problem.leverage * wider
    )
    if engine.rates.learning_rate:
        rates = replace(rates, kappa=problem.rise(rates.learning_rate, rates.exploration))
    return replace(engine, features=rounded, problem=problem, rates=rates)  # type: ignore[arg-type]
