"""The mean action of the conditional gradient method, and a distribution over actions with that mean.

Every step mixes in one atom, v, with weight γ: D ← (1 - γ)D + γδ_v and X ← (1 - γ)X + γΦ(v).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from koloss.core.arrays import to_numpy
from koloss.core.snapshot import ExtendedVector, Matrix, Vector, kept
from koloss.kernels import Loss
from koloss.learners.full.learner import Game
from koloss.oracles import Minimum, minimize

WARM_LIMIT = 100_000
"""Most steps of the warm start; theory A4 asks for about 1.2 (D/ϱ) √n."""

KEPT = 1_000_000
"""Most numbers in the columns of a kernel that are kept."""

NEGLIGIBLE = 2.0**-54
"""Atoms whose weights together are below rounding are dropped."""

LARGE = 2.0**500
"""Sum of the u beyond which they are scaled down."""


@kept
@dataclass
class Mixture:
    """D ← (1 - γ)D + γδ_v, over and over; drawn from in logarithmic time.

    The weight of atom i is u_i/Σu with u growing instead of the others shrinking, so that one step changes one
    number; the cumulative sums of u, which never change either, are what a draw searches.

    Examples
    --------
    >>> import numpy as np
    >>> mixture = Mixture.of(np.array([[0.0]]))
    >>> mixture.mix(0.5, np.array([1.0]))
    >>> mixture.mix(0.5, np.array([2.0]))
    >>> mixture.atoms[:, 0].tolist(), mixture.weights.tolist()
    ([0.0, 1.0, 2.0], [0.25, 0.25, 0.5])
    """

    rows: Any  # atoms, with room for more
    sums: ExtendedVector  # cumulative sums of u, of the same length
    size: int

    @classmethod
    def of(cls, atoms: Any) -> Mixture:
        """One atom, in a row of its own."""
        return cls(np.array(atoms), np.ones(1), 1)

    @property
    def atoms(self) -> Any:
        """The atoms, oldest first."""
        return self.rows[: self.size]

    @property
    def weights(self) -> Any:
        """Their probabilities."""
        u = np.diff(self.sums[: self.size], prepend=0.0)
        return u / u.sum()

    def mix(self, gamma: float, atom: Any) -> None:
        """Take a share γ of all weights and give it to a new atom."""
        if gamma >= 1:
            self.rows, self.sums, self.size = np.array(atom)[None], np.ones(1), 1
            return
        if self.size == len(self.rows) or self.sums[self.size - 1] > LARGE:
            self._make_room()
        total = self.sums[self.size - 1]
        self.rows[self.size] = atom
        self.sums[self.size] = total + gamma / (1 - gamma) * total
        self.size += 1

    def draw(self, uniform: Any) -> Any:
        """Positions of atoms, for uniform numbers in [0, 1)."""
        sums = self.sums[: self.size]
        return np.minimum(sums.searchsorted(uniform * sums[-1], side="right"), self.size - 1)

    def _make_room(self) -> None:
        """Drop old atoms that no longer count, scale, and double the room."""
        sums = self.sums[: self.size]
        first = int(sums.searchsorted(NEGLIGIBLE * sums[-1], side="right"))
        first = min(first, self.size - 1)
        before = sums[first - 1] if first else 0.0
        kept = (sums[first:] - before) / (sums[-1] - before)
        room = max(2 * len(kept), 64)
        rows = np.zeros((room, *self.rows.shape[1:]), dtype=self.rows.dtype)
        rows[: len(kept)] = self.rows[first : self.size]
        self.rows, self.sums, self.size = rows, np.zeros(room), len(kept)
        self.sums[: self.size] = kept


@kept
class MeanAction:
    """X, a mixture with that mean, and the centre c of the regulariser.

    Elements of the RKHS are losses of the game's family: a matrix and a vector, coefficients, an expansion.
    """

    game: Game
    mixture: Mixture
    mean: Any
    centre: Any

    def __init__(self, game: Game, first: Any, *, centred: bool) -> None:
        self.game = game
        atom = first
        if first is None:  # the centre of the set
            middle = np.mean(game.actions.bounds(), axis=0)
            atom = game.actions.project(middle[None])[0]  # type: ignore[attr-defined]
        self.mixture = Mixture.of(np.asarray(atom)[None])
        self.mean = game.kernel.embed(atom)
        self.centre = self.mean if centred else 0.0 * self.mean

    def inner(self, element: Any) -> float:
        """⟨X, Y⟩ of an element Y."""
        return float(element.inner(self.mean))

    def gradient(self, eta: float, total: Any) -> Any:
        """∇F(X) = η Σ w_s + 2(X - c)."""
        gradient = 2.0 * (self.mean - self.centre)
        return gradient if total is None else gradient + eta * total

    def vertex(self, gradient: Any, rng: Any) -> Minimum:
        """v = argmin_a ⟨∇F(X), Φ(a)⟩."""
        return minimize(gradient, self.game.actions, near=self.mixture.atoms[-1], rng=rng)

    def gap(self, gradient: Any, vertex: Minimum) -> float:
        """⟨∇F(X), X - Φ(v)⟩, an upper bound on F(X) - min F; infinite where nothing is proved."""
        if vertex.certificate == "local only":
            return math.inf
        return max(self.inner(gradient) - vertex.lower_bound, 0.0)

    def distance(self, vertex: Minimum) -> float:
        """‖X - Φ(v)‖² of the vertex for the gradient 2X."""
        step = self.game.kernel.embed(vertex.point) - self.mean
        return float(step.inner(step))

    def move(self, gamma: float, vertex: Minimum) -> None:
        """X ← (1 - γ)X + γΦ(v), and the mixture likewise."""
        kernel = self.game.kernel
        self.mixture.mix(gamma, vertex.point)
        if self.mean.is_expansion:  # its centres are the atoms: some are dropped
            self.mean = kernel.embed(self.mixture.atoms, self.mixture.weights)
        else:
            self.mean = (1 - gamma) * self.mean + gamma * kernel.embed(vertex.point)

    def warm_start(self, height: float, rng: Any) -> tuple[float, str]:
        """Steps on ‖Y‖² with exact line search, until the gap is at most h̄; the gap, and what proves it."""
        for _ in range(WARM_LIMIT):
            square = self.inner(self.mean)
            if square <= height and not self.game.is_finite:  # min ‖Y‖² is not negative
                return square, "dual"
            vertex = self.vertex(2.0 * self.mean, rng)
            gap, distance = 2 * square - vertex.value, self.distance(vertex)
            if gap <= height or distance <= 0:  # zero by rounding, where features are almost equal
                break
            self.move(min(1.0, gap / (2 * distance)), vertex)
        error = vertex.gap if vertex.certificate != "local only" else 0.0
        return max(gap + error, 0.0), vertex.certificate

    def draw(self, uniform: Any) -> tuple[Any, Any, Any]:
        """Actions, and on points their rows and probabilities, for uniform numbers in [0, 1)."""
        return self.mixture.atoms[self.mixture.draw(uniform)].copy(), None, None

    def atoms(self) -> Any:
        """The actions of the mixture."""
        return self.mixture.atoms.copy()

    def element(self) -> Loss:
        """X as an element of the RKHS."""
        mean: Loss = self.mean
        return mean


@kept
class MeanOnPoints(MeanAction):
    """The same with elements of the RKHS as their values on N points: O(N) per round, one column of the kernel."""

    X: Matrix
    p: Vector  # all weights of the mixture, by point

    def __init__(self, game: Game, first: Any, *, centred: bool) -> None:
        self.game, self.X = game, game.points
        self._restored()
        if first is None:  # the point of smallest norm in the RKHS
            atom = int(np.argmin(to_numpy(game.kernel.diag(self.X))))
        else:
            atom = int(np.argmin(np.linalg.norm(self.X - first[None], axis=1)))
        self.mixture = Mixture.of(np.asarray([atom]))
        self.p = np.zeros(len(self.X))
        self.p[atom] = 1.0
        self.mean = self._column(atom).copy()
        self.centre = self.mean.copy() if centred else np.zeros(len(self.X))

    def _restored(self) -> None:
        self._columns: dict[int, Any] = {}

    def _column(self, i: int) -> Any:
        """K(a, a_i) for every point a; kept, as steps return to their vertices."""
        column = self._columns.get(i)
        if column is None:
            column = to_numpy(self.game.kernel(self.X, self.X[i : i + 1]))[:, 0]
            if (len(self._columns) + 1) * len(column) > KEPT:
                self._columns.clear()
            self._columns[i] = column
        return column

    def inner(self, element: Any) -> float:
        return float(self.p @ element)

    def vertex(self, gradient: Any, rng: Any) -> Minimum:
        i = int(np.argmin(gradient))
        return Minimum(self.X[i], float(gradient[i]), 0.0, "exhaustive", index=i)

    def distance(self, vertex: Minimum) -> float:
        square = to_numpy(self.game.kernel.diag(vertex.point[None])).item()
        return self.inner(self.mean) - vertex.value + float(square)

    def move(self, gamma: float, vertex: Minimum) -> None:
        i: Any = vertex.index
        self.mean = (1 - gamma) * self.mean + gamma * self._column(i)
        self.p = (1 - gamma) * self.p
        self.p[i] += gamma
        self.mixture.mix(gamma, i)

    def draw(self, uniform: Any) -> tuple[Any, Any, Any]:
        index = self.mixture.atoms[self.mixture.draw(uniform)]
        return self.X[index], index, self.p[index]

    def atoms(self) -> Any:
        return self.X[self.mixture.atoms]

    def element(self) -> Loss:
        mean: Loss = self.game.kernel.embed(self.X[self.p > 0], self.p[self.p > 0])
        return mean
