r"""What contexts make of Algorithm 1: pairs of a context and an action share their features (theory F6).

Contexts c come with the law μ, and a pair (c, a) has features φ(c, a). In each round a context is seen and an action drawn from

    p(a|c) = (1 - γ_c) q(a|c) + γ_c π(a|c),    q(a|c) ∝ exp(-η S(c, a)),

and one loss teaches all contexts: S(c, a) += w φ(c, a)'A⁻¹φ(z)·loss, with z the pair that was played, w the discount of its context
and A = Σ_c w_c μ_c Σ_a p(a|c) φφ' + Λ, where Λ is the penalty of a ridge. Contexts that are too rare to exploit explore always (γ_c = 1), at a discount w_c < 1, so that
they cannot upset the others (Lemma F6.2). A decision's key is the number cK + a of its pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrmv

from koloss.core import linalg
from koloss.core.random import invert
from koloss.core.snapshot import Cached, Rows, Vector, kept
from koloss.designs.contexts import CappedDesign
from koloss.guarantees import Guarantee, contexts, promises
from koloss.guarantees.base import note
from koloss.learners.bandit.exp2 import Epoch, Exp2, Other, prove
from koloss.learners.bandit.points import PointsEngine
from koloss.learners.base import Recommendation
from koloss.learners.ledger import Drawn

Floats = NDArray[np.float64]


@kept
@dataclass(slots=True)
class PairsLaw:
    """p(·|c) of an epoch for every context, and the Cholesky factor of A."""

    factor: Any  # lower triangular, Fortran order
    discounts: Any  # (C,), w
    p: Any  # (C, K)
    cdf: Any  # (C, K)
    bonus: Any = None  # (C K,), b e(z) + ε s(z), without a penalty ε √(φ'A⁻¹φ)
    around: Cached = None  # what `reach` needs of q, once it has been asked for

    def shrink(self) -> None:
        """Keep what late losses need."""
        self.p = self.cdf = None


@kept
@dataclass(frozen=True, kw_only=True, eq=False)
class PairsEngine(PointsEngine):
    """Fixed arrays and numbers of a game on C contexts and K actions with m features of pairs.

    `points` are the actions, `features` and `weights` those of the C K pairs; the latter are the best design without contexts, and
    `leverage` is its own. Coordinates are those of `whitened`; with a ridge A(u) = I in them, for the first design.
    """

    law_of_contexts: Vector  # (C,), μ
    capped: CappedDesign  # where to explore, in each context
    slots: Rows | None = None  # (C, K), the actions that pairs stand for, where not all are allowed

    # Algorithm 1.

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of contexts and actions."""
        return len(self.law_of_contexts), len(self.points)

    def mixture(
        self, theta: Floats | None, credit: Floats | None, eta: float, gamma: float
    ) -> Floats:
        """p(·|c) = (1 - γ_c) q(·|c) + γ_c π(·|c) for all contexts, an array of shape (C, K)."""
        score = np.zeros(len(self.features)) if theta is None else self.features @ theta
        if credit is not None:
            score = score - credit
        return self.conditional(-eta * score.reshape(self.shape))

    def conditional(self, log_q: Floats) -> Floats:
        """The laws of all contexts, for weights up to a factor."""
        shares = self.capped.shares[:, None]
        q = np.exp(log_q - log_q.max(axis=1, keepdims=True))
        p: Floats = (1 - shares) / q.sum(axis=1, keepdims=True) * q + shares * self.capped.laws
        return p

    def law(
        self, theta: Floats | None, credit: Floats | None, eta: float, gamma: float, rng: Any, nu: float = 0.0
    ) -> Any:  # fmt: skip
        """p(·|c), its cumulative sums, and the factor of A."""
        p = self.mixture(theta, credit, eta, gamma)
        cdf = np.cumsum(p, axis=1)
        cdf /= cdf[:, -1:]
        discounts = self.capped.discounts
        joint = (discounts * self.law_of_contexts)[:, None] * p
        law = PairsLaw(self._factor(joint.ravel(), eta, rng), discounts, p, cdf)
        if self.problem.bonus:
            law.bonus = self._bonus(law, nu)
        return law

    def draw_in(self, law: PairsLaw, rows: Any, rng: Any) -> Drawn:
        """Actions by inversion of the cumulative sums of their contexts: of one, or one for each of several."""
        K = len(self.points)
        if isinstance(rows, int):
            i = int(law.cdf[rows].searchsorted(rng.random(), side="right"))
            if self.slots is None:
                return Drawn((rows * K + i,), self.points[i], i, law.p.item(rows, i), (rows,))
            a, key = self.slots.item(rows, i), rows * K + i
            own = float(law.p[rows, self.slots[rows] == a].sum())
            return Drawn((key,), self.points[a], a, own, (rows,))
        coins, index = rng.random(len(rows)), np.empty(len(rows), dtype=np.int64)
        for c in np.unique(rows):
            here = rows == c
            index[here] = invert(law.cdf[c], coins[here])
        keys, p = rows * K + index, self.by_action(law.p)
        if self.slots is not None:
            index = self.slots[rows, index]
        return Drawn(keys, self.points[index], index, p[rows, index], rows)

    def by_action(self, p: Floats) -> Floats:
        """Probabilities of actions, for those of pairs: in the place of an action that is not allowed stands one that is."""
        if self.slots is None:
            return p
        merged = np.zeros_like(p)
        np.add.at(merged, (np.arange(len(p))[:, None], self.slots), p)
        return merged

    def estimate(self, law: Any, rows: Any, losses: Any) -> Any:
        """Σ_s A⁻¹ φ(z_s) w loss_s, of one pair or several."""
        values = losses * law.discounts[np.floor_divide(rows, len(self.points))]
        return linalg.solve(law.factor, np.dot(values, self.features[rows]))

    def rise(self, law: Any, gamma: float, gain: Floats, mass: float) -> float:
        """Largest q(·|c)·X - X(c, a) in a context that exploits, for the sum X of the epoch's estimates."""
        here = self.capped.exploits
        if not here.any():
            return 0.0
        X = self.epoch_sums(law, gain, mass).reshape(self.shape)[here]
        return float(np.max(np.einsum("ij,ij->i", self._weights(law), X) - X.min(axis=1)))

    def _weights(self, law: Any) -> Floats:
        """q(·|c) of the contexts that exploit, from p(·|c) = (1 - γ_c) q(·|c) + γ_c π(·|c)."""
        here = self.capped.exploits
        shares = self.capped.shares[here, None]
        q: Floats = (law.p[here] - shares * self.capped.laws[here]) / (1 - shares)
        return q

    def reach(self, law: Any, gamma: float, moved: Floats, mass: float = 0.0) -> float:
        """Where contexts exploit, |φ(z)'moved| is at most what Cauchy and Schwarz say in the norm of A, and so is its mean."""
        if law.around is None:
            law.around = self._around(law, gamma)
        farthest: float = law.around[0]
        bonus: float = law.around[1]
        step = float(np.linalg.norm(dtrmv(law.factor, moved, lower=1, trans=1)))
        return farthest * step + mass * bonus

    def _around(self, law: Any, gamma: float) -> tuple[float, float]:
        """At least |φ(z) - φ̄_c| in the norm of A⁻¹, with φ̄_c the mean of the context under q, and the largest bonus."""
        capped, epsilon, here = self.capped, self.problem.epsilon, self.capped.exploits
        if not here.any():
            return 0.0, 0.0
        largest, bonus = math.sqrt(capped.largest_exploiting), 0.0  # A ⪰ Σ(u)
        if law.bonus is not None:
            bonus = float(law.bonus.reshape(self.shape)[here].max())
            if epsilon > 0 and self.columns is None:
                largest = bonus / epsilon
        stacked = self.features.reshape(*self.shape, -1)[here]
        middles = np.einsum("ij,ijk->ik", self._weights(law), stacked)
        return largest + math.sqrt(float(np.max(linalg.leverages(law.factor, middles)))), bonus

    def leverages(self, law: Any) -> Any:
        """φ'A⁻¹φ of every pair."""
        return linalg.row_leverages(law.factor, self.features)

    # What is known.

    @property
    def size(self) -> str:
        C, K = self.shape
        return f"{C:,} contexts, {super().size.replace(f'{C * K:,} points', f'{K:,} points')}"


