r"""Where to explore when rounds come with a context: designs on pairs of a context and an action.

Contexts c come with known shares μ_c, and one kernel on pairs (c, a) has features φ(c, a). An exploration is a measure u on the
pairs, of which a context can carry no more than it is seen: u_c = Σ_a u(c, a) ≤ μ_c. With A(u) = Σ u φφ' + Λ, g² = φ'A(u)⁻¹φ and
G_c = max_a g(c, a)², a bound needs

    R_S = max of G_c over the contexts that exploit,    R_O = max_c w_c² G_c,    R = √(R_S R_O),    γ = u(S) + μ(D),

where the contexts of S exploit in the share 1 - u_c/μ_c of their rounds, those of D, too rare for that, explore always, and what
is observed there counts by the discount w_c, u_c ≤ w_c μ_c. Lemma F6.2: for every law of contexts and every R there are such u
and w with γ ≤ d/R, what exploration costs without contexts. `capped_design` finds them.

`even_design` explores in all contexts at the same rate (Lemma F6.6); the insured learner needs that.

Nothing rests on convergence: the numbers of a design are computed for what was found, by a factorisation of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss._arrays import as_distribution, as_float
from koloss._threads import threads_for
from koloss.designs.base import Design
from koloss.designs.john import john_design
from koloss.designs.ridge import RidgeDesign, ridge_design, whitening

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-9
"""Share of a context's exploration below which an action gets none."""

DAMPING = 0.3
"""Weight of the new discount in a step."""

FIRST_STEPS, STEPS = 20, 10
"""Steps on all pairs to begin with, and between two looks at all of them."""

MOST_STEPS = 1000


@dataclass(frozen=True, eq=False)
class CappedDesign:
    """Where to explore in each context, and what estimates can then be."""

    exploration: Floats  # u, of shape (C, K)
    laws: Floats  # π(·|c), u in proportion; uniform where a context is not explored
    shares: Floats  # γ_c, the share of its rounds that context c explores; 1 in D
    discounts: Floats  # w_c, 1 where a context exploits
    exploits: NDArray[np.bool_]  # which contexts are in S
    largest: float  # R: |x(z)| ≤ L R for every estimate x at a pair z of S
    largest_exploiting: float  # R_S: φ'A(u)⁻¹φ ≤ R_S there
    cost: float  # γ: exploring costs at most γ times the range of the losses a round


def capped_design(
    features: Any,
    law: Any,
    largest: float,
    *,
    ridge: Any = None,
    plain: Design | RidgeDesign | None = None,
    tolerance: float = 5e-3,
) -> CappedDesign:
    """Exploration with R ≤ (1 + tolerance) `largest`, at a cost γ of at most about d/R (Lemma F6.2).

    Where no context is too rare for it this is the design on all pairs, without contexts. Where R is below the dimension there
    is nothing to gain from estimates: then every context explores always, and γ = 1.

    Parameters
    ----------
    features : array of shape (C, K, m)
        φ(c, a).
    law : array of shape (C,)
        μ, positive.
    largest : float
        R aimed at.
    ridge : float or array of shape (m, t), optional
        λ of the penalty λI, or the columns of Λ = columns @ columns.T.
    plain : Design or RidgeDesign, optional
        The design on all pairs, without contexts, where it is known.
    tolerance : float
        How far above its optimum the product of R and the cost may be; the steps end there.

    Examples
    --------
    Two segments with three unrelated prices each; the second is seen once in a thousand rounds:

    >>> import numpy as np
    >>> design = capped_design(np.eye(6).reshape(2, 3, 6), [0.999, 0.001], 60.0)
    >>> design.exploits.tolist(), design.shares.round(3).tolist(), round(design.cost, 3)
    ([True, False], [0.05, 1.0], 0.051)
    """
    phi, mu = _checked(features, law)
    C, K, m = phi.shape
    rows, cap = phi.reshape(C * K, m), as_float("largest", largest, positive=True)
    columns = _columns(ridge, m)
    with threads_for(C * K * m * m):
        if plain is None:
            plain = john_design(rows) if columns is None else ridge_design(rows, columns, cap)
        weights = np.asarray(plain.weights, dtype=float).reshape(C, K)
        if isinstance(plain, Design):
            gamma, reached = plain.max_leverage / cap, cap
        else:
            gamma, reached = plain.exploration, plain.largest
        if gamma >= 1:
            return _always(phi, mu, weights, columns)
        if np.all(gamma * weights.sum(axis=1) <= mu):
            everyone = np.full(C, True)
            laws, shares = _conditional(weights), gamma * weights.sum(axis=1) / mu
            if C == 1:  # the very numbers of the design without contexts
                laws, shares = weights, np.array([gamma])
            return CappedDesign(
                gamma * weights, laws, shares, np.ones(C), everyone, reached, reached, gamma
            )
        found = _Search(phi, mu, cap, columns, gamma * weights).run(tolerance)
    return found if found.cost < 1 else _always(phi, mu, weights, columns)


