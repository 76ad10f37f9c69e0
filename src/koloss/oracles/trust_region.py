"""The global minimum of x'Bx + b'x on a ball, for every symmetric B and every b, with a proof.

The problem need not be convex, yet it has no duality gap. With h = b/2, a point of the ball |x| ≤ r is a minimum if
and only if there is a multiplier μ ≥ 0 such that

    (B + μI) x = -h,    B + μI ⪰ 0,    μ (r² - |x|²) = 0.

*Small problems.* In the eigenbasis of B the first condition gives x(μ), and |x(μ)| = r is one equation in one unknown,
solved by Newton's method on 1/|x(μ)| = 1/r. The left side is concave and increasing in μ, so steps from the left of the
root never pass it. The unknown is t = μ + λ₁, the distance from the pole at the lowest eigenvalue, so that no digits are
lost close to it. In the hard case (h ⟂ the lowest eigenspace, and |x| < r at the pole) a step along that eigenspace, in
either direction, reaches the sphere.

*Large problems.* The same in the Krylov space of B and h (Gould, Lucidi, Roma and Toint, 1999), to which the lowest
Ritz vector of a second Krylov space, that of a random vector, is added: in the hard case the first space never sees
the lowest eigenvector.

*The proof.* Let M = B + μI have no eigenvalue below m, and ε = |Mx + h|. Expanding f(y) + μ(|y|² - r²) around x gives,
for every y of the ball,

    f(y) ≥ f(x) - μ (r² - |x|²) - min{ε²/m, 2ε(r + |x|) + (-m)₊(r + |x|)²}.

The first of the two counts for m > 0 only, and makes the right side the dual value at μ, or a little less; the other
survives a pole. This holds for any x of the ball and any μ ≥ 0, however they were found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, eigh_tridiagonal, lapack
from scipy.linalg.blas import ddot, dnrm2, dsymv

from koloss.core.arrays import as_float, as_points, as_vector, to_numpy, within_floats
from koloss.oracles.base import Minimum

UNIT = 2.0**-53
"""Unit roundoff."""

FAILURE = 1e-12
"""Probability, over the random start, that the lower bound on the eigenvalues of an operator is wrong."""

NEGLIGIBLE = 1e-280
"""More than underflow can cost, relative to the size of the problem."""

DIRECT = 500
"""Up to this dimension eigenvalues are about as quick as Krylov spaces, or quicker (benchmarks/oracles.py)."""

DENSE = 4000
"""Up to this dimension an operator is made a matrix where the Krylov spaces do not reach their goal."""

TOLERANCE = 1e-11
"""Goal of the Krylov spaces for the gap, relative to the size of the problem, where rounding allows it."""

TILE = 256
"""Rows and columns of an array that fit the cache."""

STEPS = 1000
"""Most dimensions of a Krylov space, where there is no matrix to fall back on."""


@within_floats("`matrix`, `vector` and `radius`")
def minimize_quadratic_ball(matrix: Any, vector: Any, *, radius: float = 1.0) -> Minimum:
    """Global minimum of x'Bx + b'x (no factor 1/2) on the ball |x| ≤ radius, convex or not.

    Parameters
    ----------
    matrix : array, scipy.sparse array or scipy.sparse.linalg.LinearOperator, of shape (d, d)
        B, symmetric: definite, indefinite, singular, zero, anything.
    vector : array of shape (d,)
        b.
    radius : float

    Returns
    -------
    Minimum
        With `certificate` "dual". `multiplier` is μ ≥ 0, for which B + μI ⪰ 0 to rounding; it is infinite where it is
        beyond the floating range. `points` has one row, or two in the hard case: b orthogonal to the lowest
        eigenspace, the lowest eigenvalue not positive, and room on the sphere. If that eigenvalue is negative and
        simple these are all minimisers; else they are two of infinitely many.

    Raises
    ------
    ValueError
        If the minimal value is beyond the floating range.

    Notes
    -----
    The gap allows for rounding, u = 2⁻⁵³ per step: (d + 8) u |B| |x| in a product, 4 d u |B| in an eigenvalue or a
    Cholesky factorisation. For a matrix of any size it is a small multiple of that.

    A sparse matrix or an operator of more than 500 dimensions is only multiplied by vectors, and is trusted to do so as
    precisely as a matrix would. Then the lower bound on the eigenvalues that the proof needs comes from a random
    vector, and is wrong for one in 10¹² of them (the vector is always the same). If the spectrum does not let the
    Krylov spaces reach a gap of about 10⁻¹¹ times the size of the problem, the matrix is formed and decomposed up to
    4,000 dimensions; above that, `gap` says what is proved.

    Examples
    --------
    >>> import numpy as np
    >>> best = minimize_quadratic_ball(np.diag([1.0, -2.0]), [1.0, 0.0])  # the hard case
    >>> np.round(np.abs(best.points), 6).tolist(), best.multiplier
    ([[0.166667, 0.986013], [0.166667, 0.986013]], 2.0)
    >>> round(best.value, 6), best.gap < 1e-13
    (-2.083333, True)
    """
    if hasattr(matrix, "tocsr") or hasattr(matrix, "matvec"):  # of scipy.sparse
        problem = _from_operator(matrix, vector, radius)
    else:
        problem = from_array(matrix, vector, radius)
    return by_eigenvalues(problem) if len(problem.half) <= DIRECT else _by_krylov(problem)


@dataclass(frozen=True)
class _Problem:
    """min x'Bx + 2h'x on |x| ≤ ρ, in units that are powers of two, so that nothing overflows."""

    matrix: Any  # B: an array, or a _Scaled operator
    half: Any  # h
    rho: float  # at least 1/2, less than 1
    value_unit: int  # as binary exponents
    length_unit: int

    def gap(self, x: Any, mu: float, margin: float, size: float) -> tuple[float, float, float]:
        """Value at x, the gap that x and μ prove, and the residual |(B + μI)x + h|.

        `margin` is a lower bound on the eigenvalues of B + μI, `size` an upper bound on the norm of |B|.
        """
        h, rho = self.half, self.rho
        rounding = (len(h) + 8) * UNIT
        gradient = self.matrix @ x + h
        residual = gradient + mu * x
        norm, norm_h, eps = dnrm2(x), dnrm2(h), dnrm2(residual)
        most = eps + rounding * ((size + mu) * norm + norm_h)
        reach = rho + norm
        gap = 2 * most * reach + max(-margin, 0.0) * reach**2
        if margin > 0:
            gap = min(gap, most**2 / margin)
        gap += mu * (max(rho**2 - norm**2, 0.0) + rounding * rho**2)
        gap += 2 * rounding * norm * (size * norm + 2 * norm_h) + NEGLIGIBLE
        return ddot(x, gradient + h), gap, eps

    def minimum(self, points: Any, mu: float, value: float, gap: float) -> Minimum:
        """The answer in the units of the caller."""
        try:
            value, gap = math.ldexp(value, self.value_unit), math.ldexp(gap, self.value_unit)
        except OverflowError as error:
            message = "`matrix` and `vector` must be smaller: the minimal value is beyond the floating range"
            raise ValueError(message) from error
        try:
            mu = math.ldexp(mu, self.value_unit - 2 * self.length_unit)
        except OverflowError:
            mu = math.inf
        points = np.ldexp(points, self.length_unit)
        smallest = 1e-323  # the value may have lost as much to underflow
        return Minimum(points[0], value, gap + smallest, "dual", points, multiplier=mu)


@dataclass(frozen=True)
class _Scaled:
    """An operator times a power of two."""

    operator: Any
    exponent: int

    def __matmul__(self, X: Any) -> Any:
        return np.ldexp(self.operator @ X, self.exponent)


# Checks, and units in which nothing overflows.


def from_array(matrix: Any, vector: Any, radius: float) -> _Problem:
    """The problem of an array, in units in which nothing overflows."""
    matrix, largest = _floats("matrix", matrix, 2)
    _check_square(matrix.shape)
    problem = _in_units(matrix, largest, vector, radius)
    B = problem.matrix
    if not _is_symmetric(B):
        _check_symmetric(float(np.abs(B - B.T).max()), float(np.abs(B).max()))
        problem = replace(problem, matrix=(B + B.T) / 2)
    return problem


def _from_operator(operator: Any, vector: Any, radius: float) -> _Problem:
    _check_square(operator.shape)
    d = operator.shape[0]
    if d <= DIRECT:
        return from_array(operator @ np.eye(d), vector, radius)
    if hasattr(operator, "tocsr"):
        operator = operator.tocsr()
        _, largest = _floats("matrix", operator.data, 1)
        operator = operator.astype(float)
        skew = float(abs(operator - operator.T).max())
        if skew > 0:
            _check_symmetric(skew, largest)
            operator = (operator + operator.T) / 2
    else:  # its size and its symmetry show in products with random vectors
        probes = np.random.default_rng(1).standard_normal((2, d)) / math.sqrt(d)
        products, largest = _floats("matrix", [operator @ probe for probe in probes], 2)
        crossed = (products / (largest or 1.0)) @ probes.T
        _check_symmetric(abs(float(crossed[0, 1] - crossed[1, 0])), 1.0)
    return _in_units(operator, largest, vector, radius)


def _in_units(matrix: Any, largest: float, vector: Any, radius: float) -> _Problem:
    vector, largest_b = _floats("vector", vector, 1)
    if len(vector) != matrix.shape[0]:
        raise ValueError(f"`vector` must have length {matrix.shape[0]}, got {len(vector)}")
    rho, length = math.frexp(as_float("radius", radius, positive=True))
    sizes = [math.frexp(largest)[1] + 2 * length] if largest > 0 else []
    sizes += [math.frexp(largest_b)[1] + length] if largest_b > 0 else []
    unit = max(sizes, default=0)
    exponent, scale = 2 * length - unit, np.ldexp if type(matrix) is np.ndarray else _Scaled
    h = np.ldexp(vector, length - unit - 1)
    return _Problem(scale(matrix, exponent), h, rho, unit, length)


def _floats(name: str, value: Any, ndim: int) -> tuple[Any, float]:
    """A finite array of float64, and its largest absolute entry."""
    if type(value) is not np.ndarray or value.dtype != np.float64 or value.ndim != ndim:
        value = as_points(name, value) if ndim == 2 else as_vector(name, value)
        value = np.asarray(to_numpy(value), dtype=float)
    largest = float(np.abs(value).max(initial=0.0))
    if not math.isfinite(largest):
        raise ValueError(f"`{name}` must be finite, got NaN or infinity among its entries")
    return value, largest


def _check_square(shape: tuple[int, ...]) -> None:
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ValueError(f"`matrix` must be square and not empty, got shape {shape}")


def _is_symmetric(B: Any) -> bool:
    """Whether an array equals its transpose; in tiles, since rows and columns at once do not fit the cache."""
    corners = range(0, len(B), TILE)
    pairs = ((i, j) for i in corners for j in corners if i <= j)
    return not any(
        (B[i : i + TILE, j : j + TILE] != B[j : j + TILE, i : i + TILE].T).any() for i, j in pairs
    )


def _check_symmetric(skew: float, largest: float) -> None:
    if skew > 1e-8 * largest:
        share = skew / largest
        raise ValueError(
            f"`matrix` must be symmetric, got entries that differ by {share:.6g} of the largest"
        )


# Small problems: the eigenvalues of B.


def by_eigenvalues(problem: _Problem) -> Minimum:
    """The minimum by a decomposition of the matrix."""
    B, h, rho = problem.matrix, problem.half, problem.rho
    values, axes, info = lapack.dsyevd(B.T)
    if info != 0:
        raise LinAlgError(f"the eigenvalues of `matrix` must converge, got status {info} of LAPACK")
    norm = max(-float(values[0]), float(values[-1]))
    rounding = 4 * len(h) * UNIT
    y, mu, t = _secular(values, h @ axes, rho, rounding * (norm * rho + dnrm2(h)))
    points = _inside(y @ axes.T, rho)
    value, gap, _ = problem.gap(points[0], mu, t - rounding * norm, dnrm2(B.ravel()))
    return problem.minimum(points, mu, value, gap)


def _secular(values: Any, h: Any, rho: float, tie: float) -> tuple[Any, float, float]:
    """Minimisers of Σ λ_i y_i² + 2 h_i y_i on |y| ≤ ρ (λ increasing), their multiplier μ, and t = μ + λ₁.

    If the component of h in the lowest eigenspace is `tie` or less, it is taken for zero.
    """
    lowest = float(values[0])
    delta, t, skip = values - lowest, max(lowest, 0.0), 0
    if lowest <= 0:
        flat = 4 * len(h) * UNIT * max(-lowest, float(values[-1]))
        multiplicity = int(delta.searchsorted(flat, side="right"))
        if dnrm2(h[:multiplicity]) <= tie:
            skip = multiplicity
    g, delta, y = h[skip:], delta[skip:], np.zeros(len(h))
    alone = float((np.abs(g) / rho - delta).max(initial=0.0))  # one component reaches ρ by itself
    # Where the range of μ ends, |y| may be finite, and short enough.
    if t >= alone and (skip > 0 or t > 0):
        y[skip:] = -g / (delta + t)
        room = rho**2 - ddot(y, y)
        if room >= 0:
            if skip > 0:  # the hard case
                y[0] = math.sqrt(room)
            points = np.array([y, y] if skip > 0 and room > 64 * len(h) * UNIT else [y])
            points[1:, 0] *= -1
            return points, t - lowest, t
    t = _root(delta, g, rho, max(t, alone, NEGLIGIBLE))
    y[skip:] = -g / (delta + t)
    return y[None], t - lowest, t


def _root(delta: Any, h: Any, rho: float, t: float) -> float:
    """Where |h / (δ + t)| = ρ, by Newton's method on the inverse of the left side, from a smaller t."""
    for _ in range(100):  # 22 is the most ever seen
        shifted = delta + t
        y = h / shifted
        norm = dnrm2(y)
        excess = norm / rho - 1
        t += max(excess, 0.0) * norm**2 / ddot(y, y / shifted)
        if excess < 1e-8:  # squared by the step just made
            break
    return t


