"""What the learners with full information share: the book of decisions, and losses that are whole functions.

A learner of this kind adds how it draws (`_draw`), what it does with a loss (`_hear`), and its state.
"""

from __future__ import annotations

import abc
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from koloss._arrays import Array, as_float, as_int, as_vector, to_numpy
from koloss.actions import ActionSet, Ball, Box, Points, PositiveBall
from koloss.errors import LossOutOfBounds
from koloss.guarantees import Assumption, Guarantee
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
from koloss.kernels.geometry import feature_diameter, feature_radius
from koloss.learners._former import (
    Decision,
    Decisions,
    decision_ids,
    find_outstanding,
    generator_of,
    generator_state,
    new_mark,
    seal,
    unseal,
)


@dataclass(frozen=True)
class Recommendation:
    """The best action so far by the losses heard.

    Attributes
    ----------
    index : int or None
        Its row in a finite set.
    action : array of shape (d,)
    mean_loss : float
        Its mean loss over all losses heard.
    certificate : str
        Why nothing should be better: "exhaustive", "dual" or "local only".
    """

    index: int | None
    action: Any
    mean_loss: float
    certificate: str


@dataclass(slots=True)
class FullTally:
    """Counts over the whole game."""

    made: int = 0  # decisions
    heard: int = 0  # losses
    late: int = 0  # losses heard after others that came after their decision
    longest_delay: int = 0  # most losses heard between a decision and its own
    delays: int = 0  # Σ of these numbers