def _checked(features: Any, law: Any) -> tuple[Floats, Floats]:
    phi = np.ascontiguousarray(features, dtype=float)
    if phi.ndim != 3 or 0 in phi.shape:
        raise ValueError(
            f"`features` must be of shape (contexts, actions, m), got shape {phi.shape}"
        )
    if not np.all(np.isfinite(phi)):
        raise ValueError("`features` must be finite, got a value that is not")
    mu = np.asarray(as_distribution("law", law, length=len(phi)), dtype=float)
    if mu.min() <= 0:
        raise ValueError(f"`law` must be positive, got a share of {mu.min():.6g}")
    return phi, mu


def _columns(ridge: Any, m: int) -> Floats | None:
    """Λ = columns @ columns.T; None without a penalty."""
    if ridge is None:
        return None
    if np.ndim(ridge) == 0:
        penalty = as_float("ridge", ridge, minimum=0.0)
        return None if penalty == 0 else math.sqrt(penalty) * np.eye(m)
    columns = np.asarray(ridge, dtype=float)
    if columns.ndim != 2 or columns.shape[0] != m:
        raise ValueError(
            f"`ridge` must be a number or have {m} rows, one for each feature, got shape {columns.shape}"
        )
    return columns if columns.any() else None


def _conditional(u: Floats) -> Floats:
    """π(·|c); uniform where a context is not explored."""
    total = u.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        laws: Floats = np.where(total > 0, u / total, 1 / u.shape[1])
    return laws


def _leverages(phi: Floats, u: Floats, columns: Floats | None) -> Floats:
    """g(c, a)² for the exploration u, by a fresh factorisation."""
    C, K, m = phi.shape
    rows = phi.reshape(C * K, m)
    none = np.zeros((m, 0))
    white = rows @ whitening(rows, u.ravel(), none if columns is None else columns)
    return np.asarray(np.einsum("ij,ij->i", white, white)).reshape(C, K)


def _always(phi: Floats, mu: Floats, weights: Floats, columns: Floats | None) -> CappedDesign:
    """Every context explores in every round."""
    laws = _conditional(weights)
    u = mu[:, None] * laws
    R, nobody = float(_leverages(phi, u, columns).max()), np.full(len(mu), False)
    return CappedDesign(u, laws, np.ones(len(mu)), np.ones(len(mu)), nobody, R, R, 1.0)


