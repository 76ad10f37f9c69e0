"""Who plays against the learner: every round a loss, bounded in the kernel norm.

An adversary is asked for the loss of a round before the player's coin is thrown. An oblivious one does not look at the
player; the others (`koloss.games.watching`) may look at its distribution, never at its coin.
"""

from __future__ import annotations

import abc
import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from koloss.actions import ActionSet
from koloss.core.arrays import as_float, as_int, as_points, to_numpy
from koloss.core.random import GAMES, as_generator
from koloss.errors import LossOutOfBounds
from koloss.kernels import Kernel, Loss


class Adversary(abc.ABC):
    """A source of losses."""

    oblivious = True  # whether it never looks at the player
    norm: float | None = None  # largest RKHS norm of a loss, checked; None if none is promised

    @abc.abstractmethod
    def choose(self, t: int, player: Any) -> Any:
        """The loss of round t (from 0): a `Loss`, or on points the array of all their losses."""

    def saw(self, t: int, action: Any) -> None:  # noqa: B027  most do not care
        """What was played in round t: on points the index. Told to those that are not oblivious, after the round."""

    def __call__(self, t: int, player: Any = None) -> Any:
        """The loss of round t, checked."""
        loss = self.choose(t, player)
        if self.norm is not None and isinstance(loss, Loss):
            size = loss.norm()
            if not size <= self.norm * (1 + 1e-9):
                rule = f"must have norm at most {self.norm:.6g}, got {size:.6g}"
                raise LossOutOfBounds(f"the loss of round {t} {rule}")
        return loss

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Shown:
    """All that an adversary may see of a player: its law, which is checked; in games with contexts, that of a context."""

    def __init__(self, player: Any, context: Any = None) -> None:
        self._player, self._context = player, context

    @property
    def actions(self) -> Any:
        """Those in play: an array of shape (N, d) on a finite set, otherwise the set."""
        return self._player.actions

    @property
    def distribution(self) -> Any:
        """Probability of every action of a finite set in the next `ask`."""
        if self._context is not None:
            law = self._player.distribution_for(self._context)
        else:
            law = self._player.distribution
        return _checked(law, len(self.actions))

    def peek(self, rng: np.random.Generator, count: int = 64) -> tuple[Any, Any]:
        """Next actions and their weights: all actions of a finite set, otherwise so many draws; changes nothing."""
        if self._context is not None:
            return self.actions, self.distribution
        X, weights = self._player.peek(rng, count)
        return X, _checked(weights, len(X))


def _checked(weights: Any, count: int) -> Any:
    p = np.asarray(to_numpy(weights), dtype=float)
    if p.shape != (count,):
        raise ValueError(f"`distribution` must have shape ({count},), got {p.shape}")
    if not (p.min() >= -1e-9 and abs(p.sum() - 1) <= 1e-6):  # NaN fails, too
        sizes = f"{p.min():.6g} and {p.sum():.6g}"
        raise ValueError(f"`distribution` must be non-negative and sum to 1, got {sizes}")
    return p


class InSpace(Adversary):
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
        self.rng = as_generator(rng, GAMES)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r}, {self.actions!r}, norm={self.norm:g})"

    def element(self) -> Loss:
        """A random element of the largest norm."""
        return self.kernel.random_loss(self.actions, self.norm, rng=self.rng)

    def bump(self, point: Any, sign: float = 1.0) -> Loss:
        """±Φ(y), of the largest norm."""
        return self.kernel.bump(np.asarray(point, dtype=float)[None], sign * self.norm)

    def scaled(self, loss: Loss) -> Loss:
        """The same direction with the largest norm."""
        size = loss.norm()
        return loss * (self.norm / size) if size > 0 else loss


class Random(InSpace):
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


class Biased(InSpace):
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
        self, kernel: Kernel, actions: ActionSet, *, mean: Loss | None = None, bias: float = 1.0, noise: float = 1.0,
        norm: float = 1.0, rng: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.bias = as_float("bias", bias, minimum=0.0)
        self.noise = as_float("noise", noise, minimum=0.0)
        if self.bias + self.noise == 0:
            raise ValueError("`bias` and `noise` must not both be zero")
        self.mean = self.element() if mean is None else self.scaled(mean)

    def choose(self, t: int, player: Any) -> Loss:
        share = self.bias / (self.bias + self.noise)
        return self.mean * share + self.element() * (1 - share)


