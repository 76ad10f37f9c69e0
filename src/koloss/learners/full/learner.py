"""Losses that are whole functions: what the learners with full information share.

A loss is checked once, where it is told: it must be an element of the game's RKHS and no larger than promised (`Game`).
A learner of this kind adds how it draws, what it makes of a loss (`_learn_from`), and its state.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from koloss.actions import ActionSet, Points
from koloss.core.arrays import as_vector, to_numpy
from koloss.core.snapshot import kept
from koloss.errors import LossOutOfBounds
from koloss.guarantees.full import FullProblem, Played
from koloss.guarantees.leader import LeaderProblem
from koloss.kernels import Loss
from koloss.kernels.geometry import feature_diameter, feature_radius
from koloss.learners.base import Learner, Recommendation
from koloss.learners.full.settings import FullSettings
from koloss.learners.ledger import Drawn
from koloss.learners.losses import LARGEST
from koloss.learners.sharing import locked
from koloss.learners.waiting import Entry, Law
from koloss.oracles import minimize
from koloss.proxy.pivoted_cholesky import negative_eigenvalue

F = TypeVar("F", bound=FullSettings)

NARROWEST = 1e-12
"""Share of the range of a loss, as its norm has it, below which a promised range would be one of roundings."""


for _numbers in (FullProblem, LeaderProblem):
    kept(_numbers)


@kept
@dataclass(frozen=True)
class Game:
    """What stays fixed: where, with which kernel, and how large losses may be."""

    actions: ActionSet
    kernel: Any
    norm: float  # largest RKHS norm of a loss
    low: float | None  # interval of all losses, where one was promised
    high: float | None
    width: float  # ρ, the largest range of a loss
    radius: float  # of the features: sup ‖Φ(a)‖
    diameter: float  # sup ‖Φ(x) - Φ(y)‖, or an upper bound
    eigenvalue: float = 0.0  # of the kernel, where one below zero was seen
    learned: bool = False  # whether ρ is learned; then `width` is a unit

    @classmethod
    def of(cls, settings: FullSettings) -> Game:
        """The numbers that settings imply."""
        actions, kernel = settings.actions, settings.kernel
        radius, diameter = feature_radius(kernel, actions), feature_diameter(kernel, actions)
        norm = max(1.0, radius) if settings.loss_norm is None else settings.loss_norm
        said = getattr(settings, "loss_range", None)
        learned = said == "learn"
        low, high = (None, None) if said is None or learned else said
        width = 1.0 if learned else norm * diameter
        if low is not None and high is not None:
            if not isinstance(actions, Points) and high - low < NARROWEST * width:
                rule = f"must not be narrower than {NARROWEST:g} of what losses of this norm can range over"
                raise ValueError(f"`loss_range` {rule}, {width:.6g}, got ({low:.6g}, {high:.6g})")
            width = high - low if isinstance(actions, Points) else min(width, high - low)
        eigenvalue = 0.0
        if settings.projects and isinstance(actions, Points):
            eigenvalue = negative_eigenvalue(kernel, actions)
        return cls(actions, kernel, norm, low, high, width, radius, diameter, eigenvalue, learned)

    @property
    def is_finite(self) -> bool:
        """Whether the actions are points."""
        return isinstance(self.actions, Points)

    @property
    def points(self) -> NDArray[np.float64]:
        """The actions of a finite set."""
        points: NDArray[np.float64] = self.actions.X  # type: ignore[attr-defined]
        return points

    def element(self, loss: Any) -> Any:
        """A loss in the kernel's own form, if it is one of this game's."""
        if not isinstance(loss, Loss):
            raise TypeError(f"`loss` must be a Loss, the whole function, got {type(loss).__name__}")
        self._check_dimension(loss)
        own: Loss = self.kernel.own_loss(loss)
        norm = own.norm()
        if not norm <= self.norm * (1 + 1e-9):
            raise LossOutOfBounds(f"`loss` must have norm at most {self.norm:.6g}, got {norm:.6g}")
        return own

    def values(self, loss: Any) -> NDArray[np.float64]:
        """A loss on all points of a finite set: evaluated, or given as an array."""
        if isinstance(loss, Loss):
            self._check_dimension(loss)
            values = to_numpy(loss(self.points))
        elif isinstance(loss, (bool, int, float, str)) or loss is None:
            raise TypeError(
                f"`loss` must be a Loss, or the array of the losses of all points, got {loss!r}"
            )
        else:
            values = to_numpy(as_vector("loss", loss, length=len(self.points)))
        lowest, highest, width = float(np.min(values)), float(np.max(values)), self.width
        if self.low is not None and self.high is not None:
            if lowest < self.low - 1e-9 * width or highest > self.high + 1e-9 * width:
                rule = f"must be in [{self.low:.6g}, {self.high:.6g}]"
                raise LossOutOfBounds(f"`loss` {rule}, got [{lowest:.6g}, {highest:.6g}]")
        elif self.learned:
            if not max(-lowest, highest) <= LARGEST:
                raise LossOutOfBounds(
                    f"`loss` must be at most {LARGEST:g}, got {max(-lowest, highest):g}"
                )
        elif highest - lowest > width * (1 + 1e-9):
            rule = f"must have a range of at most {width:.6g}"
            raise LossOutOfBounds(f"`loss` {rule}, got {highest - lowest:.6g}")
        return values

    def _check_dimension(self, loss: Loss) -> None:
        d = self.actions.dimension
        if loss.dimension != d:
            raise ValueError(f"`loss` must have dimension {d}, got {loss.dimension}")

    def read(self, loss: Any) -> Any:
        """An element of the RKHS in the form that is kept: its values on points, elsewhere as it is."""
        own = self.element(loss)
        return to_numpy(own(self.points)) if self.is_finite else own

    def best(self, total: Any, heard: int, near: Any = None) -> Recommendation:
        """The action of least total loss: of the values on points, or of a loss, found from near an action; None is no loss."""
        rounds, rng = max(heard, 1), np.random.default_rng(0)
        if self.is_finite:
            i = int(np.argmin(total))
            return Recommendation(i, self.points[i], float(total[i]) / rounds, "exhaustive")
        if total is None:  # anything is as good
            any_action = self.actions.sample(1, rng)[0] if near is None else near.copy()
            return Recommendation(None, any_action, 0.0, "exhaustive")
        least = minimize(total, self.actions, near=near, rng=rng)
        return Recommendation(None, least.point, least.value / rounds, least.certificate)


class FullInformation(Learner[F, Law]):
    """A learner that is told the whole loss function after each decision."""

    feedback = "full"
    game: Game
    _total: Any  # Σ of the losses: values on points, elsewhere a loss, or None before the first
    _delay_cost: float = 0.0  # what late losses have cost

    def _start(self, arguments: Mapping[str, Any]) -> tuple[F, Game]:
        """Begin with a constructor's arguments, `locals()` at its beginning."""
        settings: Any = self.settings_type.of(arguments)
        self._begin(settings, arguments["rng"])
        self.game = Game.of(settings)
        self._total = np.zeros(len(self.game.points)) if self.game.is_finite else None
        return self.settings, self.game

    @abc.abstractmethod
    def _learn_from(self, loss: Any, delay: int) -> None:
        """Learn from a loss; `delay` others were heard between its decision and it."""

    # Ask and tell.

    @property
    def actions(self) -> Any:
        return self.game.points if self.game.is_finite else self.game.actions

    def _read_one(self, loss: Any) -> Any:
        """A loss in the form that the learner keeps, or an error; changes nothing."""
        return self.game.read(loss)

    def _read(self, entries: Sequence[Entry[Law]], loss: Any) -> Sequence[Any]:
        return [self._read_one(one) for one in _one_per_decision(loss, len(entries))]

    def _add(self, loss: Any) -> None:
        self._total = loss if self._total is None else self._total + loss

    def _learn(self, law: Law | None, entries: Sequence[Entry[Law]], losses: Sequence[Any]) -> None:
        for entry, loss in zip(entries, losses, strict=True):  # one: there is no law to share
            self._learn_from(loss, self.ledger.heard - 1 - entry.heard)

    @locked
    def recommend(self) -> Recommendation:
        return self._named(self.game.best(self._total, self.ledger.heard))

    def _played(self) -> Played:
        """What guarantees need to know of the game."""
        book = self.ledger
        return Played(book.made, book.heard, book.late, book.longest_delay, book.unheard)

    def _diagnosed(self, learning_rate: float, **more: Any) -> FullDiagnostics:
        book = self.ledger
        return FullDiagnostics(book.made, book.heard, len(book), book.late, learning_rate, **more)


