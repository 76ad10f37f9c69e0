"""Minimum of a posynomial over a positive box or the positive part of a ball: a geometric program.

In y = log x the posynomial f = Σ_k c_k exp(E_k'y) has a convex logarithm, a box stays a box, and the ball is the convex
set Σ_i exp(2 y_i) ≤ r². Two steps:

1. What is monotone is done. A coordinate with no negative exponent is best at its lower end, which may be zero; on a
   box, one with no positive exponent at its upper end. Terms that vanish with it are dropped; so are those with a
   zero coefficient.
2. What is left is a convex program in y, solved by `LogSumExp`: from a start near the minimum by Newton's method on a guess
   of the constraints that are active, otherwise by a primal-dual barrier method, which Newton's method ends.

The answer is judged by convexity alone: F(y) ≥ F(y₀) + ∇F(y₀)'(y - y₀), and the least value of the right side over the
set has a closed form. Where Newton's guess was wrong, this shows.

Boyd, Kim, Vandenberghe and Hassibi (2007), A tutorial on geometric programming, Optim. Eng. 8. Boyd and Vandenberghe
(2004), Convex Optimization, Sections 4.5 and 11.7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.actions import Box, PositiveBall
from koloss.core.arrays import as_vector, to_numpy
from koloss.kernels import Posynomial
from koloss.oracles.base import Minimum

NARROW = 1e-11
"""Logarithm of the ratio of upper to lower end below which a coordinate is left at its lower end."""

TOLERANCE = 1e-11
"""Relative gap with which Newton's method ends."""


class GeometricProgram:
    """Minimum of Σ_k c_k Π_i x_i^exponents[k, i], c ≥ 0, over a box or a positive ball, for many c in turn.

    Parameters
    ----------
    kernel : Posynomial
        Holds the exponents, of any sign.
    actions : PositiveBall or Box
        A box must not have negative numbers.

    Examples
    --------
    >>> import koloss as kl
    >>> kernel = kl.Posynomial([[1, 1], [-1, 0], [0, -1]])
    >>> program = GeometricProgram(kernel, kl.PositiveBall(2, 3.0))
    >>> best = program.minimize([1.0, 1.0, 1.0])  # x y + 1/x + 1/y
    >>> best.point.round(6).tolist(), round(best.value, 9), best.gap < 1e-9
    ([1.0, 1.0], 3.0, True)
    >>> program.minimize([1.0, 1.0, 1.1], start=best.point).point.round(3).tolist()
    [0.969, 1.066]
    """

    def __init__(self, kernel: Posynomial, actions: Box | PositiveBall) -> None:
        if not isinstance(kernel, Posynomial):
            raise TypeError(f"`kernel` must be a Posynomial, got {type(kernel).__name__}")
        if not isinstance(actions, (Box, PositiveBall)):
            raise TypeError(
                f"`actions` must be a PositiveBall or a Box, got {type(actions).__name__}"
            )
        d = kernel.dimension
        if actions.dimension != d:
            raise ValueError(f"`actions` must have {d} coordinates, got {actions.dimension}")
        self.kernel, self.actions = kernel, actions
        self.radius = actions.radius if isinstance(actions, PositiveBall) else None
        self.exponents = np.asarray(kernel.exponents)
        self.lower, self.upper = np.asarray(actions.lower), np.asarray(actions.upper)
        if np.any(self.lower < 0):
            i = int(np.argmax(self.lower < 0))
            raise ValueError(
                f"`actions` must have non-negative numbers in coordinate {i}, got {self.lower[i]:.6g}"
            )
        self._last: tuple[bytes, _Reduced] | None = None

    def minimize(self, coefficients: Any, *, start: Any = None) -> Minimum:
        """Minimum for one vector of coefficients; its gap is 1e-14 to 1e-12 of the value as a rule.

        Terms with a coefficient of zero are dropped, and the minimum of nothing is zero, anywhere. The start is a
        guess, such as the answer for similar coefficients: it only makes the answer quicker. A ValueError says where a
        coefficient is negative, or where the infimum may not be attained: a coordinate may tend to zero though the
        kernel has a negative exponent there.
        """
        c = as_vector("coefficients", coefficients, length=len(self.exponents))
        c = to_numpy(c).astype(np.float64)
        if np.any(c < 0):
            k = int(np.argmax(c < 0))
            raise ValueError(f"`coefficients` must be non-negative, got {c[k]:.6g} at {k}")
        terms = c > 0
        if not np.any(terms):
            return Minimum(self.middle(), 0.0, 0.0, "dual")
        key, last = terms.tobytes(), self._last
        if last is None or last[0] != key:
            last = self._last = key, _Reduced(self, terms)
        reduced = last[1]
        x = reduced.point.copy()
        if len(reduced.rows) == 0:
            return Minimum(x, 0.0, 0.0, "dual")
        program, moving = reduced.program(np.log(c[reduced.rows])), reduced.moving
        if start is not None:
            start = to_numpy(as_vector("start", start, length=len(x))).astype(np.float64)[moving]
        y, value, gap = program.minimize(start)
        x[moving] = np.exp(y)
        x = np.clip(x, self.lower, self.upper)  # rounding of the exponential
        return Minimum(x, value, gap + value * reduced.doubt, "dual")

    def middle(self) -> Any:
        """A point away from the ends of every coordinate, unless its two ends are one."""
        if isinstance(self.actions, Box):
            return (self.lower + self.upper) / 2
        low, room = self.actions._bounds
        return self.actions.radius * np.sqrt(low**2 + room / (2 * len(low)))


