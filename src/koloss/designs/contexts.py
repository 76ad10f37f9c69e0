r"""Where to explore when rounds come with a context: designs on pairs of a context and an action.

Contexts c come with known shares μ_c, and one kernel on pairs (c, a) has features φ(c, a). An exploration is a measure u on the
pairs, of which a context can carry no more than it is seen: u_c = Σ_a u(c, a) ≤ μ_c. With A(u) = Σ u φφ' + Λ, g² = φ'A(u)⁻¹φ and
G_c = max_a g(c, a)², a bound needs

    R_S = max of G_c over the contexts that exploit,    R_O = max_c w_c² G_c,    R = √(R_S R_O),    γ = u(S) + μ(D),

where the contexts of S exploit in the share 1 - u_c/μ_c of their rounds, those of D, too rare for that, explore always, and what
is observed there counts by the discount w_c, u_c ≤ w_c μ_c. Lemma F6.2: for every law of contexts and every R there are such u
and w with γ ≤ d/R, what exploration costs without contexts. `capped_design` finds them.

Nothing rests on convergence: the numbers of a design are computed for what was found, by a factorisation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koloss.core.arrays import as_distribution, as_float
from koloss.core.snapshot import Bools, Matrix, Vector, kept
from koloss.core.threads import threads_for
from koloss.designs.base import Design, orthonormal
from koloss.designs.john import john_design
from koloss.designs.ridge import RidgeDesign, ridge_design, whitening

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-9
"""Share of a context's exploration below which an action gets none."""

DAMPING = 0.3
"""Weight of the new discount in a step."""

STEPS, LOOKS = 15, 60
"""Steps between two looks at all pairs, and most looks."""

WEIGHTY, NEAR = 1e-3, 0.02
"""Between two looks only pairs take part that have this share of the average weight or are so near the largest leverage."""


