"""The polynomial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from koloss.core.arrays import Array, Namespace, as_float, as_int, matching, take
from koloss.kernels.base import DotProduct

LARGEST_DEGREE = 1000
"""Beyond it (x'y + c)^p is nearly always zero or no floating point number."""


@dataclass(frozen=True)
class Polynomial(DotProduct):
    """Polynomial kernel: K(x, y) = (x'y + c)^p with degree p and offset c.

    The feature of the monomial x^α is √(p! / (α₁!⋯α_d! (p - |α|)!) c^(p-|α|)) x^α: one for every α with
    |α| ≤ p, or |α| = p where the offset is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import koloss as kl
    >>> x, y = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    >>> float(kl.Polynomial(3, offset=0.5)(x, y)[0, 0]) == (1 * 3 + 2 * -1 + 0.5) ** 3
    True
    >>> kl.Polynomial(2).features(x).round(3).tolist()
    [[1.0, 1.414, 2.828, 1.0, 2.828, 4.0]]
    """

    degree: int  # p, from 1 to 1,000
    offset: float = 1.0  # c ≥ 0

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "degree", as_int("degree", self.degree, minimum=1, maximum=LARGEST_DEGREE)
        )
        object.__setattr__(self, "offset", as_float("offset", self.offset, minimum=0.0))

    def _profile(self, t: Any) -> Any:
        return (t + self.offset) ** self.degree

    def _slopes(self, t: Any) -> tuple[Any, Any]:
        p, u = self.degree, t + self.offset
        second = 0 * u if p == 1 else p * (p - 1) * u ** (p - 2)
        return p * u ** (p - 1), second

    def _features(self, X: Array, xp: Namespace) -> Array:
        p, c = self.degree, self.offset
        block, columns = xp.ones_like(X[:, :1]), []
        index: dict[tuple[int, ...], int] = {}
        for total in range(p + 1):
            names = list(combinations_with_replacement(range(X.shape[1]), total))
            if total > 0:  # every monomial is one of degree one less, times one coordinate
                parents, last = [index[name[:-1]] for name in names], [name[-1] for name in names]
                block = take(block, parents, axis=1) * take(X, last, axis=1)
            index = {name: k for k, name in enumerate(names)}
            if c > 0 or total == p:
                scales = np.sqrt([_multinomial(p, name) * c ** (p - total) for name in names])
                columns.append(block * matching(scales, X))
        return xp.concat(columns, axis=1)

    def feature_dimension(self, dimension: int) -> int:
        extra = 1 if self.offset > 0 else 0
        return math.comb(dimension + self.degree - 1 + extra, self.degree)


def _multinomial(p: int, name: tuple[int, ...]) -> float:
    """p! / (α₁!⋯α_d! (p - |α|)!) for the monomial whose variables, with repeats, are `name`."""
    counts = [name.count(i) for i in set(name)] + [p - len(name)]
    return math.factorial(p) / math.prod(math.factorial(k) for k in counts)
