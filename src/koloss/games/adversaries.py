"""Who plays against the learner: every round a loss, bounded in the kernel norm.

An adversary is asked for the loss of a round before the player's coin is thrown. An oblivious one does not look at the
player; the others may look at its distribution, never at its coin.
"""

from __future__ import annotations

import abc
import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from koloss._arrays import as_float, as_int, as_points, to_numpy
from koloss.actions import ActionSet, Points
from koloss.errors import LossOutOfBounds
from koloss.kernels import (
    Kernel,
    KernelLoss,
    Linear,
    LinearLoss,
    Loss,
    Posynomial,
    PosynomialLoss,
    Quadratic,
    QuadraticLoss,
)


class Adversary(abc.ABC):
    """A source of losses.

    Attributes
    ----------
    oblivious : bool
        Whether it never looks at the player.
    norm : float or None
        Largest RKHS norm of a loss, checked in every round; None where nothing is promised.
    """

    oblivious = True
    norm: float | None = None

    @abc.abstractmethod
    def choose(self, t: int, player: Any) -> Any:
        """The loss of round t (from 0): a `Loss`, or on points the array of all their losses."""

    def __call__(self, t: int, player: Any = None) -> Any:
        """The loss of round t, checked."""
        return self._checked(t, self.choose(t, player))

    def _checked(self, t: int, loss: Any) -> Any:
        if self.norm is not None and isinstance(loss, Loss):
            size = loss.norm()
            if not size <= self.norm * (1 + 1e-9):
                raise LossOutOfBounds(
                    f"the loss of round {t} must have norm at most {self.norm:.6g}, got {size:.6g}"
                )
        return loss

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InSpace(Adversary):
    """What adversaries in the RKHS of a kernel share: random elements of a given norm."""

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, norm: float = 1.0, rng: Any = None
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        if not isinstance(actions, ActionSet):
            raise TypeError(f"`actions` must be an ActionSet, got {type(actions).__name__}")
        self.kernel, self.actions = kernel, actions
        self.norm: float = as_float("norm", norm, positive=True)
        self.rng = np.random.default_rng(rng)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r}, {self.actions!r}, norm={self.norm:g})"

    def element(self) -> Loss:
        """A random element of the largest norm: a direction, a matrix and a vector, coefficients, or a bump."""
        x = self.coordinates()
        if x is not None:
            return self.from_coordinates(x)
        return self.bump(
            to_numpy(self.actions.sample(1, self.rng))[0], self.rng.choice([-1.0, 1.0])
        )

    def coordinates(self) -> Any:
        """Coordinates of a random element in an orthonormal basis, where the kernel has its own form of losses."""
        d, rng = self.actions.dimension, self.rng
        if isinstance(self.kernel, Linear):
            x = rng.standard_normal(d)
        elif isinstance(self.kernel, Quadratic):
            A = rng.standard_normal((d, d))
            x = np.append((A + A.T) / 2, rng.standard_normal(d))  # ‖w‖² = ‖A‖² + |b|²
        elif isinstance(self.kernel, Posynomial):
            x = rng.random(len(self.kernel.exponents))
        else:
            return None
        return x * (self.norm / np.linalg.norm(x))

    def from_coordinates(self, x: Any) -> Loss:
        """The loss with such coordinates."""
        d = self.actions.dimension
        if isinstance(self.kernel, Linear):
            return LinearLoss(x)
        if isinstance(self.kernel, Quadratic):
            return QuadraticLoss(x[: d * d].reshape(d, d), x[d * d :])
        assert isinstance(self.kernel, Posynomial)
        return PosynomialLoss(self.kernel, x)

    def bump(self, point: Any, sign: float = 1.0) -> Loss:
        """±Φ(y), of the largest norm."""
        y = np.asarray(point, dtype=float)[None]
        if isinstance(self.kernel, (Linear, Quadratic, Posynomial)):
            return self.scaled(sign * self.kernel.embed(y))
        size = math.sqrt(float(self.kernel.diag(y)[0]))
        return KernelLoss(self.kernel, y, [sign * self.norm / size if size > 0 else sign])

    def scaled(self, loss: Loss) -> Loss:
        """The same direction with the largest norm."""
        size = loss.norm()
        return loss * (self.norm / size) if size > 0 else loss


class Random(_InSpace):
    """A fresh random element every round.

    Parameters
    ----------
    kernel : Kernel
    actions : ActionSet
    norm : float
        RKHS norm of every loss.
    rng : seed or Generator, optional

    Examples
    --------
    >>> import koloss as kl
    >>> adversary = kl.games.Random(kl.Quadratic(), kl.Ball(3), rng=0)
    >>> round(adversary(0).norm(), 12)
    1.0
    """

    def choose(self, t: int, player: Any) -> Loss:
        return self.element()


