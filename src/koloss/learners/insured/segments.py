"""Policies watched in all contexts at once, with estimates that the contexts share (theory F6.6, F6.6c).

Losses are in units of their range, y in [-1/2, 1/2], and contexts are drawn independently by a known law μ. In context c a coin
of rate γ_c says explore, by π(·|c), or do what the policy says for c. Only explored rounds enter the estimates: with e the coin,
w_c ≤ 1 a discount on what is observed in c, z = (c, a) a pair, and M any prediction of all pairs that was fixed before c_t,

    x(z) = M(z) + e w_c φ(z)'Σ⁻¹φ(z_t)(y - M(z_t)),      Σ = E[e w φφ'] = Σ_c μ_c γ_c w_c Σ_a π(a|c) φφ',

is an unbiased estimate of the losses of all pairs, whatever the policy does: it is asked once a round, for the context at hand.
Features are whitened, Σ = I.

`OneByOne` hands over each context by itself, when its own share of the estimated regret is above its own budget; `Together` has
one budget for all. Whoever is handed over plays exponential weights (`Rows`), and shares what is observed with all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from koloss.core import linalg
from koloss.core.snapshot import kept
from koloss.learners.insured.exploration import softmax

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@kept
@dataclass(frozen=True, eq=False)
class Footing:
    """Where and how often each context explores, and features in which Σ = I."""

    law: Floats  # (C,), μ
    features: Floats  # (C, K, m)
    weights: Floats  # (C, K), π(·|c)
    rates: Floats  # (C,), γ_c
    discounts: Floats  # (C,), w_c
    exploits: Bools  # (C,): the others explore in every round

    @classmethod
    def of(
        cls, features: Floats, law: Floats, weights: Floats, rates: Any, discounts: Any, exploits: Any = True
    ) -> Footing:  # fmt: skip
        """With features whitened: what is observed by exploring has Σ = I."""
        C, K, m = features.shape
        rates, discounts = np.broadcast_to(rates, (C,)), np.broadcast_to(discounts, (C,))
        counted = (law * rates * discounts)[:, None] * weights
        rows = features.reshape(-1, m)
        root = np.linalg.cholesky(rows.T @ (counted.reshape(-1, 1) * rows))
        white = solve_triangular(root, rows.T, lower=True, check_finite=False).T
        white = np.ascontiguousarray(white).reshape(C, K, m)
        exploits = np.array(np.broadcast_to(exploits, (C,)))
        return cls(law, white, weights, np.array(rates), np.array(discounts), exploits)

    @property
    def shape(self) -> tuple[int, int]:
        """Contexts and actions."""
        C, K = self.weights.shape
        return C, K

    def estimate(self, M: Floats, context: int, action: int, explored: bool, y: float) -> Floats:
        """x of all pairs."""
        if not explored:
            return M
        phi = self.features[context, action]
        residual = self.discounts.item(context) * (y - M.item(context, action))
        x: Floats = M + self.features @ (residual * phi)
        return x


class OnFooting:
    """Who explores by a footing."""

    footing: Footing

    def rate(self, context: int) -> float:
        """γ_c."""
        return self.footing.rates.item(context)

    def weights(self, context: int) -> Floats:
        """π(·|c)."""
        pi: Floats = self.footing.weights[context]
        return pi


# Exponential weights.


@kept
@dataclass(slots=True)
class Observed:
    """What is known of a round in which some contexts are handed over: who, A of its law, the bonuses."""

    awake: Bools  # (C,)
    factor: Any  # Cholesky factor of A
    bonus: Any = None  # (contexts awake, K): ε √(φ'A⁻¹φ)


@kept
class Rows(OnFooting):
    """Exponential weights of the contexts that were handed over (Theorem F6), each on its own row of sums.

    A round of theirs is used always, that of others where it explored:

        A = E[used φφ'w] = I + Σ_{c handed over} μ_c(1 - γ_c) Σ_a q(a|c) φφ'.

    A row sleeps while the policy plays in its context.
    """

    eta: float
    epsilon: float
    sums: Floats
    awake: Bools

    def __init__(self, footing: Footing, eta: float, epsilon: float = 0.0) -> None:
        self.footing, self.eta, self.epsilon = footing, eta, epsilon
        self.sums = np.zeros(footing.shape)
        self.awake = np.zeros(footing.shape[0], dtype=bool)

    def hand_over(self, contexts: Any) -> None:
        """Play in these contexts from now on."""
        self.awake = self.awake.copy()  # rounds in flight keep what was
        self.awake[contexts] = self.footing.exploits[contexts]

    def give_back(self, context: int) -> None:
        """Sleep in a context."""
        self.awake = self.awake.copy()
        self.awake[context] = False

    def law(self, context: Any) -> Floats:
        """q(·|c) ∝ exp(-η S(c, ·)), of one context or several."""
        return softmax(-self.eta * self.sums[context])

    def observe(self, contexts: Any, keys: Any) -> Observed | None:
        """What the losses of a round will need, given what was drawn in which contexts."""
        awake = self.awake
        if not awake.any():
            return None
        used = any(key < 0 or awake[c] for c, key in zip(contexts, keys, strict=True))
        if not (used or self.epsilon):
            return None
        footing, q = self.footing, self.law(awake)
        share = footing.law[awake] * (1 - footing.rates[awake])
        rows = footing.features[awake].reshape(-1, footing.features.shape[2])
        factor = linalg.mixed_factor(np.asfortranarray(rows), (share[:, None] * q).ravel(), 1.0)
        bonus = None
        if self.epsilon:
            leverages = linalg.leverages(factor, np.asfortranarray(rows))
            bonus = self.epsilon * np.sqrt(leverages).reshape(q.shape)
        return Observed(awake, factor, bonus)

    def learn(
        self, observed: Observed | None, context: int, action: int, explored: bool, y: float
    ) -> None:
        """Add x' = w φ'A⁻¹φ(z_t) y - ε √(φ'A⁻¹φ) to the rows that were awake and are."""
        if observed is None:
            return
        footing, awake = self.footing, observed.awake & self.awake
        if observed.bonus is not None:
            self.sums[awake] -= observed.bonus[awake[observed.awake]]
        if explored or observed.awake[context]:
            phi = footing.features[context, action] * footing.discounts.item(context)
            self.sums[awake] += footing.features[awake] @ (linalg.solve(observed.factor, phi) * y)

    def best(self, context: int) -> int:
        """The action of least estimated loss."""
        return int(self.sums[context].argmin())


# Under watch.


class Watch:
    """Estimated losses of all pairs while policies play, and what they paid."""

    one_by_one: ClassVar[bool] = False  # whether contexts are handed over by themselves

    watched: Bools
    watchable: Bools
    budgets: Floats
    total: Floats
    paid: Floats

    def __init__(self, watched: Bools, actions: int, budgets: Any) -> None:
        self.watched = watched.copy()  # contexts in which the policy plays
        self.watchable = watched
        # What the estimated regret of every context may reach; one budget for all is for their sum.
        self.budgets = np.array(np.broadcast_to(budgets, watched.shape), dtype=float)
        self.total = np.zeros((len(watched), actions))  # S
        self.paid = np.zeros(len(watched))

    def hand_over(self, contexts: Any) -> None:
        """Watch these no more."""
        self.watched = self.watched.copy()  # rounds in flight keep what was
        self.watched[contexts] = False


class SharedWatch(OnFooting, Watch):
    """With estimates that the contexts share."""

    def __init__(self, footing: Footing, budgets: Any) -> None:
        super().__init__(footing.exploits, footing.shape[1], budgets)
        self.footing = footing

    @property
    def used(self) -> Floats:
        """Ĉ of every context."""
        return self.paid - self.footing.law * self.total.min(axis=1)  # type: ignore[no-any-return]


@kept
class OneByOne(SharedWatch):
    """Every context has its own account Ĉ(c) = Σ_{c_s = c} y_s - μ_c min_a S(c, a) and budget, and is handed over by itself.

    One loss adds at most (1 + μ_c)/2 + μ_c R to Ĉ(c) (Theorem F6.6c).
    """

    one_by_one = True

    @classmethod
    def sharing(cls, footing: Footing, budget: float) -> OneByOne:
        """With one budget shared out in proportion to √μ among the contexts that exploit."""
        shares = np.where(footing.exploits, np.sqrt(footing.law), 0.0)
        return cls(footing, budget * shares / max(float(shares.sum()), 1e-300))

    def learn(
        self, context: int, action: int, explored: bool, y: float, M: Floats, own: bool = True
    ) -> list[int]:
        """Enter a loss, of the policy's own round or not; the contexts whose budgets it exceeds."""
        watched = self.watched
        x = self.footing.estimate(M, context, action, explored, y)
        self.total += np.where(watched[:, None], x, 0.0)
        if own and watched[context]:
            self.paid[context] += y
        over = watched & (self.used > self.budgets)
        return np.flatnonzero(over).tolist() if over.any() else []

    def begin(self, context: int) -> None:
        """Watch a context anew."""
        self.watched = self.watched.copy()
        self.watched[context] = True
        self.total[context] = self.paid[context] = 0.0


@kept
class Together(SharedWatch):
    """One account for all contexts, Ĉ = Σ_s (y_s - h_s(c_s) + Σ_c μ_c h_s(c)) - Σ_c μ_c min_a S(c, a), and one budget.

    With h(c) = min_a M(c, a) the draw of contexts adds no noise, and one loss adds at most 1 + J₁/γ (Lemma 2', Theorem F6.6).
    """

    budget: float

    def __init__(self, footing: Footing, budget: float) -> None:
        super().__init__(footing, budget)
        self.budget = budget  # β B

    def learn(
        self, context: int, action: int, explored: bool, y: float, M: Floats, own: bool = True
    ) -> list[int]:
        """Enter a loss; all contexts, where it exceeds the budget."""
        if not self.watched.any():
            return []
        h = M.min(axis=1)
        self.total += self.footing.estimate(M, context, action, explored, y)
        self.paid += self.footing.law * h
        self.paid[context] += y - h.item(context)
        return list(range(len(h))) if self.used.sum() > self.budget else []