@kept
@dataclass(frozen=True, eq=False)
class CappedDesign:
    """Where to explore in each context, and what estimates can then be."""

    exploration: Matrix  # u, of shape (C, K)
    laws: Matrix  # π(·|c), u in proportion; uniform where a context is not explored
    shares: Vector  # γ_c, the share of its rounds that context c explores; 1 in D
    discounts: Vector  # w_c, 1 where a context exploits
    exploits: Bools  # which contexts are in S
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
    tolerance: float = 4e-3,
) -> CappedDesign:
    """Exploration with R at most `largest`, at a cost γ of at most about d/R (Lemma F6.2).

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
        The steps end where R and the cost are each within this factor of their optimum, so that γ `largest` is at most
        (1 + tolerance)² d. Should they not get there, what they reach is what the design says.

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
        # With a ridge the shares may cost less than 1 where the design on all pairs does not.
        if gamma >= 1 and columns is None:
            return _always_design(_spanning(phi, columns), mu, weights, columns)
        if np.all(gamma * weights.sum(axis=1) <= mu):
            everyone = np.full(C, True)
            laws, shares = _conditional(weights), gamma * weights.sum(axis=1) / mu
            if C == 1:  # the very numbers of the design without contexts
                laws, shares = weights, np.array([gamma])
            return CappedDesign(
                gamma * weights, laws, shares, np.ones(C), everyone, reached, reached, gamma
            )
        aim, phi = cap / (1 + tolerance), _spanning(phi, columns)
        found = _capped(_Search(phi, mu, aim, columns, gamma * weights), tolerance)
    good = found.cost < 1 and (gamma < 1 or found.largest <= cap)
    return found if good else _always_design(phi, mu, weights, columns)


def _capped(search: _Search, tolerance: float) -> CappedDesign:
    """Steps until the certificate is as good as asked for, or there have been too many: then the best on the way."""
    cap, best, worth = search.cap, None, (True, math.inf)
    for u, g2 in search:
        design, slack = _certified(u, g2, search.mu, cap)
        # Those that keep to R come first, then those that cost little.
        over = design.largest / cap
        own = over > 1 + tolerance, design.cost * max(over, 1.0)
        if best is None or own < worth:
            best, worth = design, own
        if slack <= tolerance:
            break
    assert best is not None
    return best


def _certified(u: Floats, g2: Floats, mu: Floats, R: float) -> tuple[CappedDesign, float]:
    """The best choice of contexts that exploit for this exploration, and how far Lemma F6.2 is from its equality."""
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
    discounts, shares = np.where(exploits, 1.0, w), np.where(exploits, explored / mu, 1.0)
    gamma = float(explored[exploits].sum() + mu[~exploits].sum())
    reach, laws = math.sqrt(R_S[j] * R_O[j]), _conditional(u)
    design = CappedDesign(u, laws, shares, discounts, exploits, reach, float(R_S[j]), gamma)
    full = float(explored[exploits].sum() + np.sum((mu / discounts)[~exploits]))
    dimension = float(np.sum(u * g2))  # d_E
    return design, max(full * R / dimension - 1, R_S[j] / R - 1, R_O[j] / R - 1)


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


def _spanning(phi: Floats, columns: Floats | None) -> Floats:
    """Features in coordinates of the space that they span, where no penalty is on the others."""
    C, K, m = phi.shape
    if columns is not None:
        return phi
    Z, _ = orthonormal(phi.reshape(C * K, m))
    return phi if Z.shape[1] == m else np.asarray(Z).reshape(C, K, -1)


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


def _always_design(
    phi: Floats, mu: Floats, weights: Floats, columns: Floats | None
) -> CappedDesign:
    """Every context explores in every round."""
    laws = weights if len(mu) == 1 else _conditional(weights)  # of one the very numbers
    u = mu[:, None] * laws
    R, nobody = float(_leverages(phi, u, columns).max()), np.full(len(mu), False)
    return CappedDesign(u, laws, np.ones(len(mu)), np.ones(len(mu)), nobody, R, R, 1.0)


class _Search:
    """Multiplicative steps u ← u g²/R with damped discounts w_c → min(1, √(R/G_c)); a context never explores more than w_c μ_c.

    Iterating, one looks at u and g² of all pairs after every few steps.
    """

    def __init__(
        self, phi: Floats, mu: Floats, cap: float, columns: Floats | None, plain: Floats
    ) -> None:
        C, K, m = phi.shape
        self.mu, self.cap = mu, cap
        self.rows = phi.reshape(C * K, m)
        self.columns = np.zeros((m, 0)) if columns is None else columns
        self.context = np.repeat(np.arange(C), K)
        self.w = np.ones(C)
        # Half of it on all pairs: steps cannot leave the support on which they begin.
        self.u = (plain / 2 + plain.sum() / (2 * C * K)).ravel()

    def __iter__(self) -> Iterator[tuple[Floats, Floats]]:
        shape = len(self.mu), -1
        for k in range(LOOKS):
            self.u *= self._room(self.context, self.u, 0.0)
            u, g2 = self._whiten()
            yield u.reshape(shape), g2.reshape(shape)
            self._advance(g2, few=k > 1)

    def _room(self, context: NDArray[np.intp], u: Floats, aside: Any) -> Floats:
        """Factors by which contexts have to explore less."""
        most = np.maximum(self.w * self.mu - aside, 0.0)
        total = np.maximum(np.bincount(context, u, len(self.mu)), 1e-300)
        factors: Floats = np.where(total > most, most / total, 1.0)[context]
        return factors

    def _whiten(self) -> tuple[Floats, Floats]:
        """Coordinates in which A(u) = I; returns u without what is negligible, and g² of all pairs."""
        largest = np.zeros(len(self.mu))
        np.maximum.at(largest, self.context, self.u)
        u = np.where(self.u > NEGLIGIBLE * largest[self.context], self.u, 0.0)
        T = whitening(self.rows, u, self.columns)
        self.rows, self.columns = self.rows @ T, T.T @ self.columns
        return u, np.einsum("ij,ij->i", self.rows, self.rows)

    def _advance(self, g2: Floats, few: bool) -> None:
        """Steps on the pairs that carry weight or may come to."""
        C, R = len(self.mu), self.cap
        price = np.full(C, R)
        np.maximum.at(price, self.context, g2)
        chosen = np.full(len(g2), True)
        if few:  # pairs far below their context's largest leverage have lost their weight
            mean = np.bincount(self.context, self.u, C) / np.bincount(self.context, minlength=C)
            chosen = self.u > WEIGHTY * mean[self.context]
            chosen |= g2 > (1 - NEAR) * price[self.context]
        rows, context, u, own = self.rows[chosen], self.context[chosen], self.u[chosen], g2[chosen]
        left = ~chosen
        fixed = self.columns @ self.columns.T
        fixed = fixed + (self.rows[left].T * self.u[left]) @ self.rows[left]
        aside = np.bincount(self.context[left], self.u[left], C)
        for j in range(STEPS):
            if j > 0:
                root = np.linalg.cholesky((rows.T * u) @ rows + fixed)
                white = rows @ np.linalg.inv(root).T
                own = np.einsum("ij,ij->i", white, white)
            G = np.zeros(C)
            np.maximum.at(G, context, own)
            wanted = np.minimum(1.0, np.sqrt(R / np.maximum(G, 1e-300)))
            self.w = self.w ** (1 - DAMPING) * wanted**DAMPING
            u = u * own / R
            u *= self._room(context, u, aside)
        self.u[chosen] = u
        self.u[left] *= g2[left] / price[self.context[left]]