class _Reduced:
    """What is left of a program once its monotone coordinates are set; depends only on which terms there are."""

    point: Any  # (d,): the coordinates that are set; NaN in the others
    moving: Any  # indices of the others
    rows: Any  # indices of terms that do not vanish
    doubt: float  # relative error from coordinates too narrow to be moved

    def __init__(self, program: GeometricProgram, terms: Any) -> None:
        E, radius = program.exponents, program.radius
        lower, upper = program.lower, program.upper
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.log(lower), np.log(upper)
            widths = np.where(upper > lower, ends[1] - ends[0], 0.0)
        x, alive, self.doubt = np.full(E.shape[1], np.nan), terms.copy(), 0.0
        again = True
        while again and np.any(alive):
            again = False
            for i in np.flatnonzero(np.isnan(x)):
                powers = E[alive, i]
                if radius is None and np.all(powers <= 0):
                    x[i] = upper[i]
                elif np.all(powers >= 0):
                    x[i] = lower[i]
                elif widths[i] < NARROW:
                    x[i] = lower[i]
                    self.doubt += float(widths[i] * np.abs(powers).max())
                else:
                    continue
                if x[i] == 0:
                    if np.any(E[:, i] < 0):
                        raise _not_attained(program, int(i))
                    alive &= E[:, i] == 0
                    again = True
                    break
        if not np.any(alive):  # the loss is zero, whatever the others are
            x = np.where(np.isnan(x), program.middle(), x)
        self.full, self.point = program, x
        self.rows, self.moving = np.flatnonzero(alive), np.flatnonzero(np.isnan(x))
        positive = np.flatnonzero(x > 0)
        E = E[self.rows]
        self.constants = E[:, positive] @ np.log(x[positive])
        self.exponents = E[:, self.moving]
        self.lower, self.upper = ends[0][self.moving], ends[1][self.moving]
        self.budget = None
        if radius is not None:
            held = np.delete(x, self.moving) / radius
            left = max(1 - float(held @ held), 1e-300)
            self.budget = math.log(left) + 2 * math.log(radius)

    def program(self, log_coefficients: Any) -> LogSumExp:
        """The convex program for given coefficients."""
        constants = self.constants + log_coefficients
        program = LogSumExp(self.exponents, constants, self.lower, self.upper, self.budget)
        if np.any(np.isneginf(self.lower)):
            program.lower = self._lower_ends(program)
        return program

    def _lower_ends(self, program: LogSumExp) -> Any:
        """Lower ends for coordinates that may tend to zero, beyond which the loss is above that of a known point.

        A term with a negative exponent there must not exceed this loss. What bounds it from the other coordinates
        may be bounded in the same way, one after the other.
        """
        E, lower = self.exponents, self.lower.copy()
        level = program.value(program.middle())[0]
        for _ in lower:
            for i in np.flatnonzero(np.isneginf(lower)):
                # E_ki y_i ≤ level - constant_k - the least of the others
                ends = np.where(E > 0, lower, self.upper)
                least = np.where(E == 0, 0.0, E * np.where(E == 0, 0.0, ends))
                least[:, i] = 0.0
                falls = (E[:, i] < 0) & np.all(np.isfinite(least), axis=1)
                if np.any(falls):
                    spare = level - program.constants[falls] - least[falls].sum(axis=1)
                    lower[i] = np.max(spare / E[falls, i]) - 1  # so that the middle is inside
        if np.any(np.isneginf(lower)):
            raise _not_attained(self.full, int(self.moving[np.argmax(np.isneginf(lower))]))
        return lower