def _inside(points: Any, rho: float) -> Any:
    """The points; if they are on the sphere, on it to the last digit, and not outside."""
    norm = dnrm2(points[0])
    if norm < rho * (1 - 1e-13):
        return points
    points = points * (rho / norm)
    while dnrm2(points[0]) > rho:
        points *= 1 - 2 * UNIT
    return points


# Large problems: Krylov spaces.


def _by_krylov(problem: _Problem) -> Minimum:
    B, h, rho = problem.matrix, problem.half, problem.rho
    d, dense = len(h), isinstance(B, np.ndarray)
    decomposable = dense or d <= DENSE
    limit = max(64, d // 5) if decomposable else min(STEPS, max(64, 2**25 // d))
    operator = Symmetric(B) if dense else B
    search = Krylov(operator, h, limit)
    probe = Krylov(operator, np.random.default_rng(0).standard_normal(d), limit)
    rounding, frobenius = 4 * d * UNIT, dnrm2(B.ravel()) if dense else None
    steps, converged = 24, False
    while True:
        probe.extend(steps)
        if not converged:
            search.extend(steps)
        values, vectors = probe.ritz()
        lowest, norm = float(values[0]), max(-float(values[0]), float(values[-1]), NEGLIGIBLE)
        basis, T = search.joined(vectors[:, 0] @ probe.basis[: len(values)])
        scale, size = norm * rho + dnrm2(h), frobenius or norm
        goal = max(TOLERANCE, 4 * rounding * (1 + size / norm)) * scale + 2 * NEGLIGIBLE

        small, axes = np.linalg.eigh(T)
        y, mu, _ = _secular(small, axes.T @ (basis @ h), rho, 0.1 * TOLERANCE * scale)
        points = _inside(y @ axes.T @ basis, rho)

        # What would be proved if the lowest Ritz value were the lowest eigenvalue.
        value, gap, eps = problem.gap(points[0], mu, lowest + mu, size)
        converged = gap <= goal and eps <= 10 * TOLERANCE * scale
        if converged or steps == limit:
            bound = _shift(B, mu, lowest, norm) if dense else probe.lower_bound(values)
            value, gap, _ = problem.gap(points[0], mu, bound + mu - rounding * norm, size)
            if gap <= goal or (steps == limit and not decomposable):
                return problem.minimum(points, mu, value, gap)
        if steps == limit:
            return by_eigenvalues(problem if dense else replace(problem, matrix=B @ np.eye(d)))
        steps = min(limit, steps * 3 // 2)


def _shift(B: Any, mu: float, lowest: float, norm: float) -> float:
    """A lower bound on the eigenvalues of B, about halfway from -μ to `lowest`, if Cholesky's method agrees."""
    bound = (lowest - mu) / 2 if lowest + mu > 1e-6 * norm else -mu - 0.25 * TOLERANCE * norm
    M = B.copy()
    M.flat[:: len(B) + 1] -= bound
    _, info = lapack.dpotrf(M.T, overwrite_a=True, clean=False)
    return bound if info == 0 else -math.inf


class Symmetric:
    """A symmetric array that is only multiplied by vectors, half of it read each time."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    def __matmul__(self, vector: Any) -> Any:
        return dsymv(1.0, self.matrix.T, vector)


class Krylov:
    """Orthonormal basis of the space of s, Bs, B²s, …, where B is tridiagonal: Lanczos, orthogonalised in full."""

    def __init__(self, matrix: Any, start: Any, limit: int) -> None:
        self.matrix, norm = matrix, dnrm2(start)
        self.basis = np.empty((limit + 1, len(start)))
        self.diagonal: list[float] = []
        self.beside: list[float] = []  # of which the last one leads out of the space
        self.size = 0.0  # of B, as far as it is seen
        self.open = norm > 0
        if self.open:
            self.basis[0] = start / norm

    def extend(self, steps: int) -> None:
        """To so many dimensions, or as many as there are."""
        while self.open and len(self.diagonal) < steps:
            k = len(self.diagonal) + 1
            V = self.basis[:k]
            w = self.matrix @ V[-1]
            self.size = max(self.size, dnrm2(w))
            self.diagonal.append(ddot(w, V[-1]))
            w = w - self.diagonal[-1] * V[-1]
            if k > 1:
                w -= self.beside[-1] * V[-2]
            # Rounding alone is left to take away, and once is enough, unless much was cancelled (Daniel et al., 1976).
            before = dnrm2(w)
            w -= (V @ w) @ V
            if dnrm2(w) < 0.7 * before:
                w -= (V @ w) @ V
            self.beside.append(dnrm2(w))
            self.open = self.beside[-1] > 64 * UNIT * self.size  # else it is noise
            if self.open:
                self.basis[k] = w / self.beside[-1]

    def ritz(self) -> tuple[Any, Any]:
        """Eigenvalues of B in this space, increasing, and eigenvectors in its basis."""
        return eigh_tridiagonal(self.diagonal, self.beside[:-1])  # type: ignore[no-any-return]

    def lower_bound(self, values: Any) -> float:
        """Lower bound on the lowest eigenvalue λ of B if the start was random (van Dorsselaer et al., 2000).

        The vector after the last is p(B)s, where the roots of p are the Ritz values. Let u be the eigenvector of λ.
        Then 1 ≥ |u'p(B)s| = |p(λ)| |u's|, and |u's| ≥ δ except with probability δ √(2d/π): so |p(λ)| ≤ 1/δ.
        """
        d = self.basis.shape[1]
        log_delta = math.log(FAILURE) - 0.5 * math.log(2 * d / math.pi)
        goal = float(np.sum(np.log(np.maximum(self.beside, NEGLIGIBLE)))) - log_delta
        norm = max(-float(values[0]), float(values[-1]), NEGLIGIBLE)
        low, high = -60.0, 60.0  # of the logarithm of the distance from the lowest Ritz value
        for _ in range(30):
            middle = (low + high) / 2
            distances = values - values[0] + norm * math.exp2(middle)
            low, high = (low, middle) if np.sum(np.log(distances)) >= goal else (middle, high)
        return float(values[0]) - norm * math.exp2(high)

    def joined(self, vector: Any) -> tuple[Any, Any]:
        """Orthonormal basis of the space and one vector more, and the matrix of B there."""
        k, beside = len(self.diagonal), self.beside[:-1]
        V = self.basis[:k]
        for _ in range(2):
            vector = vector - (V @ vector) @ V
        norm = dnrm2(vector)
        T = np.zeros((k + 1, k + 1))
        T[:k, :k] = np.diag(self.diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        if norm < 1e-10:  # it was there already
            return V, T[:k, :k]
        basis = np.vstack([V, vector / norm])
        T[-1] = T[:, -1] = basis @ (self.matrix @ basis[-1])
        return basis, T