class Biased(_InSpace):
    """A fixed mean plus noise: `bias` times one element and `noise` times a fresh one, scaled to the norm.

    Parameters
    ----------
    kernel, actions, norm, rng
        As for `Random`.
    mean : Loss, optional
        Direction of the fixed part; a random element by default.
    bias, noise : float
    """

    def __init__(
        self,
        kernel: Kernel,
        actions: ActionSet,
        *,
        mean: Loss | None = None,
        bias: float = 1.0,
        noise: float = 1.0,
        norm: float = 1.0,
        rng: Any = None,
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.bias = as_float("bias", bias, minimum=0.0)
        self.noise = as_float("noise", noise, minimum=0.0)
        if self.bias + self.noise == 0:
            raise ValueError("`bias` and `noise` must not both be zero")
        self._base = self.coordinates() if mean is None else None
        if self._base is not None:
            self.mean = self.from_coordinates(self._base)
        else:
            self.mean = self.element() if mean is None else self.scaled(mean)

    def choose(self, t: int, player: Any) -> Loss:
        share = self.bias / (self.bias + self.noise)
        if self._base is not None:  # the same in numbers, which is faster
            return self.from_coordinates(share * self._base + (1 - share) * self.coordinates())
        fresh = self.element()
        if isinstance(self.mean, KernelLoss) and isinstance(fresh, KernelLoss):
            return KernelLoss(
                self.kernel,
                np.concatenate([to_numpy(self.mean.centers), to_numpy(fresh.centers)]),
                np.append(share * self.mean.coefficients, (1 - share) * fresh.coefficients),
            )
        return share * self.mean + (1 - share) * fresh


class Drifting(_InSpace):
    """One element turns slowly into another and back: cos·w + sin·w', with a period of so many rounds.

    Parameters
    ----------
    kernel, actions, norm, rng
        As for `Random`.
    period : int
        Rounds of a full turn.
    """

    def __init__(
        self,
        kernel: Kernel,
        actions: ActionSet,
        *,
        period: int = 1000,
        norm: float = 1.0,
        rng: Any = None,
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.period = as_int("period", period, minimum=1)
        self.first, second = self.element(), self.element()
        # Orthogonal, so that the norm stays what it is.
        rest = second - (self.first.inner(second) / self.first.inner(self.first)) * self.first
        self.second = self.scaled(rest) if rest.norm() > 1e-9 * self.norm else 0.0 * second

    def choose(self, t: int, player: Any) -> Loss:
        angle = 2 * math.pi * t / self.period
        if isinstance(self.kernel, Posynomial):  # coefficients must not become negative
            turn = math.sin(angle) ** 2
            return (1 - turn) * self.first + turn * self._mate
        return math.cos(angle) * self.first + math.sin(angle) * self.second

    @property
    def _mate(self) -> Loss:
        if not hasattr(self, "_second"):
            self._second = self.element()
        return self._second


class Switching(_InSpace):
    """One element for a while, then another.

    Parameters
    ----------
    kernel, actions, norm, rng
        As for `Random`.
    length : int
        Rounds that each element lasts.
    """

    def __init__(
        self,
        kernel: Kernel,
        actions: ActionSet,
        *,
        length: int = 250,
        norm: float = 1.0,
        rng: Any = None,
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.length = as_int("length", length, minimum=1)
        self._pieces: list[Loss] = []

    def choose(self, t: int, player: Any) -> Loss:
        piece = t // self.length
        while len(self._pieces) <= piece:
            self._pieces.append(self.element())
        return self._pieces[piece]


class Alternating(_InSpace):
    """One element and its negative, in turn (of a posynomial: two elements in turn)."""

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, norm: float = 1.0, rng: Any = None
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        even = self.element()
        self._two = (even, self.element() if isinstance(kernel, Posynomial) else -even)

    def choose(self, t: int, player: Any) -> Loss:
        return self._two[t % 2]


class RankOne(_InSpace):
    """±Φ(y_t) for a given sequence of points, repeated when it ends.

    Parameters
    ----------
    kernel, actions, norm
        As for `Random`.
    points : array of shape (T, d)
        y.
    sign : float
        1 where the points are to be avoided, -1 where they are to be found.
    """

    def __init__(
        self,
        kernel: Kernel,
        actions: ActionSet,
        *,
        points: Any,
        sign: float = 1.0,
        norm: float = 1.0,
    ) -> None:
        super().__init__(kernel, actions, norm=norm)
        self.points = to_numpy(as_points("points", points, dimension=actions.dimension))
        self.sign = math.copysign(1.0, as_float("sign", sign))

    def choose(self, t: int, player: Any) -> Loss:
        return self.bump(self.points[t % len(self.points)], self.sign)


class Predictive(_InSpace):
    """Sees the player's distribution, not its coin, and puts the loss where the player is most likely.

    On points it plays Φ of the likeliest one; elsewhere the mean of Φ over the player's distribution, the element that
    costs the player most on average.
    """

    oblivious = False

    def choose(self, t: int, player: Any) -> Loss:
        X, p = peek(player, self.rng)
        if isinstance(self.actions, Points):
            return self.bump(X[int(np.argmax(p))])
        return self.scaled(self.kernel.embed(X, p))


class Lure(_InSpace):
    """Sees the player's distribution, and is good where the player is least likely. For points.

    The reward stays at one place for `patience` rounds, then moves to where the player is least likely by then.
    """

    oblivious = False

    def __init__(
        self,
        kernel: Kernel,
        actions: ActionSet,
        *,
        patience: int = 1,
        norm: float = 1.0,
        rng: Any = None,
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        if not isinstance(actions, Points):
            raise TypeError(f"`actions` must be Points for a lure, got {type(actions).__name__}")
        self.patience = as_int("patience", patience, minimum=1)
        self._place: Any = None

    def choose(self, t: int, player: Any) -> Loss:
        if self._place is None or t % self.patience == 0:
            X, p = peek(player, self.rng)
            self._place = X[int(np.argmin(p))]
        return self.bump(self._place, -1.0)


class Replay(Adversary):
    """A table of losses on points: row t has the losses of round t, repeated when it ends.

    Parameters
    ----------
    table : array of shape (T, N), or a path
        Of a .npy, .csv or .parquet file (the last needs pyarrow).
    bound : float, optional
        Largest absolute value; checked.

    Examples
    --------
    >>> import koloss as kl
    >>> kl.games.Replay([[0.0, 1.0], [1.0, 0.0]])(3).tolist()
    [1.0, 0.0]
    """

    def __init__(self, table: Any, *, bound: float | None = None) -> None:
        if isinstance(table, (str, Path)):
            table = _read(Path(table))
        self.table = to_numpy(as_points("table", table)).astype(float)
        if bound is not None:
            bound = as_float("bound", bound, positive=True)
            worst = float(np.abs(self.table).max())
            if worst > bound:
                raise LossOutOfBounds(
                    f"`table` must have entries of at most {bound:.6g}, got {worst:.6g}"
                )

    def choose(self, t: int, player: Any) -> Any:
        return self.table[t % len(self.table)]

    def __repr__(self) -> str:
        return f"Replay({self.table.shape[0]} rounds, {self.table.shape[1]} points)"


class Function(Adversary):
    """Any function of the user's: (t, player) -> Loss, or on points the array of all losses.

    Parameters
    ----------
    function : callable
    norm : float, optional
        Largest RKHS norm of a loss; checked.
    oblivious : bool
        Whether the function never looks at the player: then rounds may be asked for in advance.

    Examples
    --------
    >>> import koloss as kl
    >>> adversary = kl.games.Function(lambda t, player: kl.LinearLoss([(-1.0) ** t]), norm=1.0)
    >>> adversary(3).vector.tolist()
    [-1.0]
    """

    def __init__(
        self,
        function: Callable[[int, Any], Any],
        *,
        norm: float | None = None,
        oblivious: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}")
        self.function, self.oblivious = function, oblivious
        self.norm = None if norm is None else as_float("norm", norm, positive=True)

    def choose(self, t: int, player: Any) -> Any:
        return self.function(t, player)

    def __repr__(self) -> str:
        return f"Function({getattr(self.function, '__name__', 'function')})"


def peek(player: Any, rng: np.random.Generator, count: int = 64) -> tuple[Any, Any]:
    """Actions and probabilities of the player's next decision; fresh draws of it where it has a density.

    Nothing of the player changes: a copy is asked, with random numbers of its own.
    """
    if player is None:
        raise ValueError("`player` must be a learner: this adversary looks at its distribution")
    if isinstance(player.actions, np.ndarray) and not hasattr(player, "mixture"):
        return player.actions, player.distribution
    copy = type(player).from_state(player.state())
    if hasattr(copy, "mixture"):
        found: tuple[Any, Any] = copy.mixture
        return found
    copy._rng = rng
    return copy.ask(count).action, np.full(count, 1 / count)


def _read(path: Path) -> Any:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if path.suffix == ".csv":
        return _read_csv(path)
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        return np.column_stack([column.to_numpy() for column in table.itercolumns()])
    raise ValueError(f"`table` must be a .npy, .csv or .parquet file, got {path.name}")


def _read_csv(path: Path) -> Any:
    """A table of numbers, whose first line may name the columns; lines that are empty or begin with # do not count."""
    rows: list[list[float]] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file)
        for cells in lines:
            if not "".join(cells).strip() or cells[0].startswith("#"):
                continue
            where = f"{path.name}, line {lines.line_num}"
            try:
                row = [float(cell) for cell in cells]
            except ValueError as error:
                if lines.line_num == 1:
                    continue
                raise ValueError(f"`table` must hold numbers alone: {error} in {where}") from error
            if rows and len(row) != len(rows[0]):
                expected = f"{len(rows[0])} numbers in every line"
                raise ValueError(f"`table` must have {expected}, got {len(row)} in {where}")
            rows.append(row)
    return np.array(rows)