def _not_attained(program: GeometricProgram, i: int) -> ValueError:
    return ValueError(
        f"`actions` must keep coordinate {i} away from zero, where {program.kernel!r} is not defined and the infimum "
        f"may lie, got {program.actions!r}"
    )


class LogSumExp:
    """Minimise F(y) = log Σ_k exp(E_k'y + b_k) over a box, or over lower ≤ y with Σ_i exp(2 y_i) ≤ exp(budget).

    E is an array of shape (m, n), b of shape (m,). Lower and upper ends are finite and apart; with a budget, the upper
    ends are those that it implies; it is None for a box.

    Examples
    --------
    >>> import numpy as np
    >>> E, lower, upper = np.array([[1.0], [-1.0]]), np.array([-3.0]), np.array([2.0])
    >>> program = LogSumExp(E, np.zeros(2), lower, upper, None)
    >>> y, value, gap = program.minimize()  # exp(y) + exp(-y)
    >>> abs(y.item()) < 1e-6, round(value, 9), gap < 1e-10
    (True, 2.0, True)
    """

    def __init__(
        self, exponents: Any, constants: Any, lower: Any, upper: Any, budget: float | None
    ) -> None:
        self.exponents, self.constants = exponents, constants
        self.lower, self.upper, self.budget = lower, upper, budget

    def value(self, y: Any) -> tuple[float, Any]:
        """F and the shares p of the terms."""
        logs = self.exponents @ y + self.constants
        top = float(logs.max())
        shares = np.exp(logs - top)
        total = float(shares.sum())
        return top + math.log(total), shares / total

    def derivatives(self, p: Any) -> tuple[Any, Any]:
        """Gradient and Hessian of F."""
        g = p @ self.exponents
        centred = self.exponents - g
        return g, centred.T @ (p[:, None] * centred)

    def sphere(self, y: Any) -> tuple[float, Any]:
        """G(y) = log Σ_i exp(2 y_i) - budget, and its gradient a; its Hessian is 2 diag(a) - a a'."""
        logs = 2 * y - self.budget
        top = float(logs.max())
        q = np.exp(logs - top)
        total = float(q.sum())
        return top + math.log(total), q * (2 / total)

    def middle(self) -> Any:
        """A point inside, away from all ends."""
        if self.budget is None:
            ends = np.where(np.isfinite(self.lower), self.lower, self.upper - 2)
            return (ends + self.upper) / 2
        squares = np.exp(2 * self.lower - self.budget)
        room = max(1 - float(squares.sum()), 0.0)
        return 0.5 * (np.log(squares + room / (2 * len(squares))) + self.budget)

    def certify(self, y: Any) -> tuple[float, float]:
        """The value exp(F(y)), and how far above the minimum it can be."""
        F, p = self.value(y)
        g = p @ self.exponents
        ends = np.where(g > 0, self.lower, self.upper)
        free = g < 0
        if self.budget is not None and np.any(free):
            # Σ g_i y_i is least at exp(2 y_i) = max(lower_i², |g_i| / 2λ), where λ spends the budget: what is below
            # its lower end is held there, which leaves less for the others, until nothing is.
            squares = np.exp(2 * self.lower - self.budget)
            while True:
                share = -g / max(float(-g[free].sum()), 1e-300) * (1 - float(squares[~free].sum()))
                held = free & (share <= squares)
                if not np.any(held):
                    break
                free &= ~held
            ends = self.lower.copy()
            ends[free] = 0.5 * (np.log(share[free]) + self.budget)
        drop = max(float(g @ (y - ends)), 0.0)
        # Rounding of the exponents in F, and of the products in the drop.
        size = np.abs(self.exponents) @ np.maximum(np.abs(y), np.abs(ends)) + np.abs(self.constants)
        room = 2.0**-52 * ((len(y) + 4) * float(size.max()) + len(y) + len(self.constants))
        value = math.exp(F)
        return value, value * (-math.expm1(-drop) + room)

    def minimize(self, start: Any = None) -> tuple[Any, float, float]:
        """Minimiser, its value and its gap, from a point exp(y) near it or from the middle."""
        if len(self.lower) == 0:
            return np.zeros(0), *self.certify(np.zeros(0))
        if start is not None and np.all(start > 0):
            y = np.clip(np.log(start), self.lower, self.upper)
            S, _ = self._slacks(y)
            answer = self.newton(y, S < 1e-7)
            if answer is not None:
                return answer
        return self.barrier()

    def newton(
        self, y: Any, active: Any, *, flat: bool = False, steps: int = 8
    ) -> tuple[Any, float, float] | None:
        """Minimum by Newton's method on the active constraints; None where that does not find it.

        With `flat`, steps are the shortest of those that solve the equations: for minima that are not unique.
        """
        n, lower, upper, ball = len(y), self.lower, self.upper, self.budget is not None
        low, high = active[:n], np.zeros(n, dtype=bool) if ball else active[n:]
        tight, multiplier = ball and bool(active[n]), math.nan  # of G ≤ 0, where that is tight
        for _ in range(steps):
            g, H = self.derivatives(self.value(y)[1])
            free = np.flatnonzero(~(low | high))
            k = len(free)
            if tight and k == 0:
                return None
            move = np.where(low, lower - y, np.where(high, upper - y, 0.0))
            if tight:
                G, a = self.sphere(y)
                if math.isnan(multiplier):  # g + multiplier · a is about zero where free
                    square = max(float(a[free] @ a[free]), 1e-300)
                    multiplier = max(-float(g[free] @ a[free]) / square, 0.0)
                H += multiplier * (2 * np.diag(a) - a[:, None] * a)
            system, right = np.zeros((k + tight, k + tight)), np.zeros(k + tight)
            system[:k, :k] = H[free[:, None], free]
            right[:k] = -(g + H @ move)[free]
            if tight:
                system[:k, k] = system[k, :k] = a[free]
                right[k] = -G - a @ move
            try:
                lstsq, solve = np.linalg.lstsq, np.linalg.solve
                solution = lstsq(system, right, rcond=1e-11)[0] if flat else solve(system, right)
            except np.linalg.LinAlgError:
                return None
            move[free] = solution[:k]
            size = float(np.abs(move).max())
            if not size < 50:
                return None
            y, force = y + move, g + H @ move
            if tight:
                multiplier = float(solution[k])
                force += multiplier * a
            # Let go of what pulls inwards, hold what has gone out.
            was = low, high, tight
            low = np.where(low, force > 0, y <= lower)
            if ball:
                tight = multiplier > 0 if tight else self.sphere(y)[0] > 0
                multiplier = multiplier if tight and was[2] else math.nan
            else:
                high = np.where(high, force < 0, y >= upper)
            if size < 1e-5 and tight == was[2] and np.all((low == was[0]) & (high == was[1])):
                inside = self._inwards(y, 0.0) if ball else y
                value, gap = self.certify(inside)
                if gap <= TOLERANCE * value:
                    return inside, value, gap
        return None

    def barrier(self, steps: int = 60) -> tuple[Any, float, float]:
        """Minimum by a primal-dual barrier method from the middle, ended by Newton's where that succeeds."""
        n, y = len(self.lower), self.middle()
        J = np.vstack([np.eye(n), -np.eye(n) if self.budget is None else np.zeros(n)])
        F, p = self.value(y)
        S, a = self._slacks(y)
        widths = self.upper - self.lower
        drop, scale = float(np.abs(p @ self.exponents) @ widths), np.minimum(widths, 1.0)
        mu, goal, best = 0.1 * max(drop / len(S), 1.0), 1e-3, (y, math.inf, math.inf)
        Z = mu / S
        for _ in range(steps):
            g, M = self.derivatives(p)
            if a is not None:
                J[n] = -a
                M += Z[n] * (2 * np.diag(a) - a[:, None] * a)
            M += J.T @ ((Z / S)[:, None] * J)
            gap, residual = float(S @ Z), float((np.abs(g - Z @ J) * scale).max())
            if gap < goal and residual < goal:
                answer = self.newton(y, S < Z) or self.newton(y, S < Z, flat=True)
                if answer is not None:
                    return answer
                best = min(best, (y, *self.certify(y)), key=lambda answer: answer[2])
                goal /= 100
                if goal < 1e-13:
                    break
            if residual < 10 * mu:
                mu = max(min(0.1 * gap / len(S), (gap / len(S)) ** 1.5), 1e-15)
            # One step towards the point of the central path where S Z = mu.
            gradient = g - (mu / S) @ J
            try:
                dy = np.linalg.solve(M, -gradient)
            except np.linalg.LinAlgError:
                break
            dS = J @ dy
            ends = np.where(dy > 0, self.upper - y + (a is not None), y - self.lower)
            length = min(1.0, 0.995 / max(float((np.abs(dy) / ends).max()), 1e-300))
            slope, level = float(gradient @ dy), F - mu * float(np.log(S).sum())
            for _ in range(60):
                trial = y + length * dy
                if a is not None:
                    trial = self._inwards(trial, max(S[n] + length * dS[n], 0.005 * S[n]))
                slacks, direction = self._slacks(trial)
                if slacks.min() > 0:
                    value, shares = self.value(trial)
                    reached = value - mu * float(np.log(slacks).sum())
                    if reached <= level + 1e-4 * length * slope + 1e-14 * (1 + abs(level)):
                        break
                length /= 2
            else:
                break
            dZ = (mu - Z * dS) / S - Z
            Z = Z + min(1.0, 0.995 / max(float((-dZ / Z).max()), 1e-300)) * dZ
            y, F, p, S, a = trial, value, shares, slacks, direction
        return min(best, (y, *self.certify(y)), key=lambda answer: answer[2])

    def _inwards(self, y: Any, slack: float) -> Any:
        """The point itself, or the one towards the lower ends (in x) that is inside the ball by so much.

        A step along the tangent leaves the ball by the curvature; this brings it back to where the tangent said.
        """
        if -self.sphere(y)[0] >= slack:
            return y
        assert self.budget is not None
        near, centre = np.minimum(y - self.lower, 1.0), self.budget / 2
        low = np.exp(self.lower - centre)
        rise = np.where(near < 1, low * np.expm1(near), np.exp(y - centre) - low)
        # |low + w · rise|² = exp(-slack)
        a, b = float(rise @ rise), float(low @ rise)
        c = math.exp(-slack) - float(low @ low)
        w = max(c / (b + math.sqrt(b * b + a * c)), 1e-3) if c > 0 else 1e-3
        far = np.log(low + w * rise) + centre
        return np.where(near < 1, self.lower + np.log1p(w * np.expm1(near)), far)

    def _slacks(self, y: Any) -> tuple[Any, Any]:
        """How far inside every constraint y is, and the gradient of that of the ball."""
        if self.budget is None:
            return np.concatenate([y - self.lower, self.upper - y]), None
        G, a = self.sphere(y)
        return np.append(y - self.lower, -G), a
