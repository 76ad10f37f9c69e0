r"""Designs and dimensions with a penalty: what takes the place of the rank m where Σ + Λ is inverted, not Σ.

The penalty is Λ = λ · (projection on the tail of the features); the head, the constant among it, has none. For a law p
on the actions let A = Σ(p) + Λ, and 0 ≤ h_j ≤ 1 the eigenvalues of A^(-1/2) Σ A^(-1/2). Then

    d(p) = E_p φ'A⁻¹φ = Σ h_j,    e(p) = E_p φ'A⁻¹ΛA⁻¹φ = Σ h_j(1 - h_j) = -λ ∂d/∂λ.

The bounds need d* = max_p d(p) and e* = max_p e(p). d is concave in p with gradient e(a)² = φ(a)'A⁻¹ΛA⁻¹φ(a), so *any* law
certifies d* ≤ d(p) + max_a e(a)² - e(p), for every λ at once; and e* is bounded by d* at other penalties. `Dimensions`
collects such certificates. `ridge_design` finds where to explore.

Numbers that are differences of larger ones are never computed as such: the tail is projected off the head in L²(p), and
d - (size of the head) and e are sums of positive terms of what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpotrf, dpotri

from koloss.core.snapshot import kept
from koloss.core.threads import threads_for
from koloss.designs.base import orthonormal
from koloss.designs.working_set import candidates
from koloss.errors import DesignNotConverged, RankUnreachable

Floats = NDArray[np.float64]

SMALLEST_WEIGHT = 1e-12
"""Laws that certify give every action at least this, so that nothing is divided by zero."""

LEAST_EXPLORATION = 1e-9
"""γ where the penalty alone keeps leverages small."""

FACTORS = 2.0 ** np.arange(-4, 10)
"""c of the bounds on e* by d* at the penalty cΛ."""

SHARES = np.where(FACTORS >= 0.5, FACTORS, 0.25 / (1 - np.minimum(FACTORS, 0.5)))
"""Of d* at the penalty cΛ, what bounds e*."""


NEGLIGIBLE = 0.002
"""Share of a dimension for which features are left out of a certificate."""


class Tail(NamedTuple):
    """The features beyond the head, projected off it in L²(p), in coordinates where their covariance is diagonal."""

    variances: Floats  # σ_j ≥ 0
    squares: Floats  # (N, t): squares of the coordinates of every action


def tail_of(head: Floats, tail: Floats, p: Floats) -> Tail:
    """Project the tail off the head in L²(p)."""
    root = np.sqrt(p)[:, None]
    rows = _beyond(head, tail, root)
    variances, directions = np.linalg.eigh(rows.T @ rows)
    return Tail(np.maximum(variances, 0.0), np.square((rows / root) @ directions))


def _beyond(head: Floats, tail: Floats, root: Floats, times: int = 2) -> Floats:
    """The tail, projected off the head, in rows times √p."""
    rows = root * tail
    if head.shape[1]:
        basis, _ = np.linalg.qr(root * head)
        for _ in range(times):  # the second time removes the rounding of the first
            rows -= basis @ (basis.T @ rows)
    return rows


@kept
@dataclass(frozen=True, eq=False)
class Certificates:
    """Upper bounds on d* - k₀ and e*, for penalties on a grid of powers of 2."""

    free: int  # k₀, the number of features without a penalty
    rest: int  # and with one
    residual: float  # squared norm of any action that the head leaves, at most
    penalties: Floats
    excesses: Floats

    def excess(self, penalty: Any) -> Any:
        """Upper bound on d* - k₀: that of the next smaller penalty on the grid."""
        k = np.searchsorted(self.penalties, np.multiply(penalty, 1 + 1e-9), side="right") - 1
        value = np.where(k >= 0, self.excesses[k], self.rest)
        return value if value.ndim else float(value)

    def spread(self, penalty: Any) -> Any:
        """Upper bound on e* (Lemma F1.4, 3): h(1 - h) ≤ c h_c for c ≥ ½, and ≤ h_c/(4(1 - c)) for c ≤ ½.

        c = 1 is among them, so that it is never above that on d* - k₀.
        """
        bounds = (self.excess(np.multiply.outer(penalty, FACTORS)) * SHARES).min(axis=-1)
        value = np.minimum(bounds, self.residual / penalty)
        return value if value.ndim else float(value)


class Dimensions:
    """Certified d* and e* of features with a head and a tail, at penalties from a grid of powers of 2 times `unit`.

    Parameters
    ----------
    head : array of shape (N, k₀)
        Features without a penalty, linearly independent on the actions.
    tail : array of shape (N, t)
        Features with one.
    residuals : array of shape (t + 1,)
        Squared norm that is left of any action after the head and 0, 1, ..., t features of the tail, at most.
    unit : float
        A penalty on the grid.
    shares : array of shape (C,), optional
        Of contexts, where the rows are pairs, as many to each context: then laws are those with these shares (theory F6).

    Examples
    --------
    Ten unrelated arms, of which no law learns more than d* = 10/(1 + 10 λ), with a spread of at most 10/4:

    >>> import numpy as np
    >>> arms = Dimensions(np.empty((10, 0)), np.eye(10), np.ones(11), unit=0.1)
    >>> _ = arms.improve(0.1)
    >>> round(arms.certificates.excess(0.1), 6), round(arms.certificates.spread(0.1), 2)
    (5.0, 2.51)
    """

    def __init__(
        self,
        head: Floats,
        tail: Floats,
        residuals: Floats,
        *,
        unit: float,
        shares: Floats | None = None,
    ) -> None:
        self.head, self.tail, self.residuals, self.shares = head, tail, residuals, shares
        self._last: tuple[Floats, Tail] | None = None  # law, and what it makes of the tail
        penalties: Floats = unit * 2.0 ** np.arange(-40.0, 41.0)
        counts = np.arange(tail.shape[1] + 1)[:, None]
        excesses = np.min(counts + residuals[:, None] / penalties, axis=0)  # Lemma F1.4 (2)
        residual = float(residuals[0])
        self.certificates = Certificates(
            head.shape[1], tail.shape[1], residual, penalties, excesses
        )

    def improve(self, penalty: float, p: Floats | None = None, steps: int = 6) -> Floats:
        """Steps p ∝ p·e(·)² towards the largest d at this penalty; the law at the end is a certificate at all of them.

        They begin at p, or else at the end of the last ones, or at the uniform law.
        """
        N, known = len(self.tail), self.certificates
        # Features that can hardly be learned are left out: d* ≤ d*(the others) + r/λ, with r what is left of any action.
        negligible = NEGLIGIBLE * penalty * (known.free + known.excess(penalty))
        few = np.flatnonzero(self.residuals[:-1] <= negligible)
        tail = self.tail[:, : few[0]] if len(few) else self.tail
        if p is not None:
            self._last = None
        elif self._last is not None:
            p = self._last[0]
        else:
            p = np.full(N, 1 / N) if self.shares is None else self._law(np.ones(N))
        if tail.shape[1] == 0:  # nothing is left beyond the head
            return p
        for _ in range(steps):
            if self._last is not None:  # the decomposition is there
                law, self._last = self._last[1], None
                slopes = law.squares @ (1 / np.square(law.variances + penalty))
            else:
                slopes = _slopes(self.head, tail, p, penalty)
            steeper = p * slopes
            if steeper.sum() == 0:
                break
            p = self._law(np.maximum(steeper / steeper.sum(), SMALLEST_WEIGHT))
        law = tail_of(self.head, tail, p)
        self._certify(law)
        self._last = (p, law)
        return p

    def _law(self, p: Floats) -> Floats:
        """These weights as a law, with the shares of the contexts where there are any."""
        if self.shares is None:
            law: Floats = p / p.sum()
        else:
            pairs = p.reshape(len(self.shares), -1)
            law = (pairs * (self.shares / pairs.sum(axis=1))[:, None]).ravel()
        return law

    def _steepest(self, slopes: Floats) -> Floats:
        """The largest mean that a law can have of these columns."""
        if self.shares is None:
            largest: Floats = slopes.max(axis=0)
        else:
            pairs = slopes.reshape(len(self.shares), -1, slopes.shape[1])
            largest = self.shares @ pairs.max(axis=1)
        return largest

    def _certify(self, law: Tail) -> None:
        """d* ≤ d(p) + max e(a)² - e(p) + r/λ (Lemma F1.4, 1, and F4, b), with room for rounding."""
        known, variances, rounding = self.certificates, law.variances[:, None], 2.3e-16
        at, t, left = known.penalties, known.rest, self.residuals[len(law.variances)]
        slope = at / (variances + at) ** 2
        gap = self._steepest(law.squares @ slope) - law.variances @ slope
        d = np.sum(variances / (variances + at), axis=0) + np.maximum(gap, 0.0)
        bound = d * (1 + 10 * (t + known.free) * rounding)
        bound += t * t * rounding * law.variances[-1] / at
        if len(law.variances) < t:
            bound += left / at
        excesses = np.minimum(known.excesses, np.minimum(bound, t))
        self.certificates = replace(known, excesses=excesses)


def _slopes(head: Floats, tail: Floats, p: Floats, penalty: float) -> Floats:
    """e(a)² of every action, up to a factor."""
    root = np.sqrt(p)[:, None]
    rows = _beyond(head, tail, root, 1)
    A = rows.T @ rows
    A[np.diag_indices_from(A)] += penalty
    factor, _ = dpotrf(A.T, lower=1, overwrite_a=1)
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    solved = dsymm(1.0, inverse, rows.T, lower=1)
    slopes: Floats = np.einsum("ij,ij->j", solved, solved) / p
    return slopes


class Penalised(NamedTuple):
    """Features and a penalty in coordinates where Σ(π) + Λ/γ = I and Λ is diagonal; then γΣ(π) + Λ = γI."""

    features: Floats  # (N, rank)
    columns: Floats  # (rank, t): Λ = columns @ columns.T


class RidgeDesign(NamedTuple):
    """Where to explore, and how much."""

    weights: Floats  # π
    exploration: float  # γ
    largest: float  # max_a φ(a)'(γΣ(π) + Λ)⁻¹φ(a)


class Leverage:
    """max_a φ(a)'(γΣ(π) + Λ)⁻¹φ(a) as a function of γ.

    Parameters
    ----------
    rows : array of shape (N, m)
        φ(a).
    weights : array of shape (N,)
        π.
    columns : array of shape (m, t)
        Λ = columns @ columns.T.
    """

    def __init__(self, rows: Floats, weights: Floats, columns: Floats) -> None:
        # In coordinates where Σ + Λ = I, Σ has the share h of each direction and Λ the share 1 - h.
        transform = whitening(rows, weights, columns)
        carriers = np.flatnonzero(weights)
        known = np.sqrt(weights[carriers])[:, None] * (rows[carriers] @ transform)
        shares, directions = np.linalg.eigh(known.T @ known)
        self.shares: Floats = np.clip(shares, 0.0, 1.0)
        self.squares: Floats = np.square(rows @ (transform @ directions))

    def __call__(self, gamma: float) -> float:
        return float(np.max(self.squares @ (1 / (gamma * self.shares + (1 - self.shares)))))

    def at(self, gammas: Floats) -> Floats:
        """The same for several γ."""
        shares = self.shares[:, None]
        largest: Floats = (self.squares @ (1 / (gammas * shares + (1 - shares)))).max(axis=0)
        return largest

    def exploration(self, cap: float) -> float:
        """The least γ at which no leverage exceeds the cap; infinite where there is none."""
        low, high = LEAST_EXPLORATION, 1.0
        if self(low) <= cap:
            return low
        while self(high) > cap:
            low, high = high, 4 * high
            if high > 1e15:
                return math.inf
        while high - low > 1e-10 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self(middle) > cap else (low, middle)
        return high


def whitening(rows: Floats, weights: Floats, columns: Floats) -> Floats:
    """T with T'(Σ(π) + Λ)T = I, by a factorisation of what is squared there: it may be ill-conditioned."""
    carriers = np.flatnonzero(weights)
    known = np.sqrt(weights[carriers])[:, None] * rows[carriers]
    _, transform = orthonormal(np.vstack([known, columns.T]))
    if transform.shape[1] < rows.shape[1]:
        rule = f"must span, with the ridge, all {rows.shape[1]} dimensions of the features"
        raise RankUnreachable(f"`design` {rule}, and does not", rank=transform.shape[1])
    whitening: Floats = transform
    return whitening