class _Search:
    """Multiplicative steps u ← u g²/R, each context cut at w_c μ_c, with damped discounts w_c → min(1, √(R/G_c))."""

    def __init__(
        self, phi: Floats, mu: Floats, cap: float, columns: Floats | None, plain: Floats
    ) -> None:
        C, K, m = phi.shape
        self.phi, self.mu, self.cap, self.columns = phi, mu, cap, columns
        self.rows = phi.reshape(C * K, m)
        self.context = np.repeat(np.arange(C), K)
        self.w = np.ones(C)
        # Half of it on all pairs: steps cannot leave the support on which they begin.
        self.u = (plain / 2 + plain.sum() / (2 * C * K)).ravel()

    def run(self, tolerance: float) -> CappedDesign:
        """Steps until the certificate is as good as asked for, or does not get better."""
        best = None
        for k in range(MOST_STEPS // STEPS):
            self._cut()
            g2 = self._whiten()
            design, slack = self._certified(g2)
            if best is None or self._worth(design, tolerance) < self._worth(best, tolerance):
                best = design
            if slack <= tolerance:
                break
            self._steps(g2, FIRST_STEPS if k == 0 else STEPS, k)
        assert best is not None
        return best

    def _worth(self, design: CappedDesign, tolerance: float) -> tuple[bool, float]:
        """Designs that keep to R come first, then those that cost little."""
        over = design.largest / self.cap
        return over > 1 + tolerance, design.cost * max(over, 1.0)

    def _cut(self) -> None:
        """No context explores more than w_c μ_c."""
        total = np.bincount(self.context, self.u, len(self.mu))
        most = self.w * self.mu
        self.u *= np.where(total > most, most / np.maximum(total, 1e-300), 1.0)[self.context]

    def _whiten(self) -> Floats:
        """Coordinates in which A(u) = I; returns g² of all pairs."""
        largest = np.zeros(len(self.mu))
        np.maximum.at(largest, self.context, self.u)
        kept = np.where(self.u > NEGLIGIBLE * largest[self.context], self.u, 0.0)
        m = self.rows.shape[1]
        none = np.zeros((m, 0))
        T = whitening(self.rows, kept, none if self.columns is None else self.columns)
        self.rows = self.rows @ T
        if self.columns is not None:
            self.columns = T.T @ self.columns
        self.kept = kept
        g2: Floats = np.einsum("ij,ij->i", self.rows, self.rows)
        return g2

    def _steps(self, g2: Floats, steps: int, k: int) -> None:
        """Steps on the pairs that carry weight or may come to."""
        C, R, m = len(self.mu), self.cap, self.rows.shape[1]
        price = np.full(C, R)
        np.maximum.at(price, self.context, g2)
        active = np.arange(len(g2))
        if k > 1:  # pairs far below their context's largest leverage have lost their weight
            mean = np.bincount(self.context, self.u, C) / np.bincount(self.context, minlength=C)
            weighty = self.u > 1e-3 * mean[self.context]
            active = np.flatnonzero(weighty | (g2 > 0.98 * price[self.context]))
        rows, context, u = self.rows[active], self.context[active], self.u[active]
        fixed = np.zeros((m, m)) if self.columns is None else self.columns @ self.columns.T
        left = np.setdiff1d(np.arange(len(g2)), active, assume_unique=True)
        fixed = fixed + (self.rows[left].T * self.u[left]) @ self.rows[left]
        aside = np.bincount(self.context[left], self.u[left], C)
        own = g2[active]
        for j in range(steps):
            if j > 0:
                root = np.linalg.cholesky((rows.T * u) @ rows + fixed)
                white = np.linalg.inv(root) @ rows.T
                own = np.einsum("ij,ij->j", white, white)
            G = np.zeros(C)
            np.maximum.at(G, context, own)
            wanted = np.minimum(1.0, np.sqrt(R / np.maximum(G, 1e-300)))
            self.w = self.w ** (1 - DAMPING) * wanted**DAMPING
            u = u * own / R
            total, most = np.bincount(context, u, C), np.maximum(self.w * self.mu - aside, 0.0)
            u *= np.where(total > most, most / np.maximum(total, 1e-300), 1.0)[context]
        self.u[active] = u
        self.u[left] *= g2[left] / price[self.context[left]]

    def _certified(self, g2: Floats) -> tuple[CappedDesign, float]:
        """The best choice of contexts that exploit for this exploration, and how far Lemma F6.2 is from its equality."""
        mu, R = self.mu, self.cap
        u, g2 = self.kept.reshape(self.phi.shape[:2]), g2.reshape(self.phi.shape[:2])
        G, explored = g2.max(axis=1), np.minimum(u.sum(axis=1), mu)
        w = np.minimum(1.0, np.maximum(np.sqrt(R / G), explored / mu))
        # S are the contexts of least leverage: how many, is chosen by the product of cost and reach.
        order = np.argsort(G, kind="stable")
        R_S = G[order]
        beyond = np.append(np.maximum.accumulate((w**2 * G)[order][::-1])[::-1][1:], 0.0)
        R_O = np.maximum(R_S, beyond)
        cost = np.cumsum(explored[order]) + (1 - np.cumsum(mu[order]))
        j = int(np.argmin(cost * np.maximum(np.sqrt(R_S * R_O), R)))
        exploits = np.full(len(mu), False)
        exploits[order[: j + 1]] = True
        discounts = np.where(exploits, 1.0, w)
        gamma = float(explored[exploits].sum() + mu[~exploits].sum())
        reach = math.sqrt(R_S[j] * R_O[j])
        shares = np.where(exploits, explored / mu, 1.0)
        design = CappedDesign(
            u, _conditional(u), shares, discounts, exploits, reach, float(R_S[j]), gamma
        )
        known = float(np.sum(u * g2))  # d_E
        full = float(explored[exploits].sum() + np.sum((mu / discounts)[~exploits]))
        return design, max(full * R / known - 1, R_S[j] / R - 1, R_O[j] / R - 1)