class Drifting(InSpace):
    """One element turns slowly into another and back: cos·w + sin·w', with a period of so many rounds.

    Parameters
    ----------
    kernel, actions, norm, rng
        As for `Random`.
    period : int
        Rounds of a full turn.
    """

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, period: int = 1000, norm: float = 1.0, rng: Any = None
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.period = as_int("period", period, minimum=1)
        self.first, second = self.element(), self.element()
        if kernel.loss_family.is_one_sided:  # coefficients must not become negative
            self.second = self.element()
            return
        # Orthogonal, so that the norm stays what it is.
        rest = second - (self.first.inner(second) / self.first.inner(self.first)) * self.first
        self.second = self.scaled(rest) if rest.norm() > 1e-9 * self.norm else 0.0 * second

    def choose(self, t: int, player: Any) -> Loss:
        angle = 2 * math.pi * t / self.period
        if self.kernel.loss_family.is_one_sided:
            turn = math.sin(angle) ** 2
            return (1 - turn) * self.first + turn * self.second
        return math.cos(angle) * self.first + math.sin(angle) * self.second


class Switching(InSpace):
    """One element for a while, then another.

    Parameters
    ----------
    kernel, actions, norm, rng
        As for `Random`.
    length : int
        Rounds that each element lasts.
    """

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, length: int = 250, norm: float = 1.0, rng: Any = None
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm, rng=rng)
        self.length = as_int("length", length, minimum=1)
        self._pieces: list[Loss] = []

    def choose(self, t: int, player: Any) -> Loss:
        piece = t // self.length
        while len(self._pieces) <= piece:
            self._pieces.append(self.element())
        return self._pieces[piece]


class Alternating(InSpace):
    """One element and its negative, in turn (of a posynomial: two elements in turn)."""

    def __init__(
        self, kernel: Kernel, actions: ActionSet, *, norm: float = 1.0, rng: Any = None
    ) -> None:
        super().__init__(kernel, actions, norm=norm, rng=rng)
        even = self.element()
        self._two = (even, self.element() if kernel.loss_family.is_one_sided else -even)

    def choose(self, t: int, player: Any) -> Loss:
        return self._two[t % 2]


class RankOne(InSpace):
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
        self, kernel: Kernel, actions: ActionSet, *, points: Any, sign: float = 1.0, norm: float = 1.0
    ) -> None:  # fmt: skip
        super().__init__(kernel, actions, norm=norm)
        self.points = to_numpy(as_points("points", points, dimension=actions.dimension))
        self.sign = math.copysign(1.0, as_float("sign", sign))

    def choose(self, t: int, player: Any) -> Loss:
        return self.bump(self.points[t % len(self.points)], self.sign)


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
                rule = f"must have entries of at most {bound:.6g}"
                raise LossOutOfBounds(f"`table` {rule}, got {worst:.6g}")

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
        self, function: Callable[[int, Any], Any], *, norm: float | None = None, oblivious: bool = False
    ) -> None:  # fmt: skip
        if not callable(function):
            raise TypeError(f"`function` must be callable, got {type(function).__name__}")
        self.function, self.oblivious = function, oblivious
        self.norm = None if norm is None else as_float("norm", norm, positive=True)

    def choose(self, t: int, player: Any) -> Any:
        return self.function(t, player)

    def __repr__(self) -> str:
        return f"Function({getattr(self.function, '__name__', 'function')})"


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
    """A table of numbers, whose first line may name the columns; what follows a # does not count."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = next(csv.reader(file), [])
    head = int(not any(map(_is_number, first)))
    try:
        return np.loadtxt(
            path, delimiter=",", quotechar='"', encoding="utf-8-sig", skiprows=head, ndmin=2
        )
    except ValueError as error:
        problem = f"must hold as many numbers between commas in every line, got {error}"
        raise ValueError(f"`table` {problem} of {path.name}") from error


def _is_number(text: str) -> bool:
    try:
        return bool(math.isfinite(float(text)))
    except ValueError:
        return False