def ridge_design(
    features: Floats, columns: Floats, cap: float, *, tolerance: float = 1e-3, max_rounds: int = 100
) -> RidgeDesign:
    """An exploration γ and a law π, both by a log-det design, with max_a φ(a)'(γΣ(π) + Λ)⁻¹φ(a) ≤ cap, up to a tolerance.

    The weights w = γπ maximise log det(Σ_a w_a φ(a)φ(a)' + Λ) - cap Σ_a w_a: there no leverage exceeds the cap, and π is the
    log-det design for the penalty Λ/γ (Lemma F1.5, whose fixed point this is). γ exceeds 1 where the cap is too small.

    Parameters
    ----------
    features : array of shape (N, M)
    columns : array of shape (M, t)
        Λ = columns @ columns.T.
    cap : float
        Largest leverage aimed at, ḡ².
    tolerance : float
        The leverage is at most (1 + tolerance) times the cap.
    max_rounds : int
        Passes over the features before giving up.

    Examples
    --------
    >>> import numpy as np
    >>> columns = np.sqrt(0.1) * np.eye(4)[:, 2:]
    >>> weights, gamma, largest = ridge_design(np.eye(4), columns, cap=20.0)
    >>> (
    ...     weights.round(6).tolist(),
    ...     round(gamma, 6),
    ... )  # 1/0.1 is below the cap: no need to explore there
    ([0.5, 0.5, 0.0, 0.0], 0.1)
    """
    with threads_for(features.shape[0] * features.shape[1] ** 2):
        rows, columns = _scaled(features, columns)
        for support, w in candidates(rows, cap, columns @ columns.T, tolerance, max_rounds):
            weights = np.zeros(len(rows))
            weights[support] = w / w.sum()
            gamma = max(float(w.sum()), LEAST_EXPLORATION)
            largest = Leverage(rows, weights, columns)(gamma)
            gap = largest / cap - 1
            if gap <= tolerance:
                return RidgeDesign(weights, gamma, largest)
    message = f"`max_rounds` must exceed {max_rounds} for a gap of {tolerance:.3g}, got as far as {gap:.3g}"
    raise DesignNotConverged(message, gap=gap)


def _scaled(features: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """Features and the penalty's columns in coordinates where N Σ(uniform) + Λ = I."""
    N = len(features)
    Z, _ = orthonormal(np.vstack([features, columns.T]))
    return np.ascontiguousarray(Z[:N]), Z[N:].T


def whiten_ridge(features: Floats, columns: Floats, design: RidgeDesign) -> Penalised:
    """Change coordinates so that Σ(π) + Λ/γ = I and Λ is diagonal: what needs Λ is then a weighted sum of squares."""
    root = 1 / math.sqrt(design.exploration)
    transform, penalty = along(whitening(features, design.weights, root * columns), columns)
    return Penalised(features @ transform, penalty)


def along(transform: Floats, columns: Floats) -> tuple[Floats, Floats]:
    """The same change of coordinates followed by the rotation that makes Λ diagonal, and the columns of Λ there."""
    directions, sizes, _ = np.linalg.svd(transform.T @ columns)
    penalty = np.zeros((len(directions), columns.shape[1]))
    np.fill_diagonal(penalty, sizes)
    return transform @ directions, penalty
