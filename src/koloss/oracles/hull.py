"""Projection onto the convex hull of the features: where the regularised leader is, as a mixture of actions.

Every hull finds the X in conv Φ(A) closest to a target z of the RKHS, a distribution over actions with mean X, and a
certified gap: ‖X - z‖² is at most `gap` above its minimum, so X is at most √gap from the projection.

- `PointsHull`: Wolfe's minimum-norm-point method, warm-started: O(N) times the number of active points a step.
- `BallHull`: quadratics on the ball, where the hull is {(M, u) : M ⪰ uu', tr M ≤ r²}: two dual variables, one
  eigendecomposition each time they are changed, and the atoms by Sturm and Zhang's rank-one decomposition.
- `ConvexHull`: linear losses, where the actions are their own hull.

Wolfe (1976), Finding the nearest point in a polytope, Mathematical Programming 11. Sturm and Zhang (2003), On cones
of nonnegative quadratic functions, Mathematics of Operations Research 28.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from koloss.actions import Points
from koloss.core.arrays import to_numpy
from koloss.core.snapshot import Matrix, Vector, kept
from koloss.kernels import LinearLoss, QuadraticLoss
from koloss.oracles.trust_region import UNIT, minimize_quadratic_ball


@kept
@dataclass(frozen=True)
class Projection:
    """A distribution over actions, and how far its mean may be from the projection."""

    atoms: Matrix  # (k, d)
    weights: Vector  # (k,)
    index: Any  # (k,): rows of the atoms in a finite set; None elsewhere
    gap: float  # proved: ‖X - z‖² exceeds its minimum by no more


class Hull(abc.ABC):
    """The convex hull of the features of an action set."""

    @abc.abstractmethod
    def project(
        self, target: Any, tolerance: float = 0.0, start: Projection | None = None
    ) -> Projection:
        """The nearest mixture to a target: an element of the RKHS, or on a finite set its values on the points.

        The tolerance is the gap to reach, for hulls that do not always go as far as rounding allows; where that is
        more, twice what rounding may add. The start is the answer for a similar target.
        """

    def largest_gap(self, tolerance: float, size: float) -> float:
        """Of projections to come, for targets with values up to `size`; zero where only rounding remains."""
        return 0.0


@kept
class PointsHull(Hull):
    """Hull of the features of N points.

    With p the weights, the objective is p'Kp - 2p'z up to a constant, and its gradient g = 2(Kp - z) gives the gap
    p'g - min g. The point with the smallest g becomes active, then the objective is minimised over the active points.
    """

    kernel: Any
    X: Matrix
    first: int
    largest: float

    def __init__(self, kernel: Any, points: Points) -> None:
        self.kernel, self.X = kernel, to_numpy(points.X).astype(float)
        diagonal = to_numpy(kernel.diag(self.X))
        self.first, self.largest = int(np.argmin(diagonal)), float(np.max(diagonal))
        self._restored()

    def _restored(self) -> None:
        self._columns: dict[int, Any] = {}

    def _column(self, i: int) -> Any:
        """K(X, x_i)."""
        if i not in self._columns:
            self._columns[i] = to_numpy(self.kernel(self.X, self.X[i : i + 1]))[:, 0]
        return self._columns[i]

    def largest_gap(self, tolerance: float, size: float) -> float:
        return max(tolerance, 2 * self._rounding(size))

    def _rounding(self, size: float) -> float:
        """What rounding may add to a gap, for targets with values up to `size`."""
        return 64 * UNIT * (self.largest + size)

    def project(
        self, target: Any, tolerance: float = 0.0, start: Projection | None = None
    ) -> Projection:
        z, active, p = target, [self.first], np.ones(1)
        if start is not None:
            active, p = start.index.tolist(), start.weights
        rounding = self._rounding(float(np.max(np.abs(z))))
        active, p = self._minimise(z, active, p)
        for _ in range(100 + 10 * len(z)):  # far more than were ever seen
            gradient = 2 * (p @ np.stack([self._column(i) for i in active]) - z)
            j = int(np.argmin(gradient))
            gap = max(float(p @ gradient[active] - gradient[j]), 0.0)
            if gap <= max(tolerance - rounding, rounding) or j in active:
                break
            before = active
            active, p = self._minimise(z, [*active, j], np.append(p, 0.0))
            if active == before:  # the new point adds nothing that rounding can tell
                break
        if len(self._columns) > 2 * len(active) + 64:  # those once active often return: keep a few
            self._columns = {i: self._columns[i] for i in active}
        return Projection(self.X[active], p, np.asarray(active, dtype=np.int64), gap + rounding)

    def _minimise(self, z: Any, active: list[int], p: Any) -> tuple[list[int], Any]:
        """Wolfe's minor cycles: the best weights on the active points, without those that would turn negative.

        Every step minimises the objective plus a tiny multiple of the squared step, so that points whose features are
        affinely dependent, to rounding, do no harm: along such directions it goes as far as the weights allow.
        """
        even, last = UNIT * (self.largest + float(np.max(np.abs(z[active])))), math.inf
        while True:
            gram = np.stack([self._column(i)[active] for i in active])
            slope = z[active] - p @ gram
            slope = slope - slope.mean()
            uneven = float(np.max(np.abs(slope)))
            if uneven <= even or uneven > last / 2:
                return active, p
            # (1'p)² is constant on Σp = 1; adding it makes the matrix definite for affinely independent points.
            scale = float(np.max(np.diagonal(gram))) or 1.0
            both = _solve(gram + scale, np.column_stack([slope, np.ones(len(p))]), scale)
            step = both[:, 0] - both[:, 0].sum() / both[:, 1].sum() * both[:, 1]
            last, share = uneven, 1.0
            down = np.flatnonzero(p + step < 0)
            if len(down):  # go as far as all weights stay non-negative
                reach = p[down] / -step[down]
                k = int(np.argmin(reach))
                last, share = math.inf, float(reach[k])
            p = np.maximum(p + share * step, 0.0)
            if len(down):
                p[down[k]] = 0.0
            keep = np.flatnonzero(p)
            active, p = [active[i] for i in keep], p[keep] / p.sum()


def _solve(matrix: Any, right: Any, scale: float) -> Any:
    """Solution for a matrix that may be indefinite by rounding: its diagonal is raised by as little as that takes."""
    ridge = 4 * len(matrix) * UNIT * scale
    while True:
        raised = matrix.copy()
        raised.flat[:: len(matrix) + 1] += ridge
        try:
            return cho_solve(cho_factor(raised), right)
        except LinAlgError:
            ridge *= 16


@kept
class BallHull(Hull):
    """Hull of (xx', x) over the ball of radius r.

    With s = 1/√2 and Z = [[M, su], [su', s²]], the norm of the RKHS is Frobenius' up to a constant, and the hull is
    Z ⪰ 0, Z_cc = s², tr M ≤ r². Its projection of Z₀ is the positive part of A = Z₀ + μ e_c e_c' - ν diag(I, 0), where
    (μ, ν ≥ 0) maximise the concave dual

        -‖A₊‖²/2 + μ s² - ν r².

    Newton's method in two variables, regularised where the dual is flat.
    """

    d: int
    r: float

    def __init__(self, dimension: int, radius: float) -> None:
        self.d, self.r = dimension, radius

    def project(
        self, target: QuadraticLoss, tolerance: float = 0.0, start: Projection | None = None
    ) -> Projection:
        """The nearest element of the hull to (M, u), as at most d + 1 actions; always to rounding."""
        M0, u0 = to_numpy(target.matrix), to_numpy(target.vector)
        M, u = self.nearest(M0, u0)
        atoms, weights = rank_one_atoms(M, u, self.r)
        gradient = 2 * (M - M0), 2 * (u - u0)
        at = float(np.sum(gradient[0] * M) + gradient[1] @ u)
        best = minimize_quadratic_ball(*gradient, radius=self.r)
        return Projection(atoms, weights, None, max(at - best.lower_bound, 0.0))

    def _dual(self, Z0: Any, x: Any) -> tuple[float, Any, Any, Any]:
        """At x = (μ, ν): minus the dual value, its gradient, its Hessian, and A₊."""
        d = self.d
        A = Z0.copy()
        A.flat[: d * (d + 1) : d + 2] -= x[1]
        A[d, d] += x[0]
        values, axes = np.linalg.eigh(A)
        positive = np.maximum(values, 0.0)
        root = axes * np.sqrt(positive)
        part = root @ root.T  # symmetric to the last bit
        value = 0.5 * float(positive @ positive) - 0.5 * x[0] + x[1] * self.r**2
        slope = np.asarray([part[d, d] - 0.5, self.r**2 - float(np.trace(part[:d, :d]))])
        # Divided differences of the positive part, and the two directions in the axes of A.
        apart = values[:, None] - values[None, :]
        tie = np.abs(apart) <= 1e-14 * float(np.abs(values).max())
        rate = (positive[:, None] - positive[None, :]) / np.where(tie, 1.0, apart)
        rate = np.where(tie, (values > 0)[:, None] * 1.0, rate)
        corner = np.outer(axes[d], axes[d])
        rest = np.eye(d + 1) - corner
        cross = -float(np.sum(rate * corner * rest))
        squares = float(np.sum(rate * corner**2)), float(np.sum(rate * rest**2))
        return value, slope, np.asarray([[squares[0], cross], [cross, squares[1]]]), part

    def nearest(self, M0: Any, u0: Any) -> tuple[Any, Any]:
        """The element (M, u) of the hull nearest to (M₀, u₀)."""
        d, s = self.d, math.sqrt(0.5)
        Z0 = np.block([[M0, s * u0[:, None]], [s * u0[None, :], np.full((1, 1), 0.5)]])
        size = float(np.abs(Z0).max()) + self.r**2

        def error(x: Any, slope: Any) -> float:
            """How far from optimal: the slope, but not into ν < 0."""
            return max(abs(float(slope[0])), abs(float(slope[1])) if x[1] > 0 else -float(slope[1]))

        x, dual = np.zeros(2), self._dual(Z0, np.zeros(2))
        for _ in range(200):
            value, slope, H, part = dual
            off = error(x, slope)
            if off <= (4 + d) * UNIT * size:
                break
            # Where the dual is flat, steps of at most a thousand times the size of the problem.
            H = H + np.diag(1e-14 * np.diagonal(H) + 1e-3 * np.abs(slope) / size + 1e-300)
            step = -np.linalg.solve(H, slope)
            if x[1] + step[1] < 0:  # the best step that ends at ν = 0
                step = np.asarray([-(slope[0] - H[0, 1] * x[1]) / H[0, 0], -x[1]])
            for share in 0.5 ** np.arange(24):
                trial = x + share * step
                trial[1] = max(trial[1], 0.0)
                dual = self._dual(Z0, trial)
                # Enough descent; or, where values are equal to rounding, a slope that falls.
                enough = max(-1e-4 * share * float(slope @ step), 2 * UNIT * abs(value))
                if value - dual[0] > enough or error(trial, dual[1]) <= off / 2:
                    break
            else:
                break  # no progress that rounding can tell
            x = trial
        # Into the hull exactly: the corner to s², the trace to r².
        corner = 2 * float(part[d, d])
        M, u = part[:d, :d] / corner, part[:d, d] / (s * corner)
        excess = float(np.trace(M)) / self.r**2
        if excess > 1:
            M, u = M / excess, u / math.sqrt(excess)
        return M, u


def rank_one_atoms(M: Any, u: Any, radius: float) -> tuple[Any, Any]:
    """Points of the ball, and weights, with Σ w_i = 1, Σ w_i x_i = u and Σ w_i x_i x_i' = M, for M ⪰ uu', tr M ≤ r².

    Sturm and Zhang, in units of the radius: [[M, u], [u', 1]] = Σ p_i p_i' can be chosen such that all p_i'Qp_i are
    equal, for Q = diag(I, -1), by rotating pairs. Their sum is tr M - 1 ≤ 0, so each p_i is a multiple of some (x_i, 1).

    Examples
    --------
    >>> import numpy as np
    >>> x, w = rank_one_atoms(np.diag([0.6, 0.2]), np.array([0.1, 0.0]), 1.0)
    >>> bool(np.allclose((w * x.T) @ x, np.diag([0.6, 0.2]))), bool(np.all(x**2 @ [1, 1] <= 1))
    (True, True)
    """
    d = len(u)
    u = u[:, None] / radius
    Y = np.block([[M / radius**2, u], [u.T, np.ones((1, 1))]])
    values, axes = np.linalg.eigh(Y)
    keep = values > 1e-15 * values[-1]
    P = axes[:, keep] * np.sqrt(values[keep])  # columns p_i
    Q = np.append(np.ones(d), -1.0)
    k = P.shape[1]
    f = Q @ (P * P)
    mean = float(f.sum()) / k
    for _ in range(k - 1):
        i, j = int(np.argmin(f)), int(np.argmax(f))
        # (p_i + t p_j)/√(1 + t²) has the mean value; the smaller root turns the least.
        b = float((P[:, i] * Q) @ P[:, j])
        a, c = float(f[j]) - mean, float(f[i]) - mean
        divisor = b + math.copysign(math.sqrt(max(b * b - a * c, 0.0)), b)
        if f[j] - f[i] <= 1e-15 or divisor == 0:
            break
        t = -c / divisor
        norm = math.sqrt(1 + t * t)
        P[:, i], P[:, j] = (P[:, i] + t * P[:, j]) / norm, (P[:, j] - t * P[:, i]) / norm
        f[i], f[j] = mean, float(Q @ (P[:, j] ** 2))
    w = P[d] ** 2
    real = w > 1e-30
    x = (P[:d, real] / P[d, real]).T
    size = np.linalg.norm(x, axis=1, keepdims=True)
    x = x / np.maximum(size, 1.0) * radius  # the last rounding
    return x, w[real] / w[real].sum()


@kept
class ConvexHull(Hull):
    """Linear losses: the mean action is an action, played for sure."""

    actions: Any

    def __init__(self, actions: Any) -> None:
        self.actions = actions

    def project(
        self, target: LinearLoss, tolerance: float = 0.0, start: Projection | None = None
    ) -> Projection:
        """The nearest action: a closed form."""
        point = self.actions.project(to_numpy(target.vector)[None])
        return Projection(point, np.ones(1), None, 0.0)