@dataclass(frozen=True)
class FullDiagnostics:
    """What an operator may want to see of these learners; None where one has no such thing."""

    rounds: int  # decisions made
    heard: int  # losses heard
    outstanding: int  # decisions not heard of
    late: int  # losses heard after others that came between their decision and them
    learning_rate: float  # η of the next decision
    # Of Algorithm 2.
    sampler: str | None = None  # how actions are drawn
    entropy: float | None = None  # of the next decision's distribution on a finite set, in nats
    sampling: dict[str, Any] | None = None
    """What the sampler says of itself: the acceptance rate of exact draws; effective size, resamplings and restarts of
    particles; centres kept and the error of compression for kernel expansions."""
    # Of Algorithms 3 and 4.
    mixing: float | None = None  # γ of the next step
    atoms: int | None = None  # actions in the distribution of the next decision
    gap: float | None = (
        None  # Algorithm 3: of the last step, an upper bound on F_t(X_t) - min F_t; 4: of the projection, whose mean is at most √gap from the leader
    )
    height: float | None = None  # what the bound allows of the next one
    certificate: str | None = None  # what the oracle said of its last minimum

    def __str__(self) -> str:
        heard = f"{self.heard} losses heard ({self.late} late)"
        rest = {f.name: getattr(self, f.name) for f in fields(self)[4:]}
        told = {name: value for name, value in rest.items() if value not in (None, {})}
        return f"{self.rounds} decisions, {heard}, {self.outstanding} outstanding\n{_short(told)}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')} {_short(part)}" for name, part in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def drawn(
    count: int | None, points: Any, index: Any = None, probability: Any = None
) -> tuple[None, Drawn]:
    """Actions drawn, as the contract has them: of one decision, or of several."""
    if count is not None:
        return None, Drawn([None] * count, points, index, probability)
    if index is None:
        return None, Drawn((None,), points[0], None, None)
    return None, Drawn((None,), points[0], int(index[0]), float(probability[0]))


def _one_per_decision(loss: Any, count: int) -> list[Any]:
    """Losses of so many decisions; that of a single one may stand alone."""
    alone = isinstance(loss, (Loss, str, bytes, bool, int, float)) or loss is None
    if count == 1 and (alone or not _holds_one(loss)):
        return [loss]
    if alone:
        rule = f"must be a sequence of {count} losses, one per decision"
        raise ValueError(f"`loss` {rule}, got {loss!r}")
    try:
        losses = list(loss)
    except TypeError as error:
        got = type(loss).__name__
        raise TypeError(f"`loss` must be a Loss, or a sequence of losses, got {got}") from error
    if len(losses) != count:
        raise ValueError(f"`loss` must have {count} entries, one per decision, got {len(losses)}")
    return losses


def _holds_one(loss: Any) -> bool:
    """Whether this is a sequence with one loss in it, and not the values of a loss on points."""
    try:
        (first,) = loss
        return isinstance(first, Loss) or np.ndim(first) > 0
    except (TypeError, ValueError):  # nothing to go through, not one, or ragged
        return False
