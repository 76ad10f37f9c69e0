"""Minimum of a posynomial over a positive box or the positive part of a ball: a geometric program.

In y = log x the posynomial f = Σ_k c_k exp(E_k'y) has a convex logarithm, a box stays a box, and the ball is the convex
set Σ_i exp(2 y_i) ≤ r². Two steps:

1. What is monotone is done. A coordinate with no negative exponent is best at its lower end, which may be zero; on a
   box, one with no positive exponent at its upper end. Terms that vanish with it are dropped; so are those with a
   zero coefficient.
2. What is left is a convex program in y, solved and proved by `LogSumExp`.

Boyd, Kim, Vandenberghe and Hassibi (2007), A tutorial on geometric programming, Optim. Eng. 8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from koloss.actions import Box, PositiveBall
from koloss.core.arrays import as_vector, to_numpy
from koloss.kernels import Posynomial
from koloss.oracles.base import Minimum
from koloss.oracles.log_sum_exp import LogSumExp

NARROW = 1e-11
"""Logarithm of the ratio of upper to lower end below which a coordinate is left at its lower end."""


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