@dataclass(frozen=True)
class Game:
    """What stays fixed: where, with which kernel, and what losses may be.

    Attributes
    ----------
    actions : ActionSet
    kernel : Kernel
    horizon : int or None
    norm : float
        Largest RKHS norm of a loss.
    low, high : float or None
        Interval of all losses, where one was promised.
    width : float
        ρ, the largest range of a loss.
    radius, diameter : float
        Of the features: sup ‖Φ(a)‖ and sup ‖Φ(x) - Φ(y)‖, or upper bounds.
    """

    actions: ActionSet
    kernel: Any
    horizon: int | None
    norm: float
    low: float | None
    high: float | None
    width: float
    radius: float
    diameter: float

    @classmethod
    def of(cls, actions: Any, kernel: Any, horizon: Any, loss_norm: Any, loss_range: Any) -> Game:
        """Check the settings that all these learners share."""
        if not isinstance(actions, (Points, Ball, Box, PositiveBall)):
            raise TypeError(
                "`actions` must be Points, a Ball, a Box or a PositiveBall, "
                f"got {type(actions).__name__}"
            )
        if not isinstance(actions, Points) and not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}")
        if not (callable(kernel) and hasattr(kernel, "diag")):
            raise TypeError(
                f"`kernel` must be a Kernel, or have k(X, Y) and k.diag(X), got {type(kernel).__name__}"
            )
        if isinstance(actions, Points):
            actions = Points(
                to_numpy(actions.X).astype(float), covering_radius=actions.covering_radius
            )
        horizon = None if horizon is None else as_int("horizon", horizon, minimum=1)
        radius, diameter = feature_radius(kernel, actions), feature_diameter(kernel, actions)
        norm = (
            max(1.0, radius)
            if loss_norm is None
            else as_float("loss_norm", loss_norm, positive=True)
        )
        low = high = None
        width = norm * diameter
        if loss_range is not None:
            low, high = to_numpy(as_vector("loss_range", loss_range, length=2)).tolist()
            if low >= high:
                raise ValueError(
                    f"`loss_range` must be (low, high) with low < high, got ({low:.6g}, {high:.6g})"
                )
            width = high - low if isinstance(actions, Points) else min(width, high - low)
        return cls(actions, kernel, horizon, norm, low, high, width, radius, diameter)

    @property
    def family(self) -> type[Loss]:
        """In what form losses are kept."""
        for kernel, family in _FAMILIES:
            if isinstance(self.kernel, kernel):
                return family
        return KernelLoss

    def element(self, loss: Any) -> Loss:
        """A loss in the kernel's own form, if it is one of this game's."""
        if not isinstance(loss, Loss):
            raise TypeError(f"`loss` must be a Loss, the whole function, got {type(loss).__name__}")
        if loss.dimension != self.actions.dimension:
            raise ValueError(
                f"`loss` must have dimension {self.actions.dimension}, got {loss.dimension}"
            )
        if (
            isinstance(loss, KernelLoss)
            and self.family is not KernelLoss
            and loss.kernel == self.kernel
        ):
            loss = self.kernel.embed(loss.centers, loss.coefficients)
        if not isinstance(loss, self.family):
            raise TypeError(
                f"`loss` must be a {self.family.__name__} for {self.kernel!r}, got {type(loss).__name__}"
            )
        kernel = getattr(loss, "kernel", self.kernel)
        if kernel != self.kernel:
            raise ValueError(f"`loss` must be one of {self.kernel!r}, got one of {kernel!r}")
        norm = loss.norm()
        if not norm <= self.norm * (1 + 1e-9):
            raise LossOutOfBounds(f"`loss` must have norm at most {self.norm:.6g}, got {norm:.6g}")
        return loss

    def values(self, loss: Any) -> Any:
        """A loss on all points of a finite set: evaluated, or given as an array."""
        points = self.actions
        assert isinstance(points, Points)
        if isinstance(loss, Loss):
            if loss.dimension != points.dimension:
                raise ValueError(
                    f"`loss` must have dimension {points.dimension}, got {loss.dimension}"
                )
            found = to_numpy(loss(points.X))
        elif isinstance(loss, (bool, int, float, str)) or loss is None:
            raise TypeError(
                f"`loss` must be a Loss, or the array of the losses of all points, got {loss!r}"
            )
        else:
            found = to_numpy(as_vector("loss", loss, length=len(points)))
        lowest, highest = float(np.min(found)), float(np.max(found))
        if self.low is not None and self.high is not None:
            slack = 1e-9 * self.width
            if lowest < self.low - slack or highest > self.high + slack:
                raise LossOutOfBounds(
                    f"`loss` must be in [{self.low:.6g}, {self.high:.6g}], got [{lowest:.6g}, {highest:.6g}]"
                )
        elif highest - lowest > self.width * (1 + 1e-9):
            raise LossOutOfBounds(
                f"`loss` must have a range of at most {self.width:.6g}, got {highest - lowest:.6g}"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot."""
        kernel = self.kernel.to_dict() if isinstance(self.kernel, Kernel) else repr(self.kernel)
        return {
            **{name: getattr(self, name) for name in ("horizon", "norm", "low", "high", "width")},
            "radius": self.radius,
            "diameter": self.diameter,
            "kernel": kernel,
            "actions": actions_to_dict(self.actions),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Game:
        """The game in a snapshot. A kernel of the user's own is known by its name alone from then on."""
        kernel = data["kernel"]
        if not isinstance(kernel, str):
            kernel = Kernel.from_dict(kernel)
        return cls(**{**data, "kernel": kernel, "actions": actions_from_dict(data["actions"])})


_FAMILIES: tuple[tuple[type[Kernel], type[Loss]], ...] = (
    (Linear, LinearLoss),
    (Quadratic, QuadraticLoss),
    (Posynomial, PosynomialLoss),
)


class FullInformation(abc.ABC):
    """A learner that is told the whole loss function after each decision."""

    game: Game

    def _begin(self, game: Game, rng: np.random.Generator, mark: str) -> None:
        self.game, self._rng, self._mark = game, rng, mark
        self._tally = FullTally()
        self._outstanding: dict[int, int] = {}  # id: losses heard by then

    # What a learner of this kind adds.

    @abc.abstractmethod
    def _draw(self, count: int) -> tuple[Array, Array | None, Array | None]:
        """Actions, and on a finite set their indices and probabilities."""

    @abc.abstractmethod
    def _understand(self, loss: Any) -> Any:
        """A loss in the form that the learner keeps, if it may be told; changes nothing."""

    @abc.abstractmethod
    def _hear(self, loss: Any, delay: int) -> None:
        """Learn from a loss; `delay` others were heard since its decision."""

    @abc.abstractmethod
    def guarantee(self, *, rounds: int | None = None) -> Guarantee:
        """The regret bound, term by term."""

    @abc.abstractmethod
    def _state(self) -> dict[str, Any]:
        """What changes during the game, beside the book, as plain data."""

    @abc.abstractmethod
    def _load(self, data: dict[str, Any]) -> None:
        """Take such data back, in a learner that has begun."""

    # Ask and tell.

    @property
    def actions(self) -> Any:
        """The actions: an array of shape (N, d) on a finite set, otherwise the set."""
        actions = self.game.actions
        return actions.X if isinstance(actions, Points) else actions

    def ask(self, count: int | None = None) -> Any:
        """Draw an action, or `count` of them.

        Parameters
        ----------
        count : int, optional

        Returns
        -------
        Decision, or Decisions where there is a count
        """
        size = 1 if count is None else as_int("count", count, minimum=1)
        actions, index, probability = self._draw(size)
        first, heard = self._tally.made, self._tally.heard
        self._tally.made += size
        for i in range(first, first + size):
            self._outstanding[i] = heard
        found = Decisions(
            np.arange(first, first + size),
            actions,
            index,
            probability,
            np.full(size, heard),
            self._mark,
        )
        return found[0] if count is None else found

    def tell(self, decision: Any, loss: Any) -> None:
        """Hear the loss function of a decision's round, or those of several, in any order and at any time.

        Parameters
        ----------
        decision : Decision, Decisions, id, or a sequence of these
        loss : Loss, or a sequence of them, one a decision
            The whole function; smaller is better. On a finite set it may be the array of the losses of all
            its points.

        Raises
        ------
        UnknownDecision
            Told already, never made, or made by another learner.
        LossOutOfBounds
            Larger than was promised.
        """
        several = not isinstance(decision, (Decision, int, np.integer))
        ids = decision_ids(decision, self._mark)
        losses = _as_sequence(loss, len(ids)) if several else [loss]
        find_outstanding(self._outstanding, ids, self._tally.made)
        known = [self._understand(one) for one in losses]
        # Nothing can go wrong from here on.
        for i, one in zip(ids, known, strict=True):
            delay = self._tally.heard - self._outstanding.pop(i)
            self._tally.heard += 1
            self._tally.late += delay > 0
            self._tally.delays += delay
            self._tally.longest_delay = max(self._tally.longest_delay, delay)
            self._hear(one, delay)

    # What guarantees share.

    def _rounds(self, rounds: int | None) -> int:
        """The rounds that a guarantee is about: as given, the horizon, or those played."""
        if rounds is not None:
            return as_int("rounds", rounds, minimum=1)
        return self.game.horizon or max(self._tally.made, 1)

    def _assumptions(self, n: int, *, delay: int = 0) -> list[Assumption]:
        """What every bound here assumes."""
        game, tally = self.game, self._tally
        seen = True if tally.heard else None
        found = [
            Assumption("a round's loss does not depend on the coin that draws its action"),
            Assumption(f"every loss has norm at most {game.norm:.6g}", seen),
        ]
        if game.horizon is not None:
            within = max(tally.made, n) <= game.horizon
            found.append(Assumption(f"at most {game.horizon} rounds", within))
        if n > tally.heard:  # what late losses have cost so far is a term of its own
            others = f"after at most {delay} others" if delay else "before the next decision"
            found.append(Assumption(f"losses to come are told {others}"))
        return found

    def _notes(self) -> tuple[str, ...]:
        late = self._tally.late
        return (f"{late} losses came after others",) if late else ()

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """A snapshot: arrays, numbers and strings, with the generator's state."""
        book = list(self._outstanding.items())
        return seal(
            type(self).__name__,
            {
                "game": self.game.to_dict(),
                "mark": self._mark,
                "rng": generator_state(self._rng),
                "tally": asdict(self._tally),
                "outstanding": np.asarray(book, dtype=np.int64).reshape(-1, 2),
                "learner": self._state(),
            },
        )

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """The learner of a snapshot, which goes on exactly where it was taken.

        Raises
        ------
        SnapshotError
            Where the snapshot is damaged, of another kind, or from a newer version.
        """
        data = unseal(cls.__name__, state)
        learner = cls.__new__(cls)
        learner._begin(Game.from_dict(data["game"]), generator_of(data["rng"]), data["mark"])
        learner._load(data["learner"])
        learner._tally = FullTally(**data["tally"])
        learner._outstanding = dict(np.asarray(data["outstanding"]).tolist())
        return learner


def as_printed(printed: bool | None, tuning: str) -> bool:
    """Whether a guarantee is to be the one that the paper prints."""
    if printed and tuning != "paper":
        raise ValueError("`printed` must be left out unless the tuning is the paper's")
    return tuning == "paper" if printed is None else printed


def start(game: Game, rng: Any) -> tuple[Game, np.random.Generator, str]:
    """What `_begin` needs for a new game."""
    return game, np.random.default_rng(rng), new_mark()


def _as_sequence(loss: Any, count: int) -> list[Any]:
    if isinstance(loss, Loss) or loss is None or isinstance(loss, (str, int, float)):
        raise ValueError(
            f"`loss` must be a sequence of {count} losses, one a decision, got {loss!r}"
        )
    losses = list(loss)
    if len(losses) != count:
        raise ValueError(f"`loss` must have {count} entries, one a decision, got {len(losses)}")
    return losses


# Plain data of action sets and losses, arrays kept as arrays.


def actions_to_dict(actions: ActionSet) -> dict[str, Any]:
    """An action set as plain data."""
    if isinstance(actions, Points):
        return {"kind": "Points", "X": actions.X, "covering_radius": actions.covering_radius}
    names = list(getattr(actions, "__dataclass_fields__"))  # noqa: B009
    plain = {name: getattr(actions, name) for name in names}
    return {
        "kind": type(actions).__name__,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()},
    }


def actions_from_dict(data: dict[str, Any]) -> Any:
    """The action set of such data."""
    import koloss.actions

    given = {k: v for k, v in data.items() if k != "kind"}
    return getattr(koloss.actions, data["kind"])(**given)


def loss_to_dict(loss: Loss | None) -> dict[str, Any] | None:
    """A loss as plain data."""
    return None if loss is None else loss.to_dict(arrays=True)


def loss_from_dict(data: dict[str, Any] | None) -> Any:
    """The loss of such data."""
    return None if data is None else Loss.from_dict(data)