@kept
class Pairs(Exp2):
    """Algorithm 1 on pairs, where every loss teaches all contexts: the context is given, and the action drawn."""

    engine: PairsEngine
    seen: Rows  # decisions in each context

    def __init__(self, engine: Any, *, horizon: int | None, batch: int) -> None:
        super().__init__(engine, horizon=horizon, batch=batch)
        C, K = engine.shape
        if self.credit is not None:
            self.credit = np.zeros(C * K)
        self.seen = np.zeros(C, dtype=np.int64)

    def draw(
        self, count: int | None, rng: Any, awake: Any = None, rows: Any = None
    ) -> tuple[Epoch, Drawn]:
        """An action for a context, or one for each of several contexts; these are an epoch of their own.

        The law is made without a look at the contexts that it is for (assumption K).
        """
        epoch = self.epoch
        if count is not None or self.is_over():
            epoch = self._new_epoch(rng, None, at_once=count is not None and count > 1)
        assert epoch is not None
        drawn = self.engine.draw_in(epoch.law, rows, rng)
        self._take(epoch, len(drawn.keys))
        np.add.at(self.seen, rows, 1)
        return epoch, drawn

    def outlook(self, awake: Any = None, row: int | None = None) -> Floats:
        """Probability of every action in the next single decision, in a context; without one in all, (C, K)."""
        engine = self.engine
        if self.is_over():
            p = engine.mixture(self.theta, self.credit, *self.rates_now())
        else:
            assert self.epoch is not None
            p = self.epoch.law.p.copy()
        laws: Floats = engine.by_action(p)
        return laws if row is None else laws[row]

    def values(self) -> Floats:
        """Estimated mean loss of every action in every context."""
        scores = (self.engine.features @ self.theta).reshape(self.engine.shape)
        means: Floats = scores / max(self.mass, 1.0) + self.engine.center
        return means

    def recommend(self, awake: Any = None, row: int | None = None) -> Recommendation:
        """The best action by the estimates, in a context."""
        assert row is not None
        values = self.values()[row]
        index = int(np.argmin(values))
        loss = self.engine.sign * float(values[index])
        if self.engine.slots is not None:
            index = int(self.engine.slots[row, index])
        return Recommendation(index, self.engine.points[index], loss, "estimated")

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.seen

    @property
    def frequencies(self) -> Floats:
        return self.engine.law_of_contexts[:, None]

    def proved(
        self, rounds: int, played: promises.Played, awake: Any = None, other: Other = None
    ) -> Guarantee:
        """Theorem F6, for contexts that are drawn."""
        engine, problem = self.engine, self.engine.problem
        if problem.log_prior == 0:
            return promises.one_action(rounds)
        promise = prove(engine, self.rates, self.batch, rounds, self.horizon, played, self.range)
        promise = contexts.independent(promise, len(self.seen))
        if played.late and not 0 < played.longest_delay <= problem.delay:
            remarks = (*promise.remarks, note("contexts too late"))
            return replace(promise, proved=False, remarks=remarks)
        return promise
