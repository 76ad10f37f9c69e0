"""Exact, independent draws from exp(x'Bx + b'x) on the ball, for every symmetric B and every b.

The paper's sampler for these densities is wrong (its change of variables drops a Jacobian, a branch and the
signs). Here the ball is lifted to a sphere: the first d coordinates of a uniform point of S^(d+1) ⊂ ℝ^(d+2) are
uniform on the ball, so the density is the marginal of a Fisher-Bingham law with B and b padded by zeros. On the
sphere, in the eigenbasis of B, draws are made by rejection from one of several `envelopes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from koloss.core.arrays import (
    as_count,
    as_float,
    as_quadratic_form,
    within_floats,
)
from koloss.core.random import as_generator
from koloss.core.snapshot import kept
from koloss.samplers.envelopes import Angular, Sphere, Split, tilted_envelopes

FUTILE, LEAST = 2**21, 2.0**-16
"""After so many proposals, with no larger share of them accepted, there is no hope."""


class ExactDraws(NamedTuple):
    """Draws, with the envelope they ended on and the share of its proposals that was accepted."""

    points: Any
    acceptance: float
    envelope: str


@kept
class QuadraticBall:
    """Sampler of exp(x'Bx + b'x) on a ball that remembers its last optimum.

    Called once per round with a slowly changing density, it starts its searches where the last ones ended.

    Examples
    --------
    >>> import numpy as np
    >>> sampler = QuadraticBall()
    >>> draws = sampler.draw(np.diag([3.0, -2.0]), [1.0, 0.0], 1000, rng=0)
    >>> draws.points.shape, draws.acceptance > 0.3
    ((1000, 2), True)
    """

    _tangent: float | None = None  # u₀ of the last angular envelope
    _kind: str = ""  # which envelope was best, ...
    _calls: int = 0  # ... and for how many calls

    def draw(
        self, matrix: Any, vector: Any, size: int, *, radius: float = 1.0, rng: Any = None
    ) -> ExactDraws:
        """Independent, exact draws; see `quadratic_ball`."""
        matrix, vector = as_quadratic_form(matrix, vector)
        radius = as_float("radius", radius, positive=True)
        size, rng = as_count("size", size), as_generator(rng)
        sphere, axes, order = _lifted(matrix * radius**2, vector * radius)
        best = self._envelope(sphere)
        batches, kept = [], 0  # draws, of all envelopes tried
        accepted, proposed, tried = 0, 0, False  # by the envelope in use
        while kept < size:
            rate = max(accepted, 1) / max(proposed, 2)
            most = 2**16 if tried else 512  # look again soon, until the envelope has proved itself
            count = int(min(max(1.2 * (size - kept) / rate, 32), most))
            with np.errstate(divide="ignore", invalid="ignore"):  # too narrow: all are refused
                x = best.propose(count, rng)
            batches.append(x)
            kept, accepted, proposed = kept + len(x), accepted + len(x), proposed + count
            if proposed > FUTILE and accepted < LEAST * proposed:
                rule = "must be smaller: the density is too narrow for floating point numbers"
                raise ValueError(f"`matrix` and `vector` {rule}")
            if tried or proposed < 512:
                continue
            tried = True
            if accepted < 0.1 * proposed and kept < size:
                # How many draws are kept does not depend on where they are, so changing the envelope is fair.
                others = [best, Angular.fit(sphere), *tilted_envelopes(sphere)]
                if sphere.values[0] > 0:
                    others.append(Split.fit(sphere))
                chosen = min(others, key=lambda e: e.log_mass)
                if chosen is not best:
                    best, accepted, proposed = chosen, 0, 0
        self._kind = best.name if best.name in ("angular", "tilted") else ""
        points = np.concatenate(batches)[:size]
        unsorted = np.empty_like(points)
        unsorted[:, order] = points
        points = radius * unsorted[:, : len(axes)] @ axes.T
        return ExactDraws(points, accepted / proposed, best.name)

    def look(self, matrix: Any, vector: Any) -> None:
        """Remember the density of a round on the unit ball in which nothing is drawn from it."""
        best = self._envelope(_lifted(matrix, vector)[0])
        self._kind = best.name if best.name in ("angular", "tilted") else ""

    def _envelope(self, sphere: Sphere) -> Any:
        """The envelope of least mass; mostly only the one that was best the last time is fitted."""
        self._calls += 1
        fresh = self._kind == "" or self._calls % 16 == 0
        envelopes: list[Any] = []
        if fresh or self._kind == "angular":
            envelopes.append(Angular.fit(sphere, self._tangent))
            self._tangent = envelopes[0].tangent
        if fresh or self._kind == "tilted":
            envelopes += tilted_envelopes(sphere)
        if not envelopes:
            envelopes.append(Angular.fit(sphere, self._tangent))
        return min(envelopes, key=lambda e: e.log_mass)


def _lifted(matrix: Any, vector: Any) -> tuple[Sphere, Any, Any]:
    """The density on the sphere, in the order of its eigenvalues, their axes on the ball, and that order."""
    values, axes = np.linalg.eigh(matrix)
    order = np.argsort(-np.append(values, [0.0, 0.0]), kind="stable")
    parts = (np.append(part, [0.0, 0.0])[order] for part in (values, axes.T @ vector))
    return Sphere(*parts), axes, order


@within_floats("`matrix`, `vector` and `radius`")
def quadratic_ball(
    matrix: Any, vector: Any, size: int, *, radius: float = 1.0, rng: Any = None
) -> Any:
    """Independent, exact draws from the density ∝ exp(x'Bx + b'x) on the ball |x| ≤ radius, of shape (size, d).

    The matrix B is symmetric: indefinite, singular, with repeated eigenvalues, anything; the vector is b.

    Examples
    --------
    >>> import numpy as np
    >>> x = quadratic_ball(np.diag([50.0, -50.0]), np.zeros(2), 2000, rng=0)
    >>> bool(np.all(np.sum(x**2, axis=1) <= 1)), bool(np.mean(np.abs(x[:, 0])) > 0.9)
    (True, True)
    """
    return QuadraticBall().draw(matrix, vector, size, radius=radius, rng=rng).points
